"""Log terms of intervals (``intervals.py``) as a function of T, tabulated on the host: they are smooth in log T and
slow to compute.

A row of Chebyshev coefficients covers an octave of T. It is for evaluations in float32: in float64 a rule computes its
log term itself.
"""

import functools
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxbandit.pytree import pytree
from jaxbandit.xla.formula import formula

_DEGREE, _OCTAVES = 8, 31


@pytree
@dataclass(frozen=True)
class LogTerms:
    """Holds a series for each octave of T: ``coefficients``, float32 of shape (octaves, degree + 1)."""

    coefficients: Array

    @formula
    def at(self, total: Array) -> Array:
        """Returns the log term after ``total`` pulls (int32, at least 1): float32."""
        # Within an octave of T, ``x`` goes from -1 to 1. The series is summed by Clenshaw's recursion.
        octave = 31 - jax.lax.clz(total)
        unit = jax.lax.bitcast_convert_type((jnp.int32(127 + 1) - octave) << 23, jnp.float32)
        row = jnp.asarray(self.coefficients)[octave]
        x = total.astype(jnp.float32) * unit - 3
        later, last = x * 0, x * 0
        for j in range(_DEGREE, 0, -1):
            later, last = (x + x) * later - last + row[j], later
        return x * later - last + row[0]


def tabulated(source: Any, n: int) -> LogTerms:
    """Tabulates the method ``log_term`` of an interval or of a rule, which computes in float64, for ``n`` arms."""

    def values(x: Any) -> Any:
        with jax.enable_x64(True):
            return np.asarray(_log_terms(source, n, np.exp2(np.arange(_OCTAVES)) * (x[:, None] + 3) / 2))

    return LogTerms(jnp.asarray(np.polynomial.chebyshev.chebinterpolate(values, _DEGREE).T, jnp.float32))


@functools.partial(jax.jit, static_argnums=1)
def _log_terms(source: Any, n: int, totals: Array) -> Array:
    found: Array = source.log_term(n, totals)
    return found
