"""How often an accelerator waits for its host in a step of each policy: turns of dynamic loops, and conditions.

    python -m benchmarks.waits [--only wrr topk/lucb ...] [--lanes 1024] [--out FILE.json]

On a CPU, by the ways that accelerators take: each loop whose number of turns XLA does not know counts its questions
whether to go on, and each condition the branches that it takes. Steps are those of the second and the third round, on
the settings of ``benchmarks.accelerator``. Where all runs end in the first round, ``waits`` counts all of it, and
``steps`` is 0. ``most``: what waits most.
"""

import argparse
import collections
import json
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

from benchmarks.accelerator import names
from benchmarks.common import ROOT, Row, facts, save, table

ROUNDS, NAMED = 2, 3
WAYS = ("xla/fence.py", "xla/platforms.py")
COLUMNS = {
    "policy": ("policy", ""), "lanes": ("lanes", ",d"), "steps": ("steps", "d"), "waits": ("waits a step", ",.1f"),
    "most": ("most of them", ""), "error": ("error", ""),
}  # fmt: skip


def _site() -> str:
    """The line of the package that makes a loop."""
    frames = (frame for frame in reversed(traceback.extract_stack()) if "/jaxbandit/" in frame.filename)
    place = next(frame for frame in frames if not frame.filename.endswith(WAYS))
    return f"{place.filename.rpartition('/jaxbandit/')[2]}:{place.lineno}"


Counts = collections.Counter[tuple[str, int]]
"""By the line of a loop and 0, or that of a condition and the number of its branch, from 1."""


def counting(counts: Counts) -> None:
    """Has all loops and conditions that are traced from now on count, and take the ways of accelerators."""
    import jax
    from jax import lax
    from jax._src.lax.control_flow import loops  # where fori_loop finds it

    from jaxbandit.xla import platforms

    while_loop, cond, switch, sites = loops.while_loop, lax.cond, lax.switch, []

    def counted(function: Any, branch: int = 0) -> Any:
        sites.append((_site(), branch))
        number = len(sites) - 1

        def asked(*values: Any) -> Any:
            jax.debug.callback(lambda: counts.update([sites[number]]))
            return function(*values)

        return asked

    def all_counted(ways: Any) -> list[Any]:
        return [counted(way, branch) for branch, way in enumerate(ways, 1)]

    loops.while_loop = lax.while_loop = lambda going, *rest: while_loop(counted(going), *rest)
    lax.cond = lambda where, yes, no, *operands: cond(where, *all_counted([yes, no]), *operands)
    lax.switch = lambda number, ways, *operands: switch(number, all_counted(ways), *operands)
    platforms.known = lambda: None
    lax.platform_dependent = lambda *operands, default, **ways: default(*operands)


def _waits(counts: Counts) -> collections.Counter[str]:
    """By lines. A condition whose branches are all taken equally often is none: where lanes differ, JAX makes a choice
    between the results of all branches, for which nothing waits."""
    found: collections.Counter[str] = collections.Counter()
    for place in {place for place, _ in counts}:
        found[place] = counts[place, 0]
        taken = [count for (where, branch), count in counts.items() if where == place and branch]
        found[place] += sum(taken) if len(taken) < 2 or len({*taken}) > 1 else 0
    return +found


def one(name: str, lanes: int) -> Row:
    """A policy's figures, counted in this process."""
    import logging

    import jax

    from benchmarks.accelerator import Case
    from jaxbandit.grammar import accelerated, execution_of

    logging.getLogger("jaxbandit").setLevel(logging.ERROR)  # runs are stopped early
    counts: Counts = collections.Counter()
    counting(counts)
    case = Case(name, [lanes])
    problem, policy = case.pair
    stride = execution_of(accelerated(policy, problem)).stride

    def asked(rounds: int) -> tuple[bool, Counts]:
        """Whether some runs do not end in so many rounds, and the questions."""
        counts.clear()
        answers = case.call(lanes, lanes, jax.devices("cpu")[:1], steps=rounds * stride)
        jax.effects_barrier()
        return bool(answers["endless"].any()), counts.copy()

    go_on, found = asked(1)
    steps = ROUNDS * stride if go_on else 0
    more = asked(1 + ROUNDS)[1] - found if go_on else found
    each = {place: count / max(steps, 1) for place, count in _waits(more).most_common()}
    most = ", ".join(f"{place} {count:.1f}" for place, count in [*each.items()][:NAMED])
    return {"policy": name, "lanes": lanes, "steps": steps, "waits": sum(each.values()), "most": most}


def main() -> int:
    """Count, print a table, write JSON; 1 if a policy failed."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", nargs="+", metavar="NAME", help="policies, or families, or both as topk/sar")
    options.add_argument("--lanes", type=int, default=1024)
    options.add_argument("--out", type=Path, metavar="FILE.json", help="write the figures to this file as JSON")
    options.add_argument("--process", metavar="NAME", help="count one policy in this process (for itself)")
    given = options.parse_args()
    if given.process:
        print(json.dumps(one(given.process, given.lanes)))
        return 0
    head, rows = facts("waits", False), []
    for name in names():
        if given.only and not {name, *name.split("/")} & {*given.only}:
            continue
        command = [sys.executable, "-m", "benchmarks.waits", "--lanes", str(given.lanes), "--process", name]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        told = done.stderr.strip().splitlines() or ["no message"]
        rows.append(
            {"policy": name, "error": told[-1]} if done.returncode else json.loads(done.stdout.splitlines()[-1])
        )
        text = table(rows, COLUMNS).splitlines()
        print("\n".join(text if len(rows) == 1 else text[-1:]), flush=True)
        save(given.out, head, rows)
    return int(any("error" in row for row in rows))


if __name__ == "__main__":
    sys.exit(main())
