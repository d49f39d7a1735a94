"""BFS: one query a node, from the root down (a baseline of Rekatsinas, Deshpande and Parameswaran 2019).

The children of a node follow if its answer was not empty, in the order of the poset, once each. A node below one that
gave an empty answer that counts is passed over.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxbandit.extraction.costs import number_of
from jaxbandit.extraction.problem import Extraction, Outcome, Pull, View
from jaxbandit.extraction.retrieved import (
    FREE,
    OVERFLOW,
    PICK,
    Retrieved,
    add,
    ancestors,
    capacity,
    exclude_list,
    fresh,
    is_above,
    named,
)
from jaxbandit.grammar import Execution
from jaxbandit.random.draws import integers
from jaxbandit.xla.batch import over_lanes

DEAR = ("stop", "skip")

_WIDTH = 16


class State(NamedTuple):
    """``got``; ``queue``: int32 (capacity,), the nodes in their order, ``filled`` of them; ``next``: the first one that
    is not over; ``barren``: bool (capacity,), which gave an empty answer that counts; ``void``: bool (capacity,), which
    are below one that did; ``lost``: bool, whether the queue was too short."""

    got: Retrieved
    queue: Array
    filled: Array
    next: Array
    barren: Array
    void: Array
    lost: Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Bfs:
    """``configuration``: int32, asked everywhere; -1 draws one at each node. ``dear`` (static): the run ends with the
    first query that is too dear ("stop"), or that node is passed over and its children with it ("skip")."""

    configuration: Array
    rows: int = field(metadata={"static": True})
    nodes: int = field(metadata={"static": True})
    dear: str = field(metadata={"static": True})

    execution = Execution(masked=True)

    def init(self, view: View) -> State:
        """The root is next."""
        queue = jnp.full(self.nodes, FREE, jnp.int32).at[0].set(0)
        got, none, zero = Retrieved.nothing(view, self.rows), jnp.zeros(self.nodes, bool), jnp.int32(0)
        return State(got, queue, zero + 1, zero, none, none, jnp.bool_(False))

    def _first(self, view: View, state: State) -> tuple[Array, Array, Array]:
        """The place of the next node in the queue, its configuration, and whether it can be asked."""
        place = jnp.arange(self.nodes, dtype=jnp.int32)
        drawn = integers(view.choices, PICK, state.queue, jnp.int32(len(view.configurations)))
        configuration = jnp.where(self.configuration < 0, drawn, self.configuration)
        specificity = jnp.asarray(view.poset.specificity)[jnp.maximum(state.queue, 0)]
        cheap = view.cost[configuration, specificity] <= view.budget - state.got.spent
        open_ = (place >= state.next) & (place < state.filled) & ~state.void
        if self.dear == "skip":
            open_ &= cheap
        first = jnp.argmax(open_)
        return first, configuration[first], open_[first] & cheap[first]

    def ask(self, view: View, state: State) -> Pull:
        """The next node."""
        first, configuration, asked = self._first(view, state)
        node = jnp.maximum(state.queue[first], 0)
        lengths = jnp.array([length for _, length in view.configurations], jnp.int32)
        exclude = exclude_list(view, state.got, node, jnp.where(asked, lengths[configuration], 0))
        return Pull(node, configuration, exclude, state.got.queries, asked)

    def tell(self, view: View, state: State, pull: Pull, outcome: Outcome) -> State:
        """Its children join the queue."""
        first = self._first(view, state)[0]
        found = jnp.any(outcome.entity >= 0)
        held = state.got.under(view, pull.node)
        covered = jnp.any(held) & jnp.all(~held | jnp.any(state.got.entity[:, None] == pull.exclude, axis=1))
        empty = pull.asked & ~found & ~covered
        state = state._replace(
            got=add(view, state.got, pull, outcome)[0],
            next=jnp.where(pull.asked, first + 1, state.next),
            barren=state.barren | ((jnp.arange(self.nodes) == first) & empty),
            void=state.void | (is_above(pull.node[None], ancestors(view.poset, state.queue))[:, 0] & empty),
        )
        start, child = jnp.asarray(view.poset.child_start), jnp.asarray(view.poset.child)
        begin = start[pull.node]
        count = jnp.where(pull.asked & found, start[pull.node + 1] - begin, 0)

        def more(carry: tuple[Array, State]) -> tuple[Array, State]:
            done, state = carry
            place = done + jnp.arange(_WIDTH, dtype=jnp.int32)
            node = jnp.where(place < count, child[jnp.minimum(begin + place, child.shape[0] - 1)], -1)
            _, new, slot = fresh(node, state.queue, state.filled)
            barren = jnp.where(state.barren, state.queue, FREE)
            return done + _WIDTH, state._replace(
                queue=state.queue.at[slot].set(node, mode="drop"),
                filled=jnp.minimum(state.filled + jnp.sum(new, dtype=jnp.int32), self.nodes),
                void=state.void.at[slot].set(
                    jnp.any(is_above(barren, ancestors(view.poset, node)), axis=1), mode="drop"
                ),
                lost=state.lost | jnp.any(new & (slot >= self.nodes)),
            )

        longest = over_lanes(count)
        _, state = lax.while_loop(lambda carry: carry[0] < longest, more, (jnp.int32(0), state))
        return state

    def done(self, view: View, state: State) -> Array:
        """The queue is at its end, or what comes next is too dear."""
        return ~self._first(view, state)[2]

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """See ``Retrieved.answer``; it is an overflow if the run came to the end of a queue that was too short."""
        place = jnp.arange(self.nodes)
        over = ~jnp.any((place >= state.next) & (place < state.filled) & ~state.void)
        answer = state.got.answer()
        return answer | {"code": jnp.where(state.lost & over, OVERFLOW, answer["code"])}


def bfs(problem: Extraction, configuration: tuple[int, int] | None = None, *, dear: str = "stop") -> Bfs:
    """BFS for a problem (or for others of the same domain and at most its budget).

    Args:
        problem: what it will run on.
        configuration: (k, l), asked everywhere; None draws one at each node.
        dear: "stop" or "skip", see ``Bfs``.

    Raises:
        BadInput: for a configuration or a ``dear`` that does not exist.
    """
    costs = np.asarray(problem.cost)
    number = -1 if configuration is None else number_of(problem.configurations, *configuration)
    asked = int(problem.budget) // int(costs.min() if number < 0 else costs[number].min())
    nodes = len(np.asarray(problem.poset.specificity))
    return Bfs(jnp.int32(number), capacity(problem), min(nodes, 2 * asked + 16), named("dear", dear, DEAR))
