"""Random: each operation goes to an entity drawn uniformly among those with false values left. Cheng, Lo, Yang, Luk, Li
and Xie, "Explore or Exploit? Effective Strategies for Disambiguating Large Databases", PVLDB 3(1), 2010, section 4.1
and Algorithm 3. The authors' program (appendix B) draws at most 1,000 times for an entity with false values left and
ends the run if it found none; Algorithm 3 has no such limit, and neither has this.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jax import Array

from jaxbandit.cleaning.pulls import Outcome, Pull
from jaxbandit.cleaning.records import State
from jaxbandit.cleaning.view import View
from jaxbandit.describe import brief
from jaxbandit.pytree import pytree

if TYPE_CHECKING:
    from jaxtyping import Bool, Int32


@pytree
@dataclass(frozen=True)
class Random:
    """The policy Random: Cheng et al. 2010, section 4.1 and Algorithm 3. It has no parameters.

    Example:
        >>> import numpy as np
        >>> from jaxbandit import cleaning, random
        >>> problem = cleaning.of_table(budget=9, false_values=np.array([2, 3, 1]), sc_pdf=cleaning.Uniform())
        >>> keys, rule = [random.stream(0, run) for run in (0, 3)], cleaning.random()
        >>> views = [problem.view(key, problem.draw(key)) for key in keys]
        >>> [int(rule.ask(view, rule.init(view)).entity) for view in views]  # where two runs begin
        [2, 1]
    """

    __repr__ = brief

    def init(self, view: View) -> State:
        """Begins the run with no entity met."""
        return State.begin(view)

    def _chosen(self, view: View, state: State) -> Int32[Array, ""]:
        """Picks any entity with false values left (line 2)."""
        records = state.records
        return records.pick(view, records.used, records.unmet(view), state.totals.spent)

    def ask(self, view: View, state: State) -> Pull:
        """Asks for one operation on the entity chosen (line 3)."""
        return state.records.one_operation(view, self._chosen(view, state))

    def tell(self, view: View, state: State, pull: Pull, outcome: Outcome) -> State:
        """Counts the false value that was removed and the operation (lines 4 and 5)."""
        return state.after(self._chosen(view, state), pull, outcome)

    def done(self, view: View, state: State) -> Bool[Array, ""]:
        """Ends the run when the budget is spent or no false value is left (line 1)."""
        return state.over(view)

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """Returns the counts of the run by name, as ``Totals`` has them."""
        return state.totals.answer()


def random() -> Random:
    """Makes the policy random, which has no parameters.

    Example:
        >>> from jaxbandit import cleaning
        >>> cleaning.random()
        Random()
    """
    return Random()
