"""Tables of the nodes that a lane has met so far, in the order in which it met them."""

import jax.numpy as jnp
from jax import Array

from jaxbandit.extraction.problem import Extraction, rounded

FREE = -2
"""No node's number: the mark of a free slot."""


def rows_for(problem: Extraction) -> int:
    """How many entities a run can retrieve, rounded up to one of few numbers."""
    return min(problem.room.entities, rounded(problem.crowd.leaf.shape[0]))


def is_above(node: Array, above: Array) -> Array:
    """bool (..., S): which of the nodes (S,), ``FREE`` where there is none, are among the ancestors (..., A)."""
    found: Array = jnp.any(node == above[..., None], axis=-2)
    return found


def fresh(node: Array, known: Array, filled: Array) -> tuple[Array, Array, Array]:
    """Which of some nodes have no slot yet, and the next free slots for them.

    Args:
        node: int32 (any,), all different, -1 where there is none.
        known: int32 (slots,), the nodes that have one; ``FREE`` where a slot is free.
        filled: int32, the first free slot.

    Returns:
        bool (any, slots), which slot is whose; bool (any,), which have none; int32 (any,), the slot that each of those
        gets, beyond all slots for the others.
    """
    same = (node[:, None] == known[None, :]) & (node >= 0)[:, None]
    new = (node >= 0) & ~jnp.any(same, axis=1)
    order = jnp.arange(node.shape[0])
    rank = jnp.sum(new[None, :] & (order[None, :] < order[:, None]), axis=1, dtype=jnp.int32)
    return same, new, jnp.where(new, filled + rank, 2**30)
