"""The first hour on an accelerator: what is here, whether it is right, and how fast each policy is as lanes grow.

    python -m benchmarks.accelerator --out FILE.json [--minutes 25] [--platform cuda] [--only ee topk/lucb ...]
        [--lanes 16384 131072]

In this order, each in a process of its own: ``jaxbandit doctor --check``; the tests marked ``smoke``; then each policy.
Meanwhile all programs are compiled, by a process on each of the host's cores but two, and kept for a later process
(``JAXBANDIT_CACHE``, or a folder that is gone afterwards). Policies are measured when this is done, or half of the time
has passed: to start a kernel takes longer while all cores compile. Of a policy, the answers of a few runs on the device
are compared bit by bit with those on this machine's CPU (``same_bits``). It is timed at more and more lanes, at last
those that it would get, until the memory or the policy's share of the time is spent; the answers of runs in the upper
half of the lanes are compared with those that they have in the lower half (``same_anywhere``). Settings are those of
the committed figures of a CPU (``cleaning.json``, ``topk.json``, ``outliers.json``, ``extraction.json``), where there
are some: ``ratio`` is the device's rate divided by that. FILE is written anew after each figure, so that being stopped
at any minute leaves all that was measured. Policies of outlier arms need the extra ``bench``.

``rate`` counts pulls a second for cleaning policies and runs a second for others, by the clock, all work on the host
included, as a median over the calls after the first. ``round_us`` is what one more round of steps of all lanes takes,
and ``short_s`` a call of one round. ``busy`` is the share of the time in which the device computes, and ``kernels`` are
those that take most of it, by a trace of the first steps of a call (``share`` of the device's time, ``us`` a start). It
exits with 1 if something is wrong or did not finish. Options in ``XLA_FLAGS`` hold for all of it. With ``--rounds``
there are no whole calls, and so no ``rate``: for policies whose runs are long.
"""

import contextlib
import hashlib
import json
import logging
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benchmarks.common import ROOT, Row, facts, save, table

Answers = dict[str, Any]
RESULTS = Path(__file__).parent / "results"
PROBLEMS: dict[str, tuple[str, dict[str, Any]]] = {
    "cleaning": ("synthetic", {"budget": 10_000, "entities": 50_000, "false_values": {"uniform": [0, 19]}}),
    "topk": ("bernoulli", {"n": 1000, "K": 100, "budget": 50_000, "means": "uniform"}),
    "extraction": ("people", {"budget": 100}),
}
POLICIES: dict[str, dict[str, Any]] = {"ee": {"t": 3, "q": 1.0}, "epsilon-greedy": {"epsilon": 0.5}}
COUNTED = ("random", "greedy", "epsilon-greedy")
LANES, LONG, LANES_ON_CPU = [1 << 14, 1 << 17], [1 << 10, 1 << 13], [64, 1024]
"""Numbers of lanes below a policy's own; ``LONG``: where a run takes milliseconds of a CPU."""
RUNS_A_LANE, COMPARED, LONGEST, TESTS_SHARE = 2, 256, 20.0, 0.15
STARTING, GRACE, NICE = 6.0, 8.0, 10
"""Seconds that a process takes to start, and how much longer than its share it may take; compilers are that nice."""
AT_ONCE, TRACED_ROUNDS, LONGER, NAMED = 3, 4, 16, 8
"""Processes that have a policy: one measures while others start. Rounds that are traced, by how many the longer of two
calls has more, and kernels named."""
COLUMNS = {
    "policy": ("policy", ""), "lanes": ("lanes", ",d"), "rate": ("a second", ",.0f"), "ratio": ("times a CPU", ".2f"),
    "round_us": ("a round, us", ",.0f"), "busy": ("busy", ".0%"),
    "first_s": ("first call", ".1f"), "same_bits": ("same bits", ""), "error": ("error", ""),
}  # fmt: skip


class Asked(NamedTuple):
    """What the user wants: the policies ``wanted``, ``sizes`` in lanes (none for the usual ones), ``whole`` calls, the
    tests."""

    wanted: list[str]
    sizes: list[int]
    whole: bool
    tested: bool

    def options(self) -> list[str]:
        """For a process that measures a policy, or compiles it."""
        sizes = ["--lanes", *map(str, self.sizes)] if self.sizes else []
        return [*sizes, *([] if self.whole else ["--rounds"])]


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
    kept = json.loads((RESULTS / f"{family}.json").read_text())
    found = [row for row in kept["rows"] if all(row.get(key) == value for key, value in wanted[family].items())]
    if not found:
        return None
    by_one_core = kept["hardware"]["cores"] if found[0].get("time") == "cpu" else 1
    return float(by_one_core * found[0].get("pulls_per_s", found[0].get("runs_per_s")))


class Case:
    """A policy on this process's devices, and on the host's CPU."""

    def __init__(self, name: str, sizes: list[int]) -> None:
        import jax

        from jaxbandit.engine import Batch

        self.devices, self.cpu = jax.local_devices(), jax.devices("cpu")[:1]
        with jax.default_device(self.cpu[0]):
            self.pair = _built(name)
        batch = Batch([self.pair], devices=self.devices)
        usual = LANES_ON_CPU if self.devices[0].platform == "cpu" else LONG if "extraction" in name else LANES
        known = sizes or usual
        own = batch.lanes([0], runs=1 << 24)
        self.sizes = [*(lanes for lanes in known if lanes < own), own]

    def runs(self, lanes: int) -> int:
        """Of a call."""
        return RUNS_A_LANE * lanes * len(self.devices)

    def call(
        self, runs: int, lanes: int | None, devices: Any, seed: int = 0, steps: int | None = None, first: int = 0
    ) -> Answers:
        """The answers of that many runs."""
        from jaxbandit import simulate

        problem, policy = self.pair
        return simulate(
            problem, policy, runs=runs, seed=seed, lanes=lanes, devices=devices, progress=False, max_steps=steps,
            first_run=first,
        )  # fmt: skip

    def anywhere(self, lanes: int) -> bool:
        """Whether runs have the same answers in the upper half of the lanes and in the lower one."""
        half, number = lanes // 2 * len(self.devices), self.runs(lanes)
        upper, lower = (self.call(number, lanes, self.devices, first=first) for first in (0, half))
        return all((upper[name][:, half : 2 * half] == lower[name][:, :half]).all() for name in upper)

    def digest(self, devices: Any) -> str:
        """Of the answers of a few runs on some devices."""
        answers = self.call(COMPARED, None, devices)
        parts = (name.encode() + values.tobytes() for name, values in sorted(answers.items()))
        return hashlib.sha256(b"".join(parts)).hexdigest()

    def compile(self, number: int) -> None:
        """The program of one of the sizes, or behind them that of a few runs; behind that, the CPU's, which is run: it
        prints the digest."""
        from jaxbandit.engine import Batch
        from jaxbandit.programs.ahead import Ahead

        if number <= len(self.sizes):
            few = number == len(self.sizes)
            lanes = None if few else self.sizes[number]
            batch, runs = Batch([self.pair], devices=self.devices), COMPARED if few else self.runs(self.sizes[number])
            programs = batch.programs([0], runs=runs, lanes=lanes)
            with Ahead(programs) as ahead:
                for program in programs:
                    ahead.need(program, lambda _: None)
        elif number == len(self.sizes) + 1:
            print(self.digest(self.cpu))

    def timed(self, lanes: int, rounds: int) -> float:
        """Seconds of a call that ends each lane's runs after so many rounds."""
        from jaxbandit.grammar import accelerated, execution_of

        steps = rounds * execution_of(accelerated(self.pair[1], self.pair[0])).stride
        start = time.perf_counter()
        self.call(self.runs(lanes), lanes, self.devices, 1, steps)
        return time.perf_counter() - start

    def short(self, lanes: int) -> Row:
        """What a call takes that makes a single round, and what one more round of all lanes takes."""
        self.timed(lanes, 1)
        once = self.timed(lanes, 1)
        if once > 1:
            return {"short_s": once}
        more = LONGER if once < 0.1 else 1
        shorter, longer = (min(self.timed(lanes, 1 + further) for _ in range(2)) for further in (0, more))
        return {"short_s": shorter, "round_us": (longer - shorter) / (more * RUNS_A_LANE) * 1e6}

    def traced(self, lanes: int) -> Row:
        """What the device does in the first steps of a call."""
        import jax

        with tempfile.TemporaryDirectory() as folder:
            with jax.profiler.trace(folder):
                seconds = self.timed(lanes, TRACED_ROUNDS)
            found = [*Path(folder).rglob("*.xplane.pb")]
            return _kernels(str(found[0]), seconds) if found else {}


def _kernels(trace: str, seconds: float) -> Row:
    """Of a trace: the share of the time in which the first device computes, and the kernels that take most of it."""
    from jax.profiler import ProfileData

    plane = ProfileData.from_file(trace).find_plane_with_name("/device:GPU:0")
    took: dict[str, list[float]] = {}
    for line in plane.lines if plane else ():
        if line.name.startswith("Stream"):
            for event in line.events:
                took.setdefault(event.name, []).append(event.duration_ns)
    whole = sum(map(sum, took.values()))
    first = sorted(took.items(), key=lambda item: -sum(item[1]))[:NAMED]
    kernels = [
        {"name": name, "share": sum(times) / whole, "us": sum(times) / len(times) / 1e3} for name, times in first
    ]
    return {"busy": whole / 1e9 / seconds, "starts": sum(map(len, took.values())), "kernels": kernels} if took else {}


@contextlib.contextmanager
def alone(lock: Path | None) -> Iterator[None]:
    """One process at a time."""
    if lock is None:
        yield
        return
    import fcntl

    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def one(name: str, asked: Asked, seconds: float, lock: Path | None) -> Iterator[Row]:
    """The figures of a policy on this process's devices, as they come; it ends this process if they take too long."""
    case = Case(name, asked.sizes)
    for number in range(len(case.sizes) + 1):
        case.compile(number)
    with alone(lock):
        signal.setitimer(signal.ITIMER_REAL, seconds + GRACE)
        yield from _timed(name, case, time.monotonic() + seconds, asked.whole)


def _timed(name: str, case: Case, end: float, whole: bool) -> Iterator[Row]:
    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("jaxbandit").addHandler(handler)
    for number, lanes in enumerate(case.sizes):
        row: Row = {"policy": name, "device": case.devices[0].device_kind, "lanes": lanes, "runs": case.runs(lanes)}
        start = time.perf_counter()
        row |= case.short(lanes)
        yield row | (case.traced(lanes) if case.devices[0].platform != "cpu" else {})
        if number == 0:
            yield row | {"digest": case.digest(case.devices)}
        if not whole:
            continue
        spent = time.perf_counter() - start
        said.clear()
        times: list[float] = []
        start = time.perf_counter()
        answers = case.call(case.runs(lanes), lanes, case.devices)
        row["first_s"] = time.perf_counter() - start
        while len(times) < 3 and (not times or time.monotonic() + times[-1] < end):
            start = time.perf_counter()
            answers = case.call(case.runs(lanes), lanes, case.devices, len(times) + 1)
            times.append(time.perf_counter() - start)
        made = float(answers["cleans"].sum(dtype="int64")) if "cleans" in answers else float(case.runs(lanes))
        row |= {"rate": made / median(times), "calls": len(times), "said": list(said)}
        yield row
        if time.monotonic() + 2 * median(times) < end:
            yield row | {"same_anywhere": case.anywhere(lanes)}
        longer = case.sizes[min(number + 1, len(case.sizes) - 1)] / lanes
        # A device that is not full yet takes less than twice as long for twice as many lanes.
        if time.monotonic() + longer * median(times) + spent > end or median(times) > LONGEST or said:
            break


def environment_of(platform: str | None, cache: str) -> dict[str, str]:
    """Of all processes: several have the device at once, and programs are kept from one to the next."""
    asked = {"JAX_PLATFORMS": f"{platform},cpu" if platform != "cpu" else "cpu"} if platform else {}
    kept = {"JAXBANDIT_CACHE": os.environ.get("JAXBANDIT_CACHE", cache)}
    return {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"} | os.environ | asked | kept


def lines_of(command: list[str], seconds: float, each: Callable[[str], None], environment: Any) -> str | None:
    """Runs a command, gives each line of its output away; returns what went wrong, or None."""
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
    if not in_time or status == -signal.SIGALRM:
        return "no end within its time"
    return " ".join(errors[-1:]).strip()[:300] or f"status {status}"


class Report:
    """All that was found so far, written after each finding."""

    def __init__(self, out: Path | None, minutes: float) -> None:
        self._out, self._end = out, time.monotonic() + 60 * minutes
        self._head = facts("accelerator", False) | {"minutes": minutes, "doctor": [], "tests": [], "finished": False}
        self._writing = threading.Lock()
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
        with self._writing:
            self.rows.append(row)
            self.wrong += "error" in row or row.get("same_bits") is False or row.get("same_anywhere") is False
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


class Compilers:
    """Processes that compile what will be measured."""

    def __init__(self, asked: Asked, report: Report, environment: Any) -> None:
        from jaxbandit.devices import cores

        self._pool = ThreadPoolExecutor(max(1, cores() - 2))

        self.digests: dict[str, str] = {}

        def compiled(name: str, number: int) -> str | None:
            if report.left() < STARTING:
                return "no time left to compile"
            command = [sys.executable, "-m", "benchmarks.accelerator", "--compile", str(number), "--process", name]

            def each(line: str) -> None:
                if re.fullmatch("[0-9a-f]{64}", line):
                    self.digests[name] = line

            nice = ["nice", "-n", str(NICE), *command, *asked.options()]
            return lines_of(nice, report.left(), each, environment)

        # Sizes, its own, few runs, and then the program for the CPU.
        numbers = range(len(asked.sizes or LANES) + 3)
        self._made = {name: [self._pool.submit(compiled, name, number) for number in numbers] for name in asked.wanted}

    def wait(self, seconds: float) -> None:
        """Until all are compiled, or that time has passed."""
        wait([each for made in self._made.values() for each in made], max(0.0, seconds))

    def ready(self, name: str) -> bool:
        """Whether all programs of a policy are compiled, or failed to be."""
        return all(each.done() for each in self._made[name])

    def error(self, name: str) -> str | None:
        """What went wrong with a policy; waits for its programs."""
        return next((error for error in (each.result() for each in self._made[name]) if error), None)

    def end(self) -> None:
        """Begins no other."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def measure(
    name: str, asked: Asked, others: int, compilers: Compilers, report: Report, environment: Any, lock: Path
) -> None:
    """A policy, with as much time as ``others`` will have."""

    def each(line: str) -> None:
        if not line.startswith("{"):
            return
        row = json.loads(line)
        if digest := row.pop("digest", None):
            row["same_bits"] = digest == compilers.digests.get(name)
        if row.get("rate") and (rate := committed(name)):
            row["ratio"] = row["rate"] / rate
        report.add(row)

    error = compilers.error(name)
    seconds = report.left() / (1 + others) - 1
    if not error and report.left() > STARTING:
        command = [sys.executable, "-m", "benchmarks.accelerator", "--process", name, "--seconds", f"{seconds:.1f}"]
        error = lines_of([*command, "--lock", str(lock), *asked.options()], report.left(), each, environment)
    elif not error:
        error = "no time left"
    if error:
        report.add({"policy": name, "error": error})


def everything(asked: Asked, report: Report, platform: str | None, environment: Any) -> None:
    """The doctor, the tests, the policies, as far as the time goes."""
    program = [sys.executable, "-m"]
    compilers = Compilers(asked, report, environment)
    doctor = [*program, "jaxbandit", "doctor", "--check", *(["--platform", platform] if platform else [])]
    error = lines_of(doctor, min(180.0, report.left() / 3), lambda line: report.note("doctor", line), environment)
    if error:
        report.wrong += 1
        report.note("doctor", f"failed: {error}")
    if asked.tested:
        tests = [*program, "pytest", "-q", "-m", "smoke", "tests"]
        error = lines_of(tests, TESTS_SHARE * report.left(), lambda line: report.note("tests", line), environment)
        if error:
            report.note("tests", f"not finished: {error}")
    compilers.wait(report.left() / 2)
    lock = Path(environment["JAXBANDIT_CACHE"]) / "measuring"
    with ThreadPoolExecutor(AT_ONCE) as pool:
        # A program that does not end must not keep the others waiting.
        for number, name in enumerate(sorted(asked.wanted, key=lambda name: not compilers.ready(name))):
            others = len(asked.wanted) - number - 1
            pool.submit(measure, name, asked, others, compilers, report, environment, lock)
    compilers.end()
    report.finish()


def main() -> int:
    """Measure and write; 1 if something was wrong."""
    import argparse

    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--out", type=Path, metavar="FILE.json", help="where the figures are kept")
    options.add_argument("--minutes", type=float, default=25.0, help="after which it ends")
    options.add_argument("--platform", choices=["cpu", "cuda", "rocm", "tpu"], help="where it must run")
    options.add_argument("--only", nargs="+", metavar="NAME", help="policies, or families, or both as topk/sar")
    options.add_argument("--lanes", nargs="+", type=int, default=[], metavar="N", help="sizes below a policy's own")
    options.add_argument("--rounds", action="store_true", help="make no whole calls")
    options.add_argument("--untested", action="store_true", help="leave the tests out")
    options.add_argument("--process", metavar="NAME", help="measure one policy in this process (for itself)")
    options.add_argument("--seconds", type=float, default=60.0, help="for that (for itself)")
    options.add_argument("--lock", type=Path, metavar="FILE", help="which one process at a time holds (for itself)")
    options.add_argument("--compile", type=int, metavar="NUMBER", help="no more than compile one of it (for itself)")
    given = options.parse_args()
    wanted = [name for name in names() if not given.only or {name, *name.split("/")} & {*given.only}]
    asked = Asked(wanted, given.lanes, not given.rounds, not given.untested)
    if given.process:
        from jaxbandit import cache

        cache()
        if given.compile is not None:
            Case(given.process, asked.sizes).compile(given.compile)
            return 0
        for row in one(given.process, asked, given.seconds, given.lock):
            print(json.dumps(row), flush=True)
        return 0
    report = Report(given.out, given.minutes)
    with tempfile.TemporaryDirectory() as kept:
        everything(asked, report, given.platform, environment_of(given.platform, kept))
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
