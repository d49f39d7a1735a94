"""Definitions of outliers, for arms whose means are known. All functions run on the host.

Zhuang, Wang and Wang, "Identifying Outlier Arms in Multi-Armed Bandit", NIPS 2017: k-sigma. Ban and He, "Generic
Outlier Detection in Multi-Armed Bandit", KDD 2020: (eps, rho)-outliers (Definitions 3.1 and 3.2).

Membership is decided on exact fractions; a float stands for the decimal that prints it, so that 0.9 is 9/10.
"""

from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate, pairwise
from math import exp
from typing import Literal

from jaxbandit.errors import BadInput
from jaxbandit.parsers import as_printed

Number = float | Fraction
Sizes = Literal["above", "at-least"]
"""Constraint (2) asks for more than rho n normal arms as printed, or for at least rho n, as the paper generates."""


def k_sigma_outliers(means: Sequence[Number], k: Number, *, two_sided: bool = False) -> frozenset[int]:
    """Returns the arms whose mean is above mu + k sigma, with the population's sigma (Zhuang et al., section 3).

    ``two_sided``: also the arms below mu - k sigma. Raises BadInput for fewer than three arms and for k <= 0.
    """
    if len(means) < 3:
        raise BadInput("means", list(means), "at least three of them")
    if not k > 0:
        raise BadInput("k", k, "above 0")
    y = [as_printed(v) for v in means]
    gaps = [v - sum(y) / len(y) for v in y]
    square = as_printed(k) ** 2 * sum(g * g for g in gaps) / len(y)
    return frozenset(i for i, g in enumerate(gaps) if g * g > square and (g > 0 or two_sided))


def robust_outliers(means: Sequence[Number], k: Number, *, two_sided: bool = False) -> frozenset[int]:
    """Returns the same with the median for mu and 1.4826 times the median absolute deviation for sigma, which is not in
    the papers."""
    if len(means) < 3:
        raise BadInput("means", list(means), "at least three of them")
    if not k > 0:
        raise BadInput("k", k, "above 0")
    y = [as_printed(v) for v in means]
    gaps = [v - _median(y) for v in y]
    limit = as_printed(k) * Fraction("1.4826") * _median([abs(g) for g in gaps])
    return frozenset(i for i, g in enumerate(gaps) if g > limit or (two_sided and -g > limit))


def _median(values: Sequence[Fraction]) -> Fraction:
    ordered, half = sorted(values), len(values) // 2
    return ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2


def _checked(eps: Number, rho: Number) -> tuple[Fraction, Fraction]:
    if not eps > exp(1 / 16) - 1:
        raise BadInput("eps", eps, f"above e^(1/16) - 1 = {exp(1 / 16) - 1:.6f}")
    if not 0.5 < rho < 1:
        raise BadInput("rho", rho, "between 0.5 and 1")
    return as_printed(eps), as_printed(rho)


def _large(lower: int, upper: int, n: int, rho: Fraction, sizes: Sizes) -> bool:
    """Returns whether there are enough normal arms on both sides: constraint (2)."""
    enough = lower + upper > rho * n or (sizes == "at-least" and lower + upper == rho * n)
    return enough and all(size == 0 or size > (1 - rho) * n for size in (lower, upper))


def outlier_groups(means: Sequence[Number], eps: Number, rho: Number, sizes: Sizes = "above") -> list[frozenset[int]]:
    """Returns all (eps, rho)-outlier arm groups (Definition 3.2), smaller ones first."""
    e, share = _checked(eps, rho)
    y = [as_printed(v) for v in means]
    order, n = sorted(range(len(y)), key=lambda i: (y[i], i)), len(y)
    ranked = [y[i] for i in order]
    gaps = [b - a for a, b in pairwise(ranked)]
    below, above = _reaches(gaps, e), _reaches(gaps[::-1], e)
    # A group is between a gap that is wide enough for all arms below it, and one for all arms above.
    starts = [first for first in range(n) if not first or gaps[first - 1] > below[first]]
    ends = [end for end in range(1, n + 1) if end == n or gaps[end - 1] > above[n - end]]
    found = []
    for _, first, end in sorted((end - first, first, end) for first in starts for end in ends if first < end):
        nearest = [gaps[side - 1] for side in (first, end) if 0 < side < n]
        inner = max(below[first], above[n - end])
        if _large(first, n - end, n, share, sizes) and all(gap > inner for gap in nearest):
            found.append(frozenset(order[first:end]))
    return found


def _reaches(gaps: Sequence[Fraction], eps: Fraction) -> list[Fraction]:
    """Returns 1 + eps times the largest gap among the first 0, 1, 2 ... means."""
    return [(1 + eps) * widest for widest in (Fraction(0), *accumulate(gaps, max, initial=Fraction(0)))]
