"""Random where the budget is several operations an entity: a visit to an entity a step, for all that fall on it.

As many *ticks* as operations are left, each on any of the entities alive, would be these operations, but for ticks on
an entity that is clean by then: those are void, and cost nothing. What becomes of an entity depends on its own ticks
alone. So a pass goes through the entities, draws how many of the ticks that are left fall on each, and makes that many
operations or as many as it takes. Then the operations that the void ones leave are another pass; where they are few for
the entities alive, they are made one by one. ``tests/test_cleaning_passes.py`` ties it to ``cleaning/random.py``.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from jaxbandit.cleaning.fast.pool import PADDING, Entry, flat_row_at, with_flat_row
from jaxbandit.cleaning.pulls import Outcome, Pull, Totals
from jaxbandit.cleaning.view import View
from jaxbandit.describe import brief
from jaxbandit.grammar import Execution
from jaxbandit.pytree import pytree
from jaxbandit.random.draws import scale
from jaxbandit.random.race import UNLIMITED
from jaxbandit.random.stream import words
from jaxbandit.xla.elementary import exp, log1p, pinned
from jaxbandit.xla.entries import select
from jaxbandit.xla.exact import quotient
from jaxbandit.xla.fence import computed_once

VISIT = 5
"""What a word of the policy's stream is for: a visit, by its number. The first word says how many ticks fall on the
entity, the second one which entity gets a single operation."""

_MEAN, _MOST = 8, 32
"""Ticks of a pass for each entity, and how many an entity gets at most: more have a chance below 2^-32."""


@computed_once
def share(word: Array, ticks: Array, entities: Array) -> Array:
    """Draws how many of some ticks fall on one of so many entities (int32 all): binomial, by inversion."""
    n, each = ticks.astype(jnp.float32), quotient(1, jnp.maximum(entities, 2).astype(jnp.float32))
    mass = exp(pinned(n * log1p(-each))) * jnp.float32(2**30)
    odds = quotient(each, 1 - each)
    rest, found = (word >> jnp.uint32(2)).astype(jnp.int32), jnp.zeros_like(ticks)
    for k in range(_MOST):
        rest = rest - mass.astype(jnp.int32)
        found = found + (rest >= 0).astype(jnp.int32)
        mass = mass * (jnp.maximum(n - k, 0) * (1 / (k + 1)) * odds)
    # What rounding leaves over goes to the mean. The last entity gets all.
    found = jnp.where(found < _MOST, jnp.minimum(found, ticks), (n * each).astype(jnp.int32))
    return jnp.where(entities > 1, found, ticks)


class State(NamedTuple):
    """The state of a run. ``rows``: the entities alive, as in ``random.State``, of which the first ``met`` are written:
    another one is that of its slot in the random order, without an operation. ``size``: how many are alive; ``slot``
    and ``at``: the one that is visited; ``due``: its ticks; ``ticks``: those of the pass that are left for entities
    after it; ``visits``: how many there were."""

    rows: Array
    size: Array
    met: Array
    slot: Array
    at: Entry
    due: Array
    ticks: Array
    visits: Array
    totals: Totals


@pytree
@dataclass(frozen=True)
class RandomInPasses:
    """Random on entities that are held, a visit to one a step. ``memory`` (static): the most entities of a run."""

    memory: int = field(metadata={"static": True})

    execution = Execution(most_lanes=128, scratch=("rows",), masked=True, gain_ns=3, loss_ns=110)

    __repr__ = brief

    def init(self, view: View) -> State:
        """Begins the run before its first visit."""
        zero, nowhere = jnp.int32(0), jnp.int32(self.memory + PADDING)
        rows = jnp.zeros(3 * (self.memory + PADDING), jnp.int32)
        at = Entry(zero, zero, zero)
        return State(rows, view.entities, zero, nowhere, at, zero, zero, zero, Totals.zero())

    def ask(self, view: View, state: State) -> Pull:
        """Asks for as many operations on the entity as it has ticks."""
        entity = view.in_random_order(state.at.entity)
        return Pull(
            entity=entity,
            attempt=state.at.tried,
            successes=view.false_values(entity) - state.at.gained,
            failures=jnp.int32(UNLIMITED),
            cleans=jnp.where(self.done(view, state), 0, state.due),
        )

    def tell(self, view: View, state: State, pull: Pull, outcome: Outcome) -> State:
        """Stays while the entity has ticks left and is not clean, or goes on to the next visit."""
        after, due = state.at.add(outcome), state.due - outcome.cleans
        clean = (outcome.cleans > 0) & (outcome.removed == pull.successes)
        leave = (clean | (due == 0)) & ~self.done(view, state)
        # The last entity takes the place of one that is clean.
        row = select(clean, self._row(state, state.size - 1), after)
        rows = with_flat_row(state.rows, jnp.where(leave, state.slot, self.memory + PADDING), jnp.stack(row))
        left = state._replace(
            rows=rows,
            size=state.size - clean.astype(jnp.int32),
            met=jnp.where(state.visits > 0, jnp.maximum(state.met, state.slot + 1), 0),
            slot=jnp.where(clean, state.slot, state.slot + 1),
            visits=state.visits + 1,
            totals=state.totals.add(outcome, clean),
        )
        stayed = state._replace(at=after, due=due, totals=left.totals)
        return select(leave, self._visited(view, left), stayed)._replace(rows=rows)

    def _visited(self, view: View, state: State) -> State:
        """Goes on to the entity in the slot, the next one of the pass; or begins another pass, or makes a single
        operation, where no ticks are left."""
        todo, ends = view.budget - state.totals.spent, state.ticks == 0
        whole = ends & (2 * todo > state.size)
        alone = ends & ~whole
        first, second = words(view.choices, VISIT, state.visits)
        # Of the entities without an operation, any is as good as another: they come in random order.
        single = jnp.minimum(scale(second, state.size), state.met)
        slot = jnp.where(whole, 0, jnp.where(alone, single, state.slot))
        ticks = jnp.where(whole, jnp.minimum(todo, _MEAN * state.size), state.ticks)
        drawn = share(first, ticks, state.size - slot)
        due, rest = jnp.where(alone, 1, drawn), jnp.where(alone, 0, ticks - drawn)
        return state._replace(slot=slot, at=self._row(state, slot), due=due, ticks=rest)

    @staticmethod
    def _row(state: State, slot: Array) -> Entry:
        """Returns the record of the entity in a slot."""
        entity, tried, gained = flat_row_at(state.rows, slot, 3)
        written = slot < state.met
        return Entry(jnp.where(written, entity, slot), jnp.where(written, tried, 0), jnp.where(written, gained, 0))

    def done(self, view: View, state: State) -> Array:
        """Ends the run when the budget is spent or no false value is left."""
        return (state.totals.spent >= view.budget) | (state.size <= 0)

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """Returns the counts of the run by name, as ``Totals`` has them."""
        return state.totals.answer()
