"""A study's results as one HTML file that needs nothing else: what was run, picture, tables, comparisons."""

import html
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxbandit.errors import BadInput
from jaxbandit.study import canvas, folder
from jaxbandit.study.compare import besides, by_rank, in_pairs, leaders, paired_differences, ranks
from jaxbandit.study.describe import headline
from jaxbandit.study.results import goes_on, open_results, value_of, values_of
from jaxbandit.study.store import RESULTS
from jaxbandit.study.summary import Row, show
from jaxbandit.study.table import caption, cells_of

MOST_DISTRIBUTIONS = 12
"""If there are more policies, the distributions of this many of the best are drawn."""

REPORT = "report.html"

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1b1b; --ground: #fff; --soft: #555; --line: #8886; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e8e8; --ground: #16181b; --soft: #b4b8be; } }
* { box-sizing: border-box; }
body { font: 16px/1.55 system-ui, sans-serif; max-width: 62rem; margin: 2.5rem auto; padding: 0 1.2rem;
  color: var(--ink); background: var(--ground); overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; margin-bottom: 0.2rem; line-height: 1.25; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
p.note, figcaption { color: var(--soft); font-size: 0.9rem; text-align: left; }
figure { margin: 1rem 0; border: 1px solid var(--line); border-radius: 6px; padding: 0.6rem; }
svg { display: block; width: 100%; max-width: 48rem; height: auto; margin: auto; fill: currentColor; }
svg text { font-family: system-ui, sans-serif !important; }
svg.phone { display: none; }
figcaption { margin-top: 0.5rem; }
div.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 0.92rem; margin: 0.6rem 0; }
th, td { padding: 0.25rem 0.8rem 0.25rem 0; border-bottom: 1px solid var(--line); text-align: left; }
th, td { white-space: nowrap; }
th.number, td.number { text-align: right; }
thead th { border-bottom: 2px solid var(--line); }
pre { background: #8882; padding: 0.8rem; border-radius: 6px; overflow-x: auto; font-size: 0.85rem; }
@media (max-width: 600px) {
  body { margin: 1rem auto; padding: 0 0.8rem; }
  h1 { font-size: 1.3rem; }
  svg.screen { display: none; }
  svg.phone { display: block; }
}
@media (prefers-color-scheme: dark) { svg { filter: brightness(1.3); } }
"""


def report(out: Path | str) -> str:
    """Returns the report on a folder of results, as HTML.

    Raises:
        BadInput: where the folder holds no finished results, and where those that are stored are damaged.
    """
    out = Path(out)
    rows: list[Row] = folder.read(out / folder.SUMMARY)
    held = folder.read(out / folder.STUDY)
    drawing = folder.read(out / folder.FIGURE) if (out / folder.FIGURE).exists() else None
    title = (drawing or {}).get("title") or out.resolve().name
    parts = [f"<h1>{html.escape(title)}</h1>", setup(held)]
    if goes_on(out):
        parts.append("<p><strong>The study goes on, or was interrupted: this is what it had before.</strong></p>")
    if drawing is not None:
        parts += ["<h2>Picture</h2>", _figure(drawing | {"title": ""}, _explained(drawing))]
    parts += ["<h2>Results</h2>", table(rows)]
    if (out / folder.TIMINGS).exists():
        parts += ["<h2>Times</h2>", table(folder.read(out / folder.TIMINGS))]
    parts += _comparisons(out)
    return page(title, [*parts, *what_was_run(held)])


def what_was_run(held: Mapping[str, Any]) -> list[str]:
    """Returns the study of a folder, as its ``study.json`` has it."""
    return ["<h2>What was run</h2>", f"<pre>{html.escape(json.dumps(held['study'], indent=1))}</pre>"]


def page(title: str, parts: Sequence[str]) -> str:
    """Returns an HTML page of its own: no other file is needed."""
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def setup(held: Mapping[str, Any]) -> str:
    """Returns what the study of a folder is about, and what it was computed with."""
    study = held["study"]
    facts = [f"jaxbandit {held.get('jaxbandit')}", f"JAX {held.get('jax')}", str(held.get("device"))]
    if "problem" in study:
        facts.insert(0, f"seed {study['seed']}")
        lines = [headline(held.get("named", study))]
    elif "named" in held:
        lines = ["Tuning", headline(held["named"])]
    else:
        figure, data = held["identity"].get("figure"), held.get("data")
        lines = [f"Figure {figure}" + (f", data {data}" if data else "")] if figure else ["Tuning"]
    lines = [line[:1].upper() + line[1:] for line in lines]
    shown = "<br>".join(map(html.escape, lines))
    return f'<p>{shown}</p>\n<p class="note">{html.escape(" · ".join(facts))}</p>'


def _comparisons(out: Path) -> list[str]:
    try:
        data = open_results(out)
        metric = data.attrs["metrics"].split()[0]
        few = in_pairs(data)
        differences = paired_differences(data, metric) if few else leaders(data, metric)
        order, beside = by_rank(ranks(data, metric)), html.escape(besides(data))
    except BadInput as error:  # a figure of several studies, one policy, one run
        if error.field in ("path", "DIR") and (out / RESULTS).exists() and (out / folder.FINISHED).exists():
            raise
        return []
    return [
        "<h2>Ranks</h2>",
        '<p class="note">1 is the best. The true ranks are all within their ranges with a probability of 95 %.</p>',
        table(order),
        "<h2>Paired differences</h2>"
        if few
        else f"<h2>The best{beside or ','} and what the runs cannot tell from it</h2>",
        '<p class="note">Runs of one number share their randomness and are compared with each other. The intervals '
        "of differences hold all at once with a probability of 95 %.</p>",
        table(differences),
        "<h2>Distribution over runs</h2>",
        _figure(*distribution(data, metric)),
    ]


def distribution(data: Any, metric: str) -> tuple[dict[str, Any], str]:
    """Returns the distribution functions of a metric over runs, one a policy, under the last setting: the arguments of
    ``canvas.draw``, and what they show."""
    array = data[metric]
    last = {name: -1 for name in array.dims if name not in ("policy", "run")}
    values = values_of(data, array.isel(last).transpose("policy", "run"))
    sign = 1 if metric in data.attrs["lower_is_better"].split() else -1
    best = np.sort(np.argsort(sign * values.mean(axis=1), kind="stable")[:MOST_DISTRIBUTIONS])
    shares = np.linspace(0, 1, 201)
    series = {
        str(data["policy"].values[number]): [
            [float(x), float(y), None, None] for x, y in zip(np.quantile(values[number], shares), shares, strict=True)
        ]
        for number in best
        if np.isfinite(values[number]).all()
    }
    at = ", ".join(f"{name} {show(value_of(data[name].values[-1]))}" for name in last)
    drawing = {
        "series": series, "xlabel": array.attrs.get("long_name", metric), "ylabel": "share of runs", "title": "",
        "marks": False,
    }  # fmt: skip
    words = f"For each value of {metric}, the share of a policy's runs that have at most that value"
    words += f" ({at})." if at else "."
    if len(best) < len(values):
        words += f" Of {len(values)} policies these are the {len(best)} with the best means."
    return drawing, words


def _explained(drawing: Mapping[str, Any]) -> str:
    """Returns what the marks of a picture of means stand for."""
    points = [point for series in drawing["series"].values() for point in series]
    curves = any(point[0] is not None for point in points)
    sure = any(point[2] is not None for point in points)
    if drawing.get("bars"):
        words = ["Bars are means over runs."]
    elif curves:
        words = [
            "Marks are means over runs" + ("; the bands and bars around them are 95 % intervals." if sure else ".")
        ]
        if any(point[0] is None for point in points):
            words.append("A level line is a policy to which the horizontal axis does not apply.")
    else:
        words = ["Dots are means over runs" + ("; the bars through them are 95 % intervals." if sure else ".")]
    if any((drawing.get("published") or {}).values()):
        words.append("Large hollow marks are the numbers that the paper published.")
    return " ".join(words)


def _figure(drawing: Mapping[str, Any], words: str) -> str:
    """Returns a picture with its caption: drawn twice, for screens and for phones, of which a page shows one."""
    return framed(canvas.svg(drawing), canvas.svg(drawing, narrow=True), words)


def framed(wide: str, narrow: str, words: str) -> str:
    """Returns two drawings of a picture (SVG elements), for screens and for phones, with their caption."""
    drawn = [
        svg.replace("<svg", f'<svg class="{name}" role="img" aria-label="{html.escape(words)}"', 1)
        for svg, name in ((wide, "screen"), (narrow, "phone"))
    ]
    return f"<figure>\n{drawn[0]}\n{drawn[1]}\n<figcaption>{html.escape(words)}</figcaption>\n</figure>"


def table(rows: Sequence[Row]) -> str:
    """Returns rows as an HTML table, with what all have in common before it."""
    cells, numbers, _ = cells_of(rows, ends=True)
    kinds = [' class="number"' if right else "" for right in numbers]
    head, *lines = [
        [f"<{tag}{kind}>{html.escape(cell)}</{tag}>" for cell, kind in zip(line, kinds, strict=True)]
        for tag, line in zip(["th", *["td"] * (len(cells) - 1)], cells, strict=True)
    ]
    lower = "\n".join(f"<tr>{''.join(line)}</tr>" for line in lines)
    note = f'<p class="note">{html.escape(caption(rows, ends=True))}</p>'
    body = f"<table><thead><tr>{''.join(head)}</tr></thead>\n<tbody>\n{lower}\n</tbody></table>"
    return f'{note}\n<div class="wide">{body}</div>'
