"""Rand and RandL: a node, or a leaf, and a configuration at random (baselines of Rekatsinas, Deshpande and
Parameswaran 2019), all pairs alike."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxbandit.contract import brief
from jaxbandit.extraction.problem import Outcome, Pull, View
from jaxbandit.extraction.retrieved import PICK, Retrieved, add, exclude_list
from jaxbandit.parameters import Key, checked
from jaxbandit.parsers import one_of
from jaxbandit.random.draws import integers

if TYPE_CHECKING:
    from jaxtyping import Bool

DEAR = ("avoid", "stop")


class State(NamedTuple):
    """``got``: what was bought."""

    got: Retrieved


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Rand:
    """Rand and RandL, baselines of Rekatsinas, Deshpande and Parameswaran 2019: see ``rand``. All is static.

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
        """Nothing asked."""
        return State(Retrieved.nothing(view))

    def ask(self, view: View, state: State) -> Pull:
        """A pair, drawn by the number of queries: in the order of the configurations, and then of the nodes by their
        specificity."""
        among = jnp.asarray(view.poset.leaves) if self.leaves else jnp.arange(view.nodes, dtype=jnp.int32)
        specificity = jnp.asarray(view.poset.specificity)[among]
        order = jnp.argsort(specificity, stable=True)
        cheap = view.cost[:, specificity[order]] <= view.budget - state.got.spent
        drawable = (cheap if self.dear == "avoid" else jnp.ones_like(cheap)).reshape(-1)
        number = integers(view.choices, PICK, state.got.queries, jnp.maximum(jnp.sum(drawable, dtype=jnp.int32), 1))
        place = jnp.argmax(jnp.cumsum(drawable) > number).astype(jnp.int32)
        node, configuration = among[order][place % order.shape[0]], place // order.shape[0]
        asked = cheap.reshape(-1)[place]
        exclude = exclude_list(view, state.got, node, jnp.where(asked, view.lengths[configuration], 0))
        return Pull(node, configuration, exclude, state.got.queries, asked)

    def tell(self, view: View, state: State, pull: Pull, outcome: Outcome) -> State:
        """Add it up."""
        return State(add(view, state.got, pull, outcome)[0])

    def done(self, view: View, state: State) -> Bool[Array, ""]:
        """No pair is within what is left, or the one drawn is not."""
        return ~self.ask(view, state).asked

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """See ``Retrieved.answer``."""
        return state.got.answer()


@checked
def rand(*, leaves: bool = False, dear: Annotated[str, Key(one_of(*DEAR))] = "avoid") -> Rand:
    """Rand, or RandL where ``leaves``.

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
