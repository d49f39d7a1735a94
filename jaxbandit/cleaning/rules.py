"""The rules of EE: the threshold q acts through need = ceil(t q) alone, so a rule is a pair (t, need)."""

from fractions import Fraction
from functools import cache
from math import ceil, floor

import numpy as np

from jaxbandit.cleaning.cells import Floats, Ints
from jaxbandit.errors import BadInput
from jaxbandit.parsers import as_printed


def needed(t: int, q: float) -> int:
    """Returns ceil(t q), the successes that exploitation needs.

    In exact arithmetic on q as it is written, with a guard for the last digit of a rounded quotient: 3 * 0.667 asks
    for 3, and 3 * (2 / 3) for 2.
    """
    if not isinstance(q, int | float | np.floating) or not 0 <= q <= 1:
        raise BadInput("q", q, "a number from 0 to 1")
    product = int(t) * as_printed(q) - Fraction(1, 10**9)
    return max(0, -(-product.numerator // product.denominator))


@cache
def rules(delta: Fraction, t_max: int) -> tuple[Ints, Ints, Floats]:
    """Lists the rules (t, need, q) that the grid {0, delta, 2 delta, ..., 1} can name, by increasing q, then t.

    Exact: 3 * 0.667 is just above 2 and needs three successes.
    """
    last = ceil(1 / delta)
    rules = []
    for t in range(1, t_max + 1):
        for need in range(t + 1):
            k = 0 if need == 0 else min(floor((need - 1) / (t * delta)) + 1, last)
            q = min(k * delta, Fraction(1))
            if ceil(t * q) == need:
                rules.append((q, t, need))
    rules.sort()
    t_and_need = np.array([rule[1:] for rule in rules], np.int32)
    return t_and_need[:, 0], t_and_need[:, 1], np.array([float(rule[0]) for rule in rules])
