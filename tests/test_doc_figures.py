"""Tables of pages have the numbers of the files that the pages name: committed results that a script wrote."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def rows_of(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text())["rows"]
    return found


def cells(page: str, title: str) -> list[list[str]]:
    """The rows of the page's table whose head begins so."""
    lines = (ROOT / "docs" / page).read_text().split("\n")
    start = next(number for number, line in enumerate(lines) if line.startswith(title))
    body = lines[start + 2 :]
    stop = next(number for number, line in enumerate(body) if not line.startswith("|"))
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in body[:stop]]


def short(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def one(rows: Sequence[dict[str, Any]], **wanted: Any) -> dict[str, Any]:
    return next(row for row in rows if all(row.get(key) == value for key, value in wanted.items()))


def test_rates_of_cleaning_beside_numba() -> None:
    files = {name: rows_of(name) for name in ("cleaning", "xeon/cleaning", "epyc-256/cleaning")}
    table = cells("speed.md", "| | million pulls/s | speed / numba (own")
    assert len(table) == len(files["cleaning"]) == 8
    for name, *numbers in table:
        wanted = {"policy": name.split(",")[0].split(" (")[0], "paired": "no" if "paired" in name else "yes"}
        row, *others = (one(rows, **wanted) for rows in files.values())
        assert numbers == [f"{row['pulls_per_s'] / 1e6:.0f}", short(row["mt_ratio"]), short(row["xoroshiro_ratio"]),
                           *(short(other["xoroshiro_ratio"]) for other in others)]  # fmt: skip


def test_rates_of_topk_beside_numba() -> None:
    files = [rows_of(name) for name in ("topk", "xeon/topk", "epyc-256/topk")]
    table = cells("speed.md", "| | setting | runs/s | speed")
    assert len(table) == len({(row["policy"], row["arms"]) for row in files[0]})
    for name, setting, *numbers in table:
        count = int(setting.split(" K")[0].removeprefix("n = ").replace(",", ""))
        row = one(files[0], policy=name, arms=count)
        others = [[each for each in rows if each["policy"] == name and each["arms"] == count] for rows in files[1:]]
        assert numbers == [f"{row['runs_per_s']:,.0f}", short(row["mt_ratio"]), short(row["xoroshiro_ratio"]),
                           *(short(other[0]["xoroshiro_ratio"]) if other else "–" for other in others)]  # fmt: skip


def test_rates_of_outlier_arms_beside_numba() -> None:
    rows = rows_of("outliers")
    table = cells("speed.md", "| | arms | interval | pulls a run")
    assert len(table) == len(rows)
    for (name, arms, interval, *numbers), row in zip(table, rows, strict=True):
        assert (name, int(arms), interval) == (row["rule"], row["n"], row["interval"])
        assert numbers == [f"{row['pulls']:,.0f}", f"{row['runs_per_s']:,.0f}", short(row["ratio"])]


def test_rates_of_extraction_beside_numba() -> None:
    rows = rows_of("extraction")
    table = cells("speed.md", "| | answers | runs per CPU-second")
    names = {"people": "PeopleInNews", "eventbrite": "Eventbrite"}
    assert len(table) == len(rows)
    for (name, answers, *numbers), row in zip(table, rows, strict=True):
        domain, _, how = row["case"].partition(", ")
        assert (name, answers) == (names[domain], how)
        assert numbers == [f"{row['runs_per_s']:,.0f}", short(row["ratio"]), short(row["numba_ratio"])]


def test_what_a_cluster_needs() -> None:
    rows = rows_of("cleaning")
    for name, *numbers in cells("cluster.md", "| policy | million pulls a second, one core"):
        rate = one(rows, policy=name, paired="yes")["pulls_per_cpu_s"]
        hours = 1e12 / rate / 3600
        assert numbers == [f"{rate / 1e6:.0f}", f"{hours:.2f}", f"{hours / 24:.2f}", f"{hours / 1000:.4f}"]


def test_verdicts() -> None:
    rows = rows_of("verdicts")
    table = cells("tuning.md", "| setting | candidates | right | the best chosen")
    for found, row in zip(table, rows, strict=True):
        interval = f"{row['right']:.3f} ({row['right_low']:.3f} to {row['right_high']:.3f})"
        assert found == [row["setting"], str(row["candidates"]), interval, f"{row['chose_best']:.3f}",
                         f"{row['median_runs']:,.0f}", f"{row['kn_right']:.3f}",
                         f"{row['kn_median_runs']:,.0f}"]  # fmt: skip
