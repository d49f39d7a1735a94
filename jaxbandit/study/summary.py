"""Rows: a metric's mean over runs, with its interval, for one configuration."""

import json
import math
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from fractions import Fraction
from typing import Any, TypedDict

import numpy as np

from jaxbandit.errors import BadInput
from jaxbandit.wilson import Z, share_interval, student
from jaxbandit.words import counted


class Row(TypedDict):
    """Holds one line of ``summary.json``: a metric's mean and interval.

    ``mean`` and its 95 % interval are None where there is none: a run without a value, an interval from one run.
    ``runs`` is 0 where the value was computed and not sampled.
    """

    policy: str
    params: dict[str, Any]
    metric: str
    mean: float | None
    ci_low: float | None
    ci_high: float | None
    runs: int


def plain(field: str, value: Any, nulls: bool = True) -> Any:
    """Returns ``value`` as JSON has it: NumPy scalars and arrays become numbers and lists.

    ``nulls``: whether NaN and infinity become None.

    Raises:
        BadInput: naming ``field``, for anything else that JSON has not, and lists in lists without end.
    """
    try:
        return _plain(field, value, nulls)
    except RecursionError:
        raise BadInput(field, value, "lists and tables that are not nested so deep") from None


def _plain(field: str, value: Any, nulls: bool) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, float):
        return None if nulls and not math.isfinite(value) else value
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, list | tuple):
        return [_plain(field, item, nulls) for item in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: _plain(f"{field}.{key}", item, nulls) for key, item in value.items()}
    raise BadInput(field, value, "a number, a text, true or false, a list or a table")


def exact_sum(values: np.ndarray) -> Fraction:
    """Returns the sum of finite float64 ``values``, shape (n,) with n below 2^26, without any rounding."""
    total, rest = Fraction(0), values
    while rest.any():
        # The upper 36 bits of each, as whole numbers whose sum int64 holds; the next turn takes what is below them.
        scale = 36 - int(np.frexp(np.abs(rest).max())[1])
        whole = np.trunc(np.ldexp(rest, scale))
        total += int(whole.astype(np.int64).sum()) * Fraction(2) ** -scale
        rest = rest - np.ldexp(whole, -scale)
    return total


class Moments:
    """Adds up a metric's mean and variance over runs, from exact sums: the cuts between chunks leave no trace.

    ``binary``: whether each value is 0 or 1; ``share``: whether each is between 0 and 1.
    """

    def __init__(self, binary: bool = False, share: bool = False) -> None:
        self._runs, self._centre, self._finite, self._binary, self._share = 0, 0.0, True, binary, share
        self._first = self._second = Fraction(0)

    def add(self, values: np.ndarray) -> None:
        """Adds the next runs' values, float64 of shape (runs,). Runs are added in order, from run 0."""
        if self._runs == 0:
            self._centre = float(values[0])  # Squares about a value of the sample cancel little.
        self._runs += values.size
        with np.errstate(all="ignore"):
            offset = values - self._centre
            squares = offset * offset
        self._finite = self._finite and bool(np.isfinite(squares).all())
        if self._finite:
            self._first += exact_sum(offset)
            self._second += exact_sum(squares)

    @property
    def runs(self) -> int:
        """Returns how many values were added so far."""
        return self._runs

    @property
    def mean(self) -> float:
        """Returns the mean; NaN where a value was not finite."""
        return float(Fraction(self._centre) + self._first / self._runs) if self._finite else math.nan

    @property
    def variance(self) -> float:
        """Returns the sample variance, of at least two values.

        Of zeros and ones it is that with two more of each, as Agresti and Coull (1998) have it: else it would be 0, and
        an interval would have no width, where all of a few are the same. For the same reason shares that were all the
        same are taken as if 2 of 4 more had been as far away as can be.
        """
        if self._binary:
            share = (self.mean * self._runs + 2) / (self._runs + 4)
            return share * (1 - share)
        if self._share and not self._second:
            share = 2 / (self._runs + 4)
            return share * (1 - share) * max(self.mean, 1 - self.mean) ** 2
        return float(max(Fraction(0), self._second - self._first**2 / self._runs) / (self._runs - 1))

    def interval(self) -> tuple[float, float]:
        """Returns the 95 % interval for the mean of at least two runs.

        Student's t; Wilson's for a share of ones. Values between 0 and 1 that were all the same tell how rarely a run
        can be different (Wilson's interval for none of the runs), and such a run may be anything from 0 to 1.
        """
        if self._binary:
            return share_interval(self.mean, self._runs)
        if self._share and not self._second:
            mean, rare = self.mean, share_interval(0.0, self._runs)[1]
            return mean - rare * mean, mean + rare * (1 - mean)
        return self.around(student_t(self._runs - 1) * math.sqrt(self.variance / self._runs))

    def around(self, half: float) -> tuple[float, float]:
        """Returns the mean minus and plus ``half``. Of values between 0 and 1, the ends are cut to what a mean can be;
        where few of them differ from 0 or from 1, the end on their side is further out (``_rare``)."""
        mean, variance, runs = self.mean, self.variance, self._runs
        low, high = mean - half, mean + half
        if self._share and not self._binary:
            low, high = min(low, 1 - _rare(1 - mean, variance, runs)), max(high, _rare(mean, variance, runs))
        return (max(0.0, low), min(1.0, high)) if self._binary or self._share else (low, high)

    def row(self, policy: str, params: dict[str, Any], metric: str, always: "Always | None" = None) -> Row:
        """Returns the mean with its interval; ``always``: one that holds whenever one stops (see ``Always``)."""
        mean = low = high = None
        if self._finite:
            mean = self.mean
            if self._runs > 1:
                low, high = self.interval() if always is None else always.interval(self)
        return Row(policy=policy, params=params, metric=metric, mean=mean, ci_low=low, ci_high=high, runs=self._runs)


_SOME = 100
"""Runs from which on Student's quantiles are near the normal ones at any level."""


class Always:
    """Computes intervals that hold at every number of runs at once, so also at one that was chosen by what was seen.

    An asymptotic confidence sequence (Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas 2024, Annals of Statistics 52,
    Theorem 2.2): the mean +- s sqrt(2 (n rho^2 + 1) / (n rho)^2 log(sqrt(n rho^2 + 1) / level)). It is tightest near
    ``runs``, there about 1.5 times as wide as Student's interval, and rests on a central limit theorem as that does: of
    fewer than some ten runs, where it would be the narrower one, Student's is taken.
    ``level``: the chance that it misses, at any time, 0.05 for intervals of 95 %.
    """

    def __init__(self, runs: int, level: float = 0.05) -> None:
        self.runs, self._level = runs, level
        term = -2 * math.log(level)
        self._square = (term + math.log(term + 1)) / runs

    def half_width(self, variance: float, runs: int) -> float:
        """Returns half of the interval's width after so many runs."""
        x = runs * self._square
        half = math.sqrt(variance * 2 * (x + 1) / (x * runs) * math.log(math.sqrt(x + 1) / self._level))
        if runs >= _SOME:
            return half
        return max(half, student(1 - self._level / 2, runs) * math.sqrt(variance / runs))

    def interval(self, moments: Moments) -> tuple[float, float]:
        """Returns the interval for the mean of at least two runs."""
        return moments.around(self.half_width(moments.variance, moments.runs))


def _rare(mean: float, variance: float, runs: int) -> float:
    """Returns Wilson's upper end for values from 0 to 1, as if each were 0 or one size, which mean and variance give.

    For zeros and ones it is Wilson's own, and where all values are near one size it is that size. Where few
    of some 100 runs lose anything, Student's upper end is below the mean loss in more than a tenth of studies; the
    larger one of the two hardly ever is (``tests/test_study.py``).
    """
    size = min(1.0, mean + variance / mean) if mean > 0 else 1.0
    return size * share_interval(min(1.0, mean / size), runs)[1]


def student_t(freedom: int) -> float:
    """Returns the 97.5 % quantile of Student's t: two-sided intervals of 95 %.

    By bisection of the exact finite series for whole degrees of freedom (Abramowitz and Stegun 26.7.3 and 26.7.4);
    from 200 on by the expansion about the normal quantile (26.7.5), which is good to 10 digits there.
    """
    if freedom >= 200:
        z = Z
        terms = ((z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96, (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384)
        return z + math.fsum(term / freedom**power for power, term in enumerate(terms, 1))
    low, high = 0.0, 13.0  # 12.706 for one degree
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, freedom) < 0.95 else (low, middle)
    return high


def _within(t: float, freedom: int) -> float:
    angle = math.atan(t / math.sqrt(freedom))
    odd = freedom % 2
    term = total = math.cos(angle) if odd else 1.0
    for j in range(2 + odd, freedom, 2):
        term *= math.cos(angle) ** 2 * (j - 1) / j
        total += term
    total = total if freedom > 1 else 0.0
    return 2 / math.pi * (angle + math.sin(angle) * total) if odd else math.sin(angle) * total


def dumps(rows: Iterable[Row]) -> bytes:
    """Returns rows as JSON, one a line; equal rows give equal bytes."""
    lines = ",\n".join(json.dumps(row, allow_nan=False) for row in rows)
    return f"[\n{lines}\n]\n".encode()


def metrics(rows: Sequence[Row]) -> list[str]:
    """Returns the metrics' names, in the order in which they first appear."""
    return list(dict.fromkeys(row["metric"] for row in rows))


def varying(rows: Sequence[Row]) -> list[str]:
    """Returns the names of the params that are not the same in all rows, in the order in which they first appear."""
    names = dict.fromkeys(name for row in rows for name in row["params"])
    return [name for name in names if len({identity(row["params"].get(name)) for row in rows}) > 1]


def telling(rows: Sequence[Row]) -> list[str]:
    """Returns a few of the varying params, the first ones that do, which tell apart the rows that share policy and
    metric."""
    chosen: list[str] = []

    def classes(names: list[str]) -> int:
        keys = ((row["policy"], row["metric"], *(row["params"].get(name) for name in names)) for row in rows)
        return len({identity(key) for key in keys})

    for name in varying(rows):
        if classes([*chosen, name]) > classes(chosen):
            chosen.append(name)
    return chosen


_WORD = re.compile(r"(?!(true|false|null)$)[\w.:/+-]+")
"""A text that stands for nothing else, unless it is a number."""


def identity(value: Any) -> str:
    """Returns a text that is the same for equal JSON-ready values, and only for those."""
    return json.dumps(value, sort_keys=True)


def exactly(value: Any) -> str:
    """Returns a scalar param as a text with all its digits; anything else as JSON."""
    return str(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else identity(value)


def unmistakably(value: Any) -> str:
    """Returns what ``exactly`` does, but as JSON too a text that could be taken for another value, or for several."""
    if not isinstance(value, str):
        return exactly(value)
    with suppress(ValueError):
        float(value)
        return identity(value)
    return value if _WORD.fullmatch(value) else identity(value)


def show(value: Any) -> str:
    """Returns a param's value for people: ``{"normal": {"variance": 0.3}}`` as ``normal(variance 0.3)``."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        shown = ", ".join(show(item) for item in value)
        return shown if len(shown) <= 40 else counted(len(value), "value", "values")
    if isinstance(value, dict):
        return ", ".join(
            f"{k}({show(v)})" if isinstance(v, dict | list) else f"{k} {show(v)}" for k, v in value.items()
        )
    return str(value)
