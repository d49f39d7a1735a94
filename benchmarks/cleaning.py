"""Pulls a second of the cleaning policies, against scalar numba loops on all cores.

    python -m benchmarks.cleaning [--out FILE.json] [--quick] [--policy ee ...] [--repeats 7] [--runs N]

The problem is that of Cheng et al. 2010, section 6: 50,000 entities, false values uniform on 0 ... 19, uniform sc-pdf,
budget 10,000; epsilon is 0.5, EE's (t, need) = (3, 3) with early stopping. Both sides run in this process, warm, in
turns. Ours is ``simulate`` from Python, all its work on the host included. numba's loops (numba_cleaning.py) run with
numba's own generator, and with xoroshiro128+. A ratio is the median over the repetitions of ours / numba's.

Where runs need not be paired (``paired = False``), random, greedy and epsilon-greedy count entities that look alike:
they have a row for each. What is asked for is asked of the faster one.

It fails if the two sides' results are not of one law: where means differ by more than 4 joint standard errors.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # or numba's idle threads would spin while the other side runs

import math
import time
from collections.abc import Callable
from statistics import median

import jax
import numpy as np

from benchmarks import numba_cleaning
from benchmarks.common import Row, facts, parser, save, table
from jaxbandit import Policy, simulate
from jaxbandit.cleaning import (
    Uniform,
    ee,
    epsilon_greedy,
    greedy,
    known_sc,
    random,
    synthetic,
    uniform_false_values,
)

ENTITIES, BUDGET = 50_000, 10_000
FALSE_VALUES = uniform_false_values(0, numba_cleaning.MOST)
TARGETS = {"known-sc": 2.0, "random": 2.0, "greedy": 2.0, "epsilon-greedy": 1.0, "ee": 2.0}
RUNS = {"known-sc": 65_536, "random": 4096, "greedy": 16_384, "epsilon-greedy": 1024, "ee": 65_536}
"""Runs a repetition of ours: about a second on two cores."""
UNPAIRED = {"random": 65_536, "greedy": 131_072, "epsilon-greedy": 16_384}
"""The same of those policies that count entities alike."""
REPEATS, SECONDS, ERRORS = 7, 1.0, 4.0
SHORT = {"np.random": "mt", "xoroshiro128+": "xoroshiro"}

Answers = dict[str, np.ndarray]
Side = Callable[[int], Answers]
"""From a seed to the runs' answers."""


def _policies() -> dict[str, Policy]:
    return {
        "known-sc": known_sc(), "random": random(), "greedy": greedy(), "epsilon-greedy": epsilon_greedy(0.5),
        "ee": ee(3, 1.0),
    }  # fmt: skip


def timed(side: Side, seed: int) -> tuple[Answers, float, float]:
    """The answers, and the pulls a second by the clock and by the CPU time of all threads."""
    cpu, start = time.process_time(), time.perf_counter()
    answers = side(seed)
    wall, cpu = time.perf_counter() - start, time.process_time() - cpu
    pulls = float(answers["cleans"].sum(dtype=np.int64))
    return answers, pulls / wall, pulls / cpu


def check(policy: str, generator: str, budget: int, ours: list[Answers], theirs: list[Answers]) -> float:
    """The largest distance between the two sides' means in joint standard errors."""
    worst = 0.0
    for name, unit in (("removed", budget), ("finished", 1), ("cleans", 1)):
        means, variances = [], []
        for answers in (ours, theirs):
            values = np.concatenate([np.ravel(answer[name]) for answer in answers]) / unit
            means.append(values.mean())
            variances.append(values.var(ddof=1) / values.size)
        distance = abs(means[0] - means[1]) / math.sqrt(sum(variances)) if means[0] != means[1] else 0.0
        if not distance <= ERRORS:
            raise SystemExit(
                f"{policy}: the law differs from numba's with {generator}: mean "
                f"{'effectiveness' if name == 'removed' else name} {means[0]:.6g} and {means[1]:.6g}, "
                f"{distance:.1f} standard errors apart"
            )
        worst = max(worst, distance)
    return worst


def measure(policy: str, paired: bool, runs: int, repeats: int, seconds: float, budget: int, entities: int) -> Row:
    """One policy: both sides' medians and ratios. ``seconds`` is about what a repetition of numba's takes."""
    problem = synthetic(budget=budget, entities=entities, false_values=FALSE_VALUES, sc_pdf=Uniform(), paired=paired)
    ours = _policies()[policy]
    sides: dict[str, Side] = {"jaxbandit": lambda seed: simulate(problem, ours, runs=runs, seed=seed)}
    sizes = {"jaxbandit": runs}
    for generator in numba_cleaning.GENERATORS:

        def loops(seed: int, count: int | None = None, generator: str = generator) -> Answers:
            count = count or sizes[generator]
            return numba_cleaning.simulate(policy, generator, runs=count, seed=seed, budget=budget, entities=entities)

        loops(0, 16)
        _, speed, _ = timed(lambda seed, loops=loops: loops(seed, 200), 0)
        sizes[generator] = max(200, int(speed * seconds / budget))
        sides[generator] = loops
    for side in sides.values():
        side(0)

    answers: dict[str, list[Answers]] = {name: [] for name in sides}
    speeds: dict[str, list[float]] = {name: [] for name in sides}
    efforts: dict[str, list[float]] = {name: [] for name in sides}
    order = list(sides)
    for repeat in range(repeats):
        for name in order:
            answer, speed, effort = timed(sides[name], 1 + repeat)
            answers[name].append(answer)
            speeds[name].append(speed)
            efforts[name].append(effort)
        order = order[1:] + order[:1]

    effectiveness = float(np.mean([answer["removed"].mean() for answer in answers["jaxbandit"]])) / budget
    row: Row = {"policy": policy, "paired": "yes" if paired else "no", "effectiveness": effectiveness}
    row["target"] = TARGETS[policy] if not paired or policy not in UNPAIRED else None
    row |= {"repeats": repeats, "runs": sizes["jaxbandit"], "pulls_per_s": median(speeds["jaxbandit"])}
    row["pulls_per_cpu_s"] = median(efforts["jaxbandit"])
    for name, short in SHORT.items():
        row[f"{short}_law_distance"] = check(policy, name, budget, answers["jaxbandit"], answers[name])
        row[f"{short}_runs"] = sizes[name]
        row[f"{short}_pulls_per_s"] = median(speeds[name])
        row[f"{short}_pulls_per_cpu_s"] = median(efforts[name])
        row[f"{short}_ratio"] = median(a / b for a, b in zip(speeds["jaxbandit"], speeds[name], strict=True))
        row[f"{short}_cpu_ratio"] = median(a / b for a, b in zip(efforts["jaxbandit"], efforts[name], strict=True))
    return row


def _table(rows: list[Row]) -> str:
    columns = {"policy": ("policy", ""), "paired": ("paired", ""), "pulls_per_s": ("jaxbandit", ".1f")}
    columns |= {"mt_pulls_per_s": ("numba np.random", ".1f"), "xoroshiro_pulls_per_s": ("numba xoroshiro", ".1f")}
    columns |= {"mt_ratio": ("ratio np.random", ".2f"), "xoroshiro_ratio": ("ratio xoroshiro", ".2f")}
    columns |= {"target": ("asked", ".0f")}
    scaled = [{k: v / 1e6 if k.endswith("pulls_per_s") else v for k, v in row.items()} for row in rows]
    return table(scaled, columns)


def main() -> None:
    """Measure, check, print a table, write JSON if asked to."""
    options = parser(__doc__)
    options.add_argument("--policy", nargs="+", choices=numba_cleaning.POLICIES, default=numba_cleaning.POLICIES)
    options.add_argument("--repeats", type=int, help=f"repetitions of each side ({REPEATS})")
    options.add_argument("--runs", type=int, help="runs a repetition of ours (chosen by policy)")
    given = options.parse_args()
    head = facts("cleaning", given.quick)
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", os.cpu_count() or 1)
    repeats = given.repeats or (3 if given.quick else REPEATS)
    budget, entities = (1000, 5000) if given.quick else (BUDGET, ENTITIES)
    head |= {"budget": budget, "entities": entities, "devices": len(jax.devices())}
    rows: list[Row] = []
    print("million pulls a second", flush=True)
    for policy, paired in ((name, kind) for name in given.policy for kind in (True, False) if kind or name in UNPAIRED):
        runs = given.runs or (200 if given.quick else (RUNS if paired else UNPAIRED)[policy])
        rows.append(measure(policy, paired, runs, repeats, 0.02 if given.quick else SECONDS, budget, entities))
        text = _table(rows).splitlines()
        print("\n".join(text if len(rows) == 1 else text[-1:]), flush=True)
    save(given.out, head, rows)


if __name__ == "__main__":
    main()
