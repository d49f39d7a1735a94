"""Rand and RandL: a node, or a leaf, and a configuration at random (baselines of Rekatsinas, Deshpande and
Parameswaran 2019), all pairs with the same probability."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, NamedTuple

import jax.numpy as jnp
from jax import Array

from jaxbandit.describe import brief
from jaxbandit.extraction.problem import Outcome, Pull, View
from jaxbandit.extraction.retrieved import PICK, Retrieved, add, exclude_list
from jaxbandit.parameters import Key, checked
from jaxbandit.parsers import one_of
from jaxbandit.pytree import pytree
from jaxbandit.random.draws import integers

if TYPE_CHECKING:
    from jaxtyping import Bool

DEAR = ("avoid", "stop")


class State(NamedTuple):
    """What a run keeps between queries: what it has ``retrieved``."""

    retrieved: Retrieved


@pytree
@dataclass(frozen=True)
class Rand:
    """Rand and RandL, baselines of Rekatsinas, Deshpande and Parameswaran 2019: see ``rand``. All fields are static.

    Example:
        >>> from jaxbandit import extraction
        >>> extraction.rand(leaves=True)  # RandL
        Rand(leaves=True, dear='avoid')
        >>> extraction.rand(dear="stop") == extraction.Rand(leaves=False, dear="stop")
        True
    """

    leaves: bool = field(metadata={"static": True})
    dear: str = field(metadata={"static": True})

    __repr__ = brief

    def init(self, view: View) -> State:
        """Starts a run, with nothing asked and nothing retrieved."""
        return State(Retrieved.nothing(view))

    def _drawn(self, view: View, state: State) -> tuple[Array, Array, Array]:
        """Draws a node and a configuration (int32), by the number of queries; also returns whether the budget allows
        them (bool).

        Pairs are in the order of the configurations, and then of the nodes by their specificity: any order would do,
        and in this one the faster rule can draw from numbers of nodes.
        """
        among = jnp.asarray(view.poset.leaves) if self.leaves else jnp.arange(view.nodes, dtype=jnp.int32)
        specificity = jnp.asarray(view.poset.specificity)[among]
        order = jnp.argsort(specificity, stable=True)
        affordable = (view.cost[:, specificity[order]] <= view.budget - state.retrieved.spent).reshape(-1)
        drawable = affordable if self.dear == "avoid" else jnp.ones_like(affordable)
        many = jnp.maximum(jnp.sum(drawable, dtype=jnp.int32), 1)
        number = integers(view.choices, PICK, state.retrieved.queries, many)
        place = jnp.argmax(jnp.cumsum(drawable) > number).astype(jnp.int32)
        return among[order][place % order.shape[0]], place // order.shape[0], affordable[place]

    def ask(self, view: View, state: State) -> Pull:
        """Asks a node and a configuration that are drawn at random."""
        node, configuration, asked = self._drawn(view, state)
        exclude = exclude_list(view, state.retrieved, node, jnp.where(asked, view.lengths[configuration], 0))
        return Pull(node, configuration, exclude, state.retrieved.queries, asked)

    def tell(self, view: View, state: State, pull: Pull, outcome: Outcome) -> State:
        """Adds the answer to what was retrieved, and its cost to what was spent."""
        return State(add(view, state.retrieved, pull, outcome)[0])

    def done(self, view: View, state: State) -> Bool[Array, ""]:
        """Says that a run is over where the budget allows no pair, or not the one that was drawn."""
        return ~self._drawn(view, state)[2]

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """Reports what was retrieved and spent: see ``Retrieved.answer``."""
        return state.retrieved.answer()


@checked
def rand(*, leaves: bool = False, dear: Annotated[str, Key(one_of(*DEAR))] = "avoid") -> Rand:
    """Rand asks a random node with a random configuration; RandL, with ``leaves``, a random leaf.

    Args:
        leaves: whether leaves alone are asked.
        dear: a query that the budget no longer allows is not drawn ("avoid"), or the end ("stop").

    Raises:
        BadInput: for an argument out of range.

    Example:
        >>> from jaxbandit import extraction
        >>> extraction.rand().leaves
        False
    """
    return Rand(leaves, dear)
