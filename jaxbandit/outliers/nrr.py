"""Naive Round-Robin (NRR): Zhuang, Wang and Wang, "Identifying Outlier Arms in Multi-Armed Bandit", NIPS 2017, section
5.2: all arms in turn, until the estimated set was the same after each of the last 1/delta pulls.

A leap is up to n pulls, one an arm. All that moves the mean up, and all that moves it down, bound what it is after each
of them, and so do such sums of squares for sigma. If no mean, old or new, comes near the values that the threshold may
take, the set stays as it was; else the first of the pulls alone is made.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxbandit.grammar import Execution
from jaxbandit.outliers.intervals import Interval, mean, means_of
from jaxbandit.outliers.leap import RUNNING, Seen, clear, code_of, cyclic, look, outliers, select
from jaxbandit.outliers.problem import Once, View
from jaxbandit.outliers.twofold import Twofold


def patience(delta: float) -> int:
    """1/delta as a number of pulls: the smallest that is at least that, delta being the decimal that prints it."""
    return math.ceil(1 / Fraction(repr(float(delta))))


class State(NamedTuple):
    """``cursor``: the arm that is next; ``same``: pulls since the set ``found``, bool (n,), changed; ``code``."""

    seen: Seen
    cursor: Array
    same: Array
    found: Array
    code: Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class NRR:
    """``need``: pulls without a change that end the run (int32); ``of``: the set needs no radius, and so none is
    read; all else as in ``RR``."""

    k: Twofold
    of: Interval
    need: Array
    cap: Array
    start: Array
    leaping: Array
    n: int = field(metadata={"static": True})

    # A run is a first sweep and, nearly always, one leap.
    @property
    def execution(self) -> Execution:
        """A run is a first sweep and, nearly always, one leap, in a few arrays of all arms."""
        return Execution(stride=2, in_cache=True, step_bytes=160 * self.n, masked=True)

    def init(self, view: View) -> State:
        """Each arm once."""
        zero = jnp.int32(0)
        return State(Seen.nothing(self.n), zero, zero, jnp.zeros(self.n, bool), jnp.int32(RUNNING))

    def ask(self, view: View, state: State) -> Once:
        """The next arms, once each."""
        most = jnp.minimum(self.need - state.same, self.cap - state.seen.total)
        most = jnp.where(self.leaping & (self.of.rule == "k-sigma"), most, 1)
        most = jnp.where(state.seen.total == 0, self.n, most)
        count = (cyclic(self.n, state.cursor) < most).astype(jnp.int32)
        return Once(jnp.where(state.code == RUNNING, count, 0), state.seen.pulls)

    def tell(self, view: View, state: State, pull: Once, outcome: Array) -> State:
        """Looks whether the set has changed; up to the last pull it surely had not."""
        first = state.seen.total == 0
        alone = ~first & ~self._stays(state, pull.counts, outcome)
        here = cyclic(self.n, state.cursor) == 0
        counts, ones = (jnp.where(alone & ~here, 0, x) for x in (pull.counts, outcome))
        seen = state.seen.add(counts, ones)
        made = seen.total - state.seen.total
        at = look(self.of, self.k.hi, self.k, seen)
        found = outliers(self.of, self.k, seen, at, made > 0)
        changed = jnp.any(found != state.found) | first
        same = jnp.where(changed, 0, state.same + made)
        cursor = jnp.where(first, self.start, state.cursor + made)
        cursor = jnp.where(cursor >= self.n, cursor - self.n, cursor)
        code = code_of(same < self.need, self.cap > seen.total, at)
        return select(made > 0, State(seen, cursor, same, found, code), state)

    def _stays(self, state: State, counts: Array, outcome: Array) -> Array:
        """Whether the set surely stays the same while these arms are pulled."""
        n, k = self.n, self.k.hi
        later = state.seen.add(counts, outcome)
        unit = self.of.unit.hi
        old, new = (unit * means_of(jnp.maximum(x.pulls, 1), x.ones) for x in (state.seen, later))
        # From the mean on, so that what moves it hardly moves sigma.
        mu = mean(old)
        start, end = old - mu, new - mu
        gain, growth = end - start, end * end - start * start
        up, down, wider, narrower = (mean(jnp.maximum(x, 0)) for x in (gain, -gain, growth, -growth))
        square = mean(start * start)
        least_sigma = jnp.sqrt(jnp.maximum(square - narrower - jnp.square(jnp.maximum(up, down)), 0))
        most_sigma = jnp.sqrt(square + wider)
        unsure = clear(n, k, least_sigma) + jnp.float32(2.0**-18) * (1 + k / jnp.maximum(least_sigma, 1e-3))
        beyond = jnp.zeros(n, bool)
        within = jnp.zeros(n, bool)
        for sign in (1, -1) if self.of.sides == "both" else (1,):
            back, forth = (down, up) if sign > 0 else (up, down)
            least, most = sign * mu - back + k * least_sigma - unsure, sign * mu + forth + k * most_sigma + unsure
            low, high = jnp.minimum(sign * old, sign * new), jnp.maximum(sign * old, sign * new)
            beyond = beyond | (low > most)
            within = within | ((high >= least) & (low <= most))
        return jnp.all(beyond | ~within) & (least_sigma > 0)

    def done(self, view: View, state: State) -> Array:
        """The set has not changed for long enough, or the cap is reached."""
        return state.code != RUNNING

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """See ``leap.answer``."""
        seen = state.seen
        return {"outliers": state.found, "arm_pulls": seen.pulls, "pulls": seen.total, "code": state.code}
