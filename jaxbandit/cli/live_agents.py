"""Verbs of ``jaxbandit live`` by which agents answer: a person, a command, a service, a sheet, or over HTTP."""

import csv
import io
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import tyro

from jaxbandit.cli import interruption
from jaxbandit.cli.arguments import Plugins
from jaxbandit.cli.console import printable, say
from jaxbandit.cli.live_common import AGENT, JournalPlace, elsewhere, money, nothing, offered, opened, question, written
from jaxbandit.errors import BadInput
from jaxbandit.words import counted

_SLACK, _MOST_CALLS = 60.0, 8  # of a service: each of two requests is made up to four times
_ENTITIES = "left out here: such a service knows entities, and this is no session of cleaning"

Candidates = Annotated[str | None, tyro.conf.arg(metavar="URL", help_behavior_hint="(default: none)")]
EntityType = Annotated[str, tyro.conf.arg(help_behavior_hint="(default: any)")]
Property = Annotated[str, tyro.conf.arg(help_behavior_hint="(default: their names)")]


@dataclass(frozen=True)
class Answer:
    """Have questions answered one by one: by a person at the terminal, a command, or a service that is called."""

    journal: JournalPlace
    """Where the session's journal is: a file, or postgresql://user@host/database."""
    agent: Annotated[
        str | None,
        tyro.conf.arg(metavar="NAME", help_behavior_hint="(default: terminal; of a program, one of its own)"),
    ] = None
    """The name of the agent that answers."""
    command: Annotated[str | None, tyro.conf.arg(help_behavior_hint="(default: none)")] = None
    """A shell command that reads a question as JSON and prints an answer."""
    url: Annotated[str | None, tyro.conf.arg(help_behavior_hint="(default: none)")] = None
    """The address of a service that questions are posted to as JSON, and that replies {"answer": ...}."""
    reconcile: Annotated[str | None, tyro.conf.arg(metavar="URL", help_behavior_hint="(default: none)")] = None
    """The address of a reconciliation service (OpenRefine's protocol 0.2), which confirms values of entities."""
    candidates: Candidates = None
    """The address of a reconciliation service, whose candidates a person sees beside the entity's values."""
    type: EntityType = ""
    """The name that the service has for entities of this kind."""
    property: Property = ""
    """The name that it has for the property with the values of entities."""
    timeout: float = 60.0
    """Seconds within which a command or a service must answer."""
    ahead: int = 0
    """Pulls that the policy may be ahead of its open questions, 0 to 10000, as for next."""
    plugin: Plugins = ()

    def __call__(self) -> None:
        """Asks until there are no more questions, or the person leaves."""
        from jaxbandit.live import agents, inputs, shell
        from jaxbandit.live.reconcile import Reconciliation
        from jaxbandit.live.session import LEASE

        inputs.timeout("timeout", self.timeout)
        given = {
            "--command": self.command, "--url": self.url, "--reconcile": self.reconcile, "--candidates": self.candidates
        }  # fmt: skip
        some = [name for name, value in given.items() if value is not None]
        for name in some:
            if not (given[name] or "").strip():  # as of a variable of the shell that is not set
                raise BadInput(name, given[name], "left out, or a command or an address")
        if len(some) > 1:
            raise BadInput(some[1], given[some[1]], f"left out where {some[0]} is given")
        _served(self.reconcile or self.candidates, self.type, self.property)
        session = opened(self.journal)
        if self.reconcile and session.asks.family != "cleaning":
            raise BadInput("--reconcile", self.reconcile, _ENTITIES)
        person: agents.Ask = partial(_person, offers=_offers(session, self.candidates, self.type, self.property))
        ask = person
        if self.command:
            ask = agents.command(self.command, self.timeout)
            interruption.leaving.append(shell.stop)
        if self.url:
            ask = agents.service(self.url, self.timeout)
        if self.reconcile:
            service = Reconciliation(self.reconcile, self.type, self.property, self.timeout)
            service.check()
            ask = service.ask

        def told(found: dict[str, Any]) -> None:
            if "late" in found:
                say(found["late"])
            if "refused" in found:
                if ask is not person:
                    allowed = f"an agent that gives answers of those that a question allows ({found['refused']})"
                    raise BadInput(some[0], given[some[0]], allowed)
                print(printable(found["refused"]))

        def waits(many: int) -> None:
            it = (
                "it is answered, or the time that it was"
                if many == 1
                else "they are answered, or the time that they were"
            )
            say(f"{elsewhere(many)}: waiting until {it} given for is over")

        agent, lease = self.agent, LEASE
        if ask is not person:
            lease = _SLACK + self.timeout * (1 if self.command else _MOST_CALLS)
        if agent is None and ask is not person:  # several of them would be given the same question
            agent = f"{socket.gethostname()}, process {os.getpid()}"
            interruption.leaving.append(partial(session.hand_back, agent))
        agents.work(session, ask, AGENT if agent is None else agent, told, self.ahead, waits, lease)
        say(money(session.status()))


@dataclass(frozen=True)
class Sheet:
    """Write questions to a CSV file that is to be filled in, or read the answers of one that came back."""

    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE.csv")]
    """The CSV file to write, or to read with --back."""
    journal: JournalPlace
    """Where the session's journal is: a file, or postgresql://user@host/database."""
    count: int = 20
    """How many questions to write at most."""
    back: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Read the answers of a file that came back from its column answer."""
    agent: str = "sheet"
    """The name of the agent that answers."""
    lease: float = 7 * 86400.0
    """Seconds for which no other agent gets the questions."""
    plugin: Plugins = ()

    def __call__(self) -> None:
        """Writes questions to the file, or records the answers in it."""
        from jaxbandit.live import agents

        session = opened(self.journal)
        if self.back:
            found = agents.read_sheet(session, self.file, self.agent)
            refused = [each["refused"] for each in found if "refused" in each]
            for line in refused:
                say(line)
            recorded = counted(sum(each.get("recorded", False) for each in found), "answer", "answers")
            say(f"{recorded} recorded; {money(session.status())}")
            if refused:
                allowed = "a sheet whose answers can all be recorded; those of the lines above cannot"
                raise BadInput("FILE.csv", str(self.file), allowed)
        elif not self.file.absolute().parent.is_dir():  # before any question is given away
            raise BadInput("FILE.csv", str(self.file), "a file in a folder that exists")
        elif self.file.exists():
            raise BadInput("FILE.csv", str(self.file), "a file that does not exist yet; --back reads its answers")
        else:
            text = agents.sheet(session, self.count, self.agent, self.lease)
            many = sum(1 for _ in csv.reader(io.StringIO(text))) - 1
            if not many:
                raise BadInput(
                    "FILE.csv", str(self.file), f"written when something is asked; {nothing(session.status())}"
                )
            written("FILE.csv", self.file, text, session)
            say(f"{counted(many, 'question', 'questions')} in {self.file}; fill in the column answer, then: --back")


@dataclass(frozen=True)
class Serve:
    """Serve a session over HTTP: a page for a person at /, and JSON for agents (docs/live.md).

    Another address than the loopback needs a token in the environment variable JAXBANDIT_TOKEN, which requests bring.
    """

    journal: JournalPlace
    """Where the session's journal is: a file, or postgresql://user@host/database."""
    host: str = "127.0.0.1"
    """The address to listen at."""
    port: int = 8000
    """The port to listen at; 0 for any that is free."""
    allowed_hosts: Annotated[
        tuple[str, ...],
        tyro.conf.UseAppendAction,
        tyro.conf.arg(metavar="HOST", help_behavior_hint="(default: none; of a wildcard address, any)"),
    ] = ()
    """A host by which the server may be called beside its address and the loopback, such as its name behind a proxy;
    may be repeated."""
    lease: float = 3600.0
    """Seconds for which a question belongs to the agent that got it."""
    ahead: int = 0
    """Pulls that the policy may be ahead of its open questions, 0 to 10000, as for next."""
    candidates: Candidates = None
    """The address of a reconciliation service, whose candidates the page shows beside an entity's values."""
    type: EntityType = ""
    """The name that the service has for entities of this kind."""
    property: Property = ""
    """The name that it has for the property with the values of entities."""
    plugin: Plugins = ()

    def __call__(self) -> None:
        """Serves the session until the program is interrupted."""
        from jaxbandit.live.server import serve

        _served(self.candidates, self.type, self.property)
        token, session = os.environ.get("JAXBANDIT_TOKEN", ""), opened(self.journal)
        with_token = "; its address for a person ends in #token= and the token" if token else ""
        serve(
            session, self.host, self.port, token, self.lease, self.ahead,
            _offers(session, self.candidates, self.type, self.property),
            ready=lambda url: say(f"serving at {url}{with_token}"), allowed_hosts=self.allowed_hosts,
        )  # fmt: skip


def _served(url: str | None, kind: str, property: str) -> None:
    """Refuses what only a reconciliation service could use, where none is given."""
    for name, value in {"--type": kind, "--property": property}.items():
        if value and not url:
            raise BadInput(name, value, "left out where no reconciliation service is asked")


def _offers(
    session: Any, url: str | None, kind: str, property: str
) -> Callable[[dict[str, Any]], dict[str, Any]] | None:
    """Returns a function from a question to what a reconciliation service offers beside it; None without a service."""
    from jaxbandit.live.reconcile import Offers

    if not url:
        return None
    if session.asks.family != "cleaning":
        raise BadInput("--candidates", url, _ENTITIES)
    return Offers.at(url, kind, property).beside


def _person(asked: dict[str, Any], offers: Callable[[dict[str, Any]], dict[str, Any]] | None = None) -> str | None:
    print(printable("\n".join([*question(asked), *([] if offers is None else offered(offers(asked), asked))])))
    try:
        answer = input("> ").strip()
    except EOFError:
        return None
    return answer or None
