"""Functions that make outlier rules from numbers as a study file has them; each rule's own file has what it does.

``of``: the threshold and the intervals, see ``interval``.
"""

from typing import Annotated

import jax.numpy as jnp

from jaxbandit.errors import BadInput
from jaxbandit.outliers.double_float import DoubleFloat
from jaxbandit.outliers.gold import GOLD, factor, sizes
from jaxbandit.outliers.ib import IB
from jaxbandit.outliers.intervals import Delta, Interval
from jaxbandit.outliers.nrr import NRR, patience
from jaxbandit.outliers.rr import RR
from jaxbandit.outliers.truth import EPS, RHO
from jaxbandit.outliers.wrr import WRR, Share
from jaxbandit.parameters import Key, checked
from jaxbandit.parsers import between, flag, one_of, whole
from jaxbandit.space import Range

Arms = Annotated[int, Key(whole(1, 4096))]
Rho = Annotated[float, Key(between(1, 1e6, least_too=True), search=Range(1, 50, log=True))]
Scale = Annotated[float, Key(between(0, 100), search=Range(0.05, 5, log=True), on_request=True)]
Eps = Annotated[float, Key(EPS, search=Range(0.1, 10, log=True), on_request=True)]
Normal = Annotated[float, Key(RHO, search=Range(0.51, 0.99), on_request=True)]
Size = Annotated[str, Key(one_of("at-most", "below"), on_request=True)]
Flag = Annotated[bool, Key(flag)]


def rr(of: Interval) -> RR:
    """Round-robin: Zhuang, Wang and Wang 2017, Algorithm 1.

    Example:
        >>> from jaxbandit import outliers
        >>> outliers.rr(outliers.interval("bounded", delta=0.1, k=2.5)).of.name
        'bounded'
    """
    return RR(of)


@checked
def wrr(of: Interval, *, rho: Rho) -> WRR:
    """Weighted round-robin: Zhuang, Wang and Wang 2017, Algorithm 2.

    Args:
        of: the threshold and the intervals.
        rho: pulls of an active arm for each of another (a study that leaves it out has that of equation 6);
            ``rho_star`` has that one.

    Raises:
        BadInput: for an argument out of range.

    Example:
        >>> from jaxbandit import outliers
        >>> of = outliers.interval("bounded", delta=0.1, k=2.5)
        >>> int(outliers.wrr(of, rho=outliers.rho_star(50, 2.5, 0.1)).share.units)
        6
    """
    return WRR(of, Share.of(rho))


@checked
def nrr(of: Interval, *, delta: Delta = 0.1) -> NRR:
    """Round-robin until the estimated set was the same for 1/delta pulls: Zhuang, Wang and Wang 2017, section 5.2.

    Args:
        of: the threshold; NRR uses no intervals.
        delta: the promise, wrong with at most this probability; above 0 and below 1.

    Raises:
        BadInput: for an argument out of range.

    Example:
        >>> from jaxbandit import outliers
        >>> int(outliers.nrr(outliers.interval("bounded", delta=0.1, k=2.5), delta=0.05).need)
        20
    """
    return NRR(of, jnp.int32(patience(delta)))


@checked
def ib(of: Interval, *, scale: Scale = 0.5) -> IB:
    """Best arms one by one, by CLUCB, until one is no outlier: Zhuang, Wang and Wang 2017, section 5.2.

    Args:
        of: the threshold and delta.
        scale: CLUCB's R, the sub-Gaussian scale of a reward.

    Raises:
        BadInput: for an argument out of range.

    Example:
        >>> from jaxbandit import outliers
        >>> outliers.ib(outliers.interval("bounded", delta=0.1, k=2.5)).of.name
        'bounded'
    """
    return IB(of, DoubleFloat.of(scale))


@checked
def gold(
    of: Interval, arms: Arms, *, eps: Eps = 2.5, rho: Normal = 0.9, size: Size = "at-most", at_once: Flag = False
) -> GOLD:
    """GOLD: Ban and He 2020, Algorithm 1.

    Args:
        of: the intervals; GOLD has no threshold.
        arms: n.
        eps: of (eps, rho)-groups, how much farther than neighbours outliers are (left out in a study, the problem's).
        rho: of (eps, rho)-groups, the share of normal arms (left out in a study, the problem's).
        size: a community is terminal with at most (1 - rho) n arms, or below that, as printed.
        at_once: end as soon as there are enough terminal arms, else with the sweep.

    Raises:
        BadInput: for an argument out of range.

    Example:
        >>> from jaxbandit import outliers
        >>> rule = outliers.gold(outliers.interval("bounded", delta=0.1), arms=50)
        >>> int(rule.largest), int(rule.enough)
        (5, 5)
    """
    largest, enough = sizes(arms, rho, size)
    if largest < 1:
        raise BadInput("rho", rho, f"such that a group of (1 - rho) n of {arms} arms has one arm")
    return GOLD(of, DoubleFloat.of(factor(eps)), jnp.int32(largest), jnp.int32(enough), jnp.bool_(at_once))
