"""Weighted Round-Robin (WRR): Zhuang, Wang and Wang, "Identifying Outlier Arms in Multi-Armed Bandit", NIPS 2017,
Algorithm 2.

All arms in turn, an active one again and again until it has rho pulls for each visit so far, or is active no more. In a
leap each arm is visited at most once, and it goes up to the first arm whose activity is not certain: the first pull of
that visit is still certain, and is the leap's last.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxbandit.outliers.intervals import Interval, width_of_threshold
from jaxbandit.outliers.leap import (
    RUNNING,
    Seen,
    Sight,
    active,
    answer,
    code_of,
    cyclic,
    look,
    select,
    whole,
    within_sweep,
)  # fmt: skip
from jaxbandit.outliers.problem import MOST, Pull, View
from jaxbandit.outliers.twofold import Twofold


def rho_star(n: int, k: float, delta: float) -> float:
    """Eq. 6: (n - 1)^(2/3) / l(k)^(1/3), at least 1."""
    return max(1.0, math.cbrt((n - 1) ** 2 / width_of_threshold(n, k, delta)))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Share:
    """rho = ``units`` + ``part`` / ``parts``, an exact ratio (int32 each, ``parts`` below 2^24)."""

    units: Array
    part: Array
    parts: Array

    @classmethod
    def of(cls, rho: float) -> "Share":
        """A float stands for the decimal that prints it, to the nearest ratio of whole numbers below 2^24."""
        ratio = Fraction(repr(float(rho))).limit_denominator(2**24 - 1)
        units = ratio.numerator // ratio.denominator
        return cls(*map(jnp.int32, (units, ratio.numerator - units * ratio.denominator, ratio.denominator)))


class Counter(NamedTuple):
    """v rho for a number of visits v: the whole part and what is left, in units of 1 / parts (int32)."""

    units: Array
    part: Array

    def after(self, visits: int, share: Share) -> "Counter":
        """Some visits later."""
        part = self.part + visits * share.part
        over = part // share.parts
        return Counter(self.units + visits * share.units + over, part - over * share.parts)

    def ceiling(self) -> Array:
        """The fewest pulls that are at least v rho."""
        return self.units + (self.part > 0).astype(jnp.int32)


class State(NamedTuple):
    """``cursor``: the arm that is visited next, or is ``visiting`` (bool); ``counter``: of the arms not yet visited in
    this round; ``plan``: what is pulled next, (n,); ``last``: the arm that ends it; ``code``."""

    seen: Seen
    cursor: Array
    visiting: Array
    counter: Counter
    plan: Array
    last: Array
    code: Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class WRR:
    """``share``: rho; all else as in ``RR``."""

    k: Twofold
    of: Interval
    share: Share
    cap: Array
    start: Array
    leaping: Array
    n: int = field(metadata={"static": True})

    def init(self, view: View) -> State:
        """Each arm once."""
        zero = jnp.int32(0)
        one = jnp.ones(self.n, jnp.int32)
        return State(Seen.nothing(self.n), zero, jnp.bool_(False), Counter(zero, zero), one, zero, jnp.int32(RUNNING))

    def ask(self, view: View, state: State) -> Pull:
        """What was planned."""
        return Pull(jnp.where(state.code == RUNNING, state.plan, 0), state.seen.pulls)

    def tell(self, view: View, state: State, pull: Pull, outcome: Array) -> State:
        """Looks at the arm pulled last, and plans on."""
        n, k = self.n, self.k.hi
        seen = state.seen.add(pull.counts, outcome)
        moved = seen.total > state.seen.total
        first = state.seen.total == 0
        at = look(self.of, k, self.k, seen)
        best = jnp.max(at.slack)
        here = jnp.arange(n, dtype=jnp.int32) == state.last
        own = jnp.sum(jnp.where(here, at.slack, 0))
        close = (jnp.abs(best) <= at.unsure) | (jnp.abs(own) <= at.unsure)
        on = active(self.of, self.k, seen, at, close)
        # Arms passed in this round, up to the last one, have one visit more.
        was, now = self._turn(state.cursor), self._turn(state.last)
        wrapped = (now < was) & ~first
        counter = jax.tree.map(
            lambda new, old: jnp.where(wrapped, new, old), state.counter.after(1, self.share), state.counter
        )
        due = counter.after(1, self.share).ceiling()
        visiting = jnp.any(here & on & (seen.pulls < due)) & ~first
        following = state.last + 1
        following = jnp.where(following >= n, following - n, following)
        cursor = jnp.where(first, self.start, jnp.where(visiting, state.last, following))
        ended = ~visiting & (cursor == self.start) & ~first
        counter = jax.tree.map(lambda new, old: jnp.where(ended, new, old), counter.after(1, self.share), counter)
        plan, last = self._plan(seen, at, best, on, cursor, visiting, counter)
        code = code_of(jnp.any(on), self.cap > seen.total, at)
        after = State(seen, cursor, visiting, counter, plan, last, code)
        return select(moved, after, state)

    def _turn(self, arm: Array) -> Array:
        """The place of an arm in a round, which begins at ``start``."""
        turn: Array = jnp.where(arm < self.start, arm - self.start + self.n, arm - self.start)
        return turn

    def _plan(
        self, seen: Seen, at: Sight, best: Array, on: Array, cursor: Array, visiting: Array, counter: Counter
    ) -> tuple[Array, Array]:
        n, k = self.n, self.k.hi
        place = cyclic(n, cursor)
        passed = cyclic(n, self.start) < self._turn(cursor)
        due = jnp.where(passed, counter.after(2, self.share).ceiling(), counter.after(1, self.share).ceiling())
        full = jnp.where(on, jnp.maximum(due - seen.pulls, 1), 1)
        m = seen.pulls.astype(jnp.float32)
        x = jnp.max(full.astype(jnp.float32) / m)
        sure = jnp.abs(at.slack) - at.unsure
        total = seen.total + jnp.sum(full, dtype=jnp.int32)
        stays = jnp.where(on, sure - x * at.growth, sure - x * self._gain(seen, at, x, total)) > 0
        stays = stays & ((x <= at.arms.sigma) | (on & (at.arms.sigma == 0)))
        first = jnp.min(jnp.where(stays, n, place))
        # An arm that surely stays active keeps the run going; where there is none, as far as the best one lasts.
        witness = jnp.min(jnp.where(at.slack == best, place, n - 1))
        lasting = within_sweep(at, k, jnp.maximum(best - at.unsure, 0), x, witness, 2 + best)
        first = jnp.where(jnp.any(on & stays), first, jnp.minimum(first, lasting))
        # The arm at the cursor, by itself: its own mean moves, the others do not.
        alone = jnp.max(
            jnp.where((place == 0) & on, sure * m / (2 + at.slack + jnp.sqrt((1 + k * k) / n) + at.turn), 0)
        )
        alone = jnp.where(at.arms.sigma > 0, jnp.minimum(alone, at.arms.sigma * at.least), alone)
        first = jnp.where(self.leaping, first, 0)
        here = jnp.where(self.leaping & (first == 0) & (best - at.unsure > 0), whole(alone) + 1, 1)
        count = jnp.where(place < first, full, jnp.where(place == first, jnp.minimum(here, full), 0))
        # No arm gets more than fits in a pull.
        big = jnp.min(jnp.where((count > MOST), place, n))
        count = jnp.where(place < big, count, jnp.where(place == big, jnp.minimum(count, MOST), 0))
        over = jnp.sum(count, dtype=jnp.int32) > self.cap - seen.total
        last_pull = (place == 0).astype(jnp.int32) * jnp.minimum(self.cap - seen.total, 1)
        count = jnp.where(over, last_pull, count)
        ends = jnp.max(jnp.where(count > 0, place, 0))
        return count, jnp.sum(jnp.where(place == ends, jnp.arange(n, dtype=jnp.int32), 0), dtype=jnp.int32)

    def _gain(self, seen: Seen, at: Sight, x: Array, total: Array) -> Array:
        """By how much, over x, an inactive arm's distance can shrink and its radii grow until ``total``: (n,)."""
        k, n = self.k.hi, self.n
        before, after = self.of.reach_at(seen.total), self.of.reach_at(total)
        grown = jnp.maximum(after - before, 0)
        # Of a radius by delta', relative: sqrt(1 + d) <= 1 + d / 2.
        swell = grown / (2 * before)
        radii, theta = at.arms.radii, at.arms.theta_radius
        if self.of.name == "bounded":
            bounded: Array = at.growth + jnp.abs(at.above) + (radii + theta) * swell / x
            return bounded
        # And by p~ (1 - p~), which moves by at most |1 - 2 p~| a for a move a of p~.
        shift = x + grown / at.least
        variance = jnp.square(radii) * seen.pulls / before
        slope = jnp.sqrt(jnp.maximum(1 - 4 * variance, 0)) / (2 * variance)
        each = (1 + swell) * (1 + shift * slope) - 1
        every = jnp.max(each)
        sigma = jnp.maximum(at.arms.sigma, jnp.float32(1e-6))
        if self.of.name == "bernoulli":
            steeper = 1 + x * (1 + 1 / sigma)
            wider = steeper * (theta + k * x * at.widest / jnp.sqrt(n * sigma)) - theta
            base = theta + wider
        else:
            wider = x * at.turn
            base = theta + wider
        gain: Array = at.growth + jnp.abs(at.above) + (radii * each + wider + base * every) / x
        return gain

    def done(self, view: View, state: State) -> Array:
        """No arm is active, or the cap is reached."""
        return state.code != RUNNING

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """See ``leap.answer``."""
        return answer(self.of, self.k, state.seen, state.code)
