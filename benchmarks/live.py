"""How fast a live session is: 50 agents at once over HTTP, and a question after the start.

    python -m benchmarks.live [--out FILE.json] [--quick]

A server in a process of its own, its journal in a file, and 50 agents in threads of this one, who answer at random.
``answers_per_s`` counts all of them, where agents and server share the machine; ``cpu_ms`` is the server's own
processor time for an answer and its question; ``next_ms`` is what an agent waits for a question of 100,000 entities,
in line with the others where there are more agents than questions.
It fails if a question goes to two agents, or an answer is lost.
"""

import http.client
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from benchmarks.common import ROOT, Row, facts, parser, save, table

AGENTS = 50
COLUMNS = {
    "policy": ("policy", ""), "entities": ("entities", ",d"), "answers": ("answers", ",d"),
    "answers_per_s": ("answers/s", ".0f"), "cpu_ms": ("server, CPU ms", ".2f"),
    "next_ms": ("next, ms", ".1f"), "next_most_ms": ("99 %", ".1f"), "paid": ("paid in vain", ".1%"),
}  # fmt: skip


def _begun(folder: Path, policy: str, entities: int, budget: int) -> str:
    study = folder / "study.toml"
    study.write_text(
        f'[problem]\nkind = "cleaning/synthetic"\nentities = {entities}\nbudget = {budget}\n'
        f'[[policy]]\nkind = "{policy}"\n' + ("t = 3\nq = 0.667\n" if policy == "ee" else "")
    )
    place = str(folder / "journal")
    command = [sys.executable, "-m", "jaxbandit", "live", "begin", str(study), "--policy", policy, "--journal", place]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return place


def _post(connection: http.client.HTTPConnection, path: str, content: dict[str, Any]) -> dict[str, Any]:
    connection.request("POST", path, json.dumps(content), {"Content-Type": "application/json"})
    reply = connection.getresponse()
    found: dict[str, Any] = json.loads(reply.read())
    if reply.status != 200:
        raise RuntimeError(found)
    return found


def _agent(port: int, name: str, given: dict[int, str], waits: list[float]) -> None:
    rng, connection = random.Random(name), http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    while True:
        start = time.perf_counter()
        asked = _post(connection, "/next", {"agent": name, "wait": 30})
        waits.append(time.perf_counter() - start)
        if asked.get("over"):
            return
        if "id" not in asked:
            continue
        if given.setdefault(asked["id"], name) != name:
            raise RuntimeError(f"question {asked['id']} went to two agents")
        answer = rng.choice([asked["allowed"][0], asked["allowed"][-1]])
        _post(connection, "/answers", {"id": asked["id"], "answer": answer, "agent": name})


def _cpu_seconds(process: int) -> float:
    """What a process has used so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def measured(policy: str, entities: int, budget: int, agents: int, ahead: int) -> Row:
    """One session, from its first question to the last."""
    with tempfile.TemporaryDirectory() as name:
        place = _begun(Path(name), policy, entities, budget)
        command = [sys.executable, "-m", "jaxbandit", "live", "serve", "--journal", place, "--port", "0"]
        server = subprocess.Popen([*command, "--ahead", str(ahead)], cwd=ROOT, stderr=subprocess.PIPE, text=True)
        try:
            assert server.stderr is not None
            line = server.stderr.readline()
            port = int(line.rsplit(":", 1)[1].split("/")[0])
            given: dict[int, str] = {}
            waits: list[float] = []
            threads = [
                threading.Thread(target=_agent, args=(port, f"agent {number}", given, waits))
                for number in range(agents)
            ]
            start, used = time.perf_counter(), _cpu_seconds(server.pid)
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            took, used = time.perf_counter() - start, _cpu_seconds(server.pid) - used
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("GET", "/status")
            status = json.loads(connection.getresponse().read())
        finally:
            server.kill()
            server.wait()
    if status["answers"] != len(given):
        raise RuntimeError(f"{len(given)} answers were given, and the journal has {status['answers']}")
    return {
        "policy": policy, "entities": entities, "agents": agents, "answers": len(given),
        "answers_per_s": len(given) / took, "cpu_ms": 1e3 * used / len(given),
        "next_ms": 1e3 * statistics.median(waits), "next_most_ms": 1e3 * sorted(waits)[int(0.99 * len(waits))],
        "paid": status["unused"] / len(given),
    }  # fmt: skip


def main() -> int:
    """Measure."""
    options = parser(__doc__)
    given = options.parse_args()
    head, budget = facts("live", given.quick), 300 if given.quick else 10_000
    rows = [
        measured("ee", 100_000, budget, AGENTS, AGENTS),
        measured("greedy", 100_000, budget, AGENTS, AGENTS),
        measured("ee", 100_000, min(budget, 500), 1, 0),
        measured("greedy", 100_000, min(budget, 500), 1, 0),
    ]
    print(table(rows, COLUMNS))
    save(given.out, head, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
