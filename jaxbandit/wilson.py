"""Intervals for a share of runs, or of other independent trials that succeed or fail, and for a quantile."""

import math
from statistics import NormalDist

Z = NormalDist().inv_cdf(0.975)


def share_interval(share: float, runs: int, z: float = Z) -> tuple[float, float]:
    """Returns Wilson's interval (1927) for a share of ``runs`` runs, at least 1; it holds ``share`` itself. ``z``: the
    normal quantile of its level, of 95 % unless told."""
    middle, scale = share + z * z / (2 * runs), 1 + z * z / runs
    half = z * math.sqrt(share * (1 - share) / runs + z * z / (4 * runs * runs))
    # Rounding must not put the share outside.
    return min(share, max(0.0, (middle - half) / scale)), max(share, min(1.0, (middle + half) / scale))


def quantile_places(probability: float, runs: int) -> tuple[int, int] | None:
    """Returns the places, from 0, of two of ``runs`` values in order between which a quantile lies, by the normal
    approximation of how many are below it; None where there are too few for that."""
    half = Z * math.sqrt(runs * probability * (1 - probability))
    low, high = math.floor(runs * probability - half) - 1, math.ceil(runs * probability + half)
    return (low, high) if low >= 0 and high < runs else None


def student(share: float, runs: int) -> float:
    """Returns a quantile of Student's t for the mean of so many runs, at least 2."""
    from scipy.special import stdtrit  # which takes a while to import

    return float(stdtrit(runs - 1, share))
