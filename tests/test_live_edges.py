"""What tables, agents and options of a live session may be beside the usual: else an answer is lost, or a cell."""

import csv
import io
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from jaxbandit.cli import program
from jaxbandit.errors import BadInput
from jaxbandit.live import Session, agents
from jaxbandit.live.reconcile import Reconciliation
from jaxbandit.live.server import app

ROWS = [("ZZ", "1"), ("AA", "7:00"), ("AA", "7:10"), ("BB", "6:15")]


def database(path: Path, *statements: str) -> list[tuple[Any, ...]]:
    """Runs statements; what the last one gives."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements[:-1]:
            connection.execute(statement)
        return connection.execute(statements[-1]).fetchall()


def mapping(path: Path, **more: Any) -> dict[str, Any]:
    problem = {"kind": "cleaning/table", "path": str(path), "entity": "flight", "value": "gate", "budget": 9, **more}
    return {"problem": problem, "policy": [{"kind": "greedy"}]}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table without a primary key."""
    path = tmp_path / "claims.db"
    values = ", ".join(map(str, ROWS))
    database(path, "CREATE TABLE claims (flight, gate)", f"INSERT INTO claims VALUES {values}")
    return path


def written_back(path: Path) -> Session:
    """A session whose first question is of AA."""
    session = Session.begin(mapping(path), "greedy", path, write_back="claims")
    assert session.next()["entity"] == "AA"
    return session


@pytest.mark.parametrize(
    "change",
    [
        ("DELETE FROM claims WHERE flight = 'ZZ'", "VACUUM"),  # rows have other numbers then
        ("UPDATE claims SET gate = '12:34' WHERE flight = 'AA' AND rowid = 2",),
        ("DELETE FROM claims WHERE rowid = 2", "INSERT INTO claims (rowid, flight, gate) VALUES (2, 'CC', '7:10')"),
    ],
)
def test_undo_puts_back_what_the_answer_has_written_alone(table: Path, change: tuple[str, ...]) -> None:
    session = written_back(table)
    session.record(1, "7:00")
    with closing(sqlite3.connect(table)) as connection:
        for statement in change:
            connection.execute(statement)
            connection.commit()
    before = database(table, "SELECT * FROM claims")
    with pytest.raises(BadInput, match="write_back = claims: as the answer left it: "):
        session.undo()
    assert database(table, "SELECT * FROM claims") == before
    assert session.status()["answers"] == 1


def test_rows_are_those_that_name_the_entity_when_it_is_written(table: Path) -> None:
    session = written_back(table)
    database(table, "UPDATE claims SET flight = 'QQ' WHERE gate = '7:00'", "INSERT INTO claims VALUES ('AA', '7:00')")
    session.record(1, "7:00")
    assert database(table, "SELECT gate FROM claims WHERE flight = 'AA'") == [("7:10",), ("7:10",)]
    assert database(table, "SELECT gate FROM claims WHERE flight = 'QQ'") == [("7:00",)]


@pytest.mark.parametrize("made", ["id TEXT PRIMARY KEY, flight, gate", "rowid DEFAULT 1, flight, gate"])
def test_rows_that_their_key_does_not_tell_apart_are_told_apart(tmp_path: Path, made: str) -> None:
    path, values = tmp_path / "claims.db", ", ".join(map(str, ROWS))
    database(path, f"CREATE TABLE claims ({made})", f"INSERT INTO claims (flight, gate) VALUES {values}")
    session = written_back(path)
    session.record(1, "7:00")
    assert sorted(database(path, "SELECT gate FROM claims")) == [("1",), ("6:15",), ("7:10",), ("7:10",)]
    session.undo()
    assert database(path, "SELECT flight, gate FROM claims") == ROWS


def test_a_view_takes_no_values(table: Path) -> None:
    database(table, "ALTER TABLE claims RENAME TO held", "CREATE VIEW claims AS SELECT * FROM held")
    with pytest.raises(BadInput, match="write_back = claims: a table with a primary key"):
        Session.begin(mapping(table, table="claims"), "greedy", table, write_back="claims")
    assert [name for (name,) in database(table, "SELECT name FROM sqlite_master")] == ["held", "claims"]


def test_a_journal_in_the_file_of_the_problem_is_refused(table: Path) -> None:
    with pytest.raises(BadInput, match=r"place = .*claims.db: a file of its own"):
        Session.begin(mapping(table), "greedy", table)
    assert database(table, "SELECT name FROM sqlite_master") == [("claims",)]


THREE = "flight,gate\na,1\na,2\nb,1\nb,2\nc,1\nc,2\n"


@pytest.fixture
def three(tmp_path: Path) -> Session:
    """A session that asks of three entities."""
    (tmp_path / "claims.csv").write_text(THREE)
    study = {**mapping(tmp_path / "claims.csv"), "policy": [{"kind": "random"}]}
    return Session.begin(study, "random", tmp_path / "journal")


def filled(session: Session, path: Path, answers: list[str]) -> None:
    """Writes a sheet and fills it in; of each question the value at the place that is given, or what is."""
    rows = list(csv.DictReader(io.StringIO(agents.sheet(session, len(answers), "sheet"))))
    assert len(rows) == len(answers)
    with path.open("w", newline="") as file:
        out = csv.DictWriter(file, list(rows[0]))
        out.writeheader()
        out.writerows(row | {"answer": answer} for row, answer in zip(rows, answers, strict=True))


def test_a_sheet_goes_on_below_a_row_that_is_refused(three: Session, tmp_path: Path) -> None:
    path = tmp_path / "sheet.csv"
    filled(three, path, ["1", "none of them", "2"])
    three.record(1, "2", "other")
    for turn in range(2):
        found = agents.read_sheet(three, path, "sheet")
        assert [each.get("recorded") for each in found] == [None, None, turn == 0]
        assert found[0]["refused"].startswith("ID in line 2 = 1: a question that is open; this one has the answer 2")
        assert found[1]["refused"].startswith("ANSWER in line 3 = none of them:")
    status = three.status()
    assert (status["answers"], status["late"], status["contradicted"]) == (2, 1, {"sheet": 1})  # said twice, kept once


def test_an_answer_to_a_question_that_is_gone_is_kept(three: Session) -> None:
    three.record(three.next("a")["id"], "1", "a")
    asked = three.next("b")["id"]
    three.undo()
    with pytest.raises(BadInput, match=f"ID = {asked}: a question that is open; this one was withdrawn"):
        three.record(asked, "1", "b")
    with pytest.raises(BadInput, match="this one was undone"):
        three.record(1, "2", "a")
    for session in (three, Session.open(three.journal.place)):
        status = session.status()
        assert (status["answers"], status["late"]) == (0, 2)
        assert "contradicted" not in status  # as no answer stands


def test_a_session_sees_what_others_wrote(three: Session) -> None:
    other = Session.open(three.journal.place)
    agents.work(other, lambda asked: asked["values"][-1], "other", lambda _: None)
    assert three.over
    another = Session.open(three.journal.place)
    other.undo()
    assert not another.over
    assert another.told() == other.told()
    assert another.forecast() == other.forecast()


def test_who_claims_a_value_in_other_letters_is_named(tmp_path: Path) -> None:
    (tmp_path / "claims.csv").write_text("flight,gate,by\nc,Rome,s1\nc,rome,s2\nc,Paris,s3\n")
    study = mapping(tmp_path / "claims.csv", normalise="casefold")
    session = Session.begin(study, "greedy", tmp_path / "journal")
    assert session.next()["sources"] == {"Rome": ["s1", "s2"], "Paris": ["s3"]}


def test_a_table_that_begins_with_an_empty_line_is_exported(tmp_path: Path) -> None:
    (tmp_path / "claims.csv").write_text("\n" + THREE)
    session = Session.begin(mapping(tmp_path / "claims.csv"), "greedy", tmp_path / "journal")
    asked = session.next()
    session.record(asked["id"], "2")
    text, changed = agents.cleaned(session)
    assert (text.splitlines()[0], changed) == ("flight,gate", 1)


def test_all_digits_of_a_reward_are_exported(tmp_path: Path) -> None:
    problem = {"kind": "topk/gaussian", "means": {"list": [1e6, 0.0]}, "K": 1, "budget": 4}
    session = Session.begin({"problem": problem, "policy": [{"kind": "uniform"}]}, "uniform", tmp_path / "journal")
    asked = session.next()
    session.record(asked["id"], "1234567.891")
    with pytest.raises(BadInput, match=r"this one has the answer 1234567\.891"):
        session.record(asked["id"], "1234567.5")
    (row,) = (each for each in csv.DictReader(io.StringIO(agents.as_csv(agents.arms(session)))) if each["asked"] == "1")
    assert "1234567.891" in row.values()


@pytest.mark.parametrize(
    "reply", [{"id": "Q1", "name": "a", "score": 90}, {"id": "Q1", "name": "a", "score": 90, "match": True}]
)
def test_a_service_may_leave_out_what_the_protocol_lets_it(
    monkeypatch: pytest.MonkeyPatch, reply: dict[str, Any]
) -> None:
    """Whether a candidate is a match, and the values of a property that an entity has none of."""

    def fetched(request: Any, _: float) -> bytes:
        extends = request.data is not None and b"extend" in request.data
        return json.dumps({"meta": [], "rows": {"Q1": {}}} if extends else {"q0": {"result": [reply]}}).encode()

    monkeypatch.setattr("jaxbandit.live.reconcile.fetched", fetched)
    (found,) = Reconciliation("http://127.0.0.1:1/", property="gate").candidates("a")
    assert (found.match, found.values) == ("match" in reply, [])


@pytest.mark.parametrize("token", ["a token with spaces", "ünïcode-token-1234", "token&more-of-it-1234", " " * 17])
def test_a_token_that_cannot_be_brought_is_refused(three: Session, token: str) -> None:
    with pytest.raises(BadInput, match="JAXBANDIT_TOKEN = a token with other characters") as refused:
        app(three, token=token)
    assert token not in str(refused.value)


def test_a_token_of_base64_is_brought(three: Session) -> None:
    token = "abc+def/ghi12345=="
    with TestClient(app(three, token=token), "http://127.0.0.1:8000") as client:
        assert client.get("/status", headers={"Authorization": f"Bearer {token}"}).status_code == 200


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("answer", "--type", "flight"), "--type = flight: left out where no reconciliation service is asked"),
        (("answer", "--property", "gate", "--command", "cat"), "--property = gate: left out where no reconciliation"),
        (("serve", "--property", "gate"), "--property = gate: left out where no reconciliation service is asked"),
        (("answer", "--command", ""), "--command = : left out, or a command or an address"),
        (("answer", "--url", " "), "--url = : left out, or a command or an address"),
    ],
)
def test_an_option_that_would_do_nothing_is_refused(
    three: Session, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], line: str
) -> None:
    assert program.run(["live", *words, "--journal", three.journal.place]) == 2
    assert line in capsys.readouterr().err
    assert three.status()["open"] == 0


def test_a_sheet_says_how_many_questions_it_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "claims.csv").write_text('flight,gate\na,"1\n1"\na,2\n')
    session = Session.begin(mapping(tmp_path / "claims.csv"), "greedy", tmp_path / "journal")
    given = ["--journal", session.journal.place]
    assert program.run(["live", "sheet", str(tmp_path / "one.csv"), *given]) == 0
    assert "1 question in " in capsys.readouterr().err
    assert program.run(["live", "sheet", str(tmp_path / "two.csv"), *given, "--agent", "else"]) == 2
    assert "no question now: 1 question is with another agent" in capsys.readouterr().err
    assert not (tmp_path / "two.csv").exists()


def test_an_agent_is_waited_for_as_long_as_is_said(three: Session, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["live", "answer", "--journal", three.journal.place, "--command", "sleep 9; echo 1", "--timeout", "0.2"]
    assert program.run(words) == 2
    assert "a command that answers within 0.2 s" in capsys.readouterr().err
    assert three.status()["answers"] == 0
