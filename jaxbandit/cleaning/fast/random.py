"""Random in runs: some operations a step. ``tests/test_cleaning_policies.py`` ties it to ``cleaning/random.py``: by the
same oracle on the tape, by enumeration and by means.

Most draws are of entities not met before, so a pull takes a run of them, after one that was met if such a one was
drawn. One word says how many follow before a draw of another kind. A pull ends early with an operation that leaves an
entity clean: up to there the entities drawn from stay the same, so a run's chances do not depend on its outcomes.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxbandit.cleaning.fast.pool import Entry, flat_row_at, with_block, with_flat_row
from jaxbandit.cleaning.fast.pulls import LONGEST_RUN, FirstOutcomes, FirstTrials
from jaxbandit.cleaning.pulls import Outcome, Totals
from jaxbandit.cleaning.records import PICK
from jaxbandit.cleaning.view import View
from jaxbandit.describe import brief
from jaxbandit.grammar import Execution
from jaxbandit.pytree import pytree
from jaxbandit.random.draws import below, uniform
from jaxbandit.random.stream import words
from jaxbandit.xla.exact import quotient

RUN = 4
"""What a word of the policy's stream is for: the length of a run."""

# The row and the column of each word of ``LONGEST_RUN`` rows, as constants: to compute them in each step takes longer.
_ORDER = np.repeat(np.arange(LONGEST_RUN, dtype=np.int32), 3)
_COLUMN = np.tile(np.arange(3, dtype=np.int32), LONGEST_RUN)


def run_length(word: Array, unmet: Array, alive: Array, first: Array) -> Array:
    """Draws how many draws among ``alive`` entities, without replacement of the ``unmet`` ones, are of unmet entities
    before one is not: int32, at most ``LONGEST_RUN``. Where ``first`` (bool), the first draw is known to be of one."""
    share, length = jnp.ones((), jnp.float32), jnp.zeros((), jnp.int32)
    each = quotient(1, jnp.maximum(alive, 1).astype(jnp.float32))
    # By inversion: ``share`` is the chance that the run is longer than ``done``.
    u = uniform(word)
    for done in range(LONGEST_RUN):
        chance = jnp.maximum(unmet - done, 0).astype(jnp.float32) * each
        share = share * (jnp.where(first, 1, chance) if done == 0 else chance)
        length = length + (u < share).astype(jnp.int32)
    return length


class State(NamedTuple):
    """The state of a run. ``rows``: int32, shape (3 (memory + LONGEST_RUN),), the entities met that have false values
    left: the place in the random order, the operations and how many succeeded (``flat_row_at``); ``size``: how many
    they are; ``met``: how many were met; ``slot`` and ``at``: the one of them that is next; a slot of ``size``: an
    unmet entity is.

    The next entity is drawn when the last outcome is told, so that all reads of the rows come after all writes
    (docs/xla-cpu.md).
    """

    rows: Array
    size: Array
    met: Array
    slot: Array
    at: Entry
    totals: Totals


@pytree
@dataclass(frozen=True)
class RandomInRuns:
    """Random on entities that are held, a run of operations a step. ``memory`` (static): the most entities that a run
    can meet."""

    memory: int = field(metadata={"static": True})

    execution = Execution(most_lanes=128, scratch=("rows",), masked=True, gain_ns=1)

    __repr__ = brief

    def init(self, view: View) -> State:
        """Begins the run with no entity met."""
        zero = jnp.int32(0)
        rows = jnp.zeros(3 * (self.memory + LONGEST_RUN), jnp.int32)
        return State(rows, zero, zero, zero, Entry(zero, zero, zero), Totals.zero())

    def ask(self, view: View, state: State) -> FirstTrials:
        """Asks for one operation on the entity at hand, if there is one, and on each of a run of unmet ones."""
        left = jnp.where(self.done(view, state), 0, view.budget - state.totals.spent)
        unmet = view.entities - state.met
        known = state.slot < state.size
        again = known.astype(jnp.int32)
        word = words(view.choices, RUN, state.totals.spent)[0]
        length = run_length(word, unmet, state.size + unmet, ~known)
        entity = view.in_random_order(state.at.entity)
        return FirstTrials(
            entity=entity,
            attempt=state.at.tried,
            successes=view.false_values(entity) - state.at.gained,
            cleans=jnp.minimum(left, again),
            place=state.met,
            length=jnp.minimum(length, jnp.maximum(left - again, 0)),
        )

    def tell(self, view: View, state: State, pull: FirstTrials, outcome: FirstOutcomes) -> State:
        """Remembers the entities that are not clean, and draws the next one."""
        moved = outcome.cleans > 0
        again = jnp.where(moved, pull.cleans, 0)
        run = outcome.cleans - again
        after = jnp.stack(state.at.add(Outcome(again, outcome.gained & 1)))
        last = flat_row_at(state.rows, state.size - 1, 3)
        nowhere = self.memory + LONGEST_RUN
        slot = jnp.where(again > 0, state.slot, nowhere)
        rows = with_flat_row(state.rows, slot, jnp.where(outcome.first_clean, last, after))
        size = state.size - outcome.first_clean.astype(jnp.int32)
        gained = (outcome.gained >> (_ORDER + 1)) & 1
        fresh = jnp.where(_COLUMN == 0, state.met + _ORDER, jnp.where(_COLUMN == 1, 1, gained))
        rows = with_block(rows, 3 * jnp.where(moved, size, nowhere), fresh)
        size = size + run - outcome.last_clean.astype(jnp.int32)
        met = state.met + run
        finished = outcome.first_clean | outcome.last_clean
        totals = Totals(
            state.totals.spent + outcome.cleans,
            state.totals.removed + lax.population_count(outcome.gained),
            state.totals.finished + finished.astype(jnp.int32),
        )
        # A run that ended by itself ended before a draw of an entity met before, which is the next one. After a run of
        # full length, after an entity that became clean, and after a checkpoint, the next draw is of any entity.
        ended = (run < LONGEST_RUN) & ~finished & (totals.spent < view.budget)
        alive = size + view.entities - met
        slot = below(view.choices, PICK, totals.spent, jnp.maximum(jnp.where(ended, size, alive), 1))
        slot = jnp.where(moved, jnp.minimum(slot, size), state.slot)
        return State(rows, size, met, slot, Entry(*flat_row_at(rows, slot, 3)), totals)

    def done(self, view: View, state: State) -> Array:
        """Ends the run when the budget is spent or no false value is left."""
        return (state.totals.spent >= view.budget) | (state.size + view.entities - state.met <= 0)

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """Returns the counts of the run by name, as ``Totals`` has them."""
        return state.totals.answer()
