"""Whether versions of JAX or of the package, or two processors, give the same bits: digests of each policy's answers.

    python -m benchmarks.bits [--against FILE.json] [--only topk/lucb ...] [--out FILE.json]

Each policy makes 32 runs at the setting of ``benchmarks.accelerator``, on this machine's CPU. The exit status is 1 if a
digest is not that of ``--against``, the committed file if none is named.
"""

import argparse
import hashlib
import json
import sys
from pathlib import Path

import jax
import numpy as np

from benchmarks.accelerator import Case, names
from benchmarks.common import ROOT, facts, save

RUNS = 32
COMMITTED = ROOT / "benchmarks" / "results" / "bits.json"


def digest(name: str) -> str:
    """Of the answers' names, types, shapes and bytes."""
    case, found = Case(name, []), hashlib.sha256()
    for key, value in sorted(case.call(RUNS, None, case.cpu).items()):
        found.update(f"{key} {value.dtype} {value.shape}".encode() + np.ascontiguousarray(value).tobytes())
    return found.hexdigest()[:16]


def main() -> int:
    """Compute, compare, write JSON; 1 if one differs."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--out", type=Path, metavar="FILE.json", help="write the digests to this file as JSON")
    options.add_argument("--only", nargs="+", metavar="NAME", help="policies, or families, or both as topk/sar")
    options.add_argument("--against", type=Path, metavar="FILE.json", default=COMMITTED, help="compare with this one")
    given = options.parse_args()
    if not given.against.is_file():
        options.error(f"--against {given.against}: there is no such file")
    before = {row["policy"]: row["digest"] for row in json.loads(given.against.read_text())["rows"]}
    head, rows, other = facts("bits", quick=False), [], []
    for name in sorted(names()):
        if given.only and not {name, *name.split("/")} & {*given.only}:
            continue
        found = digest(name)
        rows.append({"policy": name, "digest": found})
        if before.get(name, found) != found:
            other.append(name)
        print(name, found, "new" if name not in before else "other" if name in other else "the same", flush=True)
        save(given.out, head, rows)
        jax.clear_caches()
    print(f"JAX {jax.__version__}: {len(other)} of {len(rows)} have other bits", *other)
    return int(bool(other))


if __name__ == "__main__":
    sys.exit(main())
