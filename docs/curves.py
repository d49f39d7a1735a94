"""Draws the curves of ``speed.md``, docs/images/speed.png and speed-arms.png, from what ``benchmarks.scaling`` and
``benchmarks.scaling_arms`` wrote."""

import json
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

ROOT = Path(__file__).parents[1]
AXES = {"epsilon": "epsilon", "budget": "budget (pulls)", "entities": "entities"}
COLOURS = {"epsilon-greedy": "#0072B2", "index": "#D55E00"}
ARMS = {
    "topk": {"uniform": "#0072B2", "optmai": "#D55E00", "sar": "#009E73", "lucb": "#CC79A7", "kl-lucb": "#56B4E9"},
    "outliers": {"rr": "#0072B2", "wrr": "#D55E00", "nrr": "#009E73", "ib": "#CC79A7", "gold": "#E69F00"},
}
_CAPPED = 0.05
"""A point is hollow where more than this share of its runs did not end by itself."""
TITLES = {"topk": "top-K, K = n / 10, Q = 50 n", "outliers": "outliers, k = 2.5"}


def rows_of(name: str) -> list[dict[str, Any]]:
    """The rows of a file of results."""
    found: list[dict[str, Any]] = json.loads((ROOT / "benchmarks" / "results" / name).read_text())["rows"]
    return found


def of_arms() -> None:
    """One panel for each family: the same against the number of arms."""
    rows = [row for row in rows_of("scaling_arms.json") if row["axis"] == "n"]
    figure = Figure(figsize=(7.2, 4.4), layout="constrained")
    for axes, (family, colours) in zip(figure.subplots(1, 2), ARMS.items(), strict=True):
        for policy, colour in colours.items():
            for key, style in (("ns_a_pull", "o-"), ("numba_ns_a_pull", "s--")):
                own = [row for row in rows if row["policy"] == policy and row["family"] == family and row.get(key)]
                points = sorted((row["value"], row[key]) for row in own)
                label = policy if key == "ns_a_pull" else None
                axes.plot(*zip(*points, strict=True), style, color=colour, ms=4, label=label)
                capped = [(row["value"], row[key]) for row in own if row.get("capped", 0) > _CAPPED]
                if capped:
                    axes.plot(*zip(*capped, strict=True), style[0], color=colour, ms=6, mfc="white")
        axes.plot([], [], "s--", color="0.4", ms=4, label="numba")
        if family == "outliers":
            axes.plot([], [], "o", color="0.4", ms=6, mfc="white", label="runs end at the cap")
        axes.set(xlabel="arms", xscale="log", yscale="log", title=TITLES[family])
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="0.9")
        axes.legend(frameon=False, fontsize="small", ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.17))
    figure.axes[0].set(ylabel="ns of CPU time a pull")
    figure.savefig(ROOT / "docs" / "images" / "speed-arms.png", dpi=120)


def main() -> None:
    """One panel for each parameter that moves: nanoseconds of CPU time a pull, of jaxbandit and of a loop in numba."""
    rows = rows_of("scaling.json")
    figure = Figure(figsize=(7.2, 3.4), layout="constrained")
    panels = figure.subplots(1, len(AXES), sharey=True)
    for axes, (parameter, label) in zip(panels, AXES.items(), strict=True):
        for policy, colour in COLOURS.items():
            for key, style in (("ns_a_pull", "o-"), ("numba_ns_a_pull", "s--")):
                own = [row for row in rows if row["policy"] == policy and row["axis"] == parameter and row.get(key)]
                points = sorted((row["value"], row[key]) for row in own if row["paired"] == "yes")
                if points:
                    name = policy if key == "ns_a_pull" else f"{policy}, numba"
                    axes.plot(*zip(*points, strict=True), style, color=colour, ms=4, label=name)
        axes.set(xlabel=label, xscale="linear" if parameter == "epsilon" else "log")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="0.9")
    panels[0].set(ylabel="ns of CPU time a pull")
    panels[0].set_ylim(bottom=0)
    figure.legend(
        *panels[2].get_legend_handles_labels(), frameon=False, fontsize="small", loc="outside upper center", ncols=3
    )
    figure.savefig(ROOT / "docs" / "images" / "speed.png", dpi=120)


if __name__ == "__main__":
    main()
    of_arms()
