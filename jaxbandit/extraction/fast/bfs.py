"""BFS with a short queue: a run asks few nodes, and few more join the queue.

``test_fast_baselines_equal_their_rules`` (tests/test_extraction_fast.py) ties it to ``extraction/bfs.py``.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxbandit.extraction.bfs import Bfs
from jaxbandit.extraction.fast.tables import Frontier, rows_for
from jaxbandit.extraction.problem import Extraction, Outcome, Pull, View
from jaxbandit.extraction.retrieved import OVERFLOW, Retrieved, add, exclude_list
from jaxbandit.grammar import Execution, accelerated
from jaxbandit.pytree import pytree


class State(NamedTuple):
    """Holds what a run keeps: what it has ``retrieved``; the nodes in their order (``queue``); and the place of the
    node that is ``next`` (int32)."""

    retrieved: Retrieved
    queue: Frontier
    next: Array


@pytree
@dataclass(frozen=True)
class ShortQueue:
    """Runs a ``rule`` of BFS with room for ``rows`` entities, and ``nodes`` in the queue (static)."""

    rule: Bfs
    rows: int = field(metadata={"static": True})
    nodes: int = field(metadata={"static": True})

    execution = Execution(most_lanes=64, masked=True, gain_ns=1_900, loss_ns=10_000)

    def init(self, view: View) -> State:
        """Puts the root in the queue, as its first and only node."""
        return State(Retrieved.nothing(view, self.rows), Frontier.of(view, self.nodes, 1), jnp.int32(0))

    def _waiting(self, state: State) -> Array:
        """Returns which places of the queue have nodes that may still be asked: bool (nodes,)."""
        place = jnp.arange(self.nodes, dtype=jnp.int32)
        return (place >= state.next) & (place < state.queue.filled) & ~state.queue.pruned

    def _first(self, view: View, state: State) -> tuple[Array, Array, Array]:
        """Returns the place of the next node in the queue and its configuration (int32), and whether it can be asked
        (bool)."""
        waiting = self._waiting(state)
        if self.rule.dear == "skip":
            waiting &= self._affordable(view, state, state.queue.node)[1]
        first = jnp.argmax(waiting).astype(jnp.int32)
        configuration, affordable = self._affordable(view, state, state.queue.node[first][None])
        return first, configuration[0], waiting[first] & affordable[0]

    def _affordable(self, view: View, state: State, node: Array) -> tuple[Array, Array]:
        """Returns the configurations of nodes (int32), and whether the budget allows them (bool)."""
        configuration = self.rule.configurations(view, node)
        cost = view.cost[configuration, jnp.asarray(view.poset.specificity)[jnp.maximum(node, 0)]]
        return configuration, cost <= view.budget - state.retrieved.spent

    def ask(self, view: View, state: State) -> Pull:
        """Asks the next node of the queue that is not pruned."""
        first, configuration, asked = self._first(view, state)
        node = jnp.maximum(state.queue.node[first], 0)
        exclude = exclude_list(view, state.retrieved, node, jnp.where(asked, view.lengths[configuration], 0))
        return Pull(node, configuration, exclude, state.retrieved.queries, asked)

    def tell(self, view: View, state: State, pull: Pull, outcome: Outcome) -> State:
        """Counts the answer; the node's children join the queue, or, if it was empty, what is below is pruned."""
        first = self._first(view, state)[0]
        found = jnp.any(outcome.entity >= 0)
        queue = state.queue.with_pruned(view, pull.node, state.retrieved.ends_node(view, pull, outcome))
        queue, _ = queue.with_children(view, pull.node, pull.asked & found, (), lambda node, slot, rest: rest)
        next_ = jnp.where(pull.asked, first + 1, state.next)
        return State(add(view, state.retrieved, pull, outcome)[0], queue, next_)

    def done(self, view: View, state: State) -> Array:
        """Says that a run is over at the end of the queue, or where the budget does not allow what comes next."""
        return ~self._first(view, state)[2]

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """Reports what ``Bfs`` does, with ``OVERFLOW`` if the run came to the end of a queue that was too short."""
        over = ~jnp.any(self._waiting(state))
        answer = state.retrieved.answer()
        return answer | {"code": jnp.where(state.queue.lost & over, OVERFLOW, answer["code"])}


@accelerated.register
def _(rule: Bfs, problem: Any) -> ShortQueue | Bfs:
    if not isinstance(problem, Extraction):
        return rule
    nodes = np.shape(problem.poset.specificity)[0]
    return ShortQueue(rule, rows_for(problem), min(nodes, 2 * problem.room.queries + 16))
