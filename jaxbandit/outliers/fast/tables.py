"""Log terms as a function of T, tabulated on the host: they are smooth in log T, and costly to compute.

A row of Chebyshev coefficients is an octave of T. It is for float32 alone: the rule itself computes what it needs.
"""

import functools
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

_DEGREE, _OCTAVES = 14, 31


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Table:
    """``coefficients``: float32, shape (octaves, degree + 1)."""

    coefficients: Array

    def at(self, total: Array) -> Array:
        """The log term after ``total`` pulls (int32, at least 1): float32."""
        octave = 31 - jax.lax.clz(total)
        unit = jax.lax.bitcast_convert_type((jnp.int32(127 + 1) - octave) << 23, jnp.float32)
        row = jnp.asarray(self.coefficients)[octave]
        x = total.astype(jnp.float32) * unit - 3
        later, last = x * 0, x * 0
        for j in range(_DEGREE, 0, -1):
            later, last = (x + x) * later - last + row[j], later
        return x * later - last + row[0]


def tabulated(of: Any, n: int) -> Table:
    """The table of ``of.log_term`` for ``n`` arms, which computes in float64."""

    def values(x: Any) -> Any:
        with jax.enable_x64(True):
            return np.asarray(_log_terms(of, n, np.exp2(np.arange(_OCTAVES)) * (x[:, None] + 3) / 2))

    return Table(jnp.asarray(np.polynomial.chebyshev.chebinterpolate(values, _DEGREE).T, jnp.float32))


@functools.partial(jax.jit, static_argnums=1)
def _log_terms(of: Any, n: int, totals: Array) -> Array:
    found: Array = of.log_term(n, totals)
    return found
