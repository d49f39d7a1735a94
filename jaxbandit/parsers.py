"""Checks of the values that a study file gives to parameters; ``registry`` has them too."""

import math
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np

from jaxbandit.errors import BadInput, quoted
from jaxbandit.space import Choice, Domain, Range

Parser = TypeVar("Parser", bound=Callable[[str, Any], Any])


def takes(domain: Domain) -> Callable[[Parser], Parser]:
    """Marks a parser with what it takes, so that ``jaxbandit tune`` knows where to search.

    Example:
        >>> from jaxbandit.registry import Parameter, takes
        >>> from jaxbandit.space import Range
        >>> @takes(Range(1, 64, log=True))
        ... def width(field, value):
        ...     return float(value)
        >>> str(Parameter("width", width, "of the window").domain)
        '1 to 64, in equal ratios'
    """

    def mark(parse: Parser) -> Parser:
        vars(parse)["domain"] = domain
        return parse

    return mark


def as_printed(number: float | Fraction) -> Fraction:
    """Returns the decimal that prints a number, exactly: 0.1 stands for 1/10, and not for the nearest binary fraction.

    Example:
        >>> from jaxbandit.parsers import as_printed
        >>> as_printed(0.1), as_printed(3)
        (Fraction(1, 10), Fraction(3, 1))
    """
    return Fraction(number) if isinstance(number, Fraction | int) else Fraction(repr(float(number)))


def is_real(value: Any) -> bool:
    """Returns whether a value is a number that a float can be: no truth value, and no whole number beyond them."""
    if isinstance(value, float | np.floating | np.integer):
        return True
    return type(value) is int and abs(value) <= sys.float_info.max


def _spans_decades(low: float, high: float) -> bool:
    return low > 0 and high > 100 * low


def whole(low: int, high: int) -> Callable[[str, Any], int]:
    """Returns a parser of whole numbers from ``low`` to ``high``, NumPy's too.

    Example:
        >>> from jaxbandit.registry import whole
        >>> whole(1, 9)("t", 3)
        3
    """

    @takes(Range(low, high, _spans_decades(low, high), whole=True))
    def check(name: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or not low <= value <= high:
            raise BadInput(name, quoted(value), f"a whole number from {low} to {high}")
        return int(value)  # NumPy's have not all that Python's do

    return check


def real(low: float, high: float) -> Callable[[str, Any], float]:
    """Returns a parser of numbers from ``low`` to ``high``, both included.

    Example:
        >>> from jaxbandit.registry import real
        >>> real(0, 1)("q", 1)
        1.0
    """

    @takes(Range(low, high, _spans_decades(low, high)))
    def check(name: str, value: Any) -> float:
        if not is_real(value) or not low <= value <= high:
            raise BadInput(name, quoted(value), f"a number from {low:g} to {high:g}")
        return float(value)

    return check


def between(least: float, most: float, *, least_too: bool = False) -> Callable[[str, Any], float]:
    """Returns a parser of numbers above ``least`` and below ``most``; or from ``least`` on, where ``least_too``.

    Example:
        >>> from jaxbandit.registry import between
        >>> between(0, 1)("delta", 0.05)
        0.05
    """

    def check(name: str, value: Any) -> float:
        if not is_real(value) or not (least < value < most or (least_too and value == least)):
            allowed = f"a number {'at least' if least_too else 'above'} {least:.6g}"
            raise BadInput(name, quoted(value), allowed + (f", below {most:g}" if most < math.inf else ""))
        return float(value)

    return check


@takes(Choice((False, True)))
def flag(name: str, value: Any) -> bool:
    """Parses true or false: the ``value`` of the key ``name``.

    Example:
        >>> from jaxbandit.registry import flag
        >>> flag("paired", True)
        True
    """
    if not isinstance(value, bool):
        raise BadInput(name, quoted(value), "true or false")
    return value


def one_of(*words: str) -> Callable[[str, Any], str]:
    """Returns a parser of one of a few words.

    Example:
        >>> from jaxbandit.registry import one_of
        >>> one_of("lemma3", "exact")("tuning", "exact")
        'exact'
    """

    @takes(Choice(words))
    def check(name: str, value: Any) -> str:
        if value not in words:
            raise BadInput(name, value, f"one of {', '.join(words)}")
        return str(value)

    return check


def text(name: str, value: Any) -> str:
    """Parses a text that is not empty: the ``value`` of the key ``name``.

    Example:
        >>> from jaxbandit.registry import text
        >>> text("path", "claims.csv")
        'claims.csv'
    """
    if not isinstance(value, str) or not value.strip():
        raise BadInput(name, value, "a text that is not empty")
    return value
