"""A session as one HTML file that needs nothing else: what was found over what was spent, beside what simulation
expected, and all answers."""

import html
import io
import json
from collections import Counter
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from jaxbandit.engine import simulate
from jaxbandit.live.session import Session
from jaxbandit.registry import measured

RUNS, STEPS, POINTS = 200, 20, 200
_FOUND = {"cleaning": ("removed", "false values removed"), "extraction": ("entities", "entities bought")}

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1b1b; --ground: #fff; --soft: #555; --line: #8886; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e8e8; --ground: #16181b; --soft: #b4b8be; } }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 1.5rem auto; padding: 0 1rem; color: var(--ink);
  background: var(--ground); overflow-wrap: anywhere; }
figure { margin: 1rem 0; }
svg { display: block; width: 100%; height: auto; fill: currentColor; }
figcaption, small { color: var(--soft); }
div { overflow-x: auto; }
table { border-collapse: collapse; font-size: .92rem; }
th { white-space: nowrap; }
th, td { padding: .25rem .8rem .25rem 0; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
@media (prefers-color-scheme: dark) { svg { filter: brightness(1.3); } }
"""


def page(session: Session) -> str:
    """The page of a session; every cell of a table or an answer is shown as text."""
    status, rows = session.status(), session.told()
    head = f"{session.case.label}: {status['spent']:g} spent, {status['left']:g} left"
    parts = [f"<h1>{html.escape(head)}</h1>"]
    facts = [f"{name}: {_short(value)}" for name, value in status.items() if name not in ("spent", "left", "arms")]
    parts.append(f"<p>{html.escape(' · '.join(facts))}</p>")
    if session.asks.family in _FOUND:
        words = _caption(session)
        parts.append(f"<figure>{_curve(session)}<figcaption>{html.escape(words)}</figcaption></figure>")
    about, last = Counter(map(_what, rows)), {_what(row): _text(row["answer"]) for row in rows}
    parts.append("<h2>Answers by what was asked</h2>" + _table(
        ["asked", "answers", "last answer"],
        [[what, str(count), last[what]] for what, count in about.most_common(200)],
    ))  # fmt: skip
    parts.append("<h2>All answers</h2>" + _table(
        ["id", "asked", "answer", "agent", "at"],
        [[str(row["id"]), _what(row), _text(row["answer"]), row["agent"], row["at"]] for row in rows[-2000:]],
    ))  # fmt: skip
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(head)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(parts) + "\n</body>\n</html>\n"
    )  # fmt: skip


def _caption(session: Session) -> str:
    text = f"{_FOUND[session.asks.family][1]}, by what was spent: the session"
    if not session.case.chosen.anytime:
        return text
    return f"{text}, and the range of 90 % of {RUNS} simulated runs of the study's problem"


def _curve(session: Session) -> str:
    """What was found after each answer, with the simulated band where the policy does not plan for its budget."""
    name, label = _FOUND[session.asks.family]
    spent, found, answers = [0.0], [0.0], {}
    told, paid = [row["id"] for row in session.told()], 0.0
    every = -(-len(told) // POINTS)  # each point looks at all answers before it
    for place, number in enumerate(told, 1):
        address, value = session.answer_of(number)
        answers[address] = value
        paid += session.asks.cost(address)
        if place % every == 0 or place == len(told):
            spent.append(paid)
            found.append(float(session.asks.found(answers, {})[name]))
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "live"}):
        figure = Figure(figsize=(5.0, 3.2), layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.add_subplot()
        chosen = session.case.chosen
        if chosen.anytime:
            budget = int(chosen.problem.budget)  # type: ignore[attr-defined]
            points = np.unique(np.linspace(0, budget, min(STEPS, budget) + 1)[1:].astype(int))
            runs = simulate(
                chosen.problem, chosen.policy, runs=RUNS, seed=1, checkpoints=points[:-1].tolist(), progress=False
            )
            metric = next(each for each in chosen.family.metrics if each.name == name)
            runs.pop("endless")
            values = np.stack([
                measured(metric, chosen.setting, {key: each[0, :, at] for key, each in runs.items()})
                for at in range(points.size)
            ])  # fmt: skip
            low, high = np.quantile(values, [0.05, 0.95], axis=1)
            unit = session.budget / budget
            axes.fill_between([0, *points * unit], [0, *low], [0, *high], color="#56B4E9", alpha=0.4, linewidth=0,
                              label="simulated, 90 % of the runs")  # fmt: skip
        axes.plot(spent, found, color="#D55E00", label="the session")
        axes.set(xlabel="spent", ylabel=label, xlim=(0, session.budget), ylim=(0, None))
        axes.legend(frameon=False, loc="upper left")
        figure.patch.set_alpha(0)
        axes.patch.set_alpha(0)
        axes.tick_params(color="#808080")
        for side in axes.spines.values():
            side.set_color("#808080")
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None})
    drawn = text.getvalue()
    return drawn[drawn.index("<svg") :]


def _what(row: dict[str, Any]) -> str:
    return _text(row.get("entity", row.get("arm", row.get("query", {}).get("node") if "query" in row else "")))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else _text(value)


def _table(head: list[str], rows: list[list[str]]) -> str:
    def line(cells: list[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    return f"<div><table>{line(head, 'th')}{''.join(line(row, 'td') for row in rows)}</table></div>"
