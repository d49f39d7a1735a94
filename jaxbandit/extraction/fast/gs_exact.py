"""GSExact with slots for the nodes of the frontier, and sums of what is known there that each answer adds to.

``test_fast_baselines_equal_their_rules`` (tests/test_extraction_fast.py) ties it to ``extraction/gs_exact.py``.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxbandit.errors import BadInput
from jaxbandit.extraction import gain
from jaxbandit.extraction.fast.tables import Frontier, rows_for, slots_for
from jaxbandit.extraction.gs_exact import GsExact, gains
from jaxbandit.extraction.problem import Extraction, InformedView, Outcome, Pull, View, included
from jaxbandit.extraction.retrieved import OVERFLOW, Retrieved, add, ancestors, exclude_lists
from jaxbandit.grammar import Execution, accelerated
from jaxbandit.pytree import pytree
from jaxbandit.xla.exact import ordered_sum, quotient
from jaxbandit.xla.fence import rarely


class State(NamedTuple):
    """What a run keeps: ``retrieved``; ``nodes``: those of the frontier; of each slot ``specificity``, int32 (S,), and
    ``known``, float32 (S, sizes), see ``InformedView.expected_gain``."""

    retrieved: Retrieved
    nodes: Frontier
    specificity: Array
    known: Array


@pytree
@dataclass(frozen=True)
class SlottedGsExact:
    """Runs a ``rule`` of GSExact with room for ``rows`` entities and ``nodes`` (static)."""

    rule: GsExact
    rows: int = field(metadata={"static": True})
    nodes: int = field(metadata={"static": True})

    execution = Execution(temporaries=16, most_lanes=32, masked=True, gain_ns=4_400, loss_ns=600_000)
    informed: ClassVar[Literal[True]] = True

    def init(self, view: InformedView) -> State:
        """Gives a slot to the root, or to all nodes, with nothing retrieved."""
        known = jnp.zeros((self.nodes, len(gain.sizes(view.configurations))), jnp.float32)
        nodes = Frontier.of(view, self.nodes, self.nodes if self.rule.reach == "all" else 1)
        specificity = jnp.asarray(view.poset.specificity, jnp.int32)[jnp.maximum(nodes.node, 0)]
        return State(Retrieved.nothing(view, self.rows), nodes, specificity, known)

    def _askable(self, view: View, state: State) -> tuple[Array, Array]:
        """Returns the cost of each query, int32 (S, C), and whether it can be asked (bool)."""
        cost = view.cost.T[state.specificity]
        return cost, (state.nodes.node[:, None] >= 0) & (cost <= view.budget - state.retrieved.spent)

    def ask(self, view: InformedView, state: State) -> Pull:
        """Picks the query that ``GsExact.ask`` picks, from the slots in use."""
        slots = state.nodes.node
        lists = exclude_lists(view, state.retrieved, slots)
        r = jnp.where(state.nodes.pruned[:, None], 0, gains(view, jnp.maximum(slots, 0), lists, state.known))
        cost, askable = self._askable(view, state)
        score, c = quotient(r, cost.astype(jnp.float32)), cost.shape[1]
        best = jnp.max(jnp.where(askable, score, -jnp.inf))
        place = jnp.where(askable & (score == best), slots[:, None] * c + jnp.arange(c, dtype=jnp.int32), 2**31 - 1)
        asked = jnp.any(askable)
        place = jnp.where(asked, jnp.min(place), 0)
        node, configuration = place // c, place % c
        listed = lists[jnp.argmax(slots == node)]
        exclude = jnp.where(jnp.arange(view.l_max, dtype=jnp.int32) < view.lengths[configuration], listed, -1)
        return Pull(node, configuration, jnp.where(asked, exclude, -1), state.retrieved.queries, asked)

    def tell(self, view: InformedView, state: State, pull: Pull, outcome: Outcome) -> State:
        """Counts the answer at all nodes of the frontier above it, and gives the node's children slots."""
        empty = state.retrieved.ends_node(view, pull, outcome)
        retrieved, news = add(view, state.retrieved, pull, outcome)
        above = ancestors(view.poset, jnp.where(news.there & (news.before == 0), news.leaf, -1))
        same = above[:, :, None] == state.nodes.node
        slot = jnp.sum(jnp.where(same, jnp.arange(self.nodes, dtype=jnp.int32), 0), axis=2)
        slot = jnp.where(jnp.any(same, axis=2), slot, self.nodes)
        inclusion = jax.vmap(jax.vmap(view.inclusion, (None, 0)))(outcome.entity, above)
        state = state._replace(
            retrieved=retrieved,
            known=state.known.at[slot].add(inclusion, mode="drop"),
            nodes=state.nodes.with_pruned(view, pull.node, empty),
        )
        return state if self.rule.reach == "all" else self._grown(view, state, pull)

    def _grown(self, view: InformedView, state: State, pull: Pull) -> State:
        """Gives slots to the children of the node that was asked, and sums up there what was retrieved before."""
        tables = jnp.asarray(view.poset.ancestors), view.leaf, view.truth

        def counted(node: Array, slot: Array, rest: tuple[Array, Array]) -> tuple[Array, Array]:
            specificity = jnp.asarray(view.poset.specificity)[jnp.maximum(node, 0)]
            new, nothing = jnp.any(slot < self.nodes), jnp.zeros((node.shape[0], rest[1].shape[1]), jnp.float32)
            known = _known(new, nothing, tables, state.retrieved.entity, node)
            return rest[0].at[slot].set(specificity, mode="drop"), rest[1].at[slot].set(known, mode="drop")

        rest = state.specificity, state.known
        nodes, (specificity, known) = state.nodes.with_children(view, pull.node, pull.asked, rest, counted)
        code = jnp.where(nodes.lost, OVERFLOW, state.retrieved.code)
        return State(state.retrieved._replace(code=code), nodes, specificity, known)

    def done(self, view: InformedView, state: State) -> Array:
        """Says that a run is over once no query is within what is left of the budget."""
        return ~jnp.any(self._askable(view, state)[1])

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """Reports what was retrieved and spent: see ``Retrieved.answer``."""
        return state.retrieved.answer()


@rarely
def _known(tables: tuple[Array, Array, Array], entity: Array, node: Array) -> Array:
    """Returns the sum of ``InformedView.inclusion`` at some nodes over all entities retrieved. A node is new once."""
    chance = jax.vmap(jax.vmap(included, (None, 0, None)), (None, None, 0))(tables, entity, node)
    return ordered_sum(chance, axis=1)


@accelerated.register
def _(rule: GsExact, problem: Any) -> SlottedGsExact | GsExact:
    if not isinstance(problem, Extraction):
        return rule
    nodes, slots = np.shape(problem.poset.specificity)[0], slots_for(problem)
    if rule.reach == "all" and nodes > slots:
        raise BadInput("reach", "all", f"frontier for a domain of {nodes:,} nodes: {slots:,} have room")
    return SlottedGsExact(rule, rows_for(problem), slots)
