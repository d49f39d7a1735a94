"""known-sc: the reference that knows every sc-probability. Cheng, Lo, Yang, Luk, Li and Xie, "Explore or Exploit?
Effective Strategies for Disambiguating Large Databases", PVLDB 3(1), 2010, section 3.3.

Entities in descending order of sc-probability, each cleaned to the end before the next. It alone may know the truth,
and so its pulls are ``Informed``: they name an entity by its rank.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxbandit.cleaning.pulls import Informed, Told, Totals
from jaxbandit.cleaning.view import View
from jaxbandit.contract import brief
from jaxbandit.grammar import Execution

if TYPE_CHECKING:
    from jaxtyping import Bool, Float32, Int32


class State(NamedTuple):
    """``rank`` of the entity at hand, with ``tried`` and ``gained`` on it; ``height``: see ``Informed``."""

    rank: Int32[Array, ""]
    height: Float32[Array, ""]
    tried: Int32[Array, ""]
    gained: Int32[Array, ""]
    totals: Totals


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class KnownSc:
    """known-sc, the reference that knows every sc-probability: Cheng et al. 2010, section 3.3. It has no parameters.

    Example:
        >>> import numpy as np
        >>> from jaxbandit import cleaning, random
        >>> known, key = np.array([0.0, 1.0]), random.stream(0, 0)
        >>> problem = cleaning.of_table(budget=5, false_values=np.array([4, 3]), sc_probabilities=known)
        >>> instance, rule = problem.draw(key), cleaning.known_sc()
        >>> view = problem.view(key, instance)
        >>> pull = rule.ask(view, rule.init(view))
        >>> state = rule.tell(view, rule.init(view), pull, problem.pull(key, instance, pull))
        >>> int(state.rank), int(state.totals.removed)  # the entity of rank 0 is clean, and the next one is at hand
        (1, 3)
    """

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

    def done(self, view: View, state: State) -> Bool[Array, ""]:
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
