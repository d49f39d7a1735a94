"""Which question to ask next, where each one costs: CRUX drives a crowd over HTTP, in a live session.

    python examples/crowd_service.py [BUDGET [FOLDER]]    # with a folder, what was stopped goes on

Here the crowd is a service on this computer, so that the example runs as it stands: replace ``ask_crowd`` by what
reaches yours. The program knows which places and kinds of cafe there may be, not which cafes.
"""

import json
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np

from jaxbandit import live
from jaxbandit.extraction import Tree, domain

PLACE = Tree(np.array([0, 0, 0, 1, 1, 2, 2]), ("", "Portugal", "Spain", "Lisbon", "Porto", "Madrid", "Seville"))
KIND = Tree(np.array([0, 0, 0, 0]), ("", "coffee", "tea", "bakery"))


class Crowd(BaseHTTPRequestHandler):
    """Answers {"node": "Spain/Madrid, tea", "k": 5, "exclude": [names]} with cafes, the better known the sooner."""

    rng = np.random.default_rng(7)
    where = np.stack([rng.choice([3, 4, 5, 6], 300, p=[0.5, 0.1, 0.3, 0.1]), rng.integers(1, 4, 300)], axis=1)
    world = domain((PLACE, KIND), where, rng.pareto(0.6, 300), tuple(f"cafe {number}" for number in range(300)))

    def do_POST(self) -> None:
        query = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        node = [self.world.name(number) for number in range(len(self.world.values))].index(query["node"])
        here = (np.asarray(self.world.poset.ancestors)[self.world.leaf] == node).any(axis=1)
        here &= ~np.isin(self.world.names, query["exclude"])
        rings = np.where(here, self.rng.exponential(size=300) / self.world.popularity, np.inf)
        found = [number for number in np.argsort(rings)[: query["k"]] if here[number]]
        cafes = [{"name": self.world.names[number], "at": self.world.name(self.world.leaf[number])} for number in found]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(cafes).encode())

    def log_message(self, *_: Any) -> None:
        """No log."""


def ask_crowd(url: str, query: dict[str, Any]) -> list[dict[str, str]]:
    with urlopen(url, json.dumps(query).encode(), timeout=10) as reply:
        found: list[dict[str, str]] = json.load(reply)
    return found


def collect(url: str, budget: float, folder: Path, seed: int = 0) -> int:
    """Spends the budget on the crowd at ``url``; how many cafes it told of. A journal in ``folder`` is gone on with."""
    journal = folder / "session.journal"
    session = live.Session.open(journal) if journal.exists() else begin(journal, budget, seed)
    while "id" in (question := session.next()):
        query = question["query"]
        cafes = ask_crowd(url, query)
        session.record(question["id"], json.dumps(cafes))  # kept on disk before the next one is asked
        told = f"{len(cafes):2} of {query['k']:2}, {len(query['exclude'])} excluded"
        print(f"{query['node']:18} {told}: {session.status()['entities']:3} cafes known")
    found = session.status()
    print(f"{found['entities']} cafes in {found['queries']} queries for {found['spent']:g}")
    session.close()
    return int(found["entities"])


def begin(journal: Path, budget: float, seed: int) -> live.Session:
    """A session whose table has stand-ins of each place and kind: no more cafes than they are can be told of."""
    places, many = ("Portugal/Lisbon", "Portugal/Porto", "Spain/Madrid", "Spain/Seville"), 1 + int(20 * budget) // 12
    leaves = [(place, kind) for place in places for kind in ("coffee", "tea", "bakery")] * many
    table = journal.with_name("stand-ins.csv")
    rows = [f"cafe {number},{place},{kind}" for number, (place, kind) in enumerate(leaves)]
    table.write_text("\n".join(["name,place,kind", *rows]) + "\n")
    columns = {"attributes": ["place", "kind"], "entity": "name"}
    problem = {"kind": "extraction/table", "path": str(table), **columns, "budget": budget}
    crux = {"kind": "crux", "removal": "none"}  # a query that looks bad may look good again
    return live.Session.begin({"seed": seed, "problem": problem, "policy": [crux]}, "crux", journal)


def main(budget: float, folder: Path) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Crowd)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        collect(f"http://127.0.0.1:{server.server_port}", budget, folder)
    finally:
        server.shutdown()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(float(sys.argv[1]) if len(sys.argv) > 1 else 10.0, Path(sys.argv[2] if len(sys.argv) > 2 else name))
