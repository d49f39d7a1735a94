"""What XLA's full effort for a program costs and gains, for each policy: the reason of ``Execution.gain_ns``.

    python -m benchmarks.hurry [--out FILE.json] [--quick] [--only topk/lucb ...]

Each policy makes its runs twice in a fresh process that has no cache of programs, once with its program compiled in a
hurry (``xla.options.HURRIED``) and once in full. ``first``: CPU-seconds of the first call, compilation included;
``second``: of the second one. ``gain_ns``: what the full effort gains in the second call, by the unit of the problems'
budget, in nanoseconds. It fails where the two have not the same bits.
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
COLUMNS = {
    "policy": ("policy", ""), "arms": ("n", ",d"), "runs": ("runs", ",d"), "hurried_first_s": ("first: hurried", ".1f"),
    "full_first_s": ("full", ".1f"), "hurried_second_s": ("second: hurried", ".2f"), "full_second_s": ("full", ".2f"),
    "gain_ns": ("gain, ns a unit", ",.1f"),
}  # fmt: skip


def one(name: str, arms: int | None, runs: int, way: str) -> Row:
    """The costs in this process, which has compiled nothing before."""
    from jaxbandit import jobs, simulate
    from jaxbandit.devices import use_all_cores

    use_all_cores()
    jobs.WORTH_COMPILING = np.inf if way == "hurried" else -1.0
    problem, policy = built(name, arms)
    row: Row = {"budget": float(problem.budget)}
    bits = hashlib.sha256()
    for call in ("first", "second"):
        start = time.process_time()
        answers = simulate(problem, policy, runs=runs, progress=False)
        row[f"{way}_{call}_s"] = time.process_time() - start
        for key in sorted(answers):
            bits.update(key.encode() + answers[key].tobytes())
    return row | {"bits": bits.hexdigest()}


def measure(name: str, arms: int | None, runs: int) -> Row:
    """Both ways, each in a process of its own."""
    row: Row = {"policy": name, "arms": arms, "runs": runs}
    bits = set()
    for way in ("hurried", "full"):
        words = [sys.executable, "-m", "benchmarks.hurry", "--one", name, str(arms or 0), str(runs), way]
        own = {key: value for key, value in os.environ.items() if not key.startswith(("JAX_", "XLA_"))}
        done = subprocess.run(words, cwd=ROOT, env=own, check=True, capture_output=True, text=True)
        found = json.loads(done.stdout.splitlines()[-1])
        bits.add(found.pop("bits"))
        row |= found
    if len(bits) > 1:
        raise SystemExit(f"{name}: a program compiled in a hurry has other bits")
    row["gain_ns"] = (row["hurried_second_s"] - row["full_second_s"]) / runs / row["budget"] * 1e9
    return row


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
        for arms in SIZES.get(family, (None,))[:1]:
            rows.append(measure(name, arms, 64 if given.quick else runs))
            print(table(rows[-1:], COLUMNS), flush=True)
    print(table(rows, COLUMNS))
    save(given.out, head, rows)


if __name__ == "__main__":
    main()
