"""Whether pairing pays: intervals of a difference for the same time, with and without common random numbers.

    python -m benchmarks.pairs [--out FILE.json] [--quick] [--runs N]

Two policies are compared by the mean of their difference. Where their runs are paired (the same entities in the runs of
one number), its variance is smaller; where they need not be, random, greedy and epsilon-greedy count entities that look
alike and make more runs in the same time. ``share`` is the variance of the paired difference over that of independent
runs, with a 95 % interval from a bootstrap over runs. ``gain`` is the square of the ratio of both intervals' widths
after the same CPU time, (variance x CPU time) of paired runs over that of the others: above 1, the interval is
narrower without pairs. The time is that of a second call, the least of three. ``even_s`` is what those programs take
longer to compile: a gain counts where a study simulates for longer.

One thing moves at a time, from the setting of Cheng et al. 2010, section 6 (50,000 entities, false values uniform on
0 ... 19, uniform sc-pdf, budget 10,000).
"""

import itertools
import sys
import time
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from benchmarks.common import Row, facts, parser, save, table
from jaxbandit import simulate
from jaxbandit.cleaning.family import FAMILY, Setting
from jaxbandit.cleaning.problem import uniform_false_values
from jaxbandit.laws import Beta, Uniform

CENTRE = Setting(10_000, 50_000, uniform_false_values(0, 19), Uniform())
SETTINGS = {
    "the paper's": CENTRE,
    "budget 1,000": replace(CENTRE, budget=1_000),
    "budget 50,000": replace(CENTRE, budget=50_000),
    "sc-pdf Beta(2, 5)": replace(CENTRE, sc_pdf=Beta(2.0, 5.0)),
    "r = 9": replace(CENTRE, weights=np.eye(10)[9]),
}
RULES: dict[str, tuple[str, dict[str, Any]]] = {
    "ee": ("ee", {"t": 3, "q": 0.667}),
    "greedy": ("greedy", {}),
    "random": ("random", {}),
    "epsilon-greedy 0.1": ("epsilon-greedy", {"epsilon": 0.1}),
    "epsilon-greedy 0.5": ("epsilon-greedy", {"epsilon": 0.5}),
    "epsilon-greedy 0.6": ("epsilon-greedy", {"epsilon": 0.6}),
    "epsilon-greedy 0.9": ("epsilon-greedy", {"epsilon": 0.9}),
}
COUNTING = {"greedy", "random", "epsilon-greedy 0.5", "epsilon-greedy 0.6", "epsilon-greedy 0.9"}
RESAMPLES = 400
COLUMNS = {
    "setting": ("setting", ""), "one": ("one", ""), "other": ("other", ""), "share": ("share", ".2f"),
    "low": ("from", ".2f"), "high": ("to", ".2f"), "times": ("runs", ".1f"), "gain": ("gain", ".1f"),
    "even_s": ("even_s", ".1f"),
}  # fmt: skip


@dataclass(frozen=True)
class Measured:
    """What a rule removed, by run, the CPU time of a run (s), and that of the first call."""

    removed: np.ndarray
    cost: float
    first: float


def _measured(setting: Setting, rule: str, runs: int) -> Measured:
    kind, given = RULES[rule]
    known = {parameter.name: parameter.default for parameter in FAMILY.policies[kind].parameters}
    policy, problem = FAMILY.policies[kind].build(setting, **known | given)[0], setting.problem()
    spent = []
    for _ in range(4):
        start = time.process_time()
        removed = simulate(problem, policy, runs=runs, seed=0)["removed"][0]
        spent.append(time.process_time() - start)
    return Measured(removed.astype(float), min(spent[1:]) / runs, spent[0] - min(spent[1:]))


def _share(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.var(one - other) / (np.var(one) + np.var(other)))


def pair(name: str, one: str, other: str, held: dict[str, Measured], counted: dict[str, Measured]) -> Row:
    """Two rules under one setting. ``times``: how many more runs without pairs the same time gives."""
    rng, a, b = np.random.default_rng(0), held[one], held[other]
    drawn = (rng.integers(a.removed.size, size=a.removed.size) for _ in range(RESAMPLES))
    low, high = np.quantile([_share(a.removed[at], b.removed[at]) for at in drawn], (0.025, 0.975))
    share = _share(a.removed, b.removed)
    apart = _share(counted[one].removed, counted[other].removed)
    times = (a.cost + b.cost) / (counted[one].cost + counted[other].cost)
    later = sum(max(0.0, counted[rule].first - held[rule].first) for rule in (one, other))
    return {
        "setting": name, "one": one, "other": other, "share": share, "low": low, "high": high, "times": times,
        "gain": share / apart * times, "even_s": later,
    }  # fmt: skip


def main() -> int:
    """Measure."""
    options = parser(__doc__)
    options.add_argument(
        "--runs", type=int, default=4_096, help="of each rule at a budget of 10,000, and more at lower ones"
    )
    given = options.parse_args()
    runs, settings = (64, dict(itertools.islice(SETTINGS.items(), 1))) if given.quick else (given.runs, SETTINGS)
    head = facts("pairs", given.quick)
    jax.config.update("jax_platforms", "cpu")
    rows: list[Row] = []
    for name, setting in settings.items():
        some, apart = runs * CENTRE.budget // setting.budget, replace(setting, paired=False)
        held = {rule: _measured(setting, rule, some) for rule in RULES}
        counted = {rule: _measured(apart, rule, some) if rule in COUNTING else held[rule] for rule in RULES}
        pairs = [each for each in itertools.combinations(RULES, 2) if COUNTING & set(each)]
        rows += [pair(name, one, other, held, counted) for one, other in pairs]
    print(table(rows, COLUMNS))
    save(given.out, head, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
