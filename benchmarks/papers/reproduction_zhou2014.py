"""What Zhou, Chen and Li 2014 claim of their figures, held against the measured runs, as Markdown tables.

for figure in fig1a fig1b fig1c fig1d fig1e fig1f appendix-truncated-normal appendix-beta \\
        fig2b fig2c fig2d fig2e fig2f; do
    jaxbandit reproduce zhou2014/$figure --data ../shared/data/rte --out out/$figure
done
python -m benchmarks.papers.reproduction_zhou2014 out

Two rules are compared run by run, on the runs that both have. "below" and "above" are the K at which the 95 % interval
of the mean difference leaves out 0, each for itself; "open" the others.
"""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from jaxbandit.papers.zhou2014 import TASKS
from jaxbandit.study.results import open_results
from jaxbandit.study.summary import Row, student_t

OURS, SLOW, SAR, LUCB, UNIFORM = "optmai 0.8", "optmai 0.9", "sar", "lucb", "uniform"
RULES = (OURS, SLOW, SAR, LUCB, UNIFORM)

SIMULATED = [*(f"fig1{letter}" for letter in "abcdef"), "appendix-truncated-normal", "appendix-beta"]
REAL = ["fig2b", "fig2c", "fig2d"]
SHOWN = [10, 20, 50, 100, 300, 500]
"""The K whose regrets are given."""

Values = Mapping[tuple[str, int], np.ndarray]
"""Of each rule at each K, its runs' values in the order of their numbers."""


def values(folder: Path, metric: str) -> Values:
    """The runs of a figure's studies."""
    found = {}
    for study in sorted((folder / "studies").iterdir()):
        data = open_results(study)
        for number, label in enumerate(data["policy"].values):
            beta = [word.removeprefix("beta=") for word in str(label).split() if word.startswith("beta=")]
            rule = " ".join([str(label).split()[0], *beta])
            for place, want in enumerate(data["K"].values):
                found[rule, int(want)] = data[metric].isel(policy=number, K=place).values.ravel()
    return found


def compared(found: Values, one: str, other: str) -> dict[str, list[int]]:
    """At which K ``one`` is below ``other``, above it, and open."""
    where: dict[str, list[int]] = {"below": [], "above": [], "open": []}
    for want in sorted({want for rule, want in found if rule == one} & {want for rule, want in found if rule == other}):
        runs = min(found[one, want].size, found[other, want].size)
        difference = found[one, want][:runs] - found[other, want][:runs]
        half = student_t(runs - 1) * difference.std(ddof=1) / np.sqrt(runs)
        mean = difference.mean()
        where["below" if mean < -half else "above" if mean > half else "open"].append(want)
    return where


def _said(where: Mapping[str, Sequence[int]]) -> str:
    there = {how: at for how, at in where.items() if at}
    if len(there) == 1:
        return f"{next(iter(there))} at every K"
    every = sorted(want for at in there.values() for want in at)
    return "; ".join(f"{how} {', '.join(_stretches(at, every))}" for how, at in there.items())


def _stretches(at: Sequence[int], every: Sequence[int]) -> Iterator[str]:
    """``at`` in words, neighbours among ``every`` taken together where they are three or more."""
    groups: list[list[int]] = []
    for want in at:
        if groups and every.index(want) == every.index(groups[-1][-1]) + 1:
            groups[-1].append(want)
        else:
            groups.append([want])
    for group in groups:
        yield f"{group[0]} to {group[-1]}" if len(group) > 2 else ", ".join(map(str, group))


def _regrets(found: Values) -> Iterator[str]:
    for want in sorted({want for rule, want in found if rule == LUCB} & set(SHOWN)):
        cells = []
        for rule in RULES:
            own = 1000 * found[rule, want]
            cells.append(f"{own.mean():.2f} ± {student_t(own.size - 1) * own.std(ddof=1) / np.sqrt(own.size):.2f}")
        yield f"{want} | {' | '.join(cells)}"


def _tasks(folder: Path) -> Iterator[str]:
    for figure in ("fig2e", "fig2f"):
        rows: list[Row] = json.loads((folder / figure / "summary.json").read_text())
        for row in rows:
            published = dict(TASKS[row["policy"]]).get(row["params"].get("percentile", -1))
            if row["metric"] == "tasks" and published is not None:
                beta = row["params"].get("beta")
                rule = row["policy"] if beta is None else f"{row['policy']} {beta}"
                which = "most" if row["params"]["percentile"] == 100 else "least"
                measured = f"{row['mean']:.1f} ({row['ci_low']:.1f} to {row['ci_high']:.1f})"
                yield f"{which} tasks of a worker, {rule} | {published} | {measured} | {figure}"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a folder with a folder of results for each figure")
    folder = parser.parse_args().folder
    there = [figure for figure in (*SIMULATED, *REAL) if (folder / figure / "summary.json").exists()]
    found = {figure: values(folder / figure, "regret") for figure in there}

    print(f"| figure | {OURS} against {SAR} | {OURS} against {LUCB} | {OURS} against {SLOW} |\n|---|---|---|---|")
    for figure in there:
        cells = [_said(compared(found[figure], OURS, other)) for other in (SAR, LUCB, SLOW)]
        print(f"| {figure} | {' | '.join(cells)} |")

    print(f"\n| figure | {' | '.join(f'{UNIFORM} against {other}' for other in RULES[:-1])} |\n|---|---|---|---|---|")
    for figure in there:
        cells = [_said(compared(found[figure], UNIFORM, other)) for other in RULES[:-1]]
        print(f"| {figure} | {' | '.join(cells)} |")

    print(f"\n| 1000 times the regret | K | {' | '.join(RULES)} |\n|---|---|---|---|---|---|---|")
    for figure in there:
        for line in _regrets(found[figure]):
            print(f"| {figure} | {line} |")

    pairs = [*((OURS, other) for other in RULES[1:]), (LUCB, SAR)]
    print(
        f"\n| precision | {' | '.join(f'{one} against {other}' for one, other in pairs)} |\n|---|---|---|---|---|---|"
    )
    for figure in there:
        if figure in REAL:
            shares = values(folder / figure, "expected_precision")
            print(f"| {figure} | {' | '.join(_said(compared(shares, *pair)) for pair in pairs)} |")

    if (folder / "fig2f" / "summary.json").exists():
        print("\n| number | published | measured (95 %) | figure |\n|---|---|---|---|")
        for line in _tasks(folder):
            print(f"| {line} |")


if __name__ == "__main__":
    main()
