"""Quotients, roots and sums of float32 and float64 numbers that are rounded alike on every device.

XLA compiles a float32 division or root for a GPU to an approximation (``div.full``, ``sqrt.approx``), and one of
float64 to the exact one. As float64 has more than twice the digits, its result rounded to float32 is the correctly
rounded one, which a CPU computes by itself.

A reduction adds in an order that is the compiler's: on a CPU, of the width of its vectors (LLVM may reassociate it from
optimization level 1 on).
"""

import functools
from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from jaxbandit.xla.platforms import by_platform

T = TypeVar("T")

_PARTS = 8
"""Of an axis, which are added side by side."""


def quotient(a: ArrayLike, b: ArrayLike) -> Array:
    """Returns a / b: float64 if any of them is an array of these, else float32."""
    kind = np.float64 if any(isinstance(x, Array) and x.dtype == np.float64 for x in (a, b)) else np.float32
    return _rounded(lax.div, *_unseen(*jnp.broadcast_arrays(*(jnp.asarray(x, kind) for x in (a, b)))))


def root(x: Array) -> Array:
    """Returns the square root."""
    return _rounded(lax.sqrt, x)


def _unseen(a: Array, b: Array) -> tuple[Array, Array]:
    """Returns the operands of a quotient such that XLA does not see what they are: it would multiply by the inverse of
    what is broadcast, and merge quotients of quotients. LLVM undoes this."""
    kind = np.uint64 if a.dtype == np.float64 else np.uint32

    def mixed(a: Array, b: Array) -> tuple[Array, Array]:
        x, y = (lax.bitcast_convert_type(each, kind) for each in (a, b))
        both = x ^ y
        return lax.bitcast_convert_type(both ^ y, a.dtype), lax.bitcast_convert_type(both ^ x, a.dtype)

    return by_bits(mixed, lambda a, b: (a, b), a, b) if kind is np.uint64 else mixed(a, b)


def by_bits(function: Callable[..., T], plain: Callable[..., T], *operands: Array) -> T:
    """Returns ``function`` of float64 numbers by their bits. A TPU, with two float32 in the place of a float64, has the
    ``plain`` one."""
    with jax.enable_x64(True):
        elsewhere = functools.partial(lax.platform_dependent, tpu=plain, default=function)
        found: T = by_platform(*operands, cpu=function, default=elsewhere)
        return found


def ordered_sum(x: Array, axis: int = 0) -> Array:
    """Returns the sum along an axis, in an order of its own, with vectors: an eighth of the axis at a time."""
    n, part = x.shape[axis], x.shape[axis] // _PARTS

    def cut(begin: int, end: int) -> Array:
        return lax.slice_in_dim(x, begin, end, axis=axis)

    if n == 0:
        return jnp.sum(x, axis=axis)
    if part < 2:
        return jnp.squeeze(functools.reduce(jnp.add, [cut(i, i + 1) for i in range(n)]), axis)
    whole = ordered_sum(functools.reduce(jnp.add, [cut(i * part, (i + 1) * part) for i in range(_PARTS)]), axis)
    return functools.reduce(jnp.add, [jnp.squeeze(cut(i, i + 1), axis) for i in range(_PARTS * part, n)], whole)


def _rounded(function: Callable[..., Array], *operands: Array) -> Array:
    if operands[0].dtype == np.float64:
        return function(*operands)
    wide = functools.partial(in_float64, function)
    elsewhere = functools.partial(lax.platform_dependent, cuda=wide, rocm=wide, default=function)
    found: Array = by_platform(*operands, cpu=function, default=elsewhere)
    return found


def in_float64(function: Callable[..., Array], *operands: Array) -> Array:
    """Returns ``function`` of float32 numbers as float64 has it, rounded to float32."""
    with jax.enable_x64(True):
        exact = function(*(lax.convert_element_type(x, np.float64) for x in operands))
        # XLA drops a conversion there and back, but not this; and two roundings must stay two.
        return lax.convert_element_type(lax.reduce_precision(exact, 8, 23), np.float32)
