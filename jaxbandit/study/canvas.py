"""Drawing: means with their intervals, as curves or as dots, by Matplotlib."""

import io
import itertools
import json
import math
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from jaxbandit.study.picture import Point
from jaxbandit.study.summary import show

# Okabe and Ito's palette, which colour-blind readers can tell apart; its yellow is too pale for a line.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
_LINES = ("-", "--", ":", "-.")

MOST_BESIDE = 24
"""Keys of a legend beside the axes; more stand below."""
_MANY = 25
"""Points of a curve from which on they are too near to each other for marks at all of them."""


class ShownFigure(Figure):
    """Has notebooks show a figure, though ``pyplot`` does not know it."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png")
        return buffer.getvalue()


def draw(
    series: Mapping[str, Sequence[Point]],
    xlabel: str,
    ylabel: str,
    title: str,
    xlog: bool = False,
    ylog: bool = False,
    published: Mapping[str, Sequence[Sequence[Any]]] | None = None,
    marks: bool = True,
    bars: bool = False,
    narrow: bool = False,
) -> ShownFigure:
    """Returns a picture of 150 dots an inch.

    Args:
        series: points by the name of their curve. A curve whose only point has no x is drawn as a level across the
            picture; where no point has an x, there is a dot for each name instead of curves, and ``xlabel`` is unused.
        xlog, ylog: whether an axis is logarithmic.
        published: (x, y) from elsewhere, drawn hollow in the colour of the curve (x None: beside the dot) of that name.
        marks: whether points are marked on their curves; where they are not, curves differ in how they are dashed.
        bars: a histogram: a bar at each x in the place of curves.
        narrow: fit for the width of a phone.
    """
    published = published or {}
    # A mean of None is that of runs without a value.
    series = {name: [point for point in points if point[1] is not None] for name, points in series.items()}
    xs = [point[0] for points in (*series.values(), *published.values()) for point in points if point[0] is not None]
    names = list(dict.fromkeys([*series, *(name for name in published if published[name])]))
    keys = sum(1 + _folded(name).count("\n") for name in (*names, *(name for name in published if published[name])))
    beside = not narrow and keys <= MOST_BESIDE
    columns = 1 if narrow or beside else 2 if max(map(len, names)) > 24 else 3
    width = 4.2 if narrow else 8.0
    height = 1.6 + 0.32 * len(series) if not xs else (3.4 if narrow else 4.5)
    if xs and not beside:
        height += 0.2 * math.ceil(keys / columns)
    figure = ShownFigure(figsize=(width, height), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    if title:
        axes.set_title(_filled(title, 40 if narrow else 60 if beside else 90), loc="left", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    xlabel, ylabel = (_filled(label, 36 if narrow else 54) for label in (xlabel, ylabel))
    if xs:
        _curves(axes, series, published, xs, xlog, marks, bars)
        axes.set(xlabel=xlabel, ylabel=ylabel)
        if ylog:
            axes.set_yscale("log")
        axes.grid(axis="y", alpha=0.25)
        handles, words = axes.get_legend_handles_labels()
        if len(words) > 1 or any(published.values()):
            # Outside of the axes, it covers no data.
            figure.legend(
                handles, list(map(_folded, words)), loc="outside right upper" if beside else "outside lower left",
                frameon=False, fontsize=9, ncols=columns, handlelength=3,
            )  # fmt: skip
    else:
        _dots(axes, series, published)
        axes.set(xlabel=ylabel)
        if ylog:
            axes.set_xscale("log")
        axes.grid(axis="x", alpha=0.25)
    return figure


def encoded(drawing: Mapping[str, Any], format: str) -> bytes:
    """Returns what ``draw`` draws as a file: png, pdf or svg, in which no time is noted."""
    buffer = io.BytesIO()
    dated = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}
    with matplotlib.rc_context({"svg.hashsalt": "jaxbandit"}):
        draw(**drawing).savefig(buffer, format=format, metadata=dated.get(format))
    return buffer.getvalue()


def svg(drawing: Mapping[str, Any], narrow: bool = False) -> str:
    """Returns what ``draw`` draws as an SVG element for a page: its text is the page's, black is the page's own colour
    of text, and there is no ground."""
    return element(lambda: draw(**drawing, narrow=narrow), f"{narrow} {json.dumps(drawing)}")


def element(made: Callable[[], Figure], salt: str) -> str:
    """Returns a figure as an SVG element, as ``svg`` has it; ``salt``: tells its inner names from those of others on a
    page."""
    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": salt}):
        made().savefig(
            buffer, format="svg", transparent=True, metadata=dict.fromkeys(("Date", "Creator", "Format", "Type"))
        )
    text = buffer.getvalue()
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    return text.replace("stroke: #000000", "stroke: currentColor").replace("fill: #000000", "fill: currentColor")


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

    names = list(dict.fromkeys([*series, *published]))
    for number, name in enumerate(names):
        aside = 0.6 * ((number + 0.5) / len(names) - 0.5)  # of a category, so that nothing lies over another

        def place(x: Any, aside: float = aside) -> float:
            return float(words.index(x if isinstance(x, str) else show(x)) + aside if categories else x)

        style = _style(number, marks)
        points = series.get(name, ())
        for _, mean, low, high in (point for point in points if point[0] is None):
            axes.axhline(mean, label=name, **style)
            if low is not None:
                axes.axhspan(low, high, color=style["color"], alpha=0.2, linewidth=0)
        line = sorted((place(x), mean, low, high) for x, mean, low, high in points if x is not None)
        if bars:
            gap = min((after[0] - before[0] for before, after in itertools.pairwise(line)), default=1.0)
            axes.bar([at[0] for at in line], [at[1] for at in line], 0.9 * gap, label=name, color=style["color"])
        elif line:
            joined = {} if not categories else {"linestyle": "none"}  # there is nothing between two categories
            mark = _MARKERS[number % len(_MARKERS)] if marks or categories else ""
            _curve(axes, line, name, style | joined, mark, number)
        if published.get(name):
            hollow = [(place(x), y) for x, y in published[name]]
            axes.plot(
                *zip(*hollow, strict=True), label=f"{name}, published", color=style["color"], linestyle="none",
                fillstyle="none", zorder=5, marker=_MARKERS[number % len(_MARKERS)], markersize=9,
            )  # fmt: skip
    _ticks(axes, xs, words if categories else None, xlog)


def _style(number: int, marks: bool) -> dict[str, Any]:
    """Returns the style of the curve of that number: its neighbours differ from it in colour, and in their marks or
    else their dashes."""
    dashes = number // len(_COLOURS) if marks else number
    return {
        "color": _COLOURS[number % len(_COLOURS)], "linestyle": _LINES[dashes % len(_LINES)], "linewidth": 1.6,
    }  # fmt: skip


def _curve(axes: Any, line: list[Any], name: str, style: Mapping[str, Any], marker: str, number: int) -> None:
    """Draws a curve with the band of its intervals. Of many points some are marked, and the ends of none."""
    every = max(1, len(line) // 12)
    axes.plot(
        [point[0] for point in line], [point[1] for point in line], label=name, marker=marker, markersize=5.5,
        markevery=(number % every, every), **style,
    )  # fmt: skip
    sure = [point for point in line if point[2] is not None]
    if not sure:
        return
    at, middle, low, high = (np.array(column) for column in zip(*sure, strict=True))
    if style["linestyle"] != "none":
        axes.fill_between(at, low, high, color=style["color"], alpha=0.2, linewidth=0)
    if len(line) <= _MANY:
        ends = [middle - low, high - middle]
        axes.errorbar(at, middle, ends, fmt="none", ecolor=style["color"], elinewidth=1, capsize=2)


def _ticks(axes: Any, xs: list[Any], words: list[str] | None, xlog: bool) -> None:
    """Sets ticks at categories, and at the numbers themselves where they are few."""
    if words is not None:
        axes.set_xticks(range(len(words)), words)
        axes.set_xlim(-0.5, len(words) - 0.5)
        return
    if xlog:
        axes.set_xscale("log")
    ticks = sorted(set(xs))
    if len(ticks) <= 8 and _apart(ticks, xlog):
        axes.set_xticks(ticks, [f"{tick:,.6g}" if abs(tick) < 1e6 else f"{tick:.6g}" for tick in ticks])
        axes.minorticks_off()


def _apart(ticks: list[float], log: bool) -> bool:
    """Returns whether labels at these places do not run into each other."""
    at = [math.log(tick) for tick in ticks] if log else ticks
    return all(b - a >= (at[-1] - at[0]) / 14 for a, b in itertools.pairwise(at))


def _filled(text: str, width: int) -> str:
    """Returns the text in lines of that width; its own line breaks stay."""
    return "\n".join(textwrap.fill(line, width) for line in text.split("\n"))


def _folded(name: str) -> str:
    """Returns a curve's name in lines that leave room for the axes."""
    return textwrap.fill(name, 40)


def _dots(axes: Any, series: Mapping[str, Sequence[Point]], published: Mapping[str, Sequence[Any]]) -> None:
    for number, (name, points) in enumerate(series.items()):
        for _, mean, low, high in points:
            ends = None if low is None else [[mean - low], [high - mean]]
            axes.errorbar(mean, number, xerr=ends, fmt="o", color=_COLOURS[0], capsize=3)
        for _, y in published.get(name, ()):
            axes.plot(y, number, marker="o", markersize=9, fillstyle="none", color=_COLOURS[0])
    axes.set_yticks(range(len(series)), list(map(_folded, series)))
    axes.set_ylim(len(series) - 0.5, -0.5)
