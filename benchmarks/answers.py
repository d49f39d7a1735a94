"""What a user waits for: CPU time and time of whole commands, with an empty and with a full compile cache.

    python -m benchmarks.answers [--data FILE.csv] [--out FILE.json] [--quick]

Each command runs twice in fresh processes, with a folder for the cache that only these two share: *cold*, then *warm*.
CPU time is that of all threads. ``--data``: a table of workers (correct, answered) for figure 2(b) of Zhou et al. 2014.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.common import ROOT, Row, facts, parser, save, table

EPSILONS = """
runs = {runs}
[problem]
kind = "cleaning/synthetic"
[[policy]]
kind = "ee"
tuning = "lemma3"
[[policy]]
kind = "epsilon-greedy"
epsilon = [0.1, 0.3, 0.5]
[sweep]
budget = [2_000, 10_000, 50_000]
"""


def measure(name: str, command: list[str], folder: Path) -> Row:
    """One command, cold and warm."""
    row: Row = {"answer": name}
    for state in ("cold", "warm"):
        words = [sys.executable, "-m", "jaxbandit", *command, "--out", str(folder / state)]
        own = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "XLA_"))}
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(
            words, cwd=ROOT, env={**own, "JAXBANDIT_CACHE": str(folder / "cache")}, check=True, capture_output=True
        )
        row[f"{state}_s"] = time.perf_counter() - began
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        row[f"{state}_cpu"] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return row


def main() -> None:
    """Measure, print a table, write JSON if asked to."""
    options = parser(__doc__)
    options.add_argument("--data", type=Path, metavar="FILE.csv", help="a table of workers: correct, answered")
    given = options.parse_args()
    head = facts("answers", given.quick)
    few = ["--runs", "20"] if given.quick else []
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "epsilons.toml").write_text(EPSILONS.format(runs=2_000))
        kind = 'kind = "cleaning/synthetic"\n'
        first = (ROOT / "examples" / "cleaning.toml").read_text()
        (folder / "counted.toml").write_text(first.replace(kind, kind + "paired = false\n", 1))
        commands = {
            "examples/cleaning.toml": ["run", "examples/cleaning.toml", *few],
            "the same, not paired": ["run", str(folder / "counted.toml"), *few],
            "ee and epsilon-greedy, 2,000 runs, budgets to 50,000": ["run", str(folder / "epsilons.toml"), *few],
            "examples/gallery/workers.toml": ["run", "examples/gallery/workers.toml", *few],
        }
        if given.data is not None:
            path = str(given.data.resolve())
            commands["zhou2014/fig2b --runs 20"] = ["reproduce", "zhou2014/fig2b", "--runs", "20", "--data", path]
        rows = []
        for number, (name, command) in enumerate(commands.items()):
            (folder / str(number)).mkdir()
            rows.append(measure(name, command, folder / str(number)))
    columns = {f"{state}_{unit}": (f"{state} ({said})", ".1f") for state in ("cold", "warm")
               for unit, said in (("cpu", "CPU s"), ("s", "s"))}  # fmt: skip
    print(table(rows, {"answer": ("answer", ""), **columns}))
    save(given.out, head, rows)


if __name__ == "__main__":
    main()
