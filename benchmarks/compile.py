"""What the first call of each registered policy costs: the size of its program, and the CPU time to make it.

    python -m benchmarks.compile [--out FILE.json] [--quick] [--only optmai topk/sar ...] [--note TEXT]

Each policy makes 128 runs on a small problem of its family, twice, in a fresh process with an empty cache of programs.
``instructions`` counts those of XLA's optimized program. ``trace_s``, ``lower_s`` and ``compile_s`` are CPU-seconds of
all threads, for the program of the chunk alone; ``first_s`` is all of the first call of ``simulate``, ``second_s`` the
second call; ``warm_s`` is the first call of a second process, which finds the cache full. Rules for arms are measured
at several numbers of arms. It fails if a process does.
"""

import functools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any
from unittest import mock

from benchmarks.common import ROOT, Row, facts, parser, save, table

PROBLEMS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "cleaning": ("synthetic", {"budget": 1000}),
    "topk": ("bernoulli", {}),
    "outliers": ("synthetic", {"budget": 100_000}),
    "extraction": ("people", {"budget": 50.0}),
}
"""A problem of each family; the sizes of those of arms are in ``SIZES``."""
SIZES: Mapping[str, tuple[int, ...]] = {"topk": (100, 10_000), "outliers": (20, 400)}
POLICIES: Mapping[str, dict[str, Any]] = {"ee": {"t": 3, "q": 1.0}}
"""Parameters of policies, where the default is a search that takes time."""
RUNS = 128
"""Enough lanes on each core for whole vectors: the program of a single lane is smaller, and nobody runs it."""

COLUMNS = {
    "policy": ("policy", ""), "arms": ("n", ",d"), "instructions": ("instructions", ",d"), "trace_s": ("trace", ".1f"),
    "lower_s": ("lower", ".1f"), "compile_s": ("compile", ".1f"), "first_s": ("first call", ".1f"),
    "second_s": ("second", ".2f"), "warm_s": ("another process", ".1f"),
}  # fmt: skip


ESTIMATORS = ("clocks", "hwang-shen", "new-regr")
"""Of crux: other ones than the default that have larger programs."""


def names() -> list[str]:
    """All policies, as topk/optmai, and extraction/crux once more with each of ``ESTIMATORS``."""
    from jaxbandit.study.families import FAMILIES

    policies = [f"{family}/{policy}" for family in FAMILIES for policy in FAMILIES[family].policies]
    return [*policies, *(f"extraction/crux {estimator}" for estimator in ESTIMATORS)]


def built(name: str, arms: int | None) -> tuple[Any, Any]:
    """A problem and a policy."""
    from jaxbandit.registry import parse
    from jaxbandit.study.families import FAMILIES

    family_name, _, policy_name = name.partition("/")
    policy_name, _, estimator = policy_name.partition(" ")
    family, (problem_name, given) = FAMILIES[family_name], PROBLEMS[family_name]
    if arms is not None:
        given = given | ({"n": arms, "K": arms // 10, "budget": 10 * arms} if family_name == "topk" else {"n": arms})
    if policy_name == "gs-exact":
        given = given | {"informed": True}
    kind, policy = family.problems[problem_name], family.policies[policy_name]
    setting = kind.build(**parse("problem", kind.parameters, given))
    options = {"estimator": estimator} if estimator else POLICIES.get(policy_name, {})
    built, _ = policy.build(setting, **parse("policy", policy.parameters, options))
    return setting.problem(), built


def _timed(row: Row, key: str, function: Callable[[], Any]) -> Any:
    """What the function returns; the CPU-seconds of all threads meanwhile are added to the row."""
    start = time.process_time()
    made = function()
    row[key] = row.get(key, 0) + time.process_time() - start
    return made


def one(name: str, arms: int | None) -> Row:
    """The costs in this process, which has compiled nothing before."""
    from jaxbandit import cache, jobs, simulate
    from jaxbandit.devices import use_all_cores

    use_all_cores()
    cache()
    problem, policy = built(name, arms)
    row: Row = {"policy": name, "arms": arms}
    compiled, alike = jobs.chunk_function, jobs.alike

    class Staged:
        """A function of ``jax.jit`` whose stages are timed."""

        def __init__(self, *structure: Any) -> None:
            self.__wrapped__ = compiled(*structure)

        def __call__(self, *arguments: Any) -> Any:
            return self.__wrapped__(*arguments)

        def lower(self, *arguments: Any) -> Any:
            traced = _timed(row, "trace_s", lambda: self.__wrapped__.trace(*arguments))
            self._lowered = _timed(row, "lower_s", traced.lower)
            return self

        def compile(self) -> Any:
            made = _timed(row, "compile_s", self._lowered.compile)
            row["instructions"] = row.get("instructions", 0) + made.as_text().count(" = ")
            return made

    # A program is traced when its effort is decided, where it is looked through, or when it is lowered.
    looked_through = functools.partial(_timed, row, "trace_s")
    first = {"chunk_function": Staged, "alike": lambda *given: looked_through(lambda: alike(*given))}
    for call in ("first_s", "second_s"):
        with mock.patch.multiple(jobs, **(first if call == "first_s" else {"chunk_function": compiled})):
            start = time.process_time()
            simulate(problem, policy, runs=RUNS, progress=False)
            row[call] = time.process_time() - start
    return row


def measure(name: str, arms: int | None) -> Row:
    """The same, in two fresh processes, of which the second has the programs of the first."""
    own = {key: value for key, value in os.environ.items() if not key.startswith(("JAX_", "XLA_"))}
    command = [sys.executable, "-m", "benchmarks.compile", "--process", json.dumps([name, arms])]
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(2):
            said = subprocess.run(
                command, cwd=ROOT, env=own | {"JAX_PLATFORMS": "cpu", "JAXBANDIT_CACHE": folder}, check=True,
                stdout=subprocess.PIPE, text=True,
            ).stdout  # fmt: skip
            rows.append(json.loads(said.splitlines()[-1]))
    return {**rows[0], "warm_s": rows[1]["first_s"]}


def main() -> None:
    """Measure, print a table, write JSON if asked to."""
    options = parser(__doc__)
    options.add_argument("--only", nargs="+", metavar="NAME", help="policies, or families, or both as topk/sar")
    options.add_argument("--note", default="", help="what else is to be known of these numbers")
    options.add_argument("--process", type=json.loads, help="[name, arms]: measure in this process (for itself)")
    given = options.parse_args()
    if given.process:
        print(json.dumps(one(*given.process)))
        return
    head = facts("compile", given.quick) | {"runs": RUNS, "note": given.note}
    wanted = [name for name in names() if not given.only or {name, *name.split("/")} & {*given.only}]
    rows: list[Row] = []
    for name in wanted[:1] if given.quick else wanted:
        for arms in SIZES.get(name.partition("/")[0], (None,)):
            rows.append(measure(name, arms))
            text = table(rows, COLUMNS).splitlines()
            print("\n".join(text if len(rows) == 1 else text[-1:]), flush=True)
            save(given.out, head, rows)


if __name__ == "__main__":
    main()
