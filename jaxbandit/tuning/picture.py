"""Pictures of a tuning: the metric over each parameter, over two at once, over all, and what was left to judge."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

from jaxbandit.space import Domain, Range
from jaxbandit.study.canvas import ShownFigure
from jaxbandit.study.summary import show
from jaxbandit.tuning.run import TuningOutcome

_COLOURS = {"eliminated": "#999999", "survivor": "#0072B2", "chosen": "#D55E00", "failed": "#000000"}
_MARKS = {"eliminated": ".", "survivor": "o", "chosen": "*", "failed": "x"}
_WORDS = {
    "eliminated": "surely worse than another", "survivor": "not surely worse", "chosen": "chosen", "failed": "no value",
}  # fmt: skip
_PANEL = (4.2, 3.2)
EXPLAINED = (
    "A mark is a candidate: its mean over the runs that it was given, with the 95 % interval. Where a policy has "
    "several parameters, marks at one place differ in the others. Grey candidates are surely worse than another one; "
    "over two parameters at once, colours are the metric. The last panel says how many candidates were left after how "
    "many runs of each."
)
"""What the panels show, for who sees them the first time."""


def draw(tuned: TuningOutcome, narrow: bool = False) -> ShownFigure:
    """Draws a panel for each parameter that was searched, for each two ranges of a policy, for all of three or more,
    for policies of which nothing was searched, and for the runs; ``narrow``: one below the other, for a phone."""
    searched = [(each.kind, each.axes) for each in tuned.options.policies if each.axes]
    panels: list[Any] = []
    for kind, axes in searched:
        panels += [(_slice, kind, name, axis) for name, axis in axes.items()]
        ranges = [name for name, axis in axes.items() if isinstance(axis, Range)]
        panels += [(_map, kind, pair, axes) for pair in itertools.combinations(ranges, 2)]
        panels += [(_parallel, kind, axes)] if len(axes) > 2 else []
    drawn = {kind for kind, _ in searched}
    if others := [kind for kind in dict.fromkeys(each.name for each in tuned.candidates) if kind not in drawn]:
        panels.append((_plain, others))
    panels.append((_left,))
    across = 1 if narrow else min(2, len(panels))
    rows = -(-len(panels) // across)
    figure = ShownFigure(figsize=(across * _PANEL[0], rows * _PANEL[1] + 0.5), layout="constrained")
    FigureCanvasAgg(figure)
    places = figure.subplots(rows, across, squeeze=False).ravel()
    for place, (panel, *given) in zip(places, panels, strict=False):
        place.spines[["top", "right"]].set_visible(False)
        panel(place, tuned, *given)
    for place in places[len(panels) :]:
        place.set_axis_off()
    statuses = list(dict.fromkeys(tuned.status(number) for number in range(len(tuned.candidates))))
    handles = [places[0].plot([], [], _MARKS[status], color=_COLOURS[status])[0] for status in statuses]
    figure.legend(
        handles, [_WORDS[status] for status in statuses], loc="outside upper left", ncols=2 if narrow else 4,
        frameon=False, fontsize=9,
    )  # fmt: skip
    return figure


def _of(tuned: TuningOutcome, kind: str) -> list[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
    """Returns status, parameters and row of each candidate of a policy that has a mean, the chosen one last, on top."""
    found = [
        (tuned.status(number), row["params"], row)
        for number, row in enumerate(tuned.rows())
        if row["policy"] == kind and row["mean"] is not None
    ]
    return sorted(found, key=lambda each: list(_MARKS).index(each[0]))


def _placed(axes: Any, axis: Domain, values: list[Any], which: str = "x") -> list[float]:
    """Returns places on an axis: numbers of a range at themselves, choices side by side under their words."""
    if isinstance(axis, Range):
        if axis.log:
            _logarithmic(axes, which)
        return list(values)
    words = [show(value) for value in axis.values]
    getattr(axes, f"set_{which}ticks")(range(len(words)), words)
    return [float(words.index(show(value))) for value in values]


class _Ticks(LogLocator):
    """Ticks at 1, 2, 5, 10 ... over two decades; over more, at powers of ten alone, or their numbers would meet."""

    def tick_values(self, vmin: float, vmax: float) -> Any:
        """Returns the places of the ticks between two numbers."""
        self.set_params(subs=(1, 2, 5) if vmax <= 100 * vmin else (1,))
        return super().tick_values(vmin, vmax)


def _logarithmic(axes: Any, which: str) -> None:
    """Makes an axis logarithmic, with plain numbers."""
    getattr(axes, f"set_{which}scale")("log")
    axis = getattr(axes, f"{which}axis")
    axis.set_major_locator(_Ticks())
    axis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    axis.set_minor_locator(NullLocator())


def _slice(axes: Any, tuned: TuningOutcome, kind: str, name: str, axis: Domain) -> None:
    inside = [each for each in _of(tuned, kind) if _is_on(axis, each[1].get(name))]
    places = _placed(axes, axis, [params[name] for _, params, _ in inside])
    _marks(axes, inside, places)
    if len(places) and not isinstance(axis, Range):
        axes.set_xlim(-0.5, len(axis.values) - 0.5)
    axes.set(xlabel=f"{name} of {kind}", ylabel=tuned.options.metric.name)
    axes.grid(axis="y", alpha=0.25)


def _marks(axes: Any, found: Sequence[tuple[str, Any, Any]], places: Sequence[float]) -> None:
    """Draws the mean and the interval of each candidate at its place."""
    for (status, _, row), place in zip(found, places, strict=True):
        low, high = (row[end] if row[end] is not None else row["mean"] for end in ("ci_low", "ci_high"))
        front = status == "chosen"
        axes.plot([place] * 2, [low, high], color=_COLOURS[status], lw=1, alpha=1 if front else 0.6)
        axes.plot([place], [row["mean"]], _MARKS[status], color=_COLOURS[status], ms=12 if front else 5)


def _plain(axes: Any, tuned: TuningOutcome, kinds: list[str]) -> None:
    """Draws the candidates of policies of which nothing was searched, side by side."""
    for place, kind in enumerate(kinds):
        found = _of(tuned, kind)
        _marks(axes, found, [float(place)] * len(found))
    axes.set_xticks(range(len(kinds)), kinds)
    axes.set(xlim=(-0.5, len(kinds) - 0.5), xlabel="policies without a search", ylabel=tuned.options.metric.name)
    axes.grid(axis="y", alpha=0.25)


def _is_on(axis: Domain, value: Any) -> bool:
    return value is not None and (isinstance(axis, Range) or show(value) in [show(each) for each in axis.values])


def _map(axes: Any, tuned: TuningOutcome, kind: str, names: tuple[str, str], domains: Mapping[str, Domain]) -> None:
    found = [each for each in _of(tuned, kind) if all(each[1].get(name) is not None for name in names)]
    x, y = (
        _placed(axes, domains[name], [params[name] for _, params, _ in found], which)
        for name, which in zip(names, "xy", strict=True)
    )
    better = "viridis_r" if tuned.options.metric.lower_is_better else "viridis"
    dots = axes.scatter(x, y, c=[row["mean"] for *_, row in found], cmap=better, s=30)
    if found and found[-1][0] == "chosen":
        axes.plot(x[-1:], y[-1:], "*", color=_COLOURS["chosen"], ms=13, mec="white")
    axes.set(xlabel=f"{names[0]} of {kind}", ylabel=f"{names[1]} of {kind}")
    axes.figure.colorbar(dots, ax=axes, label=tuned.options.metric.name)


def _parallel(axes: Any, tuned: TuningOutcome, kind: str, domains: Mapping[str, Domain]) -> None:
    """Draws a line for each candidate through its values, each scaled to its range; the metric stands last."""
    table = [
        (status, [*(params.get(name) for name in domains), row["mean"]])
        for status, params, row in _of(tuned, kind)
        if all(params.get(name) is not None for name in domains)
    ]
    columns = [_scaled([values[at] for _, values in table]) for at in range(len(domains) + 1)]
    for line, (status, _) in enumerate(table):
        front = status == "chosen"
        axes.plot([column[line] for column, _ in columns], color=_COLOURS[status], lw=2 if front else 0.8,
                  alpha=1 if front else 0.5)  # fmt: skip
    words = [f"{name}\n{ends}" for name, (_, ends) in zip([*domains, tuned.options.metric.name], columns, strict=True)]
    axes.set_xticks(range(len(columns)), words, fontsize=8)
    axes.set_yticks([0, 1], ["least", "most"])
    axes.set_title(kind, fontsize=9, loc="left")


def _scaled(column: list[Any]) -> tuple[np.ndarray, str]:
    """Returns values scaled from 0 to 1, and what these two stand for."""
    if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in column):
        words = sorted({show(value) for value in column})
        places = np.array([words.index(show(value)) for value in column], float)
        return places / max(len(words) - 1, 1), "\n".join(words)
    values = np.array(column, float)
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
    return (values - low) / ((high - low) or 1), f"{low:.3g} to {high:.3g}"


def _left(axes: Any, tuned: TuningOutcome) -> None:
    runs, alive, open_ = zip(*tuned.judge.history, strict=True)
    # The first evaluation decides much: it is shown as a step down from all candidates.
    first, count = runs[0], len(tuned.candidates)
    runs, alive, open_ = (first / 2, *runs), (count, *alive), (count, *open_)
    axes.step(runs, alive, where="post", label="not surely worse", color=_COLOURS["survivor"])
    axes.step(runs, open_, where="post", label="still in question", color=_COLOURS["chosen"], ls="--")
    axes.plot(runs[-1:], alive[-1:], "o", color=_COLOURS["survivor"], ms=4)
    axes.set(xlabel="runs of each candidate", ylabel="candidates")
    for which in "xy":
        _logarithmic(axes, which)
    axes.legend(frameon=False, fontsize=8)


__all__ = ["EXPLAINED", "draw"]
