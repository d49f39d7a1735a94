"""Domains of parameters: what a search for the best values moves over."""

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jaxbandit.errors import BadInput


@dataclass(frozen=True)
class Range:
    """Numbers from ``low`` to ``high``, both included.

    ``log``: equal steps are equal ratios, as is right for what ranges over decades; ``whole``: whole numbers alone.
    """

    low: float
    high: float
    log: bool = False
    whole: bool = False

    def __str__(self) -> str:
        words = f"{self.low:g} to {self.high:g}"
        return words + (", whole numbers" if self.whole else "") + (", in equal ratios" if self.log else "")

    def __contains__(self, value: Any) -> bool:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return number and self.low <= value <= self.high

    def at(self, share: float) -> float | int:
        """Returns the number at a share of the way from ``low`` to ``high``, 0 to 1, of four digits, or of as many as
        tell a thousand numbers between the two apart."""
        low, high = (self.low - 0.5, self.high + 0.5) if self.whole else (self.low, self.high)
        if self.log:
            low = max(low, self.low / 2)
            value = math.exp(math.log(low) + share * (math.log(high) - math.log(low)))
        else:
            value = low + share * (high - low)
        if value and self.high > self.low:
            digits = 3 - min(_exponent(value), _exponent(self.high - self.low))
            value = min(max(round(value, digits), self.low), self.high)
        return min(max(round(value), int(self.low)), int(self.high)) if self.whole else value

    def spread(self, count: int) -> list[Any]:
        """Returns at most ``count`` numbers from end to end in equal steps, whole numbers each once."""
        if count == 1 or self.low == self.high:
            return [self.at(0.5)]
        if not self.whole:
            return [self.at(number / (count - 1)) for number in range(count)]
        if self.high - self.low < count:
            return list(range(int(self.low), int(self.high) + 1))
        scale = math.log if self.log else float
        first, last = scale(self.low), scale(self.high)
        steps = (first + (last - first) * number / (count - 1) for number in range(count))
        return list(dict.fromkeys(round(math.exp(step) if self.log else step) for step in steps))


def _exponent(value: float) -> int:
    """Returns the exponent of a number other than 0, as it is written with one digit before the point."""
    return int(f"{value:e}".partition("e")[2])


@dataclass(frozen=True)
class Choice:
    """Lets a search choose one of several values."""

    values: tuple[Any, ...]

    def __str__(self) -> str:
        return ", ".join(str(value).lower() if isinstance(value, bool) else str(value) for value in self.values)

    def __contains__(self, value: Any) -> bool:
        return any(value is each or (type(value) is type(each) and value == each) for each in self.values)

    def at(self, share: float) -> Any:
        """Returns the value at a share of the way through, 0 to 1."""
        return self.values[min(int(share * len(self.values)), len(self.values) - 1)]

    def spread(self, count: int) -> list[Any]:
        """Returns all of the values, whatever ``count`` is."""
        return list(self.values)


Domain = Range | Choice


def domain(field: str, given: Any, whole: bool = False) -> Domain:
    """Returns the domain that a study file or a caller describes: a list of values, or a table of ``from``, ``to`` and
    ``log``.

    ``whole``: whether the parameter takes whole numbers alone.

    Raises:
        BadInput: naming what is wrong.
    """
    if isinstance(given, Range | Choice):
        return given
    if isinstance(given, Sequence) and not isinstance(given, str) and given:
        return Choice(tuple(given))
    keys = ("from", "to", "log")
    if not isinstance(given, Mapping) or not {"from", "to"} <= set(given) <= set(keys):
        raise BadInput(field, given, "a list of values, or { from = 0.01, to = 0.9, log = true }")
    low, high, log = given["from"], given["to"], given.get("log", False)
    for key, value in (("from", low), ("to", high)):
        number = isinstance(value, int | float) and not isinstance(value, bool)
        number = number and abs(value) <= sys.float_info.max
        if not number or (whole and not isinstance(value, int)):
            raise BadInput(f"{field}.{key}", value, "a whole number" if whole else "a finite number")
    if not isinstance(log, bool):
        raise BadInput(f"{field}.log", log, "true or false")
    if not low < high:
        raise BadInput(field, dict(given), "a table in which from is below to")
    if log and low <= 0:
        raise BadInput(f"{field}.from", low, "a number above 0 where log = true")
    return Range(low, high, log, whole)
