"""Which question to ask next, where each one costs: CRUX drives a crowd over HTTP.

Here the crowd is a service on this computer, so that the example runs as it stands: replace ``ask_crowd`` by what
reaches yours. The program knows which places and kinds of cafe there may be, not which cafes.
"""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.request import urlopen

import jax
import numpy as np

from jaxbandit.extraction import Outcome, Tree, domain, extraction
from jaxbandit.extraction.crux import crux
from jaxbandit.random import stream

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


def collect(url: str, budget: float, seed: int = 0) -> list[str]:
    """Spends the budget on the crowd at ``url``; the names of the cafes that it told of, each once."""
    leaves = [(place, kind) for place in (3, 4, 5, 6) for kind in (1, 2, 3)]
    # Stand-ins at each leaf: no more cafes than they are can be told of.
    catalog = domain((PLACE, KIND), np.repeat(leaves, 1 + int(20 * budget) // len(leaves), axis=0), 1.0)
    problem = extraction(catalog, budget)
    policy, key = crux(removal="none"), stream(seed, 0)  # a query that looks bad may look good again
    view, numbers = problem.view(key, problem.draw(key)), dict[str, int]()
    nodes = {catalog.name(node): node for node in range(len(catalog.values))}
    ask = jax.jit(lambda state: policy.ask(view, state))
    tell = jax.jit(lambda state, pull, outcome: policy.tell(view, state, pull, outcome))
    done = jax.jit(lambda state: policy.done(view, state))
    state = policy.init(view)
    while not done(state):
        pull = ask(state)
        k, _ = view.configurations[int(pull.configuration)]
        names, exclude = list(numbers), [int(number) for number in pull.exclude if number >= 0]
        node = catalog.name(int(pull.node))
        cafes = ask_crowd(url, {"node": node, "k": k, "exclude": [names[number] for number in exclude]})
        entity, leaf = np.full((2, view.k_max), -1, np.int32)
        for place, cafe in enumerate(cafes):
            entity[place], leaf[place] = numbers.setdefault(cafe["name"], len(numbers)), nodes[cafe["at"]]
        state = tell(state, pull, Outcome(entity, leaf))
        print(f"{node:18} {len(cafes):2} of {k:2}, {len(exclude)} excluded: {len(numbers):3} cafes known")
    answer = policy.answer(view, state)
    print(
        f"{int(answer['entities'])} cafes in {int(answer['queries'])} queries for {int(answer['spent']) / view.units:g}"
    )
    return list(numbers)


def main(budget: float) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Crowd)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        collect(f"http://127.0.0.1:{server.server_port}", budget)
    finally:
        server.shutdown()


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 10.0)
