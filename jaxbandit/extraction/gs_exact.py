"""GSExact: Algorithm 1 of CRUX (``crux.py``) with the true expected gain as r, and sigma = 0: how well it could do.

Each round it draws an exclude list for each query configuration of the frontier, asks the one of the highest true gain
by cost, with that list, and lets the children of its node in. Bad queries are not removed: with sigma = 0, that would
drop all but the largest gains, whatever they cost. For problems that are ``informed``.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxbandit.errors import BadInput
from jaxbandit.extraction import gain
from jaxbandit.extraction.problem import Extraction, Outcome, Pull, View
from jaxbandit.extraction.retrieved import (
    FREE,
    OVERFLOW,
    Retrieved,
    add,
    ancestors,
    capacity,
    exclude_lists,
    fresh,
    is_above,
    named,
)
from jaxbandit.grammar import Execution
from jaxbandit.xla.batch import over_lanes

REACH = ("frontier", "all")

_WIDTH = 16


class State(NamedTuple):
    """``got``; of each slot ``node`` and ``specificity``, int32 (S,), ``filled`` of them in use; ``known``: float32
    (S, sizes), see ``View.expected_gain``; ``barren``, ``void``: bool (S,), as in ``crux.State``."""

    got: Retrieved
    node: Array
    specificity: Array
    filled: Array
    known: Array
    barren: Array
    void: Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class GsExact:
    """It has no parameters. Static: ``rows``, the entities that a run can retrieve; ``nodes``: the slots; ``reach``."""

    rows: int = field(metadata={"static": True})
    nodes: int = field(metadata={"static": True})
    reach: str = field(metadata={"static": True})

    execution = Execution(masked=True)

    def init(self, view: View) -> State:
        """The root is open, or all nodes are."""
        zeros, none = jnp.zeros(self.nodes, jnp.int32), jnp.zeros(self.nodes, bool)
        known = jnp.zeros((self.nodes, len(gain.sizes(view.configurations))), jnp.float32)
        got = Retrieved.nothing(view, self.rows)
        if self.reach == "all":
            place = jnp.arange(self.nodes, dtype=jnp.int32)
            specificity = jnp.asarray(view.poset.specificity, jnp.int32)
            return State(got, place, specificity, jnp.int32(self.nodes), known, none, none)
        node = jnp.full(self.nodes, FREE, jnp.int32).at[0].set(0)
        return State(got, node, zeros, jnp.int32(1), known, none, none)

    def _cheap(self, view: View, state: State) -> tuple[Array, Array]:
        """The cost of each query (S, C), and whether it can be asked."""
        cost = view.cost.T[state.specificity]
        return cost, (state.node[:, None] >= 0) & (cost <= view.budget - state.got.spent)

    def ask(self, view: View, state: State) -> Pull:
        """The best query of the frontier; of equal ones the first node's, and its first configuration."""
        lists = exclude_lists(view, state.got, state.node)
        c = jnp.arange(len(view.configurations), dtype=jnp.int32)
        lengths = jnp.array([length for _, length in view.configurations], jnp.int32)

        def truth(node: Array, configuration: Array, listed: Array, known: Array) -> Array:
            exclude = jnp.where(jnp.arange(view.l_max) < lengths[configuration], listed, -1)
            return view.expected_gain(node, configuration, exclude, known)

        each = jax.vmap(jax.vmap(truth, (None, 0, None, None)), (0, None, 0, 0))
        r = jnp.where(state.void[:, None], 0, each(jnp.maximum(state.node, 0), c, lists, state.known))
        cost, cheap = self._cheap(view, state)
        score = r / cost.astype(jnp.float32)
        best = jnp.max(jnp.where(cheap, score, -jnp.inf))
        place = jnp.where(cheap & (score == best), state.node[:, None] * c.shape[0] + c, 2**31 - 1)
        asked = jnp.any(cheap)
        place = jnp.where(asked, jnp.min(place), 0)
        node, configuration = place // c.shape[0], place % c.shape[0]
        listed = lists[jnp.argmax(state.node == node)]
        exclude = jnp.where(jnp.arange(view.l_max) < lengths[configuration], listed, -1)
        return Pull(node, configuration, jnp.where(asked, exclude, -1), state.got.queries, asked)

    def tell(self, view: View, state: State, pull: Pull, outcome: Outcome) -> State:
        """Count the answer at all nodes of the frontier above it; let the children in."""
        held = state.got.under(view, pull.node)
        covered = jnp.any(held) & jnp.all(~held | jnp.any(state.got.entity[:, None] == pull.exclude, axis=1))
        empty = pull.asked & ~jnp.any(outcome.entity >= 0) & ~covered
        got, news = add(view, state.got, pull, outcome)
        above = ancestors(view.poset, jnp.where(news.there & (news.before == 0), news.leaf, -1))
        same = above[:, :, None] == state.node
        slot = jnp.sum(jnp.where(same, jnp.arange(self.nodes), 0), axis=2)
        slot = jnp.where(jnp.any(same, axis=2), slot, self.nodes)
        inclusion = jax.vmap(jax.vmap(view.inclusion, (None, 0)))(outcome.entity, above)
        state = state._replace(
            got=got,
            known=state.known.at[slot].add(inclusion, mode="drop"),
            barren=state.barren | ((state.node == pull.node) & empty),
            void=state.void | (is_above(pull.node[None], ancestors(view.poset, state.node))[:, 0] & empty),
        )
        if self.reach == "all":
            return state
        start, child = jnp.asarray(view.poset.child_start), jnp.asarray(view.poset.child)
        begin = start[pull.node]
        count = jnp.where(pull.asked, start[pull.node + 1] - begin, 0)

        def more(carry: tuple[Array, State]) -> tuple[Array, State]:
            done, state = carry
            place = done + jnp.arange(_WIDTH, dtype=jnp.int32)
            node = jnp.where(place < count, child[jnp.minimum(begin + place, child.shape[0] - 1)], -1)
            _, new, slot = fresh(node, state.node, state.filled)
            barren = jnp.where(state.barren, state.node, FREE)
            full = jnp.any(new & (slot >= self.nodes))
            specificity = jnp.asarray(view.poset.specificity)[jnp.maximum(node, 0)]
            known = jax.vmap(lambda v: jnp.sum(jax.vmap(view.inclusion, (0, None))(state.got.entity, v), axis=0))(node)
            return done + _WIDTH, state._replace(
                got=state.got._replace(code=jnp.where(full, OVERFLOW, state.got.code)),
                node=state.node.at[slot].set(node, mode="drop"),
                specificity=state.specificity.at[slot].set(specificity, mode="drop"),
                filled=jnp.minimum(state.filled + jnp.sum(new, dtype=jnp.int32), self.nodes),
                known=state.known.at[slot].set(known, mode="drop"),
                void=state.void.at[slot].set(
                    jnp.any(is_above(barren, ancestors(view.poset, node)), axis=1), mode="drop"
                ),
            )

        longest = over_lanes(count)
        _, state = lax.while_loop(lambda carry: carry[0] < longest, more, (jnp.int32(0), state))
        return state

    def done(self, view: View, state: State) -> Array:
        """Nothing is within what is left of the budget."""
        return ~jnp.any(self._cheap(view, state)[1])

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """See ``Retrieved.answer``."""
        return state.got.answer()


def gs_exact(problem: Extraction, *, reach: str = "frontier", nodes: int = 3072) -> GsExact:
    """GSExact for a problem (or for others of the same domain and at most its budget) with up to ``nodes`` slots.

    ``reach``: it chooses among the root and the children of nodes asked, as Algorithm 1 does ("frontier"); or among
    "all" nodes, which must fit into the slots.

    Raises:
        BadInput: for a problem that is not ``informed``, a reach that does not exist, and more nodes than slots.
    """
    if problem.inclusion is None:
        raise BadInput("problem", "without the true gain", "one built with informed=True")
    population = len(np.asarray(problem.poset.specificity))
    if named("reach", reach, REACH) == "all" and population > nodes:
        raise BadInput("reach", reach, f"frontier for a domain of {population:,} nodes: {nodes:,} have room")
    return GsExact(capacity(problem), min(nodes, population), reach)
