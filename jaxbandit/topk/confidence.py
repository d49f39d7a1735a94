"""Confidence bounds of means for LUCB (Hoeffding's inequality) and KL-LUCB (Chernoff's, by the divergence of Bernoulli
distributions).

There are lower bounds alone, since both are symmetric: the upper bound of a mean is 1 less the lower bound of 1 less
the mean. Means are int32 in units of 2^-24 here, all else is float32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax.numpy as jnp
from jax import Array

from jaxbandit.arms.rewards import unit
from jaxbandit.registry import real
from jaxbandit.xla.fence import repeated
from jaxbandit.xla.formula import formula

if TYPE_CHECKING:
    from jaxtyping import Bool, Float32, Int32

RATES = {"hoeffding": (1.25, 4.0), "kl": (405.5, 1.1)}
"""k1 and alpha as published; the guarantee of KL-LUCB asks for k1 > 2e + 1 + e/(alpha - 1) + (e + 1)/(alpha - 1)^2."""
_LEAST = 1e-3
"""The least rate for KL's bounds, whose logarithms have tangents at no rate of 0."""
CONFIDENCE, OVERLAP = real(1e-9, 1 - 1e-6), real(0, 1)
"""The ranges of delta and epsilon."""


@formula
def exploration(
    divergence: str, k1: Float32[Array, ""], arms: int, delta: Float32[Array, ""], alpha: Float32[Array, ""],
    round_: Int32[Array, ""],
) -> Float32[Array, ""]:  # fmt: skip
    """Returns the exploration rate of a round: sqrt(x / 2) for "hoeffding", x + ln x for "kl", with x = ln(k1 n
    t^alpha / delta), where t is the round's number and n that of the arms.

    With k1 below what the papers ask for, that may be below 0 or no number in the first rounds: it is 0 then, or
    ``_LEAST`` for "kl".
    """
    t = jnp.maximum(round_, 1).astype(jnp.float32)
    x = jnp.maximum(jnp.log(k1 * arms / delta) + alpha * jnp.log(t), 0)
    return jnp.sqrt(x / 2) if divergence == "hoeffding" else jnp.maximum(x + jnp.log(x), _LEAST)


def stops(
    divergence: str, epsilon: Float32[Array, ""], round_: Int32[Array, ""], overlap: Float32[Array, ""]
) -> Bool[Array, ""]:
    """Returns whether the stopping rule ends the run: for LUCB (2012) where the bounds overlap by less than epsilon,
    for KL-LUCB (2013) where they overlap by at most that much after the first round."""
    return overlap < epsilon if divergence == "hoeffding" else (overlap <= epsilon) & (round_ > 1)


@formula
def width(divergence: str, pulls: Int32[Array, "*arms"]) -> Float32[Array, "*arms"]:
    """Returns what the rate is multiplied by for an arm with so many pulls: 1 / sqrt(pulls), or 1 / pulls for "kl"."""
    count = jnp.maximum(pulls, 1).astype(jnp.float32)
    return 1 / jnp.sqrt(count) if divergence == "hoeffding" else 1 / count


def lower_bound(
    divergence: str, mean: Int32[Array, "*arms"], width: Float32[Array, "*arms"], rate: Float32[Array, ""]
) -> Float32[Array, "*arms"]:
    """Returns the lower confidence bound of each mean.

    "hoeffding": mean - rate * width, which is not cut to [0, 1]; "kl": the least q with d(mean, q) <= rate * width.
    """
    if divergence == "hoeffding":
        return _hoeffding_lower(unit(mean), width, rate)
    return _kl_lower(unit(mean), rate * width)


@formula
def _hoeffding_lower(mean: Array, width: Array, rate: Array) -> Array:
    return mean - rate * width


def _kl_lower(mean: Array, level: Array) -> Array:
    """Returns the least q with d(mean, q) <= level, by Newton's method on x in q = mean exp(-x), precise also near 0.

    d is convex in x, so that steps from beyond the root stay there. The start is the lesser of two bounds: d is at
    least x mean + (1 - mean) log(1 - mean), and at least (mean - q)^2 / (2 mean). From there, five steps are enough for
    all that float32 resolves, and one more is made.
    """
    p = jnp.maximum(mean, jnp.float32(1e-30))

    def rest(q: Array) -> Array:
        return jnp.where(mean < 1, (1 - mean) * jnp.log1p(-jnp.minimum(q, jnp.float32(1 - 2**-24))), 0)

    goal, root = level - rest(mean), jnp.sqrt(2 * level / p)
    # -log(1 - x) is at most x + x^2 up to there.
    start = jnp.where(root < 0.6, jnp.minimum(goal / p, root + root * root), goal / p)

    def closer(x: Array) -> Array:
        share = jnp.exp(-x)
        q = p * share
        slope = p * (1 - share) / (1 - q)
        return jnp.maximum(x - (p * x - rest(q) - goal) / jnp.maximum(slope, jnp.float32(1e-30)), 0)

    x = repeated(closer, 6, start)
    return jnp.where(mean > 0, p * jnp.exp(-x), 0)
