"""A binary tree that knows the highest of many estimates and who has it: for ``epsilon_greedy.py``."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from jaxbandit.xla.batch import over_lanes
from jaxbandit.xla.entries import at, put_where


class Ties(NamedTuple):
    """The highest estimate among some slots, and how many slots have it: a binary tree over the slots.

    ``best``, ``many``: for each node the highest estimate below it, as bits, and how many slots below it have that:
    int32, (runs * 2 * capacity,), those of all runs that share the arrays. Of the nodes of a run, which begin at
    ``base``, 1 is the root, 2 i and 2 i + 1 are below node i, and capacity + j is slot j; node 0 is none. ``size``: the
    slots in use, the first ones. What is said of other slots is out of date and is never read.
    """

    best: Array
    many: Array
    base: Array
    size: Array
    capacity: int

    @property
    def top(self) -> Array:
        """Returns the lowest node that is above all slots in use."""
        return self.capacity >> (32 - lax.clz(jnp.maximum(self.size - 1, 0)))

    def highest(self) -> Array:
        """Returns how many slots have the highest estimate."""
        return at(self.many, self.base + self.top)

    def find(self, rank: Array, where: Array) -> Array:
        """Finds the slot of a rank, from 0, among those that have the highest estimate; 0 where not ``where``."""
        best = at(self.best, self.base + self.top)

        def lower(carry: tuple[Array, Array]) -> tuple[Array, Array]:
            node, rank = carry
            child = self.base + 2 * node
            first = jnp.where(at(self.best, child) == best, at(self.many, child), 0)
            right = rank >= first
            return 2 * node + right.astype(jnp.int32), rank - jnp.where(right, first, 0)

        start = jnp.where(where, self.top, self.capacity), rank
        return lax.while_loop(lambda carry: carry[0] < self.capacity, lower, start)[0] - self.capacity

    def put(self, node: Array, estimate: Array, top: Array) -> "Ties":
        """Puts another estimate into a slot, given as a node, and what follows from it into the nodes above it, up to
        ``top``; nothing if the node is 0."""

        def upward(carry: tuple[Array, ...]) -> tuple[Array, ...]:
            # All reads come after the writes (docs/xla-cpu.md).
            best, many, node, width, high, ties = carry
            place, going = (self.base + node,), node >= top
            best, many = put_where(best, (high,), place, going), put_where(many, (ties,), place, going)
            other = node ^ 1
            used = other * width - self.capacity < self.size
            rival = jnp.where(used, at(best, self.base + other), 0)
            ties = jnp.where(high >= rival, ties, 0)
            ties = ties + jnp.where(used & (rival >= high), at(many, self.base + other), 0)
            return best, many, node >> 1, 2 * width, jnp.maximum(high, rival), ties

        def going(carry: tuple[Array, ...]) -> Array:
            # Side by side, lanes go up until the last is at its end.
            return over_lanes((carry[2] >= top).astype(jnp.int32)) > 0

        start: tuple[Array, ...] = (self.best, self.many, node, jnp.int32(1), estimate, jnp.ones_like(node))
        best, many, *_ = lax.while_loop(going, upward, start)
        return self._replace(best=best, many=many)

    def put_all(self, first: Array, end: Array) -> "Ties":
        """Puts what follows from the estimates in the slots from ``first`` to before ``end`` into the nodes above
        them."""

        def one(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            best, many, slot = carry
            node = jnp.where(slot < end, self.capacity + slot, 0)
            ties = self._replace(best=best, many=many).put(node, at(best, self.base + node), self.top)
            return ties.best, ties.many, slot + 1

        def going(carry: tuple[Array, Array, Array]) -> Array:
            return over_lanes((carry[2] < end).astype(jnp.int32)) > 0

        best, many, _ = lax.while_loop(going, one, (self.best, self.many, first))
        return self._replace(best=best, many=many)
