"""A study's results as one HTML file that needs nothing else: what was run, picture, tables, comparisons."""

import base64
import html
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxbandit.errors import BadInput
from jaxbandit.study import folder, picture
from jaxbandit.study.compare import paired_differences, ranks
from jaxbandit.study.results import open_results
from jaxbandit.study.store import RESULTS
from jaxbandit.study.summary import Row, show
from jaxbandit.study.table import caption, cells_of

MOST_DIFFERENCES = 60
"""Above that many, policies are compared with the first one alone."""

REPORT = "report.html"

_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.55 system-ui, sans-serif; max-width: 62rem; margin: 2.5rem auto; padding: 0 1.2rem; }
h1 { font-size: 1.6rem; margin-bottom: 0.2rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
p.note, caption { color: #666; font-size: 0.9rem; text-align: left; }
figure { margin: 1rem 0; background: #fff; border: 1px solid #8884; border-radius: 6px; padding: 0.6rem; }
img { max-width: 100%; display: block; margin: auto; }
div.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 0.92rem; margin: 0.6rem 0; }
caption { margin-bottom: 0.4rem; }
th, td { padding: 0.25rem 0.8rem 0.25rem 0; border-bottom: 1px solid #8883; text-align: left; white-space: nowrap; }
th.number, td.number { text-align: right; }
thead th { border-bottom: 2px solid #8886; }
pre { background: #8881; padding: 0.8rem; border-radius: 6px; overflow-x: auto; font-size: 0.85rem; }
"""


def report(out: Path | str) -> str:
    """The report on a folder of results, as HTML.

    Raises:
        BadInput: where the folder holds no finished results.
    """
    out = Path(out)
    rows: list[Row] = folder.read(out / folder.SUMMARY)
    held = folder.read(out / folder.STUDY)
    drawing = folder.read(out / folder.FIGURE) if (out / folder.FIGURE).exists() else None
    title = (drawing or {}).get("title") or out.resolve().name
    parts = [f"<h1>{html.escape(title)}</h1>", _setup(held)]
    if (out / RESULTS).exists() and not (out / folder.FINISHED).exists():
        parts.append("<p><strong>The study goes on, or was interrupted: this is what it had before.</strong></p>")
    if drawing is not None:
        buffer = io.BytesIO()
        picture.curves(buffer, **drawing)
        parts += ["<h2>Picture</h2>", _image(buffer.getvalue(), "Means with their 95 % intervals")]
    parts += ["<h2>Results</h2>", _table(rows)]
    if (out / folder.TIMINGS).exists():
        parts += ["<h2>Times</h2>", _table(folder.read(out / folder.TIMINGS))]
    parts += _comparisons(out)
    parts += [
        "<h2>What was run</h2>",
        f"<pre>{html.escape(json.dumps(held['study'], indent=1))}</pre>",
    ]
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _setup(held: dict[str, Any]) -> str:
    study = held["study"]
    facts = [f"jaxbandit {held.get('jaxbandit')}", f"JAX {held.get('jax')}", str(held.get("device"))]
    problem = dict(study.get("problem", {}))
    if problem:
        facts.insert(0, f"seed {study['seed']}")
        given = "; ".join(
            f"{name.replace('_', ' ')} {show(value)}" for name, value in problem.items() if name != "kind"
        )
        swept = "; ".join(f"{name} {show(values)}" for name, values in study["sweep"].items())
        lines = [f"Problem: {problem['kind']}" + (f" ({given})" if given else ""), f"Swept: {swept}" if swept else ""]
    else:
        figure = held["identity"].get("figure")
        lines = [f"Figure {figure}" if figure else "Tuning"]
    shown = "<br>".join(html.escape(line) for line in lines if line)
    return f'<p>{shown}</p>\n<p class="note">{html.escape(" · ".join(facts))}</p>'


def _comparisons(out: Path) -> list[str]:
    try:
        data = open_results(out)
        metric = data.attrs["metrics"].split()[0]
        count = data.sizes["policy"] * (data.sizes["policy"] - 1) // 2
        points = data[metric].size // max(1, data.sizes["policy"] * data.sizes["run"])
        first = str(data["policy"].values[0])
        differences = paired_differences(data, metric, first if count * points > MOST_DIFFERENCES else None)
        order = ranks(data, metric)
    except BadInput:  # a figure of several studies, one policy, one run
        return []
    return [
        "<h2>Ranks</h2>",
        '<p class="note">1 is the best. The true ranks are all within their ranges with a probability of 95 %.</p>',
        _table(order),
        "<h2>Paired differences</h2>",
        '<p class="note">Runs of one number share their randomness and are compared with each other. The intervals '
        "hold all at once with a probability of 95 %.</p>",
        _table(differences),
        "<h2>Distribution over runs</h2>",
        _image(distribution(data, metric), f"The share of runs with at most that {metric}, under the last setting"),
    ]


def distribution(data: Any, metric: str) -> bytes:
    """A PNG of the distribution functions of a metric over runs, one a policy, under the last setting."""
    array = data[metric]
    last = {name: -1 for name in array.dims if name not in ("policy", "run")}
    shares = np.linspace(0, 1, 201)
    series = {
        str(label): [[float(x), float(y), None, None] for x, y in zip(np.quantile(own, shares), shares, strict=True)]
        for label, own in zip(data["policy"].values, array.isel(last).transpose("policy", "run").values, strict=True)
        if np.isfinite(own).all()
    }
    at = ", ".join(f"{name} {show(_plain(data[name].values[-1]))}" for name in last)
    buffer = io.BytesIO()
    picture.curves(buffer, series, metric, "share of runs", at, marks=False)
    return buffer.getvalue()


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _image(data: bytes, words: str) -> str:
    text = base64.b64encode(data).decode()
    return f'<figure><img alt="{html.escape(words)}" src="data:image/png;base64,{text}"></figure>'


def _table(rows: Sequence[Row]) -> str:
    cells, numbers, _ = cells_of(rows)
    kinds = [' class="number"' if right else "" for right in numbers]
    head, *lines = [
        [f"<{tag}{kind}>{html.escape(cell)}</{tag}>" for cell, kind in zip(line, kinds, strict=True)]
        for tag, line in zip(["th", *["td"] * (len(cells) - 1)], cells, strict=True)
    ]
    body = "\n".join(f"<tr>{''.join(line)}</tr>" for line in lines)
    above = f"<caption>{html.escape(caption(rows))}</caption>\n<thead><tr>{''.join(head)}</tr></thead>"
    return f'<div class="wide"><table>{above}\n<tbody>\n{body}\n</tbody></table></div>'
