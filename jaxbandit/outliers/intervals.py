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

    means: Any
    sigma: Any
    radii: Any
    theta_radius: Any
    slack: Any
    above: Any


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
    reach = of.reach_at(total, precise)
    radii = arm_radii(of, pulls, ones, reach, precise)
    signs = (1.0,) if of.sides == "above" else (1.0, -1.0)
    if of.rule == "robust":
        centre = _median(y)
        spread = _number(_MAD, precise) * kk * _median(abs(y - centre))
        beta = (_number(1.0, precise) + _number(2 * _MAD, precise) * kk) * _largest(radii)
        betas = [beta] * len(signs)
    elif of.name == "bounded":
        centre, spread = mu, kk * sigma
        harmonic = (_number(1.0, precise) / _whole(pulls, precise)).sum() / number
        wide = _number(of.width, precise)
        betas = [wide * _sqrt(_number(of.scale, precise) * harmonic * reach * _number(0.5, precise))] * len(signs)
    else:
        centre, spread = mu, kk * sigma
        safe = _pick(flat, _number(1.0, precise), sigma)
        weights = kk * y / _sqrt(safe) if of.name == "bernoulli" else kk * gap / safe
        betas = []
        for sign in signs:
            pieces = (_number(sign, precise) * weights + _number(1.0, precise)) * radii
            beta = _sqrt((pieces * pieces).sum()) / number
            betas.append(_pick(flat, _number(0.0, precise), beta))
    slack = above = theta_radius = None
    for sign, beta in zip(signs, betas, strict=True):
        beyond = _number(sign, precise) * (y - centre) - spread
        own = radii + beta - abs(beyond)
        slack = own if slack is None else _greater(slack, own)
        above = beyond if above is None else _greater(above, beyond)
        theta_radius = beta if theta_radius is None else _greater(theta_radius, beta)
    return Arms(y, sigma, radii, theta_radius, slack, above)


def _greater(a: Any, b: Any) -> Any:
    difference = a - b
    return _pick((difference.hi if isinstance(difference, Twofold) else difference) > 0, a, b)


def _sorted(x: Any) -> Any:
    if isinstance(x, Twofold):
        return Twofold(*jax.lax.sort((x.hi, x.lo), num_keys=2))
    return jnp.sort(x)


def _largest(x: Any) -> Any:
    return jax.tree.map(lambda v: v[-1], _sorted(x)) if isinstance(x, Twofold) else jnp.max(x)


def _median(x: Any) -> Any:
    """The mean of the two in the middle, where the number of values is even."""
    ordered = _sorted(x)
    n = (ordered.hi if isinstance(x, Twofold) else ordered).shape[0]
    low, high = (jax.tree.map(lambda v, i=i: v[i], ordered) for i in ((n - 1) // 2, n // 2))
    return (low + high) * _number(0.5, isinstance(x, Twofold))


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


def equal_means(pulls: Array, ones: Array, other_pulls: Array, other_ones: Array) -> Array:
    """Whether empirical means are equal, decided on integers: s_i m_j = s_j m_i, in 64 bits. Broadcasts."""
    m, s, n, t = (x.astype(jnp.uint32) for x in jnp.broadcast_arrays(pulls, ones, other_pulls, other_ones))
    left, right = wide_product(s, n), wide_product(t, m)
    return (left[0] == right[0]) & (left[1] == right[1])


def all_equal(pulls: Array, ones: Array) -> Array:
    """Whether all empirical means are equal."""
    return jnp.all(equal_means(pulls, ones, pulls[..., :1], ones[..., :1]), axis=-1)
