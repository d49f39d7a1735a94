"""Upper bounds on the pulls of rules with bounded intervals, by known means: Theorems 2 and 3 of Zhuang, Wang and Wang,
"Identifying Outlier Arms in Multi-Armed Bandit", NIPS 2017, and Theorem 5.7 of Ban and He, "Generic Outlier Detection
in Multi-Armed Bandit", KDD 2020. All on the host.
"""

from collections.abc import Sequence
from math import inf, log, pi, sqrt
from typing import Literal

import numpy as np

from jaxbandit.outliers.gold import factor
from jaxbandit.outliers.intervals import width_of_threshold
from jaxbandit.outliers.wrr import rho_star


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


def gold_bound(
    means: Sequence[float], eps: float, delta: float, width: float = 1.0, form: Literal["printed", "proof"] = "printed"
) -> float:
    """Theorem 5.7: the same for GOLD. The proof has the smallest gap of two means squared where it is printed plain."""
    n, y = len(means), np.sort(np.asarray(means, np.float64))
    gap = float(np.diff(y).min()) if n > 1 else 0.0
    if gap == 0:
        return inf
    d3 = 2 * (factor(eps) + 1) ** 2 * width**2 / gap ** (2 if form == "proof" else 1)
    return 4 * d3 * n * (log(2 * d3 * n) + log(sqrt(pi**2 * n / (6 * delta)))) + 2 * (n - 1)
