"""BFS: one query a node, from the root down (a baseline of Rekatsinas, Deshpande and Parameswaran 2019).

The children of a node follow if its answer was not empty, in the order of the poset, once each. A node below one that
gave an empty answer that counts is passed over. The file is long because the configuration of a query, and what becomes
of one that is too dear, are options.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from jaxbandit.describe import brief
from jaxbandit.errors import BadInput
from jaxbandit.extraction.costs import CONFIGURATIONS, number_of
from jaxbandit.extraction.problem import Outcome, Pull, View
from jaxbandit.extraction.retrieved import PICK, Retrieved, add, exclude_list
from jaxbandit.parameters import Key, checked
from jaxbandit.parsers import one_of
from jaxbandit.pytree import pytree
from jaxbandit.random.draws import integers
from jaxbandit.space import Choice

if TYPE_CHECKING:
    from jaxtyping import Bool, Int32

DEAR = ("stop", "skip")


class State(NamedTuple):
    """What a run keeps between queries.

    ``retrieved``; ``queue``: the nodes in their order, -1 from where there are no more; ``queued``: which nodes are in
    it; ``next``: the place in it of the node to ask next; ``pruned``: the nodes that gave an empty answer that counts,
    and those below them.
    """

    retrieved: Retrieved
    queue: Int32[Array, " nodes"]
    queued: Bool[Array, " nodes"]
    next: Int32[Array, ""]
    pruned: Bool[Array, " nodes"]


@pytree
@dataclass(frozen=True)
class Bfs:
    """BFS, a baseline of Rekatsinas, Deshpande and Parameswaran 2019: see ``bfs``. All fields are static.

    Example:
        >>> import numpy as np
        >>> from jaxbandit import extraction, random
        >>> tree = extraction.Tree(parent=np.array([0, 0, 0]), names=("", "art", "sport"))
        >>> people = extraction.domain((tree,), np.array([[1], [1], [2]]), popularity=1.0)
        >>> problem = extraction.extraction(people, 10, configurations=[(5, 0), (10, 2)])
        >>> view = problem.view(random.stream(0, 0), problem.draw(random.stream(0, 0)))
        >>> extraction.bfs((10, 2)).configurations(view, np.arange(3)).tolist()  # the number of (10, 2), by node
        [1, 1, 1]
    """

    configuration: tuple[int, int] | None = field(metadata={"static": True})
    dear: str = field(metadata={"static": True})

    __repr__ = brief

    def init(self, view: View) -> State:
        """Puts the root in the queue, as its first and only node."""
        root = jnp.arange(view.nodes, dtype=jnp.int32) == 0
        return State(Retrieved.nothing(view), jnp.where(root, 0, -1), root, jnp.int32(0), root & False)

    def configurations(self, view: View, node: Int32[Array, " some"]) -> Int32[Array, " some"]:
        """Returns what each node is asked with, int32: the configuration that is given, or one that is drawn for it.

        Raises:
            BadInput: for one that cannot be asked.
        """
        if self.configuration is None:
            return integers(view.choices, PICK, node, jnp.int32(len(view.configurations)))
        return jnp.full(node.shape, number_of(view.configurations, *self.configuration), jnp.int32)

    def _next(self, view: View, state: State) -> tuple[Array, Array, Array]:
        """The next node, its configuration, and whether the budget allows it."""
        node = jnp.maximum(state.queue, 0)
        configuration = self.configurations(view, node)
        cost = view.cost[configuration, jnp.asarray(view.poset.specificity)[node]]
        affordable = cost <= view.budget - state.retrieved.spent
        waiting = (jnp.arange(view.nodes, dtype=jnp.int32) >= state.next) & (state.queue >= 0) & ~state.pruned[node]
        first = jnp.argmax(waiting & affordable if self.dear == "skip" else waiting)
        return node[first], configuration[first], waiting[first] & affordable[first]

    def ask(self, view: View, state: State) -> Pull:
        """Asks the next node of the queue that is not pruned."""
        node, configuration, asked = self._next(view, state)
        length = jnp.where(asked, view.lengths[configuration], 0)
        exclude = exclude_list(view, state.retrieved, node, length)
        return Pull(node, configuration, exclude, state.retrieved.queries, asked)

    def tell(self, view: View, state: State, pull: Pull, outcome: Outcome) -> State:
        """Counts the answer; the node's children join the queue, or, if it was empty, what is below is pruned."""
        answered = jnp.any(outcome.entity >= 0)
        ends = state.retrieved.ends_node(view, pull, outcome)
        ended = (jnp.arange(view.nodes, dtype=jnp.int32) == pull.node) & ends
        start, child = jnp.asarray(view.poset.child_start), jnp.asarray(view.poset.child)
        number = jnp.arange(child.shape[0], dtype=jnp.int32)
        mine = (number >= start[pull.node]) & (number < start[pull.node + 1])
        joins = mine & ~state.queued[child] & answered & pull.asked
        place = jnp.sum(state.queued, dtype=jnp.int32) + jnp.cumsum(joins, dtype=jnp.int32) - 1
        return State(
            retrieved=add(view, state.retrieved, pull, outcome)[0],
            queue=state.queue.at[jnp.where(joins, place, view.nodes)].set(child, mode="drop"),
            queued=state.queued.at[child].max(joins),
            next=jnp.where(pull.asked, 1 + jnp.argmax(state.queue == pull.node), state.next).astype(jnp.int32),
            pruned=state.pruned | view.poset.is_below(ended),
        )

    def done(self, view: View, state: State) -> Bool[Array, ""]:
        """Says that a run is over at the end of the queue, or where the budget does not allow what comes next."""
        return ~self._next(view, state)[2]

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """Reports what was retrieved and spent: see ``Retrieved.answer``."""
        return state.retrieved.answer()


def _pair(name: str, value: Any) -> tuple[int, int]:
    if not isinstance(value, list | tuple) or len(value) != 2 or not all(type(number) is int for number in value):
        raise BadInput(name, value, "a pair [k, l] of whole numbers, such as [20, 5]")
    return value[0], value[1]


@checked
def bfs(
    configuration: Annotated[
        tuple[int, int] | None, Key(_pair, swept=False, search=Choice(CONFIGURATIONS), on_request=True)
    ] = None,
    *,
    dear: Annotated[str, Key(one_of(*DEAR))] = "stop",
) -> Bfs:
    """BFS asks each node once, breadth first, and nothing below a node whose answer was empty.

    Args:
        configuration: the pair [k, l] to ask, drawn at each node where it is left out.
        dear: a query that the budget no longer allows is the end ("stop"), or is passed over, with the children of its
            node ("skip").

    Raises:
        BadInput: for an argument out of range.

    Example:
        >>> from jaxbandit import extraction
        >>> extraction.bfs((10, 0)).configuration
        (10, 0)
    """
    return Bfs(configuration, dear)
