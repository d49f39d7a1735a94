"""epsilon-Greedy: with probability epsilon as Random, else as Greedy. Cheng, Lo, Yang, Luk, Li and Xie, "Explore or
Exploit? Effective Strategies for Disambiguating Large Databases", PVLDB 3(1), 2010, section 4.3 and Algorithm 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import jax.numpy as jnp
from jax import Array

from jaxbandit.cleaning.pulls import Outcome, Pull
from jaxbandit.cleaning.records import State
from jaxbandit.cleaning.view import View
from jaxbandit.describe import brief
from jaxbandit.parameters import Key, checked
from jaxbandit.parsers import real
from jaxbandit.pytree import pytree
from jaxbandit.random.draws import uniform
from jaxbandit.random.stream import words
from jaxbandit.space import Range

if TYPE_CHECKING:
    from jaxtyping import Bool, Float32, Int32

EXPLORE = 2
"""What a word of the policy's stream is for: the coin of an operation."""


@pytree
@dataclass(frozen=True)
class EpsilonGreedy:
    """The policy epsilon-Greedy: Cheng et al. 2010, section 4.3 and Algorithm 5.

    ``epsilon``: the share of random operations, 0 to 1. Estimates are compared as float32 numbers: different shares
    stay different as long as no entity has had more than 4,096 operations.

    Example:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> from jaxbandit import cleaning
        >>> rules = jax.vmap(cleaning.EpsilonGreedy)(jnp.array([0.0, 0.1, 1.0]))  # a pytree: three rules as one
        >>> jax.tree.map(lambda leaf: leaf[0], rules)  # this one never explores, as Greedy
        EpsilonGreedy(epsilon=0)
    """

    epsilon: Float32[Array, ""]

    __repr__ = brief

    def init(self, view: View) -> State:
        """Begins the run with no entity met (line 1)."""
        return State.begin(view)

    def _chosen(self, view: View, state: State) -> Int32[Array, ""]:
        """Picks an entity with false values left, with probability epsilon any, else one of the highest estimate, ties
        at random (lines 3 to 7)."""
        records, spent = state.records, state.totals.spent
        explore = uniform(words(view.choices, EXPLORE, spent)[0]) < self.epsilon
        highest, unmet = records.highest(view)
        entries = jnp.where(explore, records.used, highest)
        return records.pick(view, entries, jnp.where(explore, records.unmet(view), unmet), spent)

    def ask(self, view: View, state: State) -> Pull:
        """Asks for one operation on the entity chosen (line 8)."""
        return state.records.one_operation(view, self._chosen(view, state))

    def tell(self, view: View, state: State, pull: Pull, outcome: Outcome) -> State:
        """Updates the entity's record, and so its estimate, the false values removed and the budget (lines 9 to 13)."""
        return state.after(self._chosen(view, state), pull, outcome)

    def done(self, view: View, state: State) -> Bool[Array, ""]:
        """Ends the run when the budget is spent or no false value is left (line 2)."""
        return state.over(view)

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """Returns the counts of the run by name, as ``Totals`` has them."""
        return state.totals.answer()


@checked
def epsilon_greedy(epsilon: Annotated[float, Key(real(0, 1), search=Range(0.01, 1))] = 0.5) -> EpsilonGreedy:
    """Makes the policy epsilon-Greedy with a given epsilon.

    Args:
        epsilon: the share of random operations, 0 to 1.

    Raises:
        BadInput: for an epsilon outside [0, 1].

    Example:
        >>> from jaxbandit import cleaning
        >>> float(cleaning.epsilon_greedy(0.5).epsilon)
        0.5
    """
    return EpsilonGreedy(jnp.float32(epsilon))
