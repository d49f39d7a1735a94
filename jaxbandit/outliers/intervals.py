"""Confidence radii of arms and of the threshold (Zhuang et al. 2017, section 4.3; Ban and He 2020, section 4.1).

All radii move with the level delta'(T) = 6 delta / (pi^2 c T^2), T being all pulls so far and c = n + 1 for the k-sigma
rules and n for GOLD. What they need of it is one number, the *reach*: log(1/delta') for bounded rewards, z^2 for
Bernoulli ones. It is smooth in log T, so its Chebyshev coefficients are tabulated on the host, an octave of T each.

The same formulas run on float32 and on ``Twofold``, where float32 cannot tell.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import erfc, exp, log, pi, sqrt
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxbandit.errors import BadInput
from jaxbandit.outliers.twofold import Number, Twofold
from jaxbandit.random.draws import wide_product

NAMES = ("bounded", "bernoulli", "bernoulli-corrected")
"""Hoeffding and McDiarmid, the only one with a proof; as printed for Bernoulli rewards; and that with the normal
quantile in place of erf^-1 and the gradient of mu + k sigma as weights."""

_DEGREE, _OCTAVES = 14, 31


def upper_point(q: float) -> float:
    """The z that a standard normal variable exceeds with probability ``q``, 0 < q <= 1/2, to 1e-15: by Newton's
    method on log erfc, so that a q of 1e-30 is as good as any."""
    z = sqrt(max(0.0, -2 * log(2 * q)))
    for _ in range(60):
        tail = 0.5 * erfc(z / sqrt(2))
        step = (log(tail) - log(q)) * tail * sqrt(2 * pi) * exp(z * z / 2)
        z += step
        if abs(step) < 1e-15 * (1 + z):
            break
    return z


def level(delta: float, family: int, total: float) -> float:
    """delta' of Eq. 1 (Eq. 3 in Ban and He): ``family`` is n + 1 (n)."""
    return 6 * delta / (pi**2 * family * total**2)


def reach_of(name: str, paper: str) -> Callable[[float], float]:
    """From delta' to the reach. As printed, z is erf^-1(1 - delta'/2) in Zhuang et al., erf^-1(1 - delta') in Ban."""
    if name == "bounded":
        return lambda q: -log(q)
    if name == "bernoulli":
        share = 4 if paper == "zhuang2017" else 2
        return lambda q: upper_point(min(q / share, 0.5)) ** 2 / 2
    return lambda q: upper_point(min(q / 2, 0.5)) ** 2


def width_of_threshold(n: int, k: float, delta: float) -> float:
    """l(k) of Theorem 2."""
    first = (1 + k * sqrt(n - 1)) / sqrt(n)
    return (first + sqrt(k**2 / (2 * log(pi**2 * n**3 / (6 * delta))))) ** 2


class Arms(NamedTuple):
    """What was seen of the arms, and what follows: ``pulls`` and ``means`` of shape (n,), their mean ``mu`` and
    population standard deviation ``sigma``, ``radii`` of shape (n,) and that of the threshold, ``theta_radius``."""

    means: Any
    mu: Any
    sigma: Any
    theta: Any
    radii: Any
    theta_radius: Any


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Interval:
    """``name`` (static): one of ``NAMES``; ``reach``: Chebyshev coefficients, shape (octaves, degree + 1); ``scale``:
    l(k) for the threshold; ``width``: R = b - a of bounded rewards; ``unit``: what sums of them are counted in."""

    name: str = field(metadata={"static": True})
    reach: Twofold
    scale: Twofold
    width: Twofold
    unit: Twofold

    def reach_at(self, total: Array, precise: bool = False) -> Any:
        """The reach at T = ``total`` (int32, at least 1)."""
        octave = 31 - jax.lax.clz(total)
        unit = jax.lax.bitcast_convert_type((jnp.int32(127 + 1) - octave) << 23, jnp.float32)
        row = jax.tree.map(lambda table: table[octave], self.reach)
        if precise:
            return _clenshaw(row, Twofold.whole(total), unit)
        x = total.astype(jnp.float32) * unit - 3
        later, last = jnp.float32(0), jnp.float32(0)
        for j in range(_DEGREE, 0, -1):
            later, last = (x + x) * later - last + row.hi[j], later
        return x * later - last + row.hi[0]


def _clenshaw(row: Twofold, total: Twofold, unit: Array) -> Twofold:
    """The sum of the Chebyshev terms, rolled, as this is compiled often and run seldom."""
    x = Twofold(total.hi * unit, total.lo * unit) - Twofold.of(3.0)
    zero = Twofold(jnp.float32(0), jnp.float32(0))

    def add(pair: tuple[Twofold, Twofold], term: Twofold) -> tuple[tuple[Twofold, Twofold], None]:
        later, last = pair
        return ((x + x) * later - last + term, later), None

    (later, last), _ = jax.lax.scan(add, (zero, zero), jax.tree.map(lambda c: c[:0:-1], row))
    found: Twofold = x * later - last + jax.tree.map(lambda c: c[0], row)
    return found


def interval(
    name: str, n: int, delta: float, *, k: float | None = None, width: float = 1.0, paper: str = "zhuang2017",
    unit: float = 1.0,
) -> Interval:  # fmt: skip
    """An interval by name for ``n`` arms at the level ``delta``; ``k`` where there is a threshold; ``unit``, a power
    of two: what rewards are counted in.

    Raises:
        BadInput: for a name that is none of ``NAMES``, and a width other than 1 of Bernoulli rewards.
    """
    if name not in NAMES:
        raise BadInput("interval", name, f"one of {', '.join(NAMES)}")
    if name != "bounded" and width != 1:
        raise BadInput("interval", name, f"bounded for rewards of width {width:g}: this one is for rewards 0 and 1")
    reach, family = reach_of(name, paper), n + 1 if paper == "zhuang2017" else n
    table = [
        np.polynomial.chebyshev.chebinterpolate(
            np.vectorize(lambda x, e=e: reach(level(delta, family, 2.0**e * (x + 3) / 2))), _DEGREE
        )
        for e in range(_OCTAVES)
    ]
    scale = 0.0 if k is None else width_of_threshold(n, k, delta)
    reaches = jax.tree.map(jnp.asarray, Twofold.of(np.array(table)))
    return Interval(name, reaches, Twofold.of(scale), Twofold.of(width), Twofold.of(unit))


def _number(value: float | Twofold, precise: bool) -> Any:
    if isinstance(value, Twofold):
        return value if precise else value.hi
    return Twofold.of(value) if precise else jnp.float32(value)


def _whole(value: Array, precise: bool) -> Any:
    return Twofold.whole(value) if precise else value.astype(jnp.float32)


def _sqrt(x: Number) -> Any:
    return x.sqrt() if isinstance(x, Twofold) else jnp.sqrt(jnp.maximum(x, 0))


def means_of(pulls: Array, ones: Array, precise: bool = False) -> Any:
    """The empirical means of arms that were pulled at least once."""
    return _whole(ones, precise) / _whole(pulls, precise)


def arm_radii(of: Interval, pulls: Array, ones: Array, reach: Any, precise: bool = False) -> Any:
    """beta_i of each arm: shape (n,)."""
    m = _whole(pulls, precise)
    if of.name == "bounded":
        wide = _number(of.width, precise)
        return _sqrt(wide * wide * reach / (m + m))
    s = _whole(ones, precise)
    half = reach * _number(0.5, precise)
    weight = m + reach
    share = (s + half) * (m - s + half) / (weight * weight)
    return _sqrt(reach * share / m)


def looked_at(of: Interval, k: Twofold, pulls: Array, ones: Array, total: Array, precise: bool = False) -> Arms:
    """Means, threshold and radii after ``total`` pulls, each arm having been pulled.

    Where all means are equal, sigma is exactly 0, and for Bernoulli rewards the threshold's radius is 0 in place of
    infinite: every arm's mean then is the threshold, so that each is active whatever the radius.
    """
    n = pulls.shape[-1]
    y = means_of(pulls, ones, precise)
    if of.name == "bounded":
        y = y * _number(of.unit, precise)
    number = _number(float(n), precise)
    mu = _mean(y)
    flat = all_equal(pulls, ones)
    gap = y - mu
    sigma = _sqrt(_mean(gap * gap))
    sigma = _pick(flat, _number(0.0, precise), sigma)
    kk = _number(k, precise)
    theta = mu + kk * sigma
    reach = of.reach_at(total, precise)
    radii = arm_radii(of, pulls, ones, reach, precise)
    if of.name == "bounded":
        harmonic = (_number(1.0, precise) / _whole(pulls, precise)).sum() / number
        wide = _number(of.width, precise)
        beta = wide * _sqrt(_number(of.scale, precise) * harmonic * reach * _number(0.5, precise))
    else:
        safe = _pick(flat, _number(1.0, precise), sigma)
        weights = kk * y / _sqrt(safe) if of.name == "bernoulli" else kk * gap / safe
        pieces = (weights + _number(1.0, precise)) * radii
        beta = _sqrt((pieces * pieces).sum()) / number
        beta = _pick(flat, _number(0.0, precise), beta)
    return Arms(y, mu, sigma, theta, radii, beta)


def _mean(x: Number) -> Any:
    """Of numbers from -1 to 1 along the last axis: as float32 by whole numbers, whose sum has no rounding."""
    n = x.hi.shape[-1] if isinstance(x, Twofold) else x.shape[-1]
    if isinstance(x, Twofold):
        return x.sum() / Twofold.of(float(n))
    bits = 30 - (n - 1).bit_length()
    units = jnp.sum((x * jnp.float32(2.0**bits)).astype(jnp.int32), axis=-1, dtype=jnp.int32)
    return units.astype(jnp.float32) * jnp.float32(2.0**-bits / n)


def _pick(condition: Array, yes: Any, no: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)


def all_equal(pulls: Array, ones: Array) -> Array:
    """Whether all empirical means are equal, decided on integers: s_i m_1 = s_1 m_i, in 64 bits."""
    m, s = pulls.astype(jnp.uint32), ones.astype(jnp.uint32)
    left, right = wide_product(s, m[..., :1]), wide_product(jnp.broadcast_to(s[..., :1], s.shape), m)
    return jnp.all((left[0] == right[0]) & (left[1] == right[1]), axis=-1)
