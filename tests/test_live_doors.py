"""The doors of a live session: HTTP, commands, services, sheets, PostgreSQL; and what SIGKILL leaves."""

import csv
import io
import json
import os
import re
import shlex
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from jaxbandit.cli import program
from jaxbandit.errors import BadInput
from jaxbandit.live import Session, agents, show
from jaxbandit.live.journal import Journal
from jaxbandit.live.server import app, serve
from tests.live_kills import killed
from tests.test_live import claims

HOSTILE = "=1+1<script>alert(1)</script>"


@pytest.fixture
def session(tmp_path: Path) -> Session:
    claims(tmp_path)
    rows = [f"f{flight},{value}" for flight in range(9) for value in ["A1", HOSTILE, "B7", "C3"][: 1 + flight % 4]]
    (tmp_path / "claims.csv").write_text("flight,gate\n" + "\n".join(rows) + "\n")
    return Session.begin(tmp_path / "study.toml", "random", tmp_path / "journal")


def test_http(session: Session) -> None:
    with TestClient(app(session)) as client:
        asked = client.post("/next", json={"agent": "a"}).json()
        assert client.post("/next", json={"agent": "a"}).json()["id"] == asked["id"]
        assert "id" not in client.post("/next", json={"agent": "b"}).json()
        answer = {"id": asked["id"], "answer": asked["values"][0], "agent": "a"}
        assert client.post("/answers", json=answer).json()["recorded"]
        assert not client.post("/answers", json=answer).json()["recorded"]
        status = client.get("/status").json()
        assert (status["answers"], status["spent"], status["left"]) == (1, 1, 11)
        for path, content, code, line in (
            ("/answers", {"id": 99, "answer": "unknown"}, 404, "ID = 99: a question of this session: 1 to 1"),
            ("/answers", {"answer": "unknown"}, 404, "ID = missing: "),
            ("/answers", {**answer, "answer": "unknown"}, 409, "ID = 1: a question that is open"),
            ("/answers", {"id": 1}, 400, "answer = missing: a text"),
            ("/answers", {"id": 1, "answer": "Z"}, 400, "ANSWER = Z: one of "),
            ("/answers", {"id": 1, "answer": "unknown", "cost": "dear"}, 400, "cost = dear: a number"),
            ("/next", {"agent": 3}, 400, "agent = 3: a text"),
        ):
            reply = client.post(path, json=content)
            assert (reply.status_code, reply.json()["error"].startswith(line)) == (code, True), reply.text
        assert client.post("/next", content=b"[1").status_code == 400
        assert client.post("/next", content=b" " * 70_000).status_code == 413
        assert client.post("/undo").json()["id"] == 1


def test_a_token_and_a_rate(session: Session) -> None:
    with TestClient(app(session, token="a long secret token", rate=8)) as client:
        assert client.get("/status").status_code == 401
        assert client.get("/status", headers={"Authorization": "Bearer a long secret tokem"}).status_code == 401
        assert client.get("/status", headers={"Authorization": "Bearer a long secret token"}).status_code == 200
        assert {client.get("/status").status_code for _ in range(30)} == {401, 429}
    with pytest.raises(BadInput, match=r"--host = 0\.0\.0\.0: 127\.0\.0\.1, or a token"):
        serve(session, host="0.0.0.0")
    with pytest.raises(BadInput, match=r"--port = 70000: a port from 0 to 65535"):
        serve(session, port=70_000)


def test_the_page_shows_cells_as_text(session: Session) -> None:
    """It has no cell in it, takes no script from elsewhere, and puts what it fetches into text nodes alone."""
    with TestClient(app(session)) as client:
        page = client.get("/")
    assert "script" in page.headers["content-security-policy"]
    assert "default-src 'none'" in page.headers["content-security-policy"]
    for door in ("innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval("):
        assert door not in page.text


def test_the_page_of_a_session(session: Session) -> None:
    """Cells are text there too; the simulated band and the session are in one picture."""
    for _ in range(9):
        session.record((asked := session.next())["id"], HOSTILE if HOSTILE in asked["allowed"] else "unknown")
    shown = show.page(session)
    assert "=1+1&lt;script&gt;" in shown
    assert "<script" not in shown
    assert "the range of 90 % of 200 simulated runs" in shown
    assert shown.count("<svg") == 1


def test_a_command_and_a_sheet(session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first answers by a command, the rest on a sheet that went out and came back."""
    script = tmp_path / "agent.py"
    script.write_text("import json, sys\nprint(json.load(sys.stdin)['values'][-1])\n")
    line = f"{sys.executable} {script}"
    left = iter(range(3))
    command = agents.command(line, 30)
    agents.work(
        session, lambda asked: command(asked) if next(left, None) is not None else None, "script", lambda _: None
    )
    assert session.status()["removed"] == 3
    again = Session.open(session.journal.place)  # as a day later: nobody holds a question
    again.record(again.next("script")["id"], "unknown")
    text = agents.sheet(again, 4, "sheet")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert rows
    assert all(cell[:1] not in "=+-@" for row in rows for cell in row.values() if cell)
    for row in rows:
        row["answer"] = row["allowed"].split(" | ")[0]
    out = tmp_path / "back.csv"
    with out.open("w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    assert all(each["recorded"] for each in agents.read_sheet(again, out, "sheet"))
    assert not any(each["recorded"] for each in agents.read_sheet(again, out, "sheet"))
    with pytest.raises(BadInput, match=r"--command = exit 3: a command that prints an answer \(status 3"):
        agents.command("exit 3", 5)({})
    with pytest.raises(BadInput, match=r"a command that answers within 0\.1 s"):
        agents.command("sleep 5", 0.1)({})


class _Service(BaseHTTPRequestHandler):
    failures = 1

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if _Service.failures:
            _Service.failures -= 1
            self.send_error(503)
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"answer": asked["allowed"][0]}).encode())

    def log_message(self, *_: Any) -> None:
        """No log."""


def test_a_service_is_asked_again(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jaxbandit.live.agents.time.sleep", lambda _: None)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Service)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    try:
        agents.work(session, agents.service(url, 5), "service", lambda _: None)
    finally:
        server.shutdown()
        server.server_close()
    assert session.status()["over"]
    assert session.status()["removed"] == 12
    with pytest.raises(BadInput, match="a service that answers; 4 tries failed"):
        agents.service(url, 5)({"id": 1})


def test_the_cleaned_table(session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                           capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    while "id" in (asked := session.next()):
        session.record(asked["id"], asked["values"][-1])
    monkeypatch.chdir(tmp_path)
    assert program.run(["live", "export", "--journal", "journal", "--json"]) == 0
    changes = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {change["value"] for change in changes} == {"A1"}
    assert program.run(["live", "export", "--journal", "journal", "--out", "cleaned.csv"]) == 0
    rows = list(csv.reader((tmp_path / "cleaned.csv").open()))
    assert len(rows) == len((tmp_path / "claims.csv").read_text().splitlines())
    assert {tuple(row) for row in rows[1:]} == {(f"f{flight}", "A1") for flight in range(9)}


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    """A server of this test's own, on the loopback, without a password."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    initdb = shutil.which("initdb", path=":".join(map(str, programs))) or shutil.which("initdb")
    if initdb is None:
        pytest.skip("PostgreSQL's server is not installed (Debian's package postgresql)")
    folder, tools = Path(tempfile.mkdtemp()), Path(initdb).parent
    as_user: list[str] = []
    if os.geteuid() == 0:
        as_user = ["runuser", "-u", "postgres", "--"]  # the server refuses root
        shutil.chown(folder, "postgres")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def run(*words: str) -> None:
        done = subprocess.run([*as_user, *words], capture_output=True, text=True, cwd=folder, check=False)
        assert done.returncode == 0, done.stderr

    control = (str(tools / "pg_ctl"), "-D", "data")
    run(initdb, "-D", "data", "-U", "tester", "--auth=trust")
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder}"
    run(*control, "-w", "-l", "log", "-o", options, "start")
    try:
        yield f"postgresql://tester@127.0.0.1:{port}/postgres"
    finally:
        run(*control, "-m", "immediate", "stop")
        shutil.rmtree(folder)


def rows_of(place: str) -> list[tuple[Any, ...]]:
    with Journal.at(place).reading() as connection:
        return [tuple(row) for row in connection.exec_driver_sql("SELECT flight, gate FROM claims ORDER BY number")]


def written_back(tmp_path: Path, place: str, path: str) -> None:
    """A value is in the table once it is decided, and out of it again when that is taken back."""
    problem = {"kind": "cleaning/table", "path": path, "entity": "flight", "value": "gate", "budget": 9}
    study = {"problem": problem, "policy": [{"kind": "greedy"}]}
    with pytest.raises(BadInput, match="--write-back = flights: a table in the database of the journal"):
        Session.begin(study, "greedy", place, write_back="flights")
    session, before = Session.begin(study, "greedy", place, write_back="claims"), rows_of(place)
    asked = session.next()
    session.record(asked["id"], "unknown")
    while len(asked["values"]) > 1:
        assert rows_of(place) == before
        asked = session.next()
        if len(asked["values"]) == 2:
            break
        session.record(asked["id"], asked["values"][-1])
    session.record(asked["id"], asked["values"][-1])
    now = rows_of(place)
    assert now != before
    assert {gate.strip() for flight, gate in now if flight == asked["entity"]} == {asked["values"][0]}
    assert [row for row in now if row[0] != asked["entity"]] == [row for row in before if row[0] != asked["entity"]]
    again = Session.open(place)
    assert again.status()["finished"] == 1
    again.undo()
    assert rows_of(place) == before


CLAIMS = [(number, f"f{number % 3}", gate) for number, gate in enumerate(["A1", "B2", " A1 ", "C3", "B2", "D4", "C3"])]


def test_values_are_written_back_to_a_file(tmp_path: Path) -> None:
    place = str(tmp_path / "claims.db")
    with closing(sqlite3.connect(place)) as database, database:
        database.execute("CREATE TABLE claims (number INTEGER, flight TEXT, gate TEXT)")
        database.executemany("INSERT INTO claims VALUES (?, ?, ?)", CLAIMS)
    written_back(tmp_path, place, place)
    session = Session.open(place)
    with closing(sqlite3.connect(place)) as database, database:
        database.execute("UPDATE claims SET gate = 'Z9'")
    with pytest.raises(BadInput, match=r"--write-back = claims: as it was when the session began: f\d, gate has Z9"):
        agents.work(session, lambda asked: asked["values"][-1], "", lambda _: None)


def test_values_are_written_back_to_postgresql(tmp_path: Path, postgres: str) -> None:
    place = postgres.replace("/postgres", "/template1")  # another database of the same server
    with Journal.at(place).reading() as connection:
        connection.exec_driver_sql("CREATE TABLE claims (number INTEGER PRIMARY KEY, flight TEXT, gate TEXT)")
        for row in CLAIMS:
            connection.exec_driver_sql("INSERT INTO claims VALUES (%s, %s, %s)", row)
        connection.commit()
    path = tmp_path / "claims.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("number", "flight", "gate"), *CLAIMS])
    written_back(tmp_path, place, str(path))


def test_kills_on_a_file(tmp_path: Path) -> None:
    """A few; ``python -m tests.live_kills`` makes 200."""
    assert killed(str(tmp_path / "journal"), 3) > 100


def test_kills_on_postgresql(postgres: str) -> None:
    assert killed(postgres, 3) > 100
    problem = {"kind": "topk/bernoulli", "n": 9, "K": 1, "budget": 9}
    with pytest.raises(BadInput, match="a place without a journal"):
        Session.begin({"problem": problem, "policy": [{"kind": "uniform"}]}, "uniform", postgres)


def test_the_page_in_the_documentation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                       capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    """Its tour, its Python and what it shows."""
    page = (Path(__file__).parents[1] / "docs" / "live.md").read_text()

    def blocks(language: str) -> list[str]:
        found = re.findall(r"^```(\w*)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
        return [text for name, text in found if name == language]

    monkeypatch.chdir(tmp_path)
    table, shown = blocks("text")[:2]
    (tmp_path / "claims.csv").write_text(table)
    (tmp_path / "study.toml").write_text(blocks("toml")[0])
    for line in "".join(blocks("sh")).splitlines():
        words = shlex.split(line, comments=True)[1:]
        if words[1] in ("answer", "serve"):
            assert program.parse(words)
            continue
        assert program.run(words) == 0
        out = capsys.readouterr().out
        assert words[1] != "next" or out == shown
    exec(compile(blocks("python")[0], "live.md", "exec"), {})
    assert (tmp_path / "cleaned.csv").read_text() == table  # the only answer was taken back
