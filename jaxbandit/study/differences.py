"""How far the mean of paired differences may be from the true one, at the level of one of several intervals."""

import math
from statistics import NormalDist

import numpy as np

from jaxbandit.study.summary import Always
from jaxbandit.wilson import share_interval, student

MANY = 100
"""Runs from which on values that never varied tell something, though they have no bounds."""


def half_width(values: np.ndarray, level: float, planned: int | None, most: float) -> float | None:
    """Returns half of the width of an interval that misses with a probability of ``level``.

    Where few runs differ, Student's interval ends too early. So it is at least as wide as Wilson's for the share of
    runs in which one of both is ahead, as if each differed by 0 or by one size (``summary._rare``). Differences that
    are all the same tell how rarely another one comes, and ``most`` how far from them it may be.

    Args:
        values: the differences, float64 of shape (runs,).
        level: of this interval; ``planned``: see ``summary.Always``, None for Student's.
        most: what ``largest`` says.

    Returns:
        None where the differences never varied, and ``most`` is not known; and where their squares are no floats.
    """
    runs = values.size
    found = variance(values)
    z = NormalDist().inv_cdf(1 - level / 2)
    if found == 0:
        return (most + abs(float(values[0]))) * share_interval(0.0, runs, z)[1] if most else None
    if planned is None:
        half = student(1 - level / 2, runs) * math.sqrt(found / runs)
    else:
        half = Always(planned, level).half_width(found, runs)
    if not math.isfinite(found):
        return None
    size = float((values**2).mean() / np.abs(values).mean())
    for side in (np.maximum(values, 0), np.maximum(-values, 0)):
        often = min(1.0, float(side.mean()) / size)
        half = max(half, size * (share_interval(often, runs, z)[1] - often))
    return half


def variance(values: np.ndarray) -> float:
    """Returns the sample variance of at least two values: 0 where all are the same, which their mean is not always."""
    with np.errstate(invalid="ignore", over="ignore"):
        return float(values.var(ddof=1)) if np.ptp(values) != 0 else 0.0


def largest(values: np.ndarray, share: bool) -> float:
    """Returns how large a difference of two policies may be in a run that was not seen: 1 for shares, else as far apart
    as their values were, shape (2, runs); 0, for not known, where these are few."""
    if share:
        return 1.0
    return float(np.ptp(values)) if values.shape[1] >= MANY else 0.0


__all__ = ["MANY", "half_width", "largest", "variance"]
