"""BFS with a short queue: a run asks few nodes, and meets few more.

``test_fast_baselines_equal_their_rules`` (tests/test_extraction_fast.py) ties it to ``extraction/bfs.py``.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxbandit.extraction.bfs import Bfs
from jaxbandit.extraction.fast.tables import FREE, fresh, is_above, rows_for
from jaxbandit.extraction.problem import Extraction, Outcome, Pull, View
from jaxbandit.extraction.retrieved import OVERFLOW, Retrieved, add, ancestors, exclude_list
from jaxbandit.grammar import Execution, accelerated
from jaxbandit.xla.batch import over_lanes

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
class ShortQueue:
    """A rule of BFS with room for ``rows`` entities and ``nodes`` in the queue (static)."""

    rule: Bfs
    rows: int = field(metadata={"static": True})
    nodes: int = field(metadata={"static": True})

    execution = Execution(masked=True)

    def init(self, view: View) -> State:
        """The root is next."""
        queue = jnp.full(self.nodes, FREE, jnp.int32).at[0].set(0)
        got, none, zero = Retrieved.nothing(view, self.rows), jnp.zeros(self.nodes, bool), jnp.int32(0)
        return State(got, queue, zero + 1, zero, none, none, jnp.bool_(False))

    def _first(self, view: View, state: State) -> tuple[Array, Array, Array]:
        """The place of the next node in the queue, its configuration, and whether it can be asked."""
        place = jnp.arange(self.nodes, dtype=jnp.int32)
        configuration = self.rule.configurations(view, state.queue)
        specificity = jnp.asarray(view.poset.specificity)[jnp.maximum(state.queue, 0)]
        cheap = view.cost[configuration, specificity] <= view.budget - state.got.spent
        open_ = (place >= state.next) & (place < state.filled) & ~state.void
        if self.rule.dear == "skip":
            open_ &= cheap
        first = jnp.argmax(open_)
        return first, configuration[first], open_[first] & cheap[first]

    def ask(self, view: View, state: State) -> Pull:
        """The next node."""
        first, configuration, asked = self._first(view, state)
        node = jnp.maximum(state.queue[first], 0)
        exclude = exclude_list(view, state.got, node, jnp.where(asked, view.lengths[configuration], 0))
        return Pull(node, configuration, exclude, state.got.queries, asked)

    def tell(self, view: View, state: State, pull: Pull, outcome: Outcome) -> State:
        """Its children join the queue."""
        first = self._first(view, state)[0]
        found = jnp.any(outcome.entity >= 0)
        known, covered = state.got.held(view, pull.node, pull.exclude)
        empty = pull.asked & ~found & ~(known & covered)
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
        """See ``Bfs``."""
        return ~self._first(view, state)[2]

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """See ``Bfs``; it is an overflow if the run came to the end of a queue that was too short."""
        place = jnp.arange(self.nodes)
        over = ~jnp.any((place >= state.next) & (place < state.filled) & ~state.void)
        answer = state.got.answer()
        return answer | {"code": jnp.where(state.lost & over, OVERFLOW, answer["code"])}


@accelerated.register
def _(rule: Bfs, problem: Any) -> ShortQueue | Bfs:
    if not isinstance(problem, Extraction):
        return rule
    nodes = np.shape(problem.poset.specificity)[0]
    return ShortQueue(rule, rows_for(problem), min(nodes, 2 * problem.room.queries + 16))
