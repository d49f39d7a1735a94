"""Runs a second of the outlier-arm rules, against scalar numba loops on all cores.

    python -m benchmarks.outliers [--out FILE.json] [--quick] [--repeats 5] [--rule gold]

Arms: for the k-sigma rules normal ones N(0.3, 0.075), 4 % outliers U(0.8, 1), k = 2.5; for GOLD normal ones U(0.2,
0.5), 10 % outliers U(0.8, 1), eps = 2.5, rho = 0.9. delta = 0.1, a cap of 10^7 pulls. Both sides run in this process,
warm, in turns. A ratio is the median over the repetitions of ours / numba's, in runs a second of wall time; the other
one is by the processor time of all threads. It fails if the mean numbers of pulls, or their mean squares, or the shares
of right answers differ by more than 4 joint standard errors.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # or numba's idle threads would spin while the other side runs

import math
import time
from collections.abc import Callable
from statistics import median
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import numba_outliers
from benchmarks.common import Row, facts, parser, save, table
from jaxbandit import simulate
from jaxbandit.arms.problem import given
from jaxbandit.grammar import accelerated
from jaxbandit.outliers import GOLD, IB, NRR, RR, WRR, OutlierArms, interval, rho_star
from jaxbandit.outliers.double_float import DoubleFloat
from jaxbandit.outliers.gold import factor, sizes
from jaxbandit.outliers.nrr import patience
from jaxbandit.outliers.truth import Labelled
from jaxbandit.outliers.wrr import Ratio
from jaxbandit.random.trials import UNITS

K, DELTA, CAP, ERRORS, EPS, RHO = 2.5, 0.1, 10**7, 4.0, 2.5, 0.9


class Case(NamedTuple):
    """Rule, interval, arms, the ratio asked, runs a repetition of ours and of numba's."""

    rule: str
    interval: str
    n: int
    asked: float
    ours: int
    theirs: int


CASES = (
    Case("rr", "bernoulli-corrected", 50, 10.0, 8000, 200),
    Case("rr", "bernoulli-corrected", 200, 30.0, 3000, 40),
    Case("rr", "bounded", 50, 10.0, 3000, 16),
    Case("wrr", "bernoulli-corrected", 50, 10.0, 4096, 400),
    Case("wrr", "bernoulli-corrected", 200, 30.0, 1024, 60),
    Case("nrr", "bounded", 50, 1.0, 262144, 65536),
    Case("ib", "bounded", 50, 1.0, 2048, 64),
    Case("gold", "bounded", 100, 10.0, 1024, 64),
    Case("gold", "bernoulli-corrected", 100, 10.0, 1024, 32),
)


def arms(rule: str, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The means (float64, whole numbers of ``UNITS``), and which arms are outliers (bool)."""
    rng = np.random.default_rng(3)
    if rule == "gold":
        outliers, p = n // 10, rng.uniform(0.2, 0.5, n)
    else:
        outliers, p = max(1, round(0.04 * n)), np.clip(rng.normal(0.3, 0.075, n), 0.01, 0.6)
    p[:outliers] = rng.uniform(0.8, 1, outliers)
    p = np.rint(p * UNITS) / UNITS
    return p, np.arange(n) < outliers if rule == "gold" else p > p.mean() + K * p.std()


def policy(rule: str, name: str, n: int, k: float = K, delta: float = DELTA, rho: float = RHO) -> Any:
    """Ours."""
    if rule == "gold":
        limits = map(jnp.int32, sizes(n, rho))
        return GOLD(interval(name, delta), DoubleFloat.of(factor(EPS)), *limits, jnp.bool_(False))
    of = interval(name, delta, k)
    if rule == "ib":
        return IB(of, DoubleFloat.of(0.5))
    if rule == "nrr":
        return NRR(of, jnp.int32(patience(delta)))
    return WRR(of, Ratio.of(round(rho_star(n, k, delta), 6))) if rule == "wrr" else RR(of)


def _timed(side: Callable[[int], np.ndarray], seed: int) -> tuple[np.ndarray, float, float]:
    cpu, start = time.process_time(), time.perf_counter()
    answers = side(seed)
    wall, cpu = time.perf_counter() - start, time.process_time() - cpu
    return answers, len(answers) / wall, len(answers) / cpu


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """Of two means, in joint standard errors."""
    error = math.sqrt(sum(some.var(ddof=1) / some.size for some in (a, b)))
    apart = abs(a.mean() - b.mean())
    return float(apart / error) if error else math.inf if apart else 0.0


def measure(case: Case, repeats: int) -> Row:
    """One rule at one size."""
    p, truth = arms(case.rule, case.n)
    rule, labels = policy(case.rule, case.interval, case.n), jnp.asarray(truth, jnp.int32)
    problem = OutlierArms(jnp.int32(CAP), Labelled(given(p, shuffled=False), labels))
    # NRR alone has no log terms.
    reaches = (
        np.zeros((0, 0)) if case.rule == "nrr"
        else np.asarray(accelerated(rule, problem).log_terms.coefficients, np.float64)
    )  # fmt: skip
    threads = os.cpu_count() or 1

    def ours(seed: int) -> np.ndarray:
        found = {name: values[0] for name, values in simulate(problem, rule, runs=case.ours, seed=seed).items()}
        right = (found["hits"] == found["wanted"]) & (found["hits"] == found["found"])
        return np.stack([found["pulls"], right], axis=-1).astype(np.float64)

    def theirs(seed: int) -> np.ndarray:
        return numba_outliers.simulate(rule, reaches, p, truth, cap=CAP, runs=case.theirs, seed=seed, threads=threads)

    sides = (ours, theirs)
    for side in sides:
        side(0)
    answers: list[list[np.ndarray]] = [[], []]
    speeds: list[list[float]] = [[], []]
    efforts: list[list[float]] = [[], []]
    for repeat in range(repeats):
        for number in (0, 1) if repeat % 2 else (1, 0):
            answer, speed, effort = _timed(sides[number], 1 + repeat)
            answers[number].append(answer)
            speeds[number].append(speed)
            efforts[number].append(effort)
    a, b = (np.concatenate(some) for some in answers)
    laws = [distance(f(a), f(b)) for f in (lambda x: x[:, 0], lambda x: x[:, 0] ** 2, lambda x: x[:, 1])]
    if not max(laws) <= ERRORS:
        raise SystemExit(f"{case}: laws differ: pulls and right answers {a.mean(axis=0)} and {b.mean(axis=0)}, {laws}")
    ratios = [median(x / y for x, y in zip(some[0], some[1], strict=True)) for some in (speeds, efforts)]
    return {"rule": case.rule, "interval": case.interval, "n": case.n, "asked": case.asked, "repeats": repeats,
            "pulls": float(a[:, 0].mean()), "right": float(a[:, 1].mean()), "law_distance": max(laws),
            "runs_per_s": median(speeds[0]), "numba_runs_per_s": median(speeds[1]), "ratio": ratios[0],
            "cpu_ratio": ratios[1]}  # fmt: skip


def main() -> None:
    """Measure, check, print a table, write JSON if asked to."""
    options = parser(__doc__)
    options.add_argument("--repeats", type=int, help="repetitions of each side (5)")
    options.add_argument("--rule", help="this rule alone")
    given = options.parse_args()
    head = facts("outliers", given.quick)
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", os.cpu_count() or 1)
    head |= {"k": K, "delta": DELTA, "cap": CAP, "devices": len(jax.devices())}
    repeats = given.repeats or (2 if given.quick else 5)
    rows = []
    chosen = [case for case in CASES if given.rule in (None, case.rule)]
    for case in chosen[:1] if given.quick else chosen:
        rows.append(measure(case._replace(ours=200, theirs=20) if given.quick else case, repeats))
        columns = {"rule": ("rule", ""), "interval": ("interval", ""), "n": ("n", "d"), "pulls": ("pulls", ".0f")}
        columns["right"] = ("right", ".3f")
        columns |= {
            "runs_per_s": ("runs/s", ".1f"),
            "numba_runs_per_s": ("numba runs/s", ".2f"),
            "right": ("right", ".3f"),
        }
        columns |= {"ratio": ("ratio", ".1f"), "cpu_ratio": ("by CPU time", ".1f"), "asked": ("asked", ".0f")}
        print(table(rows, columns).splitlines()[-1] if len(rows) > 1 else table(rows, columns), flush=True)
    save(given.out, head, rows)


if __name__ == "__main__":
    main()
