"""What a pull costs as each parameter moves over decades, against a scalar numba loop.

    python -m benchmarks.scaling [--out FILE.json] [--quick] [--policy ee ...] [--axis epsilon ...]
                                [--paired yes|no|both] [--pulls N]

One parameter moves at a time, the others stay at the paper's setting (Cheng et al. 2010, section 6: 50,000 entities,
false values uniform on 0 ... 19, uniform sc-pdf, budget 10,000, epsilon 0.5). Costs are CPU time of all threads, in
nanoseconds a pull, the least of three calls; numba's loops (numba_cleaning.py) draw from xoroshiro128+ and run on one
thread. ``first_call`` is the CPU time of the first call with these shapes, in seconds, with JAX's compilation cache as
it is: set none for cold figures. Both sides' results must be of one law, within 4 joint standard errors. The axis
``rows`` has a user's table of so many entities in place of those drawn afresh in each run, which numba's loops do not.

``AXES`` names the parameters that move, and ``SIDES`` what is measured of each: other families add theirs there.
"""

import os

os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from benchmarks import numba_cleaning
from benchmarks.cleaning import Answers, check
from benchmarks.common import Row, facts, own_programs, parser, save, table
from jaxbandit import simulate
from jaxbandit.cleaning.family import FAMILY, Setting
from jaxbandit.cleaning.problem import of_table, uniform_false_values
from jaxbandit.errors import BadInput
from jaxbandit.laws import Uniform

Point = dict[str, Any]
Side = Callable[[int, int], Answers]
"""From a number of runs and a seed to the answers."""

CENTRE: Mapping[str, Point] = {"cleaning": {"budget": 10_000, "entities": 50_000, "epsilon": 0.5}}
AXES: Mapping[str, Mapping[str, Sequence[float]]] = {
    "cleaning": {
        "epsilon": (0, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99),
        "budget": (1_000, 10_000, 100_000, 1_000_000),
        "entities": (1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000),
        "rows": (1_000, 10_000, 100_000),
    }
}
COUNTING = ("random", "greedy", "epsilon-greedy")
"""Policies that may count entities alike where runs are not paired."""


def _cleaning(policy: str, paired: bool, point: Point) -> tuple[Side, Side | None]:
    """Ours and numba's, if there is one."""
    budget, entities, epsilon = point["budget"], point["entities"], point["epsilon"]
    weights, rows = uniform_false_values(0, numba_cleaning.MOST), point.get("rows")
    setting = Setting(budget, rows or entities, weights, Uniform(), paired=paired)
    given = {parameter.name: parameter.default for parameter in FAMILY.policies[policy].parameters}
    if policy == "ee":
        given |= {"t": 3, "q": 1.0}
    if policy == "epsilon-greedy":
        given["epsilon"] = epsilon
    built, problem = FAMILY.policies[policy].build(setting, **given)[0], setting.problem()
    if rows:
        counts = np.random.default_rng(0).integers(1, numba_cleaning.MOST, rows, endpoint=True)
        problem = of_table(budget=budget, false_values=counts, sc_pdf=Uniform())

    def ours(runs: int, seed: int) -> Answers:
        return {name: values[0] for name, values in simulate(problem, built, runs=runs, seed=seed).items()}

    def numbas(runs: int, seed: int) -> Answers:
        return numba_cleaning.simulate(
            policy, "xoroshiro128+", runs=runs, seed=seed, budget=budget, entities=entities, epsilon=epsilon
        )

    return ours, numbas if policy in numba_cleaning.POLICIES and not rows else None


SIDES: Mapping[str, Callable[[str, bool, Point], tuple[Side, Side | None]]] = {"cleaning": _cleaning}


def _cost(side: Side, runs: int, repeats: int) -> tuple[list[Answers], float, float]:
    """The answers, the CPU time of the first call (s), and the least of the others a pull (ns)."""
    start = time.process_time()
    side(runs, 0)
    first, answers, costs = time.process_time() - start, [], []
    for repeat in range(repeats):
        start = time.process_time()
        answers.append(side(runs, 1 + repeat))
        costs.append((time.process_time() - start) / answers[-1]["cleans"].sum(dtype=np.int64))
    return answers, first, 1e9 * min(costs)


def measure(family: str, policy: str, paired: bool, axis: str, value: float, pulls: int, repeats: int) -> Row:
    """One point of a curve; ``pulls``: about how many a call makes."""
    point = {**CENTRE[family], axis: value}
    runs = max(8, pulls // point["budget"])
    row: Row = {"family": family, "policy": policy, "paired": "yes" if paired else "no", "axis": axis, "value": value}
    try:
        ours, numbas = SIDES[family](policy, paired, point)
    except BadInput as error:
        return row | {"refused": str(error)}
    answers, first, cost = _cost(ours, runs, repeats)
    row |= {"runs": runs, "first_call": round(first, 2), "ns_a_pull": cost}
    row["effectiveness"] = float(np.mean([answer["removed"].mean() for answer in answers])) / point["budget"]
    if numbas:
        theirs, _, other = _cost(numbas, runs, repeats)
        row |= {"numba_ns_a_pull": other, "ratio": other / cost}
        row["law_distance"] = check(policy, "xoroshiro128+", point["budget"], answers, theirs)
    return row


def main() -> None:
    """Measure, check, print a table, write JSON if asked to."""
    options = parser(__doc__)
    policies = [*FAMILY.policies]
    options.add_argument("--policy", nargs="+", choices=policies, default=policies)
    options.add_argument("--axis", nargs="+", choices=[*AXES["cleaning"]], default=[*AXES["cleaning"]])
    options.add_argument(
        "--paired", choices=("yes", "no", "both"), default="both", help="which rows of those that count"
    )
    options.add_argument("--pulls", type=int, default=1_000_000, help="pulls a call, about (1,000,000)")
    given = options.parse_args()
    own_programs()
    head = facts("scaling", given.quick)
    jax.config.update("jax_platforms", "cpu")
    columns = {"policy": ("policy", ""), "paired": ("paired", ""), "axis": ("axis", ""), "value": ("value", ",g")}
    columns |= {"ns_a_pull": ("ns a pull", ".1f"), "numba_ns_a_pull": ("numba", ".1f"), "ratio": ("ratio", ".2f")}
    columns |= {"first_call": ("first call, s", ".1f"), "law_distance": ("law", ".1f"), "refused": ("refused", "")}
    rows: list[Row] = []
    for axis in given.axis:
        values = AXES["cleaning"][axis]
        for policy in given.policy:
            if axis == "epsilon" and policy != "epsilon-greedy":
                continue
            kinds = {"yes": (True,), "no": (False,), "both": (True, False)}[given.paired]
            for paired in kinds if policy in COUNTING and axis != "rows" else (True,):
                for value in values[:2] if given.quick else values:
                    pulls = 50_000 if given.quick else given.pulls
                    rows.append(measure("cleaning", policy, paired, axis, value, pulls, 2 if given.quick else 3))
                    text = table(rows, columns).splitlines()
                    print("\n".join(text if len(rows) == 1 else text[-1:]), flush=True)
                    save(given.out, head, rows)


if __name__ == "__main__":
    main()
