"""What each fence gains: the CPU time of a policy with all fences of ``jaxbandit.xla.fence``, and with all but one.

    python -m benchmarks.fences [--out FILE.json] [--quick] [--only greedy topk/lucb ...]

A place is a line of the package that asks for a fence. Each policy is simulated in a process of its own; for each place
that its program meets, the program is compiled without it, and calls of both are timed in turns (the least of several).
``gain`` is the time without the fence over that with it, ``compile`` the same of the CPU time of the first call. A
place that gains less than 5 % under each policy that meets it should go. Results must be the same bits either way, or
the row says ``other bits``: a fence may decide whether floating point operations are contracted.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import ROOT, Row, facts, parser, save, table

CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any], int]] = {
    "cleaning/known-sc": ("synthetic", {"budget": 10_000}, {}, 16_384),
    "cleaning/ee": ("synthetic", {"budget": 10_000}, {"t": 3, "q": 1.0}, 8_192),
    "cleaning/random": ("synthetic", {"budget": 10_000}, {}, 1_024),
    "cleaning/greedy": ("synthetic", {"budget": 10_000}, {}, 4_096),
    "cleaning/epsilon-greedy": ("synthetic", {"budget": 10_000}, {"epsilon": 0.1}, 512),
    "cleaning/index": ("synthetic", {"budget": 10_000}, {}, 512),
    "cleaning/random, counted": ("synthetic", {"budget": 10_000, "paired": False}, {}, 8_192),
    "cleaning/greedy, counted": ("synthetic", {"budget": 10_000, "paired": False}, {}, 16_384),
    "cleaning/epsilon-greedy, counted": ("synthetic", {"budget": 10_000, "paired": False}, {"epsilon": 0.5}, 2_048),
    "topk/optmai": ("bernoulli", {"n": 1000, "K": 100, "budget": 50_000}, {}, 2_048),
    "topk/lucb": ("bernoulli", {"n": 1000, "K": 100, "budget": 50_000}, {}, 128),
    "outliers/rr": ("synthetic", {"n": 50, "budget": 10**8}, {}, 1_024),
    "outliers/wrr": ("synthetic", {"n": 50, "budget": 10**8}, {}, 1_024),
    "outliers/ib": ("synthetic", {"n": 20, "budget": 100_000}, {}, 64),
    "outliers/gold": ("synthetic", {"n": 50, "budget": 10**8}, {}, 512),
    "extraction/crux": ("people", {"budget": 100.0}, {}, 256),
}
"""The problem of each policy with its parameters, the policy's, and how many runs take about a second."""
REPEATS = 3
COLUMNS = {
    "policy": ("policy", ""), "place": ("place", ""), "fence": ("fence", ""), "gain": ("gain", ".2f"),
    "compile": ("compile", ".2f"), "bits": ("", ""),
}  # fmt: skip


class Places:
    """Fences that know where they are asked for, of which one can be taken away."""

    def __init__(self) -> None:
        from jax import lax

        from jaxbandit.xla import fence

        self.met: dict[tuple[str, str], None] = {}
        self.without: tuple[str, str] | None = None
        self._of_use("once", fence, lambda x: x)
        self._of_use("once_in_blocks", fence, lambda x: x)
        self._of_use("as_one_kernel", fence, lambda function: function())
        self._of_use("walk", fence, _plain_walk)
        self._of_use("where_due", fence, lambda due, function, state: lax.cond(due, function, lambda same: same, state))
        self._decorators(fence)

    def _here(self, name: str, place: str) -> bool:
        """Whether the fence is away."""
        self.met[place, name] = None
        return self.without == (place, name)

    def _of_use(self, name: str, module: Any, plain: Callable[..., Any]) -> None:
        fenced = getattr(module, name)

        def asked(*arguments: Any, **named: Any) -> Any:
            return plain(*arguments) if self._here(name, _caller()) else fenced(*arguments, **named)

        setattr(module, name, asked)

    def _decorators(self, module: Any) -> None:
        """Those that are asked for when a module is imported, and met when a program is traced."""
        computed_once, side_by_side = module.computed_once, module.side_by_side

        def once(function: Callable[..., Any]) -> Callable[..., Any]:
            place, fenced = _caller(), computed_once(function)
            return lambda *of: (function if self._here("computed_once", place) else fenced)(*of)

        def beside(count: int) -> Callable[..., Any]:
            place, fenced = _caller(), side_by_side(count)

            def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
                rows, numbers = fenced(function), np.arange(count, dtype=np.int32)

                def plain(*of: Any) -> tuple[Any, ...]:
                    return tuple(function(number, *of) for number in numbers)

                return lambda *of: (plain if self._here("side_by_side", place) else rows)(*of)

            return decorate

        module.computed_once, module.side_by_side = once, beside


def _plain_walk(
    step: Callable[[Any, Any], Any], going: Callable[[Any], Any], state: Any, most: int, abreast: int
) -> Any:
    from jax import lax

    return lax.while_loop(
        lambda counted: (counted[0] < most) & going(counted[1]),
        lambda counted: (counted[0] + 1, step(counted[1], going(counted[1]))),
        (0, state),
    )[1]


def _caller() -> str:
    """The line of the package that asks, as cleaning/ee.py:20."""
    frame = sys._getframe(2)
    return f"{Path(frame.f_code.co_filename).relative_to(ROOT / 'jaxbandit')}:{frame.f_lineno}"


def _built(name: str) -> tuple[Any, Any]:
    from jaxbandit.registry import parse
    from jaxbandit.study.families import FAMILIES

    problem_name, given, parameters, _ = CASES[name]
    family = FAMILIES[name.partition("/")[0]]
    kind, policy = family.problems[problem_name], family.policies[name.partition("/")[2].partition(",")[0]]
    setting = kind.build(**parse("problem", kind.parameters, given))
    return setting.problem(), policy.build(setting, **parse("policy", policy.parameters, parameters))[0]


def one(name: str, quick: bool) -> None:
    """Prints a row for each place that a policy's program meets: in a process of its own."""
    import jax

    from jaxbandit.devices import use_all_cores

    use_all_cores()

    places = Places()
    from jaxbandit import jobs, lanes, simulate

    jobs.WORTH_COMPILING = -1.0  # in full: programs that are compiled in a hurry gain nothing by fences
    problem, policy = _built(name)
    runs = 16 if quick else CASES[name][3]

    def spent() -> tuple[float, float, dict[str, Any]]:
        """CPU-seconds of the first call, anew, and of the fastest of some more."""
        jax.clear_caches()
        lanes.chunk_function.cache_clear()
        lanes._shapes.cache_clear()
        start = time.process_time()
        simulate(problem, policy, runs=runs, progress=False)
        first, least = time.process_time() - start, float("inf")
        for _ in range(1 if quick else REPEATS):
            start = time.process_time()
            found = simulate(problem, policy, runs=runs, progress=False)
            least = min(least, time.process_time() - start)
        return first - least, least, found

    cold, fast, found = spent()
    for place, fence in list(places.met):
        places.without = place, fence
        compiling, slow, other = spent()
        places.without = None
        fast = min(fast, spent()[1])
        same = all(np.array_equal(found[key], other[key]) for key in found)
        row = {"policy": name, "place": place, "fence": fence, "gain": slow / fast, "compile": compiling / cold}
        print(json.dumps(row | {"bits": "" if same else "other bits", "cpu_s": fast}), flush=True)


def measure(name: str, quick: bool) -> list[Row]:
    """The rows of a policy. What is compiled again comes from a cache that goes with the process; first calls of the
    program with all fences are made without."""
    with tempfile.TemporaryDirectory() as folder:
        changed = {"JAX_PLATFORMS": "cpu", "JAX_COMPILATION_CACHE_DIR": folder}
        command = [sys.executable, "-m", "benchmarks.fences", "--process", name] + ["--quick"] * quick
        said = subprocess.run(
            command, cwd=ROOT, env=os.environ | changed, check=True, stdout=subprocess.PIPE, text=True
        ).stdout
    return [json.loads(line) for line in said.splitlines() if line.startswith("{")]


def main() -> int:
    """Measure."""
    options = parser(__doc__)
    options.add_argument("--only", nargs="+", metavar="NAME", help="policies, as lucb or topk/lucb")
    options.add_argument("--process", help="a policy: measure in this process (for itself)")
    given = options.parse_args()
    if given.process:
        one(given.process, given.quick)
        return 0
    head = facts("fences", given.quick)
    wanted = [name for name in CASES if not given.only or {name, name.partition("/")[2]} & {*given.only}]
    rows: list[Row] = []
    for name in wanted[:1] if given.quick else wanted:
        rows += measure(name, given.quick)
        print(table(rows, COLUMNS), flush=True)
        save(given.out, head, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
