"""GSExact with slots for the nodes of the frontier, and sums of what is known there that each answer adds to.

``test_fast_baselines_equal_their_rules`` (tests/test_extraction_fast.py) ties it to ``extraction/gs_exact.py``.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxbandit.errors import BadInput
from jaxbandit.extraction import gain
from jaxbandit.extraction.fast.tables import FREE, fresh, is_above, rows_for
from jaxbandit.extraction.gs_exact import GsExact, gains
from jaxbandit.extraction.problem import Extraction, InformedView, Outcome, Pull, View
from jaxbandit.extraction.retrieved import OVERFLOW, Retrieved, add, ancestors, exclude_lists
from jaxbandit.grammar import Execution, accelerated
from jaxbandit.xla.batch import over_lanes

NODES = 3072
"""Slots of a lane, at most."""
_WIDTH = 16


class State(NamedTuple):
    """``got``; of each slot ``node`` and ``specificity``, int32 (S,), ``filled`` of them in use; ``known``: float32
    (S, sizes), see ``InformedView.expected_gain``; ``barren``, ``void``: bool (S,), whether the node, and whether it or
    one above it, gave an empty answer that counts."""

    got: Retrieved
    node: Array
    specificity: Array
    filled: Array
    known: Array
    barren: Array
    void: Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class SlottedGsExact:
    """A rule of GSExact with room for ``rows`` entities and ``nodes`` (static)."""

    rule: GsExact
    rows: int = field(metadata={"static": True})
    nodes: int = field(metadata={"static": True})

    execution = Execution(masked=True)
    informed: ClassVar[Literal[True]] = True

    def init(self, view: InformedView) -> State:
        """See ``GsExact``."""
        zeros, none = jnp.zeros(self.nodes, jnp.int32), jnp.zeros(self.nodes, bool)
        known = jnp.zeros((self.nodes, len(gain.sizes(view.configurations))), jnp.float32)
        got = Retrieved.nothing(view, self.rows)
        if self.rule.reach == "all":
            place = jnp.arange(self.nodes, dtype=jnp.int32)
            specificity = jnp.asarray(view.poset.specificity, jnp.int32)
            return State(got, place, specificity, jnp.int32(self.nodes), known, none, none)
        node = jnp.full(self.nodes, FREE, jnp.int32).at[0].set(0)
        return State(got, node, zeros, jnp.int32(1), known, none, none)

    def _cheap(self, view: View, state: State) -> tuple[Array, Array]:
        """The cost of each query (S, C), and whether it can be asked."""
        cost = view.cost.T[state.specificity]
        return cost, (state.node[:, None] >= 0) & (cost <= view.budget - state.got.spent)

    def ask(self, view: InformedView, state: State) -> Pull:
        """See ``GsExact``."""
        lists = exclude_lists(view, state.got, state.node)
        r = jnp.where(state.void[:, None], 0, gains(view, jnp.maximum(state.node, 0), lists, state.known))
        cost, cheap = self._cheap(view, state)
        score, c = r / cost.astype(jnp.float32), cost.shape[1]
        best = jnp.max(jnp.where(cheap, score, -jnp.inf))
        place = jnp.where(cheap & (score == best), state.node[:, None] * c + jnp.arange(c, dtype=jnp.int32), 2**31 - 1)
        asked = jnp.any(cheap)
        place = jnp.where(asked, jnp.min(place), 0)
        node, configuration = place // c, place % c
        listed = lists[jnp.argmax(state.node == node)]
        exclude = jnp.where(jnp.arange(view.l_max) < view.lengths[configuration], listed, -1)
        return Pull(node, configuration, jnp.where(asked, exclude, -1), state.got.queries, asked)

    def tell(self, view: InformedView, state: State, pull: Pull, outcome: Outcome) -> State:
        """Counts the answer at all nodes of the frontier above it; lets the children in."""
        known, covered = state.got.held(view, pull.node, pull.exclude)
        empty = pull.asked & ~jnp.any(outcome.entity >= 0) & ~(known & covered)
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
        return state if self.rule.reach == "all" else self._grown(view, state, pull)

    def _grown(self, view: InformedView, state: State, pull: Pull) -> State:
        """With slots for the children of the node."""
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

    def done(self, view: InformedView, state: State) -> Array:
        """See ``GsExact``."""
        return ~jnp.any(self._cheap(view, state)[1])

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """See ``GsExact``."""
        return state.got.answer()


@accelerated.register
def _(rule: GsExact, problem: Any) -> SlottedGsExact | GsExact:
    if not isinstance(problem, Extraction):
        return rule
    nodes = np.shape(problem.poset.specificity)[0]
    if rule.reach == "all" and nodes > NODES:
        raise BadInput("reach", "all", f"frontier for a domain of {nodes:,} nodes: {NODES:,} have room")
    return SlottedGsExact(rule, rows_for(problem), min(nodes, NODES))
