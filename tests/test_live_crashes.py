"""What a crash leaves of a live session: at each moment of an answer's transaction, and with each byte of its log."""

import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from jaxbandit.errors import BadInput
from jaxbandit.live import Session
from tests.live_kills import _answer, _study, answer_all

CLAIMS = [(f"f{number % 5}", f"{'ABCD'[number // 5]}{number % 3}") for number in range(20)]
DIES = """
import os, signal, sys
from jaxbandit.live import Session
from jaxbandit.live.journal import Writing

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

session, flush = Session.open(sys.argv[1]), Writing.flush
if sys.argv[4] == "before the commit":
    Writing.flush = lambda writing: die(flush(writing))
session.record(sys.argv[2], sys.argv[3], "agent")
die()  # it is on disk, and nobody has been told
"""


def begun(place: Path, write_back: bool = False) -> Session:
    """A session at a place; with ``write_back`` in the database of its table, which then has no log but SQLite's
    rollback journal."""
    if not write_back:
        return Session.begin(_study(40), "ee", place)
    with closing(sqlite3.connect(place)) as database, database:
        database.execute("CREATE TABLE claims (flight TEXT, gate TEXT)")
        database.executemany("INSERT INTO claims VALUES (?, ?)", CLAIMS)
    problem = {"kind": "cleaning/table", "path": str(place), "entity": "flight", "value": "gate", "budget": 20}
    study = {"seed": 5, "problem": problem, "policy": [{"kind": "ee", "t": 3, "q": 0.6}]}
    return Session.begin(study, "ee", place, write_back="claims")


def files(place: Path) -> dict[str, bytes]:
    """What a killed process leaves of the database; the index of its log (``-shm``) is made anew."""
    return {path.name: path.read_bytes() for path in place.parent.glob(f"{place.name}*") if path.suffix != ".db-shm"}


def restored(left: dict[str, bytes], place: Path) -> Path:
    """The place, with the files that were left there."""
    for path in place.parent.glob(f"{place.name}*"):
        path.unlink()
    for name, data in left.items():
        (place.parent / name).write_bytes(data)
    return place


def values(place: Path) -> list[tuple[str, str]]:
    with closing(sqlite3.connect(place)) as database:
        return database.execute("SELECT * FROM claims").fetchall()


def goes_on(place: Path, asked: dict[str, Any], before: int, calm: str) -> bool:
    """Whether the answer to the question is there. Either way the agent may give it again, and the session ends as one
    that nobody disturbed."""
    session = Session.open(place)
    there = session.status()["answers"] - before
    assert there in (0, 1)
    if not there:
        assert session.next("agent")["id"] == asked["id"]
    assert session.record(asked["id"], _answer(asked), "agent")["recorded"] is not bool(there)
    assert not session.record(asked["id"], _answer(asked), "agent")["recorded"]
    other = next(each for each in asked["allowed"] if each != _answer(asked))
    with pytest.raises(BadInput, match="a question that is open; this one has the answer"):
        session.record(asked["id"], other, "agent")
    session.close()
    whole = answer_all(str(place), None)
    assert whole.play.trace(whole.play.steps) == calm
    whole.close()
    return bool(there)


def played(tmp_path: Path, write_back: bool) -> str:
    """The trace of a session that nobody disturbs."""
    (tmp_path / "calm").mkdir()
    begun(tmp_path / "calm" / "session.db", write_back).close()
    session = answer_all(str(tmp_path / "calm" / "session.db"), None)
    session.close()
    return session.play.trace(session.play.steps)


@pytest.mark.parametrize("write_back", [False, True])
def test_a_kill_at_any_moment_of_an_answer(write_back: bool, tmp_path: Path) -> None:
    """Between the statements of its transaction, before and after the commit: an answer is there in full, with the
    value that it decides, or not at all."""
    place, calm = tmp_path / "session.db", played(tmp_path, write_back)
    session = begun(place, write_back)
    left: list[dict[str, bytes]] = []

    def look(*_: Any) -> None:
        if not left or left[-1] != files(place):
            left.append(files(place))

    def decides(asked: dict[str, Any]) -> bool:
        return len(asked["values"]) == 2 and _answer(asked) != "unknown"

    while asked := session.next("agent"):
        if session.status()["answers"] > 2 and (decides(asked) or not write_back):
            break
        session.record(asked["id"], _answer(asked), "agent")
    before = session.status()["answers"]
    for moment in ("before_cursor_execute", "after_cursor_execute", "commit"):
        sa.event.listen(session.journal._engine, moment, look)
    session.record(asked["id"], _answer(asked), "agent")
    look()
    session.close()
    assert len(left) >= 2
    tables = [values(restored(each, place)) if write_back else [] for each in left]
    found = [goes_on(restored(each, place), asked, before, calm) for each in left]
    assert found == [False] * (len(left) - 1) + [True]
    if write_back:
        assert tables[-1] != tables[0]
        assert tables[:-1] == [tables[0]] * (len(left) - 1)


@pytest.mark.slow
def test_a_log_that_ends_anywhere_in_an_answer(tmp_path: Path) -> None:
    """After a crash of the machine the last transaction may be there in part. It then counts for nothing."""
    place, calm = tmp_path / "session.db", played(tmp_path, False)
    session = begun(place)
    for _ in range(3):
        asked = session.next("agent")
        session.record(asked["id"], _answer(asked), "agent")
    asked = session.next("agent")
    short = len(files(place)["session.db-wal"])
    session.record(asked["id"], _answer(asked), "agent")
    whole = files(place)
    session.close()
    log = whole["session.db-wal"]
    assert len(log) > short
    kinds = {}
    for end in range(short, len(log) + 1):
        cut = restored({**whole, "session.db-wal": log[:end]}, place)
        with closing(sqlite3.connect(cut)) as database:
            kinds[end] = [kind for (kind,) in database.execute("SELECT kind FROM jaxbandit_event ORDER BY number")]
    assert kinds == {
        end: ["asked", "answered"] * (3 + (end == len(log))) + ["asked"] * (end < len(log)) for end in kinds
    }
    for end in (short, short + 24, short + 4120, len(log)):
        for rest in (b"", bytes(len(log) - end)):
            cut = restored({**whole, "session.db-wal": log[:end] + rest}, place)
            assert goes_on(cut, asked, 3, calm) == (end == len(log))


@pytest.mark.parametrize("moment", ["before the commit", "after the commit"])
def test_an_agent_that_was_not_told_gives_its_answer_again(moment: str, tmp_path: Path) -> None:
    place, calm = tmp_path / "session.db", played(tmp_path, False)
    session = begun(place)
    asked = session.next("agent")
    session.close()
    done = subprocess.run(
        [sys.executable, "-c", DIES, str(place), str(asked["id"]), _answer(asked), moment],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert goes_on(place, asked, 0, calm) == (moment == "after the commit")
