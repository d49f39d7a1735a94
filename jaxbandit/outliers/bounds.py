"""Upper bounds on the pulls of rules with bounded intervals, by known means: Theorems 2 and 3 of Zhuang, Wang and Wang,
"Identifying Outlier Arms in Multi-Armed Bandit", NIPS 2017, and Theorem 5.7 of Ban and He, "Generic Outlier Detection
in Multi-Armed Bandit", KDD 2020. All functions run on the host.
"""

from collections.abc import Sequence
from math import inf, log, pi, sqrt
from typing import Literal

import numpy as np

from jaxbandit.outliers.gold import factor
from jaxbandit.outliers.intervals import width_of_threshold
from jaxbandit.outliers.wrr import rho_star


def _hardness(means: Sequence[float], k: float) -> tuple[float, float]:
    """Returns H1 = n / min (y_i - theta)^2 and H2, the sum of 1 / (y_i - theta)^2."""
    y = np.asarray(means, np.float64)
    squares = (y - (y.mean() + k * y.std())) ** 2
    return (inf, inf) if squares.min() == 0 else (float(y.size / squares.min()), float((1 / squares).sum()))


def _pulls(h: float, n: int, delta: float, width: float) -> float:
    if h == inf:
        return inf
    return 8 * width**2 * h * (log(2 * width**2 * pi**2 * (n + 1) * h / (3 * delta)) + 1)


def rr_bound(means: Sequence[float], k: float, delta: float, width: float = 1.0) -> float:
    """Returns the pulls that RR with bounded intervals stays below with probability 1 - delta (Theorem 2)."""
    n = len(means)
    h = _hardness(means, k)[0] * (1 + sqrt(width_of_threshold(n, k, delta))) ** 2
    return _pulls(h, n, delta, width) + 4 * n


def wrr_bound(means: Sequence[float], k: float, delta: float, rho: float | None = None, width: float = 1.0) -> float:
    """Returns the same for WRR (Theorem 3); ``rho`` is that of equation 6 where it is left out."""
    n = len(means)
    rho = rho_star(n, k, delta) if rho is None else rho
    h1, h2 = _hardness(means, k)
    h = (h1 / rho + (rho - 1) * h2 / rho) * (1 + sqrt(width_of_threshold(n, k, delta) * rho)) ** 2
    return _pulls(h, n, delta, width) + 2 * (rho + 2) * n


def gold_bound(
    means: Sequence[float], eps: float, delta: float, width: float = 1.0, form: Literal["printed", "proof"] = "printed"
) -> float:
    """Returns the same for GOLD (Theorem 5.7). In the proof, the smallest gap of two means is squared; as printed, it
    is not."""
    n, y = len(means), np.sort(np.asarray(means, np.float64))
    gap = float(np.diff(y).min()) if n > 1 else 0.0
    if gap == 0:
        return inf
    d3 = 2 * (factor(eps) + 1) ** 2 * width**2 / gap ** (2 if form == "proof" else 1)
    return 4 * d3 * n * (log(2 * d3 * n) + log(sqrt(pi**2 * n / (6 * delta)))) + 2 * (n - 1)
