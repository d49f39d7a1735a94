"""Work on a few rows of each lane, those of all lanes side by side."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxbandit.arms.prefix import nth, places


def packed(
    function: Callable[..., Sequence[Array]], block: int, mask: Array, written: Sequence[Array], axes: Sequence[int],
    read: Any, lane: Any, shared: Any = (),
) -> list[Array]:  # fmt: skip
    """``written``, with the rows that are set replaced by what ``function`` makes of them; under ``vmap`` those of all
    lanes together, a block at a time, so that lanes with few rows do not wait for others with many.

    Args:
        function: takes the rows of ``written`` and ``read`` and, for each, its lane's part of ``lane`` (all with a new
            first axis of ``block``), and ``shared``; returns the new rows of ``written``. Those beyond the last set one
            are repeated and dropped.
        block: static.
        mask: bool (S,), the rows.
        written: arrays; ``axes``: the axis, 0 or 1, of each one that has length S.
        read: a tree of arrays whose first axis has length S.
        lane: a tree of arrays of any shape.
        shared: a tree of arrays that are the same for all lanes.
    """

    @jax.custom_batching.custom_vmap
    def plain(mask: Array, written: list[Array], read: Any, lane: Any, shared: Any) -> list[Array]:
        one = jax.tree.map(lambda x: x[None], (mask, written, read, lane))
        mask, written, read, lane = one
        return [x[0] for x in whole(mask, written, read, lane, shared)]

    def whole(mask: Array, written: list[Array], read: Any, lane: Any, shared: Any) -> list[Array]:
        slots = mask.shape[1]
        up_to = places(mask.reshape(-1)) + mask.reshape(-1)
        total = up_to[-1]

        def more(carry: tuple[Array, list[Array]]) -> tuple[Array, list[Array]]:
            done, arrays = carry
            rank = done + jnp.arange(block, dtype=jnp.int32)
            place = nth(up_to, jnp.minimum(rank, total - 1))
            number, slot = place // slots, place % slots
            rows = [x[number, slot] if axis == 0 else x[number, :, slot] for x, axis in zip(arrays, axes, strict=True)]
            seen = jax.tree.map(lambda x: x[number, slot], read)
            new = function(rows, seen, jax.tree.map(lambda x: x[number], lane), shared)
            to = jnp.where(rank < total, number, mask.shape[0])
            arrays = [
                x.at[to, slot].set(own, mode="drop") if axis == 0 else x.at[to, :, slot].set(own, mode="drop")
                for x, own, axis in zip(arrays, new, axes, strict=True)
            ]
            return done + block, arrays

        return lax.while_loop(lambda carry: carry[0] < total, more, (jnp.int32(0), written))[1]

    @plain.def_vmap
    def batch(size: int, batched: Any, *operands: Any) -> tuple[list[Array], list[bool]]:
        *rows, shared = operands
        assert not any(jax.tree.leaves(batched[-1])), "what is shared is the same for all lanes"
        mask, written, read, lane = jax.tree.map(
            lambda x, own: x if own else jnp.broadcast_to(x, (size, *jnp.shape(x))), tuple(rows), tuple(batched[:-1])
        )
        return whole(mask, written, read, lane, shared), [True] * len(written)

    found: list[Array] = plain(mask, list(written), read, lane, shared)
    return found
