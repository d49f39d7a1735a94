"""Greedy: each operation goes to the entity with the highest estimate s / t, ties at random
(Cheng et al. 2010, section 4.2 and Algorithm 4).

Estimates begin at 0, so at most one entity ever has a higher one: that which is worked on since its first success.
Until it is clean nothing else is chosen; then an entity is drawn from all others again, tried ones included.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxbandit.cleaning.pool import Entry, Pool, select
from jaxbandit.cleaning.problem import Outcome, Pull, Totals, View
from jaxbandit.cleaning.random import pick
from jaxbandit.random.race import UNLIMITED


class State(NamedTuple):
    """``pool``: entities tried in vain; ``met``: how many were met; ``slot`` and ``at``: the entity at hand;
    ``working`` (bool): whether it had a success. It is drawn when it is due, as in ``random.py``."""

    pool: Pool
    met: Array
    slot: Array
    at: Entry
    working: Array
    totals: Totals


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Greedy:
    """``memory`` (static): the most entities that a run can meet."""

    memory: int = field(metadata={"static": True})

    def init(self, view: View) -> State:
        """Nothing met."""
        pool, zero = Pool.empty(self.memory), jnp.int32(0)
        return State(pool, zero, *pick(view, pool, zero, zero), jnp.bool_(False), Totals.zero())

    def ask(self, view: View, state: State) -> Pull:
        """Try an entity until it fails; one that succeeded before, to the end."""
        return Pull(
            entity=state.at.entity,
            attempt=state.at.tried,
            successes=view.false_values(state.at.entity) - state.at.gained,
            failures=jnp.where(state.working, UNLIMITED, 1),
            cleans=jnp.where(self.done(view, state), 0, view.budget - state.totals.spent),
        )

    def tell(self, view: View, state: State, pull: Pull, outcome: Outcome) -> State:
        """After a first success stay with the entity until it is clean."""
        moved = outcome.cleans > 0
        clean = moved & (outcome.removed == pull.successes)
        after = state.at.add(outcome)
        tried = moved & ~state.working
        working = (after.gained > 0) & ~clean
        pool = state.pool.put(state.slot, after, where=tried, keep=after.gained == 0)
        met = state.met + (tried & (state.slot >= state.pool.size)).astype(jnp.int32)
        totals = state.totals.add(outcome, clean)
        slot, drawn = pick(view, pool, met, totals.spent)
        return State(pool, met, slot, select(working, after, drawn), working, totals)

    def done(self, view: View, state: State) -> Array:
        """The budget is spent, or no false value is left."""
        none = ~state.working & (state.pool.size + view.entities - state.met <= 0)
        return (state.totals.spent >= view.budget) | none

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """See ``Totals``."""
        return state.totals.answer()
