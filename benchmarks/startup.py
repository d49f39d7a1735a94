"""What importing jaxbandit adds to importing jax.

    python -m benchmarks.startup [--out FILE.json] [--quick]

In fresh processes, one after the other: ``import jax``, then the module. The median of the time of the second import.
It fails if ``import jaxbandit`` adds 0.3 s or more.
"""

import json
import subprocess
import sys
from statistics import median

from benchmarks.common import ROOT, Row, facts, parser, save, table

MODULES = ("jaxbandit", "jaxbandit.cleaning", "jaxbandit.cli")
REPEATS, LIMIT_S = 11, 0.3

CODE = """
import json, time
start = time.perf_counter()
import jax
between = time.perf_counter()
import {module}
print(json.dumps([between - start, time.perf_counter() - between]))
"""


def _once(module: str) -> tuple[float, float]:
    command = [sys.executable, "-c", CODE.format(module=module)]
    jax_s, added_s = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout)
    return jax_s, added_s


def measure(module: str, repeats: int) -> Row:
    """Medians over fresh processes; one more goes first, for the files to be in memory and the bytecode written."""
    _once(module)
    times = [_once(module) for _ in range(repeats)]
    jax_s, added_s = (median(column) for column in zip(*times, strict=True))
    return {"module": module, "repeats": repeats, "jax_s": jax_s, "added_s": added_s}


def main() -> None:
    """Measure, print a table, write JSON if asked to; fail where the limit is passed."""
    given = parser(__doc__).parse_args()
    head = facts("startup", given.quick) | {"limit_s": LIMIT_S}
    rows = [measure(module, 3 if given.quick else REPEATS) for module in MODULES]
    print(table(rows, {"module": ("module", ""), "jax_s": ("import jax (s)", ".3f"), "added_s": ("added (s)", ".3f")}))
    save(given.out, head, rows)
    if rows[0]["added_s"] >= LIMIT_S:
        raise SystemExit(f"import jaxbandit adds {rows[0]['added_s']:.3f} s, allowed are {LIMIT_S}")


if __name__ == "__main__":
    main()
