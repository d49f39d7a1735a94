"""What XLA's full effort for a program costs and gains, for each policy: the reason of
``Execution.gain_ns``, ``Execution.loss_ns`` and ``Execution.level``.

    python -m benchmarks.hurry [--out FILE.json] [--quick] [--only topk/lucb ...]

Each policy makes its runs in a fresh process that has no cache of programs, with its program compiled in a hurry
(``xla.options.HURRIED``), in full at its own level of LLVM's optimization, and in full at the ``other`` one of 2 and 3;
and with the ``least`` effort, a tenth of the runs, where no rounding is left to the compiler (``xla.contraction``).
``first``: CPU-seconds of the first call, compilation included; ``second``: the least of three more calls. ``effort``:
CPU-seconds that the full effort takes more. ``gain_ns``: what it gains in a later call for each of these seconds, by
the unit of the problems' budget (to the power of ``Execution.growth``), in nanoseconds; ``saved`` and ``loss_ns``: the
same of the least effort against a hurry. It fails where they have not the same bits.
"""

import hashlib
import json
import os
import subprocess
import sys
import time

from benchmarks.common import ROOT, Row, facts, parser, save, table
from benchmarks.compile import SIZES, built, names

RUNS = {"cleaning": 8_000, "topk": 8_000, "outliers": 2_000, "extraction": 1_000}
FEWER = {"outliers/ib": 200, "outliers/gold": 500, "extraction/gs-exact": 100}
LARGE = ("outliers/gold", "outliers/rr", "outliers/wrr")
"""Measured with many arms too, where the level matters more."""
COLUMNS = {
    "policy": ("policy", ""), "arms": ("n", ",d"), "runs": ("runs", ",d"), "hurried_first_s": ("first: hurried", ".1f"),
    "full_first_s": ("full", ".1f"), "hurried_second_s": ("second: hurried", ".2f"), "full_second_s": ("full", ".2f"),
    "other_second_s": ("other level", ".2f"), "level": ("level", "d"),
    "effort_s": ("effort", ".1f"), "gain_ns": ("gain, ns a unit", ",.1f"),
    "least_first_s": ("first: least", ".1f"), "saved_s": ("saved", ".1f"), "loss_ns": ("loss, ns a unit", ",.0f"),
}  # fmt: skip


def one(name: str, arms: int | None, runs: int, way: str) -> Row:
    """The costs in this process, which has compiled nothing before."""
    from jaxbandit import jobs, lanes, simulate
    from jaxbandit.devices import use_all_cores
    from jaxbandit.grammar import accelerated, execution_of
    from jaxbandit.xla.options import Effort, options_for

    use_all_cores()
    effort = {"hurried": Effort.LITTLE, "least": Effort.LEAST}.get(way, Effort.FULL)
    jobs.Jobs._effort = lambda self, execution, size: effort
    if way == "other":
        lanes.options_for = lambda platform, effort, level: options_for(platform, effort, 5 - level)
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
    execution = execution_of(accelerated(policy, problem))
    row: Row = {"budget": float(problem.budget), "growth": execution.growth, "level": execution.level}
    alike = all(jobs._alike.values())
    return row | {f"{way}_first_s": first, f"{way}_second_s": min(later), "bits": bits.hexdigest(), "alike": alike}


def in_a_process(name: str, arms: int | None, runs: int, way: str) -> Row:
    """What ``one`` finds in a process of its own."""
    words = [sys.executable, "-m", "benchmarks.hurry", "--one", name, str(arms or 0), str(runs), way]
    own = {key: value for key, value in os.environ.items() if not key.startswith(("JAX_", "XLA_"))}
    done = subprocess.run(words, cwd=ROOT, env=own, check=True, capture_output=True, text=True)
    found: Row = json.loads(done.stdout.splitlines()[-1])
    return found


def compared(name: str, arms: int | None, runs: int, dear: str, cheap: str, *others: str) -> tuple[Row, float, float]:
    """What was found in all these ways; the seconds that a program of the ``dear`` way takes more; and what it gains in
    a later call for each of these, in nanoseconds by the unit of the budget (``Execution.growth``)."""
    found = {way: in_a_process(name, arms, runs, way) for way in (dear, cheap, *others)}
    if len({each["bits"] for each in found.values()}) > 1:
        raise SystemExit(f"{name}: a program compiled otherwise has other bits")
    row = {key: value for each in found.values() for key, value in each.items() if key != "bits"}
    effort = sum(sign * (row[f"{way}_first_s"] - row[f"{way}_second_s"]) for way, sign in ((dear, 1), (cheap, -1)))
    gain = (row[f"{cheap}_second_s"] - row[f"{dear}_second_s"]) / runs / row["budget"] ** row["growth"] * 1e9
    return row, effort, gain / max(effort, 0.1)


def measure(name: str, arms: int | None, runs: int) -> Row:
    """All ways, each in a process of its own."""
    least, saved, loss = compared(name, arms, max(runs // 10, 64), "hurried", "least")
    row, effort, gain = compared(name, arms, runs, "full", "hurried", "other")
    row = {"policy": name, "arms": arms, "runs": runs} | row | {"effort_s": effort, "gain_ns": gain}
    if least["alike"]:
        row |= {"least_first_s": least["least_first_s"], "saved_s": saved, "loss_ns": loss}
    return row | {"alike": least["alike"]}


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
