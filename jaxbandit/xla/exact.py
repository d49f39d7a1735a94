"""Quotients and roots of float32 numbers that are rounded alike on every device.

XLA compiles a float32 division or root for a GPU to an approximation (``div.full``, ``sqrt.approx``), and one of
float64 to the exact one. As float64 has more than twice the digits, its result rounded to float32 is the correctly
rounded one, which a CPU computes by itself.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from jaxbandit.xla.platforms import by_platform


def quotient(a: ArrayLike, b: ArrayLike) -> Array:
    """Returns a / b."""
    return _rounded(lax.div, *jnp.broadcast_arrays(*(jnp.asarray(x, np.float32) for x in (a, b))))


def root(x: Array) -> Array:
    """Returns the square root."""
    return _rounded(lax.sqrt, x)


def _rounded(function: Callable[..., Array], *operands: Array) -> Array:
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
