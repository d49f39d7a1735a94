"""Enough runs, and no more: ``stop_when`` of a study, and when it is met.

    stop_when = { metric = "effectiveness", half_width = 0.001 }
    stop_when = { metric = "regret", relative = 0.01, difference = ["optmai", "sar"] }

All configurations are run equally often, until each interval is that narrow: of the metric's mean for every
configuration, or of the paired difference of two named policies under every setting.

The number of runs then depends on what was seen, and Student's interval would hold less often than it says. What is
reported instead is an interval that holds at all numbers of runs at once (``summary.Always``): with a probability of
95 % for each row, however the stop was chosen. It is a statement for many runs, so none stops before ``FIRST``; of an
event that is rarer than one in some hundred runs, a metric should say that it is ``binary``. Another goal is another
sequence: the promise is for a study whose ``stop_when`` and ``runs`` were not chosen by what an earlier one showed.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jaxbandit.errors import BadInput
from jaxbandit.parsers import is_real, text
from jaxbandit.study.summary import Always, Moments

FIRST = 1024
"""The runs at the first check."""

_GRAIN = 128


@dataclass(frozen=True)
class StopWhen:
    """Says when a study has enough runs.

    Attributes:
        metric: whose interval counts.
        half_width: half of the interval's width, at most this; or else
        relative: at most this share of the mean's size.
        difference: labels of two policies, whose difference counts instead of each mean; empty for none.
    """

    metric: str
    half_width: float | None
    relative: float | None
    difference: tuple[str, ...]

    @classmethod
    def of(cls, given: Any, metrics: Sequence[str], policies: Sequence[str]) -> "StopWhen":
        """Checks the table ``stop_when`` of a study, key by key, and returns it.

        Raises:
            BadInput: naming the key.
        """
        keys = ("metric", "half_width", "relative", "difference")
        if not isinstance(given, Mapping):
            raise BadInput("stop_when", given, '{ metric = "...", half_width = 0.001 }')
        for key in given:
            if key not in keys:
                raise BadInput(f"stop_when.{key}", given[key], f"no such key; there are {', '.join(keys)}")
        metric = text("stop_when.metric", given.get("metric", "missing"))
        if metric not in metrics:
            raise BadInput("stop_when.metric", metric, f"one of {', '.join(metrics)}")
        if ("half_width" in given) == ("relative" in given):
            raise BadInput("stop_when", dict(given), "a table with either half_width or relative")
        width = {}
        for key in ("half_width", "relative"):
            value = given.get(key)
            if value is not None and (not is_real(value) or not 0 < value < math.inf):
                raise BadInput(f"stop_when.{key}", value, "a finite number above 0")
            width[key] = value
        pair = given.get("difference", [])
        if "difference" in given and (not isinstance(pair, list) or len(pair) != 2 or pair[0] == pair[1]):
            raise BadInput("stop_when.difference", pair, "a list of two different policies")
        for name in pair:
            if name not in policies:
                raise BadInput("stop_when.difference", name, f"one of {', '.join(policies)}")
        return cls(metric, width["half_width"], width["relative"], tuple(pair))

    def allowed(self, mean: float) -> float:
        """Returns the half-width that is narrow enough for a mean."""
        return self.half_width if self.half_width is not None else (self.relative or 0.0) * abs(mean)


def planned(rule: StopWhen, moments: Sequence[Moments], most: int) -> Always:
    """Returns the intervals to use, tightest where the study is likely to stop as seen from its first evaluation."""
    likely = float(FIRST)
    for each in moments:
        if math.isfinite(each.mean):
            goal = rule.allowed(each.mean)
            ratio = 3 / goal if goal > 0 else math.inf
            likely = max(likely, ratio * ratio * each.variance if each.variance > 0 else 0.0)
    return Always(int(min(likely, most)))


def following(rule: StopWhen, always: Always, moments: Sequence[Moments], most: int) -> int | None:
    """Returns at how many runs to check next, above the present ones; None where these are enough or the most there may
    be.

    It depends on the runs so far alone, so that an interruption changes nothing. A mean that is not finite is not
    waited for. Values that were all the same so far tell nothing of how rarely they are not: no study stops on them.
    """
    runs = moments[0].runs
    factor = 0.0
    for each in moments:
        if math.isfinite(each.mean):
            half, goal = always.half_width(each.variance, runs), rule.allowed(each.mean)
            if half > goal or each.variance == 0:
                ratio = half / goal if goal > 0 and half > 0 else math.inf
                factor = max(factor, ratio * ratio)
    if factor == 0 or runs >= most:
        return None
    ahead = math.ceil(runs * min(2.0, max(1.1, 1.02 * factor)) / _GRAIN) * _GRAIN
    return min(most, ahead)
