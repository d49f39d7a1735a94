"""What is known of all lanes of a batch at once, from inside one lane."""

import jax
import jax.numpy as jnp
from jax import Array


@jax.custom_batching.custom_vmap
def over_lanes(x: Array) -> Array:
    """``x``; under ``vmap``, the elementwise maximum over the batch, the same for all of it.

    For bounds on work (how wide, how often), whose value may not change what is computed.
    """
    return x


@over_lanes.def_vmap
def _(size: int, batched: list[bool], x: Array) -> tuple[Array, bool]:
    return (jnp.max(x, axis=0) if batched[0] else x), False


@jax.custom_batching.custom_vmap
def sum_over_lanes(x: Array) -> Array:
    """The same, but the elementwise sum over the batch."""
    return x


@sum_over_lanes.def_vmap
def _(size: int, batched: list[bool], x: Array) -> tuple[Array, bool]:
    return (jnp.sum(x, axis=0, dtype=x.dtype) if batched[0] else x * size), False
