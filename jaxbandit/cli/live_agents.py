"""Verbs of ``jaxbandit live`` by which agents answer: a person, a command, a service, a sheet, or over HTTP."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import tyro

from jaxbandit.cli.arguments import Plugins
from jaxbandit.cli.console import printable, say
from jaxbandit.cli.live_common import AGENT, JournalPlace, money, offered, opened, question, written
from jaxbandit.errors import BadInput

_ENTITIES = "none: a service knows entities, and this is no session of cleaning"

Candidates = Annotated[str, tyro.conf.arg(metavar="URL", help_behavior_hint="(default: none)")]
EntityType = Annotated[str, tyro.conf.arg(help_behavior_hint="(default: any)")]
Property = Annotated[str, tyro.conf.arg(help_behavior_hint="(default: their names)")]


@dataclass(frozen=True)
class Answer:
    """Answer questions one after the other: a person at the terminal, a command, or a service that is called."""

    journal: JournalPlace
    """Of the session."""
    agent: str = AGENT
    """Who answers."""
    command: Annotated[str, tyro.conf.arg(help_behavior_hint="(default: none)")] = ""
    """A shell command that reads a question as JSON and prints an answer."""
    url: Annotated[str, tyro.conf.arg(help_behavior_hint="(default: none)")] = ""
    """Of a service that questions are posted to as JSON, and that replies {"answer": ...}."""
    reconcile: Annotated[str, tyro.conf.arg(metavar="URL", help_behavior_hint="(default: none)")] = ""
    """Of a reconciliation service (the protocol of OpenRefine, version 0.2), which confirms values of entities."""
    candidates: Candidates = ""
    """Of a reconciliation service, whose candidates a person sees beside the entity's values."""
    type: EntityType = ""
    """What that service calls entities of this kind."""
    property: Property = ""
    """What it calls the property that has the values of entities."""
    timeout: float = 60.0
    """Seconds that a command or a service has."""
    ahead: int = 0
    """See next."""
    plugin: Plugins = ()

    def __call__(self) -> None:
        """Until there are no more questions, or the person leaves."""
        from jaxbandit.live import agents
        from jaxbandit.live.reconcile import Reconciliation

        given = {
            "--command": self.command, "--url": self.url, "--reconcile": self.reconcile, "--candidates": self.candidates
        }  # fmt: skip
        if len(some := [name for name, value in given.items() if value]) > 1:
            raise BadInput(some[1], given[some[1]], f"none where {some[0]} is given")
        session = opened(self.journal)
        if self.reconcile and session.asks.family != "cleaning":
            raise BadInput("--reconcile", self.reconcile, _ENTITIES)
        person: agents.Ask = partial(_person, offers=_offers(session, self.candidates, self.type, self.property))
        ask = person
        if self.command:
            ask = agents.command(self.command, self.timeout)
        if self.url:
            ask = agents.service(self.url, self.timeout)
        if self.reconcile:
            service = Reconciliation(self.reconcile, self.type, self.property, self.timeout)
            service.check()
            ask = service.ask

        def told(found: dict[str, Any]) -> None:
            if "refused" in found:
                if ask is not person:
                    allowed = f"an agent that gives answers of those that a question allows ({found['refused']})"
                    raise BadInput(some[0], given[some[0]], allowed)
                print(printable(found["refused"]))

        agents.work(session, ask, self.agent, told, self.ahead)
        say(money(session.status()))


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

        session = opened(self.journal)
        if self.back:
            found = agents.read_sheet(session, self.file, self.agent)
            say(f"{sum(each['recorded'] for each in found)} answers recorded; {money(session.status())}")
        elif not self.file.absolute().parent.is_dir():  # before any question is given away
            raise BadInput("FILE.csv", str(self.file), "a file in a folder that exists")
        elif self.file.exists():
            raise BadInput("FILE.csv", str(self.file), "a file that does not exist yet; --back reads its answers")
        else:
            text = agents.sheet(session, self.count, self.agent, self.lease)
            written("FILE.csv", self.file, text)
            say(f"{text.count(chr(10)) - 1} questions in {self.file}; fill in the column answer, then: --back")


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
    candidates: Candidates = ""
    """Of a reconciliation service, whose candidates the page shows beside an entity's values."""
    type: EntityType = ""
    """What that service calls entities of this kind."""
    property: Property = ""
    """What it calls the property that has the values of entities."""
    plugin: Plugins = ()

    def __call__(self) -> None:
        """Until it is interrupted."""
        import os

        from jaxbandit.live.server import serve

        token, session = os.environ.get("JAXBANDIT_TOKEN", ""), opened(self.journal)
        with_token = "; its address for a person ends in #token= and the token" if token else ""
        serve(
            session, self.host, self.port, token, self.lease, self.ahead,
            _offers(session, self.candidates, self.type, self.property),
            ready=lambda url: say(f"serving at {url}{with_token}"),
        )  # fmt: skip


def _offers(session: Any, url: str, kind: str, property: str) -> Callable[[dict[str, Any]], dict[str, Any]] | None:
    """From a question to what a reconciliation service offers beside it; None where no service is given."""
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
