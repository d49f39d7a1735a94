"""Confidence radii of arms and of the threshold (Zhuang et al. 2017, section 4.3; Ban and He 2020, section 4.1).

All radii move with the level delta'(T) = 6 delta / (pi^2 c T^2), T being all pulls so far and c = n + 1 for the k-sigma
rules and n for GOLD. What they need of it is one number, the *reach*: log(1/delta') for bounded rewards, z^2 for
Bernoulli ones. It is smooth in log T, so its Chebyshev coefficients are tabulated on the host, an octave of T each.

The same formulas run in float32 and, where that cannot tell (``precise``), in float64: see ``twofold``.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from math import erfc, exp, log, pi, sqrt
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxbandit.errors import BadInput
from jaxbandit.outliers.twofold import Twofold
from jaxbandit.random.draws import wide_product

NAMES = ("bounded", "bernoulli", "bernoulli-corrected")
"""Hoeffding and McDiarmid, the only one with a proof; as printed for Bernoulli rewards; and that with the normal
quantile in place of erf^-1 and the gradient of mu + k sigma as weights."""

SIDES = ("above", "both")
"""Outliers are the arms above a threshold; or those below another one too, as far below the centre."""

RULES = ("k-sigma", "robust")
"""The threshold: mu + k sigma; or the median + k * 1.4826 * MAD, MAD being the median of the distances from the median.

The median moves at most as far as any mean does, and MAD at most twice as far. So while each mean is within its radius
of the truth, the robust threshold is within (1 + 2 * 1.4826 k) times the largest radius of its own: that is its radius,
for each interval of arms, and it needs no level beside theirs. It is a wide one: nothing is gained by averaging.
"""

_MAD = 1.4826
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
    """What was seen of the arms, and what follows: ``means`` of shape (n,), their population standard deviation
    ``sigma``, ``radii`` of shape (n,) and the largest one of a threshold, ``theta_radius``. An arm is active where
    ``slack``, (n,), is above 0: the sum of the radii less the distance from the threshold. It is an estimated outlier
    where ``above``, (n,), is: by how much its mean is beyond the threshold."""

    means: Array
    sigma: Array
    radii: Array
    theta_radius: Array
    slack: Array
    above: Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Interval:
    """``name`` (static): one of ``NAMES``; ``reach``: Chebyshev coefficients, shape (octaves, degree + 1); ``scale``:
    l(k) for the threshold; ``width``: R = b - a of bounded rewards; ``unit``: what sums of them are counted in;
    ``sides``, ``rule`` (static): of ``SIDES`` and ``RULES``."""

    name: str = field(metadata={"static": True})
    reach: Twofold
    scale: Twofold
    width: Twofold
    unit: Twofold
    sides: str = field(default="above", metadata={"static": True})
    rule: str = field(default="k-sigma", metadata={"static": True})

    def reach_at(self, total: Array, precise: bool = False) -> Array:
        """The reach at T = ``total`` (int32, at least 1)."""
        octave = 31 - jax.lax.clz(total)
        unit = jax.lax.bitcast_convert_type((jnp.int32(127 + 1) - octave) << 23, jnp.float32)
        row = _number(jax.tree.map(lambda table: table[octave], self.reach), precise)
        x = _whole(total, precise) * unit - 3
        later, last = x * 0, x * 0
        for j in range(_DEGREE, 0, -1):
            later, last = (x + x) * later - last + row[j], later
        return x * later - last + row[0]


def interval(
    name: str, n: int, delta: float, *, k: float | None = None, width: float = 1.0, paper: str = "zhuang2017",
    sides: str = "above", rule: str = "k-sigma", unit: float = 1.0,
) -> Interval:  # fmt: skip
    """An interval by name for ``n`` arms at the level ``delta``; ``k`` where there is a threshold; ``unit``, a power
    of two: what rewards are counted in.

    With two thresholds, mu - k sigma and mu + k sigma, delta' is shared with n + 2 intervals.

    Raises:
        BadInput: for a name that is none of ``NAMES``, ``SIDES`` or ``RULES``, and a width other than 1 of Bernoulli
            rewards.
    """
    for key, value, allowed in (("sides", sides, SIDES), ("rule", rule, RULES)):
        if value not in allowed:
            raise BadInput(key, value, f"one of {', '.join(allowed)}")
    if name not in NAMES:
        raise BadInput("interval", name, f"one of {', '.join(NAMES)}")
    if name != "bounded" and width != 1:
        raise BadInput("interval", name, f"bounded for rewards of width {width:g}: this one is for rewards 0 and 1")
    family = n + (1 if sides == "above" else 2) if paper == "zhuang2017" else n
    reach = reach_of(name, paper)
    scale = 0.0 if k is None else width_of_threshold(n, k, delta)
    reaches = _tabulated(lambda total: reach(level(delta, family, total)))
    return Interval(name, reaches, Twofold.of(scale), Twofold.of(width), Twofold.of(unit), sides, rule)


def clucb(n: int, delta: float, sigma: float = 1.0) -> Interval:
    """The radius of CLUCB (Chen et al. 2014), sigma sqrt(2 ln(4 n T^3 / delta) / m), as that of bounded rewards.

    ``sigma``: their R, the sub-Gaussian scale of a reward; 1/2 is enough for rewards in [0, 1].
    """
    reaches = _tabulated(lambda total: 4 * log(4 * n * total**3 / delta))
    return Interval("bounded", reaches, Twofold.of(0.0), Twofold.of(sigma), Twofold.of(1.0))


def _tabulated(reach: Callable[[float], float]) -> Twofold:
    """Chebyshev coefficients of a reach as a function of T, an octave a row."""
    table = [
        np.polynomial.chebyshev.chebinterpolate(np.vectorize(lambda x, e=e: reach(2.0**e * (x + 3) / 2)), _DEGREE)
        for e in range(_OCTAVES)
    ]
    return jax.tree.map(jnp.asarray, Twofold.of(np.array(table)))  # type: ignore[no-any-return]


def _number(value: Twofold, precise: bool) -> Array:
    return value.wide() if precise else value.hi


def _whole(value: Array, precise: bool) -> Array:
    return value.astype(jnp.float64 if precise else jnp.float32)


def _sqrt(x: Array) -> Array:
    root: Array = jnp.sqrt(jnp.maximum(x, 0))
    return root


def means_of(pulls: Array, ones: Array, precise: bool = False) -> Array:
    """The empirical means of arms that were pulled at least once."""
    return _whole(ones, precise) / _whole(pulls, precise)


def arm_radii(of: Interval, pulls: Array, ones: Array, reach: Array, precise: bool = False) -> Array:
    """beta_i of each arm: shape (n,)."""
    m = _whole(pulls, precise)
    if of.name == "bounded":
        wide = _number(of.width, precise)
        return _sqrt(wide * wide * reach / (m + m))
    s = _whole(ones, precise)
    half = reach * 0.5
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
    mu = mean(y)
    flat = all_equal(pulls, ones)
    gap = y - mu
    sigma = jnp.where(flat, 0, _sqrt(mean(gap * gap)))
    kk = _number(k, precise)
    reach = of.reach_at(total, precise)
    radii = arm_radii(of, pulls, ones, reach, precise)
    signs = (1, -1) if of.sides == "both" else (1,)
    if of.rule == "robust":
        centre = _median(y)
        spread = _MAD * kk * _median(jnp.abs(y - centre))
        betas = [(1 + 2 * _MAD * kk) * jnp.max(radii)] * len(signs)
    elif of.name == "bounded":
        centre, spread = mu, kk * sigma
        harmonic = jnp.sum(1 / _whole(pulls, precise)) / n
        betas = [_number(of.width, precise) * _sqrt(_number(of.scale, precise) * harmonic * reach * 0.5)] * len(signs)
    else:
        centre, spread = mu, kk * sigma
        safe = jnp.where(flat, 1, sigma)
        weights = kk * y / _sqrt(safe) if of.name == "bernoulli" else kk * gap / safe
        betas = [jnp.where(flat, 0, _sqrt(jnp.sum(((sign * weights + 1) * radii) ** 2)) / n) for sign in signs]
    beyond = [sign * (y - centre) - spread for sign in signs]
    slacks = [radii + beta - jnp.abs(x) for x, beta in zip(beyond, betas, strict=True)]
    slack, above, theta_radius = (functools.reduce(jnp.maximum, some) for some in (slacks, beyond, betas))
    return Arms(y, sigma, radii, theta_radius, slack, above)


def _median(x: Array) -> Array:
    """The mean of the two in the middle, where the number of values is even."""
    ordered, n = jnp.sort(x), x.shape[0]
    return (ordered[(n - 1) // 2] + ordered[n // 2]) * 0.5


def mean(x: Array) -> Array:
    """Of numbers from -1 to 1 along the last axis: as float32 by whole numbers, whose sum has no rounding."""
    n = x.shape[-1]
    if x.dtype == jnp.float64:
        return jnp.sum(x, axis=-1) / n
    bits = 30 - (n - 1).bit_length()
    units = jnp.sum((x * jnp.float32(2.0**bits)).astype(jnp.int32), axis=-1, dtype=jnp.int32)
    found: Array = units.astype(jnp.float32) * jnp.float32(2.0**-bits / n)
    return found


def equal_means(pulls: Array, ones: Array, other_pulls: Array, other_ones: Array) -> Array:
    """Whether empirical means are equal, decided on integers: s_i m_j = s_j m_i, in 64 bits. Broadcasts."""
    m, s, n, t = (x.astype(jnp.uint32) for x in jnp.broadcast_arrays(pulls, ones, other_pulls, other_ones))
    left, right = wide_product(s, n), wide_product(t, m)
    return (left[0] == right[0]) & (left[1] == right[1])


def all_equal(pulls: Array, ones: Array) -> Array:
    """Whether all empirical means are equal."""
    return jnp.all(equal_means(pulls, ones, pulls[..., :1], ones[..., :1]), axis=-1)
