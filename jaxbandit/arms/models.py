"""Reward models as study files see them: the problems that every family of arms offers.

A family adds parameters of its own (a budget, how many arms are wanted) and makes its setting of them (``problems``).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxbandit.arms.problem import MOST_ARMS, MOST_PULLS, MOST_SUMMED, Drawn, Given, given
from jaxbandit.arms.records import few_enough, read_counts, read_rewards, replay, told_apart
from jaxbandit.arms.rewards import Bernoulli, Bounded, Gaussian, Rewards
from jaxbandit.errors import BadInput, under
from jaxbandit.laws import FORMS, Uniform
from jaxbandit.laws import parse as parse_law
from jaxbandit.registry import Parameter, ProblemKind, Setting, flag, one_of, real, text, whole

BUDGET = Parameter(
    "budget",
    whole(0, MOST_PULLS),
    f"pulls, a whole number from 0 to {MOST_PULLS}, or to {MOST_SUMMED} of rewards that are not 0 or 1",
    label="budget (pulls)",
)
"""The parameter of problems that all families of arms have."""


@dataclass(frozen=True)
class Model:
    """Describes arms as their user does: their means, their rewards, and the ``width`` of the scale of means."""

    means: Given | Drawn
    rewards: Rewards
    width: float = 1.0


@dataclass(frozen=True)
class _Kind:
    """Declares a reward model. ``build(count, **parameters)`` makes it; ``count``: how many arms have the first of two
    means where a user does not say."""

    name: str
    summary: str
    parameters: tuple[Parameter, ...]
    build: Callable[..., Model]


@dataclass(frozen=True)
class _Two:
    """Describes arms of which the first ``count`` have one mean and the others another; where ``count`` is None, the
    family says how many."""

    high: float
    low: float
    count: int | None


_FORMS = (
    f"{FORMS}, drawn afresh in each run; {{ two = [0.6, 0.5] }}, {{ list = [...] }}, "
    'or { table = { path = "arms.csv", successes = ..., trials = ..., arm = the column of names, if any } }'
)


def _means(name: str, value: Any) -> Any:
    if isinstance(value, Mapping) and len(value) == 1:
        ((form, found),) = value.items()
        if form == "two":
            count = None
            if isinstance(found, Mapping) and {"means"} <= set(found) <= {"means", "count"}:
                count = whole(0, MOST_ARMS)(f"{name}.two.count", found.get("count", 0)) if "count" in found else None
                found = found["means"]
            if not isinstance(found, list | tuple) or len(found) != 2:
                raise BadInput(f"{name}.two", found, "two means, or { means = [0.6, 0.5], count = 10 }")
            high, low = (_number(f"{name}.two", each) for each in found)
            return _Two(high, low, count)
        if form == "list":
            if not isinstance(found, list | tuple) or not 1 <= len(found) <= MOST_ARMS:
                raise BadInput(f"{name}.list", found, f"1 to {MOST_ARMS} means")
            return np.array([_number(f"{name}.list[{place}]", each) for place, each in enumerate(found)])
        if form == "table":
            keys = ("path", "successes", "trials", "arm")
            if not isinstance(found, Mapping) or "path" not in found or set(found) - set(keys):
                allowed = '{ path = "arms.csv", successes = ..., trials = ..., arm = ... }'
                raise BadInput(f"{name}.table", found, allowed)
            with under(f"{name}.table"):
                _, won, tried = read_counts(**{key: text(key, each) for key, each in found.items()})
            return won / tried
    try:
        return parse_law(name, value)
    except BadInput as error:
        if error.field == name:
            raise BadInput(name, value, _FORMS) from None
        raise


def _number(name: str, value: Any) -> float:
    return real(-1e30, 1e30)(name, value)


_HOW_MANY = "how many arms, a whole number; that of the list or table where there is one"
_N = Parameter("n", whole(1, MOST_ARMS), _HOW_MANY, None)
_MEANS = Parameter("means", _means, f"the arms' means: {_FORMS}", Uniform())
_SHUFFLED = Parameter(
    "shuffled",
    flag,
    "number the arms at random in each run, so that ties fall at random (else a sorted list helps)",
    True,
)


def _given(n: int | None, count: int | None, means: Any, low: float, width: float, shuffled: bool) -> Given | Drawn:
    if isinstance(means, np.ndarray):
        if n is not None and n != means.size:
            raise BadInput("problem.n", n, f"{means.size}, as many as the list or table has arms, or no n")
        with under("problem"):
            return given(means, low, width, shuffled=shuffled)
    if n is None:
        raise BadInput("problem.n", "missing", "how many arms, a whole number")
    if isinstance(means, _Two):
        count = count if means.count is None else means.count
        if count is None:
            raise BadInput("problem.means.two", [means.high, means.low], "{ means = [0.6, 0.5], count = 10 }")
        if means.count is not None and count > n:
            raise BadInput("problem.means.two.count", count, f"at most n = {n} arms")
        with under("problem"):
            return given(np.where(np.arange(n) < count, means.high, means.low), low, width, shuffled=shuffled)
    return Drawn(means.quantiles(), n)


def _bernoulli(count: int | None, n: int | None, means: Any, shuffled: bool) -> Model:
    return Model(_given(n, count, means, 0.0, 1.0, shuffled), Bernoulli())


def _gaussian(count: int | None, n: int | None, means: Any, sd: float, shuffled: bool) -> Model:
    low, width = 0.0, 1.0
    values = means if isinstance(means, np.ndarray) else None
    if isinstance(means, _Two):
        values = np.array([means.low, means.high])
    if values is not None:
        low, width = float(values.min()), float(np.ptp(values)) or 1.0
        told_apart("problem.means", values, width)
    rewards = Gaussian(jnp.float32(low), jnp.float32(width), jnp.float32(sd))
    return Model(_given(n, count, means, low, width, shuffled), rewards, width)


def _bounded(count: int | None, n: int | None, means: Any, law: str, spread: float, shuffled: bool) -> Model:
    return Model(_given(n, count, means, 0.0, 1.0, shuffled), Bounded(jnp.float32(spread), law))


@lru_cache(maxsize=16)
def _records(path: str, columns: tuple[tuple[str, str], ...], again: bool, _version: tuple[int, ...]) -> Any:
    named = dict(columns)
    with under("problem"):
        if "reward" in named:
            return replay(list(read_rewards(path, **named).values()), again=again)
        _, won, tried = read_counts(path, **named)
        few_enough(int(tried.sum()))  # before they are laid out
        records = [np.repeat([1.0, 0.0], [s, t - s]) for s, t in zip(won, tried, strict=True)]
        return replay(records, again=again)


def _replay(
    count: int | None, path: str, arm: str | None, reward: str | None, successes: str | None, trials: str | None,
    replacement: bool,
) -> Model:  # fmt: skip
    counts = {"successes": successes, "trials": trials}
    if reward:
        for name, column in counts.items():
            if column is not None:
                allowed = "left out where reward is given: a table has rewards, or successes and trials"
                raise BadInput(f"problem.{name}", column, allowed)
        columns = {"arm": arm or "arm", "reward": reward}
    else:
        columns = {name: column or name for name, column in counts.items()} | ({"arm": arm} if arm else {})
    try:
        status = Path(path).stat()
        version: tuple[int, ...] = status.st_mtime_ns, status.st_size, status.st_ino
    except OSError:
        version = ()
    means, rewards = _records(path, tuple(columns.items()), replacement, version)
    return Model(means, rewards, float(rewards.width))


_MODELS = (
    _Kind("bernoulli", "arms that pay 0 or 1", (_N, _MEANS, _SHUFFLED), _bernoulli),
    _Kind(
        "gaussian", "arms that pay a normal amount; given means may be any numbers",
        (_N, _MEANS, Parameter("sd", real(1e-6, 1e6), "standard deviation of a reward; an empirical mean counts as at "
                                      "most 32 times the range of the means away from them", 1.0), _SHUFFLED),
        _gaussian,
    ),
    _Kind(
        "bounded", "arms that pay between 0 and 1",
        (
            _N, _MEANS,
            Parameter("law", one_of("beta", "uniform", "normal"), "beta, uniform or normal (truncated)", "beta"),
            Parameter("spread", real(1e-3, 1e4), "beta: alpha + beta; uniform: half the width; normal: the standard "
                      "deviation before truncation", 2.0),
            _SHUFFLED,
        ), _bounded,
    ),
    _Kind(
        "replay", "arms that pay what a table of past rewards has",
        (
            Parameter("path", text, "a CSV or SQLite file", swept=False),
            Parameter("arm", text, "the column that names the arm; in a table of rewards, arm where left out", None,
                      swept=False),
            Parameter("reward", text, "the column of rewards, a row a pull; or else", None, swept=False),
            Parameter("successes", text, "the column of successes, a row an arm; successes where left out", None,
                      swept=False),
            Parameter("trials", text, "the column of trials; trials where left out", None, swept=False),
            Parameter("replacement", flag, "draw with replacement; else until an arm's record is used up", True),
        ), _replay,
    ),
)  # fmt: skip


def problems(
    own: tuple[Parameter, ...], setting: Callable[..., Setting], count: str | None = None
) -> dict[str, ProblemKind]:
    """Returns the problem kinds of a family of arms, one for each reward model, by name.

    Args:
        own: the family's parameters, which come first.
        setting: a function that makes the family's setting of a ``Model`` and these parameters, by name.
        count: the parameter that says how many arms have the first of two means where a user does not.
    """

    def kind(model: _Kind) -> ProblemKind:
        def build(**values: Any) -> Setting:
            ours = {parameter.name: values.pop(parameter.name) for parameter in own}
            return setting(model.build(ours[count] if count else None, **values), **ours)

        return ProblemKind(model.name, model.summary, (*own, *model.parameters), build)

    return {model.name: kind(model) for model in _MODELS}
