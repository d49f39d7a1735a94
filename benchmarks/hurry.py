"""What XLA's full effort for a program costs and gains, for each policy: the reason of
``Execution.gain_ns`` and ``Execution.level``.

    python -m benchmarks.hurry [--out FILE.json] [--quick] [--only topk/lucb ...]

Each policy makes its runs in a fresh process that has no cache of programs, with its program compiled in a hurry
(``xla.options.HURRIED``), in full at its own level of LLVM's optimization, and in full at the ``other`` one of 2 and 3.
``first``: CPU-seconds of the first call, compilation included; ``second``: the least of three more calls. ``effort``:
CPU-seconds that the full effort takes more. ``gain_ns``: what it gains in a later call for each of these seconds, by
the unit of the problems' budget, in nanoseconds. It fails where they have not the same bits.
"""

import hashlib
import json
import os
import subprocess
import sys
import time

import numpy as np

from benchmarks.common import ROOT, Row, facts, parser, save, table
from benchmarks.compile import SIZES, built, names

RUNS = {"cleaning": 8_000, "topk": 8_000, "outliers": 2_000, "extraction": 1_000}
FEWER = {"outliers/ib": 200, "outliers/gold": 500, "extraction/gs-exact": 100}
LARGE = ("outliers/gold",)
"""Measured with many arms too, where the level matters more."""
COLUMNS = {
    "policy": ("policy", ""), "arms": ("n", ",d"), "runs": ("runs", ",d"), "hurried_first_s": ("first: hurried", ".1f"),
    "full_first_s": ("full", ".1f"), "hurried_second_s": ("second: hurried", ".2f"), "full_second_s": ("full", ".2f"),
    "other_second_s": ("other level", ".2f"), "level": ("level", "d"),
    "effort_s": ("effort", ".1f"), "gain_ns": ("gain, ns a unit", ",.1f"),
}  # fmt: skip


def one(name: str, arms: int | None, runs: int, way: str) -> Row:
    """The costs in this process, which has compiled nothing before."""
    from jaxbandit import jobs, lanes, simulate
    from jaxbandit.devices import use_all_cores
    from jaxbandit.grammar import accelerated, execution_of
    from jaxbandit.xla.options import options_for

    use_all_cores()
    jobs.WORTH_COMPILING = np.inf if way == "hurried" else -1.0
    if way == "other":
        lanes.options_for = lambda platform, hurried, level: options_for(platform, hurried, 5 - level)
    problem, policy = built(name, arms)
    seconds = []
    for _ in range(4):
        start = time.process_time()
        answers = simulate(problem, policy, runs=runs, progress=False)
        seconds.append(time.process_time() - start)
    bits = hashlib.sha256()
    for key in sorted(answers):
        bits.update(key.encode() + answers[key].tobytes())
    first, *later = seconds
    row: Row = {"budget": float(problem.budget), "level": execution_of(accelerated(policy, problem)).level}
    return row | {f"{way}_first_s": first, f"{way}_second_s": min(later), "bits": bits.hexdigest()}


def measure(name: str, arms: int | None, runs: int) -> Row:
    """All ways, each in a process of its own."""
    row: Row = {"policy": name, "arms": arms, "runs": runs}
    bits = set()
    for way in ("hurried", "full", "other"):
        words = [sys.executable, "-m", "benchmarks.hurry", "--one", name, str(arms or 0), str(runs), way]
        own = {key: value for key, value in os.environ.items() if not key.startswith(("JAX_", "XLA_"))}
        done = subprocess.run(words, cwd=ROOT, env=own, check=True, capture_output=True, text=True)
        found = json.loads(done.stdout.splitlines()[-1])
        bits.add(found.pop("bits"))
        row |= found
    if len(bits) > 1:
        raise SystemExit(f"{name}: a program compiled otherwise has other bits")
    made = {way: row[f"{way}_first_s"] - row[f"{way}_second_s"] for way in ("hurried", "full")}
    effort = made["full"] - made["hurried"]
    gain = (row["hurried_second_s"] - row["full_second_s"]) / runs / row["budget"] * 1e9
    return row | {"effort_s": effort, "gain_ns": gain / max(effort, 0.1)}


def main() -> None:
    """Measure, print a table, write JSON if asked to."""
    options = parser(__doc__)
    options.add_argument("--only", nargs="+", metavar="POLICY", help="these alone")
    options.add_argument("--one", nargs=4, help="for a process of its own")
    given = options.parse_args()
    if given.one:
        name, arms, runs, way = given.one
        print(json.dumps(one(name, int(arms) or None, int(runs), way)))
        return
    head = facts("hurry", given.quick)
    rows = []
    for name in given.only or names():
        family = name.partition("/")[0]
        runs = FEWER.get(name, RUNS[family])
        sizes = SIZES.get(family, (None,))
        for arms in sizes if name in LARGE else sizes[:1]:
            rows.append(measure(name, arms, 64 if given.quick else runs))
            print(table(rows[-1:], COLUMNS), flush=True)
            save(given.out, head, rows)
    print(table(rows, COLUMNS))


if __name__ == "__main__":
    main()
