"""Work on a few rows of each lane, those of all lanes side by side."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxbandit.xla.batch import whole
from jaxbandit.xla.plain import PLAIN
from jaxbandit.xla.platforms import by_platform
from jaxbandit.xla.prefix import marked, nth

_LANES = 128
"""An accelerator with more lanes than this takes as many more rows at a time: few rows are no work for it."""


def over_rows(
    function: Callable[..., Sequence[Array]], block: int, mask: Array, written: Sequence[Array], read: Any,
    shared: Any = (),
) -> list[Array]:  # fmt: skip
    """``written`` after ``function`` of all entries that are set; under ``vmap`` those of all lanes together, a block
    at a time, so that lanes with few of them do not wait for others with many.

    Args:
        function: takes ``written``, the lane and the entry (int32 (block,)) of each, whether it is there (bool, false
            for repeats of the last one), ``read`` and ``shared``; returns the new ``written``. All but ``shared`` has
            a new first axis for the lanes. What it writes for entries that are not there must be dropped.
        block: static; a multiple of it on accelerators with many lanes.
        mask: bool (S,), the entries.
        written: arrays; read: a tree of arrays.
        shared: a tree of arrays that are the same for all lanes.
    """

    def by_blocks(block: int, mask: Array, written: list[Array], read: Any, shared: Any) -> list[Array]:
        size = mask.shape[1]
        marks = marked(mask.reshape(-1))
        total = marks.total

        def more(number: Array, arrays: list[Array]) -> list[Array]:
            rank = number * block + jnp.arange(block, dtype=jnp.int32)
            place = nth(marks, jnp.minimum(rank, total - 1))
            return list(function(arrays, place // size, place % size, rank < total, read, shared))

        found: list[Array] = lax.fori_loop(0, (total + block - 1) // block, more, written)
        return found

    def of_all(mask: Array, *rest: Any) -> list[Array]:
        large = block * max(1, mask.shape[0] // _LANES)
        found: list[Array] = by_platform(mask, *rest, cpu=partial(by_blocks, block), default=partial(by_blocks, large))
        return found

    def of_one(mask: Array, written: list[Array], read: Any, shared: Any) -> list[Array]:
        mask, written, read = jax.tree.map(lambda x: x[None], (mask, written, read))
        return [x[0] for x in of_all(mask, written, read, shared)]

    if PLAIN:
        return of_one(mask, list(written), read, shared)
    plain = jax.custom_batching.custom_vmap(of_one)

    @plain.def_vmap
    def batch(size: int, batched: Any, *operands: Any) -> tuple[list[Array], list[bool]]:
        *rows, shared = operands
        assert not any(jax.tree.leaves(batched[-1])), "what is shared is the same for all lanes"
        mask, written, read = whole(size, list(batched[:-1]), rows)
        return of_all(mask, written, read, shared), [True] * len(written)

    found: list[Array] = plain(mask, list(written), read, shared)
    return found


def packed(
    function: Callable[..., Sequence[Array]], block: int, mask: Array, written: Sequence[Array], axes: Sequence[int],
    read: Any, lane: Any,
) -> list[Array]:  # fmt: skip
    """``written``, with the rows that are set replaced by what ``function`` makes of them, ``over_rows``.

    Args:
        function: takes the rows of ``written`` and ``read`` and, for each, its lane's part of ``lane`` (all with a new
            first axis of ``block``); returns the new rows of ``written``. Those beyond the last set one are repeated
            and dropped.
        block: static.
        mask: bool (S,), the rows.
        written: arrays; ``axes``: the axis, 0 or 1, of each one that has length S.
        read: a tree of arrays whose first axis has length S.
        lane: a tree of arrays of any shape.
    """
    # Traced once, though ``over_rows`` is traced for one lane and for all.
    rows_of = jax.jit(function)

    def some(arrays: list[Array], number: Array, slot: Array, there: Array, seen: Any, _: Any) -> list[Array]:
        read, lane = seen
        rows = [x[number, slot] if axis == 0 else x[number, :, slot] for x, axis in zip(arrays, axes, strict=True)]
        own = jax.tree.map(lambda x: x[number, slot], read)
        new = rows_of(rows, own, jax.tree.map(lambda x: x[number], lane))
        to = jnp.where(there, number, arrays[0].shape[0])
        return [
            x.at[to, slot].set(own, mode="drop") if axis == 0 else x.at[to, :, slot].set(own, mode="drop")
            for x, own, axis in zip(arrays, new, axes, strict=True)
        ]

    return over_rows(some, block, mask, written, (read, lane))
