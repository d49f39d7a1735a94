"""Laws on [0, 1]: of probabilities of success (the sc-pdf of Cheng et al. 2010, sections 3.2 and 6), of arms' means.

On the host a law is exact, in float64. For drawing on a device it is tabulated once (``Quantiles``): the draws are then
integer arithmetic, so that they have the same bits on every device and in every batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from jaxbandit.errors import BadInput, under
from jaxbandit.parsers import is_real
from jaxbandit.random.quantiles import Floats, Quantiles, tabulated

if TYPE_CHECKING:
    from jaxtyping import Float64

FORMS = (
    '"uniform", { normal = { mean = 0.5, variance = 0.3 } }, { beta = [2, 5] }, { histogram = [1, 4, 2] } or '
    "{ mixture = [{ weight = 1, beta = [2, 5] }, { weight = 3, beta = [8, 2] }] }"
)
"""How a study file writes them."""


class Law:
    """A law on [0, 1]: the base of ``Uniform``, ``Normal``, ``Beta``, ``Mixture`` and ``Histogram``.

    Example:
        >>> from jaxbandit import cleaning
        >>> law = cleaning.Beta(2, 5)
        >>> isinstance(law, cleaning.Law), law.describe(), law.complement().describe()
        (True, 'beta(2, 5)', 'beta(5, 2)')
        >>> law.cells(0.25).round(3).tolist()  # the probabilities of four equal parts of [0, 1]
        [0.466, 0.425, 0.105, 0.005]
    """

    def cdf(self, x: ArrayLike) -> Floats:
        """Returns P(p <= x), elementwise, float64; x is taken to be within [0, 1].

        Near 0 its relative error is small; for small tails near 1 use ``survival``.
        """
        raise NotImplementedError

    def mean(self) -> float:
        """Returns the mean of the law, E[p]."""
        raise NotImplementedError

    def describe(self) -> str:
        """Returns a short name of the law, such as ``beta(2, 5)``."""
        raise NotImplementedError

    def complement(self) -> Law:
        """Returns the law of 1 - p. At a distance y from 1, ``complement().cdf(y)`` is the tail, whatever 1 - y rounds
        to."""
        raise NotImplementedError

    def survival(self, x: ArrayLike) -> Floats:
        """Returns P(p > x), elementwise, float64; x is taken to be within [0, 1]. Its relative error is small, even
        near 1."""
        x = np.asarray(x, np.float64)
        below = self.cdf(x)
        return np.where(below < 0.5, 1 - below, self.complement().cdf(1 - x))

    def cells(self, delta: float) -> Float64[Floats, " cells"]:
        """Returns the probabilities of the ceil(1 / delta) equal cells of [0, 1]: float64, their sum is 1.

        ``delta``, the precision of section 5.3's integrals, is read as the nearest fraction of denominator up to a
        million.

        Raises:
            BadInput: for a delta outside [1e-6, 1].
        """
        if not 1e-6 <= delta <= 1:
            raise BadInput("delta", delta, "a number from 1e-6 to 1")
        edges = np.linspace(0, 1, math.ceil(1 / Fraction(delta).limit_denominator(1_000_000)) + 1)
        below, above = self.cdf(edges), self.survival(edges)
        # The difference of the smaller tails is the one that keeps its digits.
        cells = np.maximum(np.where(below[1:] <= 0.5, np.diff(below), -np.diff(above)), 0)
        return np.asarray(cells / cells.sum())

    def quantiles(self, table: bool = False) -> Quantiles:
        """Tabulates the law for drawing on a device; ``table``: not as ``identity``, even where it could be."""
        return tabulated(self)


@dataclass(frozen=True)
class Uniform(Law):
    """The uniform law on [0, 1], the default of section 6.

    Example:
        >>> from jaxbandit import cleaning
        >>> round(cleaning.Uniform().mean(), 3)
        0.5
    """

    def cdf(self, x: ArrayLike) -> Floats:
        """Returns x itself, the uniform law's P(p <= x)."""
        return np.asarray(x, np.float64)

    def mean(self) -> float:
        """Returns the mean of the uniform law, 1/2."""
        return 0.5

    def describe(self) -> str:
        """Returns the name that study files give it, ``uniform``."""
        return "uniform"

    def complement(self) -> Law:
        """Returns itself, as 1 - p has the same law."""
        return self

    def quantiles(self, table: bool = False) -> Quantiles:
        """Returns words as they are, without tables, unless ``table`` asks for these."""
        return tabulated(self) if table else Quantiles(np.zeros(0, np.uint32), np.zeros(0, np.uint32), identity=True)


@dataclass(frozen=True, init=False)
class Normal(Law):
    """The normal law, truncated to [0, 1] (section 6; the paper's sigma is the variance).

    Args:
        mean: of the law before truncation (the field ``location``), any that leaves [0, 1] a probability of 1e-300.
        variance: before truncation, above 0 and at most 1e6.

    Example:
        >>> from jaxbandit import cleaning
        >>> round(cleaning.Normal(0.5, variance=0.1).mean(), 3)
        0.5
    """

    location: float
    variance: float

    def __init__(self, mean: float = 0.5, *, variance: float) -> None:
        allowed = "a number above 0, at most 1e6"
        object.__setattr__(self, "variance", _number("normal.variance", variance, allowed, lambda x: 0 < x <= 1e6))
        reach = 37 * math.sqrt(self.variance)
        allowed = f"a number from about {-reach:.4g} to about {1 + reach:.4g}, so that with variance {self.variance!r} "
        allowed += "some probability is left within [0, 1]"
        object.__setattr__(self, "location", _number("normal.mean", mean, allowed, lambda x: abs(x) < 1e300))
        if not self._mass(1.0) >= 1e-300:
            raise BadInput("normal.mean", mean, allowed)

    def _mass(self, x: ArrayLike) -> Floats:
        """Returns the probability of [0, x] before truncation."""
        scale = math.sqrt(2 * self.variance)
        with np.errstate(over="ignore"):
            start, z = -self.location / scale, (np.asarray(x, np.float64) - self.location) / scale
        tail = 0.5 * np.asarray(_erfc(np.abs(z)))
        # Differences of the tail on z's own side, as those of the other would cancel.
        return np.asarray(np.where(z <= 0, tail - 0.5 * math.erfc(-start), 0.5 * math.erfc(start) - tail))

    def cdf(self, x: ArrayLike) -> Floats:
        """Returns P(p <= x) of the truncated law, float64."""
        return np.clip(self._mass(x) / self._mass(1.0), 0, 1)

    def mean(self) -> float:
        """Returns the mean of the truncated law."""
        density = [math.exp(-((x - self.location) ** 2) / (2 * self.variance)) for x in (0, 1)]
        shift = math.sqrt(self.variance / (2 * math.pi)) * (density[0] - density[1]) / float(self._mass(1.0))
        return min(max(self.location + shift, 0.0), 1.0)

    def describe(self) -> str:
        """Returns a short name with the mean and variance before truncation."""
        return f"normal({_short(self.location)}, {_short(self.variance)})"

    def complement(self) -> Law:
        """Returns the truncated normal law of 1 - p."""
        return Normal(1 - self.location, variance=self.variance)


@dataclass(frozen=True)
class Beta(Law):
    """The beta law; both parameters are above 0 and at most 1e5.

    Example:
        >>> from jaxbandit import cleaning
        >>> round(cleaning.Beta(2, 5).mean(), 3)
        0.286
    """

    alpha: float
    beta: float

    def __post_init__(self) -> None:
        for name in ("alpha", "beta"):
            allowed = "a number above 0, at most 1e5"
            value = _number(f"beta.{name}", getattr(self, name), allowed, lambda x: 0 < x <= 1e5)
            object.__setattr__(self, name, value)

    def cdf(self, x: ArrayLike) -> Floats:
        """Returns P(p <= x), the regularised incomplete beta function."""
        a, b = self.alpha, self.beta
        x = np.asarray(x, np.float64)
        turn = x > (a + 1) / (a + b + 2)  # beyond it the fraction of the other tail converges faster
        near = np.where(turn, 1 - x, x)
        tail = np.empty_like(near)
        for side, p, q in ((~turn, a, b), (turn, b, a)):
            with np.errstate(divide="ignore"):
                log = p * np.log(near[side]) + q * np.log1p(-near[side])
            log -= math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
            tail[side] = np.exp(log) / p * _beta_fraction(p, q, near[side])
        return np.clip(np.where(turn, 1 - tail, tail), 0, 1)

    def mean(self) -> float:
        """Returns the mean, alpha / (alpha + beta)."""
        return self.alpha / (self.alpha + self.beta)

    def describe(self) -> str:
        """Returns a short name with alpha and beta."""
        return f"beta({_short(self.alpha)}, {_short(self.beta)})"

    def complement(self) -> Law:
        """Returns the beta law of 1 - p, alpha and beta exchanged."""
        return Beta(self.beta, self.alpha)


@dataclass(frozen=True)
class Mixture(Law):
    """A mixture of beta laws, with weights above 0; their scale does not matter, and their sum is made 1.

    Example:
        >>> from jaxbandit import cleaning
        >>> law = cleaning.Mixture((1, 3), (cleaning.Beta(2, 5), cleaning.Beta(8, 2)))
        >>> round(law.mean(), 3)
        0.671
    """

    weights: tuple[float, ...]
    laws: tuple[Beta, ...]

    def __post_init__(self) -> None:
        weights = _numbers("mixture weight", self.weights, "a number above 0, at most 1e6", lambda x: 0 < x <= 1e6)
        object.__setattr__(self, "laws", tuple(self.laws))
        if other := [law for law in self.laws if not isinstance(law, Beta)]:
            raise BadInput("mixture", other[0], "beta laws, as Beta(2, 5); Beta(1, 1) is uniform")
        if not self.laws or len(self.laws) != len(self.weights):
            raise BadInput("mixture", f"{len(self.weights)} weights, {len(self.laws)} laws", "as many, at least one")
        object.__setattr__(self, "weights", tuple(weight / math.fsum(weights) for weight in weights))

    def cdf(self, x: ArrayLike) -> Floats:
        """Returns P(p <= x), weighted over the beta laws."""
        return np.minimum(sum(weight * law.cdf(x) for weight, law in self), 1)

    def mean(self) -> float:
        """Returns the mean, weighted over the beta laws."""
        return math.fsum(weight * law.mean() for weight, law in self)

    def describe(self) -> str:
        """Returns a short name with the weights and the beta laws."""
        return " + ".join(f"{weight:.3g} {law.describe()}" for weight, law in self)

    def complement(self) -> Law:
        """Returns the mixture of the beta laws of 1 - p."""
        return Mixture(self.weights, tuple(Beta(law.beta, law.alpha) for law in self.laws))

    def __iter__(self) -> Iterator[tuple[float, Beta]]:
        return iter(zip(self.weights, self.laws, strict=True))


@dataclass(frozen=True)
class Histogram(Law):
    """Bars of equal width over [0, 1], the "array of values" of section 3.2; their scale does not matter.

    Example:
        >>> from jaxbandit import cleaning
        >>> round(cleaning.Histogram((1, 4, 2)).mean(), 3)
        0.548
    """

    bars: tuple[float, ...]

    def __post_init__(self) -> None:
        bars = _numbers("histogram bar", self.bars, "a number of at least 0", lambda x: 0 <= x < math.inf)
        object.__setattr__(self, "bars", bars)
        if not bars or max(bars) == 0:
            raise BadInput("histogram", f"{len(bars)} bars", "does not integrate: at least one bar must be above 0")

    def _masses(self) -> Floats:
        bars = np.asarray(self.bars) / max(self.bars)  # so that the sum does not overflow
        return np.asarray(bars / bars.sum())

    def cdf(self, x: ArrayLike) -> Floats:
        """Returns P(p <= x), which is linear within each bar."""
        masses = self._masses()
        below = np.minimum(np.append(0.0, masses.cumsum()), 1)
        below[np.flatnonzero(masses)[-1] + 1 :] = 1
        return np.asarray(np.interp(np.asarray(x, np.float64), np.linspace(0, 1, below.size), below))

    def mean(self) -> float:
        """Returns the mean of the law over all bars."""
        masses = self._masses()
        return float(masses @ (np.arange(masses.size) + 0.5) / masses.size)

    def describe(self) -> str:
        """Returns a short name with the number of bars."""
        return f"histogram({len(self.bars)} bars)"

    def complement(self) -> Law:
        """Returns the histogram with its bars in reverse order."""
        return Histogram(self.bars[::-1])


def parse(field: str, spec: Any) -> Law:
    """Makes the law that a study file describes.

    Args:
        field: the key where it stands, for errors.
        spec: ``"uniform"``, ``{"normal": {"mean": 0.5, "variance": 0.3}}`` (the mean may be left out),
            ``{"beta": [2, 5]}``, ``{"beta": {"alpha": 2, "beta": 5}}``, ``{"histogram": [1, 4, 2]}`` or
            ``{"mixture": [{"weight": 1, "beta": [2, 5]}, ...]}``.

    Raises:
        BadInput: for anything else, and for parameters out of range.
    """
    with under(field):
        found = _parsed(spec)
    if found is None:
        raise BadInput(field, spec, FORMS)
    return found


def _parsed(spec: Any) -> Law | None:
    match spec:
        case "uniform":
            return Uniform()
        case {"normal": {"variance": variance}} if _exactly(spec, 1):
            return Normal(variance=variance)
        case {"normal": {"mean": mean, "variance": variance}} if _exactly(spec, 2):
            return Normal(mean, variance=variance)
        case {"beta": [alpha, beta]} | {"beta": {"alpha": alpha, "beta": beta}} if _exactly(spec, 2):
            return Beta(alpha, beta)
        case {"histogram": [*bars]} if len(spec) == 1:
            return Histogram(tuple(bars))
        case {"mixture": [*parts]} if len(spec) == 1:
            return _mixed(parts)
    return None


def _mixed(parts: list[Any]) -> Mixture:
    weights, laws = [], []
    for number, part in enumerate(parts):
        form = "{ weight = 1, beta = [2, 5] }"
        if not isinstance(part, Mapping) or set(part) != {"weight", "beta"}:
            raise BadInput(f"mixture[{number}]", part, form)
        with under(f"mixture[{number}]"):
            law = _parsed({"beta": part["beta"]})
        if not isinstance(law, Beta):
            raise BadInput(f"mixture[{number}].beta", part["beta"], form)
        weights.append(part["weight"])
        laws.append(law)
    return Mixture(tuple(weights), tuple(laws))


def _beta_fraction(a: float, b: float, x: Floats) -> Floats:
    """Evaluates the continued fraction of the incomplete beta function (DLMF 8.17.22) by Lentz's method."""
    c, d = np.ones_like(x), 1 / (1 - (a + b) / (a + 1) * x)
    value = d.copy()
    for m in range(1, 5000):
        even = m * (b - m) / ((a + 2 * m - 1) * (a + 2 * m)) * x
        d, c = 1 / (1 + even * d), 1 + even / c
        value *= c * d
        odd = -(a + m) * (a + b + m) / ((a + 2 * m) * (a + 2 * m + 1)) * x
        d, c = 1 / (1 + odd * d), 1 + odd / c
        change = c * d
        value *= change
        if not (np.abs(change - 1) > 1e-13).any():
            break
    return value


_erfc = np.vectorize(math.erfc, otypes=[np.float64])


def _number(name: str, value: Any, allowed: str, fits: Callable[[float], bool]) -> float:
    if not (is_real(value) and fits(value)):
        raise BadInput(name, value, allowed)
    return float(value)


def _numbers(name: str, values: Any, allowed: str, fits: Callable[[float], bool]) -> tuple[float, ...]:
    if not isinstance(values, Sequence | np.ndarray):
        raise BadInput(f"{name}s", values, "several numbers")
    return tuple(_number(f"{name} {i}", value, allowed, fits) for i, value in enumerate(values, 1))


def _short(value: float) -> str:
    return repr(value).removesuffix(".0")


def _exactly(spec: Mapping[str, Any], size: int) -> bool:
    return len(spec) == 1 and all(len(value) == size for value in spec.values())
