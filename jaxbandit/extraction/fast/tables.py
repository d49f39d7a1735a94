"""Tables of the nodes that a lane has met so far, in the order in which it met them."""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import jax.numpy as jnp
from jax import Array, lax

from jaxbandit.extraction.problem import Extraction, View, rounded
from jaxbandit.extraction.retrieved import ancestors
from jaxbandit.xla.batch import over_lanes

T = TypeVar("T")

FREE = -2
"""No node's number: the mark of a free slot."""
_WIDTH = 16
"""Children that are looked up at a time."""


def rows_for(problem: Extraction) -> int:
    """How many entities a run can retrieve, rounded up to one of few numbers."""
    return min(problem.room.entities, rounded(problem.crowd.leaf.shape[0]))


def is_above(node: Array, above: Array) -> Array:
    """bool (..., S): which of the nodes (S,), ``FREE`` where there is none, are among the ancestors (..., A)."""
    found: Array = jnp.any(node == above[..., None], axis=-2)
    return found


class Frontier(NamedTuple):
    """Slots for the nodes that a lane has met. ``node``: int32 (S,), all different, in the order in which it met them,
    the first ``filled``; ``FREE`` behind them. ``barren``, ``void``: bool (S,), whether the node, and whether it or one
    above it, gave an empty answer that counts; ``lost``: bool, whether a node found no slot."""

    node: Array
    filled: Array
    barren: Array
    void: Array
    lost: Array

    @classmethod
    def of(cls, slots: int, nodes: int) -> "Frontier":
        """The first ``nodes`` nodes of a domain."""
        place, none = jnp.arange(slots, dtype=jnp.int32), jnp.zeros(slots, bool)
        return cls(jnp.where(place < nodes, place, FREE), jnp.int32(nodes), none, none, jnp.bool_(False))

    def emptied(self, view: View, node: Array, empty: Array) -> "Frontier":
        """After an answer of a node, ``empty`` if it is and that counts."""
        below = is_above(node[None], ancestors(view.poset, self.node))[:, 0]
        return self._replace(barren=self.barren | ((self.node == node) & empty), void=self.void | (below & empty))

    def grown(
        self, view: View, parent: Array, grows: Array, rest: T, also: Callable[[Array, Array, T], T]
    ) -> tuple["Frontier", T]:
        """With the children of a node that have no slot yet, if it ``grows``; and ``rest`` after ``also``, which takes
        some of the children (int32, -1 where there is none), the slots that they get (beyond all for those that have
        one already) and what it made of ``rest`` so far."""
        start, child = jnp.asarray(view.poset.child_start), jnp.asarray(view.poset.child)
        begin, slots = start[parent], self.node.shape[0]
        count = jnp.where(grows, start[parent + 1] - begin, 0)
        longest = over_lanes(count)

        def more(carry: tuple[Array, Frontier, T]) -> tuple[Array, Frontier, T]:
            done, own, rest = carry
            place = done + jnp.arange(_WIDTH, dtype=jnp.int32)
            node = jnp.where(place < count, child[jnp.minimum(begin + place, child.shape[0] - 1)], -1)
            new = (node >= 0) & ~jnp.any(node[:, None] == own.node, axis=1)
            rank = jnp.sum(new[None, :] & (place[None, :] < place[:, None]), axis=1, dtype=jnp.int32)
            slot = jnp.where(new, own.filled + rank, 2**30)
            barren = jnp.where(own.barren, own.node, FREE)
            void = jnp.any(is_above(barren, ancestors(view.poset, node)), axis=1)
            own = own._replace(
                node=own.node.at[slot].set(node, mode="drop"),
                filled=jnp.minimum(own.filled + jnp.sum(new, dtype=jnp.int32), slots),
                void=own.void.at[slot].set(void, mode="drop"),
                lost=own.lost | jnp.any(new & (slot >= slots)),
            )
            return done + _WIDTH, own, also(node, slot, rest)

        _, own, rest = lax.while_loop(lambda carry: carry[0] < longest, more, (jnp.int32(0), self, rest))
        return own, rest
