"""What looking ahead gains and costs in a live session, in simulated time.

    python -m benchmarks.live_ahead [--out FILE.json] [--quick]

Ten agents answer questions of cleaning; an answer takes a time from an exponential law of mean 1. An entity's
operations succeed with a probability of its own, uniform on [0, 1]. Of each policy and ``--ahead``: ``at_once``, the
answers in the time that one agent needs for one; ``paid``, the share of the answers that the policy never asked for;
``removed``, false values for the budget, and ``of_alone``, the same as a share of what comes without looking ahead.
"""

import heapq
import itertools
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.common import Row, facts, parser, save, table
from jaxbandit.live import Session

AGENTS, SESSIONS, BUDGET = 10, 2, 200
POLICIES: dict[str, dict[str, Any]] = {
    "random": {}, "greedy": {}, "epsilon-greedy": {"epsilon": 0.5}, "ee": {"t": 3, "q": 0.667}, "index": {},
}  # fmt: skip
COLUMNS = {
    "policy": ("policy", ""), "ahead": ("ahead", "d"), "at_once": ("at once", ".1f"), "paid": ("paid in vain", ".1%"),
    "removed": ("removed", ".1f"), "of_alone": ("of that alone", ".1%"),
}  # fmt: skip


def _succeeds(seed: int, entity: int, attempt: int) -> bool:
    """Whether an operation rules out a value: by its address alone."""
    return random.Random(f"{seed} {entity} {attempt}").random() < random.Random(f"{seed} {entity}").random()


def played(policy: str, ahead: int, budget: int, seed: int) -> tuple[float, int, int, int]:
    """A session to its end: how long it took, its answers, those paid in vain, and false values removed."""
    problem = {"kind": "cleaning/synthetic", "entities": 10 * budget, "budget": budget}
    given = {"seed": seed, "problem": problem, "policy": [{"kind": policy, **POLICIES[policy]}]}
    rng, order = random.Random(seed), itertools.count()
    with tempfile.TemporaryDirectory() as folder:
        session = Session.begin(given, policy, Path(folder) / "journal")
        now, free, busy = 0.0, [f"agent {number}" for number in range(AGENTS)], list[Any]()
        while True:
            with session.together():
                while free and "id" in (asked := session.next(free[0], ahead=ahead)):
                    heapq.heappush(busy, (now + rng.expovariate(1), next(order), free.pop(0), asked))
                if not busy:
                    break
                now, _, agent, asked = heapq.heappop(busy)
                success = _succeeds(seed, *session.questions[asked["id"]].address)
                session.record(asked["id"], asked["allowed"][0 if success else -1], agent)
                free.append(agent)
        status = session.status()
        session.close()
    return now, status["answers"], status["unused"], status["removed"]


def measured(policy: str, ahead: int, budget: int, sessions: int) -> Row:
    """The mean over some sessions."""
    took, answers, unused, removed = map(
        sum, zip(*(played(policy, ahead, budget, seed) for seed in range(sessions)), strict=True)
    )
    return {
        "policy": policy, "ahead": ahead, "agents": AGENTS, "budget": budget, "sessions": sessions,
        "at_once": answers / took, "paid": unused / answers, "removed": removed / sessions,
    }  # fmt: skip


def main() -> int:
    """Measure."""
    given = parser(__doc__).parse_args()
    head, rows = facts("live_ahead", given.quick), []
    for policy in POLICIES:
        alone = None
        for ahead in (0, 10) if given.quick else (0, 10, 30, 100):
            row = measured(policy, ahead, 30 if given.quick else BUDGET, 1 if given.quick else SESSIONS)
            alone = alone or row["removed"]
            rows.append(row | {"of_alone": row["removed"] / alone})
            print(table(rows[-1:], COLUMNS).splitlines()[-1], flush=True)
    print(table(rows, COLUMNS))
    save(given.out, head, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
