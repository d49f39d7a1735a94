"""Runs all benchmarks one after the other, each in a process of its own.

    python -m benchmarks.run --out DIR [--quick] [--only NAME ...]

Writes DIR/NAME.json for each, and prints their tables. The exit status is 1 if one of them failed.
"""

import argparse
import subprocess
import sys
from pathlib import Path

from benchmarks.common import ROOT

NAMES = (
    "cleaning",
    "scaling",
    "gamma",
    "samplers",
    "memory",
    "startup",
    "compile",
    "studies",
    "outliers",
    "topk",
    "extraction",
)


def main() -> int:
    """Run them; those that failed are named at the end."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for the JSON files")
    options.add_argument("--quick", action="store_true", help="a small pass that shows that they work")
    options.add_argument("--only", nargs="+", choices=NAMES, default=NAMES, metavar="NAME", help=", ".join(NAMES))
    given = options.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    failed = []
    for name in given.only:
        print(f"== {name}", flush=True)
        command = [sys.executable, "-m", f"benchmarks.{name}", "--out", str(given.out.resolve() / f"{name}.json")]
        if subprocess.run(command + ["--quick"] * given.quick, cwd=ROOT, check=False).returncode:
            failed.append(name)
        print(flush=True)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
