"""How much the order of ties is worth to epsilon-Greedy (Cheng et al. 2010, Algorithm 5), by a plain scalar program.

Section 4.2 draws at random among the entities of the highest estimate; a priority queue has an order of its own. The
setting is section 6's: 50,000 entities, r uniform on [0, 19], p uniform, epsilon 0.5. Entities whose estimate is 0 are
always drawn at random, as Greedy would otherwise stay with one entity for ever.

python -m benchmarks.papers.epsilon_ties [--runs 1000] [--budget 10000] [--entities 50000] [--seed 0] [--out ties.json]
"""

import argparse
import json
import math
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

RULES = {
    "at random": "a new draw among the ties at each operation: section 4.2 as written",
    "random key": "each estimate gets a random rank when it is made, kept until it changes",
    "heap": "a binary heap of all entities, sifted with strict comparisons, re-keyed in place after a random operation",
    "lowest number": "the entity of the lowest number",
    "first met": "the entity that was tried first",
    "fifo": "the entity whose estimate is the oldest: it was cleaned longest ago",
    "lifo": "the entity whose estimate is the newest: it was cleaned last",
    "fewest cleans": "the shortest record, then at random",
    "most cleans": "the longest record, then at random",
}
NAMES = list(RULES)


@numba.njit(cache=False)
def _sift(heap: Any, place: Any, key: Any, at: int, size: int) -> None:
    """Restores the heap after the key at ``at`` has changed."""
    entity = heap[at]
    while at > 0 and key[heap[(at - 1) // 2]] < key[entity]:
        heap[at] = heap[(at - 1) // 2]
        place[heap[at]] = at
        at = (at - 1) // 2
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and key[heap[child + 1]] > key[heap[child]]:
            child += 1
        if key[heap[child]] <= key[entity]:
            break
        heap[at] = heap[child]
        place[heap[at]] = at
        at = child
    heap[at] = entity
    place[entity] = at


@numba.njit(cache=False)
def _run(rule: int, entities: int, budget: int, epsilon: float, seed: int) -> int:
    """False values removed in one run. ``rule`` numbers ``NAMES``."""
    np.random.seed(seed)  # noqa: NPY002 - the generator that numba compiles
    left = np.random.randint(0, 20, entities)  # noqa: NPY002
    p = np.random.random(entities)  # noqa: NPY002
    tried, gained = np.zeros(entities, np.int64), np.zeros(entities, np.int64)
    rank = np.zeros(entities)  # the highest goes first among ties
    estimate = np.zeros(entities)
    # All with false values left, at random places; and those of them with an estimate above 0, in no order.
    pool = np.flatnonzero(left > 0)
    size = pool.size
    where = np.full(entities, -1)
    for i in range(size):
        where[pool[i]] = i
    known, known_at, count = np.zeros(budget + 1, np.int64), np.full(entities, -1), 0
    heap, place = pool.copy(), where.copy()
    heap_size = size
    removed = 0
    for step in range(budget):
        if size == 0:
            break
        best = -1
        if np.random.random() >= epsilon and count > 0:  # noqa: NPY002
            if rule == 2:
                best = heap[0]
            else:
                ties = 0
                for i in range(count):
                    e = known[i]
                    if best < 0 or estimate[e] > estimate[best]:
                        best, ties = e, 1
                    elif estimate[e] == estimate[best]:
                        if rank[e] > rank[best]:
                            best, ties = e, 1
                        elif rank[e] == rank[best]:
                            ties += 1
                            if np.random.random() * ties < 1:  # noqa: NPY002
                                best = e
        e = best if best >= 0 else pool[np.random.randint(0, size)]  # noqa: NPY002
        tried[e] += 1
        if np.random.random() < p[e]:  # noqa: NPY002
            gained[e] += 1
            left[e] -= 1
            removed += 1
        estimate[e] = gained[e] / tried[e]
        if left[e] == 0:
            size -= 1
            pool[where[e]] = pool[size]
            where[pool[size]] = where[e]
            if known_at[e] >= 0:
                count -= 1
                known[known_at[e]] = known[count]
                known_at[known[count]] = known_at[e]
                known_at[e] = -1
            if rule == 2:
                at = place[e]
                heap_size -= 1
                if at < heap_size:
                    heap[at] = heap[heap_size]
                    place[heap[at]] = at
                    _sift(heap, place, estimate, at, heap_size)
            continue
        if gained[e] > 0 and known_at[e] < 0:
            known[count] = e
            known_at[e] = count
            count += 1
        if rule == 1:
            rank[e] = np.random.random()  # noqa: NPY002
        elif rule == 2:
            if best >= 0:  # appendix B: the greedy choice is taken out and put in again
                at, heap_size = place[e], heap_size - 1
                if at < heap_size:
                    heap[at] = heap[heap_size]
                    place[heap[at]] = at
                    _sift(heap, place, estimate, at, heap_size)
                heap[heap_size], place[e] = e, heap_size
                heap_size += 1
            _sift(heap, place, estimate, place[e], heap_size)
        elif rule == 3:
            rank[e] = -e
        elif rule == 4:
            if tried[e] == 1:
                rank[e] = -step
        elif rule == 5:
            rank[e] = -step
        elif rule == 6:
            rank[e] = step
        elif rule == 7:
            rank[e] = -tried[e]
        elif rule == 8:
            rank[e] = tried[e]
    return removed


@numba.njit(parallel=True, cache=False)
def _runs(rule: int, entities: int, budget: int, epsilon: float, seed: int, runs: int) -> Any:
    removed = np.zeros(runs)
    for run in numba.prange(runs):
        removed[run] = _run(rule, entities, budget, epsilon, seed * 1_000_003 + run)
    return removed


def effectiveness(
    rule: str, entities: int, budget: int, runs: int, seed: int = 0, epsilon: float = 0.5
) -> NDArray[np.float64]:
    """The effectiveness of each run."""
    found: NDArray[np.float64] = _runs(NAMES.index(rule), entities, budget, epsilon, seed, runs) / budget
    return found


def main() -> None:
    """Measure every rule, print a table, write JSON if asked to."""
    from jaxbandit.cleaning.renewal import expected_removed
    from jaxbandit.laws import Uniform

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("runs", 1000), ("budget", 10_000), ("entities", 50_000), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--rules", nargs="+", default=NAMES, choices=NAMES)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    law = expected_removed(given.budget, 3, 3, Uniform().cells(0.001), np.full(20, 0.05))
    ee = float(law.mean[-1]) / given.budget
    print(f"EE with (3, 0.667), exact: {ee:.5f}")
    print(f"{'ties':<14} {'effectiveness':>13} {'+-':>8}   EE above it (95 %)")
    rows = []
    for rule in given.rules:
        values = effectiveness(rule, given.entities, given.budget, given.runs, given.seed)
        mean, half = float(values.mean()), 1.96 * float(values.std(ddof=1)) / math.sqrt(given.runs)
        above = [100 * (ee / x - 1) for x in (mean, mean + half, mean - half)]
        # What the ratio of one run of each would scatter by: the paper does not say how many runs it took.
        once = 100 * ee / mean * math.hypot(float(values.std(ddof=1)) / mean, float(law.std[-1]) / given.budget / ee)
        rows.append({"rule": rule, "effectiveness": mean, "half": half, "above": above, "once": once})
        print(
            f"{rule:<14} {mean:>13.5f} {half:>8.5f}   {above[0]:.2f} % ({above[1]:.2f} to {above[2]:.2f}), "
            f"{once:.2f} points in a single run",
            flush=True,
        )
    if given.out:
        given.out.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
