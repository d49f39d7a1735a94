"""Which arms are outliers, run by run: where a run's means come from, and their *levels*.

An arm's level is 0 for a normal arm, and for an outlier how many groups of outliers it is in: 1 where a definition
knows but one set. Means that are the same in each run are judged once, on the host and exactly (``definitions``); those
that are drawn afresh are judged in the lane.

Units of 2^-24, as in ``jaxbandit.arms``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import exp
from typing import TYPE_CHECKING, Annotated, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxbandit.arms.problem import MEAN, ORDER, Drawn, Given
from jaxbandit.laws import Normal
from jaxbandit.outliers.definitions import Sizes, k_sigma_outliers, outlier_groups, robust_outliers
from jaxbandit.outliers.double_float import DoubleFloat, in_float64
from jaxbandit.parameters import Key
from jaxbandit.parsers import between, flag, one_of
from jaxbandit.random import permuted, words
from jaxbandit.random.draws import wide_product
from jaxbandit.random.quantiles import Quantiles
from jaxbandit.random.stream import Stream, stream, substream
from jaxbandit.random.trials import UNITS

if TYPE_CHECKING:
    from jaxtyping import Float32, Int32

K, EPS, RHO = between(0, 1000), between(exp(1 / 16) - 1, 50), between(0.5, 1)

OUTLYING = ORDER + 8
"""What the words are for that choose which arms are outliers: ``arms.problem`` uses none so high."""


class Arms(NamedTuple):
    """The arms of a run: ``means`` in units, ``levels``, and the user's ``rows``."""

    means: Int32[Array, " arms"]
    levels: Int32[Array, " arms"]
    rows: Int32[Array, " arms"]


class Source(Protocol):
    """Where the arms of a run come from. A pytree."""

    @property
    def arms(self) -> int:
        """How many there are."""

    def draw(self, key: Stream) -> Arms:
        """The arms of a run."""


class Means(Protocol):
    """Where means come from. A pytree."""

    @property
    def arms(self) -> int:
        """How many there are."""

    def draw(self, key: Stream) -> tuple[Array, Array]:
        """The means and the rows of a run's arms."""


@dataclass(frozen=True)
class Definition:
    """What an outlier is; see ``definitions``.

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
        """The levels of means in units: int32, shape (n,). Exact."""
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


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Labelled:
    """Arms that are the same in each run. ``levels``: by row."""

    given: Given
    levels: Int32[Array, " arms"]

    @property
    def arms(self) -> int:
        """See ``Source``."""
        return self.given.arms

    def draw(self, key: Stream) -> Arms:
        """See ``Source``."""
        means, rows = self.given.draw(key)
        return Arms(means, self.levels[rows], rows)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Judged:
    """Arms drawn afresh in each run, and judged there by k-sigma or its robust form.

    Distances are compared in float64: of drawn means, one in 10^13 may be too close to tell.
    """

    means: Means
    k: DoubleFloat
    robust: bool = field(metadata={"static": True})
    two_sided: bool = field(metadata={"static": True})

    @property
    def arms(self) -> int:
        """See ``Source``."""
        return self.means.arms

    def draw(self, key: Stream) -> Arms:
        """See ``Source``."""
        means, rows = self.means.draw(key)
        found = self._found(means)
        differ = jnp.any(means != means[0])
        return Arms(means, (found & differ).astype(jnp.int32), rows)

    @in_float64
    def _found(self, means: Array) -> Array:
        gap, limit = _from_median(means) if self.robust else _from_mean(means)
        limit = self.k.wide() * limit
        return (jnp.abs(gap) if self.two_sided else gap) > limit


def _from_mean(means: Array) -> tuple[Array, Array]:
    """The distances from the mean, shape (n,), and the standard deviation."""
    y = means.astype(jnp.float64)
    return y - jnp.mean(y), jnp.std(y)


def _from_median(means: Array) -> tuple[Array, Array]:
    """Twice the distances from the median, and of their median absolute value 1.4826 times as much."""
    gap = 2 * means - _twice_median(means)
    return gap.astype(jnp.float64), _twice_median(jnp.abs(gap)).astype(jnp.float64) * (1.4826 / 2)


def _twice_median(values: Array) -> Array:
    ordered, n = jnp.sort(values), values.shape[0]
    middle: Array = ordered[(n - 1) // 2] + ordered[n // 2]
    return middle


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Mixture:
    """Means for k-sigma: most arms normal(0.3, 0.075), and ``outlying`` of them uniform on [0.8, 1].

    Zhuang et al. do not say how theirs are drawn. Which arms are outliers is for the definition to say: one of
    [0.8, 1] may be below the threshold.
    """

    quantiles: Quantiles
    outlying: Int32[Array, ""]
    arms: int = field(metadata={"static": True})

    @classmethod
    def of(cls, arms: int, outlying: int) -> Mixture:
        """``arms`` of which ``outlying`` are far out."""
        return cls(Normal(0.3, variance=0.075**2).quantiles(), jnp.int32(outlying), arms)

    def case(self, number: int) -> Given:
        """Arms that are drawn once, under a number, and are the same in each run."""
        return Given(self.draw(substream(stream(number, 0), MEAN))[0])

    def draw(self, key: Stream) -> tuple[Array, Array]:
        """See ``Means``."""
        arm = jnp.arange(self.arms, dtype=jnp.int32)
        near, far = words(key, MEAN, arm)
        low = (self.quantiles.draw(near) >> jnp.uint32(8)).astype(jnp.int32)
        width = round(UNITS / 5)
        high = UNITS - width + wide_product(far, jnp.full_like(far, width))[0].astype(jnp.int32)
        return jnp.where(permuted(key, OUTLYING, self.arms) < self.outlying, high, low), arm


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Injected:
    """Means with one (eps, rho)-outlier group (Ban and He, section 6.1), drawn afresh in each run.

    The normal arms are uniform on an interval. Those with a rank from ``below`` on move up and leave a hole, in which
    the ``outlying`` arms lie as densely as the normal ones do, just farther than (1 + eps) times the widest gap between
    neighbours on either side. Then all is scaled to [0, 1]: the printed normal arms on [0, 1] leave no room above.

    ``reach``: 1.01 (1 + eps); ``arms``: static.
    """

    reach: Float32[Array, ""]
    below: Int32[Array, ""]
    outlying: Int32[Array, ""]
    arms: int = field(metadata={"static": True})

    def case(self, number: int) -> Labelled:
        """Arms that are drawn once, under a number, and are the same in each run."""
        found = self.draw(substream(stream(number, 0), MEAN))
        return Labelled(Given(found.means), found.levels)

    def draw(self, key: Stream) -> Arms:
        """See ``Source``."""
        n = self.arms
        arm = jnp.arange(n, dtype=jnp.int32)
        outlier = permuted(key, OUTLYING, n) < self.outlying
        value = (words(key, MEAN, arm)[0] >> jnp.uint32(8)).astype(jnp.int32)
        normal = ~outlier
        other, own = value[:, None], value[None, :]
        lower = normal[:, None] & ((other < own) | ((other == own) & (arm[:, None] < arm[None, :])))
        rank = jnp.sum(lower, axis=0, dtype=jnp.int32)
        upper = rank >= self.below
        alike = normal[:, None] & (upper[:, None] == upper[None, :])
        following = jnp.min(jnp.where(alike & (other > own), other, UNITS), axis=0)
        gap = jnp.where(normal & (following < UNITS), following - value, 0)
        room = (jnp.max(gap).astype(jnp.float32) * self.reach).astype(jnp.int32) + 1
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
        return Arms(means, outlier.astype(jnp.int32), arm)


def injected(arms: int, eps: float, outlying: int, side: str) -> Injected:
    """``side``: where the outliers lie, "upper", "lower", or "intermediate" with half of the normal arms on each."""
    below = {"upper": arms - outlying, "lower": 0, "intermediate": (arms - outlying) // 2}[side]
    return Injected(jnp.float32(1.01 * (1 + eps)), jnp.int32(below), jnp.int32(outlying), arms)


def source(means: Given | Drawn | Mixture, definition: Definition) -> Labelled | Judged:
    """Arms with these means, judged by a definition; by groups, only where they are given."""
    if isinstance(means, Given):
        return Labelled(means, jnp.asarray(definition.levels(np.asarray(means.means).tolist())))
    return Judged(means, DoubleFloat.of(definition.k), definition.name == "robust", definition.two_sided)
