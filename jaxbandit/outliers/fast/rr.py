"""RR in leaps: ``tests/test_outlier_policies.py::test_rr_is_its_oracle`` ties it to ``jaxbandit.outliers.rr``.

The only event is the end, so one witness, an arm that surely stays active, certifies a leap.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxbandit.grammar import Execution, accelerated
from jaxbandit.outliers.fast.leap import active, cyclic, evaluate, outliers, select, whole, within_sweep
from jaxbandit.outliers.fast.tables import Table, tabulated
from jaxbandit.outliers.problem import MOST, OutlierArms, Sums, View
from jaxbandit.outliers.record import Seen, answer
from jaxbandit.outliers.rr import RR


class State(NamedTuple):
    """``cursor``: the arm that is next; ``sweeps``, ``extra``: what can surely be pulled next, whole sweeps, or where
    there are none that many further arms (int32); ``active``: whether any arm is."""

    seen: Seen
    cursor: Array
    sweeps: Array
    extra: Array
    active: Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class LeapingRR:
    """``rule``; its log terms, ``table``; ``n`` (static): how many arms."""

    rule: RR
    table: Table
    n: int = field(metadata={"static": True})

    @property
    def execution(self) -> Execution:
        """A step works on a few arrays of all arms."""
        return Execution(in_cache=True, step_bytes=192 * self.n, masked=True, gain_ns=1)

    def init(self, view: View) -> State:
        """A first sweep over all arms."""
        zero = jnp.int32(0)
        return State(Seen.nothing(self.n), zero, jnp.int32(1), zero, jnp.bool_(True))

    def advance(self, view: View, state: State, sample: Callable[[Sums], Array]) -> State:
        """Pulls what was planned, and looks whether an arm is active, and if so how far it surely stays so."""
        n, left = self.n, jnp.where(state.active, view.budget - state.seen.total, 0)
        sweeps = jnp.minimum(state.sweeps, left // n)
        extra = jnp.minimum(jnp.where(sweeps > 0, 0, jnp.where(state.sweeps > 0, n, state.extra)), left)
        counts = sweeps + (cyclic(n, state.cursor) < extra).astype(jnp.int32)
        seen = state.seen.add(counts, sample(Sums(counts, state.seen.pulls)))
        moved = seen.total > state.seen.total
        cursor = jnp.where(state.seen.total == 0, 1, state.cursor + extra)
        cursor = jnp.where(cursor >= n, cursor - n, cursor)
        return select(moved, State(seen, cursor, *self._plan(view, seen, cursor, moved)), state)

    def _plan(self, view: View, seen: Seen, cursor: Array, moved: Array) -> tuple[Array, Array, Array]:
        n, of = self.n, self.rule.of
        now = evaluate(of, seen, self.table.at(jnp.maximum(seen.total, 1)), view.unit)
        overlap, sigma = now.at.overlap, now.at.sigma
        best = jnp.max(overlap)
        goes_on = jnp.any(active(of, seen, now, view.unit, moved & (jnp.abs(best) <= now.unsure)))
        sure = jnp.maximum(best - now.unsure, 0)
        x = sure / now.growth
        x = jnp.where(sigma > 0, jnp.minimum(x, sigma), x)
        sweeps = jnp.minimum(whole(x * now.least), MOST)
        witness = jnp.min(jnp.where(overlap == best, cyclic(n, cursor), n - 1))
        extra = within_sweep(now, sure, 1 / (now.least + 1), witness, 2 + best) + 1
        return sweeps, jnp.minimum(extra, n), goes_on

    def done(self, view: View, state: State) -> Array:
        """No arm is active, or the budget is spent."""
        return ~state.active | (state.seen.total >= view.budget)

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """See ``record.answer``."""
        return answer(state.seen, outliers(self.rule.of, state.seen, view.unit), ~state.active)


@accelerated.register
def _(rule: RR, problem: Any) -> Any:
    if not isinstance(problem, OutlierArms):
        return rule
    n = problem.source.arms
    return LeapingRR(rule, tabulated(rule.of, n), n)
