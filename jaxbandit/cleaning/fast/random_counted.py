"""Random where exchangeable entities are counted (``ticks.py``), a whole run a step.

``tests/test_cleaning_counted.py`` ties its law to ``cleaning/random.py``: by enumeration, and by means.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxbandit.cleaning.fast.ticks import CLASSES, Ticked, Ticks
from jaxbandit.cleaning.pulls import Totals
from jaxbandit.cleaning.view import View
from jaxbandit.contract import brief
from jaxbandit.grammar import Execution


class State(NamedTuple):
    """``counts``: see ``Ticks``."""

    counts: Array
    totals: Totals


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class CountedRandom:
    """For problems that are not ``paired``, and budgets that it ``fits``."""

    execution = Execution(stride=1, most_lanes=512, masked=True)

    __repr__ = brief

    def init(self, view: View) -> State:
        """Nothing met."""
        return State(jnp.full(CLASSES, view.entities, jnp.int32), Totals.zero())

    def ask(self, view: View, state: State) -> Ticks:
        """All that is left of the budget."""
        left = jnp.where(self.done(view, state), 0, view.budget - state.totals.spent)
        return Ticks(state.totals.spent, state.counts, left)

    def tell(self, view: View, state: State, pull: Ticks, outcome: Ticked) -> State:
        """Count."""
        spent, removed, finished = state.totals
        _, cleans, more, clean = outcome
        return State(outcome.counts, Totals(spent + cleans, removed + more, finished + clean))

    def done(self, view: View, state: State) -> Array:
        """The budget is spent, or no false value is left."""
        return (state.totals.spent >= view.budget) | (state.counts[-1] <= 0)

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """See ``Totals``."""
        return state.totals.answer()
