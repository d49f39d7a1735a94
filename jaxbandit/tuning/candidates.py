"""Searches: which candidates are worth judging. Each is deterministic, and asks for means of many candidates at once.

*grid* and *sobol* propose all their points at once, and all of them are judged. The others simulate first: *halving*
keeps a quarter of the points again and again, with four times the runs, *optuna* proposes by what it has seen,
*gradient* climbs. They hand over finalists, which were chosen by runs that the judge does not use.
"""

import itertools
import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxbandit.errors import BadInput
from jaxbandit.space import Choice, Domain
from jaxbandit.study.summary import identity
from jaxbandit.tuning.options import Open, TuneOptions


class Point(NamedTuple):
    """Holds a candidate: the number of its policy in the study, and the parameters that it is given."""

    policy: int
    given: Mapping[str, Any]


Means = Callable[[Sequence[Point], int], np.ndarray]
"""A function from points and a number of runs to their means (float64, higher is better; NaN where a run has no
value). Runs are numbered from 0, so that the same points with more runs keep those that they had."""

Alike = Callable[[Sequence[Point]], Sequence[Any]]
"""A function from points to what is equal for those of them that are one candidate."""

_log = logging.getLogger("jaxbandit")

FINALISTS = 8
_MOST_COMBINATIONS = 1 << 16
_FIRST_RUNS, _AT_ONCE = 32, 32
_FEW_RUNS, _QUARTER = 16, 4
_CLIMBS, _PAIRS, _WIDTH, _RATE = 24, 8, 0.1, 0.08


def _same_given(points: Sequence[Point]) -> list[Any]:
    return [(point.policy, identity(point.given)) for point in points]


def finalists(options: TuneOptions, means: Means, seed: int, alike: Alike = _same_given) -> list[Point]:
    """Returns the candidates to judge, the default of each policy first.

    ``means``: see ``Means``; *grid* and *sobol* do not call it. ``alike``: see ``Alike``; the others hand over no
    candidate twice.
    """
    defaults = [Point(number, dict(each.given)) for number, each in enumerate(options.policies) if each.complete]
    if not any(each.axes for each in options.policies):
        return defaults
    search = {"grid": _grid, "sobol": _sobol, "halving": _halving, "optuna": _optuna, "gradient": _gradient}
    points = [*defaults, *search[options.search](options, means, seed, alike)]
    return _best(points, np.zeros(len(points)), len(points), _same_given)


def _shares(options: TuneOptions) -> Iterator[tuple[int, Open, int]]:
    """Yields the policies with something open, by number, with the candidates that each gets."""
    opened = [(number, each) for number, each in enumerate(options.policies) if each.axes]
    for number, each in opened:
        yield number, each, max(1, options.candidates // len(opened))


def _grid(options: TuneOptions, means: Means, seed: int, alike: Alike) -> list[Point]:
    found = []
    for number, policy, share in _shares(options):
        choices = {name: axis.values for name, axis in policy.axes.items() if isinstance(axis, Choice)}
        ranges = {name: axis for name, axis in policy.axes.items() if name not in choices}
        rows = _combinations(policy, choices, share)
        steps = max(1, int((share / len(rows)) ** (1 / len(ranges)) + 1e-9)) if ranges else 0
        for name, axis in ranges.items():
            rows = [{**row, name: value} for row in rows for value in axis.spread(steps)]
        found += [Point(number, policy.proposed(row)) for row in rows]
    return found


def _combinations(policy: Open, choices: Mapping[str, Sequence[Any]], most: int) -> list[dict[str, Any]]:
    """Returns the combinations of choices; of those that differ only in what does not matter, the first one."""
    distinct: dict[str, dict[str, Any]] = {}
    for number, values in enumerate(itertools.product(*choices.values())):
        if number < _MOST_COMBINATIONS:
            row = dict(zip(choices, values, strict=True))
            distinct.setdefault(identity(policy.proposed(row)), row)
        if number >= _MOST_COMBINATIONS or len(distinct) > most:
            raise BadInput(
                "tune.candidates", most, f"a larger number, for the lists of {policy.kind} alone; or search = sobol"
            )
    return list(distinct.values())


def _sobol(options: TuneOptions, means: Means, seed: int, alike: Alike) -> list[Point]:
    from scipy.stats import qmc

    found = []
    for number, policy, share in _shares(options):
        cube = qmc.Sobol(len(policy.axes), scramble=True, rng=seed).random_base2(max(1, share).bit_length())[:share]
        found += [_at(number, policy, place) for place in cube]
    return found


def _at(number: int, policy: Open, place: np.ndarray) -> Point:
    """Returns the candidate at a place of the unit cube of a policy's axes."""
    own = {name: axis.at(float(share)) for (name, axis), share in zip(policy.axes.items(), place, strict=True)}
    return Point(number, policy.proposed(own))


def _best(points: Sequence[Point], values: np.ndarray, count: int, alike: Alike) -> list[Point]:
    """Returns the points of the highest values, of points that are alike the first one, in their order."""
    distinct: dict[Any, int] = {}
    same = alike(points)
    for place in np.argsort(-np.where(np.isfinite(values), values, -np.inf), kind="stable").tolist():
        distinct.setdefault(same[place], place)
    return [points[place] for place in sorted([*distinct.values()][:count])]


def _halving(options: TuneOptions, means: Means, seed: int, alike: Alike) -> list[Point]:
    """Halves the candidates successively (Karnin, Koren and Somekh 2013) on runs that all share, by quarters: runs of
    one number are paired, so few of them tell what is far behind."""
    points, runs = _sobol(options, means, seed, alike), _FEW_RUNS
    points = _best(points, np.zeros(len(points)), len(points), alike)
    while len(points) > FINALISTS:
        points = _best(points, means(points, runs), max(FINALISTS, len(points) // _QUARTER), alike)
        runs *= _QUARTER
    return points


def _optuna(options: TuneOptions, means: Means, seed: int, alike: Alike) -> list[Point]:
    try:
        import optuna
    except ImportError:
        raise BadInput("tune.search", "optuna", "another search, or: pip install 'jaxbandit[tune]'") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    opened = {str(number): (number, each) for number, each, _ in _shares(options)}
    sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=True, n_startup_trials=_AT_ONCE)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    points: list[Point] = []
    values: list[float] = []
    while len(points) < options.candidates:
        trials = [study.ask() for _ in range(min(_AT_ONCE, options.candidates - len(points)))]
        asked = []
        for trial in trials:
            name = trial.suggest_categorical("policy", list(opened)) if len(opened) > 1 else next(iter(opened))
            number, policy = opened[name]
            own: dict[str, Any] = {}
            for key, axis in policy.axes.items():
                if policy.matters(key, own):
                    own[key] = _suggested(trial, f"{name}.{key}", axis)
            asked.append(Point(number, {**policy.given, **own}))
        for trial, value in zip(trials, found := means(asked, 4 * _FIRST_RUNS), strict=True):
            if math.isfinite(value):
                study.tell(trial, float(value))
            else:
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
        points += asked
        values += found.tolist()
    return _best(points, np.array(values), FINALISTS, alike)


def _suggested(trial: Any, name: str, axis: Domain) -> Any:
    if isinstance(axis, Choice):
        return axis.values[trial.suggest_categorical(name, list(range(len(axis.values))))]
    if axis.whole:
        return trial.suggest_int(name, int(axis.low), int(axis.high), log=axis.log)
    return trial.suggest_float(name, axis.low, axis.high, log=axis.log)


def _gradient(options: TuneOptions, means: Means, seed: int, alike: Alike) -> list[Point]:
    """Climbs by Adam on the score function's gradient: the mean over a normal distribution of places is climbed, not
    the mean at a place, so that steps and whole numbers do no harm. Pairs of opposite places share their runs: each is
    the other's baseline."""
    import jax.numpy as jnp
    import optax

    found: list[Point] = []
    for number, policy, _ in _shares(options):
        if any(isinstance(axis, Choice) for axis in policy.axes.values()):
            raise BadInput(
                "tune.search",
                "gradient",
                f"a search that takes lists, as {policy.kind} has one; a gradient takes ranges alone",
            )
        rng, adam = np.random.default_rng([seed, number]), optax.adam(_RATE)
        centre = jnp.full(len(policy.axes), 0.5)
        memory, seen = adam.init(centre), []
        for _ in range(_CLIMBS):
            way = _WIDTH * rng.standard_normal((_PAIRS, len(policy.axes)))
            places = np.clip(np.concatenate([np.asarray(centre) + way, np.asarray(centre) - way]), 0, 1)
            points = [_at(number, policy, place) for place in places]
            values = means(points, _FIRST_RUNS)
            seen += [(value, point) for value, point in zip(values, points, strict=True) if math.isfinite(value)]
            rise = (values[:_PAIRS] - values[_PAIRS:]) / 2
            if not np.isfinite(rise).all():
                said = "jaxbandit: the gradient over %s of %s diverged; the best points that it has seen are judged"
                _log.warning(said, ", ".join(policy.axes), policy.kind)
                break
            slope = (rise[:, None] * way).mean(0) / _WIDTH**2
            step, memory = adam.update(-jnp.asarray(slope), memory)
            centre = jnp.clip(optax.apply_updates(centre, step), 0, 1)
        else:
            found.append(_at(number, policy, np.asarray(centre)))
        found += _best([point for _, point in seen], np.array([value for value, _ in seen]), FINALISTS // 2, alike)
    return found


__all__ = ["FINALISTS", "Means", "Point", "finalists"]
