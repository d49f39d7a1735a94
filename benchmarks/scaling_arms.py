"""What a pull costs the rules for arms as each parameter moves over decades, against a scalar numba loop.

    python -m benchmarks.scaling_arms [--out FILE.json] [--quick] [--policy lucb ...] [--axis n ...]

One parameter moves at a time, the others stay at the centre. Top-K: 1,000 Bernoulli arms with means uniform on [0, 1],
drawn afresh in each run, K = 100 and Q = 50 pulls an arm; where n moves, K = n / 10. Outliers: the arms of
``benchmarks.outliers``, n = 50, k = 2.5, delta = 0.1, at most a million pulls a run. Costs are CPU time of all threads,
in nanoseconds a pull, the least of three calls; numba's loops (numba_topk.py with xoroshiro128+, numba_outliers.py) run
on one thread, where they have the rule. ``first_call`` is the CPU time of a point's first call, in seconds,
which compiles unless an earlier point had these shapes. Where both sides make 64 runs or more, their mean pulls, and
their mean regrets or shares of right answers, must be within 4 joint standard errors. ``capped`` is the share of runs
that did not end within the million pulls.
"""

import os

os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import numba_outliers, numba_topk, outliers, topk
from benchmarks.common import Row, facts, own_programs, parser, save, table
from jaxbandit import simulate
from jaxbandit.arms.problem import Drawn, arms, given
from jaxbandit.arms.rewards import Bernoulli
from jaxbandit.devices import use_all_cores
from jaxbandit.grammar import accelerated
from jaxbandit.laws import Uniform
from jaxbandit.outliers import OutlierArms
from jaxbandit.outliers.truth import Labelled
from jaxbandit.topk.halving import sequential_halving
from jaxbandit.topk.lucb import lucb

Point = dict[str, Any]
Side = Callable[[int, int], np.ndarray]
"""From a number of runs and a seed to the pulls of each run, and its regret or whether it is right: float64, (runs,
2)."""

CAP, ENOUGH, ERRORS = 1_000_000, 64, 4.0
CENTRE: Mapping[str, Point] = {
    "topk": {"n": 1000, "K": 100, "Q": 50, "delta": 0.1},
    "outliers": {"n": 50, "k": 2.5, "delta": 0.1, "rho": 0.9},
}
AXES: Mapping[str, Mapping[str, Sequence[float]]] = {
    "topk": {
        "n": (10, 100, 1_000, 10_000, 100_000),
        "K": (1, 10, 100, 500, 900),
        "Q": (2, 10, 100, 1_000),
        "delta": (1e-6, 1e-3, 0.5),
    },
    "outliers": {
        "n": (10, 20, 50, 100, 200, 400), "k": (1.0, 1.5, 2.0, 3.0), "delta": (1e-6, 1e-3, 0.5),
        "rho": (0.6, 0.7, 0.95),
    },
}  # fmt: skip
POLICIES: Mapping[str, Mapping[str, Sequence[str]]] = {
    "topk": {
        "uniform": ("n", "K", "Q"), "optmai": ("n", "K", "Q"), "sar": ("n", "K", "Q"), "halving": ("n", "K", "Q"),
        "lucb": ("n", "K", "Q", "delta"), "kl-lucb": ("n", "K", "Q", "delta"),
    },
    "outliers": {
        "rr": ("n", "k", "delta"), "wrr": ("n", "k", "delta"), "nrr": ("n", "k", "delta"), "ib": ("n", "k", "delta"),
        "gold": ("n", "delta", "rho"),
    },
}  # fmt: skip
"""Rules, and what moves for them."""
MOST = {"lucb": 10_000, "kl-lucb": 10_000}
"""The most arms of some rules: with 100,000, a run of numba's loop takes minutes."""
PULLS = {"lucb": 5e6, "kl-lucb": 1e6, "nrr": 5e6, "ib": 5e6} | dict.fromkeys(("rr", "wrr", "gold"), 1e8)
"""About how many pulls a call of ours makes, so that it takes a second or so; 200 million where nothing is said."""
SECONDS = 0.5
"""What a call of numba's takes, about."""


def _topk(name: str, point: Point) -> tuple[Side, Side | None, float]:
    """Ours, numba's if there is one, and about how many pulls a run makes."""
    n, want, delta = point["n"], point["K"], point["delta"]
    budget = n * point["Q"]
    if name == "halving":
        policy: Any = sequential_halving(n, want, budget)
    elif name.endswith("lucb"):
        policy = lucb(want, delta=delta, divergence="kl" if name == "kl-lucb" else "hoeffding")
    else:
        policy = topk._policy(name, n, want, budget)
    problem = arms(budget, Drawn(Uniform().quantiles(), n), Bernoulli())

    def ours(runs: int, seed: int) -> np.ndarray:
        found = simulate(problem, policy, runs=runs, seed=seed, progress=False)
        regret = (found["regret_high"] * 4096.0 + found["regret_low"]) / (want * 2.0**24)
        return np.stack([found["pulls"][0], regret[0]], axis=-1)

    def numbas(runs: int, seed: int) -> np.ndarray:
        own = {"arms": n, "want": want, "budget": budget, "threads": 1}
        found = numba_topk.simulate(name, "xoroshiro128+", runs=runs, seed=seed, **own)
        return np.stack([found["pulls"], found["regret"]], axis=-1)

    return ours, numbas if name in numba_topk.POLICIES and delta == 0.1 else None, budget


def _outliers(name: str, point: Point) -> tuple[Side, Side | None, float]:
    """The same for a rule for outliers; pulls are of a first run."""
    n, k, delta = point["n"], point["k"], point["delta"]
    p, truth = outliers.arms(name, n)
    truth = truth if name == "gold" else p > p.mean() + k * p.std()
    name_of = "bernoulli-corrected" if name in ("rr", "wrr") else "bounded"
    rule = outliers.policy(name, name_of, n, k, delta, point["rho"])
    problem = OutlierArms(jnp.int32(CAP), Labelled(given(p, shuffled=False), jnp.asarray(truth, jnp.int32)))
    fast = accelerated(rule, problem)
    reaches = np.zeros((0, 0)) if name == "nrr" else np.asarray(fast.log_terms.coefficients, np.float64)

    def ours(runs: int, seed: int) -> np.ndarray:
        found = {key: each[0] for key, each in simulate(problem, rule, runs=runs, seed=seed, progress=False).items()}
        right = (found["hits"] == found["wanted"]) & (found["hits"] == found["found"])
        return np.stack([found["pulls"], right], axis=-1).astype(np.float64)

    def numbas(runs: int, seed: int) -> np.ndarray:
        return numba_outliers.simulate(rule, reaches, p, truth, cap=CAP, runs=runs, seed=seed, threads=1)

    return ours, numbas, float(ours(8, 0)[:, 0].mean())


SIDES: Mapping[str, Callable[[str, Point], tuple[Side, Side | None, float]]] = {"topk": _topk, "outliers": _outliers}


def _cost(side: Side, runs: int, repeats: int) -> tuple[np.ndarray, float]:
    """What all runs gave, and the least CPU time a pull (ns)."""
    answers, costs = [], []
    for repeat in range(repeats):
        start = time.process_time()
        answers.append(side(runs, 1 + repeat))
        costs.append((time.process_time() - start) / answers[-1][:, 0].sum())
    return np.concatenate(answers), 1e9 * min(costs)


def measure(family: str, policy: str, axis: str, value: float, share: float, repeats: int) -> Row:
    """One point of a curve; ``share``: of ``PULLS``."""
    point = {**CENTRE[family], axis: value}
    if axis == "n" and family == "topk":
        point["K"] = max(1, int(value) // 10)
    ours, numbas, of_run = SIDES[family](policy, point)
    runs = int(min(65_536, max(16, share * PULLS.get(policy, 2e8) // of_run)))
    start = time.process_time()
    ours(runs, 0)
    first = time.process_time() - start
    found, cost = _cost(ours, runs, repeats)
    row: Row = {"family": family, "policy": policy, "axis": axis, "value": value, "runs": runs}
    row |= {"pulls": float(found[:, 0].mean()), "first_call": round(first, 2), "ns_a_pull": cost}
    if family == "outliers":
        row["capped"] = float((found[:, 0] >= CAP).mean())
    if numbas:
        numbas(1, 0)
        start = time.process_time()
        numbas(2, 0)
        few = int(max(4, min(runs, 2 * SECONDS / max(time.process_time() - start, 1e-5))))
        theirs, other = _cost(numbas, few, repeats)
        row |= {"numba_ns_a_pull": other, "ratio": other / cost, "numba_runs": few}
        if min(len(theirs), len(found)) >= ENOUGH:
            row["law_distance"] = max(outliers.distance(found[:, at], theirs[:, at]) for at in (0, 1))
            if not row["law_distance"] <= ERRORS:
                raise SystemExit(f"{row}: means are {found.mean(0)}, and numba's {theirs.mean(0)}")
    return row


def main() -> None:
    """Measure, check, print a table, write JSON if asked to."""
    options = parser(__doc__)
    options.add_argument("--policy", nargs="+", choices=[name for own in POLICIES.values() for name in own])
    options.add_argument("--axis", nargs="+", choices=sorted({axis for own in AXES.values() for axis in own}))
    asked = options.parse_args()
    own_programs()
    head = facts("scaling_arms", asked.quick)
    jax.config.update("jax_platforms", "cpu")
    use_all_cores()
    columns = {"policy": ("policy", ""), "axis": ("axis", ""), "value": ("value", ",g"), "runs": ("runs", ",d")}
    columns |= {"pulls": ("pulls a run", ",.0f"), "ns_a_pull": ("ns a pull", ".1f")}
    columns |= {"numba_ns_a_pull": ("numba", ".1f"), "ratio": ("ratio", ".2f"), "first_call": ("first call, s", ".1f")}
    rows: list[Row] = []
    for family, policies in POLICIES.items():
        for policy, axes in policies.items():
            for axis in axes:
                if policy not in (asked.policy or policies) or axis not in (asked.axis or axes):
                    continue
                values = [x for x in AXES[family][axis] if axis != "n" or x <= MOST.get(policy, x)]
                for value in values[:2] if asked.quick else values:
                    few = (0.01, 2) if asked.quick else (1.0, 3)
                    rows.append(measure(family, policy, axis, value, *few))
                    text = table(rows, columns).splitlines()
                    print("\n".join(text if len(rows) == 1 else text[-1:]), flush=True)
                    save(asked.out, head, rows)


if __name__ == "__main__":
    main()
