"""GSExact: Algorithm 1 of CRUX (``crux.py``) with the true expected gain as r, and sigma = 0: how well it could do.

Each round it draws an exclude list for each node of the frontier, of which a configuration has the first l. It asks the
query of the highest true gain by cost, with that list, and lets the children of its node in. Bad queries stay: with
sigma = 0, all but the largest gains would go, whatever they cost. For problems that are ``informed``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxbandit.describe import brief
from jaxbandit.extraction.problem import InformedView, Outcome, Pull, View
from jaxbandit.extraction.retrieved import Retrieved, add, ancestors, exclude_lists
from jaxbandit.parameters import Key, checked
from jaxbandit.parsers import one_of
from jaxbandit.pytree import pytree
from jaxbandit.xla.exact import quotient

if TYPE_CHECKING:
    from jaxtyping import Bool, Float32, Int32

REACH = ("frontier", "all")


class State(NamedTuple):
    """What a run keeps between queries.

    ``retrieved``; ``entered``: the nodes to choose from; ``pruned``: those that gave an empty answer that counts, and
    all below them.
    """

    retrieved: Retrieved
    entered: Bool[Array, " nodes"]
    pruned: Bool[Array, " nodes"]


@pytree
@dataclass(frozen=True)
class GsExact:
    """GSExact, a reference of Rekatsinas, Deshpande and Parameswaran 2019: see ``gs_exact``. All fields are static.

    Example:
        >>> from jaxbandit import extraction
        >>> extraction.gs_exact(reach="all").informed
        True
    """

    reach: str = field(metadata={"static": True})

    informed: ClassVar[Literal[True]] = True

    __repr__ = brief

    def init(self, view: InformedView) -> State:
        """Lets the root in, or all nodes, with nothing retrieved."""
        node = jnp.arange(view.nodes, dtype=jnp.int32)
        return State(Retrieved.nothing(view), node >= 0 if self.reach == "all" else node == 0, node < 0)

    def ask(self, view: InformedView, state: State) -> Pull:
        """Picks the query of the highest true gain by cost, with the exclude list that the gain was computed for.

        Of equally good queries it is the first node's, and of these the first configuration.
        """
        node = jnp.arange(view.nodes, dtype=jnp.int32)
        lists = exclude_lists(view, state.retrieved, node)
        r = jnp.where(state.pruned[:, None], 0, gains(view, node, lists, self._known(view, state)))
        cost, askable = self._askable(view, state)
        best = jnp.argmax(jnp.where(askable, quotient(r, cost.astype(jnp.float32)), -jnp.inf)).astype(jnp.int32)
        chosen, configuration = best // cost.shape[1], best % cost.shape[1]
        asked = jnp.any(askable)
        exclude = jnp.where(
            (jnp.arange(view.l_max, dtype=jnp.int32) < view.lengths[configuration]) & asked, lists[chosen], -1
        )
        return Pull(chosen, configuration, exclude, state.retrieved.queries, asked)

    def _askable(self, view: View, state: State) -> tuple[Array, Array]:
        """Returns the cost of each query (int32), and whether it can be asked (bool): (nodes, configurations)."""
        cost = view.cost.T[jnp.asarray(view.poset.specificity)]
        return cost, state.entered[:, None] & (cost <= view.budget - state.retrieved.spent)

    def _known(self, view: InformedView, state: State) -> Array:
        """Sums ``InformedView.inclusion`` at each node over all entities retrieved: float32 (nodes, sizes)."""
        above = ancestors(view.poset, state.retrieved.leaf)
        chance = jax.vmap(jax.vmap(view.inclusion, (None, 0)))(state.retrieved.entity, above)
        nothing = jnp.zeros((view.nodes, chance.shape[-1]), jnp.float32)
        return nothing.at[jnp.where(above >= 0, above, view.nodes)].add(chance, mode="drop")

    def tell(self, view: InformedView, state: State, pull: Pull, outcome: Outcome) -> State:
        """Counts the answer, and lets the node's children in; if it was empty, nothing more is expected there."""
        empty = state.retrieved.ends_node(view, pull, outcome)
        return State(
            add(view, state.retrieved, pull, outcome)[0],
            state.entered | (view.poset.is_child(pull.node) & pull.asked),
            state.pruned | view.poset.is_below((jnp.arange(view.nodes, dtype=jnp.int32) == pull.node) & empty),
        )

    def done(self, view: InformedView, state: State) -> Bool[Array, ""]:
        """Says that a run is over once no query is within what is left of the budget."""
        return ~jnp.any(self._askable(view, state)[1])

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """Reports what was retrieved and spent: see ``Retrieved.answer``."""
        return state.retrieved.answer()


def gains(
    view: InformedView,
    node: Int32[Array, " some"],
    lists: Int32[Array, "some l_max"],
    known: Float32[Array, "some sizes"],
) -> Float32[Array, "some configurations"]:
    """Returns the true gain of each configuration at some nodes.

    Of each list of ``lists``, the first l are what a configuration excludes; ``known``: see
    ``InformedView.expected_gain``.
    """

    def truth(node: Array, configuration: Array, chance: Array, known: Array) -> Array:
        excluded = jnp.arange(view.l_max, dtype=jnp.int32)[:, None] < view.lengths[configuration]
        return view.gain_beside(node, configuration, jnp.where(excluded, chance, 0), known)

    chance = jax.vmap(jax.vmap(view.inclusion, (0, None)))(lists, node)  # of each list, once
    number = jnp.arange(len(view.configurations), dtype=jnp.int32)
    each: Array = jax.vmap(jax.vmap(truth, (None, 0, None, None)), (0, None, 0, 0))(node, number, chance, known)
    return each


@checked
def gs_exact(*, reach: Annotated[str, Key(one_of(*REACH))] = "frontier") -> GsExact:
    """GSExact picks queries by their true expected gain, on problems that are ``informed``.

    Args:
        reach: the nodes to choose from, the root and the children of nodes asked, as in Algorithm 1 ("frontier"), or
            "all".

    Raises:
        BadInput: for an argument out of range.

    Example:
        >>> from jaxbandit import extraction
        >>> extraction.gs_exact().reach
        'frontier'
    """
    return GsExact(reach)
