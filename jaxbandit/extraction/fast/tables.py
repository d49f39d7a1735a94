"""Tables of the nodes that a lane has met so far, in the order in which it met them."""

import functools
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxbandit.extraction.problem import Extraction, View, rounded
from jaxbandit.extraction.retrieved import ancestors
from jaxbandit.xla.batch import any_lane, over_lanes
from jaxbandit.xla.platforms import by_platform
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


def _has_bits(words: Array, number: Array) -> Array:
    """Says whether the bits of numbers are set, of those that are not below 0: bool."""
    place = jnp.maximum(number, 0)
    found: Array = words[place >> 5] >> (place & 31).astype(jnp.uint32) & 1 > 0
    return found


def _with_bits(words: Array, number: Array, new: Array) -> Array:
    """Returns words with the bits of numbers that differ, of those that are ``new``: none of these was set."""
    bit = jnp.uint32(1) << (number & 31).astype(jnp.uint32)
    return words.at[jnp.where(new, number >> 5, words.shape[0])].add(bit, mode="drop")


class Frontier(NamedTuple):
    """Slots for the nodes that a lane has met.

    ``node``: int32 (S,), all different, in the order in which it met them, the first ``filled``; ``FREE`` behind them.
    ``ended``: bool (S,), whether the node gave an empty answer that counts; ``pruned``: whether it or one above it did;
    ``met``: a bit for each node of the domain, in words (uint32); ``lost``: bool, whether a node found no slot.
    """

    node: Array
    filled: Array
    ended: Array
    pruned: Array
    met: Array
    lost: Array

    @classmethod
    def of(cls, view: View, slots: int, nodes: int) -> "Frontier":
        """Returns slots for so many nodes, the first of which have the first ``nodes`` nodes of the domain."""
        place, none = jnp.arange(slots, dtype=jnp.int32), jnp.zeros(slots, bool)
        node = jnp.where(place < nodes, place, FREE)
        met = _with_bits(jnp.zeros(-(-np.shape(view.poset.specificity)[0] // 32), jnp.uint32), node, place < nodes)
        return cls(node, jnp.int32(nodes), none, none, met, jnp.bool_(False))

    def with_pruned(self, view: View, node: Array, empty: Array) -> "Frontier":
        """Returns the slots after a node's answer; ``empty``: whether it was, and that counts."""

        def found() -> Array:
            return is_above(node[None], ancestors(view.poset, self.node))[:, 0]

        def seldom() -> Array:
            none: Array = lax.cond(any_lane(empty), found, lambda: jnp.zeros(self.node.shape, bool))
            return none

        below = by_platform(cpu=seldom, default=found)
        return self._replace(ended=self.ended | ((self.node == node) & empty), pruned=self.pruned | (below & empty))

    def _below_ended(self) -> Callable[[Array], Array]:
        """Returns what says of nodes with some ancestors (..., A) whether any of these has ended: bool (...)."""
        slots, ended = self.node.shape[0], jnp.where(self.ended, self.node, FREE)
        # A CPU compares with those alone, some at a time, as few have ended. An accelerator would wait at each turn.
        first = jnp.full(slots, FREE).at[jnp.where(self.ended, places(self.ended), slots)].set(ended, mode="drop")
        width, most = min(_WIDTH, slots), over_lanes(jnp.sum(self.ended, dtype=jnp.int32))

        def below(some: Array, above: Array) -> Array:
            return jnp.any(is_above(some, above), axis=-1)

        def in_parts(above: Array) -> Array:
            def part(carry: tuple[Array, Array]) -> tuple[Array, Array]:
                at, found = carry
                return at + width, found | below(lax.dynamic_slice(first, (at,), (width,)), above)

            start = jnp.int32(0), jnp.zeros(above.shape[:-1], bool)
            return lax.while_loop(lambda carry: carry[0] < most, part, start)[1]

        return lambda above: by_platform(above, cpu=in_parts, default=functools.partial(below, ended))

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
        longest, below_ended = over_lanes(count), self._below_ended()

        def more(carry: tuple[Array, Frontier, T]) -> tuple[Array, Frontier, T]:
            done, own, rest = carry
            place = done + jnp.arange(_WIDTH, dtype=jnp.int32)
            node = jnp.where(place < count, child[jnp.minimum(begin + place, child.shape[0] - 1)], -1)
            new = (node >= 0) & ~_has_bits(own.met, node)
            slot = jnp.where(new, own.filled + places(new), 2**30)
            pruned = below_ended(ancestors(view.poset, node))
            own = own._replace(
                node=own.node.at[slot].set(node, mode="drop"),
                filled=jnp.minimum(own.filled + jnp.sum(new, dtype=jnp.int32), slots),
                pruned=own.pruned.at[slot].set(pruned, mode="drop"),
                met=_with_bits(own.met, node, new),
                lost=own.lost | jnp.any(new & (slot >= slots)),
            )
            return done + _WIDTH, own, also(node, slot, rest)

        _, own, rest = lax.while_loop(lambda carry: carry[0] < longest, more, (jnp.int32(0), self, rest))
        return own, rest
