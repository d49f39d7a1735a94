"""``jaxbandit live``: a policy decides what an agent is asked next."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from jaxbandit.cli.arguments import Plugins, StudyFile
from jaxbandit.cli.console import printable, say
from jaxbandit.cli.live_agents import Answer, Serve, Sheet
from jaxbandit.cli.live_common import (
    AGENT,
    JournalPlace,
    Json,
    Settings,
    money,
    opened,
    printed,
    question,
    settings,
    written,
)


@dataclass(frozen=True)
class Begin:
    """Begin a session: a policy of a study file, on its problem."""

    study: StudyFile
    """The study, a TOML file."""
    policy: str
    """One of its policies, by kind (ee) or in full ("ee t=3 q=0.667")."""
    journal: JournalPlace
    """Where the journal is to be: a file, or postgresql://user@host/database."""
    set: Settings = ()
    """A parameter of the problem, such as budget=500, where the study has several or another; may be repeated."""
    write_back: Annotated[str, tyro.conf.arg(metavar="TABLE", help_behavior_hint="(default: none)")] = ""
    """A table of the journal's database into which each value goes once it is decided, such as the problem's own."""
    plugin: Plugins = ()

    def __call__(self) -> None:
        """Says what was begun."""
        from jaxbandit.live import Session

        session = Session.begin(self.study, self.policy, self.journal, write_back=self.write_back,
                                **settings(self.set))  # fmt: skip
        shown = session.journal.place
        say(f"a session of {session.case.label} with a budget of {session.budget:g}; `jaxbandit live next --journal "
            f"{shown}` asks the first question")  # fmt: skip


@dataclass(frozen=True)
class Next:
    """The next question, and why it is asked. Until it is answered or its lease ends, the same agent gets it again."""

    journal: JournalPlace
    """Of the session."""
    agent: str = AGENT
    """Who asks."""
    lease: float = 3600.0
    """Seconds for which no other agent gets the question."""
    ahead: int = 0
    """How many pulls to look ahead for questions while others are open; answers may then be paid in vain."""
    json: Json = False
    """As one JSON object."""
    plugin: Plugins = ()

    def __call__(self) -> None:
        """Prints it."""
        found = opened(self.journal).next(self.agent, lease=self.lease, ahead=self.ahead)
        printed(found, self.json, question)


@dataclass(frozen=True)
class Record:
    """Record an answer. The same answer again changes nothing."""

    id: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ID")]
    """Of the question."""
    answer: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ANSWER")]
    """One of those that the question allows."""
    journal: JournalPlace
    """Of the session."""
    agent: str = AGENT
    """Who answers."""
    cost: Annotated[float | None, tyro.conf.arg(help_behavior_hint="(default: none)")] = None
    """What it really cost, kept beside it."""
    json: Json = False
    """As one JSON object."""
    plugin: Plugins = ()

    def __call__(self) -> None:
        """Prints what is left."""
        found = opened(self.journal).record(self.id, self.answer, self.agent, self.cost)
        printed(found, self.json, lambda told: [
            f"question {told['id']}: {'recorded' if told['recorded'] else 'was recorded before'}; {money(told)}"
        ])  # fmt: skip


@dataclass(frozen=True)
class Status:
    """How a session stands: spent, left, and what was found."""

    journal: JournalPlace
    """Of the session."""
    forecast: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Whether to simulate the rest of the budget too, some seconds: what it is expected to bring."""
    advice: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Whether to simulate other policies from here on too, up to a minute: would a change be worth it (cleaning)?"""
    json: Json = False
    """As one JSON object."""
    plugin: Plugins = ()

    def __call__(self) -> None:
        """Prints it."""
        session = opened(self.journal)
        found = session.status()
        if self.forecast:
            found["forecast"] = session.forecast()
        if self.advice:
            found["advice"] = session.advice()
        printed(found, self.json, _status)


@dataclass(frozen=True)
class Undo:
    """Take the last answer back; its question is asked anew, under another id."""

    journal: JournalPlace
    """Of the session."""
    json: Json = False
    """As one JSON object."""
    plugin: Plugins = ()

    def __call__(self) -> None:
        """Prints what was taken back."""
        printed(opened(self.journal).undo(), self.json, lambda found: [
            f"question {found['id']}: the answer {found['answer']} is taken back; {money(found)}"
        ])  # fmt: skip


@dataclass(frozen=True)
class Change:
    """Go on with another policy or other parameters. What was answered stays, and costs nothing again."""

    policy: str
    """Its kind."""
    journal: JournalPlace
    """Of the session."""
    set: Settings = ()
    """A parameter of the policy, such as t=3; may be repeated. What is left out is tuned where the policy is, for the
    agent as the answers show it."""
    json: Json = False
    """As one JSON object."""
    plugin: Plugins = ()

    def __call__(self) -> None:
        """Prints what it does."""
        found = opened(self.journal).change(self.policy, **settings(self.set))
        printed(found, self.json, lambda made: [
            f"{made['policy']} goes on in place of {made['was']}; it uses {made['answers'] - made['unused']} of "
            f"{made['answers']} answers so far; {money(made)}"
        ])  # fmt: skip


@dataclass(frozen=True)
class Export:
    """What the answers decide: the cells of a cleaned table, or a copy of the CSV file with them; of arms, a table of
    what each gave and which are chosen."""

    journal: JournalPlace
    """Of the session."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE.csv", help_behavior_hint="(default: none)")] = None
    """Where the cleaned copy, or the table of arms, goes; without it they are shown and nothing is written."""
    json: Json = False
    """The changes, or the arms, as JSON, one object a line."""
    plugin: Plugins = ()

    def __call__(self) -> None:
        """Prints the changes, or writes the copy."""
        from jaxbandit.live import agents

        session = opened(self.journal)
        if session.asks.family in ("topk", "outliers"):
            self._arms(session)
            return
        found = agents.changes(session)
        if self.out is None:
            for each in found:
                sys.stdout.write(json.dumps(each, ensure_ascii=False) + "\n" if self.json else
                                 f"{each['entity']}, {each['column']}: {each['value']}\n")  # fmt: skip
            say(f"{len(found)} values are decided; --out FILE.csv writes a copy of the table with them")
            return
        text, cells = agents.cleaned(session)
        written("--out", self.out, text)
        say(f"{cells} cells of {len(found)} values that are decided are changed in {self.out}")

    def _arms(self, session: Any) -> None:
        from jaxbandit.live import agents

        rows = agents.arms(session)
        verdict = list(rows[0])[-1]
        word = "chosen" if verdict == "chosen" else "outliers"
        count = f"{sum(row[verdict] for row in rows)} of {len(rows)} arms are {word}{'' if session.over else ' so far'}"
        text = agents.as_csv(rows)
        if self.out is not None:
            written("--out", self.out, text)
            say(f"{count}; the table is in {self.out}")
            return
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        sys.stdout.write(lines if self.json else printable(text))
        say(f"{count}; --out FILE.csv writes the table")


@dataclass(frozen=True)
class Show:
    """Write a page: what was found over what was spent, beside what simulation expected, and all answers."""

    journal: JournalPlace
    """Of the session."""
    out: Annotated[Path, tyro.conf.arg(metavar="FILE.html")] = Path("session.html")
    """Where the page goes."""
    plugin: Plugins = ()

    def __call__(self) -> None:
        """Writes it."""
        from jaxbandit.live.show import page

        written("--out", self.out, page(opened(self.journal)))
        say(f"the session is shown in {self.out}")


def _status(found: dict[str, Any]) -> list[str]:
    lines, names = [], found.get("names", {})

    def arm(row: Any) -> str:
        return f"{row} ({names[str(row)]})" if str(row) in names else str(row)

    for name, value in found.items():
        if name == "names":
            continue
        if name == "forecast":
            text = _expected(value)
        elif name == "advice":
            text = _advised(value)
        elif name == "arms":
            text = ", ".join(f"{arm(row)}: {own['mean']:.3g} in {own['pulls']}" for row, own in value.items())
        elif name in ("chosen", "outliers"):
            text = f"[{', '.join(map(arm, value))}]"
        else:
            text = f"{value:.6g}" if isinstance(value, float) else str(value)
        lines.append(f"{name:14} {text}")
    return lines


def _interval(found: dict[str, Any]) -> str:
    return f"{found['ci_low']:.4g} to {found['ci_high']:.4g} at 95 %"


def _expected(found: dict[str, Any]) -> str:
    if "none" in found:
        return f"none: {found['none']}"
    law = f"law {found['law']}"
    if "metric" in found:
        what = "regret" if found["metric"] == "regret" else "arms judged wrongly"
        return (f"{what}: {found['now']:.4g} if it ended now, {found['end']:.4g} at the end; won: {found['gain']:.4g} "
                f"({_interval(found)}, {found['runs']} simulated runs); {law}")  # fmt: skip
    name, does = ("removed", "removes") if "removed" in found else ("entities", "buys")
    return (f"the rest of the budget {does} {found[name]:.4g} more ({_interval(found)}; 90 % of {found['runs']} "
            f"simulated runs from {found['p5']:.4g} to {found['p95']:.4g}); {law}")  # fmt: skip


def _advised(found: dict[str, Any]) -> str:
    if "none" in found:
        return f"none: {found['none']}"
    others = "".join(
        f"\n{'':14} {each['policy']}: {each['more']:+.4g} removed ({_interval(each)})" for each in found["others"]
    )
    verdict = f"change to {found['change']}" if found["change"] else f"stay with {found['now']}"
    now = f"{found['now']} removes {found['removed']:.4g} more in {found['runs']} simulated runs"
    return f"{verdict}; {now}, and beside it{others}"


VERBS: dict[str, Callable[..., Any]] = {
    verb.__name__.lower(): verb
    for verb in (Begin, Next, Record, Status, Undo, Change, Answer, Sheet, Serve, Show, Export)
}

__all__ = ["VERBS"]
