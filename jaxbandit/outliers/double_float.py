"""Numbers of float64 in programs of float32: in these a rule decides.

What the host knows to more than float32 holds goes into a program as two of them. Decisions are in float64 under JAX's
context for it, as no global flag is changed. Their margins are 10^-14 and less, so what a compiler makes of roundings
decides nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxbandit.contract import brief

if TYPE_CHECKING:
    from jaxtyping import Float32, Float64

P = ParamSpec("P")
R = TypeVar("R")


def in_float64(function: Callable[P, R]) -> Callable[P, R]:
    """``function``, in which 64-bit types are allowed. Integers are to have their types named."""

    @functools.wraps(function)
    def inside(*args: P.args, **kwargs: P.kwargs) -> R:
        with jax.enable_x64(True):
            return function(*args, **kwargs)

    return inside


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class DoubleFloat:
    """``hi`` + ``lo``, |lo| at most half a unit in the last place of hi."""

    hi: Float32[Array, "*numbers"]
    lo: Float32[Array, "*numbers"]

    __repr__ = brief

    @classmethod
    def of(cls, value: float | np.ndarray) -> DoubleFloat:
        """From float64 on the host."""
        hi = np.asarray(value, np.float64).astype(np.float32)
        lo = (np.asarray(value, np.float64) - hi.astype(np.float64)).astype(np.float32)
        return cls(hi, lo)  # type: ignore[arg-type]

    def exact(self) -> float:
        """The number on the host, to 48 bits."""
        return float(self.hi) + float(self.lo)

    def to(self, dtype: Any) -> Array:
        """The number as float32 or, ``in_float64``, as float64."""
        return self.wide() if dtype == jnp.float64 else jnp.asarray(self.hi)

    def wide(self) -> Float64[Array, "*numbers"]:
        """The number to 48 bits: float64, for use ``in_float64``."""
        return jnp.asarray(self.hi).astype(jnp.float64) + jnp.asarray(self.lo).astype(jnp.float64)
