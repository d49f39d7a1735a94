"""Random: each operation goes to an entity drawn uniformly among those with false values left
(Cheng et al. 2010, section 4.1 and Algorithm 3)."""

from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxbandit.cleaning.pool import Entry, Pool, below, select
from jaxbandit.cleaning.problem import Outcome, Pull, Totals, View
from jaxbandit.random.race import UNLIMITED

PICK = 1


class State(NamedTuple):
    """``pool``: the entities met that have false values left; ``met``: how many were met; ``slot`` and ``at``: the
    entity that is next.

    It is drawn when the last one's outcome is told: all reads of the pool come after all writes, or XLA would copy it
    in each step.
    """

    pool: Pool
    met: Array
    slot: Array
    at: Entry
    totals: Totals


def pick(view: View, pool: Pool, met: Array, index: Array) -> tuple[Array, Entry]:
    """An entity uniformly among the pool's and the unmet ones: its slot (``pool.size``: unmet) and its record."""
    alive = pool.size + view.entities - met
    slot = below(view.choices, PICK, index, jnp.maximum(alive, 1))
    fresh = Entry(view.in_random_order(jnp.minimum(met, view.entities - 1)), jnp.int32(0), jnp.int32(0))
    return jnp.minimum(slot, pool.size), select(slot < pool.size, pool.at(slot), fresh)


def one_operation(view: View, at: Entry, over: Array) -> Pull:
    """One operation on an entity; none where the run is over."""
    return Pull(
        entity=at.entity,
        attempt=at.tried,
        successes=view.false_values(at.entity) - at.gained,
        failures=jnp.int32(UNLIMITED),
        cleans=jnp.where(over, 0, 1),
    )


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Random:
    """``memory`` (static): the most entities that a run can meet."""

    memory: int = field(metadata={"static": True})

    def init(self, view: View) -> State:
        """Nothing met."""
        pool, zero = Pool.empty(self.memory), jnp.int32(0)
        return State(pool, zero, *pick(view, pool, zero, zero), Totals.zero())

    def ask(self, view: View, state: State) -> Pull:
        """One operation."""
        return one_operation(view, state.at, self.done(view, state))

    def tell(self, view: View, state: State, pull: Pull, outcome: Outcome) -> State:
        """Put the entity back unless it is clean, and draw the next."""
        moved = outcome.cleans > 0
        clean = moved & (outcome.removed == pull.successes)
        pool = state.pool.put(state.slot, state.at.add(outcome), where=moved, keep=~clean)
        met = state.met + (moved & (state.slot >= state.pool.size)).astype(jnp.int32)
        totals = state.totals.add(outcome, clean)
        return State(pool, met, *pick(view, pool, met, totals.spent), totals)

    def done(self, view: View, state: State) -> Array:
        """The budget is spent, or no false value is left."""
        return (state.totals.spent >= view.budget) | (state.pool.size + view.entities - state.met <= 0)

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """See ``Totals``."""
        return state.totals.answer()
