"""All pairs of a few entries."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array, lax


def matches(function: Callable[..., Array], *others: Array) -> Array:
    """Returns how many of some others each of some entries matches: int32, (entries,).

    ``others``: arrays of one length. ``function``, of an entry of each: bool, (entries,). On CPUs all pairs are made at
    once, elsewhere one other after another: of 64 times 64 pairs that are added up, XLA makes a kernel for an NVIDIA
    GPU of 39,000 lines, for which the assembler takes minutes.
    """

    def all_pairs(*others: Array) -> Array:
        found: Array = jnp.sum(jax.vmap(function)(*others), axis=0, dtype=jnp.int32)
        return found

    def in_turn(*others: Array) -> Array:
        def add(found: Array, other: tuple[Array, ...]) -> tuple[Array, None]:
            return found + function(*other).astype(jnp.int32), None

        start = jnp.zeros(jax.eval_shape(function, *(other[0] for other in others)).shape, jnp.int32)
        return lax.scan(add, start, others, unroll=True)[0]

    counted: Array = lax.platform_dependent(*others, cpu=all_pairs, default=in_turn)
    return counted
