"""Work on the first entries of an array, as many as are in use, under ``jit`` and ``vmap``.

A rule that drops arms keeps those that are left at the front of its arrays. Shapes cannot change while the lanes go,
but work can: of a ladder of widths, the narrowest that holds what any lane uses is computed, and no other.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxbandit.random.trials import over_lanes

_NARROWEST = 40
_PAIRS = 64
_WAYS = 8


def ladder(width: int) -> list[int]:
    """Widths from ``width`` down, each what two rounds that drop a quarter (rounded up) leave of the last."""
    widths = [width]
    while widths[-1] > _NARROWEST:
        once = widths[-1] - -(-widths[-1] // 4)
        widths.append(once - -(-once // 4))
    return widths


def on_prefix(
    function: Callable[[list[Array]], tuple[list[Array], Any]], used: Array, written: Sequence[Array],
    read: Sequence[Array] = (), rungs: int | None = None,
) -> tuple[list[Array], Any]:  # fmt: skip
    """``written`` with the first entries replaced by what ``function`` makes of them, and what else it returns.

    Args:
        function: takes the first w entries of ``written`` and then of ``read``, and returns the new entries of
            ``written``, each of length w, and a tree of arrays whose shapes do not depend on w. Its results may not
            depend on w otherwise, nor on entries from ``used`` on, which it leaves as they are.
        used: int32 scalar.
        written, read: arrays of one length.
        rungs: how many widths of the ladder, the widest and the narrowest in any case; all where None.
    """
    widths = ladder(written[0].shape[0])
    if rungs is not None:
        widths = widths[:1] + widths[1:][-(rungs - 1) :]

    most = over_lanes(used)
    which = jnp.maximum(jnp.sum(most <= jnp.array(widths, jnp.int32), dtype=jnp.int32) - 1, 0)

    def at(width: int, arrays: Sequence[Array]) -> tuple[list[Array], Any]:
        return function([array[:width] for array in (*arrays, *read)])

    shapes = jax.eval_shape(lambda: at(widths[0], written)[1])
    more = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    arrays = list(written)
    for number, width in enumerate(widths):
        # A loop of one turn or none: XLA changes a loop's arrays in place, but copies those of a branch.

        def turn(carry: tuple[Array, list[Array], Any], width: int = width) -> tuple[Array, list[Array], Any]:
            _, old, _ = carry
            new, found = at(width, old)
            return jnp.bool_(False), [a.at[:width].set(b) for a, b in zip(old, new, strict=True)], found

        _, arrays, more = lax.while_loop(lambda carry: carry[0], turn, (which == number, arrays, more))
    return arrays, more


def places(mask: Array) -> Array:
    """How many entries before each one are set: int32, of the shape (n,) of the bool ``mask``.

    By the bits of words of 32: a prefix sum in XLA costs three times as much.
    """
    size = mask.shape[0]
    lanes = jnp.arange(32, dtype=jnp.uint32)
    rows = jnp.pad(mask, (0, -size % 32)).reshape(-1, 32)
    word = jnp.sum(rows.astype(jnp.uint32) << lanes, axis=1, dtype=jnp.uint32)
    within = lax.population_count(word[:, None] & ((jnp.uint32(1) << lanes) - jnp.uint32(1))).astype(jnp.int32)
    before = _sums_before(lax.population_count(word).astype(jnp.int32))
    return (before[:, None] + within).reshape(-1)[:size]


def _sums_before(counts: Array) -> Array:
    size = counts.shape[0]
    rows = jnp.pad(counts, (0, -size % 32)).reshape(-1, 32)
    earlier = jnp.tri(32, k=-1, dtype=bool)
    within = jnp.sum(jnp.where(earlier, rows[:, None, :], 0), axis=2, dtype=jnp.int32)
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
    top = jnp.int32(2**30 + 1)
    if score.shape[0] <= _PAIRS:
        place = jnp.arange(score.shape[0], dtype=jnp.int32)
        ahead = (score[None, :] > score[:, None]) | (
            (score[None, :] == score[:, None]) & (place[None, :] < place[:, None])
        )
        found = eligible & (jnp.sum(ahead & eligible[None, :], axis=1, dtype=jnp.int32) < count)
        return found, jnp.min(jnp.where(found, score, top))
    wanted = count > 0
    low = jnp.where(wanted, jnp.min(jnp.where(eligible, score, top)), top)
    high = jnp.where(wanted, jnp.max(jnp.where(eligible, score, -top)) + 1, top)

    def narrow(bounds: tuple[Array, Array]) -> tuple[Array, Array]:
        # As many as are wanted reach low; fewer reach high. Unsigned, as they can be 2^31 apart.
        low, high = bounds
        wide = (high - low).astype(jnp.uint32)
        part, rest = wide // _WAYS, wide % _WAYS
        steps = jnp.arange(1, _WAYS, dtype=jnp.uint32)
        cuts = low + (part * steps + (rest * steps) // _WAYS).astype(jnp.int32)
        reach = jnp.sum(eligible[None, :] & (score[None, :] >= cuts[:, None]), axis=1, dtype=jnp.int32) >= count
        return jnp.max(jnp.where(reach, cuts, low)), jnp.min(jnp.where(reach, high, cuts))

    least, _ = lax.while_loop(lambda bounds: (bounds[1] - bounds[0]).astype(jnp.uint32) > 1, narrow, (low, high))
    above, level = eligible & (score > least), eligible & (score == least)
    room = count - jnp.sum(above, dtype=jnp.int32)
    return above | (level & (places(level) < room)), least


def kept_first(kept: Array, used: Array, arrays: Sequence[Array]) -> list[Array]:
    """The arrays with the ``kept`` entries first and the others of the first ``used`` after them, both in order."""
    place = jnp.arange(kept.shape[0], dtype=jnp.int32)
    kept = kept & (place < used)
    before = places(kept)
    to = jnp.where(kept, before, jnp.sum(kept, dtype=jnp.int32) + place - before)
    return [jnp.zeros_like(array).at[to].set(array, mode="promise_in_bounds", unique_indices=True) for array in arrays]
