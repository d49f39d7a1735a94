"""What the verbs of ``jaxbandit live`` share: their options, questions as text, and what they print."""

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import tyro

from jaxbandit.cli import interruption
from jaxbandit.cli.console import printable
from jaxbandit.errors import BadInput
from jaxbandit.words import counted

JournalPlace = Annotated[str, tyro.conf.arg(metavar="PLACE")]
Json = Annotated[bool, tyro.conf.FlagCreatePairsOff]
Settings = Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="KEY=VALUE")]
AGENT = "terminal"
_ARGUMENTS = {name: name for name in ("agent", "ahead", "cost", "count", "lease", "timeout", "write_back")} | {
    "path": "file", "place": "journal",
}  # fmt: skip
"""Of functions of ``jaxbandit.live``, by the names of arguments there, what gives them here."""


def settings(given: tuple[str, ...]) -> dict[str, Any]:
    """Returns the values of texts KEY=VALUE by key; a value that is no JSON is a text."""
    from jaxbandit.live import inputs

    found = dict[str, Any]()
    for text in given:
        name, sign, value = inputs.text("--set", text).partition("=")
        if not sign or not name:
            raise BadInput("--set", text, "KEY=VALUE, such as budget=500")
        if name in found:
            raise BadInput("--set", text, f"{name} once")
        try:
            found[name] = inputs.parsed(value)
        except ValueError:
            found[name] = value
    return found


@contextlib.contextmanager
def running(verb: Any) -> Iterator[None]:
    """Closes the sessions that a verb opens. Names its option in an error of a library function, which knows only its
    own arguments."""
    try:
        yield
    except BadInput as error:
        option = _ARGUMENTS.get(error.field, "")
        if not hasattr(verb, option):
            raise
        raise BadInput(
            "FILE.csv" if option == "file" else f"--{option.replace('_', '-')}", error.value, error.allowed
        ) from None
    finally:
        while interruption.leaving:
            interruption.leaving.pop()()


def kept(session: Any) -> Any:
    """Returns a session that is closed when the verb or the process ends, so that its file alone is all of it."""
    interruption.leaving.append(session.close)
    return session


def opened(place: str) -> Any:
    """Opens the live session whose journal is at ``place``."""
    from jaxbandit.live import Session

    return kept(Session.open(place))


def written(field: str, path: Path, text: str, session: Any) -> None:
    """Writes a text to a file that an option names, and complains of that option. Files of the session are none to
    write to: its journal, and the tables that it was begun with."""
    from jaxbandit.live.case import same_file
    from jaxbandit.study import folder

    if path.is_dir():
        raise BadInput(field, str(path), "a file, and this is a folder")
    for own in session.files:
        if same_file(path, own):
            raise BadInput(field, str(path), "another file than the journal and the tables of the session")
    try:
        folder.write(path, text.encode())
    except OSError as error:
        raise BadInput(field, str(path), f"a file that can be written ({error.strerror})") from None


def money(found: dict[str, Any]) -> str:
    """Returns a phrase on what was spent and what is left."""
    return f"{found['spent']:g} spent, {found['left']:g} left"


def elsewhere(many: int) -> str:
    """Returns a phrase on how many questions are with other agents."""
    return "1 question is with another agent" if many == 1 else f"{many:,} questions are with other agents"


def nothing(found: dict[str, Any]) -> str:
    """Returns why there is no question."""
    why = "nothing is asked any more" if found["over"] else f"no question now: {elsewhere(found['open'])}"
    return f"{why}; {money(found)}"


def question(found: dict[str, Any]) -> list[str]:
    """Returns a question as lines for a person."""
    if "id" not in found:
        return [nothing(found)]
    lines = [f"question {found['id']} ({money(found)})"]
    if "entity" in found:
        lines.append(f"entity {found['entity']}")
        lines += [f"  #{number}  {' '.join(value.split())}" for number, value in enumerate(found["values"], 1)]
    elif "arm" in found:
        name = f" ({found['name']})" if "name" in found else ""
        lines.append(f"arm {found['arm']}{name}")
    else:
        query = found["query"]
        but = f", none of {'; '.join(query['exclude'])}" if query["exclude"] else ""
        lines.append(f"{counted(query['k'], 'entity', 'entities')} of {query['node']}{but}")
    return [*lines, f"answer: {found['how']}", f"why: {found['why']}"]


def offered(found: dict[str, Any], asked: dict[str, Any]) -> list[str]:
    """Returns what ``Offers.beside`` a question gives, as lines for a person."""
    if "none" in found:
        return [f"no candidates: {found['none']}"]
    lines = []
    for each in found["candidates"]:
        said = "" if each["values"] == [each["name"]] else f": {'; '.join(each['values'])}"
        same = " and ".join(f"#{asked['values'].index(value) + 1}" for value in each["claimed"])
        facts = f"score {each['score']:g}{', match' if each['match'] else ''}{f', same as {same}' if same else ''}"
        lines.append("  " + " ".join(f"{each['name']}{said} ({facts})".split()))
    return ["candidates:", *lines] if lines else ["no candidates: the service knows no such entity"]


def printed(found: dict[str, Any], as_json: bool, lines: Callable[[dict[str, Any]], list[str]]) -> None:
    """Prints what a verb found: as one JSON object, or as the lines that ``lines`` makes."""
    text = json.dumps(found, ensure_ascii=False) if as_json else printable("\n".join(lines(found)))
    sys.stdout.write(text + "\n")
