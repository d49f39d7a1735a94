"""What an outlier is, by known means, and upper bounds on pulls. All on the host.

Zhuang, Wang and Wang, "Identifying Outlier Arms in Multi-Armed Bandit", NIPS 2017: k-sigma, Theorems 2 and 3. Ban and
He, "Generic Outlier Detection in Multi-Armed Bandit", KDD 2020: (eps, rho)-outliers (Definitions 3.1 and 3.2) and
Theorem 5.7.

Membership is decided on exact fractions; a float stands for the decimal that prints it, so that 0.9 is 9/10.
"""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import pairwise
from math import exp, inf, log, pi, sqrt
from typing import Literal

import numpy as np

from jaxbandit.errors import BadInput
from jaxbandit.outliers.intervals import width_of_threshold
from jaxbandit.outliers.wrr import rho_star

Number = float | Fraction
Sizes = Literal["above", "at-least"]
"""Constraint (2) asks for more than rho n normal arms as printed, or for at least rho n, as its data have."""


def _exact(x: Number) -> Fraction:
    return Fraction(x) if isinstance(x, Fraction | int) else Fraction(repr(float(x)))


def k_sigma_outliers(means: Sequence[Number], k: Number, *, two_sided: bool = False) -> frozenset[int]:
    """The arms whose mean is above mu + k sigma, sigma being the population's (Zhuang et al., section 3).

    ``two_sided``: those below mu - k sigma too. Raises BadInput for fewer than three arms and for k <= 0.
    """
    if len(means) < 3:
        raise BadInput("means", list(means), "at least three of them")
    if not k > 0:
        raise BadInput("k", k, "above 0")
    y = [_exact(v) for v in means]
    gaps = [v - sum(y) / len(y) for v in y]
    square = _exact(k) ** 2 * sum(g * g for g in gaps) / len(y)
    return frozenset(i for i, g in enumerate(gaps) if g * g > square and (g > 0 or two_sided))


def robust_outliers(means: Sequence[Number], k: Number, *, two_sided: bool = False) -> frozenset[int]:
    """The same with the median for mu and 1.4826 times the median absolute deviation for sigma (beyond the papers)."""
    if len(means) < 3:
        raise BadInput("means", list(means), "at least three of them")
    if not k > 0:
        raise BadInput("k", k, "above 0")
    y = [_exact(v) for v in means]
    gaps = [v - _median(y) for v in y]
    limit = _exact(k) * Fraction("1.4826") * _median([abs(g) for g in gaps])
    return frozenset(i for i, g in enumerate(gaps) if g > limit or (two_sided and -g > limit))


def _median(values: Sequence[Fraction]) -> Fraction:
    ordered, half = sorted(values), len(values) // 2
    return ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2


def _checked(eps: Number, rho: Number) -> tuple[Fraction, Fraction]:
    if not eps > exp(1 / 16) - 1:
        raise BadInput("eps", eps, f"above e^(1/16) - 1 = {exp(1 / 16) - 1:.6f}")
    if not 0.5 < rho < 1:
        raise BadInput("rho", rho, "between 0.5 and 1")
    return _exact(eps), _exact(rho)


def _widest(side: Sequence[Fraction]) -> Fraction:
    """The largest neighbourhood distance within a side, whose means come in order."""
    return max((b - a for a, b in pairwise(side)), default=Fraction(0))


def _apart(y: Fraction, lower: Sequence[Fraction], upper: Sequence[Fraction], eps: Fraction) -> bool:
    """Constraint (1) for a mean between two sides, each in order; a side without arms asks for nothing."""
    inner = max(_widest(lower), _widest(upper))
    nearest = [abs(y - side[end]) for side, end in ((lower, -1), (upper, 0)) if side]
    return all(gap > (1 + eps) * inner for gap in nearest)


def _large(lower: int, upper: int, n: int, rho: Fraction, sizes: Sizes) -> bool:
    """Constraint (2)."""
    enough = lower + upper > rho * n or (sizes == "at-least" and lower + upper == rho * n)
    return enough and all(size == 0 or size > (1 - rho) * n for size in (lower, upper))


def outlier_groups(means: Sequence[Number], eps: Number, rho: Number, sizes: Sizes = "above") -> list[frozenset[int]]:
    """All (eps, rho)-outlier arm groups (Definition 3.2), smaller ones first; all other arms are above or below one."""
    e, share = _checked(eps, rho)
    y = [_exact(v) for v in means]
    order, n = sorted(range(len(y)), key=lambda i: (y[i], i)), len(y)
    ranked = [y[i] for i in order]
    found = []
    for size in range(1, n):
        for first in range(n - size + 1):
            lower, upper = ranked[:first], ranked[first + size :]
            inside = ranked[first : first + size]
            alone = (not lower or lower[-1] < inside[0]) and (not upper or upper[0] > inside[-1])
            if (
                alone
                and _large(len(lower), len(upper), n, share, sizes)
                and all(_apart(v, lower, upper, e) for v in (inside[0], inside[-1]))
            ):
                found.append(frozenset(order[first : first + size]))
    return found


def outlier_arms(means: Sequence[Number], eps: Number, rho: Number, sizes: Sizes = "above") -> frozenset[int]:
    """All (eps, rho)-outlier arms (Definition 3.1): the normal arms above and below are runs of the sorted means."""
    e, share = _checked(eps, rho)
    y = [_exact(v) for v in means]
    n = len(y)

    def runs(side: Iterable[Fraction]) -> list[list[Fraction]]:
        ordered = sorted(side)
        return [[], *(ordered[a:b] for a in range(len(ordered)) for b in range(a + 1, len(ordered) + 1))]

    return frozenset(
        j
        for j, own in enumerate(y)
        if any(
            _large(len(lower), len(upper), n, share, sizes) and _apart(own, lower, upper, e)
            for upper in runs(v for v in y if v > own)
            for lower in runs(v for v in y if v < own)
        )
    )


def _hardness(means: Sequence[float], k: float) -> tuple[float, float]:
    """H1 = n / min (y_i - theta)^2 and H2, the sum of 1 / (y_i - theta)^2."""
    y = np.asarray(means, np.float64)
    squares = (y - (y.mean() + k * y.std())) ** 2
    return (inf, inf) if squares.min() == 0 else (float(y.size / squares.min()), float((1 / squares).sum()))


def _pulls(h: float, n: int, delta: float, width: float) -> float:
    if h == inf:
        return inf
    return 8 * width**2 * h * (log(2 * width**2 * pi**2 * (n + 1) * h / (3 * delta)) + 1)


def rr_bound(means: Sequence[float], k: float, delta: float, width: float = 1.0) -> float:
    """Theorem 2: RR with bounded intervals stays below this many pulls with probability 1 - delta."""
    n = len(means)
    h = _hardness(means, k)[0] * (1 + sqrt(width_of_threshold(n, k, delta))) ** 2
    return _pulls(h, n, delta, width) + 4 * n


def wrr_bound(means: Sequence[float], k: float, delta: float, rho: float | None = None, width: float = 1.0) -> float:
    """Theorem 3: the same for WRR; ``rho`` is that of Eq. 6 where left out."""
    n = len(means)
    share = rho_star(n, k, delta) if rho is None else rho
    h1, h2 = _hardness(means, k)
    h = (h1 / share + (share - 1) * h2 / share) * (1 + sqrt(width_of_threshold(n, k, delta) * share)) ** 2
    return _pulls(h, n, delta, width) + 2 * (share + 2) * n


def gold_factor(eps: float) -> float:
    """b of Eq. 3 (Ban and He). Raises BadInput for eps <= e^(1/16) - 1."""
    root = exp(1 / 16)
    if not eps > root - 1:
        raise BadInput("eps", eps, f"above e^(1/16) - 1 = {root - 1:.6f}")
    return (1 + root + eps) / (1 - root + eps)


def gold_bound(
    means: Sequence[float], eps: float, delta: float, width: float = 1.0, form: Literal["printed", "proof"] = "printed"
) -> float:
    """Theorem 5.7: the same for GOLD. The proof has the smallest gap of two means squared where it is printed plain."""
    n, y = len(means), np.sort(np.asarray(means, np.float64))
    gap = float(np.diff(y).min()) if n > 1 else 0.0
    if gap == 0:
        return inf
    d3 = 2 * (gold_factor(eps) + 1) ** 2 * width**2 / gap ** (2 if form == "proof" else 1)
    return 4 * d3 * n * (log(2 * d3 * n) + log(sqrt(pi**2 * n / (6 * delta)))) + 2 * (n - 1)
