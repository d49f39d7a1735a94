"""Random where exchangeable entities are counted (``ticks.py``), a whole run a step.

``tests/test_cleaning_counted.py`` ties its law to the paper's rule by enumeration, and by means to
``fast/random.py``, which ``tests/test_cleaning_policies.py`` ties to ``cleaning/random.py``.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from jaxbandit.cleaning.fast.ticks import CLASSES, Ticked, Ticks
from jaxbandit.cleaning.pulls import Totals
from jaxbandit.cleaning.view import View
from jaxbandit.describe import brief
from jaxbandit.grammar import Execution
from jaxbandit.pytree import pytree


class State(NamedTuple):
    """The state of a run: ``counts`` of entities by record, see ``Ticks``, and the totals."""

    counts: Array
    totals: Totals


@pytree
@dataclass(frozen=True)
class CountedRandom:
    """Random for problems that are not ``paired``, and for budgets that ``ticks.fits`` allows."""

    execution = Execution(stride=1, most_lanes=512, masked=True, gain_ns=5)

    __repr__ = brief

    def init(self, view: View) -> State:
        """Begins the run with all entities counted as unmet."""
        return State(jnp.full(CLASSES, view.entities, jnp.int32), Totals.zero())

    def ask(self, view: View, state: State) -> Ticks:
        """Asks for all operations that are left of the budget."""
        left = jnp.where(self.done(view, state), 0, view.budget - state.totals.spent)
        return Ticks(state.totals.spent, state.counts, left)

    def tell(self, view: View, state: State, pull: Ticks, outcome: Ticked) -> State:
        """Takes the new counts, and adds up what the operations did."""
        spent, removed, finished = state.totals
        _, cleans, more, clean = outcome
        return State(outcome.counts, Totals(spent + cleans, removed + more, finished + clean))

    def done(self, view: View, state: State) -> Array:
        """Ends the run when the budget is spent or no false value is left."""
        return (state.totals.spent >= view.budget) | (state.counts[-1] <= 0)

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """Returns the counts of the run by name, as ``Totals`` has them."""
        return state.totals.answer()
