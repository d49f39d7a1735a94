"""known-sc: the reference that knows every sc-probability. Cheng, Lo, Yang, Luk, Li and Xie, "Explore or Exploit?
Effective Strategies for Disambiguating Large Databases", PVLDB 3(1), 2010, section 3.3.

Entities in descending order of sc-probability, each cleaned to the end before the next. It alone may know the truth,
and so its pulls are ``Informed``: they name an entity by its rank.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxbandit.cleaning.problem import Informed, Told, Totals
from jaxbandit.cleaning.view import View
from jaxbandit.contract import brief
from jaxbandit.grammar import Execution


class State(NamedTuple):
    """``rank`` of the entity at hand, with ``tried`` and ``gained`` on it (int32); ``height``: see ``Informed``."""

    rank: Array
    height: Array
    tried: Array
    gained: Array
    totals: Totals


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class KnownSc:
    """It has no parameters."""

    execution = Execution(masked=True)

    __repr__ = brief

    def init(self, view: View) -> State:
        """At the best entity."""
        zero = jnp.int32(0)
        return State(zero, jnp.float32(0), zero, zero, Totals.zero())

    def ask(self, view: View, state: State) -> Informed:
        """Clean the entity at hand to the end."""
        left = jnp.where(state.rank < view.entities, view.budget - state.totals.spent, 0)
        return Informed(state.rank, state.height, state.tried, state.gained, cleans=left)

    def tell(self, view: View, state: State, pull: Informed, outcome: Told) -> State:
        """Go on, or to the next entity in rank."""
        clean = outcome.clean
        return State(
            rank=state.rank + clean.astype(jnp.int32),
            height=jnp.where(clean, outcome.height, state.height),
            tried=jnp.where(clean, 0, state.tried + outcome.cleans),
            gained=jnp.where(clean, 0, state.gained + outcome.removed),
            totals=state.totals.add(outcome, clean),
        )

    def done(self, view: View, state: State) -> Array:
        """The budget is spent, or every entity is clean."""
        return (state.totals.spent >= view.budget) | (state.rank >= view.entities)

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """See ``Totals``."""
        return state.totals.answer()


def known_sc() -> KnownSc:
    """The policy known-sc, which has no parameters.

    Example:
        >>> from jaxbandit import cleaning
        >>> cleaning.known_sc()
        KnownSc()
    """
    return KnownSc()
