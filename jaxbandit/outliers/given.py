"""Types of the arguments of functions that make outlier rules, with their ranges (see ``parameters.Key``), and what is
checked of the intervals that a rule gets."""

from typing import Annotated, Any

from jaxbandit.errors import BadInput, quoted
from jaxbandit.outliers.intervals import Interval
from jaxbandit.outliers.truth import EPS, RHO
from jaxbandit.parameters import Key
from jaxbandit.parsers import between, flag, one_of, whole
from jaxbandit.space import Range

Arms = Annotated[int, Key(whole(1, 4096))]
PullRatio = Annotated[float, Key(between(1, 1e6, least_too=True), search=Range(1, 50, log=True))]
Scale = Annotated[float, Key(between(0, 100), search=Range(0.05, 5, log=True), on_request=True)]
Eps = Annotated[float, Key(EPS, search=Range(0.1, 10, log=True), on_request=True)]
NormalShare = Annotated[float, Key(RHO, search=Range(0.51, 0.99), on_request=True)]
Size = Annotated[str, Key(one_of("at-most", "below"), on_request=True)]
Flag = Annotated[bool, Key(flag)]


def interval_of(interval: Any) -> Interval:
    """Returns the intervals that a rule gets.

    Raises:
        BadInput: for what is no ``Interval``.
    """
    if not isinstance(interval, Interval):
        raise BadInput("interval", quoted(interval), 'what outliers.interval("bounded", delta=0.1, k=2.5) returns')
    return interval


def threshold_of(interval: Any) -> Interval:
    """Returns the threshold and the intervals that a rule gets.

    Raises:
        BadInput: for what is no ``Interval``, and for one without the k of its threshold.
    """
    found = interval_of(interval)
    if found.k is None:
        allowed = "a number above 0, as in outliers.interval(..., k=2.5): the rule has a threshold"
        raise BadInput("interval.k", None, allowed)
    return found
