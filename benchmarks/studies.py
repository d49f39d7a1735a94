"""What a stored study costs beyond its simulation.

    python -m benchmarks.studies [--out FILE.json] [--quick]

Measured on EE: the share of a study's wall time that goes into storing, at chunks of about ten seconds; the time to
find a finished study of 10,000 files of chunks complete; the bytes of a stored run; time and peak memory of the summary
of 10^7 stored runs, read again from disk; and by how much checkpoints make a run of the paper's setting longer, in
process time on one device. Limits: 5 %, 2 s, 10 s and 2 GiB; 10 % at four checkpoints.
"""

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.common import ROOT, Row, facts, parser, save, table

LIMITS = {
    "storing (share of wall time)": 0.05,
    "resuming 10,000 chunks (s)": 2.0,
    "summary of 10^7 runs (s)": 10.0,
    "summary of 10^7 runs, peak (GiB)": 2.0,
    "4 checkpoints (share of run time)": 0.10,
}
REPEATS = 5


def _study(runs: int, **changes: Any) -> Any:
    from jaxbandit import Study

    problem = {"kind": "cleaning/synthetic", "entities": 50_000, "false_values": {"uniform": [0, 19]}}
    mapping = {"runs": runs, "problem": problem, "policy": [{"kind": "ee", "t": 3, "q": 0.667}]}
    return Study.of(mapping | changes)


def storing(folder: str, quick: bool) -> Row:
    """Wall time of a study whose chunks take about ten seconds, and how much of it was not spent in ``simulate``."""
    from jaxbandit.engine import Batch
    from jaxbandit.study import run as running

    spent = 0.0
    original = Batch.run

    def timed(*given: Any, **named: Any) -> Any:
        nonlocal spent
        start = time.perf_counter()
        result = original(*given, **named)
        spent += time.perf_counter() - start
        return result

    Batch.run = timed  # type: ignore[method-assign]
    sweep = {"budget": [1000, 2000, 5000, 10_000]}
    running.run(_study(256, sweep=sweep), Path(folder, "warm"))
    spent = 0.0
    runs = 4096 if quick else 600_000
    start = time.perf_counter()
    running.run(_study(runs, sweep=sweep), Path(folder, "timed"))
    took = time.perf_counter() - start
    return {"what": "storing (share of wall time)", "value": 1 - spent / took, "detail": f"{took:.1f} s in all"}


def resuming(folder: str, quick: bool) -> Row:
    """Time of ``run`` on a finished study."""
    from jaxbandit.study.run import run

    budgets = list(range(2, 22 if quick else 252))
    study = _study(4096, sweep={"budget": budgets})
    run(study, folder)
    files = sum(1 for path in Path(folder).rglob("*") if path.is_file() and "c" in path.parts)
    start = time.perf_counter()
    run(_study(4096, sweep={"budget": budgets}), folder)
    took = time.perf_counter() - start
    return {"what": "resuming 10,000 chunks (s)", "value": took, "detail": f"{files:,} files of chunks"}


def stored(folder: str, quick: bool) -> Row:
    """Bytes of the store for a run of the paper's setting."""
    from jaxbandit.study.run import run

    runs = 2_000 if quick else 100_000
    run(_study(runs, sweep={"budget": [10_000]}), folder)
    size = sum(path.stat().st_size for path in Path(folder, "results.zarr").rglob("*") if path.is_file())
    return {"what": "a stored run (bytes)", "value": size / runs, "detail": f"{runs:,} runs, 4 metrics"}


def summary(folder: str, quick: bool) -> list[Row]:
    """Time and memory of the rows of a study whose values are all stored, in a fresh process."""
    from jaxbandit.study.run import run

    runs = 10**5 if quick else 10**7
    if not Path(folder, "results.zarr").exists():
        run(_study(runs, sweep={"budget": [20]}), folder)
        for name in ("summary.json", "finished.json"):
            Path(folder, name).unlink()
        code = f"import json; from benchmarks.studies import summary; print(json.dumps(summary({folder!r}, {quick})))"
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
        rows: list[Row] = json.loads(done.stdout.splitlines()[-1])
        return rows
    start = time.perf_counter()
    run(_study(runs, sweep={"budget": [20]}), folder)
    took = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return [
        {"what": "summary of 10^7 runs (s)", "value": took, "detail": f"{runs:,} runs, 4 metrics"},
        {"what": "summary of 10^7 runs, peak (GiB)", "value": peak / 2**30, "detail": "of the whole process"},
    ]


def checkpoints(many: int, quick: bool) -> Row:
    """Median of process times with checkpoints over without, in alternation, on one device."""
    import jax

    from jaxbandit import cleaning, simulate

    problem = cleaning.synthetic(
        budget=10_000, entities=50_000, false_values=cleaning.uniform_false_values(0, 19), sc_pdf=cleaning.Uniform()
    )
    at = [10_000 * (number + 1) // (many + 1) for number in range(many)]

    def once(recorded: list[int]) -> float:
        start = time.process_time()
        simulate(
            problem,
            cleaning.ee(3, 0.667),
            runs=256 if quick else 40_000,
            checkpoints=recorded,
            devices=jax.devices()[:1],
        )
        return time.process_time() - start

    once([]), once(at)
    ratios = [once(at) / once([]) for _ in range(REPEATS)]
    return {
        "what": f"{many} checkpoints (share of run time)", "value": statistics.median(ratios) - 1,
        "detail": f"{min(ratios) - 1:.1%} to {max(ratios) - 1:.1%}",
    }  # fmt: skip


def main() -> None:
    """Measure, print a table, write JSON if asked to; fail where a limit is passed."""
    given = parser(__doc__).parse_args()
    head = facts("studies", given.quick) | {"limits": LIMITS}
    with tempfile.TemporaryDirectory() as folder:
        rows = [
            storing(folder, given.quick),
            resuming(f"{folder}/resumed", given.quick),
            stored(f"{folder}/stored", given.quick),
            *summary(f"{folder}/summary", given.quick),
            *(checkpoints(many, given.quick) for many in (1, 4, 9)),
        ]
    print(table(rows, {"what": ("what", ""), "value": ("value", ".3f"), "detail": ("", "")}))
    save(given.out, head, rows)
    passed = [row["what"] for row in rows if not given.quick and row["value"] > LIMITS.get(row["what"], 1e9)]
    if passed:
        raise SystemExit(f"beyond its limit: {', '.join(passed)}")


if __name__ == "__main__":
    main()
