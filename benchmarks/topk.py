"""Runs a second of the top-K rules, against scalar numba loops on all cores; and how OptMAI's cost grows with n.

    python -m benchmarks.topk [--out FILE.json] [--quick] [--policy sar ...] [--repeats 7] [--curve-only]

The problem is that of Zhou, Chen and Li 2014, section 6.1: 1,000 Bernoulli arms, means uniform on [0, 1] and drawn
afresh in each run, K = 100, Q = 50 n; OptMAI has beta = 0.8. Both sides run in this process, warm, in turns. Ours is
``simulate`` from Python, all its work on the host included. numba's loops (numba_topk.py) run with numba's own
generator and binomial sampler, and with faster ones written by hand. A ratio is the median over the repetitions of
ours / numba's. The curve has K = n / 10 and Q = 50 n.

It fails if the two sides' results are not of one law: where the mean regret, the pulls, or the most pulls of an arm
differ by more than 4 joint standard errors.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # or numba's idle threads would spin while the other side runs

import math
import time
from collections.abc import Callable
from statistics import median

import jax
import numpy as np

from benchmarks import numba_topk
from benchmarks.common import Row, facts, own_programs, parser, save, table
from jaxbandit import Policy, simulate
from jaxbandit.arms.problem import Drawn, arms
from jaxbandit.arms.rewards import Bernoulli
from jaxbandit.laws import Uniform
from jaxbandit.topk.lucb import lucb
from jaxbandit.topk.optmai import optmai
from jaxbandit.topk.sar import sar
from jaxbandit.topk.uniform import uniform

ARMS, WANT, TIMES = 1000, 100, 50
TARGETS = {"uniform": 2.0, "optmai": 2.0, "sar": 2.0, "lucb": 1.0, "kl-lucb": 1.0}
RUNS = {"uniform": 32_768, "optmai": 8192, "sar": 4096, "lucb": 512, "kl-lucb": 256}
"""Runs a repetition of ours: some seconds on two cores."""
SIZES = {100: 16_384, 1000: 4096, 10_000: 512, 100_000: 48}
"""The curve's numbers of arms, and runs a repetition of ours."""
REPEATS, SECONDS, ERRORS = 7, 1.0, 4.0
SHORT = {"np.random": "mt", "xoroshiro128+": "xoroshiro"}

Answers = dict[str, np.ndarray]
Side = Callable[[int], Answers]
"""From a seed to the runs' regret, pulls, and most pulls of an arm."""


def _policy(name: str, n: int, want: int, budget: int) -> Policy:
    if name == "uniform":
        return uniform(want)
    if name.endswith("lucb"):
        return lucb(want, divergence="kl" if name == "kl-lucb" else "hoeffding")
    return (optmai if name == "optmai" else sar)(n, want, budget, ties="lowest")


def _ours(name: str, n: int, want: int, budget: int, runs: int) -> Side:
    problem = arms(budget, Drawn(Uniform().quantiles(), n), Bernoulli())
    policy = _policy(name, n, want, budget)

    def side(seed: int) -> Answers:
        found = simulate(problem, policy, runs=runs, seed=seed)
        units = found["regret_high"] * 4096.0 + found["regret_low"]
        return {
            "regret": units[0] / (want * 2.0**24),
            "pulls": found["pulls"][0],
            "pulls_100": found["pulls_100"][0],
        }

    return side


def _timed(side: Side, seed: int) -> tuple[Answers, float, float]:
    """The answers, and the runs a second by the clock and by the CPU time of all threads."""
    cpu, start = time.process_time(), time.perf_counter()
    answers = side(seed)
    wall, cpu = time.perf_counter() - start, time.process_time() - cpu
    runs = answers["regret"].size
    return answers, runs / wall, runs / cpu


def _check(policy: str, generator: str, ours: list[Answers], theirs: list[Answers]) -> float:
    """The largest distance between the two sides' means in joint standard errors."""
    worst = 0.0
    for name in ("regret", "pulls", "pulls_100"):
        means, variances = [], []
        for answers in (ours, theirs):
            values = np.concatenate([answer[name] for answer in answers]).astype(np.float64)
            means.append(values.mean())
            variances.append(values.var(ddof=1) / values.size)
        distance = abs(means[0] - means[1]) / math.sqrt(sum(variances)) if means[0] != means[1] else 0.0
        if not distance <= ERRORS:
            raise SystemExit(
                f"{policy}: the law differs from numba's with {generator}: mean {name} {means[0]:.6g} and "
                f"{means[1]:.6g}, {distance:.1f} standard errors apart"
            )
        worst = max(worst, distance)
    return worst


def measure(policy: str, n: int, want: int, runs: int, repeats: int, seconds: float) -> Row:
    """One policy: both sides' medians and ratios. ``seconds`` is about what a repetition of numba's takes."""
    budget, threads = TIMES * n, os.cpu_count() or 1
    sides: dict[str, Side] = {"jaxbandit": _ours(policy, n, want, budget, runs)}
    sizes = {"jaxbandit": runs}
    for generator in numba_topk.GENERATORS:

        def loops(seed: int, count: int | None = None, generator: str = generator) -> Answers:
            count = count or sizes[generator]
            return numba_topk.simulate(
                policy, generator, runs=count, seed=seed, arms=n, want=want, budget=budget, threads=threads
            )

        loops(0, threads)
        few = max(threads, 20_000 // n) if not policy.endswith("lucb") else threads
        _, speed, _ = _timed(lambda seed, loops=loops, few=few: loops(seed, few), 0)
        sizes[generator] = max(few, int(speed * seconds))
        sides[generator] = loops
    for side in sides.values():
        side(0)

    answers: dict[str, list[Answers]] = {name: [] for name in sides}
    speeds: dict[str, list[float]] = {name: [] for name in sides}
    efforts: dict[str, list[float]] = {name: [] for name in sides}
    order = list(sides)
    for repeat in range(repeats):
        for name in order:
            answer, speed, effort = _timed(sides[name], 1 + repeat)
            answers[name].append(answer)
            speeds[name].append(speed)
            efforts[name].append(effort)
        order = order[1:] + order[:1]

    row: Row = {"policy": policy, "arms": n, "want": want, "budget": budget, "repeats": repeats}
    row["regret"] = float(np.mean([answer["regret"].mean() for answer in answers["jaxbandit"]]))
    row |= {"runs": runs, "runs_per_s": median(speeds["jaxbandit"]), "runs_per_cpu_s": median(efforts["jaxbandit"])}
    row["cpu_ns_per_arm"] = 1e9 / row["runs_per_cpu_s"] / n
    for name, short in SHORT.items():
        row[f"{short}_law_distance"] = _check(policy, name, answers["jaxbandit"], answers[name])
        row[f"{short}_runs"] = sizes[name]
        row[f"{short}_runs_per_s"] = median(speeds[name])
        row[f"{short}_runs_per_cpu_s"] = median(efforts[name])
        row[f"{short}_ratio"] = median(a / b for a, b in zip(speeds["jaxbandit"], speeds[name], strict=True))
        row[f"{short}_cpu_ratio"] = median(a / b for a, b in zip(efforts["jaxbandit"], efforts[name], strict=True))
    return row


def _table(rows: list[Row]) -> str:
    columns = {"policy": ("policy", ""), "arms": ("n", "d"), "runs_per_s": ("jaxbandit", ".1f")}
    columns |= {"mt_runs_per_s": ("numba np.random", ".1f"), "xoroshiro_runs_per_s": ("numba xoroshiro", ".1f")}
    columns |= {"mt_ratio": ("ratio np.random", ".2f"), "xoroshiro_ratio": ("ratio xoroshiro", ".2f")}
    columns |= {"mt_cpu_ratio": ("by CPU time", ".2f"), "xoroshiro_cpu_ratio": ("by CPU time", ".2f")}
    columns |= {"target": ("asked", ".0f"), "cpu_ns_per_arm": ("ns an arm", ".0f")}
    return table(rows, columns)


def main() -> None:
    """Measure, check, print a table, write JSON if asked to."""
    options = parser(__doc__)
    options.add_argument("--policy", nargs="+", choices=numba_topk.POLICIES, default=numba_topk.POLICIES)
    options.add_argument("--repeats", type=int, help=f"repetitions of each side ({REPEATS})")
    options.add_argument("--curve-only", action="store_true", help="only OptMAI's cost by n")
    given = options.parse_args()
    own_programs()
    head = facts("topk", given.quick)
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", os.cpu_count() or 1)
    head |= {"devices": len(jax.devices())}
    repeats = given.repeats or (2 if given.quick else REPEATS)
    rows: list[Row] = []
    print("runs a second", flush=True)

    def add(row: Row) -> None:
        rows.append(row)
        text = _table(rows).splitlines()
        print("\n".join(text if len(rows) == 1 else text[-1:]), flush=True)

    n, want = (50, 10) if given.quick else (ARMS, WANT)
    for policy in () if given.curve_only else given.policy:
        runs = 64 if given.quick else RUNS[policy]
        row = measure(policy, n, want, runs, repeats, 0.02 if given.quick else SECONDS)
        add(row | {"target": TARGETS[policy]})
    if given.curve_only or "optmai" in given.policy:
        for n, runs in ((100, 64), (200, 64)) if given.quick else SIZES.items():
            add(measure("optmai", n, n // 10, runs, repeats, 0.02 if given.quick else SECONDS) | {"curve": True})
    save(given.out, head, rows)


if __name__ == "__main__":
    main()
