"""Draws the curves of ``speed.md``, docs/images/speed.png, from what ``python -m benchmarks.scaling`` wrote."""

import json
from pathlib import Path

from matplotlib.figure import Figure

ROOT = Path(__file__).parents[1]
AXES = {"epsilon": "epsilon", "budget": "budget (pulls)", "entities": "entities"}
COLOURS = {"epsilon-greedy": "#0072B2", "index": "#D55E00"}


def main() -> None:
    """One panel for each parameter that moves: nanoseconds of CPU time a pull, of jaxbandit and of a loop in numba."""
    rows = json.loads((ROOT / "benchmarks" / "results" / "scaling.json").read_text())["rows"]
    figure = Figure(figsize=(10, 3.4), layout="constrained")
    panels = figure.subplots(1, len(AXES), sharey=True)
    for axes, (parameter, label) in zip(panels, AXES.items(), strict=True):
        for policy, colour in COLOURS.items():
            for key, style in (("ns_a_pull", "o-"), ("numba_ns_a_pull", "s--")):
                own = [row for row in rows if row["policy"] == policy and row["axis"] == parameter and row.get(key)]
                points = sorted((row["value"], row[key]) for row in own if row["paired"] == "yes")
                if points:
                    name = policy if key == "ns_a_pull" else f"{policy}, numba"
                    axes.plot(*zip(*points, strict=True), style, color=colour, ms=4, label=name)
        axes.set(xlabel=label, ylim=(0, 220), xscale="linear" if parameter == "epsilon" else "log")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="0.9")
    panels[0].set(ylabel="ns of CPU time a pull")
    figure.legend(
        *panels[2].get_legend_handles_labels(), frameon=False, fontsize="small", loc="outside upper center", ncols=3
    )
    figure.savefig(ROOT / "docs" / "images" / "speed.png", dpi=120)


if __name__ == "__main__":
    main()
