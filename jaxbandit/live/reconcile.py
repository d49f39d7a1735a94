"""A reconciliation service: as an agent it confirms one of an entity's values, and to a person it offers candidates.

The protocol is that of OpenRefine, "Reconciliation Service API", version 0.2 (a report of a W3C community group). The
entity's name is reconciled. What a candidate says of the entity is its name, or where a property is given, that
property's values (the part of the protocol that is called data extension).
"""

import json
import math
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from jaxbandit.errors import BadInput
from jaxbandit.live import inputs
from jaxbandit.live.agents import Found, fetched, patiently
from jaxbandit.user_tables import title

VERSION = "0.2"
MOST_CANDIDATES = 5
PATIENCE, PAUSE = 5.0, 60.0
"""Seconds for which a person waits for candidates, and for which a service that failed is left alone."""
_LONGEST, _REMEMBERED = 200, 10_000


class Candidate(NamedTuple):
    """Describes what a service may take an entity for. ``match``: whether it is sure; ``values``: what it says of the
    entity."""

    name: str
    score: float
    match: bool
    values: list[str]


@dataclass(frozen=True)
class Reconciliation:
    """Calls a service at ``url``. ``kind``: the type of entity that it is asked for, "" for any; ``property``: "" for
    the names of candidates; ``timeout``: seconds; ``option``: by which the user gave it; ``tries``: how often it is
    asked."""

    url: str
    kind: str = ""
    property: str = ""
    timeout: float = 60.0
    option: str = "--reconcile"
    tries: int = 4

    def __post_init__(self) -> None:
        inputs.address(self.option, self.url)
        inputs.timeout("timeout", self.timeout)

    def check(self, end: float = math.inf) -> None:
        """Checks that there is such a service. ``end``: when it is waited for no longer, by ``time.monotonic``.

        Raises:
            BadInput: where it is not, or speaks another version alone.
        """
        versions, extends = self._call(
            None, lambda found: (list(found.get("versions", [VERSION])), "extend" in found), end
        )
        if VERSION not in versions:
            raise BadInput(self.option, self.url, f"a service of the protocol's version {VERSION}, not {versions}")
        if self.property and not extends:
            raise BadInput("--property", self.property, "none: the service's manifest offers no data extension")

    def candidates(self, entity: str, end: float = math.inf) -> list[Candidate]:
        """Returns what the service takes an entity for, the best first; at most ``MOST_CANDIDATES``. ``end``: as of
        ``check``, for all that is asked."""
        query = {"query": entity, "limit": MOST_CANDIDATES} | ({"type": self.kind} if self.kind else {})
        found = self._call(
            {"queries": json.dumps({"q0": query})},
            lambda reply: [
                (str(each["id"]), _short(each["name"]), _score(each["score"]), each.get("match") is True)
                for each in reply["q0"]["result"][:MOST_CANDIDATES]
            ],
            end,
        )
        values = self._values([number for number, *_ in found], end) if self.property and found else {}
        return [Candidate(name, score, match, values.get(number, [name])) for number, name, score, match in found]

    def _values(self, numbers: list[str], end: float) -> dict[str, list[str]]:
        return self._call(
            {"extend": json.dumps({"ids": numbers, "properties": [{"id": self.property}]})},
            lambda reply: {
                each: [_text(cell) for cell in reply["rows"][each].get(self.property, [])[:MOST_CANDIDATES]]
                for each in numbers
            },
            end,
        )

    def values(self, entity: str) -> list[str]:
        """Returns what the service knows of an entity; nothing where it has no match."""
        return [value for each in self.candidates(entity) if each.match for value in each.values]

    def ask(self, question: dict[str, Any]) -> str:
        """Returns the answer to a question of cleaning: a value beside the one that the service confirms; that nobody
        can tell where it confirms none, or several."""
        if question["family"] != "cleaning":
            raise BadInput(self.option, question["family"], "a session of cleaning")
        right = _claimed(question, self.values(question["entity"]))
        wrong = [value for value in question["values"] if value not in right]
        found: str = wrong[0] if len(right) == 1 and wrong else question["allowed"][-1]
        return found

    def _call(self, form: dict[str, str] | None, read: Callable[[Any], Found], end: float) -> Found:
        """Returns what is read from the manifest, or from the reply to a form."""
        body = None if form is None else urllib.parse.urlencode(form).encode()

        def once() -> Found:
            timeout = min(self.timeout, max(round(end - time.monotonic(), 1), 0.1))
            return read(inputs.parsed(fetched(urllib.request.Request(self.url, body), timeout)))

        return patiently(self.option, self.url, f"the reply is none of version {VERSION}", once, self.tries)


@dataclass
class Offers:
    """Offers a person who answers what a service knows. Its failure is a line beside the question, and the person
    goes on."""

    service: Reconciliation
    _known: dict[str, list[Candidate]] = field(default_factory=dict)
    _checked: bool = False
    _failure: str = ""
    _again: float = 0.0

    @classmethod
    def at(cls, url: str, kind: str = "", property: str = "") -> "Offers":
        """Returns those of the service at ``url``, see ``Reconciliation``.

        Raises:
            BadInput: for a URL that is none.
        """
        return cls(Reconciliation(url, kind, property, PATIENCE, "--candidates", tries=1))

    def beside(self, question: dict[str, Any]) -> dict[str, Any]:
        """Returns what is offered beside a question of cleaning.

        Returns:
            JSON-ready: ``candidates``, each with ``name``, ``score``, ``match``, what it says (``values``), and which
            of the entity's values these are (``claimed``); or ``none``, a line that says why there are no candidates.
        """
        try:
            found = self._candidates(question["entity"])
        except BadInput as error:
            self._failure, self._again = str(error), time.monotonic() + PAUSE
            return {"none": self._failure}
        if found is None:
            return {"none": self._failure}
        return {"candidates": [{**each._asdict(), "claimed": _claimed(question, each.values)} for each in found]}

    def _candidates(self, entity: str) -> list[Candidate] | None:
        """None where the service failed a moment ago."""
        if entity not in self._known:
            if time.monotonic() < self._again:
                return None
            end = time.monotonic() + PATIENCE
            if not self._checked:
                self.service.check(end)
                self._checked = True
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[entity] = self.service.candidates(entity, end)
        return self._known[entity]


def _claimed(question: dict[str, Any], said: Collection[str]) -> list[str]:
    """Returns the entity's values that are said, but for case, white space and how accents are written."""
    known = set(map(_plain, said))
    return [value for value in question["values"] if _plain(value) in known]


def _plain(value: str) -> str:
    return " ".join(title(value).split()).casefold()


def _short(name: Any) -> str:
    text = str(name)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _score(score: Any) -> float:
    if not math.isfinite(found := float(score)):
        raise ValueError("a score that is no number")
    return found


def _text(cell: dict[str, Any]) -> str:
    """Returns a value of data extension as a text: {"str": ...}, {"int": ...}, {"date": ...}, or an entity with its
    name."""
    for key in ("str", "name", "date", "int", "float", "bool", "id"):
        if key in cell:
            return _short(cell[key])
    return ""
