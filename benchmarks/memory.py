"""Peak memory of an EE study over many entities, and the bytes of a lane.

    python -m benchmarks.memory [--out FILE.json] [--quick]

A process of its own runs ``jaxbandit run`` on a study of 1,000 lanes, for 1,000 and for 100 million entities; its peak
resident set is that of JAX, XLA and Matplotlib included. It fails above 4 GiB, if the larger database takes
noticeably more than the smaller, or if the bytes of a lane depend on the number of entities.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.common import ROOT, Row, facts, parser, save, table

LANES, BUDGET, QUICK_BUDGET = 1000, 100_000, 1000
ENTITIES = (1_000, 100_000_000)
LIMIT_GIB, GROWTH_GIB = 4.0, 0.25

STUDY = """seed = 0
runs = {runs}
[problem]
kind = "cleaning/synthetic"
entities = {entities}
budget = {budget}
false_values = {{ uniform = [0, 19] }}
sc_pdf = "uniform"
[[policy]]
kind = "ee"
"""


def _peak() -> int:
    """This process's peak resident set in bytes. Not by getrusage on Linux: there a child begins with its parent's."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def lane_bytes(entities: int, budget: int) -> int:
    """What a lane of EE keeps between steps: its stream, its instance and its state."""
    import jax
    import numpy as np

    from jaxbandit.cleaning import EE, Uniform, synthetic, uniform_false_values
    from jaxbandit.random import stream

    problem = synthetic(budget=budget, entities=entities, false_values=uniform_false_values(0, 19), sc_pdf=Uniform())
    policy = EE(np.int32(3), np.int32(3), np.bool_(True))

    def begin() -> object:
        key = stream(0, 0)
        instance = problem.draw(key)
        return key, instance, policy.init(problem.view(key, instance))

    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(jax.eval_shape(begin)))


def _study(entities: int, budget: int, folder: str) -> Row:
    """In a fresh process: the study from file to picture, then the figures."""
    from jaxbandit.cli import main as jaxbandit

    os.environ["JAXBANDIT_CACHE"] = "off"  # to compile is part of what is measured
    file = Path(folder, "study.toml")
    file.write_text(STUDY.format(runs=LANES, entities=entities, budget=budget))
    code = jaxbandit(["run", str(file), "--out", str(Path(folder, "out"))])
    if code:
        raise SystemExit(code)
    return {
        "entities": entities,
        "lanes": LANES,
        "budget": budget,
        "peak_gib": _peak() / 2**30,
        "lane_bytes": lane_bytes(entities, budget),
    }


def measure(entities: int, budget: int) -> Row:
    """One study, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        code = f"import json; from benchmarks.memory import _study; r = _study({entities}, {budget}, {folder!r})"
        done = subprocess.run(
            [sys.executable, "-c", f"{code}; print(json.dumps(r))"],
            cwd=ROOT, check=False, capture_output=True, text=True,
        )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"the study over {entities} entities ended with {done.returncode}:\n{done.stderr}")
    row: Row = json.loads(done.stdout.splitlines()[-1])
    return row


def main() -> None:
    """Measure, print a table, write JSON if asked to; fail where a limit is passed."""
    given = parser(__doc__).parse_args()
    head = facts("memory", given.quick) | {"limit_gib": LIMIT_GIB}
    rows = [measure(entities, QUICK_BUDGET if given.quick else BUDGET) for entities in ENTITIES]
    print(table(rows, {"entities": ("entities", ","), "lanes": ("lanes", ","), "budget": ("budget", ","),
                       "peak_gib": ("peak (GiB)", ".3f"), "lane_bytes": ("bytes a lane", "")}))  # fmt: skip
    save(given.out, head, rows)
    small, large = rows[0], rows[-1]
    if large["peak_gib"] > LIMIT_GIB:
        raise SystemExit(f"peak of {large['peak_gib']:.2f} GiB, allowed are {LIMIT_GIB}")
    if large["peak_gib"] > small["peak_gib"] + GROWTH_GIB:
        raise SystemExit("the peak grows with the number of entities")
    if large["lane_bytes"] != small["lane_bytes"]:
        raise SystemExit("a lane's bytes grow with the number of entities")


if __name__ == "__main__":
    main()
