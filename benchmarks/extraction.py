"""Runs a second of CRUX (GSChao), against NumPy programs on all cores and scalar numba loops on all cores.

    python -m benchmarks.extraction [--out FILE.json] [--quick] [--cpu] [--repeats 5] [--case NAME ...]

The paper's two domains under both answer models, budget 100, linear cost, readings by default. All three sides are
warm and take turns: NumPy (``numpy_extraction``) has a process a core and does one extraction at a time in each, numba
(``numba_extraction``) a thread a core. A ratio is the median over the repetitions of ours / theirs, in runs a second of
wall time; with --cpu, for a machine that others use too, a second of CPU time, with NumPy in this process. It fails if
the mean numbers of distinct entities differ by more than 4 joint standard errors, or if a run of ours met more than its
capacities hold.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # or numba's idle threads would spin while another side runs

import math
import time
from collections.abc import Callable
from statistics import median

import jax
import numpy as np

from benchmarks import numba_extraction, numpy_extraction
from benchmarks.common import Row, facts, parser, save, table
from jaxbandit import simulate
from jaxbandit.extraction import Domain, extraction
from jaxbandit.extraction.domains import eventbrite_like, people_like
from jaxbandit.extraction.options import crux

BUDGET, ERRORS, NUMBA_ASKED = 100, 4.0, 2.0
CASES: dict[str, tuple[Callable[[], Domain], str, float, tuple[int, int, int]]] = {
    "people, proportional": (people_like, "proportional", 10.0, (4096, 4096, 200)),
    "people, k-largest": (people_like, "k-largest", 10.0, (4096, 4096, 200)),
    "eventbrite, proportional": (eventbrite_like, "proportional", 5.0, (256, 64, 16)),
    "eventbrite, k-largest": (eventbrite_like, "k-largest", 5.0, (256, 64, 16)),
}
"""The domain, the answer model, the ratio to NumPy that is asked, runs a repetition of ours, of numba's and NumPy's."""

Side = Callable[[int], np.ndarray]


def measure(name: str, repeats: int, quick: bool, cpu: bool) -> Row:
    """One case."""
    build, answers, asked, sizes = CASES[name]
    domain = build()
    problem = extraction(domain, BUDGET, answers=answers)
    policy = crux()
    readings = {"removal": policy.readings.removal, "bootstrap": policy.readings.bootstrap}
    of = numpy_extraction.arrays(domain, problem)
    runs = [max(2, size // 16) if quick else size for size in sizes]

    def ours(seed: int) -> np.ndarray:
        found = simulate(problem, policy, runs=runs[0], seed=seed)
        if found["code"].any():
            raise SystemExit(f"{name}: {int((found['code'] != 0).sum())} runs of ours overflowed")
        return found["entities"][0]

    def loops(seed: int) -> np.ndarray:
        found = numba_extraction.simulate(domain, problem, runs=runs[1], seed=seed, of=of, **readings)
        return found[:, 0]

    clock = time.process_time if cpu else time.perf_counter
    with numpy_extraction.pool(domain, problem, processes=0 if cpu else None, **readings) as ready:

        def arrays(seed: int) -> np.ndarray:
            return numpy_extraction.simulate(ready, runs[2], seed)[:, 0]

        sides: tuple[Side, ...] = (ours, loops, arrays)
        for side in sides:
            side(0)
        entities: list[list[np.ndarray]] = [[], [], []]
        speeds: list[list[float]] = [[], [], []]
        for repeat in range(repeats):
            for number in (0, 1, 2) if repeat % 2 else (2, 1, 0):
                start = clock()
                entities[number].append(sides[number](1 + repeat))
                speeds[number].append(runs[number] / (clock() - start))
    samples = [np.concatenate(some).astype(np.float64) for some in entities]
    means = [float(some.mean()) for some in samples]
    errors = [some.std(ddof=1) / math.sqrt(some.size) for some in samples]
    distances = [abs(means[0] - means[j]) / math.hypot(errors[0], errors[j]) for j in (1, 2)]
    if not max(distances) <= ERRORS:
        raise SystemExit(f"{name}: distinct entities {means} with standard errors {errors}")
    ratios = [median(a / b for a, b in zip(speeds[0], speeds[j], strict=True)) for j in (1, 2)]
    return {"case": name, "entities": means[0], "runs_per_s": median(speeds[0]), "numba_runs_per_s": median(speeds[1]),
            "numpy_runs_per_s": median(speeds[2]), "ratio": ratios[1], "asked": asked, "numba_ratio": ratios[0],
            "numba_asked": NUMBA_ASKED, "law_distance": max(distances), "repeats": repeats,
            "time": "cpu" if cpu else "wall", **readings}  # fmt: skip


def main() -> None:
    """Measure, check, print a table, write JSON if asked to."""
    options = parser(__doc__)
    options.add_argument("--repeats", type=int, help="repetitions of each side (5)")
    options.add_argument("--case", nargs="*", choices=list(CASES), help="some of the cases")
    options.add_argument("--cpu", action="store_true", help="count CPU-seconds, not wall time")
    given = options.parse_args()
    head = facts("extraction", given.quick)
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", os.cpu_count() or 1)
    head |= {"budget": BUDGET, "devices": len(jax.devices())}
    repeats = given.repeats or (2 if given.quick else 5)
    columns = {"case": ("case", ""), "entities": ("entities", ".1f"), "runs_per_s": ("runs/s", ".1f")}
    columns |= {"numpy_runs_per_s": ("NumPy runs/s", ".2f"), "ratio": ("ratio", ".1f"), "asked": ("asked", ".0f")}
    columns |= {"numba_runs_per_s": ("numba runs/s", ".1f"), "numba_ratio": ("ratio", ".2f")}
    columns |= {"numba_asked": ("aim", ".0f")}
    rows: list[Row] = []
    for name in given.case or (list(CASES)[:1] if given.quick else CASES):
        rows.append(measure(name, repeats, given.quick, given.cpu))
        print(table(rows, columns).splitlines()[-1] if len(rows) > 1 else table(rows, columns), flush=True)
    save(given.out, head, rows)


if __name__ == "__main__":
    main()
