"""Agents that answer a session's questions: a person at the terminal, a command, a service that is called, a sheet."""

import csv
import io
import json
import queue
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any, TypeVar

from jaxbandit.errors import BadInput
from jaxbandit.live import inputs, shell
from jaxbandit.live.arms import ArmQuestions
from jaxbandit.live.extraction import ExtractionQuestions
from jaxbandit.live.session import LEASE, Session
from jaxbandit.user_tables import columns, title

Found = TypeVar("Found")
Ask = Callable[[dict[str, Any]], str | None]
"""A function from a question to its answer, in which None ends the work."""

MOST_REPLY = 1 << 20
"""The most bytes of a service's reply that are read."""
_WAIT, _TRIES = 0.5, 4


def work(
    session: Session,
    ask: Ask,
    agent: str,
    told: Callable[[dict[str, Any]], None],
    ahead: int = 0,
    waits: Callable[[int], None] = lambda _: None,
    lease: float = LEASE,
) -> None:
    """Answers questions until there are no more, or ``ask`` gives none.

    Args:
        session: whose questions.
        ask: the agent.
        agent: its name.
        told: is given what ``Session.record`` returns, or {"refused": a line} where an answer is not allowed,
            or {"late": a line} where somebody else has answered otherwise, or the question was taken back.
        ahead: see ``Session.next``.
        waits: is given how many questions are with other agents, once whenever it has to wait for these.
        lease: see ``Session.next``.
    """
    waiting = False
    while not (question := session.next(agent, lease=lease, ahead=ahead)).get("over"):
        if "id" not in question:
            if not waiting:
                waits(question["open"])
            waiting = True
            time.sleep(_WAIT)
            continue
        waiting = False
        answer = ask(question)
        if answer is None:
            return
        try:
            told(session.record(question["id"], answer, agent))
        except BadInput as error:
            if error.field not in ("ANSWER", "ID"):
                raise
            told({"refused" if error.field == "ANSWER" else "late": str(error)})


def command(line: str, timeout: float) -> Ask:
    """Returns an agent that is a shell command: it reads the question as JSON, and the first line that it prints is the
    answer.

    Raises:
        BadInput: where the command fails, takes longer than ``timeout`` seconds, or prints nothing, too much or no
            UTF-8.
    """
    inputs.timeout("timeout", timeout)

    def ask(question: dict[str, Any]) -> str:
        status, out, errors = shell.run(line, json.dumps(question).encode(), timeout)
        if status or not out.strip():
            why = (errors.decode(errors="replace").strip().splitlines() or ["it printed nothing"])[-1]
            raise BadInput("--command", line, f"a command that prints an answer (status {status}: {why})")
        try:
            return out.splitlines()[0].decode()
        except UnicodeDecodeError:
            raise BadInput("--command", line, "a command that prints an answer in UTF-8") from None

    return ask


def service(url: str, timeout: float) -> Ask:
    """Returns an agent that is a service: the question is posted to ``url`` as JSON, and the reply is {"answer": ...}.
    Its header ``Idempotency-Key`` is the question's ``key``. Where it does not answer, it is asked again after 1, 2 and
    4 seconds.

    Raises:
        BadInput: for a URL that is none, and where the service has not answered.
    """
    inputs.address("--url", url)
    inputs.timeout("timeout", timeout)

    def ask(question: dict[str, Any]) -> str:
        headers = {"Content-Type": "application/json", "Idempotency-Key": question["key"]}
        request = urllib.request.Request(url, json.dumps(question).encode(), headers)

        def once() -> str:
            answer = inputs.parsed(fetched(request, timeout))["answer"]
            return answer if isinstance(answer, str) else json.dumps(answer)

        return patiently("--url", url, 'the reply is not {"answer": ...}', once)

    return ask


def fetched(request: urllib.request.Request, timeout: float) -> bytes:
    """Returns the reply of a service, or its first ``MOST_REPLY`` bytes.

    Raises:
        OSError: where not all of it has come within ``timeout`` seconds, or it fails otherwise.
    """
    found: queue.SimpleQueue[bytes | Exception] = queue.SimpleQueue()
    end = time.monotonic() + timeout

    def fetch() -> None:
        try:
            with urllib.request.urlopen(request, timeout=timeout) as reply:
                body = b""
                while len(body) < MOST_REPLY and (part := reply.read1(MOST_REPLY)):
                    body += part
                    if time.monotonic() >= end:
                        return  # nobody waits any more
                found.put(body[:MOST_REPLY])
        except Exception as error:
            found.put(error)

    # The timeout of a socket is of each read alone, and a service may send a byte now and then.
    threading.Thread(target=fetch, daemon=True).start()
    try:
        got = found.get(timeout=max(end - time.monotonic(), 0))
    except queue.Empty:
        raise TimeoutError(f"no whole reply within {timeout:g} s") from None
    if isinstance(got, Exception):
        raise got
    return got


def patiently(field: str, url: str, other: str, call: Callable[[], Found], tries: int = _TRIES) -> Found:
    """Calls a service and returns what it gives; where it does not answer, it is asked again after 1, 2 and 4 seconds.

    Raises:
        BadInput: where it has not answered, or with something else (``other`` says so) each time.
    """
    for number in range(tries):
        try:
            return call()
        except (OSError, HTTPException) as error:  # URLError is an OSError
            why: object = error
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError):
            why = other
        if number + 1 < tries:
            time.sleep(2**number)
    failed = f"; {tries} tries failed" if tries > 1 else ""
    raise BadInput(field, url, f"a service that answers{failed} ({why})")


def sheet(session: Session, count: int, agent: str, lease: float = LEASE) -> str:
    """Questions as CSV, to be filled in and read back by ``read_sheet``: at most ``count`` that can be open at once.

    A cell that a spreadsheet would take for a formula begins with an apostrophe.

    Raises:
        BadInput: for a count that is not from 1 to 10000, before any question is given away.
    """
    inputs.count("count", count)
    text = io.StringIO()
    table = csv.writer(text)
    table.writerow(["id", "question", "allowed", "how", "answer"])
    for number in range(count):
        asked = session.next(f"{agent} {number}", lease=lease, ahead=count)
        if "id" not in asked:
            break
        table.writerow([asked["id"], *map(harmless, (_what(asked), " | ".join(asked["allowed"]), asked["how"])), ""])
    return text.getvalue()


def _what(asked: Mapping[str, Any]) -> str:
    """Returns what a question is about, in one cell."""
    what = asked.get("entity", asked.get("arm", asked.get("query")))
    what = what if isinstance(what, str) else json.dumps(what, ensure_ascii=False)
    return f"{what} ({asked['name']})" if "name" in asked else what


def read_sheet(session: Session, path: Path, agent: str) -> list[dict[str, Any]]:
    """Records the answers of a sheet, row by row; rows without one are passed over.

    Returns:
        What ``Session.record`` returned of each; {"refused": a line} of a row whose answer is not recorded, as it is
        not allowed, comes too late, or asks something else than the question of its number, as of another session.

    Raises:
        BadInput: for a file that is no such sheet.
    """
    found = []
    for line, (number, what, answer) in columns(path, {name: (name,) for name in ("id", "question", "answer")}):
        if answer:
            asked = session.questions.get(inputs.place(number))
            there = asked is not None and asked.state in ("open", "answered")
            own = title(_what(session.asked(number))) if there else what
            if what.split() not in (own.split(), harmless(own).split()):
                allowed = f"{own}, as question {number} of this session asks; its answer is not recorded"
                found.append({"refused": str(BadInput(f"question in line {line}", what, allowed))})
                continue
            answer = answer[1:] if answer[:1] == "'" and harmless(answer[1:]) == answer else answer
            try:
                found.append(session.record(number, answer, agent))
            except BadInput as error:
                found.append({"refused": str(BadInput(f"{error.field} in line {line}", error.value, error.allowed))})
    return found


def harmless(cell: str) -> str:
    """Returns a cell's text in a form that no spreadsheet takes for a formula."""
    return f"'{cell}" if cell[:1] in "=+-@\t\r" else cell


def changes(session: Session) -> list[Mapping[str, str]]:
    """Returns the cells of the cleaned table that the answers decide: of each entity with one value left, its name, the
    column of its values, and the value.

    Raises:
        BadInput: for another session.
    """
    confirmed = getattr(session.asks, "confirmed", None)
    table = getattr(session.case.chosen.setting, "table", None)
    if confirmed is None or table is None:
        raise BadInput("export", session.asks.family, "a session that cleans a table, or one of arms or extraction")
    rows = session.asks.rows  # type: ignore[attr-defined]
    return [
        {"entity": table.names[rows[entity]], "column": table.columns[rows[entity]], "value": value}
        for entity, value in confirmed(session.answers).items()
    ]


def arms(session: Session) -> list[dict[str, Any]]:
    """Returns a row for each arm, see ``ArmQuestions.table``, with its ``name`` where the user's table has names.

    Raises:
        BadInput: for another session than one of arms.
    """
    asks, names = session.asks, session.case.names
    if not isinstance(asks, ArmQuestions):
        raise BadInput("export", asks.family, "a session of arms")
    status = session.status()
    found = asks.table(session.answers, status.get("chosen", status.get("outliers", ())))
    return [{"arm": row["arm"], "name": names[row["arm"]], **row} for row in found] if names else found


def entities(session: Session) -> list[dict[str, Any]]:
    """Returns a row for each entity that was bought, see ``ExtractionQuestions.table``.

    Raises:
        BadInput: for another session than one of extraction.
    """
    asks = session.asks
    if not isinstance(asks, ExtractionQuestions):
        raise BadInput("export", asks.family, "a session of extraction")
    return asks.table(session.answers)


def as_csv(rows: list[dict[str, Any]]) -> str:
    """Returns the rows of ``arms`` or ``entities`` as a CSV file, in which 1 or 0 says whether an arm is chosen. Where
    no entity was bought, it has the titles alone."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(rows[0] if rows else ("entity", "node", "query"))
    for row in rows:
        digits = {name: 6 if name == "mean" else 15 for name in row}  # a sum of rewards has all of theirs
        shown = (f"{each:.{digits[name]}g}" if isinstance(each, float) else each for name, each in row.items())
        table.writerow(int(each) if isinstance(each, bool) else each for each in shown)
    return text.getvalue()


def cleaned(session: Session) -> tuple[str, int]:
    """Returns a copy of the user's CSV file with what the answers decide, and how many of its cells have changed.

    All cells that claim a value of an entity that is decided get that value; the others stay as they are.

    Raises:
        BadInput: for another session, and for a table that is no CSV file.
    """
    decided = {(each["entity"], each["column"]): each["value"] for each in changes(session)}
    problem = session.case.table["problem"]
    path, content = session.case.files[problem["path"]]
    try:
        rows = [row for row in csv.reader(io.StringIO(content.decode("utf-8-sig"), newline="")) if row]
    except (UnicodeDecodeError, csv.Error):
        raise BadInput("problem.path", path, "a CSV file; of an SQLite database, `export` shows the changes") from None
    header = list(map(title, rows[0]))
    keys, attributes = (_list(problem[name]) for name in ("entity", "value"))
    out, changed = [rows[0]], 0
    for row in rows[1:]:
        key = [title(row[header.index(title(name))]) for name in keys]
        for attribute in attributes:
            place = header.index(title(attribute))
            name = " / ".join([*key, attribute] if len(attributes) > 1 else key)
            value = decided.get((name, attribute))
            if value is not None and title(row[place]) not in ("", value):
                row[place] = value
                changed += 1
        out.append(row)
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(out)
    return text.getvalue(), changed


def _list(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else list(value)
