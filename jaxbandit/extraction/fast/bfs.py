"""BFS with a short queue: a run asks few nodes, and meets few more.

``test_fast_baselines_equal_their_rules`` (tests/test_extraction_fast.py) ties it to ``extraction/bfs.py``.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxbandit.extraction.bfs import Bfs
from jaxbandit.extraction.fast.tables import Frontier, rows_for
from jaxbandit.extraction.problem import Extraction, Outcome, Pull, View
from jaxbandit.extraction.retrieved import OVERFLOW, Retrieved, add, exclude_list
from jaxbandit.grammar import Execution, accelerated


class State(NamedTuple):
    """``got``; ``queue``: the nodes in their order; ``next``: the place of the first one that is not over."""

    got: Retrieved
    queue: Frontier
    next: Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ShortQueue:
    """A rule of BFS with room for ``rows`` entities and ``nodes`` in the queue (static)."""

    rule: Bfs
    rows: int = field(metadata={"static": True})
    nodes: int = field(metadata={"static": True})

    execution = Execution(masked=True, gain_ns=2_000)

    def init(self, view: View) -> State:
        """The root is next."""
        return State(Retrieved.nothing(view, self.rows), Frontier.of(self.nodes, 1), jnp.int32(0))

    def _open(self, state: State) -> Array:
        """bool (capacity,): which nodes may still be asked."""
        place = jnp.arange(self.nodes, dtype=jnp.int32)
        return (place >= state.next) & (place < state.queue.filled) & ~state.queue.void

    def _first(self, view: View, state: State) -> tuple[Array, Array, Array]:
        """The place of the next node in the queue, its configuration, and whether it can be asked."""
        node = state.queue.node
        configuration = self.rule.configurations(view, node)
        specificity = jnp.asarray(view.poset.specificity)[jnp.maximum(node, 0)]
        cheap = view.cost[configuration, specificity] <= view.budget - state.got.spent
        open_ = self._open(state)
        if self.rule.dear == "skip":
            open_ &= cheap
        first = jnp.argmax(open_)
        return first, configuration[first], open_[first] & cheap[first]

    def ask(self, view: View, state: State) -> Pull:
        """The next node."""
        first, configuration, asked = self._first(view, state)
        node = jnp.maximum(state.queue.node[first], 0)
        exclude = exclude_list(view, state.got, node, jnp.where(asked, view.lengths[configuration], 0))
        return Pull(node, configuration, exclude, state.got.queries, asked)

    def tell(self, view: View, state: State, pull: Pull, outcome: Outcome) -> State:
        """Its children join the queue."""
        first = self._first(view, state)[0]
        found = jnp.any(outcome.entity >= 0)
        known, covered = state.got.held(view, pull.node, pull.exclude)
        empty = pull.asked & ~found & ~(known & covered)
        queue = state.queue.emptied(view, pull.node, empty)
        queue, _ = queue.grown(view, pull.node, pull.asked & found, (), lambda node, slot, rest: rest)
        next_ = jnp.where(pull.asked, first + 1, state.next)
        return State(add(view, state.got, pull, outcome)[0], queue, next_)

    def done(self, view: View, state: State) -> Array:
        """See ``Bfs``."""
        return ~self._first(view, state)[2]

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """See ``Bfs``; it is an overflow if the run came to the end of a queue that was too short."""
        over = ~jnp.any(self._open(state))
        answer = state.got.answer()
        return answer | {"code": jnp.where(state.queue.lost & over, OVERFLOW, answer["code"])}


@accelerated.register
def _(rule: Bfs, problem: Any) -> ShortQueue | Bfs:
    if not isinstance(problem, Extraction):
        return rule
    nodes = np.shape(problem.poset.specificity)[0]
    return ShortQueue(rule, rows_for(problem), min(nodes, 2 * problem.room.queries + 16))
