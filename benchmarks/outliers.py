"""Runs a second of the outlier-arm rules, against scalar numba loops on all cores.

    python -m benchmarks.outliers [--out FILE.json] [--quick] [--repeats 5]

Arms: normal ones N(0.3, 0.075), 4 % outliers U(0.8, 1); k = 2.5, delta = 0.1, a cap of 10^7 pulls. Both sides run in
this process, warm, in turns. A ratio is the median over the repetitions of ours / numba's, in runs a second of wall
time; the other one is by the processor time of all threads. It fails if the mean numbers of pulls differ by more than 4
joint standard errors.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # or numba's idle threads would spin while the other side runs

import math
import time
from collections.abc import Callable
from statistics import median

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import numba_outliers
from benchmarks.common import Row, facts, parser, save, table
from jaxbandit import simulate
from jaxbandit.outliers import RR, WRR, Bernoulli, interval, rho_star
from jaxbandit.outliers.twofold import Twofold
from jaxbandit.outliers.wrr import Share

K, DELTA, CAP, ERRORS = 2.5, 0.1, 10**7, 4.0
CASES = (
    ("rr", "bernoulli-corrected", 50, 10.0, 8000, 200),
    ("rr", "bernoulli-corrected", 200, 30.0, 3000, 40),
    ("rr", "bounded", 50, 10.0, 3000, 16),
    ("wrr", "bernoulli-corrected", 50, 10.0, 1000, 400),
)
"""Rule, interval, arms, the ratio asked, runs a repetition of ours and of numba's."""


def arms(n: int) -> np.ndarray:
    """The means: float64, those that float32 holds."""
    rng = np.random.default_rng(3)
    p = np.clip(rng.normal(0.3, 0.075, n), 0.01, 0.6)
    outliers = max(1, round(0.04 * n))
    p[:outliers] = rng.uniform(0.8, 1, outliers)
    return p.astype(np.float32).astype(np.float64)


def _timed(side: Callable[[int], np.ndarray], seed: int) -> tuple[np.ndarray, float, float]:
    cpu, start = time.process_time(), time.perf_counter()
    pulls = side(seed)
    wall, cpu = time.perf_counter() - start, time.process_time() - cpu
    return pulls, pulls.size / wall, pulls.size / cpu


def measure(rule: str, name: str, n: int, asked: float, ours: int, theirs: int, repeats: int) -> Row:
    """One rule at one size."""
    p = arms(n)
    of = interval(name, n, DELTA, k=K)
    common = (jnp.int32(CAP), jnp.int32(1), jnp.bool_(True), n)
    rho = round(rho_star(n, K, DELTA), 6)
    rr = RR(Twofold.of(K), of, *common)
    policy = rr if rule == "rr" else WRR(Twofold.of(K), of, Share.of(rho), *common)
    problem = Bernoulli(jnp.asarray(p, jnp.float32))
    threads = os.cpu_count() or 1
    sides: list[Callable[[int], np.ndarray]] = [
        lambda seed: simulate(problem, policy, runs=ours, seed=seed, lanes=1024)["pulls"][0].astype(np.float64),
        lambda seed: numba_outliers.simulate(
            rr, p, rho=rho if rule == "wrr" else 0.0, runs=theirs, seed=seed, threads=threads
        ).astype(np.float64),
    ]
    for side in sides:
        side(0)
    pulls: list[list[np.ndarray]] = [[], []]
    speeds: list[list[float]] = [[], []]
    efforts: list[list[float]] = [[], []]
    for repeat in range(repeats):
        for number in (0, 1) if repeat % 2 else (1, 0):
            answer, speed, effort = _timed(sides[number], 1 + repeat)
            pulls[number].append(answer)
            speeds[number].append(speed)
            efforts[number].append(effort)
    means = [np.concatenate(some) for some in pulls]
    error = math.sqrt(sum(some.var(ddof=1) / some.size for some in means))
    distance = abs(means[0].mean() - means[1].mean()) / error
    if not distance <= ERRORS:
        raise SystemExit(f"{rule} {name} n = {n}: mean pulls {means[0].mean():.6g} and {means[1].mean():.6g}")
    ratios = [median(a / b for a, b in zip(some[0], some[1], strict=True)) for some in (speeds, efforts)]
    return {"rule": rule, "interval": name, "n": n, "asked": asked, "pulls": float(means[0].mean()), "repeats": repeats,
            "runs_per_s": median(speeds[0]), "numba_runs_per_s": median(speeds[1]), "ratio": ratios[0],
            "cpu_ratio": ratios[1], "law_distance": distance}  # fmt: skip


def main() -> None:
    """Measure, check, print a table, write JSON if asked to."""
    options = parser(__doc__)
    options.add_argument("--repeats", type=int, help="repetitions of each side (5)")
    given = options.parse_args()
    head = facts("outliers", given.quick)
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", os.cpu_count() or 1)
    head |= {"k": K, "delta": DELTA, "cap": CAP, "devices": len(jax.devices())}
    repeats = given.repeats or (2 if given.quick else 5)
    rows = []
    for rule, name, n, asked, ours, theirs in CASES[:1] if given.quick else CASES:
        few = (200, 20) if given.quick else (ours, theirs)
        rows.append(measure(rule, name, n, asked, *few, repeats))
        columns = {"rule": ("rule", ""), "interval": ("interval", ""), "n": ("n", "d"), "pulls": ("pulls", ".0f")}
        columns |= {"runs_per_s": ("runs/s", ".1f"), "numba_runs_per_s": ("numba runs/s", ".2f")}
        columns |= {"ratio": ("ratio", ".1f"), "cpu_ratio": ("by CPU time", ".1f"), "asked": ("asked", ".0f")}
        print(table(rows, columns).splitlines()[-1] if len(rows) > 1 else table(rows, columns), flush=True)
    save(given.out, head, rows)


if __name__ == "__main__":
    main()
