"""Time the tuning of Explore-Exploit: one problem, and 10,000 problems in one call. Median of five warm calls.

python -m benchmarks.gamma [--out FILE.json] [--quick]
"""

import statistics
import time

import numpy as np

from benchmarks.common import facts, parser, save
from jaxbandit.cleaning.gamma import Floats, Objective, tune

DELTA, LARGEST, REPEATS = 0.001, 19, 5


def problems(count: int) -> tuple[Floats, Floats]:
    """``count`` Beta sc-pdfs with as many distributions of the false values; the paper's setting comes first."""
    rng, p = np.random.default_rng(0), (np.arange(1000) + 0.5) / 1000
    a, b = rng.uniform(0.7, 4, (2, count, 1))
    a[0] = b[0] = 1
    cells = p ** (a - 1) * (1 - p) ** (b - 1)
    false_values = rng.dirichlet(np.ones(LARGEST + 1), count)
    false_values[0] = 1 / (LARGEST + 1)
    return cells / cells.sum(-1, keepdims=True), false_values


def measure(count: int, objective: Objective) -> dict[str, float | int | str]:
    """Seconds of the first call, which compiles, and of a warm one."""
    cells, false_values = problems(count)
    seconds = []
    for _ in range(REPEATS + 1):
        start = time.perf_counter()
        tune(cells, false_values, DELTA, objective)
        seconds.append(time.perf_counter() - start)
    return {"problems": count, "objective": objective, "first_s": seconds[0], "warm_s": statistics.median(seconds[1:])}


def main() -> None:
    """Measure, print a table, write JSON if asked to."""
    given = parser(__doc__).parse_args()
    head = facts("gamma", given.quick)
    objectives: tuple[Objective, ...] = ("lemma3", "exact")
    rows = [measure(count, objective) for count in (1, 100 if given.quick else 10_000) for objective in objectives]
    print(f"{'problems':>9}  {'objective':<9}  {'first (s)':>9}  {'warm (s)':>9}")
    for row in rows:
        print(f"{row['problems']:>9}  {row['objective']:<9}  {row['first_s']:>9.3f}  {row['warm_s']:>9.4f}")
    save(given.out, head, rows)


if __name__ == "__main__":
    main()
