"""A session as one HTML file that needs nothing else: what was found, beside what simulation expected, and all
answers."""

import html
import json
from collections import Counter
from typing import Any

from jaxbandit.live.pictures import picture
from jaxbandit.live.session import Session

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1b1b; --ground: #fff; --soft: #555; --line: #8886; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e8e8; --ground: #16181b; --soft: #b4b8be; } }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 1.5rem auto; padding: 0 1rem; color: var(--ink);
  background: var(--ground); overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; }
figure { margin: 1rem 0; }
svg { display: block; width: 100%; max-width: 36rem; height: auto; fill: currentColor; }
figcaption, small { color: var(--soft); }
div { overflow-x: auto; }
table { border-collapse: collapse; font-size: .92rem; }
th, time { white-space: nowrap; }
th, td { padding: .25rem .8rem .25rem 0; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
@media (prefers-color-scheme: dark) { svg { filter: brightness(1.3); } }
"""


def page(session: Session) -> str:
    """Returns the page of a session; every cell of a table or an answer is shown as text."""
    status, rows = session.status(), session.told()
    head = f"{session.case.label}: {status['spent']:g} spent, {status['left']:g} left"
    parts = [f"<h1>{html.escape(head)}</h1>"]
    parts.append(f"<p>{html.escape(_facts(status))}</p>")
    for change in session.changes():
        line = f"after {change['spent']:g} were spent, {change['policy']} took the place of {change['was']}"
        parts.append(f"<p>{html.escape(line)}</p>")
    if rows:
        drawn, caption = picture(session)
        parts.append(f"<figure>{drawn}<figcaption>{html.escape(caption)}</figcaption></figure>")
    text, names = session.asks.text, status.get("names", {})
    about, last = Counter(map(_what, rows)), {_what(row): text(row["answer"]) for row in rows}
    if "arms" in status:
        arms = [
            [_named(arm, names), str(own["pulls"]), _short(own["mean"]), last[arm]]
            for arm, own in status["arms"].items()
        ]
        parts.append("<h2>Arms</h2>" + _table(["arm", "answers", "mean", "last answer"], arms))
    else:
        parts.append("<h2>Answers by what was asked</h2>" + _table(
            ["asked", "answers", "last answer"],
            [[what, str(count), last[what]] for what, count in about.most_common(200)],
        ))  # fmt: skip
    parts.append("<h2>All answers</h2>" + _table(
        ["id", "asked", "answer", "agent", "at (UTC)"],
        [
            [str(row["id"]), _named(_what(row), names), text(row["answer"]), row["agent"], _moment(row["at"])]
            for row in rows[-2000:]
        ],
    ))  # fmt: skip
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(head)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(parts) + "\n</body>\n</html>\n"
    )  # fmt: skip


def _facts(status: dict[str, Any]) -> str:
    """Returns what ``status`` says, but for what the page shows elsewhere, and counts of nothing."""
    elsewhere, names = ("family", "policy", "spent", "left", "arms", "names", "over"), status.get("names", {})
    facts = [
        f"{name}: {_short([_named(str(each), names) for each in value] if isinstance(value, list) else value)}"
        for name, value in status.items()
        if name not in elsewhere and not (name in ("unused", "open", "late") and not value)
    ]  # fmt: skip
    return " · ".join([*facts, "nothing is asked any more" if status["over"] else "it goes on"])


def _named(arm: str, names: dict[str, str]) -> str:
    return f"{arm} ({names[arm]})" if arm in names else arm


def _what(row: dict[str, Any]) -> str:
    return _text(row.get("entity", row.get("arm", row.get("query", {}).get("node") if "query" in row else "")))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _moment(at: str) -> str:
    """Returns a time of the journal to the second, in UTC."""
    return at[:19].replace("T", " ")


def _short(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return f"{value:.4g}" if isinstance(value, float) else _text(value)


def _table(head: list[str], rows: list[list[str]]) -> str:
    def line(cells: list[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    return f"<div><table>{line(head, 'th')}{''.join(line(row, 'td') for row in rows)}</table></div>"
