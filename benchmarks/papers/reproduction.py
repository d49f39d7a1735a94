"""Every number that Cheng et al. 2010 state in words beside the measured one, as a Markdown table.

for figure in fig4a fig4d fig4f fig4h fig4i fig4l parameters; do
    jaxbandit reproduce cheng2010/$figure --out out/$figure
done
python -m benchmarks.papers.reproduction out
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

from jaxbandit.papers.cheng2010 import EARLY_STOPPING, MOST_MILLISECONDS, SEARCH_SECONDS, TUNED
from jaxbandit.study.summary import Row, identity

Line = tuple[str, str, str, str]
"""What, the published number, the measured one, the command's figure."""


def _rows(folder: Path, name: str) -> list[Row]:
    found: list[Row] = json.loads((folder / name).read_text())
    return found


def _interval(row: Row, unit: str, digits: int = 2) -> str:
    numbers = [f"{row[key]:.{digits}f}" for key in ("mean", "ci_low", "ci_high") if row[key] is not None]
    if row["runs"] == 0 and row["ci_low"] == row["mean"]:
        return f"{numbers[0]}{unit}"
    return f"{numbers[0]}{unit} ({numbers[1]} to {numbers[2]})"


def _leads(folder: Path, figure: str) -> Iterator[Line]:
    rows = _rows(folder / figure, "summary.json")
    for published in (row for row in rows if row["metric"] == "published_lead_percent"):
        (measured,) = (
            row for row in rows
            if row["metric"] == "lead_percent" and identity(row["params"]) == identity(published["params"])
        )  # fmt: skip
        place = {"fig4a": "budget 10k", "fig4d": "100k entities", "fig4f": "normal(0.3)"}[figure]
        what = f"EE above {published['params']['over']}, {place}"
        yield what, f"{published['mean']} %", _interval(measured, " %"), figure


def _early_stopping(folder: Path) -> Iterator[Line]:
    rows = _rows(folder / "fig4h", "summary.json")
    (mean,) = (row for row in rows if row["metric"] == "mean_gain_percent")
    yield "gain by early stopping, mean over budgets", f"{EARLY_STOPPING} %", _interval(mean, " %"), "fig4h"


def _parameters(folder: Path) -> Iterator[Line]:
    rows = _rows(folder / "parameters", "summary.json")
    found = {row["metric"]: row["mean"] for row in rows if row["params"]["tuning"] == "lemma3"}
    measured = f"({found['t']:g}, {found['q']:g}), equal up to q = {found['last_q']:g}"
    yield "(t, q) by Lemma 3, delta 0.001", f"({TUNED[0]}, {TUNED[1]})", measured, "parameters"
    for row in _rows(folder / "parameters", "timings.json"):
        if row["metric"] == "search_s" and row["params"]["tuning"] == "lemma3":
            yield "time of that search", f"{SEARCH_SECONDS} s", _interval(_thousandfold(row), " ms"), "parameters"


def _thousandfold(row: Row) -> Row:
    def times(value: float | None) -> float | None:
        return None if value is None else 1000 * value

    return {**row, "mean": times(row["mean"]), "ci_low": times(row["ci_low"]), "ci_high": times(row["ci_high"])}


def _times(folder: Path, figure: str) -> Iterator[Line]:
    rows = _rows(folder / figure, "timings.json")
    timed = [row for row in rows if row["metric"] == "ms_per_run" and "published" not in row["params"]]
    for policy in dict.fromkeys(row["policy"] for row in timed):
        means = [row["mean"] for row in timed if row["policy"] == policy and row["mean"] is not None]
        ratios = [r["mean"] for r in rows if r["policy"] == policy and r["metric"] == "time_ratio" and r["mean"]]
        over = f"; {min(ratios):.1f} to {max(ratios):.1f} times EE" if ratios else ""
        measured = f"{min(means):.3f} to {max(means):.3f} ms{over}"
        yield f"time of a run of {policy}", f"below {MOST_MILLISECONDS:g} ms", measured, figure


def lines(folder: Path) -> Iterator[Line]:
    """The table's lines, for those figures that ``folder`` has."""
    for figure in ("fig4a", "fig4d", "fig4f"):
        if (folder / figure / "summary.json").exists():
            yield from _leads(folder, figure)
    for figure, make in (("fig4h", _early_stopping), ("parameters", _parameters)):
        if (folder / figure / "summary.json").exists():
            yield from make(folder)
    for figure in ("fig4i", "fig4j", "fig4l"):
        if (folder / figure / "summary.json").exists():
            yield from _times(folder, figure)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a folder with a folder of results for each figure")
    folder = parser.parse_args().folder
    print("| number | published | measured (95 %) | figure |\n|---|---|---|---|")
    for line in lines(folder):
        print(f"| {' | '.join(line)} |")


if __name__ == "__main__":
    main()
