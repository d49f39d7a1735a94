"""Confidence intervals of arms and of the threshold (Zhuang et al. 2017, section 4.3; Ban and He 2020, section 4.1).

All of them depend on the level delta'(T) = 6 delta / (pi^2 c T^2), where T is all pulls so far and c is n + 1 for the
k-sigma rules and n for GOLD. The level enters as one number, the *log term*: log(1/delta') for bounded rewards, z^2 for
Bernoulli ones. The formulas below compute in the type of the log term that they get: a rule decides in float64.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import jax.numpy as jnp
from jax import Array
from jax.scipy.special import ndtri

from jaxbandit.outliers.double_float import DoubleFloat, in_float64
from jaxbandit.outliers.record import Seen, all_equal, means_of
from jaxbandit.parameters import Key, checked
from jaxbandit.parsers import between, one_of
from jaxbandit.pytree import pytree
from jaxbandit.space import Range
from jaxbandit.xla.formula import formula

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Float64, Int32

NAMES = ("bounded", "bernoulli", "bernoulli-corrected")
"""Bounded: by Hoeffding and McDiarmid, the only interval with a proof. Bernoulli: as printed for rewards 0 and 1.
Bernoulli-corrected: the same with the normal quantile in place of erf^-1 and the gradient of mu + k sigma as
weights."""

SIDES = ("above", "both")
"""Outliers are the arms above a threshold, or also the arms below a second one, which is as far below the centre."""

RULES = ("k-sigma", "robust")
"""The threshold is mu + k sigma, or the median + k * 1.4826 * MAD, where MAD is the median of the distances from the
median.

The median moves at most as far as any mean does, and MAD at most twice as far. So while each mean is within its radius
of the truth, the robust threshold is within (1 + 2 * 1.4826 k) times the largest radius of its own truth. That is its
radius, whatever the arms' intervals, and it needs no level beside theirs (the level stays that of k-sigma, which is a
little wider). It is wide, as nothing is averaged.
"""

# A user says what a rule promises and what it looks for: a search would give these up.
Name = Annotated[str, Key(one_of(*NAMES), on_request=True)]
Delta = Annotated[float, Key(between(1e-30, 1, least_too=True), search=Range(1e-4, 0.5, log=True), on_request=True)]
K = Annotated[float | None, Key(between(0, 1000), search=Range(0.5, 5), on_request=True)]
Sides = Annotated[str, Key(one_of(*SIDES))]
Rule = Annotated[str, Key(one_of(*RULES))]

_MAD = 1.4826

_TIE = 1e-10
"""A mean this close to the threshold is taken to be equal to it: not above."""


def width_of_threshold(n: int, k: Any, delta: Any, of: Any = math) -> Any:
    """Returns l(k) of Theorem 2, for floats, or for arrays where ``of`` is ``jax.numpy``."""
    first = (1 + k * math.sqrt(n - 1)) / math.sqrt(n)
    return (first + of.sqrt(k**2 / (2 * of.log(math.pi**2 * n**3 / (6 * delta))))) ** 2


class Estimates(NamedTuple):
    """Holds estimates from the pulls so far: the ``means``, their population standard deviation ``sigma``, the arms'
    ``radii``, and the largest radius of a threshold (``theta_radius``).

    ``overlap``: by how much an arm's interval and that of the threshold overlap; the arm is active where this is above
    0. ``excess``: how far its mean is beyond the threshold; the arm is an estimated outlier where this is above 0."""

    means: Float[Array, " arms"]
    sigma: Float[Array, ""]
    radii: Float[Array, " arms"]
    theta_radius: Float[Array, ""]
    overlap: Float[Array, " arms"]
    excess: Float[Array, " arms"]


@pytree
@dataclass(frozen=True)
class Interval:
    """Describes the threshold between normal arms and outliers, and the confidence intervals; ``interval`` makes it and
    explains its fields. ``name``, ``sides`` and ``rule`` are static.

    Example:
        >>> import jax.numpy as jnp
        >>> from jaxbandit import outliers
        >>> interval = outliers.interval("bounded", delta=0.1, k=1.0)
        >>> pulls, ones = jnp.array([50, 50, 200]), jnp.array([10, 40, 100])
        >>> [f"{radius:.3f}" for radius in interval.radii(pulls, ones, jnp.float32(8))]  # half with four times as many
        ['0.283', '0.283', '0.141']
    """

    delta: DoubleFloat
    k: DoubleFloat | None
    name: str = field(metadata={"static": True})
    sides: str = field(default="above", metadata={"static": True})
    rule: str = field(default="k-sigma", metadata={"static": True})

    @formula
    def log_term(self, n: int, total: Int32[Array, ""]) -> Float64[Array, ""]:
        """Returns log(1/delta') for bounded rewards, or z^2, after ``total`` pulls of ``n`` arms: float64, for use
        within ``in_float64``.

        As printed, z is erf^-1(1 - delta'/2) in Zhuang et al., erf^-1(1 - delta') in Ban and He. Two thresholds share
        delta' with n + 2 intervals. The quantile is computed from the tail, as 1 - delta' rounds to 1.
        """
        intervals = n if self.k is None else n + len(self._signs)
        t = total.astype(jnp.float64)
        level = 6 * self.delta.wide() / (math.pi**2 * intervals * t * t)
        if self.name == "bounded":
            return -jnp.log(level)
        if self.name == "bernoulli":
            return ndtri(jnp.minimum(level / (2 if self.k is None else 4), 0.5)) ** 2 / 2
        return ndtri(jnp.minimum(level / 2, 0.5)) ** 2

    @formula
    def radii(
        self, pulls: Int32[Array, " arms"], ones: Int32[Array, " arms"], log_term: Float[Array, ""]
    ) -> Float[Array, " arms"]:
        """Returns beta_i, the radius of each arm's interval, for arms that were pulled at least once. Rewards are in
        [0, 1], so that R is 1.

        Bounded: sqrt(log(1/delta') / (2 m)). Bernoulli: z sqrt(p (1 - p) / m) with p = (s + z^2 / 2) / (m + z^2), where
        s of m rewards were 1.
        """
        m = pulls.astype(log_term.dtype)
        if self.name == "bounded":
            return _sqrt(log_term / (m + m))
        s, half, weight = ones.astype(log_term.dtype), log_term * 0.5, m + log_term
        return _sqrt(log_term * ((s + half) * (m - s + half) / (weight * weight)) / m)

    @formula
    def estimates(self, seen: Seen, log_term: Float[Array, ""], unit: float = 1.0) -> Estimates:
        """Returns means, thresholds and intervals when each arm was pulled; ``unit``: see ``View``.

        The threshold's radius is sqrt(l(k) log(1/delta') / (2 h)) where rewards are bounded, h being the harmonic mean
        of the pulls, and else the root of the sum of (w_i beta_i)^2, with w_i = 1/n + k y_i / (n sqrt(sigma)) as
        printed, or the gradient of mu + k sigma, 1/n + k (y_i - mu) / (n sigma), if "bernoulli-corrected".

        Where all means are equal, sigma is exactly 0, and for Bernoulli rewards the threshold's radius is set to 0
        where the formula gives infinity. Every arm's mean is the threshold then, so that each is active whatever the
        radius.
        """
        assert self.k is not None
        pulls, n, dtype = jnp.maximum(seen.pulls, 1), seen.pulls.shape[-1], log_term.dtype
        y, k = means_of(pulls, seen.ones, dtype) * unit, self.k.to(dtype)
        mu, flat = mean(y), all_equal(pulls, seen.ones)
        gap = y - mu
        sigma = jnp.where(flat, 0, _root_mean_square(gap))
        radii = self.radii(pulls, seen.ones, log_term)
        centre, spread = mu, k * sigma
        if self.rule == "robust":
            centre = _median(y)
            spread = _MAD * k * _median(jnp.abs(y - centre))
            betas = [(1 + 2 * _MAD * k) * jnp.max(radii)] * len(self._signs)
        elif self.name == "bounded":
            over_h = jnp.sum(1 / pulls.astype(dtype)) / n
            scale = width_of_threshold(n, k, self.delta.to(dtype), jnp)
            betas = [_sqrt(scale * over_h * log_term * 0.5)] * len(self._signs)
        else:
            safe = jnp.where(flat, 1, sigma)
            weights = k * y / _sqrt(safe) if self.name == "bernoulli" else k * gap / safe
            betas = [jnp.where(flat, 0, _sqrt(jnp.sum(((s * weights + 1) * radii) ** 2)) / n) for s in self._signs]
        beyond = [sign * (y - centre) - spread for sign in self._signs]
        overlaps = [radii + beta - jnp.abs(x) for x, beta in zip(beyond, betas, strict=True)]
        overlap, excess, theta_radius = (functools.reduce(jnp.maximum, some) for some in (overlaps, beyond, betas))
        return Estimates(y, sigma, radii, theta_radius, overlap, excess)

    @property
    def _signs(self) -> tuple[int, ...]:
        return (1, -1) if self.sides == "both" else (1,)

    @in_float64
    def active(self, seen: Seen, unit: float) -> Bool[Array, " arms"]:
        """Returns which arms are active (Zhuang et al., equation 2)."""
        return self.estimates(seen, self.log_term(seen.pulls.shape[-1], seen.total), unit).overlap > 0

    @in_float64
    def outliers(self, seen: Seen, unit: float) -> Bool[Array, " arms"]:
        """Returns which arms are estimated outliers (equation 3); none is where all means are equal."""
        at = self.estimates(seen, jnp.float64(1), unit)  # a mean is above a threshold whatever their radii
        return (at.excess > _TIE) & (at.sigma > 0)


@checked
def interval(name: Name, delta: Delta, k: K = None, *, sides: Sides = "above", rule: Rule = "k-sigma") -> Interval:
    """Makes a threshold and intervals by their names.

    Args:
        name: bounded (proved), or for rewards 0 and 1 bernoulli (as printed) or bernoulli-corrected (a study's default
            for them); see ``NAMES``.
        delta: the promise, wrong with at most this probability; from 1e-30 on (float32 holds none much
            smaller) and below 1.
        k: of k-sigma, above 0 (left out in a study, the problem's); None where no threshold is needed, as in GOLD.
        sides, rule: one of ``SIDES`` and of ``RULES``.

    Raises:
        BadInput: for an argument out of range, naming it.

    Example:
        >>> from jaxbandit import outliers
        >>> outliers.interval("bounded", delta=0.1, k=2.5).name
        'bounded'
    """
    return Interval(DoubleFloat.of(delta), None if k is None else DoubleFloat.of(k), name, sides, rule)


def _sqrt(x: Array) -> Array:
    root: Array = jnp.sqrt(jnp.maximum(x, 0))
    return root


def _root_mean_square(gap: Array) -> Array:
    """Returns sigma of means that are not all equal, above 0. In float32 the squares of small gaps would be lost among
    the units in which ``mean`` adds them: these are made larger first."""
    found = _sqrt(mean(gap * gap))
    if gap.dtype == jnp.float64:
        return found
    widest = jnp.maximum(jnp.max(jnp.abs(gap), axis=-1, keepdims=True), jnp.float32(1e-9))
    part = gap / widest
    return jnp.where(found < 2.0**-6, jnp.maximum(widest[..., 0] * _sqrt(mean(part * part)), jnp.float32(1e-9)), found)


def _median(x: Array) -> Array:
    """Returns the median: for an even number of values, the mean of the two in the middle."""
    ordered, n = jnp.sort(x), x.shape[0]
    return (ordered[(n - 1) // 2] + ordered[n // 2]) * 0.5


def mean(x: Float[Array, "... arms"]) -> Float[Array, " ..."]:
    """Returns the mean over the last axis of numbers from -1 to 1. In float32 they are added as whole numbers, so that
    no order of the sum changes it."""
    n = x.shape[-1]
    if x.dtype == jnp.float64:
        return jnp.sum(x, axis=-1) / n
    bits = 30 - (n - 1).bit_length()
    units = jnp.sum((x * jnp.float32(2.0**bits)).astype(jnp.int32), axis=-1, dtype=jnp.int32)
    found: Array = units.astype(jnp.float32) * jnp.float32(2.0**-bits / n)
    return found
