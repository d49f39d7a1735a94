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
from jaxbandit.outliers.fast.leap import Statistics, any_active, cyclic, evaluate, outliers, whole, within_sweep
from jaxbandit.outliers.fast.log_terms import LogTerms, tabulated
from jaxbandit.outliers.problem import MOST, OutlierArms, Sums, View
from jaxbandit.outliers.record import Seen, answer
from jaxbandit.outliers.rr import RR
from jaxbandit.pytree import pytree
from jaxbandit.xla.entries import select
from jaxbandit.xla.formula import formula
from jaxbandit.xla.prefix import highest_first


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
        gain, loss = self.n / 200, 0.7 * self.n
        return Execution(cache_mib=1, step_bytes=192 * self.n, most_lanes=64, masked=True, gain_ns=gain, loss_ns=loss)

    def init(self, view: View) -> State:
        """Begins with a sweep over all arms as the first batch."""
        zero = jnp.int32(0)
        return State(Seen.nothing(self.n), zero, jnp.int32(1), zero, jnp.bool_(True))

    def advance(self, view: View, state: State, sample: Callable[[Sums], Array]) -> State:
        """Makes the planned pulls, evaluates whether any arm is active, and plans the next batch."""
        n, interval = self.n, self.rule.interval
        left = jnp.where(state.any_active, view.budget - state.seen.total, 0)
        sweeps = jnp.minimum(state.sweeps, left // n)
        extra = jnp.minimum(jnp.where(sweeps > 0, 0, jnp.where(state.sweeps > 0, n, state.extra)), left)
        pulls, ones, total = state.seen
        cursor = jnp.where(total == 0, 1, state.cursor + extra)
        cursor = jnp.where(cursor >= n, cursor - n, cursor)
        # The extra arms are the last ones before the cursor.
        counts = sweeps + (cyclic(n, cursor) >= n - extra).astype(jnp.int32)
        made = n * sweeps + extra
        seen, moved = Seen(pulls + counts, ones + sample(Sums(counts, pulls)), total + made), made > 0
        now = evaluate(interval, seen, self.log_terms.at(jnp.maximum(seen.total, 1)), view.unit)
        best, witness = highest_first(now.at.overlap, cyclic(n, cursor))
        # Without a pull the record and the cursor stay by themselves.
        planned = select(moved, self._planned(now, best, witness), (state.sweeps, state.extra))
        likely, unclear = jnp.where(moved, best > 0, state.any_active), moved & (jnp.abs(best) <= now.unsure)
        return State(seen, cursor, *planned, any_active(interval, seen, view.unit, likely, unclear))

    @formula
    def _planned(self, now: Statistics, best: Array, witness: Array) -> tuple[Array, Array]:
        """Returns what can surely be pulled while the arm at place ``witness``, of overlap ``best``, stays active."""
        sure, sigma = jnp.maximum(best - now.unsure, 0), now.at.sigma
        x = sure / (now.growth + now.turn)
        x = jnp.where(sigma > 0, jnp.minimum(x, sigma), x)
        x = jnp.maximum(x, (sure - now.most_turn) / now.growth)
        extra = within_sweep(now, sure, 1 / (now.least + 1), witness, 2 + best) + 1
        return jnp.minimum(whole(x * now.least), MOST), jnp.minimum(extra, self.n)

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
