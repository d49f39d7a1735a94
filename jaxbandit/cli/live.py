"""``jaxbandit live``: a policy decides what an agent is asked next."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
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
    write_back: Annotated[str, tyro.conf.arg(metavar="TABLE", help_behavior_hint="(default: none)")] = ""
    """A table of the journal's database into which each value goes once it is decided, such as the problem's own."""
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
        session = Session.begin(self.study, self.policy, self.journal, write_back=self.write_back, **given)
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
    forecast: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Whether to simulate the rest of the budget too, some seconds: what it is expected to remove (cleaning)."""
    json: Json = False
    """As one JSON object."""
    plugin: Plugins = ()

    def __call__(self) -> None:
        """Prints it."""
        session = _open(self.journal)
        found = session.status()
        if self.forecast:
            found["forecast"] = session.forecast()
        _print(found, self.json, _status)


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


@dataclass(frozen=True)
class Answer:
    """Answer questions one after the other: a person at the terminal, a command, or a service that is called."""

    journal: JournalPlace
    """Of the session."""
    agent: str = _AGENT
    """Who answers."""
    command: Annotated[str, tyro.conf.arg(help_behavior_hint="(default: none)")] = ""
    """A shell command that reads a question as JSON and prints an answer."""
    url: Annotated[str, tyro.conf.arg(help_behavior_hint="(default: none)")] = ""
    """Of a service that questions are posted to as JSON, and that replies {"answer": ...}."""
    timeout: float = 60.0
    """Seconds that a command or a service has."""
    ahead: int = 0
    """See next."""
    plugin: Plugins = ()

    def __call__(self) -> None:
        """Until there are no more questions, or the person leaves."""
        from jaxbandit.live import agents

        if self.command and self.url:
            raise BadInput("--url", self.url, "none where --command is given")
        ask: agents.Ask = _person
        if self.command:
            ask = agents.command(self.command, self.timeout)
        if self.url:
            ask = agents.service(self.url, self.timeout)

        def told(found: dict[str, Any]) -> None:
            if "refused" in found:
                if ask is not _person:
                    raise BadInput("answer", found["refused"], "one of those that the question allows")
                print(found["refused"])

        session = _open(self.journal)
        agents.work(session, ask, self.agent, told, self.ahead)
        say(_money(session.status()))


@dataclass(frozen=True)
class Sheet:
    """Questions as a CSV file to be filled in, or the answers of one that came back."""

    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE.csv")]
    """The file."""
    journal: JournalPlace
    """Of the session."""
    count: int = 20
    """The most questions."""
    back: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Whether the file comes back: its column answer is read."""
    agent: str = "sheet"
    """Who answers."""
    lease: float = 7 * 86400.0
    """Seconds for which no other agent gets the questions."""
    plugin: Plugins = ()

    def __call__(self) -> None:
        """Writes the file or reads it."""
        from jaxbandit.live import agents

        session = _open(self.journal)
        if self.back:
            found = agents.read_sheet(session, self.file, self.agent)
            say(f"{sum(each['recorded'] for each in found)} answers recorded; {_money(session.status())}")
        elif not self.file.absolute().parent.is_dir():  # before any question is given away
            raise BadInput("FILE.csv", str(self.file), "a file in a folder that exists")
        elif self.file.exists():
            raise BadInput("FILE.csv", str(self.file), "a file that does not exist yet; --back reads its answers")
        else:
            text = agents.sheet(session, self.count, self.agent, self.lease)
            _write("FILE.csv", self.file, text)
            say(f"{text.count(chr(10)) - 1} questions in {self.file}; fill in the column answer, then: --back")


@dataclass(frozen=True)
class Export:
    """What the answers decide: the cells of a cleaned table, or a copy of the CSV file with them."""

    journal: JournalPlace
    """Of the session."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE.csv", help_behavior_hint="(default: none)")] = None
    """Where the cleaned copy goes; without it the changes are shown and nothing is written."""
    json: Json = False
    """The changes as JSON, one object a line."""
    plugin: Plugins = ()

    def __call__(self) -> None:
        """Prints the changes, or writes the copy."""
        from jaxbandit.live import agents

        session = _open(self.journal)
        found = agents.changes(session)
        if self.out is None:
            for each in found:
                sys.stdout.write(json.dumps(each, ensure_ascii=False) + "\n" if self.json else
                                 f"{each['entity']}, {each['column']}: {each['value']}\n")  # fmt: skip
            say(f"{len(found)} values are decided; --out FILE.csv writes a copy of the table with them")
            return
        text, cells = agents.cleaned(session)
        _write("--out", self.out, text)
        say(f"{cells} cells of {len(found)} values that are decided are changed in {self.out}")


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

        _write("--out", self.out, page(_open(self.journal)))
        say(f"the session is shown in {self.out}")


@dataclass(frozen=True)
class Serve:
    """Serve a session over HTTP: a page for a person at /, and JSON for agents (docs/live.md).

    It listens on the loopback alone, unless the environment variable JAXBANDIT_TOKEN has a token that requests bring.
    """

    journal: JournalPlace
    """Of the session."""
    host: str = "127.0.0.1"
    """The address."""
    port: int = 8000
    """The port; 0 for any that is free."""
    lease: float = 3600.0
    """Seconds for which a question is an agent's."""
    ahead: int = 0
    """See next."""
    plugin: Plugins = ()

    def __call__(self) -> None:
        """Until it is interrupted."""
        import os

        from jaxbandit.live.server import serve

        token = os.environ.get("JAXBANDIT_TOKEN", "")
        with_token = "; its address for a person ends in #token= and the token" if token else ""
        serve(
            _open(self.journal), self.host, self.port, token, self.lease, self.ahead,
            ready=lambda url: say(f"serving at {url}{with_token}"),
        )  # fmt: skip


def _person(asked: dict[str, Any]) -> str | None:
    print("\n".join(question(asked)))
    try:
        answer = input("> ").strip()
    except EOFError:
        return None
    return answer or None


def _write(field: str, path: Path, text: str) -> None:
    from jaxbandit.study import folder

    try:
        folder.write(path, text.encode())
    except OSError as error:
        raise BadInput(field, str(path), f"a file that can be written ({error.strerror})") from None


def _open(place: str) -> Any:
    from jaxbandit.live import Session

    return Session.open(place)


def _status(found: dict[str, Any]) -> list[str]:
    lines = []
    for name, value in found.items():
        if name == "forecast":
            text = "none for this family" if value is None else (
                f"the rest of the budget removes {value['removed']:.4g} more ({value['ci_low']:.4g} to "
                f"{value['ci_high']:.4g} at 95 %; 90 % of {value['runs']} simulated runs from {value['p5']:.4g} to "
                f"{value['p95']:.4g}); sc-pdf: {value['law']}")  # fmt: skip
        elif name == "arms":
            text = ", ".join(f"{arm}: {own['mean']:.3g} in {own['pulls']}" for arm, own in value.items())
        else:
            text = f"{value:.6g}" if isinstance(value, float) else str(value)
        lines.append(f"{name:14} {text}")
    return lines


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


VERBS: dict[str, Callable[..., Any]] = {
    verb.__name__.lower(): verb for verb in (Begin, Next, Record, Status, Undo, Answer, Sheet, Serve, Show, Export)
}

__all__ = ["VERBS"]
