"""What the figures on outlier arms measured, beside what the papers' text states, as Markdown tables.

for figure in zhuang2017/{fig1a,fig1b,fig1c,fig3,intervals} ban2020/{fig2,fig3,fig6}; do
    jaxbandit reproduce $figure --out out/$figure
done
for figure in zhuang2017/{fig2a,fig2b} ban2020/{fig4,fig5}; do
    jaxbandit reproduce $figure --data ../shared/data/captions/559.csv --out out/$figure
done
python -m benchmarks.papers.outlier_tables out
"""

import argparse
import json
from pathlib import Path

from jaxbandit.study.summary import Row, show

TABLES: dict[str, tuple[str, ...]] = {
    "zhuang2017/fig1a": ("correct_over_k",),
    "zhuang2017/fig1b": ("pulls_over_k", "pulls_ratio"),
    "zhuang2017/fig1c": ("mean_saved", "published_cases", "cases"),
    "zhuang2017/fig2a": ("performance",),
    "zhuang2017/fig2b": ("mean_saved", "published_cases", "cases"),
    "zhuang2017/fig3": (
        "least_h1_over_h2", "published_least_h1_over_h2", "most_h1_over_h2", "published_most_h1_over_h2", "pulls_ratio",
    ),
    "zhuang2017/intervals": ("correct", "pulls", "capped", "pulls_ratio"),
    "ban2020/fig2": ("best_ranking",),
    "ban2020/fig3": ("best_pulls", "best_capped", "mean_saved", "published_mean_saved"),
    "ban2020/fig4": ("performance", "pulls_over_cases", "mean_saved", "published_mean_saved"),
    "ban2020/fig5": ("performance", "pulls_over_cases", "mean_saved", "published_mean_saved"),
    "ban2020/fig6": ("pulls",),
}  # fmt: skip
"""The metrics of each figure that are printed, in this order."""

_OMITTED = ("budget",)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3f}".rstrip("0").rstrip(".")


def _measured(row: Row) -> str:
    if row["mean"] is None:
        return ""
    if row["ci_low"] is None or row["ci_high"] is None or row["ci_low"] == row["ci_high"]:
        return _number(row["mean"])
    return f"{_number(row['mean'])} ({_number(row['ci_low'])} to {_number(row['ci_high'])})"


def table(rows: list[Row], metrics: tuple[str, ...]) -> list[str]:
    """The lines of a table."""
    chosen = [row for metric in metrics for row in rows if row["metric"] == metric]
    lines = ["| metric | policy | params | value (95 %) | runs |", "|---|---|---|---|---|"]
    for row in chosen:
        params = show({name: value for name, value in row["params"].items() if name not in _OMITTED})
        lines.append(f"| {row['metric']} | {row['policy']} | {params} | {_measured(row)} | {row['runs'] or ''} |")
    return lines


def main() -> None:
    """Print the tables of those figures that the folder has."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a folder with a folder of results for each figure")
    folder = parser.parse_args().folder
    for figure, metrics in TABLES.items():
        path = folder / figure / "summary.json"
        if path.exists():
            print(f"### {figure}\n", *table(json.loads(path.read_text()), metrics), "", sep="\n")


if __name__ == "__main__":
    main()
