"""How often verdicts of ``jaxbandit tune`` are right, and how many runs they take, beside the procedure KN.

Candidates are sources of random numbers whose means are known, so the judge alone is measured. *slippage*: the best is
ahead of all others by exactly ``within``; *equal*: all means are the same; *apart*: the best is ahead by 1.25 times
``within``, so that a wrong choice is a wrong verdict; *heavy*: the same with Student's t of 3 degrees of freedom;
*skewed*: the same with lognormal values; *paired*: the same where nine tenths of the variance are shared, as with
common random numbers; *ladder*: each is half of ``within`` ahead of the next; *hill*: a parabola that falls by 5 times
``within`` to its ends, as of a parameter about its best value; *cost*: as apart, of costs of which ``within`` is 1 % of
the least, and one is 10 times as high. A verdict "within" is right where the chosen candidate
is at most ``within`` below the best, "best" where it is the best. In slippage any choice is within; so the table says
too how often the best was chosen. KN (Kim and Nelson 2001) has a first stage of 20 runs, and is right where it chooses
the best, or any of equal ones.

    python -m benchmarks.verdicts --repetitions 400 --out verdicts.json

``undecided`` is the share of repetitions without a verdict after ``MOST`` runs of a candidate.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.common import Row, facts, parser, save
from jaxbandit.tuning.judge import Judge
from jaxbandit.wilson import share_interval

CONFIDENCE, WITHIN, SPREAD, FIRST_STAGE, BLOCK = 0.95, 1.0, 10.0, 20, 256
Draw = Callable[[np.random.Generator, int, int], np.ndarray]
"""Noise of variance 1, shape (candidates, runs)."""


def _skewed(rng: np.random.Generator, count: int, runs: int) -> np.ndarray:
    values = rng.lognormal(0.0, 1.0, (count, runs))
    return (values - math.exp(0.5)) / math.sqrt((math.e - 1) * math.e)


def _paired(rng: np.random.Generator, count: int, runs: int) -> np.ndarray:
    return math.sqrt(0.9) * rng.standard_normal(runs) + math.sqrt(0.1) * rng.standard_normal((count, runs))


def _normal(rng: np.random.Generator, count: int, runs: int) -> np.ndarray:
    return rng.standard_normal((count, runs))


def _ahead(by: float) -> Callable[[int], np.ndarray]:
    """One is ahead of all others."""
    return lambda count: np.where(np.arange(count) == count // 2, by, 0.0)


SETTINGS: dict[str, tuple[Callable[[int], np.ndarray], Draw]] = {
    "slippage": (_ahead(1.0), _normal),
    "equal": (_ahead(0.0), _normal),
    "apart": (_ahead(1.25), _normal),
    "heavy": (_ahead(1.25), lambda rng, count, runs: rng.standard_t(3, (count, runs)) / math.sqrt(3)),
    "skewed": (_ahead(1.25), _skewed),
    "paired": (_ahead(1.25), _paired),
    "ladder": (lambda count: 0.5 * np.arange(count), _normal),
    "hill": (lambda count: -5 * np.linspace(-1, 1, count) ** 2, _normal),
    "cost": (lambda count: _ahead(1.25)(count) - np.where(np.arange(count) == 0, 1000, 101.25), _normal),
}
"""The means of so many candidates, in units of ``within``, and the noise."""
RELATIVE = {"cost": 100.0}
"""Of which ``within`` is a share: the mean of the best candidate."""
COUNTS = {"ladder": (10,), "hill": (10,), "cost": (3, 10)}
"""Numbers of candidates of some settings; ``USUAL`` of the others."""
USUAL = 2, 10, 100
MOST = 200_000


class Source:
    """Runs of all candidates, drawn in blocks as they are asked for."""

    def __init__(self, means: np.ndarray, draw: Draw, seed: Sequence[int]) -> None:
        self._means, self._draw, self._rng = means, draw, np.random.default_rng(seed)
        self.values = np.zeros((means.size, 0))

    def upto(self, runs: int) -> np.ndarray:
        """All runs below ``runs``, and maybe more."""
        while self.values.shape[1] < runs:
            block = max(BLOCK, self.values.shape[1] // 2)
            noise = SPREAD * self._draw(self._rng, self._means.size, block)
            self.values = np.concatenate([self.values, self._means[:, None] + noise], axis=1)
        return self.values


def judged(source: Source, count: int, of: float | None) -> tuple[str, int, int]:
    """The verdict, the chosen candidate, and the runs of all together; ``of``: see ``RELATIVE``."""
    judge = Judge(count, WITHIN / (of or 1.0), relative=of is not None, confidence=CONFIDENCE)
    runs, verdict = 0, "undecided"
    while verdict == "undecided" and (target := judge.following()) <= MOST:
        values, missing = source.upto(target), judge.missing(target)
        runs += sum(target - first for first in missing.values())
        verdict = judge.decide(target, {one: values[one, first:target] for one, first in missing.items()})
    return verdict, judge.chosen, runs


def kn(source: Source, count: int) -> tuple[int, int]:
    """The candidate that KN chooses, and the runs of all together."""
    eta = 0.5 * ((2 * (1 - CONFIDENCE) / (count - 1)) ** (-2 / (FIRST_STAGE - 1)) - 1)
    squared = 2 * eta * (FIRST_STAGE - 1)
    first = source.upto(FIRST_STAGE)[:, :FIRST_STAGE]
    variance = np.array([(one - first).var(axis=1, ddof=1) for one in first])
    alive, sums, stage, runs = np.arange(count), first.sum(1), FIRST_STAGE, count * FIRST_STAGE
    while True:
        width = np.maximum(0, WITHIN / 2 * (squared * variance[np.ix_(alive, alive)] / WITHIN**2 - stage))
        behind = (sums[alive][None, :] - sums[alive][:, None] > width).any(1)
        if behind.all() or not width.any():
            return int(alive[np.argmax(sums[alive])]), runs
        alive = alive[~behind]
        if alive.size == 1:
            return int(alive[0]), runs
        sums = sums + source.upto(stage + 1)[:, stage]
        stage, runs = stage + 1, runs + alive.size


def measured(name: str, count: int, repetitions: int) -> Row:
    """Rates and runs of one setting."""
    levels, draw = SETTINGS[name]
    means = levels(count) * WITHIN
    right, bests, runs, right_kn, runs_kn, undecided = 0, 0, [], 0, [], 0
    for repetition in range(repetitions):
        source = Source(means, draw, [repetition, count])
        verdict, chosen, own = judged(source, count, RELATIVE.get(name))
        undecided += verdict == "undecided"
        bests += means[chosen] == means.max()
        right += means[chosen] == means.max() if verdict == "best" else means[chosen] >= means.max() - WITHIN
        picked, theirs = kn(source, count)
        right_kn += means[picked] == means.max()
        runs.append(own)
        runs_kn.append(theirs)
    low, high = share_interval(right / repetitions, repetitions)
    return {
        "setting": name, "candidates": count, "repetitions": repetitions, "right": right / repetitions,
        "right_low": low, "right_high": high, "chose_best": bests / repetitions, "median_runs": float(np.median(runs)),
        "kn_right": right_kn / repetitions, "kn_median_runs": float(np.median(runs_kn)),
        "undecided": undecided / repetitions,
    }  # fmt: skip


def main() -> None:
    """Measure, print each row, write JSON if asked to."""
    options = parser(__doc__)
    options.add_argument("--repetitions", type=int, default=400)
    options.add_argument("--only", nargs="+", choices=list(SETTINGS), default=list(SETTINGS), metavar="SETTING")
    given = options.parse_args()
    head, rows = facts("verdicts", given.quick), []
    for name in given.only:
        for count in COUNTS.get(name, USUAL):
            rows.append(row := measured(name, count, 2 if given.quick else given.repetitions))
            ours = f"right {row['right']:.3f}, the best {row['chose_best']:.3f}, {row['median_runs']:,.0f} runs"
            theirs = f"KN right {row['kn_right']:.3f}, {row['kn_median_runs']:,.0f} runs"
            print(f"{name:8} k = {count:3}: {ours}, undecided {row['undecided']:.3f}; {theirs}", flush=True)
    save(given.out, head, rows)


if __name__ == "__main__":
    main()
