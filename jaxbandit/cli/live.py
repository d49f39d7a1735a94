"""``jaxbandit live``: a policy decides what an agent is asked next."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import tyro

from jaxbandit.cli.arguments import Plugins, StudyFile
from jaxbandit.cli.console import say
from jaxbandit.errors import BadInput

JournalPlace = Annotated[str, tyro.conf.arg(metavar="PLACE")]
Json = Annotated[bool, tyro.conf.FlagCreatePairsOff]
_AGENT = "terminal"


@dataclass(frozen=True)
class Begin:
    """Begin a session: a policy of a study file, on its problem."""

    study: StudyFile
    """The study, a TOML file."""
    policy: str
    """One of its policies, by kind (ee) or in full ("ee t=3 q=0.667")."""
    journal: JournalPlace
    """Where the journal is to be: a file, or postgresql://user@host/database."""
    set: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="KEY=VALUE")] = ()
    """A parameter of the problem, such as budget=500, where the study has several or another; may be repeated."""
    plugin: Plugins = ()

    def __call__(self) -> None:
        """Says what was begun."""
        from jaxbandit.live import Session

        given = {}
        for text in self.set:
            name, sign, value = text.partition("=")
            if not sign or not name:
                raise BadInput("--set", text, "KEY=VALUE, such as budget=500")
            try:
                given[name] = json.loads(value)
            except ValueError:
                given[name] = value
        session = Session.begin(self.study, self.policy, self.journal, **given)
        shown = session.journal.place
        say(f"a session of {session.case.label} with a budget of {session.budget:g}; `jaxbandit live next --journal "
            f"{shown}` asks the first question")  # fmt: skip


@dataclass(frozen=True)
class Next:
    """The next question, and why it is asked. Until it is answered or its lease ends, the same agent gets it again."""

    journal: JournalPlace
    """Of the session."""
    agent: str = _AGENT
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
        found = _open(self.journal).next(self.agent, lease=self.lease, ahead=self.ahead)
        _print(found, self.json, question)


@dataclass(frozen=True)
class Record:
    """Record an answer. The same answer again changes nothing."""

    id: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ID")]
    """Of the question."""
    answer: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ANSWER")]
    """One of those that the question allows."""
    journal: JournalPlace
    """Of the session."""
    agent: str = _AGENT
    """Who answers."""
    cost: Annotated[float | None, tyro.conf.arg(help_behavior_hint="(default: none)")] = None
    """What it really cost, kept beside it."""
    json: Json = False
    """As one JSON object."""
    plugin: Plugins = ()

    def __call__(self) -> None:
        """Prints what is left."""
        found = _open(self.journal).record(self.id, self.answer, self.agent, self.cost)
        _print(found, self.json, lambda told: [
            f"question {told['id']}: {'recorded' if told['recorded'] else 'was recorded before'}; {_money(told)}"
        ])  # fmt: skip


@dataclass(frozen=True)
class Status:
    """How a session stands: spent, left, and what was found."""

    journal: JournalPlace
    """Of the session."""
    json: Json = False
    """As one JSON object."""
    plugin: Plugins = ()

    def __call__(self) -> None:
        """Prints it."""
        _print(_open(self.journal).status(), self.json, lambda found: [
            f"{name:14} {value if not isinstance(value, float) else f'{value:.6g}'}" for name, value in found.items()
        ])  # fmt: skip


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
        _print(_open(self.journal).undo(), self.json, lambda found: [
            f"question {found['id']}: the answer {found['answer']} is taken back; {_money(found)}"
        ])  # fmt: skip


def _open(place: str) -> Any:
    from jaxbandit.live import Session

    return Session.open(place)


def _money(found: dict[str, Any]) -> str:
    return f"{found['spent']:g} spent, {found['left']:g} left"


def question(found: dict[str, Any]) -> list[str]:
    """A question as lines for a person."""
    if "id" not in found:
        return [f"nothing is asked any more; {_money(found)}" if found["over"] else
                f"no question now: {found['open']} are with other agents; {_money(found)}"]  # fmt: skip
    lines = [f"question {found['id']} ({_money(found)})"]
    if "entity" in found:
        lines.append(f"entity {found['entity']}")
        lines += [f"  #{number}  {value}" for number, value in enumerate(found["values"], 1)]
    elif "arm" in found:
        lines.append(f"arm {found['arm']}")
    else:
        query = found["query"]
        but = f", none of {'; '.join(query['exclude'])}" if query["exclude"] else ""
        lines.append(f"{query['k']} entities of {query['node']}{but}")
    return [*lines, f"answer: {found['how']}", f"why: {found['why']}"]


def _print(found: dict[str, Any], as_json: bool, lines: Callable[[dict[str, Any]], list[str]]) -> None:
    sys.stdout.write(json.dumps(found, ensure_ascii=False) + "\n" if as_json else "\n".join(lines(found)) + "\n")


VERBS: dict[str, Callable[..., Any]] = {verb.__name__.lower(): verb for verb in (Begin, Next, Record, Status, Undo)}

__all__ = ["VERBS"]
