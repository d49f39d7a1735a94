"""The truth of a run: where the means of its arms come from, and which arms are outliers.

An arm's *level* is 0 for a normal arm. For an outlier it is the number of outlier groups that the arm is in, which is 1
where a definition has one set. Means that are the same in each run are judged once, on the host and exactly
(``definitions``). Means that are drawn afresh are judged in the lane.

Means are in units of 2^-24, as in ``jaxbandit.arms``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import exp
from typing import TYPE_CHECKING, Annotated, NamedTuple, Protocol

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxbandit.arms.problem import MEAN, ORDER, Drawn, Given
from jaxbandit.laws import Normal
from jaxbandit.outliers.definitions import Sizes, k_sigma_outliers, outlier_groups, robust_outliers
from jaxbandit.outliers.double_float import DoubleFloat, in_float64
from jaxbandit.parameters import Key
from jaxbandit.parsers import between, flag, one_of
from jaxbandit.pytree import pytree
from jaxbandit.random import permuted, words
from jaxbandit.random.draws import wide_product
from jaxbandit.random.quantiles import Quantiles
from jaxbandit.random.stream import Stream, stream, substream
from jaxbandit.random.trials import UNITS
from jaxbandit.xla.formula import formula

if TYPE_CHECKING:
    from jaxtyping import Float32, Int32

K, EPS, RHO = between(0, 1000), between(exp(1 / 16) - 1, 50), between(0.5, 1)

OUTLYING = ORDER + 8
"""The purpose of the random words that choose which arms are outliers: ``arms.problem`` uses none so high."""


class DrawnArms(NamedTuple):
    """Holds the arms of a run: their ``means`` in units, their ``levels``, and the user's row of each (``rows``)."""

    means: Int32[Array, " arms"]
    levels: Int32[Array, " arms"]
    rows: Int32[Array, " arms"]


class Source(Protocol):
    """Draws the arms of a run, with their levels. It is a pytree."""

    @property
    def arms(self) -> int:
        """Returns how many arms a run has."""

    def draw(self, key: Stream) -> DrawnArms:
        """Draws the arms of the run with this key."""


class Means(Protocol):
    """Draws the means of a run's arms. It is a pytree."""

    @property
    def arms(self) -> int:
        """Returns how many arms a run has."""

    def draw(self, key: Stream) -> tuple[Array, Array]:
        """Draws the means of the run with this key, and the user's row of each arm."""


@dataclass(frozen=True)
class Definition:
    """Says what makes an arm an outlier, by one of the ``definitions``.

    Attributes:
        name: what an outlier is: k-sigma, robust (median and MAD), or groups.
        k: of k-sigma: above mean + k standard deviations, or median + k times 1.4826 MAD.
        two_sided: arms far below are outliers too.
        eps: of (eps, rho)-groups: how much farther than neighbours outliers are.
        rho: of (eps, rho)-groups: the share of normal arms, above 0.5 and below 1.
        sizes: normal arms are at least a share rho, as the paper generates them, or more, as it is printed.
    """

    name: Annotated[str, Key(one_of("k-sigma", "robust", "groups"))] = "k-sigma"
    k: Annotated[float, Key(K)] = 2.5
    two_sided: Annotated[bool, Key(flag)] = False
    eps: Annotated[float, Key(EPS)] = 2.5
    rho: Annotated[float, Key(RHO)] = 0.9
    sizes: Annotated[Sizes, Key(one_of("at-least", "above"))] = "at-least"

    def levels(self, means: Sequence[int]) -> np.ndarray:
        """Returns the levels of arms with these means (in units), by exact arithmetic: int32, shape (n,)."""
        y = [Fraction(int(mean), UNITS) for mean in means]
        if self.name == "groups":
            groups = outlier_groups(y, self.eps, self.rho, self.sizes)
        else:
            found = k_sigma_outliers if self.name == "k-sigma" else robust_outliers
            groups = [found(y, self.k, two_sided=self.two_sided)]
        levels = np.zeros(len(y), np.int32)
        for group in groups:
            levels[list(group)] += 1
        return levels


@pytree
@dataclass(frozen=True)
class Labelled:
    """Holds arms that are the same in each run, with the level of each of the user's rows."""

    given: Given
    levels: Int32[Array, " arms"]

    @property
    def arms(self) -> int:
        """Returns how many arms a run has."""
        return self.given.arms

    def draw(self, key: Stream) -> DrawnArms:
        """Returns the given means and levels in the order of the run with this key."""
        means, rows = self.given.draw(key)
        return DrawnArms(means, self.levels[rows], rows)


@pytree
@dataclass(frozen=True)
class Judged:
    """Draws arms afresh in each run, and judges them there by k-sigma or its robust form.

    Distances are compared in float64: one drawn mean in 10^13 may be too close to the threshold to tell.
    """

    means: Means
    k: DoubleFloat
    robust: bool = field(metadata={"static": True})
    two_sided: bool = field(metadata={"static": True})

    @property
    def arms(self) -> int:
        """Returns how many arms a run has."""
        return self.means.arms

    def draw(self, key: Stream) -> DrawnArms:
        """Draws the means of the run with this key, and judges them."""
        means, rows = self.means.draw(key)
        found = self._found(means)
        differ = jnp.any(means != means[0])
        return DrawnArms(means, (found & differ).astype(jnp.int32), rows)

    @in_float64
    def _found(self, means: Array) -> Array:
        gap, limit = _from_median(means) if self.robust else _from_mean(means)
        limit = self.k.wide() * limit
        return (jnp.abs(gap) if self.two_sided else gap) > limit


@formula
def _from_mean(means: Array) -> tuple[Array, Array]:
    """Returns the distances from the mean, shape (n,), and the standard deviation."""
    y = means.astype(jnp.float64)
    return y - jnp.mean(y), jnp.std(y)


def _from_median(means: Array) -> tuple[Array, Array]:
    """Returns twice the distances from the median, and 1.4826 times the median of their absolute values."""
    gap = 2 * means - _twice_median(means)
    return gap.astype(jnp.float64), _twice_median(jnp.abs(gap)).astype(jnp.float64) * (1.4826 / 2)


def _twice_median(values: Array) -> Array:
    ordered, n = jnp.sort(values), values.shape[0]
    middle: Array = ordered[(n - 1) // 2] + ordered[n // 2]
    return middle


@pytree
@dataclass(frozen=True)
class SyntheticMeans:
    """Draws means for k-sigma: of most arms from normal(0.3, 0.075), of ``outlying`` arms uniformly from [0.8, 1].

    Zhuang et al. do not say how theirs are drawn. The definition says which arms are outliers: an arm from [0.8, 1] may
    be below the threshold.
    """

    quantiles: Quantiles
    outlying: Int32[Array, ""]
    arms: int = field(metadata={"static": True})

    @classmethod
    def of(cls, arms: int, outlying: int) -> SyntheticMeans:
        """Makes the means of ``arms`` arms, of which ``outlying`` are drawn from [0.8, 1]."""
        return cls(Normal(0.3, variance=0.075**2).quantiles(), jnp.int32(outlying), arms)

    def case(self, number: int) -> Given:
        """Draws arms once, under the number of a case, to be the same in each run."""
        return Given(self.draw(substream(stream(number, 0), MEAN))[0])

    def draw(self, key: Stream) -> tuple[Array, Array]:
        """Draws the means of the run with this key, and which arms are from [0.8, 1]."""
        arm = jnp.arange(self.arms, dtype=jnp.int32)
        near, far = words(key, MEAN, arm)
        low = (self.quantiles.draw(near) >> jnp.uint32(8)).astype(jnp.int32)
        width = round(UNITS / 5)
        high = UNITS - width + wide_product(far, jnp.full_like(far, width))[0].astype(jnp.int32)
        return jnp.where(permuted(key, OUTLYING, self.arms) < self.outlying, high, low), arm


@pytree
@dataclass(frozen=True)
class Injected:
    """Draws arms with one (eps, rho)-outlier group (Ban and He, section 6.1), afresh in each run.

    The means of normal arms are uniform on an interval. Normal arms of rank ``below`` and more move up and leave a
    hole. The ``outlying`` arms lie in it as densely as the normal ones do. Their distance to either side of it is just
    above (1 + eps) times the widest gap between neighbours. Then all means are scaled to [0, 1]: the paper's normal
    arms fill [0, 1] and leave no room above. With few arms, a small eps or a small rho, a part of the group is at
    times one as well, as an end of it can be isolated by chance.

    ``distance``: 1.01 (1 + eps), in widest gaps; ``arms``: static.
    """

    distance: Float32[Array, ""]
    below: Int32[Array, ""]
    outlying: Int32[Array, ""]
    arms: int = field(metadata={"static": True})

    def case(self, number: int) -> Labelled:
        """Draws arms once, under the number of a case, to be the same in each run."""
        found = self.draw(substream(stream(number, 0), MEAN))
        return Labelled(Given(found.means), found.levels)

    def draw(self, key: Stream) -> DrawnArms:
        """Draws values for all arms, makes the hole between the normal ones, and puts the outliers into it."""
        n = self.arms
        arm = jnp.arange(n, dtype=jnp.int32)
        outlier = permuted(key, OUTLYING, n) < self.outlying
        value = (words(key, MEAN, arm)[0] >> jnp.uint32(8)).astype(jnp.int32)
        normal = ~outlier
        other, own = value[:, None], value[None, :]
        lower = normal[:, None] & ((other < own) | ((other == own) & (arm[:, None] < arm[None, :])))
        rank = jnp.sum(lower, axis=0, dtype=jnp.int32)
        upper = rank >= self.below
        same_side = normal[:, None] & (upper[:, None] == upper[None, :])
        following = jnp.min(jnp.where(same_side & (other > own), other, UNITS), axis=0)
        gap = jnp.where(normal & (following < UNITS), following - value, 0)
        room = (jnp.max(gap).astype(jnp.float32) * self.distance).astype(jnp.int32) + 1
        some, many = self.outlying, n - self.outlying
        spread = (jnp.float32(UNITS) * (some.astype(jnp.float32) / many.astype(jnp.float32))).astype(jnp.int32)
        # The two arms on both sides of the hole, or the ends of [0, 1] where there is none.
        below = jnp.max(jnp.where(normal & ~upper, value, 0))
        above = jnp.min(jnp.where(normal & upper, value, UNITS))
        inside = (value.astype(jnp.float32) * (spread.astype(jnp.float32) * jnp.float32(1 / UNITS))).astype(jnp.int32)
        first = jnp.where(self.below > 0, below + room, 0)
        moved = value + jnp.maximum(first + spread + room - above, 0)
        placed = jnp.where(outlier, first + inside, jnp.where(upper, moved, value))
        most = jnp.max(placed)
        scale = jnp.float32(UNITS - 1) / most.astype(jnp.float32)
        means = (placed.astype(jnp.float32) * scale).astype(jnp.int32)
        return DrawnArms(means, outlier.astype(jnp.int32), arm)


def injected(arms: int, eps: float, outlying: int, side: str) -> Injected:
    """Makes arms with an outlier group on a ``side`` of the normal arms: "upper", "lower", or "intermediate" with half
    of them on each side."""
    below = {"upper": arms - outlying, "lower": 0, "intermediate": (arms - outlying) // 2}[side]
    return Injected(jnp.float32(1.01 * (1 + eps)), jnp.int32(below), jnp.int32(outlying), arms)


def source(means: Given | Drawn | SyntheticMeans, definition: Definition) -> Labelled | Judged:
    """Makes arms with these means that a definition judges; groups are defined for given means alone."""
    if isinstance(means, Given):
        return Labelled(means, jnp.asarray(definition.levels(np.asarray(means.means).tolist())))
    return Judged(means, DoubleFloat.of(definition.k), definition.name == "robust", definition.two_sided)
