"""Numbers of float64 in programs of float32. A rule makes its decisions in float64.

A number that float32 does not hold enters a program as two of them. Decisions are computed under JAX's context for
float64, so that no global flag changes. Rounding moves a number by 10^-14 or less there, which decides nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxbandit.describe import brief
from jaxbandit.pytree import pytree

if TYPE_CHECKING:
    from jaxtyping import Bool, Float32, Float64, Int32

P = ParamSpec("P")
R = TypeVar("R")


def in_float64(function: Callable[P, R]) -> Callable[P, R]:
    """Returns ``function`` as one in which 64-bit types are allowed. It has to name the types of its integers."""

    @functools.wraps(function)
    def inside(*args: P.args, **kwargs: P.kwargs) -> R:
        with jax.enable_x64(True):
            return function(*args, **kwargs)

    return inside


@pytree
@dataclass(frozen=True)
class DoubleFloat:
    """Holds a number as the sum of ``hi`` and ``lo``, where ``lo`` is what rounding to ``hi`` left over."""

    hi: Float32[Array, "*numbers"]
    lo: Float32[Array, "*numbers"]

    __repr__ = brief

    @classmethod
    def of(cls, value: float | np.ndarray) -> DoubleFloat:
        """Splits a float64 number of the host, or an array of them."""
        hi = np.asarray(value, np.float64).astype(np.float32)
        lo = (np.asarray(value, np.float64) - hi.astype(np.float64)).astype(np.float32)
        return cls(hi, lo)  # type: ignore[arg-type]

    def exact(self) -> float:
        """Returns the number on the host, exact to 48 bits."""
        return float(self.hi) + float(self.lo)

    def to(self, dtype: Any) -> Array:
        """Returns the number as float32 or, within ``in_float64``, as float64."""
        return self.wide() if dtype == jnp.float64 else jnp.asarray(self.hi)

    def wide(self) -> Float64[Array, "*numbers"]:
        """Returns the number as float64, exact to 48 bits, for use within ``in_float64``."""
        return jnp.asarray(self.hi).astype(jnp.float64) + jnp.asarray(self.lo).astype(jnp.float64)


def highest_in_float64(x: Float64[Array, " n"], among: Bool[Array, " n"]) -> Int32[Array, ""]:
    """Returns where in ``x`` the largest number stands, of those that ``among`` says to compare: the first place of
    equal numbers, and the last place of all where there is nothing to compare.

    It is for use within ``in_float64``, where ``jnp.argmax`` fails (docs/outliers.md).
    """

    def larger(one: tuple[Array, Array], other: tuple[Array, Array]) -> tuple[Array, Array]:
        mine = (one[0] > other[0]) | ((one[0] == other[0]) & (one[1] < other[1]))
        return jnp.where(mine, one[0], other[0]), jnp.where(mine, one[1], other[1])

    places = jnp.arange(x.shape[0], dtype=jnp.int32)
    none = jnp.float64(-jnp.inf), jnp.int32(x.shape[0] - 1)
    place: Array = lax.reduce((jnp.where(among, x, -jnp.inf), places), none, larger, (0,))[1]
    return place
