"""Laws on [0, 1]: of probabilities of success (the sc-pdf of Cheng et al. 2010, sections 3.2 and 6), of arms' means.

On the host a law is exact, in float64. For drawing on a device it is tabulated once (``Quantiles``): the draws are then
integer arithmetic, so that they have the same bits on every device and in every batch.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array, lax
from jax.scipy.special import gammaln
from jax.typing import ArrayLike as Leaf
from numpy.typing import ArrayLike, NDArray

from jaxbandit.errors import BadInput, under

Floats = NDArray[np.float64]
Words = NDArray[np.uint32]

FORMS = '"uniform", { normal = { mean = 0.5, variance = 0.3 } }, { beta = [2, 5] } or { histogram = [1, 4, 2] }'
"""How a study file writes them."""

MAX_CONCENTRATION = 1e4
"""``fit_beta`` keeps alpha + beta within 0.01 and this."""

_UNIT = 2.0**32
_KNOTS = 32 * 256 + 1  # a side's: 256 an octave of v, from 2^-33 to 1/2
_FINE = 2**14  # more of them, for where the quantile function bends or jumps


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Quantiles:
    """The quantile function of a law, for use under ``jit`` and ``vmap``. A pytree, made by ``Law.quantiles``.

    A probability p is the word P, uint32, p = P / 2^32. The tables of all laws but ``identity`` have one shape, so that
    a sweep can stack them.

    The distance v of a word to the nearer end of [0, 1] chooses one of 256 pieces an octave, thus as fine in the tails
    as in the middle. On each, the distance of p to the same end is linear in v; pieces that are not straight enough are
    cut finer, all of a law's alike. The largest |CDF of the draws - CDF of the law| over all p, where p may be off by
    2^-32, was measured as 1.0e-7 for normal(0.5, 0.3), 2.2e-7 for beta(2, 5), 2.4e-7 for beta(1e5, 1e5), 5.2e-7 for
    beta(0.1, 0.1), 9.6e-6 for beta(0.01, 0.02), and 1.5e-8 for a histogram of six bars with gaps. It grows with the
    number of jumps between bars: 4.3e-6 for 100 bars of random heights, 4.6e-5 for 1000.

    Attributes:
        knots: uint32, shape (32770,): the words of p at the ends of the pieces, for the lower half; then those of 1 - p
            for the upper one; then the finer ones.
        guide: uint32, shape (16386,): for each piece, 16 times its first knot + the log2 of the parts it is cut into.
        identity: whether P is the word itself, the uniform law; the tables are then empty.
    """

    knots: Leaf
    guide: Leaf
    identity: bool = field(default=False, metadata={"static": True})

    def draw(self, word: Array) -> Array:
        """P of uniform random words, elementwise: the quantile of (word + 1/2) / 2^32, increasing. Both uint32."""
        if self.identity:
            return word
        upper = word >> jnp.uint32(31)
        distance = jnp.where(upper == 1, ~word, word)
        # Two roundings, each fixed by IEEE 754; there is no product that a compiler could fuse with the sum.
        near = self._near(distance.astype(jnp.int32).astype(jnp.float32) + jnp.float32(0.5), upper)
        return jnp.where(upper == 1, ~near, near)

    def draw_upper(self, v: Array) -> Array:
        """P (uint32) with the probability ``v`` (float32, in (0, 1]) above it: keeps v's relative precision.

        A v below 2^-33 counts as 2^-33.
        """
        v = jnp.asarray(v, jnp.float32)
        upper = (v <= 0.5).astype(jnp.uint32)
        units = jnp.maximum(jnp.where(upper == 1, v, 1 - v), jnp.float32(2**-33)) * jnp.float32(_UNIT)
        near = units.astype(jnp.uint32) if self.identity else self._near(units, upper)
        return jnp.where(upper == 1, ~near, near)

    def _near(self, units: Array, upper: Array) -> Array:
        """The distance of p to the near end, at ``units`` (float32, 1/2 to 2^31) times 2^-32 of probability from it."""
        bits = lax.bitcast_convert_type(units, jnp.uint32) - jnp.uint32(126 << 23)  # 126: the exponent of 1/2
        knots, guide = jnp.asarray(self.knots), jnp.asarray(self.guide)
        fifteen, mask = jnp.uint32(15), jnp.uint32(0x7FFF)
        entry = _at(guide, upper * jnp.uint32(_KNOTS) + (bits >> fifteen))
        rest = (bits & mask) << (entry & jnp.uint32(15))
        first, rest = (entry >> jnp.uint32(4)) + (rest >> fifteen), rest & mask
        start = _at(knots, first)
        rise = _at(knots, first + jnp.uint32(1)) - start
        near: Array = start + (rise >> fifteen) * rest + ((rise & mask) * rest >> fifteen)
        return near


def _at(table: Array, index: Array) -> Array:
    found: Array = table.at[index.astype(jnp.int32)].get(mode="clip")  # so that not even a NaN reads elsewhere
    return found


class Law:
    """A law on [0, 1]: the base of ``Uniform``, ``Normal``, ``Beta`` and ``Histogram``."""

    def cdf(self, x: ArrayLike) -> Floats:
        """P(p <= x), elementwise, float64; x is taken to be within [0, 1].

        Near 0 its relative error is small; for small tails near 1 use ``survival``.
        """
        raise NotImplementedError

    def mean(self) -> float:
        """E[p]."""
        raise NotImplementedError

    def describe(self) -> str:
        """A short name, such as ``beta(2, 5)``."""
        raise NotImplementedError

    def complement(self) -> "Law":
        """The law of 1 - p. At a distance y from 1, ``complement().cdf(y)`` is the tail, whatever 1 - y rounds to."""
        raise NotImplementedError

    def survival(self, x: ArrayLike) -> Floats:
        """P(p > x), elementwise, float64; x is taken to be within [0, 1]. Its relative error is small, even near 1."""
        x = np.asarray(x, np.float64)
        below = self.cdf(x)
        return np.where(below < 0.5, 1 - below, self.complement().cdf(1 - x))

    def cells(self, delta: float) -> Floats:
        """The probabilities of the ceil(1 / delta) equal cells of [0, 1]: float64, their sum is 1.

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
        """The law for drawing on a device; ``table``: not as ``identity``, even where it could be."""
        return _quantiles(self)


@dataclass(frozen=True)
class Uniform(Law):
    """The uniform law on [0, 1], the default of section 6.

    Example:
        >>> from jaxbandit import cleaning
        >>> round(cleaning.Uniform().mean(), 3)
        0.5
    """

    def cdf(self, x: ArrayLike) -> Floats:
        """See ``Law.cdf``."""
        return np.asarray(x, np.float64)

    def mean(self) -> float:
        """See ``Law.mean``."""
        return 0.5

    def describe(self) -> str:
        """See ``Law.describe``."""
        return "uniform"

    def complement(self) -> Law:
        """See ``Law.complement``."""
        return self

    def quantiles(self, table: bool = False) -> Quantiles:
        """See ``Law.quantiles``."""
        return _quantiles(self) if table else Quantiles(np.zeros(0, np.uint32), np.zeros(0, np.uint32), identity=True)


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
        object.__setattr__(self, "location", _number("normal.mean", mean, "a finite number", lambda x: abs(x) < 1e300))
        allowed = "a number above 0, at most 1e6"
        object.__setattr__(self, "variance", _number("normal.variance", variance, allowed, lambda x: 0 < x <= 1e6))
        if not self._mass(1.0) >= 1e-300:
            raise BadInput("normal.mean", mean, f"with variance {variance!r}, no probability is left within [0, 1]")

    def _mass(self, x: ArrayLike) -> Floats:
        """The probability of [0, x] before truncation."""
        scale = math.sqrt(2 * self.variance)
        with np.errstate(over="ignore"):
            start, z = -self.location / scale, (np.asarray(x, np.float64) - self.location) / scale
        tail = 0.5 * np.asarray(_erfc(np.abs(z)))
        # Differences of the tail on z's own side, as those of the other would cancel.
        return np.asarray(np.where(z <= 0, tail - 0.5 * math.erfc(-start), 0.5 * math.erfc(start) - tail))

    def cdf(self, x: ArrayLike) -> Floats:
        """See ``Law.cdf``."""
        return np.clip(self._mass(x) / self._mass(1.0), 0, 1)

    def mean(self) -> float:
        """See ``Law.mean``."""
        density = [math.exp(-((x - self.location) ** 2) / (2 * self.variance)) for x in (0, 1)]
        shift = math.sqrt(self.variance / (2 * math.pi)) * (density[0] - density[1]) / float(self._mass(1.0))
        return min(max(self.location + shift, 0.0), 1.0)

    def describe(self) -> str:
        """See ``Law.describe``."""
        return f"normal({_short(self.location)}, {_short(self.variance)})"

    def complement(self) -> Law:
        """See ``Law.complement``."""
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
        """See ``Law.cdf``."""
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
        """See ``Law.mean``."""
        return self.alpha / (self.alpha + self.beta)

    def describe(self) -> str:
        """See ``Law.describe``."""
        return f"beta({_short(self.alpha)}, {_short(self.beta)})"

    def complement(self) -> Law:
        """See ``Law.complement``."""
        return Beta(self.beta, self.alpha)


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
        bars = tuple(
            _number(f"histogram bar {i}", bar, "a number of at least 0", lambda x: 0 <= x < math.inf)
            for i, bar in enumerate(self.bars, 1)
        )
        object.__setattr__(self, "bars", bars)
        if not bars or max(bars) == 0:
            raise BadInput("histogram", f"{len(bars)} bars", "does not integrate: at least one bar must be above 0")

    def _masses(self) -> Floats:
        bars = np.asarray(self.bars) / max(self.bars)  # so that the sum does not overflow
        return np.asarray(bars / bars.sum())

    def cdf(self, x: ArrayLike) -> Floats:
        """See ``Law.cdf``."""
        masses = self._masses()
        below = np.minimum(np.append(0.0, masses.cumsum()), 1)
        below[np.flatnonzero(masses)[-1] + 1 :] = 1
        return np.asarray(np.interp(np.asarray(x, np.float64), np.linspace(0, 1, below.size), below))

    def mean(self) -> float:
        """See ``Law.mean``."""
        masses = self._masses()
        return float(masses @ (np.arange(masses.size) + 0.5) / masses.size)

    def describe(self) -> str:
        """See ``Law.describe``."""
        return f"histogram({len(self.bars)} bars)"

    def complement(self) -> Law:
        """See ``Law.complement``."""
        return Histogram(self.bars[::-1])


def parse(field: str, spec: Any) -> Law:
    """The law that a study file describes.

    Args:
        field: the key where it stands, for errors.
        spec: ``"uniform"``, ``{"normal": {"mean": 0.5, "variance": 0.3}}`` (the mean may be left out),
            ``{"beta": [2, 5]}``, ``{"beta": {"alpha": 2, "beta": 5}}`` or ``{"histogram": [1, 4, 2]}``.

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
    return None


def fit_beta(successes: ArrayLike, attempts: ArrayLike) -> Beta:
    """The beta law of greatest likelihood given an agent's records ("previous cleaning performance", section 3.2).

    Each entity's number of successes is binomial with a p of its own from the law, thus beta-binomial. Fitted by L-BFGS
    on (logit of the mean, bounded log of alpha + beta), from the pooled mean and the best of 65 concentrations.

    Where the records scatter no more than one common p would have them do, the likelihood rises without end as the law
    narrows; alpha + beta then comes out at its bound, ``MAX_CONCENTRATION``. So it does at 0.01 where every entity
    succeeds always or never. With one attempt an entity, only the mean can be learnt.

    Args:
        successes, attempts: whole numbers up to 2^31 - 1, shape (entities,), of operations on each entity. Entities
            without an attempt are left out.

    Raises:
        BadInput: for records that are not such numbers or have more successes than attempts, and where there is not at
            least one success and one failure among them: no law is then best.

    Example:
        >>> from jaxbandit import cleaning
        >>> law = cleaning.fit_beta([1, 4, 2, 5, 0, 3], [3, 5, 6, 6, 4, 5])
        >>> round(law.mean(), 2)
        0.5
    """
    s, n = _whole("successes", successes), _whole("attempts", attempts)
    if s.ndim != 1 or s.shape != n.shape:
        raise BadInput("successes", f"shape {s.shape}", f"a list as long as attempts, which has shape {n.shape}")
    for i in np.flatnonzero(s > n)[:1]:
        raise BadInput(f"successes[{i}]", int(s[i]), f"at most the {n[i]} attempts")
    if not n.any():
        raise BadInput("attempts", "none above 0", "at least one record with an attempt")
    if not 0 < s.sum() < n.sum():
        raise BadInput("successes", f"{s.sum()} of {n.sum()}", "at least one success and one failure among the records")
    pairs, counts = np.unique(np.stack([s, n])[:, n > 0], axis=1, return_counts=True)
    # Padded with nothing to a power of two, so that few sizes are ever compiled.
    padded = np.zeros((3, max(1024, 1 << (counts.size - 1).bit_length())))
    padded[:, : counts.size] = *pairs, counts / counts.sum()
    with jax.enable_x64(True):
        alpha, beta, slope = map(float, _fit(*padded))
    if not slope < 1e-6:
        raise RuntimeError(f"fit_beta did not converge: slope {slope:.1e} at beta({alpha:g}, {beta:g})")
    return Beta(alpha, beta)


@jax.jit
def _fit(s: Array, n: Array, weight: Array) -> tuple[Array, Array, Array]:
    """alpha, beta and the norm of the gradient there; ``weight``: the share of the records that are (s, n)."""
    low, high = math.log(0.01), math.log(MAX_CONCENTRATION)

    def law(x: Array) -> tuple[Array, Array]:
        size = jnp.exp(low + (high - low) * jax.nn.sigmoid(x[1]))
        return size * jax.nn.sigmoid(x[0]), size * jax.nn.sigmoid(-x[0])

    def loss(x: Array) -> Array:
        a, b = law(x)
        # In one call, since a gammaln takes long to compile: log B(s + a, n - s + b) - log B(a, b).
        logs = gammaln(jnp.stack(jnp.broadcast_arrays(s + a, n - s + b, a + b, n + a + b, a, b)))
        return -jnp.sum(weight * (jnp.array([1.0, 1, 1, -1, -1, -1]) @ logs))

    pooled = jnp.log(weight @ s) - jnp.log(weight @ (n - s))
    starts = jnp.stack(jnp.broadcast_arrays(pooled, jnp.linspace(-8.0, 8.0, 65)), axis=-1)
    start = starts[jnp.argmin(lax.map(loss, starts))]
    solver = optax.lbfgs(memory_size=4)
    value_and_grad = optax.value_and_grad_from_state(loss)

    def slope(state: Any) -> Array:
        norm: Array = jnp.linalg.norm(optax.tree_utils.tree_get(state, "grad"))
        return norm

    def step(carry: Any) -> Any:
        x, state, i = carry
        value, grad = value_and_grad(x, state=state)
        change, state = solver.update(grad, state, x, value=value, grad=grad, value_fn=loss)
        return x + change, state, i + 1

    def going(carry: Any) -> Any:
        _, state, i = carry
        return (i == 0) | (i < 200) & (slope(state) > 1e-9)

    x, state, _ = lax.while_loop(going, step, (start, solver.init(start), 0))
    return (*law(x), slope(state))


@lru_cache(maxsize=64)
def _quantiles(law: Law) -> Quantiles:
    """Both sides' tables, and finer knots where a straight piece is off the most."""
    place = np.arange(_KNOTS)
    units = np.ldexp(1 + place % 256 / 256, place // 256 - 1)
    sides = law, law.complement()
    rough = [_words(side, units) for side in sides]
    rough[1] = np.minimum(rough[1], ~rough[0][-1])  # so that no rounding lets the halves overlap
    error = np.stack([_bend(side, units, knots) for side, knots in zip(sides, rough, strict=True)]).ravel()
    start, cut = np.arange(2 * _KNOTS), np.zeros(2 * _KNOTS, int)
    worst = np.argsort(-error, kind="stable")[: min(int((error > 2e-7).sum()), _FINE // 5)]
    fine = np.zeros(_FINE, np.uint32)
    if worst.size:
        log = min(12, int(math.log2(_FINE // worst.size - 1)))
        parts = 2**log + 1
        start[worst], cut[worst] = 2 * _KNOTS + parts * np.arange(worst.size), log
        for upper, side in enumerate(sides):
            mine = np.flatnonzero(worst // _KNOTS == upper)
            piece = worst[mine] % _KNOTS
            finer = units[piece, None] + np.diff(units)[piece, None] * np.linspace(0, 1, parts)
            ends = rough[upper][piece, None], rough[upper][piece + 1, None]
            fine[mine[:, None] * parts + np.arange(parts)] = np.clip(_words(side, finer), *ends)
    knots = np.concatenate([*rough, fine])
    guide = (16 * start + cut).astype(np.uint32)
    for array in (knots, guide):
        array.flags.writeable = False  # the cache hands them to all
    return Quantiles(knots, guide)


def _words(law: Law, units: Floats) -> Words:
    """The P with the quantile of units / 2^32 in (P, P + 1] / 2^32, by bisection."""
    low, high = np.zeros(units.shape, np.int64), np.full(units.shape, 2**32 - 1)
    for _ in range(32):
        middle = (low + high) // 2
        enough = law.cdf((middle + 1) / _UNIT) >= units / _UNIT
        low, high = np.where(enough, low, middle + 1), np.where(enough, middle, high)
    # Rounding can make a cdf step back by a bit.
    return np.maximum.accumulate(low, axis=-1).astype(np.uint32)


def _bend(law: Law, units: Floats, knots: Words) -> Floats:
    """How far the CDF of a straight piece is off, at a quarter, a half and three quarters of it. The last is 0."""
    error = np.zeros(units.shape)
    first, rise = knots[:-1].astype(np.float64), np.diff(knots.astype(np.float64))
    for part in (0.25, 0.5, 0.75):
        v = (units[:-1] + part * np.diff(units)) / _UNIT
        error[:-1] = np.maximum(error[:-1], _off(law, np.floor(first + part * rise), v))
    return error


def _off(law: Law, word: Floats, v: Floats) -> Floats:
    """How far v is outside the range of the CDF over the cell (word, word + 1] and its two neighbours."""
    low, high = np.maximum(word - 1, 0) / _UNIT, np.minimum(word + 2, _UNIT) / _UNIT
    return np.maximum(np.maximum(law.cdf(low) - v, v - law.cdf(high)), 0)


def _beta_fraction(a: float, b: float, x: Floats) -> Floats:
    """The continued fraction of the incomplete beta function (DLMF 8.17.22) by Lentz's method."""
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
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not (number and fits(value)):
        raise BadInput(name, value, allowed)
    return float(value)


def _short(value: float) -> str:
    return repr(value).removesuffix(".0")


def _exactly(spec: Mapping[str, Any], size: int) -> bool:
    return len(spec) == 1 and all(len(value) == size for value in spec.values())


def _whole(name: str, values: ArrayLike) -> NDArray[np.int64]:
    array = np.asarray(values)
    if array.dtype == bool or not np.issubdtype(array.dtype, np.number) or np.iscomplexobj(array):
        raise BadInput(name, f"{array.dtype} of shape {array.shape}", "a list of whole numbers")
    for place in np.argwhere(~((array >= 0) & (array < 2**31) & (array == np.floor(array))))[:1]:
        bad = array[tuple(place)]
        raise BadInput(f"{name}[{', '.join(map(str, place))}]", bad.item(), "a whole number from 0 to 2147483647")
    return array.astype(np.int64)
