"""A binary tree that knows the highest of many estimates and who has it: for ``epsilon_greedy.py``."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from jaxbandit.xla.entries import at, gathered, put, select
from jaxbandit.xla.platforms import by_platform


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

    @property
    def _levels(self) -> int:
        return self.capacity.bit_length()

    def at(self, node: Array) -> tuple[Array, Array]:
        """Returns the highest estimate below a node, and how many slots have it."""
        return at(self.best, self.base + node), at(self.many, self.base + node)

    def highest(self) -> Array:
        """Returns how many slots have the highest estimate."""
        return self.at(self.top)[1]

    def find(self, rank: Array, where: Array) -> Array:
        """Finds the slot of a rank, from 0, among those that have the highest estimate; 0 where not ``where``."""
        best, _ = self.at(self.top)

        def lower(carry: tuple[Array, ...]) -> tuple[Array, ...]:
            node, rank = carry
            estimate, many = self.at(2 * node)
            first = jnp.where(estimate == best, many, 0)
            right = rank >= first
            return 2 * node + right.astype(jnp.int32), rank - jnp.where(right, first, 0)

        def until_there(*start: Array) -> Array:
            found: tuple[Array, ...] = lax.while_loop(lambda carry: carry[0] < self.capacity, lower, start)
            return found[0]

        def through_all_levels(*start: Array) -> Array:
            carry: tuple[Array, ...] = start
            for _ in range(self._levels - 1):
                carry = select(carry[0] < self.capacity, lower(carry), carry)
            return carry[0]

        start = jnp.where(where, self.top, self.capacity), rank
        found: Array = by_platform(*start, cpu=until_there, default=through_all_levels)
        return found - self.capacity

    def put(self, node: Array, estimate: Array, top: Array) -> "Ties":
        """Puts another estimate into a slot, given as a node, and what follows from it into the nodes above it, up to
        ``top``; nothing if the node is 0."""

        def upward(carry: tuple[Array, ...]) -> tuple[Array, ...]:
            # All reads come after the writes (docs/xla-cpu.md).
            best, many, node, width, high, ties = carry
            best, many = put(best, high, self.base + node), put(many, ties, self.base + node)
            other = node ^ 1
            used = other * width - self.capacity < self.size
            beside = self._replace(best=best, many=many).at(other)
            return best, many, node >> 1, 2 * width, *_joined(high, ties, used, *beside)

        start: tuple[Array, ...] = (self.best, self.many, node, jnp.int32(1), estimate, jnp.ones_like(node))
        best, many, *_ = lax.while_loop(lambda carry: carry[2] >= top, upward, start)
        return self._replace(best=best, many=many)

    def put_all(self, first: Array, end: Array) -> "Ties":
        """Puts what follows from the estimates in the slots from ``first`` to before ``end`` into the nodes above
        them."""

        def one(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            best, many, slot = carry
            node = self.capacity + slot
            ties = self._replace(best=best, many=many).put(node, at(best, self.base + node), self.top)
            return ties.best, ties.many, slot + 1

        best, many, _ = lax.while_loop(lambda carry: carry[2] < end, one, (self.best, self.many, first))
        return self._replace(best=best, many=many)

    def put_both(self, node: tuple[Array, Array], estimate: tuple[Array, Array], top: tuple[Array, Array]) -> "Ties":
        """Returns the same as two ``put``, one after the other: reads what is beside both ways up and then writes these
        ways, so that of lanes side by side none waits for another's longer way."""
        levels = jnp.arange(self._levels, dtype=jnp.int32)
        ways = [each >> levels for each in node]
        rivals, theirs = (gathered(x, self.base + (jnp.concatenate(ways) ^ 1)) for x in (self.best, self.many))
        found: list[tuple[Array, Array]] = []
        for number in range(2):
            high, ties = estimate[number], jnp.int32(1)
            for level in range(self._levels):
                found.append((high, ties))
                other = ways[number][level] ^ 1
                beside = rivals[number * self._levels + level], theirs[number * self._levels + level]
                if number:
                    # The first one's way, which is not written yet, may be beside this one.
                    met = (other == ways[0][level]) & (other >= top[0])
                    beside = select(met, found[level], beside)
                used = (other << level) - self.capacity < self.size
                high, ties = _joined(high, ties, used, *beside)
        written = jnp.stack([(ways[0] >= top[0]) & (ways[0] != ways[1]), ways[1] >= top[1]]).reshape(-1)
        to = jnp.where(written, self.base + jnp.concatenate(ways), self.best.shape[0])
        # All is read before anything is written, or the arrays would be copied.
        values = [jnp.stack(each) for each in zip(*lax.optimization_barrier(found), strict=True)]
        best, many = (x.at[to].set(own, mode="drop") for x, own in zip((self.best, self.many), values, strict=True))
        return self._replace(best=best, many=many)


def _joined(high: Array, ties: Array, used: Array, rival: Array, theirs: Array) -> tuple[Array, Array]:
    """Returns the highest estimate below two nodes and how many slots have it, if the second is ``used``."""
    rival = jnp.where(used, rival, 0)
    ties = jnp.where(high >= rival, ties, 0) + jnp.where(used & (rival >= high), theirs, 0)
    return jnp.maximum(high, rival), ties
