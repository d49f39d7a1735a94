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
    kept,
    money,
    opened,
    printed,
    question,
    settings,
    written,
)
from jaxbandit.errors import BadInput
from jaxbandit.words import counted


@dataclass(frozen=True)
class Begin:
    """Begin a session, in which a policy of a study file asks agents about the file's problem."""

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
        """Begins the session and says so in a line on stderr."""
        from jaxbandit.live import Session

        given = settings(self.set)
        if "write_back" in given:
            raise BadInput("--set write_back", given["write_back"], "a parameter of the problem; a table: --write-back")
        session = kept(Session.begin(self.study, self.policy, self.journal, write_back=self.write_back, **given))
        shown = session.journal.place
        say(f"a session of {session.case.label} with a budget of {session.budget:g}; `jaxbandit live next --journal "
            f"{shown}` asks the first question")  # fmt: skip


@dataclass(frozen=True)
class Next:
    """Print the next question, and why it is asked. Until it is answered or its lease ends, the same agent gets it
    again."""

    journal: JournalPlace
    """Where the session's journal is: a file, or postgresql://user@host/database."""
    agent: str = AGENT
    """The name of the agent that asks."""
    lease: float = 3600.0
    """Seconds for which no other agent gets the question."""
    ahead: int = 0
    """Pulls that the policy may be ahead of its open questions, 0 to 10000; some answers are then paid in vain."""
    json: Json = False
    """Print one JSON object instead of lines."""
    plugin: Plugins = ()

    def __call__(self) -> None:
        """Prints the question, as lines or as JSON."""
        found = opened(self.journal).next(self.agent, lease=self.lease, ahead=self.ahead)
        printed(found, self.json, question)


@dataclass(frozen=True)
class Record:
    """Record an answer. The same answer again changes nothing."""

    id: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ID")]
    """The number of the question, as next printed it."""
    answer: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ANSWER")]
    """The answer, one of those that the question allows."""
    journal: JournalPlace
    """Where the session's journal is: a file, or postgresql://user@host/database."""
    agent: str = AGENT
    """The name of the agent that answers."""
    cost: Annotated[float | None, tyro.conf.arg(help_behavior_hint="(default: none)")] = None
    """What the answer really cost, a number from 0 on, which is kept beside it."""
    json: Json = False
    """Print one JSON object instead of lines."""
    plugin: Plugins = ()

    def __call__(self) -> None:
        """Records the answer and prints how much money is left."""
        found = opened(self.journal).record(self.id, self.answer, self.agent, self.cost)
        printed(found, self.json, lambda told: [
            f"question {told['id']}: {'recorded' if told['recorded'] else 'was recorded before'}; {money(told)}"
        ])  # fmt: skip


@dataclass(frozen=True)
class Status:
    """Print how a session stands: what was spent, what is left, and what was found."""

    journal: JournalPlace
    """Where the session's journal is: a file, or postgresql://user@host/database."""
    forecast: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Simulate the rest of the budget too, for some seconds, and print what it is expected to bring."""
    advice: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Simulate other policies too, for up to a minute, and print whether a change is worth it (cleaning only)."""
    json: Json = False
    """Print one JSON object instead of lines."""
    plugin: Plugins = ()

    def __call__(self) -> None:
        """Prints the status, with the forecast and the advice that are asked for."""
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
    """Where the session's journal is: a file, or postgresql://user@host/database."""
    id: Annotated[str | None, tyro.conf.arg(metavar="ID", help_behavior_hint="(default: none)")] = None
    """The question whose answer that is. With it, the same command again takes back no other."""
    json: Json = False
    """Print one JSON object instead of lines."""
    plugin: Plugins = ()

    def __call__(self) -> None:
        """Takes the last answer back and prints which one that was."""
        session = opened(self.journal)
        printed(session.undo(self.id), self.json, lambda found: [
            f"question {found['id']}: the answer {session.asks.text(found['answer'])} "
            f"{'is' if found['undone'] else 'was'} taken back{'' if found['undone'] else ' before'}; {money(found)}"
        ])  # fmt: skip


@dataclass(frozen=True)
class Change:
    """Go on with another policy or other parameters. What was answered stays, and costs nothing again."""

    policy: str
    """The kind of the new policy, such as greedy."""
    journal: JournalPlace
    """Where the session's journal is: a file, or postgresql://user@host/database."""
    set: Settings = ()
    """A parameter of the policy, such as t=3; may be repeated. What is left out is tuned where the policy is, for the
    agent as the answers show it."""
    json: Json = False
    """Print one JSON object instead of lines."""
    plugin: Plugins = ()

    def __call__(self) -> None:
        """Changes the policy and prints how many answers it uses."""
        found = opened(self.journal).change(self.policy, **settings(self.set))
        printed(found, self.json, lambda made: [
            f"{made['policy']} goes on in place of {made['was']}; it uses {made['answers'] - made['unused']} of "
            f"{counted(made['answers'], 'answer', 'answers')} so far; {money(made)}"
        ])  # fmt: skip


@dataclass(frozen=True)
class Export:
    """Print or write what the answers decide: the cells of a cleaned table, or a copy of the CSV file with them; of
    arms, a table of what each gave and which are chosen; of extraction, a table of the entities that were bought."""

    journal: JournalPlace
    """Where the session's journal is: a file, or postgresql://user@host/database."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE.csv", help_behavior_hint="(default: none)")] = None
    """The file for the cleaned copy or the table; without it they are printed and nothing is written."""
    json: Json = False
    """Print the changes, the arms or the entities as JSON, one object a line."""
    plugin: Plugins = ()

    def __call__(self) -> None:
        """Prints the changes of the table, the arms or the entities, or writes them to a file."""
        from jaxbandit.live import agents

        session = opened(self.journal)
        if session.asks.family in ("topk", "outliers"):
            self._arms(session)
            return
        if session.asks.family == "extraction":
            rows = agents.entities(session)
            self._table(session, rows, f"{counted(len(rows), 'entity was', 'entities were')} bought")
            return
        found = agents.changes(session)
        decided = counted(len(found), "value is decided", "values are decided")
        if self.out is None:
            for each in found:
                sys.stdout.write(json.dumps(each, ensure_ascii=False) + "\n" if self.json else
                                 f"{each['entity']}, {each['column']}: {each['value']}\n")  # fmt: skip
            say(f"{decided}; --out FILE.csv writes a cleaned copy of the table")
            return
        text, cells = agents.cleaned(session)
        written("--out", self.out, text, session)
        say(f"{decided}; {counted(cells, 'cell is', 'cells are')} changed in {self.out}")

    def _arms(self, session: Any) -> None:
        from jaxbandit.live import agents

        rows = agents.arms(session)
        verdict = list(rows[0])[-1]
        one, several = ("is chosen", "are chosen") if verdict == "chosen" else ("is an outlier", "are outliers")
        of = f"of {len(rows)} arms"
        self._table(session, rows, counted(sum(row[verdict] for row in rows), f"{of} {one}", f"{of} {several}"))

    def _table(self, session: Any, rows: list[dict[str, Any]], count: str) -> None:
        """Prints or writes rows, and says how many there are: ``count``."""
        from jaxbandit.live import agents

        count += "" if session.over else " so far"
        text = agents.as_csv(rows)
        if self.out is not None:
            written("--out", self.out, text, session)
            say(f"{count}; the table is in {self.out}")
            return
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        sys.stdout.write(lines if self.json else printable(text))
        say(f"{count}; --out FILE.csv writes the table")


@dataclass(frozen=True)
class Show:
    """Write an HTML page on a session: what was found over what was spent, beside what simulation expected, and all
    answers."""

    journal: JournalPlace
    """Where the session's journal is: a file, or postgresql://user@host/database."""
    out: Annotated[Path, tyro.conf.arg(metavar="FILE.html")] = Path("session.html")
    """The file for the page."""
    plugin: Plugins = ()

    def __call__(self) -> None:
        """Writes the page and says where it is."""
        from jaxbandit.live.show import page

        session = opened(self.journal)
        written("--out", self.out, page(session), session)
        say(f"the session is shown in {self.out}")


_MOST_ARMS = 12
"""If a session has asked more arms, its status shows this many of the most pulled."""


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
            most = sorted(value, key=lambda row: -int(value[row]["pulls"]))[:_MOST_ARMS]
            text = ", ".join(
                f"{arm(row)}: {own['mean']:.3g} in {own['pulls']}" for row, own in value.items() if row in most
            )
            if others := len(value) - len(most):
                text += f", and {counted(others, 'arm', 'arms')} with no more pulls than these; --json shows all"
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
