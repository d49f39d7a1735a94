"""Intervals of 95 % for a share of runs, or of other independent trials that succeed or fail, and for a quantile."""

import math
from statistics import NormalDist

Z = NormalDist().inv_cdf(0.975)


def share_interval(share: float, runs: int) -> tuple[float, float]:
    """Returns Wilson's 95 % interval (1927) for a share of ``runs`` runs, at least 1; it holds ``share`` itself."""
    middle, scale = share + Z * Z / (2 * runs), 1 + Z * Z / runs
    half = Z * math.sqrt(share * (1 - share) / runs + Z * Z / (4 * runs * runs))
    # Rounding must not put the share outside.
    return min(share, max(0.0, (middle - half) / scale)), max(share, min(1.0, (middle + half) / scale))


def quantile_places(probability: float, runs: int) -> tuple[int, int] | None:
    """Returns the places, from 0, of two of ``runs`` values in order between which a quantile lies, by the normal
    approximation of how many are below it; None where there are too few for that."""
    half = Z * math.sqrt(runs * probability * (1 - probability))
    low, high = math.floor(runs * probability - half) - 1, math.ceil(runs * probability + half)
    return (low, high) if low >= 0 and high < runs else None
