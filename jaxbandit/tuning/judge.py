"""Which of several candidates is best, with a confidence that holds whenever the judge stops.

The candidates are fixed before the judge sees a run. In run number r each has a value; runs of one number share their
randomness, so candidates are compared by the differences of their values, run by run. For each ordered pair the judge
has a lower bound of the mean difference that holds at all numbers of runs at once. It tells two things: one candidate
is better than another, which is then out, or one is at most ``within`` below another, and *covers* it. The judge stops
when one candidate is left (*best*), when the leader covers all that are left (*within*), or when the runs are spent
(*undecided*). What the leader covers is not run on, unless another leads that does not cover it: then it catches up
step by step, and is compared at the runs that it has.

The bounds. A Brownian motion falls below the line a + b n under its mean with probability exp(-2 a b / variance), at
any n. So mean - a / n - b is a lower bound at every n. It is sharpest for one size of difference; the judge keeps
lines for several, which share the error: most goes to the one for differences of the size of ``within``, where the
last candidates are told apart. What a relative ``within`` comes to is known of the first runs alone, and may be much
less: there are lines for that, too. Sums of many values are close to a Brownian motion whatever the values'
distribution, which is why no candidate is judged before ``LEAST`` runs; the variance is that of the runs so far, with
Student's correction. Only pairs with the truly best candidate can mislead, so k candidates share the error as k - 1.
``benchmarks/verdicts.py`` measures how often verdicts are right, and what they cost.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

LEAST = 64
"""The runs of each candidate at the first evaluation."""

_SHARE, _STEP, _LARGER, _SMALLER = 0.95, 4.0, 5, 4
"""The part of the error that the line for differences as large as ``within`` has; by how much the next line's
differences are larger; and how many lines there are for larger ones, and for smaller ones where ``within`` is
relative."""

_SLOPE = 0.8
"""A line's b, as a part of the size of the differences that it is for. Near 1 it decides such differences soonest and
equal candidates late."""

_UNSEEN = 2 * _SLOPE * (1 - _SLOPE)
"""Where a difference may be rare, so many times ln(1 / error) runs with one that was not seen yet are added to the
variance. Then two candidates that never differed in n runs are within w of each other once (1 - w)^n is below the
error: a difference in so small a share of the runs would have been seen."""

_GROWTH = 1.1
"""Of the runs, from one evaluation to the next."""

Verdict = Literal["best", "within", "undecided"]


@dataclass
class Judge:
    """Judges candidates 0 to ``count - 1``, of which higher values are better.

    Attributes:
        count: how many candidates there are.
        within: a difference that does not matter, at least 0.
        relative: whether ``within`` is a share of the mean's size; the means then have one sign.
        confidence: the probability that a verdict is right, below 1.
        cap: the most runs that a candidate can have; it tells which differences can be seen where ``within`` is 0.
        binary: whether values are 0 or 1. Then each variance is as if there had been some more runs in which the two
            candidates differ, as a difference that was not seen yet may be rare (``_UNSEEN``).
        bounded: whether values are from 0 to 1. Two candidates that never differed are taken as if some more runs had
            differed by 1, or else by as much as values ranged; where no value differed from another, by its size, or
            by 1 if it is 0.
        runs: of each candidate in question at the last evaluation; some may have more.
        eliminated: by candidate that is out, the one that is surely better, and the runs that showed it.
        failed: by candidate that has no value in some run, how many such runs were seen; it is out.
        history: after each evaluation, the most runs that it or one before it was of, the candidates that are not out,
            and those of them still in question.
    """

    count: int
    within: float
    relative: bool = False
    confidence: float = 0.95
    cap: int = 1 << 20
    binary: bool = False
    bounded: bool = False
    runs: int = 0
    eliminated: dict[int, tuple[int, int]] = field(default_factory=dict)
    failed: dict[int, int] = field(default_factory=dict)
    history: list[tuple[int, int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._values = [np.zeros(0) for _ in range(self.count)]
        self._covers = np.zeros((self.count, self.count), bool)
        self._bounds = np.full((self.count, self.count), -np.inf, np.float32)
        self._active = list(range(self.count))
        self._alive = np.ones(self.count, bool)
        self._centre = np.zeros(self.count)
        self._sums = np.zeros(self.count)
        self._low, self._high = np.full(self.count, np.inf), np.full(self.count, -np.inf)
        self._products, self._totals = np.zeros((0, 0)), np.zeros(0)
        self._summed: list[int] = []
        self._upto = 0
        self._scale = 0.0

    def following(self) -> int:
        """Returns the runs of the next evaluation: a tenth more than the candidate in question has that has fewest."""
        fewest = min(self._values[one].size for one in self._active)
        return max(LEAST, fewest + 1, int(_GROWTH * fewest))

    def missing(self, runs: int) -> dict[int, int]:
        """Returns the candidates in question, each with the first of its runs below ``runs`` that the judge has not
        seen."""
        return {one: self._values[one].size for one in self._active if self._values[one].size < runs}

    def decide(self, runs: int, values: Mapping[int, np.ndarray]) -> Verdict:
        """Returns the verdict after ``runs`` runs of all candidates in question. *undecided* may change with more runs,
        the others are final.

        ``values``: of what was ``missing``, float64 of shape (runs that were missing,).
        """
        self.runs = runs
        for one, own in values.items():
            if not np.isfinite(own).all():
                self.failed[one] = int((~np.isfinite(own)).sum())
                self._alive[one] = False
                self._back(one)
            elif not self._values[one].size:
                self._centre[one] = own.mean()
            self._values[one] = np.concatenate([self._values[one], own])
            self._sums[one] += (own - self._centre[one]).sum()
            self._low[one], self._high[one] = min(self._low[one], own.min()), max(self._high[one], own.max())
        # Where all in question have failed, those that the leader covered are in question.
        self._active = [one for one in self._active if self._alive[one]] or self.survivors
        verdict: Verdict = "undecided" if self.missing(runs) else self._verdict(runs)
        most = max([runs, *(before for before, _, _ in self.history[-1:])])
        self.history.append((most, int(self._alive.sum()), len(self._active) if verdict == "undecided" else 1))
        return verdict

    def _back(self, failed: int) -> None:
        """Takes back in what only a candidate that has failed was better than."""
        for one in [each for each, (better, _) in self.eliminated.items() if better == failed]:
            del self.eliminated[one]
            self._alive[one] = True
            self._active.append(one)

    def _verdict(self, runs: int) -> Verdict:
        compared: set[tuple[int, ...]] = set()
        while True:
            compared.add(tuple(self._active))
            self._sum_up()
            self._compare()
            if not self._active:
                return "undecided"
            leader = self.chosen
            behind = self._alive & ~self._covers[leader]
            behind[leader] = False
            if not behind.any():
                return "best" if self._alive.sum() == 1 else "within"
            self._active = [one for one in range(self.count) if behind[one] or one == leader]
            # Two leaders may each cover what the other one does not: more runs tell, but these do not.
            if self.missing(runs) or len(self._active) == len(self._summed) or tuple(self._active) in compared:
                return "undecided"

    @property
    def chosen(self) -> int:
        """Returns the candidate that leads: the one in question that covers most others, and of several the best mean.
        One that another covers, and that does not cover it, comes after all that are not so: it could lead for ever
        while the other one is run on with it."""
        covers = self._covers[np.ix_(self._active, self._active)]
        behind = dict(zip(self._active, np.any(covers & ~covers.T, axis=0), strict=True))
        covered = (self._covers & self._alive).sum(1)
        return max(self._active, key=lambda one: (not behind[one], covered[one], self.mean(one)))

    @property
    def best_mean(self) -> int:
        """Returns the candidate with the best mean of those in question."""
        return max(self._active, key=self.mean)

    @property
    def survivors(self) -> list[int]:
        """Returns the candidates that no other one has beaten."""
        return np.flatnonzero(self._alive).tolist()

    def mean(self, one: int) -> float:
        """Returns the mean of a candidate's runs so far."""
        return float(self._centre[one] + self._sums[one] / self._values[one].size)

    def behind(self, one: int) -> float:
        """Returns how far a candidate is at most behind the best one, with the judge's confidence; infinity where the
        runs do not tell."""
        others = [other for other in self.survivors if other != one]
        return max(0.0, float(-self._bounds[one, others].min())) if others else 0.0

    def values(self, one: int) -> np.ndarray:
        """Returns a candidate's values so far, float64 of shape (runs,)."""
        return self._values[one]

    def _sum_up(self) -> None:
        """Sums the values of those in question, about a value near their means, and the products of each two."""
        kept = [self._summed.index(one) for one in self._active if one in self._summed]
        if len(kept) == len(self._active) and self._upto <= self.runs:
            start, self._totals, self._products = self._upto, self._totals[kept], self._products[np.ix_(kept, kept)]
        else:
            start, size = 0, len(self._active)
            self._totals, self._products = np.zeros(size), np.zeros((size, size))
        if self._active:
            offset = np.stack([self._values[one][start : self.runs] - self._centre[one] for one in self._active])
            self._totals = self._totals + offset.sum(1)
            self._products = self._products + offset @ offset.T
        self._summed, self._upto = list(self._active), self.runs

    def _compare(self) -> None:
        """Notes what the runs show of each two in question: who is out, and who covers whom."""
        if len(self._active) < 2:
            return
        if not self._scale:
            self._scale = self._size()  # 0 as long as all means are, of what ``within`` is relative to
        active = np.array(self._active)
        lower = self._lower(np.ones(len(active)))
        if self.relative:
            close = self._lower(self._factors()) > 0
        else:
            close = lower > -self.within if self.within else np.zeros(lower.shape, bool)
        self._covers[np.ix_(active, active)] |= close
        pairs = np.ix_(active, active)
        self._bounds[pairs] = np.maximum(self._bounds[pairs], lower)  # each holds at all numbers of runs
        better = lower > 0
        for place in np.flatnonzero(better.any(0)):
            self.eliminated[self._active[place]] = (self._active[int(np.argmax(better[:, place]))], self.runs)
            self._alive[self._active[place]] = False
        self._active = [one for one in self._active if self._alive[one]]
        self._sum_up()

    def _means(self) -> np.ndarray:
        means: np.ndarray = self._centre[self._active] + self._totals / self.runs
        return means

    def _factors(self) -> np.ndarray:
        """Returns what another's value is multiplied by, so that no less than that is within of it; costs are negative
        here."""
        return np.where(self._means() > 0, 1 - self.within, 1 + self.within)

    def _size(self) -> float:
        """Returns the difference that the first line is for."""
        if self.within > 0:
            return self.within * (abs(float(self._means().max())) if self.relative else 1.0)
        between = self._variance(np.ones(len(self._active))) + 2 * self._unseen()
        return 3 * math.sqrt(float(np.median(between[~np.eye(len(self._active), dtype=bool)])) / self.cap)

    def _unseen(self) -> np.ndarray:
        """Returns by how much the variance of the differences of each two in question would be more with one more run,
        in which they differ as much as they can; 0 for those of which no such run is thought of."""
        own = np.diag(self._products)
        equal = self._variance(np.ones(len(own))) <= 1e-12 * (own[:, None] + own) / self.runs
        low, high = float(self._low[self._active].min()), float(self._high[self._active].max())
        most = 1.0 if self.bounded else high - low or abs(high) or 1.0
        more: np.ndarray = np.where(self.binary | equal, most**2 / self.runs, 0)
        return more

    def _variance(self, factors: np.ndarray) -> np.ndarray:
        """Returns the variance of the differences of each two in question: the first less its factor times the
        second."""
        n, factor = self.runs, factors[:, None]
        own, sums = np.diag(self._products), self._totals
        total = sums[:, None] - factor * sums
        squares = own[:, None] + factor**2 * own - 2 * factor * self._products
        variance: np.ndarray = np.maximum(squares - total**2 / n, 0) / (n - 1)
        return variance

    def _lower(self, factors: np.ndarray) -> np.ndarray:
        """Returns lower bounds of the mean differences, as ``_variance``; of a candidate and itself there is none."""
        n, means, variance, unseen = self.runs, self._means(), self._variance(factors), self._unseen()
        error = (1 - self.confidence) / (self.count - 1) / (2 if self.relative else 1)
        lines = range(-_SMALLER if self.relative else 0, _LARGER + 1)
        half = np.full(variance.shape, np.inf)
        for number in lines:
            share = (1 - _SHARE) / (len(lines) - 1) if number else _SHARE
            slope = _SLOPE * self._scale * _STEP**number
            if slope:
                exponent = _exponent(error * share, n)
                spread = variance + _UNSEEN * exponent * unseen
                half = np.minimum(half, spread * exponent / (2 * slope * n) + slope)
        np.fill_diagonal(half, np.inf)
        bound: np.ndarray = means[:, None] - factors[:, None] * means - half
        return bound


def _exponent(error: float, runs: int) -> float:
    """Returns ln(1 / error), or more where the variance is one of few runs, as Student's quantile is more than the
    normal one.

    By the first terms of Fisher and Cornish's expansion of that quantile.
    """
    z, free = math.sqrt(2 * math.log(1 / error)), runs - 1
    t = z + (z**3 + z) / (4 * free) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * free**2)
    return t * t / 2
