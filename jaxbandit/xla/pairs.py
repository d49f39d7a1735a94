"""All pairs of a few entries."""

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxbandit.xla.platforms import by_platform

_AT_ONCE = 8


def matches(function: Callable[..., Array], *others: Array) -> Array:
    """Returns how many of some others each of some entries matches: int32, (entries,).

    ``others``: arrays of one length. ``function``, of an entry of each: bool, (entries,). Elsewhere than on CPUs the
    sum comes with the number of the last other, which is used as if it mattered: of one sum of 64 times 64 pairs alone
    XLA makes a kernel for NVIDIA GPUs of 39,000 lines, for which the assembler takes minutes.
    """

    def in_turns(*others: Array) -> Array:
        """Goes over the others some at a time, so that the pairs are not written to memory."""
        many = others[0].shape[0]
        each = math.gcd(many, _AT_ONCE)

        def some(turn: Array, found: Array) -> Array:
            cut = [lax.dynamic_slice_in_dim(other, turn * each, each) for other in others]
            return functools.reduce(lambda found, one: found + function(*one), zip(*cut, strict=True), found)

        shape = jax.eval_shape(function, *(other[0] for other in others))
        found: Array = lax.fori_loop(0, many // each, some, jnp.zeros(shape.shape, jnp.int32))
        return found

    def sum_and_last(*others: Array) -> Array:
        pairs = jax.vmap(function)(*others).astype(jnp.int32)
        numbers = lax.broadcasted_iota(jnp.int32, pairs.shape, 0)

        def both(one: tuple[Array, Array], other: tuple[Array, Array]) -> tuple[Array, Array]:
            return one[0] + other[0], jnp.maximum(one[1], other[1])

        found, last = lax.reduce((pairs, numbers), (jnp.int32(0), jnp.int32(-1)), both, (0,))
        return jnp.where(last >= 0, found, 0)

    counted: Array = by_platform(*others, cpu=in_turns, default=sum_and_last)
    return counted
