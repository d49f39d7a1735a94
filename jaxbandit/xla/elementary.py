"""Logarithms, exponentials and cosines of float32 numbers, and logarithms of float64 ones, that are rounded alike in
every program, on every device.

A compiler has its own polynomials for them, and contracts products with sums, or not, depending on what surrounds them.
Where a float decides what is drawn, the same address would give another draw in another program. Here no product meets
a sum as it is (``pinned``).

The coefficients are minimax fits of the relative error, rounded to float32 (``benchmarks/elementary.py``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxbandit.xla.exact import by_bits, quotient

if TYPE_CHECKING:
    from jaxtyping import Float, Float32

_LOG_OF_2 = 0.693145751953125, 1.428606765330187e-06
"""In two parts: the first has 15 bits, so that its products with whole exponents are exact, and stay so when pinned."""
_ROOT_HALF = 0x3F3504F3
"""The bits of the root of 1/2, which is the least mantissa."""
_WIDE_LOG_OF_2 = 0.693147180369123816, 1.90821492927058770e-10
"""Likewise, for float64: the first has 32 bits."""
_WIDE_ROOT_HALF = 0x3FE6A09E667F3BCD
"""Likewise, of a float64."""
_NEAR = 0.29
"""Where |x| is less, log(1 + x) is computed from x itself."""
_LOG = 0.33333331, -0.25000820, 0.20001227, -0.16623357, 0.14201757, -0.13160183, 0.12761578, -0.076344974
"""log(1 + f) = f - f^2 / 2 + f^3 (_LOG[0] + _LOG[1] f + ...), within a relative 7e-9."""
_EXP = 0.49999997, 0.16666544, 0.041667201, 0.0083665801, 0.0013882510
"""exp(r) - 1 = r + r^2 (_EXP[0] + _EXP[1] r + ...), within a relative 2e-8."""
_SIN = 6.2831855, -41.341679, 81.602234, -76.574989, 39.710918
"""sin(2 pi y) = y (_SIN[0] + _SIN[1] y^2 + ...) up to a quarter, within a relative 5e-8."""
_LEAST, _MOST = -87.0, 88.0
"""From where to where ``exp`` is a normal number."""


def pinned(product: Array) -> Array:
    """Returns ``product`` (float32 or float64) without its last bit, so that no compiler contracts it with a sum into
    one rounding."""
    if product.dtype == np.float64:
        shortened: Array = by_bits(lambda x: _wide_float(_wide_bits(x) & ~np.uint64(1)), lambda x: x, product)
        return shortened
    return _float(_bits(product) & np.int32(-2))


def log(x: Array) -> Float[Array, " ..."]:
    """Computes the logarithm of a normal number > 0 (float32 or float64), within 3 units in the last place; that of +0
    in float32 is -88. Of any other number, NaN too, the result means nothing."""
    found: Array = by_bits(_wide_log, jnp.log, x) if x.dtype == np.float64 else _log(*_split(x))
    return found


def log1p(x: Array) -> Float32[Array, " ..."]:
    """Computes log(1 + ``x``) for x >= -1 (float32), within a relative 3e-7; where x is -1 it is -88. Of any other
    number, NaN too, the result means nothing."""
    near = jnp.abs(x) < _NEAR
    f, exponent = _split(1 + x)
    found: Array = _log(jnp.where(near, x, f), jnp.where(near, 0, exponent))
    return found


def log_of_uniform(word: Array) -> Float32[Array, " ..."]:
    """Computes log((``word`` + 1/2) / 2^32) for uint32 (float32), within a relative 3e-7 at both ends."""
    high = word >= jnp.uint32(2**31)
    # The lesser of the uniform number and 1 minus it: what a float32 tells apart.
    least = (jnp.minimum(word, ~word).astype(jnp.int32).astype(jnp.float32) + 0.5) * jnp.float32(2**-32)
    near = high & (least < _NEAR)
    f, exponent = _split(jnp.where(high, 1 - least, least))
    found: Array = _log(jnp.where(near, -least, f), jnp.where(near, 0, exponent))
    return found


def exp(x: Array) -> Float32[Array, " ..."]:
    """Computes the exponential (float32), within a relative 3e-7 where it is a normal number; beyond, that of the end
    is returned."""
    more, power = _exp(x)
    found: Array = (1 + more) * power
    return found


def expm1(x: Array) -> Float32[Array, " ..."]:
    """Computes exp(``x``) - 1 (float32), within a relative 3e-7 around 0 too; see ``exp``."""
    more, power = _exp(x)
    return jnp.where(power == 1, more, (1 + more) * power - 1)


def tanh(x: Array) -> Float32[Array, " ..."]:
    """Computes the hyperbolic tangent (float32), within a relative 4e-7."""
    less = expm1(-2 * jnp.abs(x))
    size = quotient(-less, less + 2)
    return jnp.where(x < 0, -size, size)


def cos_of_turn(turn: Array) -> Float32[Array, " ..."]:
    """Computes the cosine of ``turn`` whole turns, a multiple of 2^-24 below 1 (float32), within a relative 3e-7."""
    beyond_quarter = jnp.abs(turn - 0.5) - 0.25
    return beyond_quarter * _polynomial(pinned(beyond_quarter * beyond_quarter), _SIN)


@jax.jit
def _log(f: Array, exponent: Array) -> Array:
    """Computes log((1 + ``f``) 2^``exponent``), where f is above -0.3 and below 0.42."""
    square = pinned(f * f)
    small = f + (pinned(pinned(square * f) * _polynomial(f, _LOG)) - square * 0.5)
    high, low = (pinned(exponent.astype(jnp.float32) * part) for part in _LOG_OF_2)
    return high + (low + small)


@jax.jit
def _wide_log(x: Array) -> Array:
    """Computes the logarithm of float64 numbers."""
    bits = _wide_bits(x).astype(np.int64)
    exponent = (bits - _WIDE_ROOT_HALF) >> 52
    f = _wide_float((bits - (exponent << 52)).astype(np.uint64)) - 1
    # log(1 + f) = 2 artanh(s) with s = f / (2 + f), which is below 0.172: its series, of 11 terms.
    s = f / (2 + f)
    series = _polynomial(pinned(s * s), tuple(1 / odd for odd in range(3, 23, 2)))
    high, low = (pinned(exponent.astype(np.float64) * part) for part in _WIDE_LOG_OF_2)
    return high + (low + (2 * s + pinned(pinned(s * s) * pinned(2 * s * series))))


def _split(x: Array) -> tuple[Array, Array]:
    """Splits x > 0 into f and an exponent, x = (1 + f) 2^exponent."""
    exponent = (_bits(x) - _ROOT_HALF) >> 23
    return _float(_bits(x) - (exponent << 23)) - 1, exponent


@jax.jit
def _exp(x: Array) -> tuple[Array, Array]:
    """Computes r and a power of two with exp(``x``) = (1 + r) power."""
    x = jnp.clip(x, _LEAST, _MOST)
    doublings = jnp.floor(pinned(x * 1.442695) + 0.5)
    for part in _LOG_OF_2:
        x = x - pinned(doublings * part)
    power = _float((doublings.astype(jnp.int32) + 127) << 23)
    return x + pinned(pinned(x * x) * _polynomial(x, _EXP)), power


def _polynomial(x: Array, coefficients: tuple[float, ...]) -> Array:
    *others, last = coefficients
    value = jnp.full_like(x, last)
    for coefficient in reversed(others):
        value = coefficient + pinned(value * x)
    return value


def _wide_bits(x: Array) -> Array:
    return lax.bitcast_convert_type(x, np.uint64)


def _wide_float(bits: Array) -> Array:
    return lax.bitcast_convert_type(bits, np.float64)


def _bits(x: Array) -> Array:
    return lax.bitcast_convert_type(x, jnp.int32)


def _float(bits: Array) -> Array:
    return lax.bitcast_convert_type(bits, jnp.float32)
