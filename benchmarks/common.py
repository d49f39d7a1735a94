"""What all benchmarks share: their options, their tables, and the JSON files that say where and how they were run."""

import argparse
import itertools
import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent

Row = dict[str, Any]


def parser(description: str | None) -> argparse.ArgumentParser:
    """The options that every benchmark has: --out and --quick."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--out", type=Path, metavar="FILE.json", help="write the figures to this file as JSON")
    made.add_argument("--quick", action="store_true", help="a small pass that shows that it works; no use as figures")
    return made


def own_programs() -> None:
    """Has each number of runs take a program that is made for it, so that another's pace is not measured."""
    from jaxbandit.programs import past

    past.PATIENCE = -1.0


def _cpu() -> Row:
    """The processor's name and, where the system tells them, what tells it from others of that name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    told = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    flags = told.get("flags", "").split()
    vectors = next((bits for flag, bits in (("avx512f", 512), ("avx2", 256), ("sse2", 128)) if flag in flags), None)
    found: Row = {"cpu": told.get("model name") or platform.processor() or platform.machine()}
    found |= {short: int(told[key]) for key, short in (("cpu family", "family"), ("model", "model")) if key in told}
    return found | ({"vector_bits": vectors} if vectors else {})


def _revision() -> str | None:
    """Of the project's files, with a plus where some have changed."""
    command = ["git", "describe", "--always", "--dirty=+", "--exclude=*"]
    try:
        return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in ("jaxbandit", "jax", "jaxlib", "numpy", "numba"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def facts(name: str, quick: bool) -> Row:
    """When, where and how a benchmark runs: the command (without folders), the hardware, the versions. Call it first:
    it tells the load of the machine before the measurement."""
    words = ["python", "-m", f"benchmarks.{name}"]
    words += [
        Path(word).name if before in ("--out", "--data") else word for before, word in itertools.pairwise(sys.argv)
    ]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "benchmark": name,
        "command": shlex.join(words),
        "quick": quick,
        "date": datetime.now(UTC).date().isoformat(),
        "revision": _revision(),
        "hardware": {**_cpu(), "cores": os.cpu_count(), "memory_gib": round(memory, 1)},
        "load_before": round(os.getloadavg()[0], 2),
        "versions": _versions(),
    }


def save(out: Path | None, head: Row, rows: Sequence[Mapping[str, Any]]) -> None:
    """Writes ``head`` (see ``facts``) and the rows, if there is a file to write to."""
    if out:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps({**head, "rows": list(rows)}, indent=2) + "\n")


def table(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, tuple[str, str]]) -> str:
    """Rows as text: ``columns`` gives each key its title and format; what a row lacks is left empty."""
    cells = [[title for title, _ in columns.values()]]
    cells += [
        [format(row[key], form) if row.get(key) is not None else "" for key, (_, form) in columns.items()]
        for row in rows
    ]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    numeric = [any(isinstance(row.get(key), int | float) for row in rows) for key in columns]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        ).rstrip()
        for line in cells
    )
