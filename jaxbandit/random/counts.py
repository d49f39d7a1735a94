"""The number of successes in n trials (binomial) and of failures before r successes (negative binomial).

Small means are inverted: one word, a chain of probabilities. Others go by Hörmann's transformed rejection
("The generation of binomial random variates", J. Stat. Comput. Simul. 46, 1993) with two changes that keep it right
up to 2^31 trials in float32. The proposal is a cell of 2^s integers, and bits of a word choose within the cell, so
no float has to tell large integers apart. The acceptance compares with Stirling's form of the probability, whose
terms are deviances from the mean: no large logarithms that cancel.

Where a float decides, no product is added to as it is (``pinned``): a compiler may contract a product and a sum, and
does so or not depending on what surrounds them. The same address must give the same count in every program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from jaxbandit.random.draws import LARGEST, exponential, probability, saturated, uniform, wide_product
from jaxbandit.random.stream import Stream, substream, words
from jaxbandit.xla.batch import any_lane
from jaxbandit.xla.elementary import exp, log1p, pinned
from jaxbandit.xla.exact import quotient, root
from jaxbandit.xla.fence import ENDLESS, patiently
from jaxbandit.xla.formula import formula

if TYPE_CHECKING:
    from jaxtyping import Int32

_INVERTED = 10.0
"""The mean from which on the rejection's hat is above the law: at most 0.996 of it in 4,000 random laws to 2^31."""
_FEW = 8
"""Up to this many exponentials are added for a gamma variate."""
_TERMS = 37
"""Terms of the inverted chain: with a mean of 10, less than 5e-11 lies beyond."""
_INVERSES = np.array([1 / max(k, 1) for k in range(_TERMS + 1)], np.float32)


def _bits(x: Array) -> Array:
    return lax.bitcast_convert_type(x, jnp.uint32)


def _float(bits: Array) -> Array:
    return lax.bitcast_convert_type(bits, jnp.float32)


def _halves(shift: Array) -> Array:
    """Returns 2^-shift as float32, for 0 <= shift < 127."""
    return _float((jnp.uint32(127) - shift) << jnp.uint32(23))


@formula
def _deviance(x: Array, mean: Array, excess: Array) -> Array:
    """Computes x log(x / mean) - excess where excess = x - mean (Loader, "Fast and accurate computation of binomial
    probabilities", 2000): precise when x is near the mean too. ``x`` >= 0, ``mean`` > 0."""
    v = excess / (x + mean)
    square = v * v
    series = jnp.float32(1 / 13)
    for odd in (11, 9, 7, 5, 3):
        series = 1 / odd + square * series
    near = excess * v + 2 * x * v * square * series
    far = x * jnp.log(jnp.maximum(x / mean, 1e-30)) - excess
    return jnp.where(jnp.abs(v) < 0.25, near, far)


@formula
def _stirling(y: Array) -> Array:
    """Computes log Gamma(y + 1/2) - (y log y - y + log(2 pi) / 2) for y >= 1/2, within 5e-8, by a continued fraction
    whose first coefficient is exact and whose others are fitted in the maximum norm."""
    third = 0.17502707 / y
    second = 0.22763125 / (y + third)
    first = 0.05818695 / (y + second)
    return -1 / 24 / (y + first)


def _inverted(todo: Array, word: Array, start: Array, ratio: Callable[[Array, Array], Array], mode: Array) -> Array:
    """Computes the quantile at ``word`` of a law with P(0) = ``start`` and P(k) = P(k - 1) ``ratio``(k, 1 / k), where
    to do.

    Probabilities are multiplied as floats, then added as integers in units of 2^-30. What their rounding leaves
    over goes to the mode: at the end of the chain it would be an outlier.
    """

    def turn(number: Array, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        k, (term, rest, count) = number + 1, state
        rest = rest - term.astype(jnp.int32)
        return term * ratio(k, jnp.asarray(_INVERSES)[k]), rest, count + (rest >= 0).astype(jnp.int32)

    rest = jnp.where(todo, (word >> jnp.uint32(2)).astype(jnp.int32), -1)
    first = start * jnp.float32(2**30), rest, jnp.zeros_like(rest)
    *_, count = patiently(_TERMS, lambda _, state: any_lane(jnp.any(state[1] >= 0)), turn, first, turns=8)
    return jnp.where(count < _TERMS, count, mode)


def _until_accepted(todo: Array, start: Array, attempt: Callable[[Array], tuple[Array, Array]]) -> Array:
    """Returns for each element to do the first value that ``attempt``(0), ``attempt``(1), ... accepts; else
    ``start``."""

    def again(number: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        todo, value = state
        proposed, accepted = attempt(number.astype(jnp.uint32))
        return todo & ~accepted, jnp.where(todo & accepted, proposed, value)

    return patiently(ENDLESS, lambda _, state: any_lane(jnp.any(state[0])), again, (todo, start), turns=4)[1]


def _rejected(
    key: Stream, todo: Array, part: Array, lean: Array, spread: Array, weight: Callable[[Array], Array]
) -> Array:
    """Draws an integer offset d (int32) with a probability proportional to ``weight``(d), by transformed rejection.

    Args:
        key: attempts take the words of purpose 0.
        todo: where to draw; elsewhere the result is 0.
        part: in [0, 1]; the mean of the law, measured from d = 0, is ``part`` - ``lean``.
        lean: the probability of a success, at most 1/2; 0 for a Poisson law.
        spread: the standard deviation, at least 3.
        weight: 1 near the mode, to within the hat's margin.
    """
    # Cells such that the standard deviation is less than 64 of them.
    shift = jnp.maximum(_bits(spread) >> jnp.uint32(23), jnp.uint32(132)) - jnp.uint32(132)
    unit = _halves(shift)
    sd = spread * unit
    b = 1.15 + pinned(2.53 * sd)
    a = pinned(0.0248 * b) + pinned(0.01 * lean) - 0.0873
    centre = (part + (0.5 - lean)) * unit
    # Hörmann has 2.83: cells make the law coarser than his by up to 1% where it is steep.
    height = (2.87 + quotient(5.1, b)) * sd
    bound = unit * jnp.float32(2**30)

    def attempt(number: Array) -> tuple[Array, Array]:
        first, second = words(key, 0, number)
        u = first.astype(jnp.int32).astype(jnp.float32) * jnp.float32(2**-32)
        edge = jnp.maximum(0.5 - jnp.abs(u), 2**-26)
        cell = jnp.floor(jnp.clip(pinned((quotient(2 * a, edge) + b) * u) + centre, -bound, bound)).astype(jnp.int32)
        within = second & ((jnp.uint32(1) << shift) - jnp.uint32(1))
        offset = (cell << shift.astype(jnp.int32)) + within.astype(jnp.int32)
        # The low bits of the second word chose within the cell; the high ones decide here.
        v = second.astype(jnp.float32) * jnp.float32(2**-32)
        return offset, quotient(v * height, quotient(a, edge * edge) + b) <= weight(offset)

    return _until_accepted(todo, jnp.zeros(todo.shape, jnp.int32), attempt)


def binomial(key: Stream, purpose: ArrayLike, index: ArrayLike, n: ArrayLike, p: ArrayLike) -> Int32[Array, " ..."]:
    """Draws the successes in ``n`` trials of probability ``p`` (int32).

    Args:
        key, purpose, index: the address. The draw owns the words there and the substream of that name.
        n: int32, 0 to 2^31 - 1; less is taken as 0.
        p: float, rounded to float32 and clipped to [0, 1].

    The law is that of the float32 ``p``, whatever ``n``, up to the rounding of probabilities. Where the mean of the
    rarer outcome is below 10: within a relative 5e-6 plus 2^-30. Else: within a relative 2e-5 out to 5 standard
    deviations, single integers within a further 2e-5 (the grid of the proposal).

    Example:
        >>> from jaxbandit import random
        >>> key = random.stream(0, 7)  # of seed 0, run 7
        >>> bool(0 <= random.binomial(key, 1, 0, 10, 0.3) <= 10)
        True
    """
    n = jnp.maximum(jnp.asarray(n).astype(jnp.int32), 0)
    word, n, p = jnp.broadcast_arrays(words(key, purpose, index)[0], n, probability(p))
    rare = jnp.minimum(p, 1 - p)

    # The mean of n + 1 trials as integer and part, from the exact product with the mantissa of p.
    mantissa = ((_bits(rare) & jnp.uint32(0x7FFFFF)) | jnp.uint32(0x800000)) << jnp.uint32(8)
    shift = jnp.minimum(jnp.uint32(126) - (_bits(rare) >> jnp.uint32(23)), jnp.uint32(31))
    high, low = wide_product(n.astype(jnp.uint32) + jnp.uint32(1), mantissa)
    whole = (high >> shift).astype(jnp.int32)
    rest = (high & ((jnp.uint32(1) << shift) - jnp.uint32(1))).astype(jnp.float32)
    part = (rest + low.astype(jnp.float32) * jnp.float32(2**-32)) * _halves(shift)
    mean = whole.astype(jnp.float32) + part
    other = (n - whole).astype(jnp.float32) + (1 - part)

    trials = n.astype(jnp.float32)
    odds = quotient(rare, 1 - rare)
    start = exp(pinned(trials * log1p(-rare)))
    todo = trials * rare >= _INVERTED
    small = _inverted(
        ~todo, word, start, lambda k, part: odds * part * jnp.maximum(n - (k - 1), 0).astype(jnp.float32), whole
    )

    def weight(offset: Array) -> Array:
        excess = offset.astype(jnp.float32) + (0.5 - part)
        inside = (offset >= -whole) & (offset <= n - whole)
        count = jnp.where(inside, whole + offset, 0)
        y, z = count.astype(jnp.float32) + 0.5, (n - count).astype(jnp.float32) + 0.5
        exponent = _deviance(y, mean, excess) + _deviance(z, other, -excess) + (_stirling(y) + _stirling(z))
        return jnp.where(inside, exp(-exponent), 0)

    spread = root(mean * (1 - rare))
    large = whole + _rejected(substream(key, purpose, index), todo, part, rare, spread, weight)
    count = jnp.where(todo, large, small)
    return jnp.where(p > 0.5, n - count, count)


def _poisson(key: Stream, word: Array, mean: Array) -> Array:
    """Draws a Poisson number of ``mean`` (float32, below 2^31), at most 2^31 - 1: the binomial's limit, term by
    term."""
    whole = jnp.floor(mean).astype(jnp.int32)
    part = mean - jnp.floor(mean)
    todo = mean >= _INVERTED
    small = _inverted(~todo, word, exp(-mean), lambda _, part: mean * part, whole)

    def weight(offset: Array) -> Array:
        excess = offset.astype(jnp.float32) + (0.5 - part)
        inside = offset >= -whole
        y = jnp.where(inside, whole.astype(jnp.float32) + offset.astype(jnp.float32), 0) + 0.5
        return jnp.where(inside, exp(-(_deviance(y, mean, excess) + _stirling(y))), 0)

    offset = _rejected(key, todo, part, jnp.zeros_like(mean), root(mean), weight)
    return jnp.where(todo, whole + jnp.minimum(offset, LARGEST - whole), small)


def _gamma(key: Stream, shape: Array) -> Array:
    """Draws a gamma variate (float32) of integer ``shape`` >= 1 (as float32) and scale 1.

    A sum of exponentials where they are few; else Best's algorithm XG ("A simple algorithm for the computer generation
    of random samples from a Student's t or symmetric beta distribution", COMPSTAT 1978).
    """
    each = [exponential(word) for pair in range(_FEW // 2) for word in words(key, 2, pair)]
    total = sum((jnp.where(shape > i, x, 0) for i, x in enumerate(each)), jnp.zeros_like(shape))
    peak = shape - 1

    def attempt(number: Array) -> tuple[Array, Array]:
        first, second = words(key, 1, number)
        u, v = uniform(first), uniform(second)
        w = u * (1 - u)
        step = pinned(root(quotient(pinned(3 * shape) - 0.75, w)) * (u - 0.5))
        x = peak + step
        safe = jnp.maximum(x, jnp.float32(1e-30))
        return x, (x > 0) & (64 * w * w * w * v * v <= exp(-2 * _deviance(peak, safe, -step)))

    return _until_accepted(shape > _FEW, total, attempt)


def negative_binomial(
    key: Stream, purpose: ArrayLike, index: ArrayLike, successes: ArrayLike, p: ArrayLike
) -> Int32[Array, " ..."]:
    """Draws the failures before success number ``successes`` in trials of probability ``p`` (int32), at most 2^31 - 1.

    A Poisson variate whose mean is a gamma variate times (1 - p) / p; that mixture is the law exactly, for few
    successes and for many. Only floats round: the gamma variate within a relative 1e-6, the Poisson's
    probabilities as the binomial's.

    Args:
        key, purpose, index: the address. The draw owns the words there and the substream of that name.
        successes: int32; where 0 or less, the result is 0.
        p: float, rounded to float32 and clipped to [0, 1]; where 0, the result is 2^31 - 1.

    Example:
        >>> from jaxbandit import random
        >>> key = random.stream(0, 7)  # of seed 0, run 7
        >>> bool(random.negative_binomial(key, 1, 0, 2, 0.3) >= 0)
        True
    """
    r = jnp.asarray(successes).astype(jnp.int32)
    word, r, p = jnp.broadcast_arrays(words(key, purpose, index)[0], r, probability(p))
    own = substream(key, purpose, index)
    mean = pinned(_gamma(own, jnp.maximum(r, 1).astype(jnp.float32)) * quotient(1 - p, p))
    # Just below 2^31, the Poisson law saturates by itself.
    count = _poisson(own, word, jnp.minimum(mean, jnp.float32(2**31 - 128)))
    return jnp.where(r > 0, jnp.where(mean < jnp.float32(2**31), count, saturated(mean)), 0)
