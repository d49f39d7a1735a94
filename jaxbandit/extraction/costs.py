"""What a query q^v(k, E) costs: by k, l = |E| and the specificity s of v. Exact, in integers of a common unit."""

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from jaxbandit.errors import BadInput

Configurations = tuple[tuple[int, int], ...]
"""The pairs (k, l) that may be asked."""

CONFIGURATIONS: Configurations = ((5, 0), (10, 0), (20, 0), (5, 2), (10, 5), (20, 5), (20, 10))
"""Those of the paper's experiments."""

MODELS = ("linear", "step")

_K_MAX, _L_MAX = 20, 10
_STEP_K = {5: Fraction(20, 100), 10: Fraction(60, 100), 20: Fraction(80, 100)}
_STEP_L = {0: Fraction(0), 2: Fraction(10, 100), 5: Fraction(50, 100), 10: Fraction(70, 100)}


def linear(k: int, length: int, s: int, s_max: int) -> Fraction:
    """Returns the paper's linear cost of a query, k / 20 + 5 l / 10 + s / s_max."""
    return Fraction(k, _K_MAX) + 5 * Fraction(length, _L_MAX) + Fraction(s, s_max)


def step(k: int, length: int, s: int, s_max: int) -> Fraction:
    """Returns the paper's cost by steps of k (to 5, 10, 20) and of l (0, to 2, 5, 10); s costs nothing."""
    return _STEP_K[min(j for j in _STEP_K if j >= k)] + _STEP_L[min(j for j in _STEP_L if j >= length)]


def checked(configurations: Sequence[Sequence[int]]) -> Configurations:
    """Returns ``configurations`` if they can be asked: each once, k from 1 to 20 and l from 0 to 10.

    Raises:
        BadInput: if they cannot.
    """
    pairs = tuple((int(k), int(length)) for k, length in configurations)
    for k, length in pairs:
        if not (1 <= k <= _K_MAX and 0 <= length <= _L_MAX):
            raise BadInput("configurations", (k, length), f"k from 1 to {_K_MAX} and l from 0 to {_L_MAX}")
    if not pairs or len(set(pairs)) < len(pairs):
        raise BadInput("configurations", list(pairs), "at least one pair (k, l), each once")
    return pairs


def number_of(configurations: Configurations, k: int, length: int) -> int:
    """Returns the place of (k, l) among the configurations that may be asked.

    Raises:
        BadInput: if it is none of them.
    """
    if (k, length) not in configurations:
        raise BadInput("configuration", (k, length), f"one of {', '.join(map(str, configurations))}")
    return configurations.index((k, length))


def table(model: str, configurations: Configurations, s_max: int) -> tuple[int, NDArray[np.int32]]:
    """Tabulates, in units, what each configuration costs with j entities excluded at each specificity.

    Returns:
        The units, and int32 of shape (configurations, l_max + 1, s_max + 1), in units. Where j is above l, the cost is
        that of l.

    Raises:
        BadInput: for a model that does not exist.
    """
    if model not in MODELS:
        raise BadInput("cost", model, f"one of {', '.join(MODELS)}")
    cost = {"linear": linear, "step": step}[model]
    l_max = max(length for _, length in configurations)
    exact = [
        [[cost(k, min(j, length), s, s_max) for s in range(s_max + 1)] for j in range(l_max + 1)]
        for k, length in configurations
    ]
    units = math.lcm(*(c.denominator for rows in exact for row in rows for c in row))
    return units, np.array([[[int(c * units) for c in row] for row in rows] for rows in exact], np.int32)
