"""Pictures of a tuning: the metric over each parameter, over two at once, over all, and what was left to judge."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg

from jaxbandit.space import Range
from jaxbandit.study.canvas import Drawn
from jaxbandit.tuning.run import Tuned

_COLOURS = {"eliminated": "#999999", "survivor": "#56B4E9", "chosen": "#D55E00", "failed": "#000000"}
_MARKS = {"eliminated": ".", "survivor": "o", "chosen": "*", "failed": "x"}
_PANEL = (4.0, 3.2)
_ACROSS = 3


def save(out: Path, number: int, tuned: Tuned) -> Path:
    """Writes the picture of problem ``number`` of a study, from 1, and says where it is."""
    path = out / ("tuning.png" if number == 1 else f"tuning-{number}.png")
    draw(tuned).savefig(path, dpi=150)
    return path


def draw(tuned: Tuned) -> Drawn:
    """A panel for each parameter that was searched, one for each two of a policy's, and one for the runs."""
    searched = [(each.kind, each.axes) for each in tuned.plan.policies if each.axes]
    slices = [(kind, name, axis) for kind, axes in searched for name, axis in axes.items()]
    maps = [(kind, list(axes)) for kind, axes in searched if len(axes) == 2]
    lines = [(kind, list(axes)) for kind, axes in searched if len(axes) > 2]
    count = len(slices) + len(maps) + len(lines) + 1
    rows = -(-count // _ACROSS)
    columns = min(count, _ACROSS)
    figure = Drawn(figsize=(columns * _PANEL[0], rows * _PANEL[1] + 0.4), layout="constrained")
    FigureCanvasAgg(figure)
    panels = iter(figure.subplots(rows, columns, squeeze=False).ravel())
    for kind, name, axis in slices:
        _slice(next(panels), tuned, kind, name, isinstance(axis, Range) and axis.log)
    for kind, names in maps:
        _map(figure, next(panels), tuned, kind, names)
    for kind, names in lines:
        _parallel(next(panels), tuned, kind, names)
    _left(next(panels), tuned)
    for rest in panels:
        rest.set_axis_off()
    fates = list(dict.fromkeys(tuned.fate(number) for number in range(len(tuned.candidates))))
    handles = [figure.axes[0].plot([], [], _MARKS[fate], color=_COLOURS[fate])[0] for fate in fates]
    figure.legend(handles, fates, loc="outside upper left", ncols=len(fates), frameon=False, fontsize=9)
    return figure


def _of(tuned: Tuned, kind: str) -> list[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
    """Fate, parameters and row of each candidate of a policy."""
    rows = tuned.rows()
    return [
        (tuned.fate(number), each.params, rows[number])
        for number, each in enumerate(tuned.candidates)
        if each.name == kind and rows[number]["mean"] is not None
    ]


def _slice(axes: Any, tuned: Tuned, kind: str, name: str, log: bool) -> None:
    for fate, params, row in _of(tuned, kind):
        if params.get(name) is None:
            continue
        low, high = row["ci_low"] or row["mean"], row["ci_high"] or row["mean"]
        axes.plot(
            [params[name]],
            [row["mean"]],
            _MARKS[fate],
            color=_COLOURS[fate],
            ms=11 if fate == "chosen" else 5,
            zorder=3,
        )
        axes.plot([params[name]] * 2, [low, high], color=_COLOURS[fate], lw=1, alpha=0.7)
    if log:
        axes.set_xscale("log")
    axes.set(xlabel=f"{name} of {kind}", ylabel=tuned.plan.metric.name)
    axes.grid(axis="y", alpha=0.25)


def _map(figure: Any, axes: Any, tuned: Tuned, kind: str, names: list[str]) -> None:
    found = [
        (params, row["mean"])
        for _, params, row in _of(tuned, kind)
        if all(params.get(name) is not None for name in names)
    ]
    dots = axes.scatter(
        [params[names[0]] for params, _ in found], [params[names[1]] for params, _ in found],
        c=[mean for _, mean in found], cmap="viridis", s=30,
    )  # fmt: skip
    chosen = tuned.candidates[tuned.chosen]
    if chosen.name == kind:
        axes.plot([chosen.params[names[0]]], [chosen.params[names[1]]], "*", color=_COLOURS["chosen"], ms=13)
    axes.set(xlabel=f"{names[0]} of {kind}", ylabel=f"{names[1]} of {kind}")
    figure.colorbar(dots, ax=axes, label=tuned.plan.metric.name)


def _parallel(axes: Any, tuned: Tuned, kind: str, names: list[str]) -> None:
    """A line for each candidate through its values, each scaled to its range; the metric stands last."""
    table = [(fate, [params.get(name) for name in names] + [row["mean"]]) for fate, params, row in _of(tuned, kind)]
    columns = [_scaled([values[at] for _, values in table]) for at in range(len(names) + 1)]
    for line, (fate, _) in enumerate(table):
        front = fate == "chosen"
        axes.plot(
            range(len(columns)), [column[line] for column in columns], color=_COLOURS[fate],
            lw=2 if front else 0.8, alpha=1 if front else 0.5, zorder=3 if front else 2,
        )  # fmt: skip
    axes.set_xticks(range(len(columns)), [*names, tuned.plan.metric.name])
    axes.set_yticks([0, 1], ["least", "most"])
    axes.set_title(kind, fontsize=9, loc="left")


def _scaled(column: list[Any]) -> np.ndarray:
    if not all(isinstance(value, int | float) for value in column):
        words = sorted({str(value) for value in column})
        column = [words.index(str(value)) for value in column]
    values = np.array(column, float)
    scaled: np.ndarray = (values - values.min()) / max(float(np.ptp(values)), 1e-300)
    return scaled


def _left(axes: Any, tuned: Tuned) -> None:
    runs, alive, open_ = zip(*tuned.judge.history, strict=True)
    axes.step(runs, alive, where="post", label="not surely worse", color=_COLOURS["survivor"])
    axes.step(runs, open_, where="post", label="still in question", color=_COLOURS["chosen"], ls="--")
    axes.set(xlabel="runs of each candidate", ylabel="candidates", xscale="log", yscale="log")
    axes.legend(frameon=False, fontsize=8)
