"""Naive Round-Robin (NRR): Zhuang, Wang and Wang, "Identifying Outlier Arms in Multi-Armed Bandit", NIPS 2017, section
5.2: all arms in turn, until the estimated set was the same after each of the last 1/delta pulls.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxbandit.outliers.intervals import Interval
from jaxbandit.outliers.leap import RUNNING, Seen, answer, code_of, cyclic, look, outliers, select, within_sweep
from jaxbandit.outliers.problem import Pull, View
from jaxbandit.outliers.twofold import Twofold


def patience(delta: float) -> int:
    """1/delta as a number of pulls: the smallest that is at least that, delta being the decimal that prints it."""
    return math.ceil(1 / Fraction(repr(float(delta))))


class State(NamedTuple):
    """``cursor``: the arm that is next; ``extra``: how many arms are pulled next; ``same``: pulls since the set
    ``found``, bool (n,), changed; ``code``."""

    seen: Seen
    cursor: Array
    extra: Array
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

    stride: ClassVar[int] = 4

    def init(self, view: View) -> State:
        """Each arm once."""
        zero = jnp.int32(0)
        none = jnp.zeros(self.n, bool)
        return State(Seen.nothing(self.n), zero, jnp.int32(self.n), zero, none, jnp.int32(RUNNING))

    def ask(self, view: View, state: State) -> Pull:
        """The next arms, once each."""
        count = (cyclic(self.n, state.cursor) < state.extra).astype(jnp.int32)
        return Pull(jnp.where(state.code == RUNNING, count, 0), state.seen.pulls)

    def tell(self, view: View, state: State, pull: Pull, outcome: Array) -> State:
        """Looks whether the set has changed; up to the last pull it surely had not."""
        n, k = self.n, self.k.hi
        seen = state.seen.add(pull.counts, outcome)
        moved = seen.total > state.seen.total
        first = state.seen.total == 0
        at = look(self.of, k, self.k, seen)
        found = outliers(self.of, self.k, seen, at)
        changed = jnp.any(found != state.found) | first
        same = jnp.where(changed, 0, state.same + state.extra)
        cursor = jnp.where(first, self.start, state.cursor + state.extra)
        cursor = jnp.where(cursor >= n, cursor - n, cursor)
        # The mean nearest to the threshold is every arm's witness: all may move.
        sure = jnp.maximum(jnp.min(jnp.abs(at.above)) - at.unsure, 0)
        bare = at._replace(arms=at.arms._replace(theta_radius=jnp.float32(0)), turn=jnp.float32(0))
        safe = within_sweep(bare, sure, 1 / (at.least + 1), jnp.int32(0), jnp.float32(1))
        safe = jnp.where(self.leaping & (at.arms.sigma > 0), safe, 0)
        left = self.cap - seen.total
        extra = jnp.minimum(jnp.minimum(safe + 1, n), jnp.minimum(left, self.need - same))
        after = State(seen, cursor, extra, same, found, code_of(same < self.need, left > 0, at))
        return select(moved, after, state)

    def done(self, view: View, state: State) -> Array:
        """The set has not changed for long enough, or the cap is reached."""
        return state.code != RUNNING

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """See ``leap.answer``."""
        return answer(self.of, self.k, state.seen, state.code)
