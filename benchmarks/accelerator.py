"""The first hour on an accelerator: what is here, whether it is right, and how fast each policy is as lanes grow.

    python -m benchmarks.accelerator --out FILE.json [--minutes 25] [--platform cuda] [--only ee topk/lucb ...]

In this order, each in a process of its own: ``jaxbandit doctor --check``; the tests marked ``smoke``; then each policy.
Of a policy, the answers of the first runs on the device are compared bit by bit with those on this machine's CPU, and
it is timed at more and more lanes, until the memory or the policy's share of the time is spent. Settings are those of
the committed figures of a CPU (``cleaning.json``, ``topk.json``, ``outliers.json``, ``extraction.json``), where there
are some: ``ratio`` is the device's rate divided by that. FILE is written anew after each figure, so that being stopped
at any minute leaves all that was measured. Policies of outlier arms need the extra ``bench``.

``rate`` counts pulls a second for cleaning policies and runs a second for others, by the clock, all work on the host
included, as a median over the calls after the first. It exits with 1 if something is wrong or did not finish.
"""

import hashlib
import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.common import ROOT, Row, facts, save, table

RESULTS = Path(__file__).parent / "results"
PROBLEMS: dict[str, tuple[str, dict[str, Any]]] = {
    "cleaning": ("synthetic", {"budget": 10_000, "entities": 50_000, "false_values": {"uniform": [0, 19]}}),
    "topk": ("bernoulli", {"n": 1000, "K": 100, "budget": 50_000, "means": "uniform"}),
    "extraction": ("people", {"budget": 100}),
}
POLICIES: dict[str, dict[str, Any]] = {"ee": {"t": 3, "q": 1.0}, "epsilon-greedy": {"epsilon": 0.5}}
COUNTED = ("random", "greedy", "epsilon-greedy")
LANES, LANES_ON_CPU = (1 << 14, 1 << 17, 1 << 20), (64, 256, 1024)
RUNS_A_LANE, COMPARED, LONGEST, TESTS_SHARE = 4, 256, 20.0, 0.15
COLUMNS = {
    "policy": ("policy", ""), "lanes": ("lanes", ",d"), "rate": ("a second", ",.0f"), "ratio": ("times a CPU", ".2f"),
    "first_s": ("first call", ".1f"), "same_bits": ("same bits", ""), "error": ("error", ""),
}  # fmt: skip


def names() -> list[str]:
    """All policies, as cleaning/ee; those that count entities too. First come those that a CPU's figure is known of."""
    from jaxbandit.study.families import FAMILIES

    counted = [f"cleaning/counted {name}" for name in COUNTED]
    found = [f"{family}/{name}" for family in FAMILIES for name in FAMILIES[family].policies] + counted
    return sorted(found, key=lambda name: (name != "cleaning/ee", committed(name) is None))


def _built(name: str) -> tuple[Any, Any]:
    """The problem and the policy of a name."""
    from jaxbandit.registry import parse
    from jaxbandit.study.families import FAMILIES

    family, _, rest = name.partition("/")
    how, _, policy = rest.rpartition(" ")
    if family == "outliers":
        import numpy as np

        from benchmarks import outliers
        from jaxbandit.arms.problem import given
        from jaxbandit.outliers import OutlierArms
        from jaxbandit.outliers.truth import Labelled

        size, interval = next((case.n, case.interval) for case in outliers.CASES if case.rule == policy)
        means, truth = outliers.arms(policy, size)
        problem = OutlierArms(np.int32(outliers.CAP), Labelled(given(means, shuffled=False), truth.astype(np.int32)))
        return problem, outliers.policy(policy, interval, size)
    kind, parameters = PROBLEMS[family]
    parameters = parameters | ({"paired": False} if how else {}) | ({"informed": True} if policy == "gs-exact" else {})
    of, rule = FAMILIES[family].problems[kind], FAMILIES[family].policies[policy]
    setting = of.build(**parse("problem", of.parameters, parameters))
    return setting.problem(), rule.build(setting, **parse("policy", rule.parameters, POLICIES.get(policy, {})))[0]


def committed(name: str) -> float | None:
    """The rate of a CPU's two cores in the committed figures, at the same setting."""
    family, _, rest = name.partition("/")
    how, _, policy = rest.rpartition(" ")
    wanted: dict[str, dict[str, Any]] = {
        "cleaning": {"policy": policy, "paired": "no" if how else "yes"},
        "topk": {"policy": policy, "arms": 1000},
        "outliers": {"rule": policy},
        "extraction": {"case": "people, proportional"} if policy == "crux" else {"case": None},
    }
    rows = json.loads((RESULTS / f"{family}.json").read_text())["rows"]
    found = [row for row in rows if all(row.get(key) == value for key, value in wanted[family].items())]
    rate: float | None = found[0].get("pulls_per_s", found[0].get("runs_per_s")) if found else None
    return rate


def digest(answers: dict[str, Any]) -> str:
    """Of all answers of the first runs."""
    parts = (name.encode() + values[:, :COMPARED].tobytes() for name, values in sorted(answers.items()))
    return hashlib.sha256(b"".join(parts)).hexdigest()


def one(name: str, seconds: float) -> Iterator[Row]:
    """The figures of a policy on this process's device, as they come."""
    import jax

    from jaxbandit import simulate

    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("jaxbandit").addHandler(handler)
    end, cpu = time.monotonic() + seconds, jax.devices("cpu")
    devices = jax.local_devices()
    on_cpu = devices[0].platform == "cpu"
    with jax.default_device(cpu[0]):
        problem, policy = _built(name)

    def call(runs: int, lanes: int | None, where: Any, seed: int = 0) -> dict[str, Any]:
        return simulate(problem, policy, runs=runs, seed=seed, lanes=lanes, devices=where, progress=False)

    for number, lanes in enumerate(LANES_ON_CPU if on_cpu else LANES):
        said.clear()
        runs, times = RUNS_A_LANE * lanes * len(devices), []
        start = time.perf_counter()
        answers = call(runs, lanes, devices)
        row: Row = {"policy": name, "device": devices[0].device_kind, "lanes": lanes, "runs": runs}
        row["first_s"] = time.perf_counter() - start
        if number == 0:
            row["same_bits"] = digest(answers) == digest(call(COMPARED, None, cpu[:1]))
            yield row
        while len(times) < 3 and (not times or time.monotonic() + times[-1] < end):
            start = time.perf_counter()
            answers = call(runs, lanes, devices, len(times) + 1)
            times.append(time.perf_counter() - start)
        made = float(answers["cleans"].sum(dtype="int64")) if "cleans" in answers else float(runs)
        yield row | {"rate": made / median(times), "calls": len(times), "said": list(said)}
        if time.monotonic() + 4 * median(times) > end or median(times) > LONGEST or said:
            return


def lines_of(command: list[str], seconds: float, each: Callable[[str], None], platform: str | None) -> str | None:
    """Runs a command, gives each line of its output away; returns what went wrong, or None."""
    environment = os.environ | (
        {"JAX_PLATFORMS": f"{platform},cpu" if platform != "cpu" else "cpu"} if platform else {}
    )
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    errors: list[str] = []
    assert process.stdout is not None
    assert process.stderr is not None
    reader = threading.Thread(target=lambda: errors.extend(process.stderr or ()), daemon=True)
    reader.start()
    timer = threading.Timer(max(1.0, seconds), process.kill)
    timer.start()
    for line in process.stdout:
        each(line.rstrip("\n"))
    status = process.wait()
    in_time = timer.is_alive()
    timer.cancel()
    reader.join(1)
    if status == 0:
        return None
    return (
        f"no end within {seconds:.0f} s" if not in_time else " ".join(errors[-1:]).strip()[:300] or f"status {status}"
    )


class Report:
    """All that was found so far, written after each finding."""

    def __init__(self, out: Path | None, minutes: float) -> None:
        self._out, self._end = out, time.monotonic() + 60 * minutes
        self._head = facts("accelerator", False) | {"minutes": minutes, "doctor": [], "tests": [], "finished": False}
        self.rows: list[Row] = []
        self.wrong = 0

    def left(self) -> float:
        """Seconds."""
        return self._end - time.monotonic()

    def note(self, part: str, line: str) -> None:
        """A line of the doctor's or the tests' output."""
        print(line, flush=True)
        self._head[part].append(line)
        self._save()

    def add(self, row: Row) -> None:
        """A figure."""
        self.rows.append(row)
        self.wrong += "error" in row or row.get("same_bits") is False
        print(table([row], COLUMNS), flush=True)
        self._save()

    def finish(self) -> None:
        """All was done that there was time for."""
        self._head["finished"] = True
        self._save()

    def _save(self) -> None:
        if self._out:
            partial = self._out.with_name(self._out.name + ".partial")
            save(partial, self._head, self.rows)
            partial.replace(self._out)


def everything(report: Report, wanted: list[str], platform: str | None) -> None:
    """The doctor, the tests, the policies, as far as the time goes."""
    program = [sys.executable, "-m"]
    doctor = [*program, "jaxbandit", "doctor", "--check", *(["--platform", platform] if platform else [])]
    error = lines_of(doctor, min(180.0, report.left() / 3), lambda line: report.note("doctor", line), platform)
    if error:
        report.wrong += 1
        report.note("doctor", f"failed: {error}")
    tests = [*program, "pytest", "-q", "-m", "smoke", "tests"]
    error = lines_of(tests, TESTS_SHARE * report.left(), lambda line: report.note("tests", line), platform)
    if error:
        report.note("tests", f"not finished: {error}")
    for number, name in enumerate(wanted):
        seconds = report.left() / (len(wanted) - number)
        if report.left() < 5:
            report.add({"policy": name, "error": "no time left"})
            continue  # all that were not reached are named

        def each(line: str, name: str = name) -> None:
            if line.startswith("{"):
                row = json.loads(line)
                if row.get("rate") and (rate := committed(name)):
                    row["ratio"] = row["rate"] / rate
                report.add(row)

        command = [*program, "benchmarks.accelerator", "--process", name, "--seconds", f"{seconds:.0f}"]
        if error := lines_of(command, seconds + 20, each, platform):
            report.add({"policy": name, "error": error})
    report.finish()


def main() -> int:
    """Measure and write; 1 if something was wrong."""
    import argparse

    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--out", type=Path, metavar="FILE.json", help="where the figures are kept")
    options.add_argument("--minutes", type=float, default=25.0, help="after which it ends")
    options.add_argument("--platform", choices=["cpu", "cuda", "rocm", "tpu"], help="where it must run")
    options.add_argument("--only", nargs="+", metavar="NAME", help="policies, or families, or both as topk/sar")
    options.add_argument("--process", metavar="NAME", help="measure one policy in this process (for itself)")
    options.add_argument("--seconds", type=float, default=60.0, help="for that (for itself)")
    given = options.parse_args()
    if given.process:
        for row in one(given.process, given.seconds):
            print(json.dumps(row), flush=True)
        return 0
    report = Report(given.out, given.minutes)
    wanted = [name for name in names() if not given.only or {name, *name.split("/")} & {*given.only}]
    everything(report, wanted, given.platform)
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
