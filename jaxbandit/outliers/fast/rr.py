"""RR in batches of pulls (``leap.py``): ``tests/test_outlier_policies.py::test_rr_is_its_oracle`` ties it to
``jaxbandit.outliers.rr``.

The only event is the end of the run. So a single arm that surely stays active, the *witness*, certifies a batch.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from jaxbandit.grammar import Execution, accelerated
from jaxbandit.outliers.fast.leap import active, cyclic, evaluate, outliers, whole, within_sweep
from jaxbandit.outliers.fast.log_terms import LogTerms, tabulated
from jaxbandit.outliers.problem import MOST, OutlierArms, Sums, View
from jaxbandit.outliers.record import Seen, answer
from jaxbandit.outliers.rr import RR
from jaxbandit.pytree import pytree
from jaxbandit.xla.entries import select


class State(NamedTuple):
    """Holds the record, the arm that is next (``cursor``), what can surely be pulled without an event, which is so many
    whole ``sweeps`` or, where there are none, so many ``extra`` arms (int32), and whether any arm is active."""

    seen: Seen
    cursor: Array
    sweeps: Array
    extra: Array
    any_active: Array


@pytree
@dataclass(frozen=True)
class RRInBatches:
    """Runs a ``rule`` of RR in batches, with a table of its ``log_terms``; ``n`` (static): how many arms."""

    rule: RR
    log_terms: LogTerms
    n: int = field(metadata={"static": True})

    @property
    def execution(self) -> Execution:
        """Says that a step works on a few arrays of all arms."""
        return Execution(in_cache=True, step_bytes=192 * self.n, masked=True, gain_ns=1)

    def init(self, view: View) -> State:
        """Begins with a sweep over all arms as the first batch."""
        zero = jnp.int32(0)
        return State(Seen.nothing(self.n), zero, jnp.int32(1), zero, jnp.bool_(True))

    def advance(self, view: View, state: State, sample: Callable[[Sums], Array]) -> State:
        """Makes the planned pulls, evaluates whether any arm is active, and plans the next batch."""
        n, left = self.n, jnp.where(state.any_active, view.budget - state.seen.total, 0)
        sweeps = jnp.minimum(state.sweeps, left // n)
        extra = jnp.minimum(jnp.where(sweeps > 0, 0, jnp.where(state.sweeps > 0, n, state.extra)), left)
        counts = sweeps + (cyclic(n, state.cursor) < extra).astype(jnp.int32)
        seen = state.seen.add(counts, sample(Sums(counts, state.seen.pulls)))
        moved = seen.total > state.seen.total
        cursor = jnp.where(state.seen.total == 0, 1, state.cursor + extra)
        cursor = jnp.where(cursor >= n, cursor - n, cursor)
        return select(moved, State(seen, cursor, *self._plan(view, seen, cursor, moved)), state)

    def _plan(self, view: View, seen: Seen, cursor: Array, moved: Array) -> tuple[Array, Array, Array]:
        n, interval = self.n, self.rule.interval
        now = evaluate(interval, seen, self.log_terms.at(jnp.maximum(seen.total, 1)), view.unit)
        overlap, sigma = now.at.overlap, now.at.sigma
        best = jnp.max(overlap)
        goes_on = jnp.any(active(interval, seen, now, view.unit, moved & (jnp.abs(best) <= now.unsure)))
        sure = jnp.maximum(best - now.unsure, 0)
        x = sure / now.growth
        x = jnp.where(sigma > 0, jnp.minimum(x, sigma), x)
        sweeps = jnp.minimum(whole(x * now.least), MOST)
        witness = jnp.min(jnp.where(overlap == best, cyclic(n, cursor), n - 1))
        extra = within_sweep(now, sure, 1 / (now.least + 1), witness, 2 + best) + 1
        return sweeps, jnp.minimum(extra, n), goes_on

    def done(self, view: View, state: State) -> Array:
        """Ends the run when no arm is active, or the budget is spent."""
        return ~state.any_active | (state.seen.total >= view.budget)

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """Answers which arms are estimated outliers, as ``RR`` does."""
        return answer(state.seen, outliers(self.rule.interval, state.seen, view.unit), ~state.any_active)


@accelerated.register
def _(rule: RR, problem: Any) -> Any:
    if not isinstance(problem, OutlierArms):
        return rule
    n = problem.source.arms
    return RRInBatches(rule, tabulated(rule.interval, n), n)
