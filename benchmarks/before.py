"""What a change of the code costs and gains: the same runs by an older revision and by this tree, in turns.

    python -m benchmarks.before REVISION [--out FILE.json] [--quick] [--only topk/sar ...]

The revision is checked out into a temporary folder. For each policy and setting both trees simulate the same runs, each
in a process of its own, one call after the other (the least of several counts), so that a machine whose clock is not
steady treats both alike. ``speed`` is the old CPU time of a call over the new one: above 1, the new one is faster.
``first_before`` and ``first_after`` are CPU-seconds of the first call, compilation included, without any cache.
Programs are compiled with full effort, as those of long studies are. For so few runs some would be compiled in a hurry,
and run slower.
"""

import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.common import ROOT, Row, facts, parser, save, table

LARGE = 10**8
CASES: list[tuple[str, str, dict[str, Any], dict[str, Any], int]] = [
    *[
        (f"cleaning/{policy}", "synthetic", {"budget": budget}, parameters, runs * 10_000 // budget)
        for policy, parameters, runs in (
            ("known-sc", {}, 8_192), ("ee", {"t": 3, "q": 1.0}, 4_096), ("random", {}, 512), ("greedy", {}, 2_048),
            ("epsilon-greedy", {"epsilon": 0.1}, 256), ("epsilon-greedy", {"epsilon": 0.5}, 256),
        )
        for budget in (1_000, 10_000)
    ],
    ("cleaning/index", "synthetic", {"budget": 1_000}, {}, 1_024),
    *[
        (f"topk/{policy}", "bernoulli", {"n": n, "K": n // 10, "budget": 50 * n}, {}, runs * 1_000 // n)
        for policy, runs in (("uniform", 8_192), ("optmai", 4_096), ("sar", 1_024), ("lucb", 64))
        for n in (100, 1_000)
    ],
    *[
        (f"outliers/{policy}", "synthetic", {"n": n, "budget": LARGE}, {}, runs * 50 // n)
        for policy, runs in (("rr", 1_024), ("wrr", 1_024), ("nrr", 16_384), ("gold", 16))
        for n in (50, 200)
    ],
    ("outliers/ib", "synthetic", {"n": 20, "budget": 100_000}, {}, 64),
    ("extraction/crux", "people", {"budget": 100.0}, {"bootstrap": 0}, 256),
]  # fmt: skip
"""A policy, its problem with what is given of it, the policy's parameters, and how many runs take about a second."""
REPEATS, MOST_REPEATS, LONG_ENOUGH = 5, 30, 15
"""Calls of each tree: at least, at most, and until all took so many CPU-seconds: short ones vary more."""
COLUMNS = {
    "policy": ("policy", ""), "setting": ("setting", ""), "speed": ("speed", ".2f"), "before": ("CPU s, before", ".3f"),
    "after": ("after", ".3f"), "first_before": ("first call, before", ".1f"), "first_after": ("after", ".1f"),
}  # fmt: skip


def serve(number: int, quick: bool) -> None:
    """Prints the CPU-seconds of a call for each line that is read: the child's part, which works in both trees."""
    from jaxbandit import simulate
    from jaxbandit.registry import parse
    from jaxbandit.study.families import FAMILIES

    with suppress(ImportError):  # the older tree may know no other way
        from jaxbandit import jobs

        jobs.WORTH_COMPILING = 0
    name, problem, given, parameters, runs = CASES[number]
    family = FAMILIES[name.partition("/")[0]]
    kind, policy = family.problems[problem], family.policies[name.partition("/")[2]]
    setting = kind.build(**parse("problem", kind.parameters, given))
    pair = setting.problem(), policy.build(setting, **parse("policy", policy.parameters, parameters))[0]
    for _ in sys.stdin:
        start = time.process_time()
        simulate(*pair, runs=16 if quick else runs, progress=lambda *_: None)
        print(time.process_time() - start, flush=True)


def measured(number: int, old: Path, quick: bool) -> Row:
    """A row: both trees' first calls, then calls in turns."""
    name, _, given, parameters, _ = CASES[number]
    command = [sys.executable, str(Path(__file__)), "--serve", str(number), *["--quick"] * quick]
    # One device: the threads of two spin while they wait, in a tree that uses them alone.
    changed = {"JAX_PLATFORMS": "cpu", "JAXBANDIT_CACHE": "off", "JAX_NUM_CPU_DEVICES": "1"}
    children = [
        subprocess.Popen(
            command, cwd=tree, env=os.environ | changed | {"PYTHONPATH": f"{tree}{os.pathsep}{ROOT}"}, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )
        for tree in (old, ROOT)
    ]  # fmt: skip

    def call(child: "subprocess.Popen[str]") -> float:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write("\n")
        child.stdin.flush()
        return float(child.stdout.readline())

    first = [call(child) for child in children]
    times = [[call(child) for child in children]]
    while not quick and len(times) < MOST_REPEATS and (len(times) < REPEATS or sum(map(sum, times)) < LONG_ENOUGH):
        times.append([call(child) for child in children])
    for child in children:
        child.communicate()
    before, after = (min(column) for column in zip(*times, strict=True))
    said = ", ".join(f"{key} = {value:g}" for key, value in (given | parameters).items() if value != LARGE)
    return {
        "policy": name, "setting": said, "speed": before / after, "before": before, "after": after,
        "first_before": first[0] - before, "first_after": first[1] - after,
    }  # fmt: skip


def main() -> int:
    """Measure."""
    options = parser(__doc__)
    options.add_argument("revision", nargs="?", help="what to compare with, as git names it")
    options.add_argument("--only", nargs="+", metavar="NAME", help="policies, as topk/lucb")
    options.add_argument("--serve", type=int, help="a case: answer a line with a call's time (for itself)")
    asked = options.parse_args()
    if asked.serve is not None:
        serve(asked.serve, asked.quick)
        return 0
    if not asked.revision:
        options.error("name the revision to compare with, as HEAD~10")
    head, rows = facts("before", asked.quick), []
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(["git", "archive", asked.revision], cwd=ROOT, check=True, stdout=subprocess.PIPE)
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        for number, (name, *_) in enumerate(CASES[:1] if asked.quick else CASES):
            if not asked.only or name in asked.only:
                rows.append(measured(number, Path(folder), asked.quick))
                print(table(rows[-1:], COLUMNS), flush=True)
                save(asked.out, head, rows)
    print(table(rows, COLUMNS))
    return 0


if __name__ == "__main__":
    sys.exit(main())
