"""Greedy by visits: one operation and, if it succeeds, all until the entity is clean, in a step or a few.
``test_greedy_in_visits_equals_the_rule`` (tests/test_cleaning_policies.py) ties it to ``cleaning/greedy.py``.

Estimates begin at 0, so at most one entity ever has a higher one: that which is worked on since its first success.
Until it is clean nothing else is chosen; then an entity is drawn from all others again, tried ones included.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from jaxbandit.cleaning.fast.pool import PADDING, Entry, flat_row_at, with_flat_row
from jaxbandit.cleaning.fast.pulls import Visit
from jaxbandit.cleaning.pulls import Outcome, Totals
from jaxbandit.cleaning.records import PICK
from jaxbandit.cleaning.view import View
from jaxbandit.describe import brief
from jaxbandit.grammar import Execution
from jaxbandit.pytree import pytree
from jaxbandit.random.draws import below
from jaxbandit.xla.entries import select
from jaxbandit.xla.fence import once


class State(NamedTuple):
    """The state of a run. ``rows``: int32, shape (2 (memory + PADDING),), the entities tried in vain and how often
    (``flat_row_at``); ``size``: how many they are; ``met``: how many were met; ``slot`` and ``at``: the entity at hand;
    ``working`` (bool): whether it had a success. The next entity is drawn when it is due, as in ``random.py``."""

    rows: Array
    size: Array
    met: Array
    slot: Array
    at: Entry
    working: Array
    totals: Totals


@pytree
@dataclass(frozen=True)
class GreedyByVisits:
    """Greedy on entities that are held, a visit in a step or a few. ``memory`` (static): the most entities that a run
    can meet."""

    memory: int = field(metadata={"static": True})

    execution = Execution(most_lanes=128, scratch=("rows",), masked=True, gain_ns=3)

    __repr__ = brief

    def init(self, view: View) -> State:
        """Begins the run with no entity met, and the first of the random order at hand."""
        zero = jnp.int32(0)
        rows = jnp.zeros(2 * (self.memory + PADDING), jnp.int32)
        at = Entry(view.in_random_order(zero), zero, zero)
        return State(rows, zero, zero, zero, at, jnp.bool_(False), Totals.zero())

    def ask(self, view: View, state: State) -> Visit:
        """Asks to try the entity at hand once and, if it has had or has a success, to clean it to the end."""
        return Visit(
            entity=state.at.entity,
            attempt=state.at.tried,
            successes=once(view.false_values(state.at.entity) - state.at.gained),
            cleans=jnp.where(self.done(view, state), 0, view.budget - state.totals.spent),
            proven=state.working.astype(jnp.int32),
        )

    def tell(self, view: View, state: State, pull: Visit, outcome: Outcome) -> State:
        """Stays with an entity after its first success until it is clean; else draws the next one."""
        moved = outcome.cleans > 0
        clean = moved & (outcome.removed == pull.successes)
        after = state.at.add(outcome)
        tried = moved & ~state.working
        new = state.slot >= state.size
        kept = tried & (after.gained == 0)
        gone = tried & ~kept & ~new
        working = (after.gained > 0) & ~clean
        last = flat_row_at(state.rows, state.size - 1, 2)
        row = jnp.where(gone, last, jnp.stack([after.entity, after.tried]))
        rows = with_flat_row(state.rows, jnp.where(kept | gone, state.slot, self.memory + PADDING), row)
        size = state.size + (kept & new).astype(jnp.int32) - gone.astype(jnp.int32)
        met = state.met + (tried & new).astype(jnp.int32)
        totals = state.totals.add(outcome, clean)
        alive = size + view.entities - met
        slot = jnp.minimum(below(view.choices, PICK, totals.spent, jnp.maximum(alive, 1)), size)
        entity, again = flat_row_at(rows, slot, 2)
        fresh = view.in_random_order(jnp.minimum(met, view.entities - 1))
        zero = jnp.int32(0)
        drawn = Entry(jnp.where(slot < size, entity, fresh), jnp.where(slot < size, again, zero), zero)
        stay = working | ~moved
        slot = jnp.where(stay, state.slot, slot)
        return State(rows, size, met, slot, select(stay, after, drawn), working, totals)

    def done(self, view: View, state: State) -> Array:
        """Ends the run when the budget is spent or no false value is left."""
        none = ~state.working & (state.size + view.entities - state.met <= 0)
        return (state.totals.spent >= view.budget) | none

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """Returns the counts of the run by name, as ``Totals`` has them."""
        return state.totals.answer()
