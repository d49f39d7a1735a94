"""How many new entities the next answers will bring, from how often entities were seen so far.

A sample is its frequency counts: f_i entities were seen i times, n = sum i f_i answers in all, D = sum f_i distinct
entities. Each estimator takes them as an array (..., F) and gives the expected number of entities not seen before
among m further answers, for all leading axes at once.

- Good-Turing (Good, Biometrika 40, 1953): m f1 / n.
- Chao92 (Chao and Lee, JASA 87, 1992) gives the number of entities, N, and so f0 = N - D unseen ones; the formula of
  Shen, Chao and Lin (Ecology 84, 2003) makes it a gain.
- Hwang and Shen (Biometrics 66, 2010): f0 = K f1 / n, where K is the value at 0 of a curve b0 exp(b1 i^b2) through the
  ratios (n - i) f_i / ((i + 1) f_(i+1)).
- NewRegr (Rekatsinas, Deshpande and Parameswaran, CrowdGather and CRUX): from K and the K' of n + m answers.

Where an estimator is undefined, its limit is meant. f1 = n, or no K: m f1 / n. f1 = 0: 0, as all of the mass was seen.
No answers (n = 0): 0 as well; what an unseen node may bring is a matter for the policy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

if TYPE_CHECKING:
    from jaxtyping import Float32

B2 = tuple(2.0 ** (j / 8) for j in range(-8, 9))
"""The exponents b2 that are tried: 1/2 to 2. Bounded by 0 alone, K has no finite estimate."""

MOST_LOG_K = 60.0
"""K is at most e^60: products of it stay finite in float32, and gains no longer depend on it."""


class Past(NamedTuple):
    """Former pairs (n, K) of a node, in any order; n = 0 where there is no pair."""

    n: Float32[Array, "... pairs"]
    k: Float32[Array, "... pairs"]


class Totals(NamedTuple):
    """Of a sample, float32: answers ``n``, ``distinct`` entities, the first two frequency counts, sum i (i - 1) f_i."""

    n: Array
    distinct: Array
    f1: Array
    f2: Array
    pairs: Array


def _sizes(f: Array, sizes: Array | None) -> Array:
    return jnp.arange(1, f.shape[-1] + 1, dtype=jnp.int32) if sizes is None else sizes


def totals(f: Array, sizes: Array | None = None) -> Totals:
    """Computes the totals of frequency counts; see ``chao92_shen`` for the arguments."""
    i = _sizes(f, sizes)
    if jnp.issubdtype(f.dtype, jnp.integer):
        f = f.astype(jnp.int32)
    else:
        i = i.astype(f.dtype)
    some = [jnp.sum(f * i, -1), jnp.sum(f, -1), f[..., 0], f[..., 1], jnp.sum(f * (i * (i - 1)), -1)]
    return Totals(*(each.astype(jnp.float32) for each in some))


def _safe(denominator: Array) -> Array:
    return jnp.where(denominator > 0, denominator, 1)


def hit(chance: Array, m: ArrayLike) -> Array:
    """Computes 1 - (1 - chance)^m, by squaring and without a difference: precise however small ``chance`` is.

    Args:
        chance: float32 in [0, 1].
        m: whole numbers of at least 0, broadcast with it; below 2^16 where they are not known when compiling.
    """
    try:
        bits = int(np.max(np.asarray(m))).bit_length()
    except TypeError:
        bits = 16
    m = jnp.asarray(m, jnp.int32)
    found = jnp.zeros(jnp.broadcast_shapes(chance.shape, m.shape), jnp.float32)
    for bit in reversed(range(bits)):
        found = found * (2 - found)
        found = jnp.where((m >> bit) & 1 == 1, found + chance * (1 - found), found)
    return found


def shen(f0: ArrayLike, unseen_mass: ArrayLike, m: ArrayLike) -> Array:
    """Computes f0 (1 - (1 - unseen_mass / f0)^m), the gain where f0 unseen entities have equal shares of the mass.

    float32, of the arguments' common shape. An infinite f0 gives the limit, m unseen_mass; a mass above f0 gives f0.
    """
    f0, mass = jnp.asarray(f0, jnp.float32), jnp.asarray(unseen_mass, jnp.float32)
    finite = jnp.isfinite(f0)
    some = jnp.where(finite & (f0 > 0), f0, 1)
    gain = jnp.where(finite, some * hit(jnp.clip(mass / some, 0, 1), m), jnp.asarray(m, jnp.float32) * mass)
    return jnp.where((f0 > 0) & (mass > 0), gain, 0)


def _mass(t: Totals) -> Array:
    return t.f1 / _safe(t.n)


def good_turing_of(t: Totals, m: ArrayLike) -> Array:
    """Computes the gain of ``good_turing`` from the totals of a sample."""
    return jnp.asarray(m, jnp.float32) * t.f1 / _safe(t.n)


def good_turing(f: Array, m: ArrayLike, sizes: Array | None = None) -> Array:
    """Computes the gain as m f1 / n. See ``chao92_shen`` for the arguments."""
    return good_turing_of(totals(f, sizes), m)


def _chao92_unseen(t: Totals) -> Array:
    """f0 = N - D, without the difference: with C = 1 - f1/n, D/C - D = D f1/(n - f1)."""
    seen = t.n - t.f1
    spread = jnp.maximum(t.distinct * t.pairs / _safe(seen * (t.n - 1)) - 1, 0)
    return jnp.where(seen > 0, (t.distinct + t.n * spread) * t.f1 / _safe(seen), jnp.where(t.f1 > 0, jnp.inf, 0))


def chao92(f: Array, sizes: Array | None = None) -> Array:
    """Estimates N, the number of entities, with gamma^2 from D/C (Chao and Lee, 2.12 and 2.13); infinite if f1 = n.

    float32 of shape (...). See ``chao92_shen`` for the arguments.
    """
    t = totals(f, sizes)
    return t.distinct + _chao92_unseen(t)


def chao92_shen_of(t: Totals, m: ArrayLike) -> Array:
    """Computes the gain of ``chao92_shen`` from the totals of a sample."""
    return shen(_chao92_unseen(t), _mass(t), m)


def chao92_shen(f: Array, m: ArrayLike, sizes: Array | None = None) -> Array:
    """Computes the gain by Shen's formula, with f0 of Chao92.

    Args:
        f: f_1 ... f_F, shape (..., F), F at least 2; whole numbers or floats.
        m: further answers, whole numbers from 0, broadcast with the leading axes.
        sizes: int32 (F,), the i that each column is of, where it is not 1 ... F; the first two are 1 and 2, and all
            are different.

    Returns:
        float32, the expected number of new entities, at most m.
    """
    return chao92_shen_of(totals(f, sizes), m)


class Curve(NamedTuple):
    """The logarithm of K, float32, and whether there is a K (bool)."""

    log_k: Array
    known: Array


def hwang_shen_k(f: Array, sizes: Array | None = None) -> Curve:
    """Fits K = n f0 / f1 = b0 of y_i = b0 exp(b1 i^b2), where y_i = (n - i) f_i / ((i + 1) f_(i+1)) and b1 <= 0.

    For each b2 of ``B2`` a line is fitted to log y_i against i^b2, over all i with f_i > 0 and f_(i+1) > 0; the b2 with
    the least sum of squares is taken, the first of equal ones. A line that rises is replaced by its limit b1 = 0. Fewer
    than three points do not determine b2: then b2 = 1. There is no K where f1 = n, f1 = 0 or f2 = 0.

    See ``chao92_shen`` for the arguments.
    """
    i = _sizes(f, sizes)
    t = totals(f, sizes)
    counts = f.astype(jnp.float32)
    if sizes is None:
        following = jnp.concatenate([counts[..., 1:], jnp.zeros_like(counts[..., :1])], -1)
    else:
        following = counts @ (i[:, None] == i[None, :] + 1).astype(jnp.float32)
    known = (t.f1 > 0) & (t.f2 > 0) & (t.f1 < t.n)
    size = i.astype(jnp.float32)
    point = (counts > 0) & (following > 0) & known[..., None]
    above = jnp.where(point, (t.n[..., None] - size) * counts, 1)
    z = jnp.log(above / jnp.where(point, (size + 1) * following, 1))
    weight = point.astype(jnp.float32)
    total = jnp.sum(weight, -1)
    mean = jnp.sum(weight * z, -1) / _safe(total)
    off = weight * (z - mean[..., None])
    powers = size ** jnp.array(B2, jnp.float32)[:, None]

    def fit(number: Array, best: tuple[Array, Array]) -> tuple[Array, Array]:
        log_k, least = best
        mean_x = jnp.sum(weight * powers[number], -1) / _safe(total)
        dx = weight * (powers[number] - mean_x[..., None])
        slope = jnp.minimum(jnp.sum(dx * off, -1) / _safe(jnp.sum(dx * dx, -1)), 0)
        error = jnp.sum((off - slope[..., None] * dx) ** 2, -1)
        better = (error < least) & ((total >= 3) | (number == B2.index(1.0)))
        return jnp.where(better, mean - slope * mean_x, log_k), jnp.where(better, error, least)

    log_k, _ = lax.fori_loop(0, len(B2), fit, (jnp.zeros_like(mean), jnp.full_like(mean, jnp.inf)))
    return Curve(jnp.minimum(log_k, MOST_LOG_K), known)


def hwang_shen(f: Array, m: ArrayLike, sizes: Array | None = None) -> Array:
    """Computes the gain by Shen's formula, with f0 = K f1 / n. See ``chao92_shen`` for the arguments."""
    t, curve = totals(f, sizes), hwang_shen_k(f, sizes)
    mass = _mass(t)
    return shen(jnp.where(curve.known, jnp.exp(curve.log_k) * mass, jnp.inf), mass, m)


LOGISTIC_RATES = tuple(float(j) for j in range(-2, 6))
"""First values tried for log2 of g times the span of n."""
LOGISTIC_MIDPOINTS = tuple(j / 4 for j in range(-4, 9))
"""First values tried for d, in spans of n from the smallest n."""
LOGISTIC_REFINEMENTS = 4


class Logistic(NamedTuple):
    """K(x) = a / (1 + exp(-rate (z - midpoint))), z = (x - start) / span; float32. ``known``: whether there is one."""

    a: Array
    rate: Array
    midpoint: Array
    start: Array
    span: Array
    known: Array

    def at(self, x: Array) -> Array:
        """Evaluates the curve K(x), at numbers of answers ``x``."""
        z = self.rate * ((x - self.start) / self.span - self.midpoint)
        return self.a / (1 + jnp.exp(-jnp.maximum(z, -80)))


def logistic_fit(past: Past) -> Logistic:
    """Fits the logistic of least squares to the pairs, a > 0 and rate > 0; there is none below three different n.

    A search that always ends the same: on a grid of (log2 rate, midpoint) a is the exact least-squares factor, and
    then the best point moves among its eight neighbours at half the step, a quarter, and so on, within the grid.
    """
    there = past.n > 0
    n, k = past.n, jnp.where(there, past.k, 0)
    start = jnp.min(jnp.where(there, n, jnp.inf), -1)
    span = jnp.max(n, -1) - jnp.where(jnp.isfinite(start), start, 0)
    different = jnp.sum(there & (n != jnp.concatenate([jnp.zeros_like(n[..., :1]), n[..., :-1]], -1)), -1)
    known = different >= 3
    start, span = jnp.where(known, start, 0), jnp.where(known, _safe(span), 1)
    scale = jnp.maximum(jnp.max(k, -1), 1e-30)
    y = k / scale[..., None]
    x = (n - start[..., None]) / span[..., None]

    def evaluate(rate: Array, midpoint: Array) -> tuple[Array, Array]:
        steep = jnp.exp2(rate)[..., None]
        h = jnp.where(there, 1 / (1 + jnp.exp(jnp.minimum(-steep * (x - midpoint[..., None]), 80))), 0)
        a = jnp.sum(y * h, -1) / jnp.maximum(jnp.sum(h * h, -1), 1e-30)
        return jnp.sum((y - a[..., None] * h) ** 2, -1), a

    least = jnp.full(start.shape, jnp.inf, jnp.float32)
    best: tuple[Array, ...] = (least, *[jnp.zeros_like(least)] * 3)

    def tried(best: tuple[Array, ...], rate: Array, midpoint: Array) -> tuple[Array, ...]:
        error, a = evaluate(rate, midpoint)
        better = error < best[0]
        return tuple(jnp.where(better, new, old) for new, old in zip((error, a, rate, midpoint), best, strict=True))

    grid = jnp.array([(r, d) for r in LOGISTIC_RATES for d in LOGISTIC_MIDPOINTS], jnp.float32)
    around = jnp.array([(up, right) for up in (-1, 0, 1) for right in (-1, 0, 1)], jnp.float32)

    def on_grid(number: Array, best: tuple[Array, ...]) -> tuple[Array, ...]:
        return tried(best, *(jnp.full_like(least, each) for each in grid[number]))

    def refined(level: Array, best: tuple[Array, ...]) -> tuple[Array, ...]:
        _, _, rate, midpoint = best
        step = jnp.exp2(-(level + 1).astype(jnp.float32))

        def beside(number: Array, best: tuple[Array, ...]) -> tuple[Array, ...]:
            up, right = around[number] * step
            return tried(
                best,
                jnp.clip(rate + up, LOGISTIC_RATES[0], LOGISTIC_RATES[-1]),
                jnp.clip(midpoint + right / 4, LOGISTIC_MIDPOINTS[0], LOGISTIC_MIDPOINTS[-1]),
            )

        moved: tuple[Array, ...] = lax.fori_loop(0, len(around), beside, best)
        return moved

    best = lax.fori_loop(0, len(grid), on_grid, best)
    best = lax.fori_loop(0, LOGISTIC_REFINEMENTS, refined, best)
    _, a, rate, midpoint = best
    return Logistic(a * scale, jnp.exp2(rate), midpoint, start, span, known)


def new_regr(f: Array, m: ArrayLike, sizes: Array | None = None, curve: Logistic | None = None) -> Array:
    """Computes [K f1/n - K' f1 (1 - p1)^m/(n + m)] / (1 + K'/(n + m)), p1 = 2 f2/(n f1), clamped to [0, m].

    ``curve`` (of the leading axes' shape) is read at n + m for K'; without one, or where there are too few pairs,
    K' = K. See ``chao92_shen`` for the other arguments.
    """
    t, k = totals(f, sizes), hwang_shen_k(f, sizes)
    many = jnp.asarray(m, jnp.float32)
    ahead = t.n + many
    found = hit(jnp.where(k.known, 2 * t.f2 / _safe(t.n * t.f1), 0), m)
    inverse = jnp.exp(-k.log_k)
    growth = jnp.ones_like(ahead)
    if curve is not None:
        growth = jnp.where(curve.known, curve.at(ahead) * inverse, growth)
    # The difference of the two terms with K taken out: what is left cancels only where K' is not K.
    gain = t.f1 * (many / _safe(t.n) + found - (growth - 1) * (1 - found)) / _safe(ahead * inverse + growth)
    return jnp.where(k.known, jnp.clip(gain, 0, many), many * _mass(t))


_TURNS = 8
"""Newton steps of ``clocks``: they come from below and double the precise digits."""


def clocks(f: Array, m: ArrayLike, sizes: Array | None = None) -> Array:
    """Estimates the new entities among the next m *distinct* answers: answers of one query never repeat each other.

    The others take answers one by one, so that one popular entity may come twice. Here each entity has a clock, and the
    first m to ring are the answer. An entity seen i times rings at rate C i / n, C = 1 - f1/n, and Chao92's f0 unseen
    ones share the rate f1/n. Up to the time T when m are expected to have rung, f0 (1 - exp(-T f1/(n f0))) unseen ones
    have: more than Shen's formula has, as T is above m. Not in the paper.

    See ``chao92_shen`` for the arguments.
    """
    i, t = _sizes(f, sizes).astype(jnp.float32), totals(f, sizes)
    some, many = f.astype(jnp.float32), jnp.asarray(m, jnp.float32)
    mass, f0 = _mass(t), _chao92_unseen(t)
    rate = i * ((1 - mass) / _safe(t.n))[..., None]
    finite = jnp.isfinite(f0)
    room = jnp.where(finite & (f0 > 0), f0, 1)

    def unseen(time: Array) -> Array:
        return jnp.where(finite, -room * jnp.expm1(-time * mass / room), time * mass)

    def further(_: Array, time: Array) -> Array:
        silent = some * jnp.exp(-rate * time[..., None])
        short = many - jnp.sum(some - silent, -1) - unseen(time)
        slope = jnp.sum(rate * silent, -1) + mass * jnp.where(finite, jnp.exp(-time * mass / room), 1)
        step = jnp.maximum(short, 0) / jnp.maximum(slope, jnp.float32(1e-20))
        return jnp.minimum(time + step, jnp.float32(1e6))

    start = jnp.broadcast_to(many, jnp.broadcast_shapes(many.shape, mass.shape))
    gain = jnp.minimum(unseen(lax.fori_loop(0, _TURNS, further, start)), many)
    gain = jnp.where(t.distinct + f0 <= many, f0, gain)
    return jnp.where((f0 > 0) & (mass > 0), gain, 0)


Estimator = Callable[[Array, ArrayLike, Array | None], Array]
"""(f, m, sizes) -> gain; see ``chao92_shen``."""

ESTIMATORS: dict[str, Estimator] = {
    "good-turing": good_turing,
    "chao92": chao92_shen,
    "hwang-shen": hwang_shen,
    "new-regr-same": new_regr,
    "clocks": clocks,
}
"""By name. ``new-regr-same`` is NewRegr with K' = K: it needs no past."""

OF_TOTALS: dict[str, Callable[[Totals, ArrayLike], Array]] = {
    "good-turing": good_turing_of,
    "chao92": chao92_shen_of,
}
"""Those that the totals of a sample are enough for, as functions of these."""
