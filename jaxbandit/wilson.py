"""The interval for a share: of runs, or of any other independent trials that succeed or fail."""

import math
from statistics import NormalDist

_Z = NormalDist().inv_cdf(0.975)


def share_interval(share: float, runs: int) -> tuple[float, float]:
    """Returns Wilson's 95 % interval (1927) for a share of ``runs`` runs, at least 1; it holds ``share`` itself."""
    middle, scale = share + _Z * _Z / (2 * runs), 1 + _Z * _Z / runs
    half = _Z * math.sqrt(share * (1 - share) / runs + _Z * _Z / (4 * runs * runs))
    # Rounding must not put the share outside.
    return min(share, max(0.0, (middle - half) / scale)), max(share, min(1.0, (middle + half) / scale))
