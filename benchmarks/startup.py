"""What importing jaxbandit, and what the README's first example imports, add to importing jax.

    python -m benchmarks.startup [--out FILE.json] [--quick]

In fresh processes, one after the other: ``import jax``, then the statement. The median of the CPU time of the second.
``import jaxbandit`` alone loads next to nothing: its names are imported when they are asked for. It fails if one of
the statements adds 0.3 s or more.
"""

import json
import subprocess
import sys
from statistics import median

from benchmarks.common import ROOT, Row, facts, parser, save, table

STATEMENTS = ("import jaxbandit", "from jaxbandit import cleaning, simulate", "import jaxbandit.cli")
REPEATS, LIMIT_S = 11, 0.3

CODE = """
import json, time
start = time.process_time()
import jax
between = time.process_time()
{statement}
print(json.dumps([between - start, time.process_time() - between]))
"""


def _once(statement: str) -> tuple[float, float]:
    command = [sys.executable, "-c", CODE.format(statement=statement)]
    jax_s, added_s = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout)
    return jax_s, added_s


def measure(statement: str, repeats: int) -> Row:
    """Medians over fresh processes; one more goes first, for the files to be in memory and the bytecode written."""
    _once(statement)
    times = [_once(statement) for _ in range(repeats)]
    jax_s, added_s = (median(column) for column in zip(*times, strict=True))
    return {"statement": statement, "repeats": repeats, "jax_s": jax_s, "added_s": added_s}


def main() -> None:
    """Measure, print a table, write JSON if asked to; fail where the limit is passed."""
    given = parser(__doc__).parse_args()
    head = facts("startup", given.quick) | {"limit_s": LIMIT_S}
    rows = [measure(each, 3 if given.quick else REPEATS) for each in STATEMENTS]
    columns = {"statement": ("statement", ""), "jax_s": ("import jax (s)", ".3f"), "added_s": ("added (s)", ".3f")}
    print(table(rows, columns))
    save(given.out, head, rows)
    for row in rows:
        if row["added_s"] >= LIMIT_S:
            raise SystemExit(f"{row['statement']} adds {row['added_s']:.3f} s, allowed are {LIMIT_S}")


if __name__ == "__main__":
    main()
