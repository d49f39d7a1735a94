"""Pictures: means with their intervals, as curves or as dots. Matplotlib is imported when one is drawn."""

import io
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from jaxbandit.study import folder
from jaxbandit.study.summary import Row, identity, metrics, show, telling

Point = Sequence[Any]
"""(x, mean, low, high): x a number, a text (a category) or None; low and high None where there is no interval."""

# Okabe and Ito's palette, which colour-blind readers can tell apart; its yellow is too pale for a line.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
_LINES = ("-", "--", ":", "-.")


def curves(
    path: Path | str | BinaryIO,
    series: Mapping[str, Sequence[Point]],
    xlabel: str,
    ylabel: str,
    title: str,
    xlog: bool = False,
    ylog: bool = False,
    published: Mapping[str, Sequence[Sequence[Any]]] | None = None,
    marks: bool = True,
    bars: bool = False,
) -> None:
    """Draws a picture of 150 dots an inch.

    Args:
        path: the file to write, PNG unless its ending says otherwise.
        series: points by the name of their curve. A curve whose only point has no x is drawn as a level across the
            picture; where no point has an x, there is a dot for each name instead of curves, and ``xlabel`` is unused.
        xlog, ylog: whether an axis is logarithmic.
        published: (x, y) from elsewhere, drawn hollow in the colour of the curve (x None: beside the dot) of that name.
        marks: whether points are marked on their curves.
        bars: a histogram: a bar at each x in the place of curves.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    published = published or {}
    # A mean of None is that of runs without a value.
    series = {name: [point for point in points if point[1] is not None] for name, points in series.items()}
    xs = [point[0] for points in (*series.values(), *published.values()) for point in points if point[0] is not None]
    size = (8.0, 4.5) if xs else (8.0, 1.6 + 0.32 * len(series))
    figure = Figure(figsize=size, dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.set_title(title, loc="left", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    if xs:
        _curves(axes, series, published, xs, xlog, marks, bars)
        axes.set(xlabel=xlabel, ylabel=ylabel)
        if ylog:
            axes.set_yscale("log")
        axes.grid(axis="y", alpha=0.25)
        handles, names = axes.get_legend_handles_labels()
        if len(names) > 1 or published:
            figure.legend(handles, names, loc="outside right upper", frameon=False, fontsize=9)
    else:
        _dots(axes, series, published)
        axes.set(xlabel=ylabel)
        if ylog:
            axes.set_xscale("log")
        axes.grid(axis="x", alpha=0.25)
    figure.savefig(path)


def _curves(
    axes: Any,
    series: Mapping[str, Sequence[Point]],
    published: Mapping[str, Sequence[Any]],
    xs: list[Any],
    xlog: bool,
    marks: bool,
    bars: bool,
) -> None:
    words = list(dict.fromkeys(x if isinstance(x, str) else show(x) for x in xs))
    categories = any(isinstance(x, str) for x in xs)

    def place(x: Any) -> float:
        return float(words.index(x if isinstance(x, str) else show(x)) if categories else x)

    names = list(dict.fromkeys([*series, *published]))
    for number, name in enumerate(names):
        colour = _COLOURS[number % len(_COLOURS)]
        style = {"color": colour, "linestyle": _LINES[number // len(_COLOURS) % len(_LINES)], "linewidth": 1.6}
        marker = {"marker": _MARKERS[number % len(_MARKERS)] if marks else "", "markersize": 5.5}
        big = marker | {"markersize": 9}
        points = series.get(name, ())
        for _, mean, low, high in (point for point in points if point[0] is None):
            axes.axhline(mean, label=name, **style)
            if low is not None:
                axes.axhspan(low, high, color=colour, alpha=0.2, linewidth=0)
        line = sorted((place(x), mean, low, high) for x, mean, low, high in points if x is not None)
        if bars:
            gap = min((after[0] - before[0] for before, after in itertools.pairwise(line)), default=1.0)
            axes.bar([point[0] for point in line], [point[1] for point in line], 0.9 * gap, label=name, color=colour)
        elif line:
            axes.plot([point[0] for point in line], [point[1] for point in line], label=name, **style, **marker)
            sure = [point for point in line if point[2] is not None]
            if sure:
                at, middle, low, high = (np.array(column) for column in zip(*sure, strict=True))
                axes.fill_between(at, low, high, color=colour, alpha=0.2, linewidth=0)
                axes.errorbar(
                    at, middle, [middle - low, high - middle], fmt="none", ecolor=colour, elinewidth=1, capsize=2
                )
        if published.get(name):
            hollow = [(place(x), y) for x, y in published[name]]
            axes.plot(
                *zip(*hollow, strict=True),
                label=f"{name}, published",
                color=colour,
                linestyle="none",
                fillstyle="none",
                zorder=5,
                **big,
            )
    if categories:
        axes.set_xticks(range(len(words)), words)
        return
    if xlog:
        axes.set_xscale("log")
    ticks = sorted(set(xs))
    if len(ticks) <= 8 and _apart(ticks, xlog):
        axes.set_xticks(ticks, [f"{tick:,.6g}" if abs(tick) < 1e6 else f"{tick:.6g}" for tick in ticks])
        axes.minorticks_off()


def _apart(ticks: list[float], log: bool) -> bool:
    """Whether labels at these places do not run into each other."""
    at = [math.log(tick) for tick in ticks] if log else ticks
    return all(b - a >= (at[-1] - at[0]) / 14 for a, b in itertools.pairwise(at))


def _dots(axes: Any, series: Mapping[str, Sequence[Point]], published: Mapping[str, Sequence[Any]]) -> None:
    for number, (name, points) in enumerate(series.items()):
        for _, mean, low, high in points:
            ends = None if low is None else [[mean - low], [high - mean]]
            axes.errorbar(mean, number, xerr=ends, fmt="o", color=_COLOURS[0], capsize=3)
        for _, y in published.get(name, ()):
            axes.plot(y, number, marker="o", markersize=9, fillstyle="none", color=_COLOURS[0])
    axes.set_yticks(range(len(series)), list(series))
    axes.set_ylim(len(series) - 0.5, -0.5)


def save(out: Path, drawing: Mapping[str, Any]) -> None:
    """Draws ``figure.png`` and keeps what it is drawn from, the arguments of ``curves``, in ``figure.json``."""
    buffer = io.BytesIO()
    curves(buffer, **drawing)
    folder.write(out / folder.FIGURE, (json.dumps(drawing, indent=1) + "\n").encode())
    folder.write(out / folder.PICTURE, buffer.getvalue())


def of_rows(rows: Sequence[Row], swept: Sequence[str], title: str, labels: Mapping[str, str]) -> dict[str, Any]:
    """The arguments of ``curves``, JSON-ready, for the first metric of ``rows``.

    The x axis is the numeric one of the ``swept`` params that has the most values, those that all policies have
    before others; it is logarmithic where it spans more than a factor of 20. ``labels``: of axes, by metric.
    """
    first = metrics(rows)[:1]
    rows = [row for row in rows if [row["metric"]] == first]
    x = _axis(rows, swept)
    values = [row["params"][x] for row in rows if x in row["params"]] if x else []
    return {
        "series": by_curve(rows, x),
        "xlabel": (x or "").replace("_", " "),
        "ylabel": labels.get(first[0], first[0]) if first else "",
        "title": title,
        "xlog": bool(values) and min(values) > 0 and max(values) > 20 * min(values),
    }


def _axis(rows: Sequence[Row], swept: Sequence[str]) -> str | None:
    found: dict[str, tuple[bool, int]] = {}
    for name in swept:
        values = [row["params"].get(name) for row in rows]
        given = [value for value in values if value is not None]
        if len(set(map(identity, given))) > 1 and all(
            isinstance(value, int | float) and not isinstance(value, bool) for value in given
        ):
            found[name] = len(given) == len(values), len(set(given))
    return max(found, key=lambda name: found[name], default=None)


def by_curve(rows: Sequence[Row], x: str | None) -> dict[str, list[Point]]:
    """Points by curve, one curve for each policy and for whatever else tells rows at the same x apart."""
    series: dict[str, list[Point]] = {}
    for policy in dict.fromkeys(row["policy"] for row in rows):
        own = [row for row in rows if row["policy"] == policy]
        beside = [name for name in _beside(own, x) if name != x]
        for row in own:
            extra = [f"{name} {show(row['params'][name])}" for name in beside if name in row["params"]]
            place = row["params"].get(x) if x else None
            point = [place, row["mean"], row["ci_low"], row["ci_high"]]
            series.setdefault(", ".join([policy, *extra]), []).append(point)
    return series


def _beside(rows: Sequence[Row], x: str | None) -> list[str]:
    """The params that tell apart rows of one policy that stand at the same x."""
    at: dict[str, list[Row]] = {}
    for row in rows:
        at.setdefault(identity(row["params"].get(x) if x else None), []).append(row)
    return list(dict.fromkeys(name for group in at.values() for name in telling(group)))
