"""Variates that take one word: uniform, Bernoulli, bounded integers, exponential, geometric, categorical.

Elementwise: arguments broadcast, and a result has their common shape. What can be decided on integers is, so that
a word decides the same on every device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from jaxbandit.errors import BadInput
from jaxbandit.random.stream import Stream, substream, words
from jaxbandit.xla.elementary import log1p, log_of_uniform
from jaxbandit.xla.entries import gathered
from jaxbandit.xla.exact import quotient
from jaxbandit.xla.fence import computed_once

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Float32, Int32, UInt32

LARGEST = 2**31 - 1
"""Counts are int32 and stop here."""

_UNROLLED = 32
"""As many thresholds are compared one by one (docs/xla-cpu.md)."""


def uniform(word: UInt32[Array, "*draws"]) -> Float32[Array, "*draws"]:
    """Draws a float32 that is uniform on the 2^23 numbers (k + 1/2) 2^-23, each of them exact: never 0 and never 1.

    The top 23 bits of the uint32 ``word`` decide.

    Example:
        >>> from jaxbandit import random
        >>> key = random.stream(0, 7)  # of seed 0, run 7
        >>> word, _ = random.words(key, 1, 0)
        >>> bool(0 < random.uniform(word) < 1)
        True
    """
    # A grid of (k + 1/2) 2^-24 would need 25 bits of mantissa, and its last point would round to 1.
    odd = (word >> jnp.uint32(8)) | jnp.uint32(1)
    on_grid: Array = odd.astype(jnp.int32).astype(jnp.float32) * jnp.float32(2**-24)
    return on_grid


def probability(p: ArrayLike) -> Array:
    """Returns ``p`` as float32, clipped to [0, 1]; what computed it and what uses it are compiled apart.

    Else a product that became p, or a p known at compile time, could enter later sums in another precision.
    """
    clipped: Array = lax.optimization_barrier(jnp.clip(jnp.asarray(p).astype(jnp.float32), 0, 1))
    return clipped


def bernoulli(word: UInt32[Array, " ..."], p: ArrayLike) -> Bool[Array, " ..."]:
    """Draws true with probability ``p`` (bool), by a comparison of integers, so the outcome has no rounding.

    Args:
        word: uint32, the randomness.
        p: uint32, in units of 2^-32; or a float, rounded to float32, then down to a multiple of 2^-32 (which a
            float32 from 2^-9 on is), where 0 and less is never and 1 and more is always.

    Example:
        >>> from jaxbandit import random
        >>> key = random.stream(0, 7)  # of seed 0, run 7
        >>> word, _ = random.words(key, 1, 0)
        >>> random.bernoulli(word, 0.3).dtype
        dtype('bool')
    """
    p = jnp.asarray(p)
    if p.dtype == jnp.uint32:
        return jnp.less(word, p)
    p = p.astype(jnp.float32)
    fixed = (jnp.clip(p, 0, 1 - 2**-24) * jnp.float32(2**32)).astype(jnp.uint32)
    return jnp.less(word, fixed) | (p >= 1)


def wide_product(
    a: UInt32[Array, " ..."], b: UInt32[Array, " ..."]
) -> tuple[UInt32[Array, " ..."], UInt32[Array, " ..."]]:
    """Returns the high and low word of the 64-bit product of two uint32 arrays, by halves: 64-bit types are off in
    JAX."""
    half, mask = jnp.uint32(16), jnp.uint32(0xFFFF)
    a_low, a_high, b_low, b_high = a & mask, a >> half, b & mask, b >> half
    middle = a_high * b_low + ((a_low * b_low) >> half)
    other = a_low * b_high + (middle & mask)
    return a_high * b_high + (middle >> half) + (other >> half), a * b


def _bound(bound: ArrayLike) -> tuple[Array, jnp.dtype]:
    bound = jnp.asarray(bound)
    return bound.astype(jnp.uint32), jnp.dtype(jnp.uint32 if bound.dtype == jnp.uint32 else jnp.int32)


def scale(word: UInt32[Array, " ..."], bound: ArrayLike) -> Int32[Array, " ..."] | UInt32[Array, " ..."]:
    """Maps one word to an integer in [0, ``bound``), where each value's probability is off by less than 2^-32.

    That is a relative error of up to ``bound`` / 2^32; ``integers`` has none. Returns uint32 for a uint32 bound,
    int32 for any other integer type. A bound of 0 gives 0.

    Example:
        >>> from jaxbandit import random
        >>> key = random.stream(0, 7)  # of seed 0, run 7
        >>> word, _ = random.words(key, 1, 0)
        >>> bool(0 <= random.scale(word, 6) < 6)
        True
    """
    limit, dtype = _bound(bound)
    return wide_product(word, limit)[0].astype(dtype)


def integers(
    key: Stream, purpose: ArrayLike, index: ArrayLike, bound: ArrayLike
) -> Int32[Array, " ..."] | UInt32[Array, " ..."]:
    """Draws an integer in [0, ``bound``), each with the same probability exactly.

    Lemire, "Fast random integer generation in an interval", ACM TOMACS 29 (2019). It takes the first word of ``key`` at
    (``purpose``, ``index``) and, with probability below ``bound`` / 2^32, more from the substream of that name.
    Returns uint32 for a uint32 bound (1 to 2^32 - 1), int32 for any other integer type (1 to 2^31 - 1).

    Example:
        >>> from jaxbandit import random
        >>> key = random.stream(0, 7)  # of seed 0, run 7
        >>> bool(0 <= random.integers(key, 1, 0, 6) < 6)
        True
    """
    limit, dtype = _bound(bound)
    word, limit = jnp.broadcast_arrays(words(key, purpose, index)[0], limit)

    def rejected(word: Array) -> Array:
        # The low half of the product: below 2^32 modulo the bound, a value would have one word too many.
        return word * limit < lax.rem(-limit, jnp.maximum(limit, jnp.uint32(1)))

    def again(state: tuple[Array, Array]) -> tuple[Array, Array]:
        attempt, word = state
        fresh = words(substream(key, purpose, index), 0, attempt)[0]
        return attempt + 1, jnp.where(rejected(word), fresh, word)

    _, word = lax.while_loop(lambda state: jnp.any(rejected(state[1])), again, (jnp.uint32(0), word))
    return wide_product(word, limit)[0].astype(dtype)


def below(
    key: Stream, purpose: ArrayLike, index: Int32[Array, " ..."], bound: Int32[Array, " ..."]
) -> Int32[Array, " ..."]:
    """Draws a whole number from 0 to bound - 1 (int32), each as likely as the others to within 2^-63.

    Both words of the address, as a fraction of 64 bits, times the bound: no rejection, so nothing that loops.
    """
    return _below(key.high, key.low, jnp.asarray(purpose), index, bound)


@computed_once
def _below(high: Array, low: Array, purpose: Array, index: Array, bound: Array) -> Array:
    first, second = words(Stream(high, low), purpose, index)
    size = bound.astype(jnp.uint32)
    top, middle = wide_product(first, size)
    carried = middle + wide_product(second, size)[0]
    return (top + (carried < middle).astype(jnp.uint32)).astype(jnp.int32)


def exponential(word: UInt32[Array, "*draws"]) -> Float32[Array, "*draws"]:
    """Draws an exponential variate with mean 1 (float32): the quantile at (``word`` + 1/2) / 2^32, to within a relative
    3e-7.

    It is relatively precise in both tails, from 1.2e-10 to 22.9; a logarithm of a float32 uniform would be
    coarse in one of them.

    Example:
        >>> from jaxbandit import random
        >>> key = random.stream(0, 7)  # of seed 0, run 7
        >>> word, _ = random.words(key, 1, 0)
        >>> bool(random.exponential(word) > 0)
        True
    """
    return -log_of_uniform(~word)


def saturated(x: Array) -> Array:
    """Returns the integer part of a float32 ``x`` >= 0 as int32, at most 2^31 - 1."""
    fits = x < jnp.float32(2**31)
    return jnp.where(fits, jnp.where(fits, x, 0).astype(jnp.int32), LARGEST)


def geometric(word: UInt32[Array, " ..."], p: ArrayLike) -> Int32[Array, " ..."]:
    """Draws the failures before the first success in trials of probability ``p`` (int32), at most 2^31 - 1.

    The integer part of an exponential variate over -log(1 - p). P(G >= g) is off by at most 2^-32, and its
    logarithm by a relative 5e-7: results beyond 2^24 lie on the grid of float32. ``p`` is taken as float32, clipped
    to [0, 1]; where it is 0 the result is 2^31 - 1. ``word`` is uint32.

    Example:
        >>> from jaxbandit import random
        >>> key = random.stream(0, 7)  # of seed 0, run 7
        >>> word, _ = random.words(key, 1, 0)
        >>> bool(random.geometric(word, 0.3) >= 0)
        True
    """
    # Not a negated 0 where p is 0.
    return saturated(quotient(exponential(word), jnp.abs(log1p(-probability(p)))))


def thresholds(weights: Float[np.ndarray, "*laws k"]) -> UInt32[np.ndarray, "*laws k-1"]:
    """Computes the cumulative thresholds of ``categorical``, on the host.

    Args:
        weights: shape (..., k), finite, at least 0, with a positive sum along the last axis.

    Returns uint32 of shape (..., k - 1). Cumulative probabilities are rounded to multiples of 2^-32 (the last
    multiple below 1 is not used), so a category's is within 1.5 x 2^-32 of weight / sum, and is 0 if its weight is.

    Example:
        >>> import numpy as np
        >>> from jaxbandit import random
        >>> random.thresholds(np.array([1.0, 2.0, 1.0])).dtype
        dtype('uint32')
    """
    weights = np.asarray(weights, np.float64)
    if weights.ndim == 0 or weights.shape[-1] == 0:
        raise BadInput("weights", weights.tolist(), "must be an array with at least one weight")
    if not (np.isfinite(weights).all() and (weights >= 0).all() and (weights > 0).any(-1).all()):
        raise BadInput("weights", weights.tolist(), "must be finite and at least 0, with a positive sum")
    with np.errstate(over="ignore"):
        sums = weights.cumsum(-1)
    finite = np.isfinite(sums[..., -1:])
    if not finite.all():  # the scale does not matter, but others would be rounded otherwise
        sums = (weights / np.where(finite, 1, weights.max(-1, keepdims=True))).cumsum(-1)
    below = np.rint(sums[..., :-1] / sums[..., -1:] * 2.0**32)
    # The word 2^32 - 1 counts as 2^32 - 2. So a threshold of 2^32 - 1 is never reached: it stands for 2^32.
    nearly = (below == 2.0**32 - 1) | ((below == 2.0**32) & (sums[..., :-1] < sums[..., -1:] * (1 - 2.0**-32)))
    return np.where(nearly, 2.0**32 - 2, np.minimum(below, 2.0**32 - 1)).astype(np.uint32)


def categorical(word: UInt32[Array, " ..."], thresholds: ArrayLike) -> Int32[Array, " ..."]:
    """Draws a category (int32) from ``thresholds`` (uint32, shape (..., k - 1), in order): the number of them that
    ``word`` is not below.

    ``word`` has the shape of the leading axes, or one that broadcasts with it. The cost is proportional to k, and to
    log k for one table of many categories.

    Example:
        >>> import numpy as np
        >>> from jaxbandit import random
        >>> key = random.stream(0, 7)  # of seed 0, run 7
        >>> word, _ = random.words(key, 1, 0)
        >>> bool(0 <= random.categorical(word, random.thresholds(np.array([1.0, 2.0, 1.0]))) < 3)
        True
    """
    table = jnp.asarray(thresholds)
    word = jnp.minimum(word, jnp.uint32(2**32 - 2))
    if table.shape[-1] <= _UNROLLED:
        none = jnp.zeros(jnp.broadcast_shapes(word.shape, table.shape[:-1]), jnp.int32)
        return sum(((word >= table[..., k]).astype(jnp.int32) for k in range(table.shape[-1])), none)
    if table.ndim > 1:
        return jnp.sum(word[..., None] >= table, axis=-1, dtype=jnp.int32)
    below, size = jnp.zeros(word.shape, jnp.int32), table.shape[0]
    for bit in reversed(range(size.bit_length())):  # by bisection, as thresholds are in order
        more = below + (1 << bit)
        below = jnp.where((more <= size) & (word >= gathered(table, jnp.minimum(more, size) - 1)), more, below)
    return below
