"""Greedy: each operation goes to the entity with the highest estimate s / t, the share of operations on it that
succeeded, ties at random. Cheng, Lo, Yang, Luk, Li and Xie, "Explore or Exploit? Effective Strategies for
Disambiguating Large Databases", PVLDB 3(1), 2010, section 4.2 and Algorithm 4.

Estimates begin at 0 (line 1), so at most one entity ever has a higher one: that which is worked on since its first
success.
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
class Greedy:
    """The policy Greedy: Cheng et al. 2010, section 4.2 and Algorithm 4. It has no parameters.

    Example:
        >>> import jax.numpy as jnp
        >>> import numpy as np
        >>> from jaxbandit import cleaning, random
        >>> problem = cleaning.of_table(budget=9, false_values=np.array([2, 3]), sc_pdf=cleaning.Uniform())
        >>> key = random.stream(0, 0)
        >>> view, rule = problem.view(key, problem.draw(key)), cleaning.greedy()
        >>> state = rule.init(view)
        >>> pull = rule.ask(view, state)
        >>> state = rule.tell(view, state, pull, cleaning.Outcome(cleans=jnp.int32(1), removed=jnp.int32(1)))
        >>> bool(rule.ask(view, state).entity == pull.entity)  # it stays where an operation succeeded
        True
    """

    __repr__ = brief

    def init(self, view: View) -> State:
        """Begins the run with no entity met (line 1)."""
        return State.begin(view)

    def _chosen(self, view: View, state: State) -> Int32[Array, ""]:
        """Picks an entity of the highest estimate, ties at random (line 3)."""
        return state.records.pick(view, *state.records.highest(view), state.totals.spent)

    def ask(self, view: View, state: State) -> Pull:
        """Asks for one operation on the entity chosen (line 4)."""
        return state.records.one_operation(view, self._chosen(view, state))

    def tell(self, view: View, state: State, pull: Pull, outcome: Outcome) -> State:
        """Updates the entity's record, and so its estimate, the false values removed and the budget (lines 5 to 9)."""
        return state.after(self._chosen(view, state), pull, outcome)

    def done(self, view: View, state: State) -> Bool[Array, ""]:
        """Ends the run when the budget is spent or no false value is left (line 2)."""
        return state.over(view)

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """Returns the counts of the run by name, as ``Totals`` has them."""
        return state.totals.answer()


def greedy() -> Greedy:
    """Makes the policy greedy, which has no parameters.

    Example:
        >>> from jaxbandit import cleaning
        >>> cleaning.greedy()
        Greedy()
    """
    return Greedy()
