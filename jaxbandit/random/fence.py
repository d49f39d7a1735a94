"""A wall that XLA's fusion does not pass."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array, lax


def computed_once(function: Callable[..., Array]) -> Callable[..., Array]:
    """``function`` of arrays of one shape, to one array of that shape, computed once however often it is used.

    Under ``vmap`` the batch's computation becomes a branch, always taken, of a condition that XLA cannot decide. Else
    the CPU backend repeats it in each kernel that uses its result: it drops ``lax.optimization_barrier`` before it
    fuses. The last argument must be an int32 that is never negative.
    """
    plain = jax.custom_batching.custom_vmap(function)

    @plain.def_vmap
    def batch(size: int, batched: list[bool], *operands: Array) -> tuple[Array, bool]:
        full = [
            operand if has else jnp.broadcast_to(jnp.asarray(operand), (size, *jnp.shape(operand)))
            for operand, has in zip(operands, batched, strict=True)
        ]
        shape = jax.eval_shape(function, *full)
        nothing = lambda *_: jnp.zeros(shape.shape, shape.dtype)  # noqa: E731
        return lax.cond(full[-1].reshape(-1)[0] >= 0, function, nothing, *full), True

    return plain


@computed_once
def once(x: Array) -> Array:
    """``x`` (int32, never negative), computed once however often it is used."""
    return x
