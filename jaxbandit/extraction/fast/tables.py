"""Tables of the nodes that a lane has met so far, in the order in which it met them."""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxbandit.extraction.problem import Extraction, View, rounded
from jaxbandit.extraction.retrieved import ancestors
from jaxbandit.xla.batch import over_lanes
from jaxbandit.xla.prefix import places

T = TypeVar("T")

FREE = -2
"""No node's number: the mark of a free slot."""
_WIDTH = 16
"""Children that get slots at a time."""


_LEAST_SLOTS, _SLOTS_OF_A_QUERY, _MOST_SLOTS = 3072, 6, 1 << 16


def rows_for(problem: Extraction) -> int:
    """Returns how many entities a run can retrieve, rounded up to one of few numbers."""
    return min(problem.room.entities, rounded(problem.crowd.leaf.shape[0]))


def slots_for(problem: Extraction) -> int:
    """Returns how many nodes a run has room for: all of the domain, or several for each query that the budget buys.

    A run that enters more leaves nodes out, with the code ``OVERFLOW``.
    """
    room = min(_SLOTS_OF_A_QUERY * problem.room.queries, _MOST_SLOTS)
    return min(len(np.asarray(problem.poset.specificity)), max(_LEAST_SLOTS, room))


def is_above(node: Array, above: Array) -> Array:
    """Says which of the nodes (S,), ``FREE`` where there is none, are among the ancestors (..., A): bool (..., S)."""
    found: Array = jnp.any(node == above[..., None], axis=-2)
    return found


class Frontier(NamedTuple):
    """Slots for the nodes that a lane has met.

    ``node``: int32 (S,), all different, in the order in which it met them, the first ``filled``; ``FREE`` behind them.
    ``ended``: bool (S,), whether the node gave an empty answer that counts; ``pruned``: whether it or one above it did;
    ``lost``: bool, whether a node found no slot.
    """

    node: Array
    filled: Array
    ended: Array
    pruned: Array
    lost: Array

    @classmethod
    def of(cls, slots: int, nodes: int) -> "Frontier":
        """Returns slots for so many nodes, the first of which have the first ``nodes`` nodes of a domain."""
        place, none = jnp.arange(slots, dtype=jnp.int32), jnp.zeros(slots, bool)
        return cls(jnp.where(place < nodes, place, FREE), jnp.int32(nodes), none, none, jnp.bool_(False))

    def with_pruned(self, view: View, node: Array, empty: Array) -> "Frontier":
        """Returns the slots after a node's answer; ``empty``: whether it was, and that counts."""
        below = is_above(node[None], ancestors(view.poset, self.node))[:, 0]
        return self._replace(ended=self.ended | ((self.node == node) & empty), pruned=self.pruned | (below & empty))

    def with_children(
        self, view: View, parent: Array, grows: Array, rest: T, also: Callable[[Array, Array, T], T]
    ) -> tuple["Frontier", T]:
        """Gives slots to the children of a node that have none yet, if it ``grows``.

        ``rest`` is what the caller keeps of each slot. It is handed through ``also``, which takes some of the children
        (int32, -1 where there is none), the slots that they get (beyond all for those that have one already) and what
        ``rest`` is so far.
        """
        start, child = jnp.asarray(view.poset.child_start), jnp.append(jnp.asarray(view.poset.child), -1)
        begin, slots = start[parent], self.node.shape[0]
        count = jnp.where(grows, start[parent + 1] - begin, 0)
        longest = over_lanes(count)

        def more(carry: tuple[Array, Frontier, T]) -> tuple[Array, Frontier, T]:
            done, own, rest = carry
            place = done + jnp.arange(_WIDTH, dtype=jnp.int32)
            node = jnp.where(place < count, child[jnp.minimum(begin + place, child.shape[0] - 1)], -1)
            new = (node >= 0) & ~jnp.any(node[:, None] == own.node, axis=1)
            slot = jnp.where(new, own.filled + places(new), 2**30)
            ended = jnp.where(own.ended, own.node, FREE)
            pruned = jnp.any(is_above(ended, ancestors(view.poset, node)), axis=1)
            own = own._replace(
                node=own.node.at[slot].set(node, mode="drop"),
                filled=jnp.minimum(own.filled + jnp.sum(new, dtype=jnp.int32), slots),
                pruned=own.pruned.at[slot].set(pruned, mode="drop"),
                lost=own.lost | jnp.any(new & (slot >= slots)),
            )
            return done + _WIDTH, own, also(node, slot, rest)

        _, own, rest = lax.while_loop(lambda carry: carry[0] < longest, more, (jnp.int32(0), self, rest))
        return own, rest
