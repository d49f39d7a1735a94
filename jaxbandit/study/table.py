"""Rows as a table: plain text, Markdown, LaTeX, CSV or JSON."""

import csv
import io
import textwrap
from collections.abc import Sequence
from typing import Any, Literal, get_args

from jaxbandit.errors import BadInput
from jaxbandit.study.summary import Row, dumps, identity, metrics, show, varying

WIDTH = 100
"""Columns that a plain-text table keeps to, unless it is for a terminal that has fewer."""
_LEAST = 16
"""Columns that what tells rows apart has at least, however narrow the terminal."""

Format = Literal["text", "markdown", "latex", "csv", "json"]


def render(
    rows: Sequence[Row], format: Format = "text", every: bool = False, paired: bool = True, width: int = WIDTH
) -> str:
    """Returns a table of rows, ending with a newline.

    ``text``, ``markdown`` and ``latex`` have a line for each policy and its params, a column for each metric
    (see ``columns``; ``every``: for all of them), and before them what all have in common, and that runs are not
    ``paired``, where a study says so. ``csv`` has a line for each
    row and a column for each param; ``json`` is ``summary.json``. ``width``: of a ``text``, in columns. BadInput for
    another ``format``.
    """
    if format not in get_args(Format):
        raise BadInput("format", format, f"one of {', '.join(get_args(Format))}")
    if format == "json":
        return dumps(rows).decode()
    if format == "csv":
        return _csv(rows)
    cells, numbers, lead = cells_of(rows, every=every)
    head = caption(rows, every=every, paired=paired)
    if format == "markdown":
        rule = ["---:" if right else "---" for right in numbers]
        escaped = [[cell.replace("|", r"\|") for cell in line] for line in cells]
        lines = ["| " + " | ".join(line) + " |" for line in [escaped[0], rule, *escaped[1:]]]
    elif format == "latex":
        return _latex(cells, numbers, head)
    else:
        lines = _text(cells, numbers, lead, width)
        head = textwrap.fill(head, width, break_on_hyphens=False)
    return "\n".join([*([head, ""] if head else []), *lines]) + "\n"


def _text(cells: list[list[str]], numbers: list[bool], lead: int, width: int) -> list[str]:
    """Returns aligned lines of at most ``width`` where that can be; columns that do not fit go below, beside the lead
    again. A lead that leaves no room for a metric is put together in one column."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    room = width - max(widths[lead:], default=0) - 2
    if sum(widths[:lead]) + 2 * (lead - 1) > room:
        cells, numbers, lead = _led(cells, lead, max(room, _LEAST)), [False, *numbers[lead:]], 1
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    blocks = [list(range(lead))]
    for column in range(lead, len(widths)):
        if len(blocks[-1]) > lead and sum(widths[i] + 2 for i in [*blocks[-1], column]) - 2 > width:
            blocks.append(list(range(lead)))
        blocks[-1].append(column)
    lines = []
    for block in blocks:
        shown = ["  ".join(f"{line[i]:{'>' if numbers[i] else '<'}{widths[i]}}" for i in block) for line in cells]
        shown.insert(1, "  ".join("-" * widths[i] for i in block))
        lines += ["", *(line.rstrip() for line in shown)]
    return lines[1:]


def _led(cells: list[list[str]], lead: int, room: int) -> list[list[str]]:
    """Returns the lines with their first ``lead`` cells in one, as ``ee, budget 1000, t 3``, which goes on in lines
    below where it is wider than ``room``."""
    header, *body = cells
    lines = [[header[0], *header[lead:]]]
    for line in body:
        named = [f"{name} {cell}" for name, cell in zip(header[1:lead], line[1:lead], strict=True) if cell]
        first, *more = textwrap.wrap(", ".join([line[0], *named]), room, subsequent_indent="  ", break_on_hyphens=False)
        lines += [[first, *line[lead:]], *([each, *[""] * (len(line) - lead)] for each in more)]
    return lines


def _latex(cells: list[list[str]], numbers: list[bool], head: str) -> str:
    lines = [
        " & ".join(_tex(cell, number and place > 0 and cell) for cell, number in zip(line, numbers, strict=True))
        + r" \\"
        for place, line in enumerate(cells)
    ]
    columns = "".join("r" if right else "l" for right in numbers)
    table = [rf"\begin{{tabular}}{{{columns}}}", r"\hline", lines[0], r"\hline", *lines[1:], r"\hline"]
    return "\n".join([f"% {head}", *table, r"\end{tabular}", ""])


def _tex(text: str, number: object) -> str:
    if number:
        return "$" + text.replace("±", r"\pm").replace("–", "-").replace(" [", r"\ [") + "$"
    text = text.replace("\\", r"\textbackslash ")
    for mark in "&%$#_{}":
        text = text.replace(mark, "\\" + mark)
    return text


def columns(rows: Sequence[Row]) -> tuple[list[str], dict[str, str]]:
    """Returns the metrics that a table has columns for, and the other ones, each with the metric that it equals, or
    nothing.

    Percentiles, as ``pulls_50`` beside ``pulls``, have none, and neither has a metric that is the same as an earlier
    one, interval and all, in every line.
    """
    names = metrics(rows)
    values: dict[str, list[Any]] = {name: [] for name in names}
    for row in rows:
        own = [row["mean"], row["ci_low"], row["ci_high"]]
        values[row["metric"]].append((identity([row["policy"], row["params"], *own]), own[1] != own[2]))
    shown: list[str] = []
    others = {}
    for name in names:
        base, _, percent = name.rpartition("_")
        twin = next((each for each in shown if values[each] == values[name]), None)
        if percent.isdigit() and base in names:
            others[name] = ""
        elif twin is not None and any(wide for _, wide in values[name]):
            others[name] = twin
        else:
            shown.append(name)
    return shown, others


def cells_of(rows: Sequence[Row], every: bool = False, ends: bool = False) -> tuple[list[list[str]], list[bool], int]:
    """Returns the header and the lines; which columns are aligned to the right; and how many come before the metrics.

    ``every``: of all metrics (see ``columns``); ``ends``: with both ends of all intervals.
    """
    params, names = varying(rows), metrics(rows) if every else columns(rows)[0]
    lopsided = {row["metric"] for row in rows if ends or not _symmetric(row)}
    lines: dict[str, tuple[Row, dict[str, str]]] = {}
    for row in rows:
        key = identity([row["policy"], row["params"]])
        lines.setdefault(key, (row, {}))[1][row["metric"]] = estimate(row, row["metric"] in lopsided)
    body = [
        [row["policy"], *(show(row["params"].get(name)) for name in params), *(values.get(name, "") for name in names)]
        for row, values in lines.values()
    ]
    numeric = [all(isinstance(row["params"].get(name, 0), int | float) for row in rows) for name in params]
    return [["policy", *params, *names], *body], [False, *numeric, *[True] * len(names)], 1 + len(params)


def caption(rows: Sequence[Row], every: bool = False, ends: bool = False, paired: bool = True) -> str:
    """Returns what all rows have in common, and what stands in a cell. ``every``, ``ends``: see ``cells_of``;
    ``paired``: see ``render``."""
    runs = sorted({row["runs"] for row in rows} - {0})
    counts = " to ".join(f"{count:,}" for count in dict.fromkeys((runs[0], runs[-1]))) if runs else ""
    parts = [f"{counts} run{'' if counts == '1' else 's'}{'' if paired else ', not paired'}"] if runs else []
    wide = [row for row in rows if row["ci_low"] != row["ci_high"]]
    lopsided = {row["metric"] for row in wide if ends or not _symmetric(row)}
    what = "quantile" if all(row["metric"].endswith(" quantile") for row in rows) else "mean"
    if any(row["metric"] not in lopsided for row in wide):
        parts.append(f"{what} ± half of the 95 % interval")
    if lopsided:
        parts.append(f"{what} [95 % interval]")
    alone = ["it did not vary over its runs"] if any(map(_constant, rows)) else []
    alone += ["it was computed, not sampled"] if runs and any(row["runs"] == 0 for row in rows) else []
    if alone:
        parts.append(f"a value alone: {', or '.join(alone)}")
    names = varying(rows)
    same = rows[0]["params"] if rows else {}
    parts += [f"{name} = {show(value)}" for name, value in same.items() if name not in names and value is not None]
    others: dict[str, list[str]] = {}
    for name, twin in ({} if every else columns(rows)[1]).items():
        others.setdefault(twin, []).append(name)
    parts += [f"left out: {', '.join(same)}, the same as {twin} in all rows" for twin, same in others.items() if twin]
    if percentiles := others.get(""):
        parts.append(f"left out: {percentiles[0]} to {percentiles[-1]} (jaxbandit show --metric {percentiles[0]})")
    return "; ".join(parts)


def _constant(row: Row) -> bool:
    """Returns whether a sampled value was the same in all of several runs, so that they give it no interval."""
    return row["runs"] > 1 and row["ci_low"] is not None and row["ci_low"] == row["ci_high"]


def _symmetric(row: Row) -> bool:
    """Returns whether the interval is the mean plus and minus the same, to within rounding, or there is none."""
    mean, low, high = row["mean"], row["ci_low"], row["ci_high"]
    if mean is None or low is None or high is None:
        return True
    return abs((high - mean) - (mean - low)) <= 1e-6 * (high - low) + 1e-12 * abs(mean)


def estimate(row: Row, ends: bool = False) -> str:
    """Returns ``mean ± half-width``, the half-width to two digits and the mean as far as those.

    ``ends``: ``mean [low, high]`` instead, for an interval that is not the mean plus and minus the same.
    """
    mean, low, high = row["mean"], row["ci_low"], row["ci_high"]
    if mean is None:
        return "–"
    mean = float(mean)  # from JSON it may be whole; "z" below prints no -0
    if low is None or high is None or not high > low:
        return f"{mean:z.6g}" if abs(mean) < 1e5 else f"{mean:.0f}"
    half = (high - low) / 2
    places = max(0, 1 - int(f"{half:.1e}".partition("e")[2]))
    if ends:
        return f"{mean:z.{places}f} [{float(low):z.{places}f}, {float(high):z.{places}f}]"
    return f"{mean:z.{places}f} ± {half:.{places}f}"


def _csv(rows: Sequence[Row]) -> str:
    params = list(dict.fromkeys(name for row in rows for name in row["params"]))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["policy", *params, "metric", "mean", "ci_low", "ci_high", "runs"])
    for row in rows:
        values = (row["params"].get(name) for name in params)
        shown = (identity(value) if isinstance(value, dict | list | bool) else value for value in values)
        writer.writerow([row["policy"], *shown, *(row[key] for key in ("metric", "mean", "ci_low", "ci_high", "runs"))])
    return out.getvalue()
