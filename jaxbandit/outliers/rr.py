"""Round-Robin (RR): Zhuang, Wang and Wang, "Identifying Outlier Arms in Multi-Armed Bandit", NIPS 2017, Algorithm 1.

All arms in turn, until none is active: until no arm's interval meets that of the threshold mu + k sigma. The only event
is the end, so one witness, an arm that surely stays active, certifies a leap.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxbandit.grammar import Execution
from jaxbandit.outliers.intervals import Interval
from jaxbandit.outliers.leap import RUNNING, Seen, active, answer, code_of, cyclic, look, select, whole, within_sweep
from jaxbandit.outliers.problem import MOST, Pull, View
from jaxbandit.outliers.twofold import Twofold


class State(NamedTuple):
    """``cursor``: the arm that is next; ``sweeps``, ``extra``: what is pulled next, whole sweeps and then that many
    further arms; ``code``: of the result (int32 each)."""

    seen: Seen
    cursor: Array
    sweeps: Array
    extra: Array
    code: Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class RR:
    """``k``: of k-sigma; ``of``: the interval; ``cap``: the most pulls; ``start``: the arm pulled first after each was
    pulled once (int32 both); ``leaping``: whether pulls are drawn in bulk, or one by one (bool); ``n`` (static):
    how many arms."""

    k: Twofold
    of: Interval
    cap: Array
    start: Array
    leaping: Array
    n: int = field(metadata={"static": True})

    @property
    def execution(self) -> Execution:
        """A step works on a few arrays of all arms."""
        return Execution(in_cache=True, step_bytes=96 * self.n, masked=True)

    def init(self, view: View) -> State:
        """A first sweep over all arms."""
        zero = jnp.int32(0)
        return State(Seen.nothing(self.n), zero, jnp.int32(1), zero, jnp.int32(RUNNING))

    def ask(self, view: View, state: State) -> Pull:
        """The sweeps and arms that were planned."""
        count = state.sweeps + (cyclic(self.n, state.cursor) < state.extra).astype(jnp.int32)
        return Pull(jnp.where(state.code == RUNNING, count, 0), state.seen.pulls)

    def tell(self, view: View, state: State, pull: Pull, outcome: Array) -> State:
        """Looks whether an arm is active, and if so how far it surely stays so."""
        seen = state.seen.add(pull.counts, outcome)
        moved = seen.total > state.seen.total
        cursor = jnp.where(state.seen.total == 0, self.start, state.cursor + state.extra)
        cursor = jnp.where(cursor >= self.n, cursor - self.n, cursor)
        after = State(seen, cursor, *self._plan(seen, cursor, moved))
        return select(moved, after, state)

    def _plan(self, seen: Seen, cursor: Array, moved: Array) -> tuple[Array, Array, Array]:
        n, k = self.n, self.k.hi
        at = look(self.of, k, self.k, seen)
        best = jnp.max(at.slack)
        goes_on = jnp.any(active(self.of, self.k, seen, at, moved & (jnp.abs(best) <= at.unsure)))
        sure = jnp.maximum(best - at.unsure, 0)
        x = sure / at.growth
        x = jnp.where(at.arms.sigma > 0, jnp.minimum(x, at.arms.sigma), x)
        sweeps = jnp.minimum(whole(x * at.least), MOST)
        witness = jnp.min(jnp.where(at.slack == best, cyclic(n, cursor), n - 1))
        extra = within_sweep(at, sure, 1 / (at.least + 1), witness, 2 + best) + 1
        left = self.cap - seen.total
        many = (sweeps > 0) & self.leaping
        extra = jnp.where(self.leaping, jnp.minimum(extra, n), 1)
        extra = jnp.where(many, jnp.where(left < n, left, 0), jnp.minimum(extra, left))
        sweeps = jnp.where(many, jnp.minimum(sweeps, left // n), 0)
        return sweeps, extra, code_of(goes_on, left > 0, at)

    def done(self, view: View, state: State) -> Array:
        """No arm is active, or the cap is reached."""
        return state.code != RUNNING

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """See ``leap.answer``."""
        return answer(self.of, self.k, state.seen, state.code)
