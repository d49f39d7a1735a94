"""Training a policy: the weights of its score are found by an evolution strategy, over all problems of a study at once.

    [train]
    kind = "linear"            # or "network", with hidden = 6
    metric = "effectiveness"   # of the family, the first one where left out
    statistics = [...]         # what the score may use, the family's usual ones where left out
    generations = 60
    population = 24            # candidates a generation
    runs = 64                  # of each candidate on each problem, a generation

CMA-ES (Hansen and Ostermeier 2001) proposes the candidates, and all of them are one compiled program. They share the
runs of a generation, and each generation has runs of its own. What it saw last is not what is best: the means of its
last distributions, the best points seen and the weights that it began with are compared on further runs.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxbandit.devices import use_all_cores
from jaxbandit.engine import Batch
from jaxbandit.errors import BadInput
from jaxbandit.progress import Progress, Status, shown
from jaxbandit.registry import Metric, one_of, whole, without_kind
from jaxbandit.scores import MOST_HIDDEN, Score, Trainable, size
from jaxbandit.study.families import FAMILIES
from jaxbandit.study.spec import Study
from jaxbandit.study.summary import Moments, Row
from jaxbandit.tuning.options import metric_of
from jaxbandit.tuning.values import valued

FIRST_RUN = 3 << 30
"""The number of training's first run: those of studies begin at 0, those of the search of ``tune`` at 2^31."""
_MOST_RUNS = 2**32 - FIRST_RUN
_WIDTH = 0.5
_KEPT, _AGAIN = 4, 8
"""Finalists of each sort, and the runs that they get, in those of a generation."""


class TrainingOutcome(NamedTuple):
    """Holds what training found, and how it got there.

    Attributes:
        score: the best of the finalists.
        history: of each generation the metric of its median candidate, over that of what training began with.
        rows: the means of the trained policy and of the study's own, by problem, on runs that training did not use.
        notes: what went wrong on the way, in sentences.
    """

    score: Score
    history: list[float]
    rows: list[Row]
    notes: list[str]


@dataclass(frozen=True)
class TrainOptions:
    """Holds a checked table ``[train]``; see the head of this module."""

    metric: Metric
    statistics: tuple[str, ...]
    hidden: int
    generations: int
    population: int
    runs: int
    trainable: Trainable

    @classmethod
    def of(cls, study: Study) -> "TrainOptions":
        """Checks the table ``[train]`` of a study, key by key, and returns it.

        Raises:
            BadInput: naming the key of the table that is wrong.
        """
        given, trainable = dict(study.train), study.family.trainable
        metric = metric_of(study, "train", given)
        if trainable is None:
            there = [name for name, family in FAMILIES.items() if family.trainable is not None]
            raise BadInput("problem.kind", study.problem["kind"], f"a problem of {', '.join(there)}")
        kind = one_of("linear", "network")("train.kind", given.get("kind", "linear"))
        if kind == "linear" and "hidden" in given:
            raise BadInput("train.hidden", given["hidden"], 'left out where kind = "linear"')
        statistics = given.get("statistics", list(trainable.usual))
        known = list(trainable.statistics)
        sound = isinstance(statistics, list) and statistics and all(each in known for each in statistics)
        if not sound or len(set(statistics)) < len(statistics):
            raise BadInput("train.statistics", statistics, f"some of {', '.join(trainable.statistics)}, each once")
        hidden = whole(1, MOST_HIDDEN)("train.hidden", given.get("hidden", 6)) if kind == "network" else 0

        def number(key: str, usual: int, low: int, high: int) -> int:
            return whole(low, high)(f"train.{key}", given.get(key, usual))

        options = cls(
            metric, tuple(statistics), hidden, number("generations", 60, 1, 100_000),
            number("population", 24, 4, 4096), number("runs", 64, 2, 1 << 16), trainable,
        )  # fmt: skip
        # Besides the generations: the first weights, the finalists, and the comparison with the study's policies.
        if (most := _MOST_RUNS // options.runs - 3 * _AGAIN) < options.generations:
            allowed = f"at most {most:,} with {options.runs:,} runs, as there are 2^30 run numbers for training"
            raise BadInput("train.generations", options.generations, allowed)
        return options


@dataclass
class _Objective:
    """Evaluates candidates: the mean over problems of their mean of the metric, in that of the first weights.

    Higher is better. ``spent``: runs of each candidate on each problem so far, which are never used again.
    """

    study: Study
    options: TrainOptions
    settings: Sequence[Any]
    spent: int = 0
    scale: np.ndarray | None = None

    def __post_init__(self) -> None:
        self._problems = [setting.problem() for setting in self.settings]

    def means(self, points: np.ndarray, times: int = 1) -> np.ndarray:
        """Returns the means of the metric: float64, (problems, points); NaN where a run has no value.

        ``points``: at most as many as a generation has; ``times``: so many times its runs.
        """
        options, total = self.options, np.zeros((len(self.settings), len(points)))
        # Always as many policies as a generation has, so that there is one program.
        padded = [*points, *[points[0]] * (options.population - len(points))]
        scores = [Score(self.study.family.name, options.statistics, options.hidden, point) for point in padded]
        batch = Batch([
            (problem, policy)
            for setting, problem in zip(self.settings, self._problems, strict=True)
            for policy in options.trainable.policies(setting, scores)
        ], implementation=self.study.implementation)  # fmt: skip
        which = [row * options.population + column for row, column in np.ndindex(*total.shape)]
        room = options.runs * options.population * len(self.settings)
        for _ in range(times):
            first = FIRST_RUN + self.spent
            answers = batch.each(which, runs=options.runs, seed=self.study.seed, first_run=first, room=room)
            self.spent += options.runs
            for number in range(total.size):
                row, column = divmod(number, len(points))
                own = valued(self.study, options.metric, self.settings[row], answers[number])
                total[row, column] += own.mean()
        return total / times

    def values(self, points: np.ndarray, times: int = 1) -> np.ndarray:
        """Float64, (points,); NaN of points that have no value."""
        assert self.scale is not None
        ratios = self.means(points, times) / self.scale[:, None]
        found: np.ndarray = (-ratios if self.options.metric.lower_is_better else ratios).mean(axis=0)
        return found


def train(
    study: Study | Mapping[str, Any], out: Path | str | None = None, *, progress: Progress | bool = True, **table: Any
) -> TrainingOutcome:
    """Trains a policy: finds the weights of a score over what is known of an entity or an arm.

    Args:
        study: of ``load_study``, or what ``Study.of`` takes. It is trained on all problems of the sweep, each of which
            counts the same; the policies are what it is compared with at the end.
        out: a file for the score, which study files name as ``kind = "trained"`` with ``path``; None for no file.
        progress: called with a ``Status`` whenever that changes; shown on stderr where True, nowhere where False.
        table: keys of the table ``[train]``, which go before those of the study. See ``docs/trained.md``.

    Returns:
        The score, what the generations reached, and means on runs that training did not use.

    Raises:
        BadInput: naming the key that is wrong; for a family that cannot be trained; where ``out`` cannot be written.

    Example:
        >>> import jaxbandit
        >>> problem = {"kind": "topk/bernoulli", "n": 8, "K": 2, "budget": 200}
        >>> found = jaxbandit.train(
        ...     {"problem": problem, "policy": [{"kind": "uniform"}]},
        ...     generations=1, population=8, runs=16, progress=False,
        ... )
        >>> found.score.kind
        'linear'
    """
    if not isinstance(study, Study):
        study = Study.of(study, counted=False)
    study = replace(study, train={**study.train, **table})
    place = None if out is None else writable(Path(out))
    with shown(progress, "training", "generations") as tell:
        found = trained(study, tell)
    if place is not None:
        found.score.save(place)
    return found


def writable(path: Path) -> Path:
    """Returns the path of a file for a score: a new one, or one that holds a score.

    Raises:
        BadInput: for another file, a folder, or a folder that is not there.
    """
    if path.is_dir() or not path.parent.is_dir():
        raise BadInput("out", str(path), "a file in a folder that is there")
    if path.exists() and b'"jaxbandit score"' not in path.read_bytes()[:100]:
        raise BadInput("out", str(path), "a new file, or one that `jaxbandit train` wrote")
    return path


def trained(study: Study, tell: Progress) -> TrainingOutcome:
    """Trains as a study says: see ``train``."""
    try:
        from cmaes import CMA
    except ImportError:
        raise BadInput(
            "train", "cmaes is missing", "an installation with the extra: pip install 'jaxbandit[tune]'"
        ) from None
    use_all_cores()
    options = TrainOptions.of(study)
    settings = [setting for setting, _ in study.settings()]
    objective = _Objective(study, options, settings)
    start = np.zeros(size(len(options.statistics), options.hidden))
    start[: len(options.statistics)] = [options.trainable.statistics[name] for name in options.statistics]
    tell(Status(0, options.generations, "compiling, and the weights that it begins with"))
    began = np.abs(objective.means(start[None], _AGAIN)[:, 0])
    if not np.isfinite(began).all():
        raise BadInput("train.metric", options.metric.name, "one that has a value in every run")
    objective.scale = np.where(began > 0, began, 1.0)
    search = CMA(mean=start, sigma=_WIDTH, seed=study.seed, population_size=options.population)
    history, centres, seen, notes = _climbed(search, objective, tell)
    # A small population has no room for all: the last mean and the best point seen come first.
    each = itertools.zip_longest(centres[: -_KEPT - 1 : -1], [point for _, point in seen])
    latest = [point for pair in each for point in pair if point is not None]
    finalists = np.array([start, *latest][: options.population])
    tell(Status(options.generations, options.generations, f"comparing {len(finalists)} finalists"))
    values = objective.values(finalists, _AGAIN)
    best = finalists[int(np.argmax(np.where(np.isfinite(values), values, -np.inf)))]
    score = Score(study.family.name, options.statistics, options.hidden, best, _origin(study, options, len(history)))
    return TrainingOutcome(score, history, _compared(objective, score), notes)


def _climbed(
    search: Any, objective: _Objective, tell: Progress
) -> tuple[list[float], list[np.ndarray], list[tuple[float, np.ndarray]], list[str]]:
    """Searches, and returns the history, the means of the distributions, the best points seen with their values, and
    notes."""
    options = objective.options
    history: list[float] = []
    centres: list[np.ndarray] = []
    seen: list[tuple[float, np.ndarray]] = []
    for number in range(options.generations):
        reached = f", {options.metric.name} {history[-1]:.4g} times that of the beginning" if history else ""
        tell(Status(number, options.generations, f"generation {number + 1}{reached}"))
        points = np.array([search.ask() for _ in range(options.population)])
        values = objective.values(points) if np.isfinite(points).all() else np.full(len(points), np.nan)
        finite = np.isfinite(values)
        if not finite.any():
            note = f"it diverged in generation {number + 1}: no candidate has a value; the best points before it go on"
            return history, centres, seen, [note]
        seen = sorted([*seen, *zip(values[finite], points[finite], strict=True)], key=lambda one: -one[0])[:_KEPT]
        losses = np.where(finite, -values, -values[finite].min())
        search.tell(list(zip(points, losses, strict=True)))
        history.append(abs(float(np.median(values[finite]))))
        if np.isfinite(search.mean).all():
            centres.append(search.mean.copy())
    return history, centres, seen, []


def _origin(study: Study, options: TrainOptions, generations: int) -> dict[str, Any]:
    """Returns what the score was trained on, for its file."""
    return {
        "metric": options.metric.name, "seed": study.seed, "generations": generations, "population": options.population,
        "runs": options.runs, **study.named(),
    }  # fmt: skip


def _compared(objective: _Objective, score: Score) -> list[Row]:
    """Returns the trained policy and the study's own, by problem, on runs that nothing was chosen by."""
    study, options, rows = objective.study, objective.options, []
    runs = _AGAIN * options.runs
    members: list[tuple[Any, Any, Any, str, dict[str, Any]]] = []
    for setting, params in study.settings():
        problem, policy = setting.problem(), options.trainable.policies(setting, [score])[0]
        members.append((setting, problem, policy, "trained", {**params, "score": score.sha256[:8]}))
        for _, given in study.policy_tables():
            each = study.configuration(setting, problem, params, given["kind"], without_kind(given))
            members.append((setting, problem, each.policy, each.name, each.params))
    pairs = [(problem, policy) for _, problem, policy, _, _ in members]
    batch = Batch(pairs, implementation=study.implementation)
    answers = batch.each(range(len(members)), runs=runs, seed=study.seed, first_run=FIRST_RUN + objective.spent)
    for number, (setting, _, _, name, params) in enumerate(members):
        moments = Moments(options.metric.binary, options.metric.bounded(setting))
        moments.add(valued(study, options.metric, setting, answers[number]))
        rows.append(moments.row(name, params, options.metric.name, None))
    return rows
