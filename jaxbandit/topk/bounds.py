"""Upper and lower bounds on the pulls that top-K selection needs: Zhou, Chen and Li 2014.

There are n arms with rewards in [0, 1], of which K are to be chosen with an aggregate regret of at most epsilon, with
probability 1 - delta. Where the paper states an order of growth, the functions return what stands inside O(.) or
Omega(.), times ``constant``, which is 1 unless it is given.

``PROVEN`` is a constant with which Corollary 4.4 and Theorem 4.5 hold for OptMAI with the printed beta, Q and fresh
means. The paper states none. It does not hold for ``accept = "printed"``, line 6 of Algorithm 3 to the letter, which
accepts all that tie with the (K'+1)-th mean, arms below the cut too. Lemmas 4.1 and 4.2 state theirs: a round with q
pulls for s arms loses at most sqrt(s / q (10 + 4 ln(2 / delta_r) / K)), with probability 1 - delta_r. In round r = 0, 1
... at most (3/4)^r n arms are active, and q = beta^r (1 - beta) Q, so that s / q = e^(-r / 5) n / ((1 - beta) Q). With
delta_r = delta / 2^(r + 1), which sum to delta, a round's root is at most sqrt(10 + 4 (r + 2) ln 2) sqrt(1 +
ln(1 / delta) / K), whatever K >= 1. The sum over r, squared, is the constant.
It takes shares of the budget as real numbers, as the paper does. It is a bound for the worst case, and far from tight.

All functions run on the host, in float64.
"""

from math import exp, inf, log, sqrt
from typing import Any

import numpy as np

from jaxbandit.errors import BadInput, quoted
from jaxbandit.parsers import between, is_real

_BETA = 0.75 * exp(0.2)

PROVEN = sum(exp(-r / 10) * sqrt(10 + 4 * (r + 2) * log(2)) for r in range(1000)) ** 2 / (1 - _BETA)
"""A constant with which Corollary 4.4 and Theorem 4.5 hold for OptMAI with the printed beta, Q and fresh means: about
50,500."""


def _checked(arms: int, want: int, delta: float) -> None:
    if not _is_whole(arms) or arms < 1:
        raise BadInput("arms", quoted(arms), "a whole number of at least 1")
    if not _is_whole(want) or not 1 <= want <= arms:
        raise BadInput("want", quoted(want), f"a whole number from 1 to {arms}, the number of arms")
    if not is_real(delta) or not 0 < delta < 1:
        raise BadInput("delta", quoted(delta), "a number above 0 and below 1")


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _above_0(name: str, value: float) -> None:
    between(0, inf)(name, value)


def _growth(arms: int, want: int, delta: float) -> float:
    """Returns the factor of n / epsilon^2: 1 + ln(1/delta) / K, or (n - K) / K ((n - K) / K + ln(1/delta) / K)."""
    part = min(1.0, (arms - want) / want)
    return part * (part + log(1 / delta) / want)


def sample_size(arms: int, want: int, epsilon: float, delta: float, *, constant: float = 1.0) -> float:
    """Returns pulls that suffice for a regret of at most ``epsilon`` with probability 1 - ``delta``, times
    ``constant``.

    For K < n/2 it is n / epsilon^2 (1 + ln(1/delta) / K) (Corollary 4.4, equation 3). For larger K the n - K worst arms
    are sought (``optmai(..., reduce=True)``). Then it is (n - K) / K n / epsilon^2 ((n - K) / K + ln(1/delta) / K)
    (Theorem 4.5, equation 4). The constant is the same, and the result is 0 where all arms are chosen.

    Args:
        arms, want: n, and K from 1 to n.
        epsilon, delta: above 0; ``delta`` below 1.
        constant: of O(.); with ``PROVEN``, that many pulls do suffice.

    Raises:
        BadInput: for arguments out of range.

    Example:
        >>> from jaxbandit import topk
        >>> round(topk.sample_size(100, 10, 0.1, 0.1))
        12303
    """
    _checked(arms, want, delta)
    _above_0("epsilon", epsilon)
    _above_0("constant", constant)
    return constant * arms / epsilon**2 * _growth(arms, want, delta)


def regret_bound(arms: int, want: int, budget: float, delta: float, *, constant: float = 1.0) -> float:
    """Returns the regret that is not exceeded with probability 1 - ``delta`` after ``budget`` pulls (above 0), times
    the root of ``constant``, for K = ``want`` of n = ``arms``: Theorem 4.3, and for K >= n/2 Theorem 4.5. It is the
    inverse of ``sample_size``.

    Raises:
        BadInput: for arguments out of range.

    Example:
        >>> from jaxbandit import topk
        >>> round(topk.regret_bound(100, 10, 5_000, 0.1), 3)
        0.157
    """
    _checked(arms, want, delta)
    _above_0("budget", budget)
    _above_0("constant", constant)
    return sqrt(constant * arms / budget * _growth(arms, want, delta))


_SMALL = 0.01


def _hard(arms: int, want: int, epsilon: float, delta: float, least: int = 1) -> None:
    """Refuses arguments out of the ranges of section 5 for K <= n/2."""
    _checked(arms, want, delta)
    if not least <= want <= arms / 2:
        raise BadInput("want", want, f"a whole number from {least} to n/2 = {arms / 2:g}")
    _small(epsilon=epsilon, delta=delta)


def _small(**given: float) -> None:
    for name, value in given.items():
        if not is_real(value) or not 0 < value <= _SMALL:
            raise BadInput(name, quoted(value), f"a number above 0, at most {_SMALL}")


def lower_bound(arms: int, want: int, epsilon: float, delta: float, *, constant: float = 1.0) -> float:
    """Returns the expected pulls that any rule for ``want`` of ``arms`` needs on some Bernoulli arms for a regret of at
    most ``epsilon`` with probability 1 - ``delta``, times ``constant`` of Omega(.).

    For K < n/2 these are Theorems 5.1 and 5.5 together (``lower_bound_accuracy`` and ``lower_bound_confidence``), for
    larger K Theorem 5.6. The value is that of ``sample_size``: OptMAI is optimal but for a constant. The theorems are
    for ``epsilon`` and ``delta`` of at most 0.01, and K >= 10 where K < n/2.

    Raises:
        BadInput: for arguments out of these ranges.

    Example:
        >>> from jaxbandit import topk
        >>> round(topk.lower_bound(100, 10, 0.01, 0.01))
        1460517
    """
    _checked(arms, want, delta)
    if 2 * want < arms:
        _hard(arms, want, epsilon, delta, least=10)
    else:
        _small(epsilon=epsilon, delta=delta)
    return sample_size(arms, want, epsilon, delta, constant=constant)


def lower_bound_accuracy(arms: int, want: int, epsilon: float, *, constant: float = 1.0) -> float:
    """Returns n / epsilon^2 times ``constant`` of Omega(.): the pulls needed for a probability of 0.8 (Theorem 5.1).

    n is ``arms`` and K is ``want``.

    Raises:
        BadInput: for an ``epsilon`` above 0.01 and K outside 10 ... n/2.

    Example:
        >>> from jaxbandit import topk
        >>> round(topk.lower_bound_accuracy(100, 10, 0.01))
        1000000
    """
    _hard(arms, want, epsilon, _SMALL, least=10)
    _above_0("constant", constant)
    return constant * arms / epsilon**2


def lower_bound_confidence(arms: int, want: int, epsilon: float, delta: float, *, constant: float = 1.0) -> float:
    """Returns n ln(1/delta) / (epsilon^2 K) times ``constant`` of Omega(.), for K <= n/2 (Theorem 5.5).

    n is ``arms`` and K is ``want``. With 1 / 20000 it is the bound that Lemma 5.4 states for rules that make no random
    choices.

    Raises:
        BadInput: for ``epsilon`` or ``delta`` above 0.01 and K above n/2.

    Example:
        >>> from jaxbandit import topk
        >>> round(topk.lower_bound_confidence(100, 10, 0.01, 0.01))
        460517
    """
    _hard(arms, want, epsilon, delta)
    _above_0("constant", constant)
    return constant * arms * log(1 / delta) / (epsilon**2 * want)
