"""What is known of all lanes of a batch at once, from inside one lane."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from jaxbandit.xla.plain import PLAIN


def whole(size: int, batched: Any, tree: Any) -> Any:
    """Returns a tree of arrays, all with an axis of ``size`` lanes in front, for the rule of a ``custom_vmap``: repeats
    those of which ``batched`` (a tree of bool) says that they are the same in all lanes."""
    return jax.tree.map(lambda own, x: x if own else jnp.broadcast_to(x, (size, *jnp.shape(x))), batched, tree)


def over_lanes(x: Array) -> Array:
    """``x``; under ``vmap``, the elementwise maximum over the batch, the same for all of it.

    For bounds on work (how wide, how often), whose value may not change what is computed.
    """
    return x if PLAIN else _most(x)


_most = jax.custom_batching.custom_vmap(lambda x: x)


@_most.def_vmap
def _(size: int, batched: list[bool], x: Array) -> tuple[Array, bool]:
    return (jnp.max(x, axis=0) if batched[0] else x), False


def any_lane(x: Array) -> Array:
    """The same for bool: whether it holds in any lane."""
    return x if PLAIN else _any(x)


_any = jax.custom_batching.custom_vmap(lambda x: x)


@_any.def_vmap
def _(size: int, batched: list[bool], x: Array) -> tuple[Array, bool]:
    return (jnp.any(x, axis=0) if batched[0] else x), False


def sum_over_lanes(x: Array) -> Array:
    """The same, but the elementwise sum over the batch."""
    return x if PLAIN else _sum(x)


_sum = jax.custom_batching.custom_vmap(lambda x: x)


@_sum.def_vmap
def _(size: int, batched: list[bool], x: Array) -> tuple[Array, bool]:
    return (jnp.sum(x, axis=0, dtype=x.dtype) if batched[0] else x * size), False
