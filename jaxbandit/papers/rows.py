"""Rows that a figure computes from those of its studies."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jaxbandit.study.summary import Row, identity
from jaxbandit.wilson import share_interval


def row_of(
    policy: str, params: Mapping[str, Any], metric: str, mean: float | None, runs: int = 0,
    interval: tuple[float | None, float | None] | None = None,
) -> Row:  # fmt: skip
    """Makes a row of a summary; ``interval``: its ends, the value itself where None."""
    low, high = (mean, mean) if interval is None else interval
    return Row(policy=policy, params=dict(params), metric=metric, mean=mean, ci_low=low, ci_high=high, runs=runs)


def computed(
    policy: str, params: Mapping[str, Any], metric: str, mean: float, runs: int = 0, half: float | None = None
) -> Row:
    """Makes a row of a computed value; ``half``: of its interval, the value itself where nothing was sampled."""
    half = 0.0 if half is None and not runs else half
    return row_of(policy, params, metric, mean, runs, (None, None) if half is None else (mean - half, mean + half))


def where(rows: Iterable[Row], metric: str, policy: str | None = None, **params: Any) -> list[Row]:
    """Finds the rows of a metric, of a policy and of some params, where these are given."""
    return [
        row for row in rows
        if row["metric"] == metric
        and policy in (None, row["policy"])
        and all(identity(row["params"].get(name)) == identity(value) for name, value in params.items())
    ]  # fmt: skip


def half(row: Row) -> float | None:
    """Returns the longer side of a row's interval, from its mean."""
    mean, low, high = row["mean"], row["ci_low"], row["ci_high"]
    return None if mean is None or low is None or high is None else max(high - mean, mean - low)


def average(rows: Sequence[Row], metric: str, params: Mapping[str, Any], common: bool = False) -> Row:
    """Averages rows of one policy, each of as many runs: the mean of all their runs taken together.

    Of shares of runs with Wilson's interval again (``correct``), else with half the root of the sum of squared halves.
    ``common``: whether runs of the same number have all they draw in common; then no narrower interval by averaging is
    claimed than one row has.
    """
    means = [row["mean"] or 0.0 for row in rows]
    runs, mean = sum(row["runs"] for row in rows), sum(means) / len(means)
    if rows[0]["metric"].removeprefix("best_") in ("correct", "ranking", "capped"):
        low, high = share_interval(mean, rows[0]["runs"] if common else runs)
        return Row(
            policy=rows[0]["policy"], params=dict(params), metric=metric, mean=mean, ci_low=low, ci_high=high, runs=runs
        )  # fmt: skip
    halves = [half(row) for row in rows]
    shares = math.sqrt(len(rows)) if common else len(rows)
    both = None if None in halves else math.hypot(*(each or 0.0 for each in halves)) / shares
    made = computed(rows[0]["policy"], params, metric, mean, runs, both)
    if both is not None and rows[0]["metric"].removeprefix("best_") in ("precision", "recall", "f1"):  # within [0, 1]
        made["ci_low"], made["ci_high"] = max(mean - both, 0.0), min(mean + both, 1.0)
    return made


def ratio(one: Row, other: Row) -> tuple[float, float | None]:
    """Returns the quotient of two means and half of its interval, by the delta method.

    The two are taken as independent: what their runs have in common only makes it too wide.
    """
    a, b = one["mean"] or 0.0, other["mean"] or math.nan
    sides = half(one), half(other)
    if sides[0] is None or sides[1] is None:
        return a / b, None
    return a / b, a / b * math.hypot(sides[0] / a, sides[1] / b)


def lead(one: Row, other: Row) -> tuple[float | None, tuple[float | None, float | None]]:
    """Says by how many percent the mean of ``one`` is above that of ``other``, with its 95 % interval.

    By the delta method on the logarithm of the ratio, the two taken as independent: what their runs have in common only
    makes it too wide.
    """
    if not one["mean"] or not other["mean"]:
        return None, (None, None)
    ratio = one["mean"] / other["mean"]
    sides = half(one), half(other)
    if sides[0] is None or sides[1] is None:
        return 100 * (ratio - 1), (None, None)
    width = math.hypot(sides[0] / one["mean"], sides[1] / other["mean"])
    return 100 * (ratio - 1), (100 * (ratio * math.exp(-width) - 1), 100 * (ratio * math.exp(width) - 1))


def survival(values: Sequence[float], grid: Sequence[float]) -> list[tuple[float, float]]:
    """Returns, for each number of a grid, the share of the values that are above it."""
    return [(x, sum(value > x for value in values) / len(values)) for x in grid]


def by_policy(row: Row) -> str:
    """Names a row's curve by the row's policy."""
    return row["policy"]
