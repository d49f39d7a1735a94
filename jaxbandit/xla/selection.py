"""The largest entries of the first part of an array, whose length is known when it runs: one block after the other."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from jaxbandit.xla.batch import any_lane
from jaxbandit.xla.prefix import Bounds, added, by_eighths, end_of, highest, lowest, over_blocks

_TOP = 2**30 + 1
NONE = -_TOP
"""The key of an entry that cannot be selected. Keys are int32 of at most 2^30 in size."""
_NOTHING = -(2**29)


class Extent(NamedTuple):
    """Of keys: the lowest, the highest, and how many there are (int32 scalars)."""

    low: Array
    high: Array
    many: Array

    @classmethod
    def nothing(cls) -> "Extent":
        """Of no keys."""
        return cls(jnp.int32(_TOP), jnp.int32(NONE), jnp.int32(0))

    def of(self, key: Array) -> "Extent":
        """With more of them."""
        there = key != NONE
        return Extent(
            jnp.minimum(self.low, lowest(jnp.where(there, key, _TOP))),
            jnp.maximum(self.high, highest(key)),
            self.many + added(there.astype(jnp.int32)),
        )


class Cut(NamedTuple):
    """Where a selection ends, int32: the ``least`` key in it; how many entries that have that key are in it
    (``room``), which are those before the place ``end``; and the largest key that is not in it (``after``)."""

    least: Array
    room: Array
    end: Array
    after: Array

    @classmethod
    def nothing(cls, count: int) -> "Cut":
        """So many selections of nothing."""
        return cls(jnp.full(count, _TOP), *[jnp.zeros(count, jnp.int32) for _ in range(3)])

    def has(self, number: int, key: Array, place: Array) -> Array:
        """Whether entries are in one of several selections, by their keys and places: bool."""
        return (key > self.least[number]) | ((key == self.least[number]) & (place < self.end[number]))


def cut_of(key: Array, count: Array, extent: Extent, width: Array | None, block: int) -> Cut:
    """The cut behind the ``count`` largest keys, or all if there are fewer, among the first ``width`` entries; ties go
    to the earlier entry. Without a sort.

    Args:
        key: int32, shape (n,), n a multiple of ``block``.
        extent: of these keys.
        width, block: as in ``over_blocks``; where there is more than one block, it is below 2^16.
    """
    count = jnp.minimum(count, extent.many)
    wanted = count > 0
    low, high = jnp.where(wanted, extent.low, _TOP), jnp.where(wanted, extent.high + 1, _TOP)
    bounds = Bounds(low, high, jnp.int32(0))
    if width is None:
        found = by_eighths(key, count, bounds)
    else:
        found = lax.while_loop(
            lambda bounds: any_lane(bounds.span() > 1),
            lambda bounds: _by_thirds(key, count, bounds, width, block),
            bounds,
        )
    least, room = found.low, count - found.above

    def last(place: Array, found: Cut, cut: list[Array]) -> tuple[Cut, list[Array]]:
        # ``room`` is here how many of the least key were met.
        level, met = cut[0] == least, found.room
        more = added(level.astype(jnp.int32))
        end = place[0] + end_of(level, jnp.clip(room - met, 0, block))
        here = (met <= room) & (room < met + more)
        below = highest(jnp.where(cut[0] < least, cut[0], _NOTHING))
        return Cut(least, met + more, jnp.where(here, end, found.end), jnp.maximum(found.after, below)), []

    start = Cut(least, jnp.int32(0), jnp.int32(key.shape[0]), jnp.int32(_NOTHING))
    _, met, end, after = over_blocks(last, width, block, start, [], [key])[0]
    return Cut(least, room, end, jnp.where(met > room, least, after))


def _by_thirds(key: Array, count: Array, bounds: Bounds, width: Array, block: int) -> Bounds:
    """A third of the bounds, by the numbers of keys that reach each of two points, in the halves of one number."""
    low, high, above = bounds
    third = (bounds.span() // jnp.uint32(3)).astype(jnp.int32)
    one, two = low + third, high - jnp.maximum(third, 1)

    def tally(_: Array, found: tuple[Array, Array], cut: list[Array]) -> tuple[tuple[Array, Array], list[Array]]:
        both = added((cut[0] >= one).astype(jnp.int32) + ((cut[0] >= two).astype(jnp.int32) << 16))
        return (found[0] + (both & 0xFFFF), found[1] + (both >> 16)), []

    at_one, at_two = over_blocks(tally, width, block, (jnp.int32(0), jnp.int32(0)), [], [key])[0]
    new = (
        jnp.where(at_two >= count, two, jnp.where(at_one >= count, one, low)),
        jnp.where(at_two >= count, high, jnp.where(at_one >= count, two, one)),
        jnp.where(at_two >= count, above, jnp.where(at_one >= count, at_two, at_one)),
    )
    still = bounds.span() > 1
    return Bounds(*(jnp.where(still, a, b) for a, b in zip(new, bounds, strict=True)))
