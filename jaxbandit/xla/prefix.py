"""Work on the first entries of an array, as many as are in use, under ``jit`` and ``vmap``.

A rule that drops arms keeps those that are left at the front of its arrays. Shapes cannot change while the lanes go,
but it can go over ever shorter parts of its arrays in loops over blocks of them, compiled once.
"""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxbandit.xla.batch import over_lanes, whole
from jaxbandit.xla.plain import PLAIN
from jaxbandit.xla.platforms import by_platform

BLOCK = 64
"""How many entries are drawn at once; widths of whole blocks are quick."""
_PARTS = 8
_WHOLE = 1024
"""Up to so many entries are all taken at once."""
_BEYOND = 2**30 + 1
"""Above all scores."""
_TURNS = 11
"""After so many turns to an eighth, and its remainder, 2^31 + 1 is 1."""
_QUICK = 32
"""Reductions of more values than this are windows of windows in XLA's CPU backend."""


T = TypeVar("T")


def over_blocks(
    function: Callable[[Array, T, list[Array]], tuple[T, list[Array]]], used: Array | None, block: int, carry: T,
    written: Sequence[Array], read: Sequence[Array],
) -> tuple[T, list[Array]]:  # fmt: skip
    """``carry`` and ``written`` after ``function`` of the first ``used`` entries, a block at a time.

    Args:
        function: takes the places of ``block`` entries (int32, shape (block,)), the carry, and these entries of
            ``written`` and then of ``read``; returns the new carry and the new entries of ``written``.
        used: int32 scalar, one for all lanes, and a multiple of ``block``, as is the length of the arrays. None: the
            arrays have one block, which is in use.
        block: static.
        carry: a tree of arrays.
        written, read: arrays of one length.
    """
    if used is None:
        return function(jnp.arange(block, dtype=jnp.int32), carry, [*written, *read])

    def turn(number: Array, state: tuple[T, list[Array]]) -> tuple[T, list[Array]]:
        start = number * block
        cut = [lax.dynamic_slice_in_dim(array, start, block) for array in (*state[1], *read)]
        carry, new = function(start + jnp.arange(block, dtype=jnp.int32), state[0], cut)
        return carry, [put(a, b, start) for a, b in zip(state[1], new, strict=True)]

    found: tuple[T, list[Array]] = lax.fori_loop(0, used // block, turn, (carry, list(written)))
    return found


def in_blocks(
    function: Callable[[Array, list[Array]], list[Array]], used: Array, written: Sequence[Array], read: Sequence[Array]
) -> list[Array]:
    """``written`` with the first entries replaced by what ``function`` makes of each by itself, a block at a time.

    On CPUs it is compiled once for all numbers of entries, and does no more than a block too much. Elsewhere all are
    taken at once, as each block would wait for the host.

    Args:
        function: takes the places of w entries (int32, shape (w,)) and these entries of ``written`` and then of
            ``read``, and returns the new ones of ``written``. Entries from ``used`` on may get any value; if it is
            given its own results, it returns the same again.
        used: int32 scalar.
        written, read: arrays of one length.
    """
    found: list[Array] = by_platform(
        cpu=lambda: _in_blocks(function, used, written, read),
        default=lambda: function(jnp.arange(written[0].shape[0], dtype=jnp.int32), [*written, *read]),
    )
    return found


def _in_blocks(
    function: Callable[[Array, list[Array]], list[Array]], used: Array, written: Sequence[Array], read: Sequence[Array]
) -> list[Array]:
    size = written[0].shape[0]
    block = size if size <= _WHOLE else -(-size // (_PARTS * BLOCK)) * BLOCK

    def turn(number: Array, arrays: list[Array]) -> list[Array]:
        start = jnp.minimum(number * block, size - block)
        cut = [lax.dynamic_slice_in_dim(array, start, block) for array in (*arrays, *read)]
        new = function(start + jnp.arange(block, dtype=jnp.int32), cut)
        return [put(a, b, start) for a, b in zip(arrays, new, strict=True)]

    blocks = (over_lanes(used) + block - 1) // block
    arrays: list[Array] = lax.fori_loop(0, blocks, turn, list(written))
    return arrays


def put(array: Array, part: Array, start: Array) -> Array:
    """``array`` with ``part`` in the place of its entries from ``start`` on (int32 scalar, one for all lanes), where
    there is room. JAX makes a scatter of it under ``vmap``, and XLA reads what it overwrites."""
    found: Array = _unbatched_put(array, part, start) if PLAIN else _put(array, part, start)
    return found


def _unbatched_put(array: Array, part: Array, start: Array) -> Array:
    return lax.dynamic_update_slice_in_dim(array, part, start, 0)


_put = jax.custom_batching.custom_vmap(_unbatched_put)


@_put.def_vmap
def _(size: int, batched: list[bool], array: Array, part: Array, start: Array) -> tuple[Array, bool]:
    array, part = whole(size, batched[:2], [array, part])
    assert not batched[2], "the place is the same for all lanes"
    return lax.dynamic_update_slice_in_dim(array, part, start, 1), True


def _reduced(x: Array, pair: Callable[[Array, Array], Array], reduce: Callable[[Array], Array]) -> Array:
    """``reduce`` of ``x``, whose order does not matter. XLA's CPU backend reduces element after element, so there parts
    go side by side; for GPUs it would compute ``x`` anew for each part, and compile for minutes."""
    if PLAIN:
        return reduce(x)
    found: Array = by_platform(x, cpu=lambda x: _folded(x, pair, reduce), default=reduce)
    return found


def _folded(x: Array, pair: Callable[[Array, Array], Array], reduce: Callable[[Array], Array]) -> Array:
    part = x.shape[0] // _PARTS
    if not part:
        return reduce(x)
    side = functools.reduce(pair, [x[i * part : (i + 1) * part] for i in range(_PARTS)])
    found = _folded(side, pair, reduce) if part > _QUICK else reduce(side)
    return pair(found, reduce(x[_PARTS * part :])) if x.shape[0] % _PARTS else found


def added(x: Array) -> Array:
    """The sum of int32 of shape (n, ...), n > 0, over the first dimension."""
    return _reduced(x, jnp.add, lambda part: jnp.sum(part, axis=0, dtype=jnp.int32))


def highest(x: Array) -> Array:
    """The largest of shape (n,), n > 0."""
    return _reduced(x, jnp.maximum, jnp.max)


def lowest(x: Array) -> Array:
    """The least of shape (n,), n > 0."""
    return _reduced(x, jnp.minimum, jnp.min)


def highest_first(x: Array, order: Array) -> tuple[Array, Array]:
    """The largest of ``x`` (float32, shape (n,), n > 0), and the least ``order`` (int32) of those that are so large.

    On accelerators it is one reduction of pairs, for which XLA's CPU backend would use no vectors.
    """

    def in_turn(x: Array, order: Array) -> tuple[Array, Array]:
        most = jnp.max(x)
        return most, jnp.min(jnp.where(x == most, order, _BEYOND))

    def together(x: Array, order: Array) -> tuple[Array, Array]:
        def first(a: tuple[Array, Array], b: tuple[Array, Array]) -> tuple[Array, Array]:
            ahead = (a[0] > b[0]) | ((a[0] == b[0]) & (a[1] < b[1]))
            return jnp.where(ahead, a[0], b[0]), jnp.where(ahead, a[1], b[1])

        found: tuple[Array, Array] = lax.reduce((x, order), (jnp.float32(-jnp.inf), jnp.int32(_BEYOND)), first, (0,))
        return found

    if PLAIN:
        return in_turn(x, order)
    found: tuple[Array, Array] = by_platform(x, order, cpu=in_turn, default=together)
    return found


class Marked(NamedTuple):
    """A mask by its bits: ``word``, uint32, 32 entries each; ``before``, int32, how many are set before each word; and
    ``total``, int32, how many are set."""

    word: Array
    before: Array
    total: Array


def marked(mask: Array) -> Marked:
    """Of a bool ``mask``, shape (n,)."""
    word = words_of(mask)
    counts = lax.population_count(word).astype(jnp.int32)
    before = _sums_before(counts)
    return Marked(word, before, before[-1] + counts[-1])


def words_of(mask: Array) -> Array:
    """The bits of a bool ``mask``, shape (n,): uint32, 32 entries each."""
    rows = jnp.pad(mask, (0, -mask.shape[0] % 32)).reshape(-1, 32)
    return jnp.sum(rows.astype(jnp.uint32) << jnp.arange(32, dtype=jnp.uint32)[None], axis=1, dtype=jnp.uint32)


def places(mask: Array) -> Array:
    """How many entries before each one are set: int32, of the shape (n,) of the bool ``mask``.

    By the bits of words of 32: a prefix sum in XLA costs three times as much.
    """
    if PLAIN:
        return jnp.cumsum(mask, dtype=jnp.int32) - mask
    word, before, _ = marked(mask)
    return ranks(word, before)[: mask.shape[0]]


def ranks(word: Array, before: Array) -> Array:
    """How many entries before each one are set, of whole words (``words_of``) that have so many before them."""
    lower = (jnp.uint32(1) << jnp.arange(32, dtype=jnp.uint32)) - jnp.uint32(1)
    within = lax.population_count(word[:, None] & lower[None]).astype(jnp.int32)
    return (before[:, None] + within).reshape(-1)


def end_of(mask: Array, count: Array) -> Array:
    """How many entries of ``mask`` are before the set one number ``count``, from 0: the first ``count`` set ones are
    those before that place. int32, the size of ``mask`` or more where no more are set."""
    word, before, _ = marked(mask)
    row = added((before <= count).astype(jnp.int32)) - 1
    bit, over = _bit(word[row], count - before[row])
    return jnp.where(over, mask.shape[0], 32 * row + bit)


def nth(mask: Marked, rank: Array) -> Array:
    """Where the set entries of these ranks are, from 0; beyond the end where there are fewer. int32, as ``rank``."""
    word, before, _ = mask
    size = word.shape[0]
    row = jnp.zeros_like(rank)
    for turn in reversed(range((size - 1).bit_length())):
        further = row + (1 << turn)
        row = jnp.where((further < size) & (before[jnp.minimum(further, size - 1)] <= rank), further, row)
    bit, over = _bit(word[row], rank - before[row])
    return jnp.where(over, 32 * size, 32 * row + bit)


def _bit(bits: Array, rank: Array) -> tuple[Array, Array]:
    """The place of the set bit of each rank (int32), and whether there are fewer."""
    over, bit = rank >= lax.population_count(bits).astype(jnp.int32), jnp.zeros_like(rank)
    for half in (16, 8, 4, 2, 1):
        low = lax.population_count((bits >> bit.astype(jnp.uint32)) & jnp.uint32((1 << half) - 1)).astype(jnp.int32)
        beyond = rank >= low
        rank, bit = jnp.where(beyond, rank - low, rank), jnp.where(beyond, bit + half, bit)
    return bit, over


def _sums_before(counts: Array) -> Array:
    if PLAIN:
        return jnp.cumsum(counts, dtype=jnp.int32) - counts
    size = counts.shape[0]
    width = min(size, 32)
    rows = jnp.pad(counts, (0, -size % width)).reshape(-1, width)
    earlier = jnp.tri(width, k=-1, dtype=bool)
    within = jnp.sum(jnp.where(earlier[None], rows[:, None], 0), axis=2, dtype=jnp.int32)
    if rows.shape[0] > 1:
        within = within + _sums_before(jnp.sum(rows, axis=1, dtype=jnp.int32))[:, None]
    return within.reshape(-1)[:size]


def best(score: Array, count: Array, eligible: Array) -> tuple[Array, Array]:
    """The ``count`` entries of the largest ``score`` among the eligible, ties to the earlier entry. Without a sort.

    Args:
        score: int32, shape (n,), of at most 2^30 in size.
        count: int32 scalar, 0 to the number of the eligible.
        eligible: bool, shape (n,).

    Returns:
        Which they are (bool, shape (n,)), and the least score among them (int32; 2^30 + 1 where count is 0).
    """
    if PLAIN:
        order = jnp.argsort(jnp.where(eligible, -score, _BEYOND), stable=True)
        rank = jnp.zeros_like(score).at[order].set(jnp.arange(score.shape[0], dtype=jnp.int32))
        chosen = rank < count
        return chosen, jnp.min(jnp.where(chosen, score, _BEYOND))
    top = jnp.int32(_BEYOND)
    wanted, among = count > 0, jnp.where(eligible, score, -top)
    low = jnp.where(wanted, lowest(jnp.where(eligible, score, top)), top)
    high = jnp.where(wanted, highest(among) + 1, top)

    def halves(among: Array, count: Array, bounds: Bounds) -> Bounds:
        return lax.while_loop(lambda bounds: bounds.span() > 1, lambda bounds: _by_half(among, count, bounds), bounds)

    least, _, above = by_platform(among, count, Bounds(low, high, jnp.int32(0)), cpu=halves, default=by_eighths)
    end = end_of(eligible & (score == least), count - above)
    place = jnp.arange(score.shape[0], dtype=jnp.int32)
    return eligible & ((score > least) | ((score == least) & (place < end))), least


class Bounds(NamedTuple):
    """Of the least key of a selection: ``low`` is reached by as many keys as are wanted, or more, and ``high`` by
    fewer, ``above`` of them; int32."""

    low: Array
    high: Array
    above: Array

    def span(self) -> Array:
        """How far apart they are: 1 where the least key is found. Unsigned, as it can be 2^31."""
        return (self.high - self.low).astype(jnp.uint32)


def _by_half(key: Array, count: Array, bounds: Bounds) -> Bounds:
    """Two halvings: once 1 apart, low is the middle, and is reached."""
    low, high, above = bounds
    for _ in range(2):
        middle = low + (Bounds(low, high, above).span() >> jnp.uint32(1)).astype(jnp.int32)
        found = added((key >= middle).astype(jnp.int32))
        reach = found >= count
        low, high, above = (jnp.where(reach, a, b) for a, b in ((middle, low), (high, middle), (above, found)))
    return Bounds(low, high, above)


def by_eighths(key: Array, count: Array, bounds: Bounds) -> Bounds:
    """The bounds of the least of the ``count`` largest keys, 1 apart. For accelerators: no turn waits for the host, and
    each reads the keys once, for seven points."""

    def turn(_: Array, bounds: Bounds) -> Bounds:
        low, high, above = bounds
        step = jnp.maximum(bounds.span() >> jnp.uint32(3), 1).astype(jnp.int32)
        for number in range(1, 8):
            point = bounds.low + number * step
            found, within = added((key >= point).astype(jnp.int32)), point < high
            reached, missed = within & (found >= count), within & (found < count)
            low, high, above = (
                jnp.where(reached, point, low),
                jnp.where(missed, point, high),
                jnp.where(missed, found, above),
            )
        return Bounds(low, high, above)

    narrow: Bounds = lax.fori_loop(0, _TURNS, turn, bounds)
    return narrow
