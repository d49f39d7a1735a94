"""Compiles each policy for an H100 and for a TPU v5e, none of which is there, and counts what its program does.

    python -m benchmarks.ahead_of_time [--out FILE.json] [--only cleaning/ee ...] [--platforms cuda tpu] [--lanes N]

``make accelerators`` runs it in an environment of its own (``.venv-accelerators``: JAX with its CUDA plugin and libtpu,
plain packages that need no driver). Each policy is compiled in a process of its own, on the settings of
``benchmarks.accelerator``, for the lanes that the device would get. Counts are of the optimized program and exact for
these versions: ``kernels`` and ``copies`` in all of it; ``step_kernels`` and ``step_copies`` in the loop over a round's
steps (``unroll`` of them at a time) without the loops inside it, where XLA says which loop that is (for TPUs it does
not); ``dynamic_loops``, after each turn of which the host has to be waited for, and ``conditions`` likewise; bytes of
arguments and of temporary memory; ``turn_kernels`` and ``turn_copies`` in a turn of the largest loop within a step. It
fails where a policy does not compile in its CPU-seconds, does not fit into the device's memory, or counts more than a
committed figure allows (``BOUND`` times). ``--untimed`` leaves the CPU-seconds out, for a machine that is busy or slow.
"""

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.common import ROOT, Row, facts, save, table

RESULTS = Path(__file__).parent / "results" / "accelerators.json"
BOUND, CPU_SECONDS, HOST_BYTES, JOBS = 1.1, 60, 24 << 30, 1 << 20
SLOW = {
    "cuda": {},
    "tpu": {
        "outliers/rr": 80, "outliers/wrr": 100, "extraction/crux": 90, "extraction/root-chao": 80, "topk/optmai": 180,
        "topk/optmai-printed": 180,
        "topk/lucb": 220, "topk/kl-lucb": 300, "topk/sar": 250, "topk/halving": 300, "extraction/gs-exact": 130,
    },
}  # fmt: skip
"""Programs that take more than ``CPU_SECONDS`` to compile, with what they may take; a process is given ``PATIENCE``."""
PATIENCE = 600
BOUNDED = (
    "kernels", "copies", "dynamic_loops", "conditions", "temporary_bytes", "approximate", "turn_kernels", "turn_copies",
)  # fmt: skip
PLATFORMS = "cuda", "tpu"
H100 = """
gpu_device_info {
  name: "NVIDIA H100 80GB HBM3"
  cuda_compute_capability { major: 9 } core_count: 132 fpus_per_core: 128 clock_rate_ghz: 1.98
  threads_per_block_limit: 1024 threads_per_warp: 32 threads_per_core_limit: 2048
  thread_dim_limit_x: 1024 thread_dim_limit_y: 1024 thread_dim_limit_z: 64
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  shared_memory_per_block: 49152 shared_memory_per_core: 233472 shared_memory_per_block_optin: 232448
  registers_per_core_limit: 65536 registers_per_block_limit: 65536
  memory_bandwidth: 3352320000000 l2_cache_size: 52428800 device_memory_size: 84942979072
  driver_version: "13.0.0" runtime_version: "13.0.0" compile_time_toolkit_version: "13.0.0" dnn_version: "9.10.0"
}
platform_name: "CUDA"
dnn_version_info { major: 9 minor: 10 }
device_description_str: "NVIDIA H100 80GB HBM3"
"""
"""An H100 as XLA's compiler wants it described, by its data sheet."""
MEMORY = {"cuda": 79 << 30, "tpu": 16 << 30}
NO_DEVICE = {
    "JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": "-1", "TPU_SKIP_MDS_QUERY": "1", "TPU_WORKER_ID": "0",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4", "TPU_WORKER_HOSTNAMES": "localhost",
}  # fmt: skip
"""What libtpu and the CUDA plugin have to be told on a machine without a device."""
COLUMNS = {
    "policy": ("policy", ""), "platform": ("for", ""), "lanes": ("lanes", ",d"), "step_kernels": ("step: kernels", "d"),
    "step_copies": ("copies", "d"), "turn_kernels": ("a turn in it: kernels", "d"), "turn_copies": ("copies", "d"),
    "kernels": ("all: kernels", "d"), "copies": ("copies", "d"),
    "dynamic_loops": ("dynamic loops", "d"), "conditions": ("conditions", "d"), "temporary_mib": ("temp. MiB", ",d"),
    "approximate": ("approximate", "d"), "cpu_s": ("CPU s", ".0f"), "error": ("error", ""),
}  # fmt: skip
APPROXIMATE = re.compile(r"\bdiv\.full|\.approx\b")
"""In a kernel's PTX: a float32 instruction whose rounding is NVIDIA's own."""
_NO_KERNELS = {
    "parameter", "constant", "tuple", "get-tuple-element", "bitcast", "while", "conditional", "call", "after-all",
    "partition-id", "replica-id", "copy", "copy-start", "copy-done", "async-start", "async-done", "opt-barrier",
}  # fmt: skip


def computations(program: str) -> dict[str, list[tuple[str, str]]]:
    """Of an optimized program, each computation's instructions: their opcodes, and the lines themselves."""
    found: dict[str, list[tuple[str, str]]] = {}
    current: list[tuple[str, str]] | None = None
    for line in program.splitlines():
        if head := re.match(r"(ENTRY )?%?([\w.\-]+) \(.*\{$", line):
            current = found.setdefault("ENTRY" if head[1] else head[2], [])
        elif line.startswith("}"):
            current = None
        elif current is not None and (made := re.match(r"\s+(?:ROOT )?%?[\w.\-]+ = (?:\(.*?\)|\S+) ([\w\-]+)\(", line)):
            current.append((made[1], line))
    return found


def _called(line: str, *kinds: str) -> list[str]:
    names: list[str] = []
    for kind in kinds:
        if found := re.search(rf"\b{kind}=\{{?([^}},]*(?:, *%[^}},]*)*)", line):
            names += re.findall(r"[\w.\-]+", found[1])
    return names


def counted(program: str, stride: int) -> Row:
    """What the program of a chunk starts on a device, from its text."""
    parts = computations(program)
    row: Row = dict.fromkeys(("kernels", "copies", "dynamic_loops", "conditions"), 0)

    def direct(name: str) -> tuple[int, int]:
        kernels = sum(opcode not in _NO_KERNELS for opcode, _ in parts[name])
        return kernels, sum(opcode in ("copy", "copy-start") for opcode, _ in parts[name])

    def bodies(name: str) -> Iterator[str]:
        """Of all loops in a computation, and in these."""
        for kind, line in parts[name]:
            if kind == "while":
                (body,) = _called(line, "body")
                yield body
                yield from bodies(body)

    waiting, seen = ["ENTRY"], set()
    while waiting:
        name = waiting.pop()
        if name in seen or name not in parts:
            continue
        seen.add(name)
        kernels, copies = direct(name)
        row["kernels"] += kernels
        row["copies"] += copies
        for opcode, line in parts[name]:
            if opcode == "while":
                body = _called(line, "body")
                turns = re.search(r'known_trip_count":\{"n":"(\d+)"', line)
                row["dynamic_loops"] += turns is None
                if turns and int(turns[1]) == stride and "step_kernels" not in row:
                    row["step_kernels"], row["step_copies"] = direct(body[0])
                    inner = [*bodies(body[0])]
                    if inner:
                        row["turn_kernels"], row["turn_copies"] = max(map(direct, inner))
                waiting += [*body, *_called(line, "condition")]
            elif opcode == "conditional":
                row["conditions"] += 1
                waiting += _called(line, "branch_computations", "true_computation", "false_computation")
            elif opcode == "call":
                waiting += _called(line, "to_apply")
    return row


def cpu_seconds() -> float:
    """Of this process and of those that it started: XLA runs NVIDIA's assembler, where there is one, by itself."""
    started = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + started.ru_utime + started.ru_stime


def one(name: str, platform: str, lanes: int | None) -> Row:
    """A policy's figures on a platform, from compiling it in this process."""
    import jax
    from jax.experimental import topologies

    from benchmarks.accelerator import _built
    from jaxbandit.engine import Batch
    from jaxbandit.grammar import accelerated, execution_of

    if platform == "cuda":
        found = topologies.get_topology_desc(platform="cuda", topology="1x1x1", target_config=H100)
    else:
        found = topologies.get_topology_desc(platform="tpu", topology_name="v5e:2x2")
    problem, policy = _built(name)
    batch = Batch([(problem, policy)], devices=found.devices[:1])
    row: Row = {"policy": name, "platform": platform, "device": found.devices[0].device_kind}
    row["lanes"] = batch.lanes([0], runs=JOBS, lanes=lanes)
    (program,) = batch.programs([0], runs=JOBS, lanes=lanes)
    lowered = program.lower()
    before = cpu_seconds()
    made = lowered.compile()
    memory = made.memory_analysis()
    execution = execution_of(accelerated(policy, problem))
    row |= {"unroll": execution.unroll} | counted(made.as_text(), execution.stride // execution.unroll)
    row |= {
        "cpu_s": cpu_seconds() - before, "host_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        "argument_bytes": memory.argument_size_in_bytes, "temporary_bytes": memory.temp_size_in_bytes,
        "temporary_mib": memory.temp_size_in_bytes >> 20, "jax": jax.__version__,
    }  # fmt: skip
    return row


def measure(name: str, platform: str, lanes: int | None) -> Row:
    """The same, in a process of its own that ends with its CPU-seconds."""
    command = [sys.executable, "-m", "benchmarks.ahead_of_time", "--process", json.dumps([name, platform, lanes])]

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (PATIENCE, PATIENCE))

    with tempfile.TemporaryDirectory() as folder:
        kernels = {"XLA_FLAGS": f"--xla_dump_to={folder} --xla_dump_emitter_re=ptx"} if platform == "cuda" else {}
        done = subprocess.run(
            command, cwd=ROOT, env=os.environ | NO_DEVICE | kernels, preexec_fn=limited, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        if done.returncode == 0:
            row: Row = json.loads(done.stdout.splitlines()[-1])
            texts = [path.read_text() for path in Path(folder).glob("*.ptx")]
            return row | ({"approximate": sum(len(APPROXIMATE.findall(text)) for text in texts)} if texts else {})
    said = [line for line in done.stderr.splitlines() if line.strip()]
    told = next((line for line in reversed(said) if "Error" in line), (said or ["no message"])[-1])
    why = f"no end within {PATIENCE} CPU-seconds" if done.returncode < 0 else told[:300]
    return {"policy": name, "platform": platform, "error": why}


def complaints(row: Row, committed: Iterable[Row], timed: bool) -> list[str]:
    """What is wrong with a row; ``timed``: with its time, too."""
    where = f"{row['policy']} for {row['platform']}"
    if "error" in row:
        return [f"{where}: {row['error']}"]
    found = []
    needed = row["argument_bytes"] + row["temporary_bytes"]
    if needed > MEMORY[row["platform"]]:
        found.append(f"{where}: {needed / 2**30:.1f} GiB of the device's {MEMORY[row['platform']] / 2**30:.0f}")
    allowed = SLOW[row["platform"]].get(row["policy"], CPU_SECONDS)
    if timed and row["cpu_s"] > allowed:
        found.append(f"{where}: {row['cpu_s']:.0f} CPU-seconds to compile, and at most {allowed} are allowed")
    if row["host_bytes"] > HOST_BYTES:
        found.append(f"{where}: {row['host_bytes'] / 2**30:.1f} GiB of the host's memory to compile it")
    for before in committed:
        if all(before.get(key) == row[key] for key in ("policy", "platform", "lanes")) and "error" not in before:
            found += [
                f"{where}: {row[key]:,} {key.replace('_', ' ')}, and {before[key]:,} before"
                for key in BOUNDED
                if key in row and key in before and row[key] > BOUND * before[key] + 2
            ]
    return found


def main() -> int:
    """Compile, print a table, write JSON; 1 if something is wrong."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--out", type=Path, metavar="FILE.json", help="write the figures to this file as JSON")
    options.add_argument("--only", nargs="+", metavar="NAME", help="policies, or families, or both as topk/sar")
    options.add_argument("--platforms", nargs="+", choices=PLATFORMS, default=PLATFORMS, help="both by default")
    options.add_argument("--lanes", type=int, help="of a device; by default those that it would get")
    options.add_argument("--untimed", action="store_true", help="with no limit of CPU-seconds: on a busy machine")
    options.add_argument("--process", type=json.loads, help="compile one policy in this process (for itself)")
    given = options.parse_args()
    if given.process:
        print(json.dumps(one(*given.process)))
        return 0
    from benchmarks.accelerator import names

    committed: list[dict[str, Any]] = json.loads(RESULTS.read_text())["rows"] if RESULTS.exists() else []
    head, rows, wrong = facts("ahead_of_time", False), [], []
    wanted = [name for name in names() if not given.only or {name, *name.split("/")} & {*given.only}]
    earlier = json.loads(given.out.read_text())["rows"] if given.out is not None and given.out.exists() else []
    others = [row for row in earlier if row["policy"] not in wanted or row["platform"] not in given.platforms]
    for name in wanted:
        for platform in given.platforms:
            rows.append(measure(name, platform, given.lanes))
            wrong += complaints(rows[-1], committed, not given.untimed)
            text = table(rows, COLUMNS).splitlines()
            print("\n".join(text if len(rows) == 1 else text[-1:]), flush=True)
            save(given.out, head, others + rows)
    print("\n".join(wrong), file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
