"""known-sc: the reference that knows every sc-probability. Cheng, Lo, Yang, Luk, Li and Xie, "Explore or Exploit?
Effective Strategies for Disambiguating Large Databases", PVLDB 3(1), 2010, section 3.3.

It cleans the entities in descending order of sc-probability, each to the end before the next. It alone may know the
truth, and says so: it is ``informed`` (``grammar.Informed``), and so its pulls may name an entity by its rank. Where
sc-probabilities are drawn, they have the law of a sorted sample, but are not those that other policies meet in the same
run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

import jax.numpy as jnp
from jax import Array

from jaxbandit.cleaning.pulls import RankedPull, Told, Totals
from jaxbandit.cleaning.view import View
from jaxbandit.describe import brief
from jaxbandit.grammar import Execution
from jaxbandit.pytree import pytree

if TYPE_CHECKING:
    from jaxtyping import Bool, Float32, Int32


class State(NamedTuple):
    """The state of a run: the ``rank`` of the entity at hand, with ``tried`` and ``gained`` on it; ``height``:
    what the problem needs to draw the next greatest sc-probability (``problem.best``), handed on as it came."""

    rank: Int32[Array, ""]
    height: Float32[Array, ""]
    tried: Int32[Array, ""]
    gained: Int32[Array, ""]
    totals: Totals


@pytree
@dataclass(frozen=True)
class KnownSc:
    """The policy known-sc, the reference that knows every sc-probability: Cheng et al. 2010, section 3.3. It has no
    parameters.

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

    informed: ClassVar[Literal[True]] = True

    execution = Execution(masked=True, unroll=4, gain_ns=1)

    __repr__ = brief

    def init(self, view: View) -> State:
        """Begins with the entity of the highest sc-probability, on which nothing was tried."""
        zero = jnp.int32(0)
        return State(zero, jnp.float32(0), zero, zero, Totals.zero())

    def ask(self, view: View, state: State) -> RankedPull:
        """Asks to clean the entity at hand to the end, or as far as the budget goes."""
        left = jnp.where(state.rank < view.entities, view.budget - state.totals.spent, 0)
        return RankedPull(state.rank, state.height, state.tried, state.gained, cleans=left)

    def tell(self, view: View, state: State, pull: RankedPull, outcome: Told) -> State:
        """Goes on to the entity of the next rank once the one at hand is clean."""
        clean = outcome.clean
        return State(
            rank=state.rank + clean.astype(jnp.int32),
            height=jnp.where(clean, outcome.height, state.height),
            tried=jnp.where(clean, 0, state.tried + outcome.cleans),
            gained=jnp.where(clean, 0, state.gained + outcome.removed),
            totals=state.totals.add(outcome, clean),
        )

    def done(self, view: View, state: State) -> Bool[Array, ""]:
        """Ends the run when the budget is spent or every entity is clean."""
        return (state.totals.spent >= view.budget) | (state.rank >= view.entities)

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """Returns the counts of the run, as ``Totals`` names them."""
        return state.totals.answer()


def known_sc() -> KnownSc:
    """Makes the policy known-sc, which has no parameters.

    Example:
        >>> from jaxbandit import cleaning
        >>> cleaning.known_sc()
        KnownSc()
    """
    return KnownSc()
