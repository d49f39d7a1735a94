"""The doors of a live session: HTTP, commands, services, sheets, PostgreSQL; and what SIGKILL leaves."""

import asyncio
import contextlib
import csv
import functools
import http.client
import io
import json
import os
import queue
import re
import shlex
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import types
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import psycopg
import pytest
import uvicorn
from starlette.testclient import TestClient

from jaxbandit.cli import program
from jaxbandit.errors import BadInput
from jaxbandit.live import Session, agents, pictures, show
from jaxbandit.live.desk import Desk
from jaxbandit.live.journal import Journal, Lease, Writing
from jaxbandit.live.reconcile import Offers, Reconciliation
from jaxbandit.live.server import app, serve
from jaxbandit.wilson import share_interval
from jaxbandit.words import counted
from tests.live_kills import killed
from tests.test_live import claims, study

HOSTILE = "=1+1<script>alert(1)</script>"
HERE = "http://127.0.0.1:8000"


@pytest.fixture
def session(tmp_path: Path) -> Session:
    claims(tmp_path)
    rows = [f"f{flight},{value}" for flight in range(9) for value in ["A1", HOSTILE, "B7", "C3"][: 1 + flight % 4]]
    (tmp_path / "claims.csv").write_text("flight,gate\n" + "\n".join(rows) + "\n")
    return Session.begin(tmp_path / "study.toml", "random", tmp_path / "journal")


def test_http(session: Session) -> None:
    with TestClient(app(session), HERE) as client:
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
            ("/answers", {"id": 1, "answer": "unknown", "cost": -1}, 400, "cost = -1: a number at least 0, below"),
            ("/answers", {"id": 1, "answer": "unknown", "cost": 10**4000}, 400, "cost = 1000"),
            ("/answers", {"id": "9" * 5000, "answer": "unknown"}, 404, "ID = 999"),
            ("/answers", {"id": [1], "answer": "unknown"}, 404, "ID = [1]: a question of this session"),
            ("/answers", {"id": 1, "answer": f"#{'9' * 5000}"}, 400, "ANSWER = #999"),
            ("/answers", {"id": 1, "answer": "\ud800"}, 400, "body = no JSON object: such as {}, its texts in UTF-8"),
            ("/answers", {"id": 1, "answer": "unknown", "cots": 3}, 400, "cots = 3: no such key; there are id, answer"),
            ("/undo", {"agent": 1}, 400, "agent = 1: no such key; there are id"),
            ("/undo", {"id": "x"}, 404, "ID = x: a question of this session"),
            ("/candidates", {"id": "9" * 5000}, 404, "ID = 999"),
            ("/next", {"agent": 3}, 400, "agent = 3: a text"),
            ("/next", {"agent": "\ud800"}, 400, "body = no JSON object: such as {}, its texts in UTF-8"),
            ("/next", {"agent": "\0"}, 400, "agent = \0: a text in UTF-8, without NUL"),
            ("/next", {"wait": 61}, 400, "wait = 61: a number from 0 to 60"),
            ("/next", {"wait": "long"}, 400, "wait = long: a number"),
        ):
            reply = client.post(path, content=json.dumps(content))
            assert (reply.status_code, reply.json()["error"].startswith(line)) == (code, True), reply.text
        for given in (b"[1", b"[" * 60_000, b'{"id":' + b"[" * 900 + b"]" * 900 + b"}", b"\xff"):
            assert client.post("/answers", content=given).status_code == 400
        assert client.post("/next", content=b" " * 70_000).status_code == 413
        for site, code in (("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)):
            assert client.get("/status", headers={"Sec-Fetch-Site": site}).status_code == code
        assert client.post("/undo", headers={"Sec-Fetch-Site": "cross-site"}).json()["error"] == (
            "Sec-Fetch-Site = cross-site: a request of this server's own page, or of a program"
        )
        for origin, code in (("http://evil.example", 403), ("null", 403), ("http://[", 403), ("http://localhost", 200)):
            headers = {"Origin": origin, "Host": "localhost"}
            assert client.get("/status", headers=headers).status_code == code
        assert client.post("/undo").json()["id"] == 1
        slashed = [("POST", f"/{name}/", 404) for name in ("next", "answers", "undo", "candidates")]
        for method, path, code in (
            ("POST", "/nothing", 404), ("GET", "/next", 405), ("GET", "/status/", 404), ("GET", "/status//", 404),
            *slashed,
        ):  # fmt: skip
            reply = client.request(method, path, follow_redirects=False)
            assert reply.status_code == code
            assert reply.json()["error"] == (
                f"request = {method} {path}: GET / or /status, or POST /next, /answers, /undo or /candidates, with no "
                "slash at the end"
            )


def test_a_call_that_fails_leaves_its_neighbours_alone(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are in one transaction, and what the failed one had done is not in it."""
    desk, taken = Desk(session), Writing.lease

    def failing(self: Writing, question: int, agent: str, seconds: float) -> Lease:
        given = taken(self, question, agent, seconds)
        if agent == "unlucky":
            raise ZeroDivisionError
        return given

    monkeypatch.setattr(Writing, "lease", failing)
    names = ("unlucky", "a", "unlucky", "b")

    async def all_at_once() -> list[Any]:
        calls = (desk.call(functools.partial(session.next, name, ahead=9)) for name in names)
        return await asyncio.gather(*calls, return_exceptions=True)

    found = dict(zip(names, asyncio.run(all_at_once()), strict=True))
    desk.close()
    assert isinstance(found["unlucky"], ZeroDivisionError)
    assert (found["a"]["id"], found["b"]["id"]) == (1, 2)
    again = Session.open(session.journal.place)
    assert again.status() == session.status()
    assert [each.kind for each in again._ledger.events] == ["asked", "asked"]
    with sqlite3.connect(session.journal.place) as database:
        assert database.execute("SELECT agent FROM jaxbandit_lease ORDER BY question").fetchall() == [("a",), ("b",)]


@pytest.mark.parametrize("how", ["removed", "replaced", "replaced before the first answer", "cut"])
def test_a_journal_that_was_taken_away_takes_no_answers(session: Session, how: str, tmp_path: Path) -> None:
    """What is acknowledged would be lost in a file that nobody finds, or contradict the one that was put there."""
    place = Path(session.journal.place)
    session.close()
    backup = place.read_bytes()
    with TestClient(app(session), HERE) as client:
        if how != "replaced before the first answer":
            asked = client.post("/next", json={}).json()
            assert client.post("/answers", json={"id": asked["id"], "answer": "unknown"}).json()["recorded"]
        asked = client.post("/next", json={}).json()
        if how == "cut":
            with closing(sqlite3.connect(place)) as database, database:
                database.execute("DELETE FROM jaxbandit_event WHERE number = (SELECT max(number) FROM jaxbandit_event)")
        else:
            place.unlink()
        if how.startswith("replaced"):
            place.write_bytes(backup)
        reply = client.post("/answers", json={"id": asked["id"], "answer": "unknown"})
        assert reply.status_code == 503
        why = "event 3 is lost in it" if how == "cut" else "it was removed or replaced meanwhile"
        assert reply.json()["error"].startswith(f"place = {place}: the ")
        assert why in reply.json()["error"]
        assert client.post("/next", json={}).status_code == 503
    session.close()
    assert place.exists() == (how != "removed")
    if how.startswith("replaced"):
        assert place.read_bytes() == backup


@pytest.fixture
def port(session: Session, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Of a server with that session."""
    servers, addresses = list[uvicorn.Server](), queue.SimpleQueue[str]()

    def kept(config: uvicorn.Config) -> uvicorn.Server:
        servers.append(own(config))
        return servers[0]

    own = uvicorn.Server
    monkeypatch.setattr("jaxbandit.live.server.uvicorn.Server", kept)
    thread = threading.Thread(target=serve, args=(session,), kwargs={"port": 0, "ready": addresses.put})
    thread.start()
    yield int(addresses.get(timeout=60).rpartition(":")[2].strip("/"))
    servers[0].should_exit = True
    thread.join()


def test_agents_wait_in_line_for_a_question(session: Session, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer wakes the first of them that is still there. An agent whose time is over learns that there is none."""
    monkeypatch.setattr("jaxbandit.live.desk._LOOK", 60)

    def post(path: str, **content: Any) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("POST", path, json.dumps(content))
        return connection

    def read(connection: http.client.HTTPConnection) -> Any:
        return json.loads(connection.getresponse().read())

    asked = read(post("/next", agent="a", wait=30))
    assert read(post("/next", agent="late", wait=0.2))["open"] == 1
    gone, *others = (post("/next", agent=name, wait=50) for name in ("gone", "b", "c"))
    time.sleep(0.5)  # all three are in the line
    gone.close()
    for agent, waiting in zip("ab", others, strict=True):
        assert read(post("/answers", id=asked["id"], answer="unknown", agent=agent))["recorded"]
        assert "id" in (asked := read(waiting))
    with sqlite3.connect(session.journal.place) as database:
        assert [agent for (agent,) in database.execute("SELECT agent FROM jaxbandit_lease")] == ["c"]


def test_a_signal_ends_the_server_at_once(session: Session) -> None:
    """Whoever waits in line for a question does not hold it up."""
    session.next("a")
    session.close()
    command = [sys.executable, "-m", "jaxbandit", "live", "serve", "--journal", session.journal.place, "--port", "0"]
    command += ["--allowed-hosts", "a.example", "--allowed-hosts", "b.example"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        port = int(server.stderr.readline().rpartition(":")[2].strip("/\n"))
        for host, status in (("b.example", 200), ("c.example", 403)):
            asking = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            asking.request("GET", "/status", headers={"Host": host})
            assert asking.getresponse().status == status
            asking.close()
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("POST", "/next", '{"agent": "b", "wait": 60}')
        other = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        other.request("GET", "/status")
        assert other.getresponse().status == 200
        answering = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        answering.request("POST", "/answers", '{"id": 1, "answer": "unknown"}')
        assert answering.getresponse().status == 200
        server.send_signal(signal.SIGTERM)
        assert (server.wait(30), server.stderr.read()) == (143, "jaxbandit: terminated\n")
    assert copied(session).status()["answers"] == 1


def copied(session: Session) -> Session:
    """A session from a copy of the journal's file alone."""
    place = session.journal.place
    shutil.copy(place, f"{place}.copy")
    return Session.open(f"{place}.copy")


@pytest.mark.parametrize("other", [False, True], ids=["alone", "beside another process"])
def test_a_command_leaves_all_in_the_one_file(session: Session, other: bool) -> None:
    place = session.journal.place
    if not other:
        session.close()
    assert program.run(["live", "next", "--journal", place]) == 0
    assert program.run(["live", "record", "1", "unknown", "--journal", place]) == 0
    assert program.run(["live", "record", "1", "A1", "--journal", place]) == 2  # it is closed after an error too
    assert copied(session).status() == {**session.status(), "late": 1, "contradicted": {"terminal": 1}}


def test_a_body_that_is_cut_off_is_no_error(session: Session, port: int, caplog: pytest.LogCaptureFixture) -> None:
    """Of the server, which had a traceback in its log for each."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"POST /answers HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{")
        time.sleep(0.3)
    time.sleep(0.5)
    assert not [record for record in caplog.records if record.name.startswith("uvicorn")]


@pytest.mark.parametrize(
    "sent", [b"", b"GET /sta", b"POST /next HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{"]
)
def test_a_silent_connection_is_closed(port: int, sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand of them would keep all others out."""
    monkeypatch.setattr("jaxbandit.live.server._PATIENCE", 0.3)
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(sent)
        reply = connection.recv(10_000)
    assert reply.startswith(b"HTTP/1.1 408 ") if sent.endswith(b"{") else not reply


def test_a_token_and_a_rate(session: Session) -> None:
    with TestClient(app(session, token="a-long-secret-token", rate=8), HERE) as client:
        assert client.get("/status").status_code == 401
        assert client.get("/status", headers={"Authorization": "Bearer a long secret tokem"}).status_code == 401
        assert client.get("/status", headers={"Authorization": "Bearer a-long-secret-token"}).status_code == 200
        assert {client.get("/status").status_code for _ in range(30)} == {401, 429}
    with pytest.raises(BadInput, match=r"--host = 0\.0\.0\.0: 127\.0\.0\.1, or a token"):
        serve(session, host="0.0.0.0")
    for given, line in ({"lease": -5}, "lease = -5: a number"), ({"ahead": -1}, "ahead = -1: a whole number"):
        with pytest.raises(BadInput, match=line):
            serve(session, **given)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match=r"--port = 70000: a port from 0 to 65535"):
        serve(session, port=70_000)
    for host in ("192.0.2.1", "nowhere.invalid"):
        with pytest.raises(BadInput, match=f"--host = {host}: an address of this machine"):
            serve(session, host=host, token="a-long-secret-token")


def statuses(application: Any, *hosts: str) -> list[int]:
    """Of requests with these Host headers."""
    with TestClient(application, HERE) as client:
        return [client.get("/status", headers={"Host": host}).status_code for host in hosts]


def test_a_name_that_leads_here_is_refused(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """As that of another site's page, which could else read and answer questions."""
    with TestClient(app(session), HERE) as client:
        for path, method in (("/", "GET"), ("/status", "GET"), ("/next", "POST"), ("/answers", "POST")):
            reply = client.request(method, path, headers={"Host": "evil.example:8000", "Sec-Fetch-Site": "same-origin"})
            assert (reply.status_code, reply.json()["error"]) == (
                403,
                "Host = evil.example:8000: one of localhost, 127.0.0.1, [::1]; --allowed-hosts adds others",
            )
    names = ("localhost", "LOCALHOST:8000", "127.0.0.1", "127.0.0.1:9", "[::1]", "[::1]:8000")
    assert statuses(app(session), *names) == [200] * 6
    near = ("", "localhost.evil.example", "127.0.0.1.evil.example", "evil.example:80:127.0.0.1", "[::1", "::1", "[::2]")
    assert statuses(app(session), *near) == [403] * 7

    def served(host: str, *allowed: str) -> Any:
        """The application that listens there."""
        found: list[Any] = []
        monkeypatch.setattr(uvicorn, "Config", lambda application, **_: found.append(application))
        monkeypatch.setattr(uvicorn, "Server", lambda _: types.SimpleNamespace(run=lambda _: None))
        monkeypatch.setattr(socket, "create_server", lambda *_, **__: socket.socket())
        serve(session, host, token="", allowed_hosts=allowed)
        return found[0]

    monkeypatch.setattr("jaxbandit.live.server._LOOPBACK", ("::1", "0.0.0.0", "::", "Lab"))  # none wants a token
    names = ("lab:8000", "localhost", "a.example", "[fd00::5]:80", "other.example")
    assert statuses(served("Lab", "A.example", "fd00:0::5"), *names) == [200, 200, 200, 200, 403]
    assert statuses(served("::1"), *names) == [403, 200, 403, 403, 403]
    for wildcard in ("0.0.0.0", "::"):
        assert statuses(served(wildcard), *names) == [200] * 5
        assert statuses(served(wildcard, "a.example"), *names) == [403, 200, 200, 403, 403]
    for wrong in ("http://a.example", "a.example:80", "*", ""):
        with pytest.raises(BadInput, match=f"--allowed-hosts = {re.escape(wrong)}: a host without scheme and port"):
            serve(session, allowed_hosts=[wrong])


def test_the_page_shows_cells_as_text(session: Session) -> None:
    """It has no cell in it, takes no script from elsewhere, and puts what it fetches into text nodes alone."""
    with TestClient(app(session), HERE) as client:
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


def test_the_page_of_a_session_of_arms(tmp_path: Path) -> None:
    """What each arm gave, and which are chosen now."""
    given = {"problem": {"kind": "topk/gaussian", "n": 5, "K": 1, "budget": 50}, "policy": [{"kind": "uniform"}]}
    session = Session.begin(given, "uniform", tmp_path / "arms")
    assert "<svg" not in show.page(session)
    for _ in range(15):
        session.record((asked := session.next())["id"], str(asked["arm"] / 4))
    shown = show.page(session)
    assert "the mean reward of each arm, and its 95 % interval" in shown
    assert "<td>4</td><td>3</td><td>1</td><td>1</td>" in shown


def test_arms_with_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a column of the user's table: with each question, in the status, on the page, and in the table of arms."""
    monkeypatch.chdir(tmp_path)

    def live(*words: str) -> str:
        assert program.run(["live", *words, "--journal", "journal"]) == 0
        return capsys.readouterr().out

    Path("workers.csv").write_text("worker,correct,answered\nAnn,14,20\nBen,9,10\n")
    table = {"path": "workers.csv", "successes": "correct", "trials": "answered", "arm": "worker"}
    problem = {"kind": "topk/bernoulli", "K": 1, "budget": 6, "means": {"table": table}}
    session = Session.begin({"problem": problem, "policy": [{"kind": "uniform"}]}, "uniform", "journal")
    names, given = ["Ann", "Ben"], {0: iter("100"), 1: iter("011")}
    Path("workers.csv").unlink()  # the journal has it
    while "id" in (asked := session.next("terminal")):
        assert asked["name"] == names[asked["arm"]]
        assert f"\narm {asked['arm']} ({asked['name']})\n" in live("next")
        session.record(asked["id"], next(given[asked["arm"]]), "terminal")
    status = live("status")
    assert "chosen         [1 (Ben)]\narms           0 (Ann): 0.333 in 3, 1 (Ben): 0.667 in 3\n" in status
    assert json.loads(live("status", "--json"))["names"] == {"0": "Ann", "1": "Ben"}
    shown = show.page(session)
    assert "chosen: 1 (Ben)" in shown
    assert "<td>0 (Ann)</td><td>3</td>" in shown
    assert ">Ben</text>" in shown
    exported = live("export")
    assert f"```text\n{exported}```" in (Path(__file__).parents[1] / "docs" / "live.md").read_text()
    assert live("export", "--out", "chosen.csv") == ""
    assert Path("chosen.csv").read_text() == exported
    first, second = map(json.loads, live("export", "--json").splitlines())
    assert first == {"arm": 0, "name": "Ann", "asked": 3, "correct": 1, "mean": 1 / 3, "chosen": False}
    assert second["chosen"]


def test_a_status_shows_the_most_pulled_of_many_arms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    arms = {str(row): {"pulls": 2 if row < 15 else 3 + row, "mean": 0.5} for row in range(20)}
    stub = types.SimpleNamespace(status=lambda: {"arms": arms}, close=lambda: None)
    monkeypatch.setattr(Session, "open", lambda place: stub)
    assert program.run(["live", "status", "--journal", "journal"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("arms           0: 0.5 in 2, ")
    assert line.count(" in ") == 12
    assert "6: 0.5 in 2, 15: 0.5 in 18, " in line
    assert line.endswith(" in 22, and 8 arms with no more pulls than these; --json shows all")
    assert program.run(["live", "status", "--journal", "journal", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"arms": arms}


def test_arms_of_a_table_of_rewards_have_names(tmp_path: Path) -> None:
    (tmp_path / "past.csv").write_text("who,gave\nb,0.5\na,0.25\nb,0.75\nc,1\n")
    problem = {"kind": "outliers/replay", "path": str(tmp_path / "past.csv"), "arm": "who", "reward": "gave"}
    given = {"problem": problem | {"budget": 9}, "policy": [{"kind": "rr"}]}
    session = Session.begin(given, "rr", tmp_path / "journal")
    asked = session.next("a")
    assert asked["name"] == "bac"[asked["arm"]]
    session.record(asked["id"], "0.5")
    rows = agents.arms(session)
    assert [row["name"] for row in rows] == ["b", "a", "c"]
    assert list(rows[0]) == ["arm", "name", "asked", "total", "mean", "outlier"]
    assert {row["asked"]: (row["total"], row["mean"]) for row in rows} == {0: (0, None), 1: (0.5, 0.5)}


def test_names_in_the_picture_are_short_and_no_formulas(tmp_path: Path) -> None:
    (tmp_path / "past.csv").write_text("who,gave\n$a$ & <b>,1\na name of many words,0\nc,1\n")
    problem = {"kind": "outliers/replay", "path": str(tmp_path / "past.csv"), "arm": "who", "reward": "gave"}
    given = {"problem": problem | {"budget": 9}, "policy": [{"kind": "rr"}]}
    session = Session.begin(given, "rr", tmp_path / "journal")
    for _ in range(3):
        session.record(session.next("a")["id"], "1")
    shown = show.page(session)
    assert ">$a$ &amp; &lt;b&gt;</text>" in shown
    assert ">a name of many …</text>" in shown


def test_the_bar_of_an_arm_in_the_picture() -> None:
    """Wilson's interval of rewards 0 and 1, also of one; Student's of others, of one none."""
    assert pictures._interval([1], True) == share_interval(1.0, 1)
    assert pictures._interval([1.0], False) == (1.0, 1.0)
    low, high = pictures._interval([0.0, 1.0], False)
    assert (low + high) / 2 == 0.5
    assert (high - low) / 2 == pytest.approx(12.7062 * 0.5, rel=1e-4)  # at one degree of freedom


def test_arms_without_names_are_exported_by_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = {"problem": {"kind": "topk/bernoulli", "n": 3, "K": 1, "budget": 3}, "policy": [{"kind": "uniform"}]}
    session = Session.begin(given, "uniform", tmp_path / "arms")
    assert "names" not in session.status()
    assert "name" not in session.next()
    assert agents.as_csv(agents.arms(session)).splitlines()[1:] == ["0,0,0,,1", "1,0,0,,0", "2,0,0,,0"]
    assert program.run(["live", "export", "--journal", session.journal.place]) == 0
    assert capsys.readouterr().err == "jaxbandit: 1 of 3 arms is chosen so far; --out FILE.csv writes the table\n"


def test_an_agent_whose_question_was_answered_meanwhile_goes_on(session: Session) -> None:
    lines: list[dict[str, Any]] = []

    def ask(asked: dict[str, Any]) -> str:
        if asked["id"] == 1:
            session.record(1, asked["values"][0])
        return "unknown"

    agents.work(session, ask, "slow", lines.append)
    assert lines[0] == {"late": f"ID = 1: a question that is open; this one has the answer {session.answer_of(1)[1]}"}
    assert session.over
    assert session.status()["answers"] > 5


def test_an_agent_that_waits_for_another_one_says_so_once(session: Session) -> None:
    session.next("other", lease=1.2)
    waited: list[int] = []
    agents.work(session, lambda _: None, "agent", lambda _: None, 0, waited.append)
    assert waited == [1]


def test_entities_are_exported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each once, with the query that brought it first; what was taken back is none."""
    place = str(tmp_path / "journal")
    given = study("extraction", "rand-leaf", tmp_path, configurations=[[2, 0]], budget=60.0)
    session = Session.begin(given, "rand-leaf", place)

    def exported(*more: str) -> tuple[str, str]:
        assert program.run(["live", "export", "--journal", place, *more]) == 0
        shown, said = capsys.readouterr()
        return shown, said

    def answer(*names: str) -> str:
        asked = session.next("agent")
        session.record(asked["id"], "; ".join(names) or "none", "agent")
        return str(asked["query"]["node"])

    assert exported() == (
        "entity,node,query\n", "jaxbandit: 0 entities were bought so far; --out FILE.csv writes the table\n"
    )  # fmt: skip
    first = answer("Zoë")
    assert exported()[1].startswith("jaxbandit: 1 entity was bought so far;")
    answer()
    answer("Jo")
    session.undo()
    third = answer("Ann, B")
    while session.next("agent")["query"]["node"] != third:
        answer()
    answer("Ann, B", "Bo")
    last = session.status()["queries"]
    shown, _ = exported()
    title, *rows = csv.reader(io.StringIO(shown))
    assert title == ["entity", "node", "query"]
    assert rows == [["Zoë", first, "1"], ["Ann, B", third, "3"], ["Bo", third, str(last)]]
    assert [json.loads(line) for line in exported("--json")[0].splitlines()] == [
        {"entity": name, "node": node, "query": int(query)} for name, node, query in rows
    ]
    assert exported("--out", str(tmp_path / "bought.csv"))[0] == ""
    assert (tmp_path / "bought.csv").read_text() == shown
    with pytest.raises(BadInput, match="export = extraction: a session that cleans a table, or one of arms or extr"):
        agents.changes(session)


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


def test_a_sheet_comes_back_with_whatever_is_excluded(tmp_path: Path) -> None:
    """Entities have one name, whichever characters an agent writes an accent with."""
    given = study("extraction", "rand-leaf", tmp_path, attributes=["kind"], configurations=[[1, 1]], budget=60.0)
    session = Session.begin(given, "rand-leaf", tmp_path / "journal")
    while not (asked := session.next("agent"))["query"]["exclude"]:
        session.record(asked["id"], f"Cafe\u0301 {asked['id']}")
    session.hand_back("agent")
    sheet = tmp_path / "sheet.csv"
    text = agents.sheet(session, 1, "sheet")
    assert "Caf\u00e9" in text
    sheet.write_text(text.rstrip() + "none\n")
    assert [each["recorded"] for each in agents.read_sheet(session, sheet, "sheet")] == [True]


def test_a_command_is_bounded_and_ends_whole(tmp_path: Path) -> None:
    """It is not read without end, and what it began ends with it."""
    began = time.monotonic()
    with pytest.raises(BadInput, match=r"\A--command = yes: a command that prints at most 1 MiB\Z"):
        agents.command("yes", 60)({})
    with pytest.raises(BadInput, match=r"a command that prints at most 1 MiB\Z"):
        agents.command("yes >&2", 60)({})
    log = tmp_path / "log"
    with pytest.raises(BadInput, match=r"a command that answers within 0\.3 s"):
        agents.command(f"(sleep 1.2; echo late > {log}) & sleep 50; true", 0.3)({})
    assert agents.command("cat", 60)({"text": "x" * 200_000}).startswith('{"text": "xxx')
    assert agents.command("echo 1", 60)({"text": "x" * 200_000}) == "1"
    time.sleep(1.5)
    assert not log.exists()
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("head", [True, False], ids=["headers", "body"])
def test_a_reply_that_drips_is_late(head: bool) -> None:
    def drip() -> None:
        with door, door.accept()[0] as connection:
            connection.recv(1 << 16)
            connection.sendall(b"HTTP/1.1 200 OK\r\n" + (b"" if head else b"Content-Length: 99\r\n\r\n"))
            for _ in range(50):
                time.sleep(0.1)
                with contextlib.suppress(OSError):
                    connection.sendall(b"X: y\r\n" if head else b" ")

    door = socket.create_server(("127.0.0.1", 0))
    request = urllib.request.Request(f"http://127.0.0.1:{door.getsockname()[1]}/")
    thread = threading.Thread(target=drip, daemon=True)
    thread.start()
    began = time.monotonic()
    with pytest.raises(TimeoutError, match=r"no whole reply within 0\.5 s"):
        agents.fetched(request, 0.5)
    assert time.monotonic() - began < 3


def test_a_sheet_of_another_session_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As one that went out before an older journal was put back: its numbers are there, with other questions."""
    problem = {"kind": "topk/bernoulli", "n": 3, "K": 1, "budget": 9}
    session = Session.begin({"problem": problem, "policy": [{"kind": "uniform"}]}, "uniform", tmp_path / "journal")
    rows = list(csv.DictReader(io.StringIO(agents.sheet(session, 3, "sheet"))))
    back = tmp_path / "back.csv"
    arms = [row["question"] for row in rows]
    for row, arm in zip(rows, [arms[0], arms[2], arms[1]], strict=True):
        row |= {"question": arm, "answer": "1"}
    rows.append({**rows[0], "id": "99"})
    for some in (rows[:3], rows):
        with back.open("w", newline="") as file:
            table = csv.DictWriter(file, list(rows[0]))
            table.writeheader()
            table.writerows(some)
        assert program.run(["live", "sheet", str(back), "--back", "--journal", str(tmp_path / "journal")]) == 2
        lines = capsys.readouterr().err.splitlines()
        assert lines[0] == (
            f"jaxbandit: question in line 3 = {arms[2]}: {arms[1]}, as question 2 of this session asks; "
            "its answer is not recorded"
        )
        if some == rows:
            assert lines.pop(2).startswith("jaxbandit: ID in line 5 = 99: a question of this session: 1 to 3")
        assert len(lines) == 4
        assert lines[2].startswith(f"jaxbandit: {counted(int(some != rows), 'answer', 'answers')} recorded; 1 spent")
    assert [row["id"] for row in Session.open(tmp_path / "journal").told()] == [1]


def answering(session: Session, script: Path, *more: str) -> "subprocess.Popen[str]":
    """A process of ``jaxbandit live answer`` whose command is a script."""
    command = [sys.executable, "-m", "jaxbandit", "live", "answer", "--journal", session.journal.place, *more]
    return subprocess.Popen([*command, "--command", f"sh {script}"], stderr=subprocess.PIPE, text=True)


def waited_for(path: Path) -> str:
    """What a file has once there is something in it."""
    end = time.monotonic() + 60
    while not (path.exists() and path.read_text()) and time.monotonic() < end:
        time.sleep(0.02)
    return path.read_text()


def test_processes_that_answer_are_agents_of_their_own(tmp_path: Path) -> None:
    """None is given a question that another one is at work on. Who is ended, or killed, does not keep its own."""
    problem = {"kind": "topk/bernoulli", "n": 4, "K": 1, "budget": 8}
    session = Session.begin({"problem": problem, "policy": [{"kind": "uniform"}]}, "uniform", tmp_path / "journal")
    script, log = tmp_path / "agent.sh", tmp_path / "log"
    script.write_text(f"cat >> {log}; echo >> {log}; sleep 60")
    for end, most in ((signal.SIGTERM, 0), (signal.SIGKILL, 70)):
        with answering(session, script, "--timeout", "10") as process:
            waited_for(log)
            process.send_signal(end)
        log.unlink()
        with session.journal.writing(0, "") as writing:
            left = [lease.until - time.time() for lease in writing.leases().values()]
            assert len(left) == (end is signal.SIGKILL)
            assert all(each <= most for each in left)
            writing.release(1)
    script.write_text(f"printf '%s\\n' \"$(cat)\" >> {log}; sleep 0.5; echo 1")  # each line at once
    with answering(session, script), answering(session, script):
        pass
    asked = [json.loads(line) for line in log.read_text().splitlines()]
    assert sorted(each["id"] for each in asked) == list(range(1, 9))
    session.status()  # reads what the processes wrote
    assert len({row["agent"] for row in session.told()}) == 2


class _Service(BaseHTTPRequestHandler):
    failures, keys = 1, list[str]()

    def do_POST(self) -> None:
        _Service.keys.append(self.headers["Idempotency-Key"])
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


def test_a_service_is_asked_again(session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It can tell that by the key, which no question of another session has."""
    monkeypatch.setattr("jaxbandit.live.agents.time.sleep", lambda _: None)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Service)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    _Service.keys.clear()
    try:
        agents.work(session, agents.service(url, 5), "service", lambda _: None)
        first = list(_Service.keys)
        _Service.keys.clear()
        other = Session.begin(tmp_path / "study.toml", "random", tmp_path / "other")
        agents.work(other, agents.service(url, 5), "service", lambda _: None)
    finally:
        server.shutdown()
        server.server_close()
    assert first[0] == first[1]  # asked again
    assert len({*first, *_Service.keys}) == len(first) - 1 + len(_Service.keys)
    assert session.status()["over"]
    assert session.status()["removed"] == 12
    with pytest.raises(BadInput, match="a service that answers; 4 tries failed"):
        agents.service(url, 5)({"id": 1, "key": "k"})

    def cut(*_: Any, **__: Any) -> None:
        raise http.client.IncompleteRead(b"")

    monkeypatch.setattr("jaxbandit.live.agents.urllib.request.urlopen", cut)
    with pytest.raises(BadInput, match="a service that answers; 4 tries failed"):
        agents.service(url, 5)({"id": 1, "key": "k"})


class _Reconciliation(BaseHTTPRequestHandler):
    """A service of the protocol's version 0.2 that knows f1 to f8; f8 under a name that is no match."""

    versions, mark, score, pause = ("0.1", "0.2"), "", 90.0, 0.0

    def do_GET(self) -> None:
        self._reply({"versions": self.versions, "name": "stub", "extend": {}})

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        if "extend" in form:
            wanted = json.loads(form["extend"][0])
            (column,) = (each["id"] for each in wanted["properties"])
            rows = {each: {column: [{"str": " a1"}]} for each in wanted["ids"]}
            self._reply({"meta": [{"id": column, "name": column}], "rows": rows})
            return
        (number, query), *_ = json.loads(form["queries"][0]).items()
        name = query["query"]
        found = {"id": f"Q{name}", "name": f"flight {name}{self.mark}", "score": self.score, "match": name != "f8"}
        self._reply({number: {"result": [found] if name != "f0" and query.get("type") == "flight" else []}})

    def _reply(self, content: Any) -> None:
        time.sleep(self.pause)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(content).encode())

    def log_message(self, *_: Any) -> None:
        """No log."""


@pytest.fixture
def reconciliation() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Reconciliation)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_reconciliation_service_confirms_values(
    session: Session, reconciliation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The value that it knows of a match stays, and another one is ruled out."""
    monkeypatch.setattr("jaxbandit.live.agents.time.sleep", lambda _: None)
    service = Reconciliation(reconciliation, "flight", "gate")
    service.check()
    assert service.values("f1") == [" a1"]
    assert Reconciliation(reconciliation, "flight").values("f1") == ["flight f1"]
    assert [service.values("f8"), Reconciliation(reconciliation, "gate").values("f1")] == [[], []]
    agents.work(session, service.ask, "service", lambda _: None)
    for row in session.told():
        assert row["answer"] not in ("A1", row["values"][0])
        assert (row["answer"] == "unknown") == (row["entity"] == "f8")
    assert session.status()["removed"] > 6
    values = ["A1", "a1 ", "B"]
    asked = {"family": "cleaning", "entity": "f1", "values": values, "allowed": [*values, "unknown"]}
    assert service.ask(asked) == "unknown"  # it confirms two
    with monkeypatch.context() as patched:
        patched.setattr(Reconciliation, "values", lambda *_: ["Gene\u0300ve"])
        assert service.ask(asked | {"values": ["gen\u00e8ve", "B"]}) == "B"
    monkeypatch.setattr(_Reconciliation, "versions", ("0.1",))
    with pytest.raises(BadInput, match=r"a service of the protocol's version 0\.2, not \['0\.1'\]"):
        service.check()
    monkeypatch.setattr(_Reconciliation, "versions", 5)
    with pytest.raises(BadInput, match=r"a service that answers; 4 tries failed \(the reply is none of version 0\.2\)"):
        service.check()
    with pytest.raises(BadInput, match=r"--reconcile = .*: a service that answers; 4 tries failed"):
        Reconciliation("http://127.0.0.1:9/").values("f1")
    with pytest.raises(BadInput, match="--reconcile = topk: a session of cleaning"):
        service.ask({"family": "topk"})


def test_a_person_sees_the_candidates_of_a_service(
    session: Session, reconciliation: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Beside the values at the terminal, where nothing that a service says can steer it, and over HTTP."""
    asked = session.next("terminal")
    place = asked["values"].index("A1") + 1
    monkeypatch.setattr(_Reconciliation, "mark", "\n\x1b[2J")
    monkeypatch.setattr("builtins.input", lambda _: "")
    answer = ("live", "answer", "--journal", session.journal.place, "--candidates", reconciliation, "--type", "flight")
    assert program.run([*answer, "--property", "gate"]) == 0
    out = capsys.readouterr().out
    assert f"  flight {asked['entity']} \N{REPLACEMENT CHARACTER}[2J: a1 (score 90, match, same as #{place})\n" in out
    with TestClient(app(session, offers=Offers.at(reconciliation, "flight", "gate").beside), HERE) as client:
        assert client.post("/next", json={"agent": "terminal"}).json()["offers"]
        found = client.post("/candidates", json={"id": asked["id"]}).json()["candidates"]
        assert [(each["match"], each["values"], each["claimed"]) for each in found] == [(True, [" a1"], ["A1"])]
        assert client.post("/candidates", json={"id": 99}).status_code == 404
    assert Offers.at(reconciliation, "gate").beside(asked) == {"candidates": []}
    assert program.run(["live", "answer", "--journal", session.journal.place, "--candidates", "ftp://a"]) == 2


def test_a_dead_reconciliation_service_stops_nobody(
    session: Session, reconciliation: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line says so, and for a minute it is not waited for again."""
    given = iter(["unknown", "unknown", ""])
    monkeypatch.setattr("builtins.input", lambda _: next(given))
    journal = ("--journal", session.journal.place)
    assert program.run(["live", "answer", *journal, "--candidates", "http://127.0.0.1:9/"]) == 0
    line = "no candidates: --candidates = http://127.0.0.1:9/: a service that answers ("
    assert capsys.readouterr().out.count(line) == 3
    assert session.status()["answers"] == 2
    offers, asked = Offers.at(reconciliation, "flight"), session.next("terminal")
    monkeypatch.setattr(_Reconciliation, "score", "NaN")
    assert "the reply is none of version 0.2" in offers.beside(asked)["none"]
    for name, value in (("score", 10**400), ("mark", "\ud800")):
        with monkeypatch.context() as once:
            once.setattr(_Reconciliation, "score", 7)
            once.setattr(_Reconciliation, name, value)
            found = Offers.at(reconciliation, "flight").beside(asked)
        assert "the reply is none of version 0.2" in found["none"]
    monkeypatch.setattr(_Reconciliation, "score", 7)
    assert "the reply is none of version 0.2" in offers.beside(asked)["none"]
    monkeypatch.setattr("jaxbandit.live.reconcile.PAUSE", 0)
    offers = Offers.at(reconciliation, "flight", "other")
    monkeypatch.setattr(_Reconciliation, "versions", ("0.1",))
    assert "the protocol's version 0.2" in offers.beside(asked)["none"]
    monkeypatch.setattr(_Reconciliation, "versions", ("0.2",))
    assert [each["score"] for each in offers.beside(asked)["candidates"]] == [7]


def test_a_person_waits_once_for_all_that_a_service_is_asked(
    session: Session, reconciliation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of the three replies comes in time, and all of them do not."""
    monkeypatch.setattr("jaxbandit.live.reconcile.PATIENCE", 1.0)
    monkeypatch.setattr(_Reconciliation, "pause", 0.6)
    begun = time.monotonic()
    found = Offers.at(reconciliation, "flight", "gate").beside(session.next("terminal"))
    assert re.search(r"no whole reply within 0\.\d s", found["none"])
    assert time.monotonic() - begun < 1.5


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


def test_a_table_is_read_as_everywhere(tmp_path: Path) -> None:
    """White space around a name or a cell does not count, nor how an accent is written."""
    path = tmp_path / "claims.csv"
    path.write_text(" vol,arrive\u0301e \nAA-\u00e9,7:0e\u0301\nAA-e\u0301,7:10\n")
    problem = {"kind": "cleaning/table", "path": str(path), "entity": "vol ", "value": "arriv\u00e9e", "budget": 9}
    session = Session.begin({"problem": problem, "policy": [{"kind": "greedy"}]}, "greedy", tmp_path / "journal")
    session.record(session.next()["id"], "7:10")
    assert agents.cleaned(session) == (" vol,arrive\u0301e \nAA-\u00e9,7:0e\u0301\nAA-e\u0301,7:0\u00e9\n", 1)


def test_one_value_is_no_values(session: Session, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def said(verb: str, *words: str) -> str:
        assert program.run(["live", verb, *words, "--journal", session.journal.place]) == 0
        return capsys.readouterr().err

    sheet = str(tmp_path / "sheet.csv")
    assert said("export").startswith("jaxbandit: 0 values are decided; ")
    assert said("sheet", sheet, "--count", "1") == (
        f"jaxbandit: 1 question in {sheet}; fill in the column answer, then: --back\n"
    )
    titles, row = csv.reader(io.StringIO(Path(sheet).read_text()))
    with Path(sheet).open("w") as file:
        csv.writer(file).writerows([titles, [*row[:-1], "unknown"]])
    assert said("sheet", sheet, "--back").startswith("jaxbandit: 1 answer recorded; ")
    while len((asked := session.next("agent"))["values"]) > 2:
        session.record(asked["id"], "unknown", "agent")
    session.record(asked["id"], asked["values"][-1], "agent")
    assert said("export") == "jaxbandit: 1 value is decided; --out FILE.csv writes a cleaned copy of the table\n"
    out = tmp_path / "cleaned.csv"
    assert said("export", "--out", str(out)) == f"jaxbandit: 1 value is decided; 1 cell is changed in {out}\n"


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
    with pytest.raises(BadInput, match=r"^write_back = flights: a table in the database of the journal"):
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
    assert {str(gate).strip() for flight, gate in now if str(flight) == asked["entity"]} == {asked["values"][0]}
    others = [[row for row in rows if str(row[0]) != asked["entity"]] for rows in (now, before)]
    assert others[0] == others[1]
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
    with Journal.at(place).reading() as connection:  # 3 is EXTRA: this database is not in WAL mode
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 3
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "delete"
    (tmp_path / "link.db").symlink_to(place)
    for other in (f"{tmp_path}/../{tmp_path.name}/claims.db", str(tmp_path / "link.db")):
        assert Session.open(other).status()["answers"] > 0
    session = Session.open(place)
    with closing(sqlite3.connect(place)) as database, database:
        database.execute("UPDATE claims SET gate = 'Z9'")
    with pytest.raises(BadInput, match=r"write_back = claims: as it was when the session began: f\d, gate has Z9"):
        agents.work(session, lambda asked: asked["values"][-1], "", lambda _: None)


@pytest.mark.parametrize(
    "why",
    [
        "UPDATE claims SET gate = 'Z9' WHERE number = 4",
        """CREATE TRIGGER no BEFORE UPDATE
    ON claims WHEN old.number = 4 BEGIN SELECT RAISE(ABORT, 'not this one'); END""",
    ],
)
def test_half_a_value_is_never_written_back(tmp_path: Path, why: str) -> None:
    """An answer is refused beside others in one transaction, after the first cells of its value were written."""
    place = str(tmp_path / "claims.db")
    claimed = [(number, f"f{number % 2}", "XY"[number > 1]) for number in range(6)]
    with closing(sqlite3.connect(place)) as database, database:
        database.execute("CREATE TABLE claims (number INTEGER, flight TEXT, gate TEXT)")
        database.executemany("INSERT INTO claims VALUES (?, ?, ?)", claimed)
    problem = {"kind": "cleaning/table", "path": place, "entity": "flight", "value": "gate", "budget": 9}
    study = {"problem": problem, "policy": [{"kind": "greedy"}]}
    session = Session.begin(study, "greedy", place, write_back="claims")
    asked = {each["entity"]: each["id"] for each in (session.next(name, ahead=9) for name in ("a", "b"))}
    with closing(sqlite3.connect(place)) as database, database:
        database.execute(why)
    with session.together():
        with pytest.raises(BadInput, match="write_back = claims: "):
            session.record(asked["f0"], "Y", "a")
        session.record(asked["f1"], "X", "b")
    with closing(sqlite3.connect(place)) as database:
        found = database.execute("SELECT gate FROM claims ORDER BY number").fetchall()
        assert "".join(gate for (gate,) in found) in ("XYYYZ9Y", "XYYYYY")
        assert database.execute("SELECT agent FROM jaxbandit_lease").fetchall() == [("a",)]
    for each in (session, Session.open(place)):
        assert (each.status()["answers"], each.status()["open"]) == (1, 1)


def typed(folder: Path, key: str, value: str, rows: list[tuple[str, Any]]) -> tuple[Session, str]:
    """A session that writes back to a table whose columns have such types, and the table's place."""
    place = str(folder / "claims.db")
    with closing(sqlite3.connect(place)) as database, database:
        database.execute(f"CREATE TABLE claims (number INTEGER PRIMARY KEY, flight {key}, gate {value})")
        database.executemany("INSERT INTO claims (flight, gate) VALUES (?, ?)", rows)
    problem = {"kind": "cleaning/table", "path": place, "entity": "flight", "value": "gate", "budget": 9}
    study = {"problem": problem, "policy": [{"kind": "greedy"}]}
    return Session.begin(study, "greedy", place, write_back="claims"), place


@pytest.mark.parametrize(
    ("key", "value", "one", "other"),
    [
        ("NUMERIC", "TEXT", "A", "B"),
        ("DECIMAL(5,1)", "TEXT", "A", "B"),
        ("TEXT", "TIME", "7:00", "7:10"),
        ("DATE", "DATE", "1 May", "2 May"),
        ("TEXT", "DECIMAL(6,2)", "7.50", "8.25"),
        ("INTEGER", "BOOLEAN", "yes", "no"),
    ],
)
def test_cells_are_written_back_as_they_are_read(key: str, value: str, one: str, other: str, tmp_path: Path) -> None:
    """Whatever type a column of SQLite says it has."""
    session, place = typed(tmp_path, key, value, [("7", one), ("7", other), ("8", one)])
    before, asked = rows_of(place), session.next()
    assert asked["entity"] == "7"
    kept, wrong = asked["values"]
    assert session.record(asked["id"], wrong)["recorded"]
    assert [str(cell) for _, cell in rows_of(place)] == [kept, kept, str(before[2][1])]
    session.undo()
    assert rows_of(place) == before


@pytest.mark.parametrize("kept", ["Vie\u0301", "Vi\u00e9"])
def test_however_an_accent_is_written_a_cell_is_found(kept: str, tmp_path: Path) -> None:
    """In keys, in values and in answers; what looks as it should stays as it was written."""
    wrong = "Gene\u0300ve"
    session, place = typed(
        tmp_path, "TEXT", "TEXT", [("Ae\u0301", kept), ("A\u00e9", f" {wrong}"), (" Ae\u0301 ", "Gen\u00e8ve")]
    )
    before, asked = rows_of(place), session.next()
    assert (asked["entity"], asked["values"]) == ("A\u00e9", ["Vi\u00e9", "Gen\u00e8ve"])
    assert session.record(asked["id"], wrong)["answer"] == "Gen\u00e8ve"
    assert [gate for _, gate in rows_of(place)] == [kept, "Vi\u00e9", "Vi\u00e9"]
    assert [flight for flight, _ in rows_of(place)] == [flight for flight, _ in before]
    session.undo()
    assert rows_of(place) == before


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ("DELETE FROM claims WHERE flight = 'f1'", "as it was when the session began: no row of f1 is there"),
        ("UPDATE claims SET gate = x'41'", "as it was when the session began: f1, gate has b'A', which nobody claimed"),
    ],
)
def test_an_answer_that_cannot_be_written_back_is_refused(change: str, line: str, tmp_path: Path) -> None:
    session, place = typed(tmp_path, "TEXT", "TEXT", [("f1", "A"), ("f1", "B")])
    asked = session.next()
    with closing(sqlite3.connect(place)) as database, database:
        database.execute(change)
    with pytest.raises(BadInput, match=re.escape(f"write_back = claims: {line}")):
        session.record(asked["id"], "B")
    assert session.status()["answers"] == 0


def test_bytes_are_not_replaced_by_a_text(tmp_path: Path) -> None:
    session, _ = typed(tmp_path, "TEXT", "BLOB", [("f1", b"A"), ("f1", b"B")])
    asked = session.next()
    with pytest.raises(BadInput, match="write_back = claims: a table without bytes, as a row of f1 has"):
        session.record(asked["id"], "#1")


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


def test_types_of_postgresql_are_written_back(tmp_path: Path, postgres: str) -> None:
    """The journal has dates and fractions as texts."""
    place = postgres.replace("/postgres", "/typed")
    with psycopg.connect(postgres, autocommit=True) as database:
        database.execute("CREATE DATABASE typed TEMPLATE template0")
    with psycopg.connect(place) as database:
        database.execute("CREATE TABLE claims (number DATE PRIMARY KEY, flight NUMERIC(4, 1), gate TIME)")
        for day, gate in enumerate(["07:00", "07:10"], 1):
            database.execute(f"INSERT INTO claims VALUES ('2020-01-0{day}', 1.5, '{gate}')")
    (tmp_path / "claims.csv").write_text("flight,gate\n1.5,07:00:00\n1.5,07:10:00\n")
    written_back(tmp_path, place, str(tmp_path / "claims.csv"))


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
        if words[1] in ("answer", "serve") or "--advice" in words:
            assert program.parse(words)
            continue
        assert program.run(words) == 0
        out = capsys.readouterr().out
        assert words[1] != "next" or out == shown
    exec(compile(blocks("python")[0], "live.md", "exec"), {})
    assert (tmp_path / "cleaned.csv").read_text() == table  # the only answer was taken back
