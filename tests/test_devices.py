"""All cores from Python: JAX is given one device a core, unless it has started or the user has said otherwise.

The platform that was asked for, and no other; how many lanes a device gets.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest

from jaxbandit import BadInput, cleaning, cli, devices, extraction, simulate, topk
from jaxbandit.arms.problem import given
from jaxbandit.cleaning import expected_removed, uniform_false_values
from jaxbandit.cli import checkup
from jaxbandit.devices import Accelerator, accelerator, not_found, use_platform
from jaxbandit.grammar import Execution
from jaxbandit.jobs import _most_lanes
from jaxbandit.laws import Uniform
from jaxbandit.study import families
from jaxbandit.study.run import run as run_study
from jaxbandit.study.spec import Study
from tests import test_conformance, toy

_SET_UP = """
import os
os.sched_getaffinity = lambda process: range(3)  # whatever this machine has
import jax
"""
_USE = """
from jaxbandit import cleaning, simulate
problem = cleaning.synthetic(
    budget=9, entities=50, false_values=cleaning.uniform_false_values(0, 9), sc_pdf=cleaning.Uniform()
)
for _ in range(2):
    simulate(problem, cleaning.ee(2, 0.5), runs=4, progress=False)
print(jax.local_device_count())
"""


def run(code: str, **environment: str) -> tuple[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("JAX_NUM_CPU_DEVICES", "XLA_FLAGS")}
    done = subprocess.run(
        [sys.executable, "-c", _SET_UP + code], env=kept | {"JAX_PLATFORMS": "cpu"} | environment, text=True,
        capture_output=True, check=True,
    )  # fmt: skip
    return done.stdout.strip(), done.stderr


def test_the_first_problem_takes_all_cores() -> None:
    assert run(_USE) == ("3", "")


def test_whatever_comes_first_takes_all_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Policies, too, and what is tuned: their arrays may be the first."""
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    weights, uniform = np.ones(4), Uniform()
    problem: dict[str, Any] = {"budget": 100, "entities": 10, "false_values": weights, "sc_pdf": uniform}
    first: dict[str, Callable[[], Any]] = {
        "ee": lambda: cleaning.ee(3, 0.5),
        "index": lambda: cleaning.index(**problem),
        "trained cleaning": lambda: cleaning.trained(cleaning.shipped_score(), **problem),
        "tune": lambda: cleaning.tune(uniform.cells(0.1), weights / 4, 0.1),
        "fit": lambda: cleaning.fit([1, 2], [3, 4]),
        "expected": lambda: cleaning.expected_removed(50, 3, 2, uniform.cells(0.1), weights / 4),
        "means": lambda: given([0.5, 0.6]),
        "sar": lambda: topk.sar(10, 3, 100),
        "trained topk": lambda: topk.trained(3, topk.shipped_score()),
        "crux": extraction.crux,
    }
    for name, make in first.items():
        told: list[str] = []
        config = SimpleNamespace(
            values={"jax_num_cpu_devices": -1}, update=lambda name, count, told=told: told.append(name)
        )
        with monkeypatch.context() as patch:
            patch.setattr(devices, "jax", SimpleNamespace(**vars(jax) | {"config": config}))
            make()
        assert set(told) == {"jax_num_cpu_devices"}, name


def test_an_import_changes_nothing() -> None:
    code = "import jaxbandit, jaxbandit.engine, jaxbandit.study.run, jaxbandit.topk; print(jax.local_device_count())"
    assert run(code) == ("1", "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "environment", "devices"),
    [
        ("", {"JAX_NUM_CPU_DEVICES": "2"}, 2),
        ("", {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}, 2),
        ("jax.config.update('jax_num_cpu_devices', 2)", {}, 2),
    ],
)
def test_what_the_user_has_set_stays(before: str, environment: dict[str, str], devices: int) -> None:
    assert run(before + _USE, **environment) == (str(devices), "")


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("JAX_NUM_CPU_DEVICES", "0", "JAX_NUM_CPU_DEVICES = 0: a whole number from 1"),
        ("JAX_NUM_CPU_DEVICES", "two", "a JAX_... variable of the environment = wrong: what JAX takes (Invalid value"),
        ("JAX_ENABLE_X64", "maybe", "a JAX_... variable of the environment = wrong: what JAX takes (invalid truth val"),
        ("XLA_FLAGS", "--xla_force_host_platform_device_count=0", "XLA_FLAGS = xla_force_host_platform_device_count=0"),
    ],
)
def test_wrong_settings_of_jax_are_one_line(name: str, value: str, line: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "jaxbandit", "tune", "none.toml", "--out", str(tmp_path)]
    done = subprocess.run(command, env=os.environ | {name: value}, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert done.stderr.startswith(f"jaxbandit: {line}")
    assert done.stderr.count("\n") == 1


def test_all_cores_are_used_for_a_users_own_problem() -> None:
    """Which makes no array of JAX before ``simulate`` does."""
    code = """
import jax, numpy as np
from jaxbandit import simulate
from tests import toy
simulate(toy.Coins(np.int32(5), np.float32(0.2), np.float32(0.8)), toy.Coin(np.float32(0.5)), runs=4)
print(jax.local_device_count())
"""
    assert run(code) == ("3", "")


def test_once_it_is_said_that_jax_had_started() -> None:
    devices, said = run("jax.devices()" + _USE)
    assert devices == "1"
    assert said.count("\n") == 1
    assert "jaxbandit: one core of 3 is used, as JAX had started before: set JAX_NUM_CPU_DEVICES=3" in said


_DIGESTS = """
import json, sys
from tests.test_devices import digests
print(json.dumps(digests(*sys.argv[1:])))
"""


def digests(family: str) -> dict[str, str]:
    """What each policy of a family answers in some runs: bits and types."""
    found = {}
    for name in families.FAMILIES[family].policies.keys() - test_conformance.OTHER_NAMES:
        pair = test_conformance._built(family, name, {"informed": True} if name == "gs-exact" else {})
        answers = simulate(*pair, runs=3, seed=9, progress=False)
        parts = [f"{key} {each.dtype}".encode() + each.tobytes() for key, each in sorted(answers.items())]
        found[name] = hashlib.sha256(b"".join(parts)).hexdigest()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("family", test_conformance.PROBLEMS)
def test_settings_of_jax_change_no_bit_of_any_policy(family: str) -> None:
    environment = os.environ | {"PYTHONPATH": os.getcwd(), "JAX_PLATFORMS": "cpu"}
    environment |= {"JAX_ENABLE_X64": "1", "JAX_NUMPY_DTYPE_PROMOTION": "strict", "JAX_NUMPY_RANK_PROMOTION": "raise"}
    done = subprocess.run(
        [sys.executable, "-c", _DIGESTS, family], env=environment, text=True, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == digests(family)


@pytest.mark.parametrize(
    ("words", "platforms", "field"),
    [(["doctor", "--platform", "cuda"], "", "--platform = cuda"), (["doctor"], "cuda", "JAX_PLATFORMS = cuda")],
)
def test_a_platform_that_is_not_there_is_one_line(words: list[str], platforms: str, field: str) -> None:
    environment = os.environ | {"JAX_PLATFORMS": platforms, "JAXBANDIT_CACHE": "off"}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    done = subprocess.run(
        [sys.executable, "-m", "jaxbandit", *words], env=environment, text=True, capture_output=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"jaxbandit: {field}: a platform that JAX finds here")
    assert done.stderr.endswith("; for an NVIDIA GPU: pip install 'jaxbandit[lab,cuda]'\n")
    assert done.stderr.count("\n") == 1


def test_why_a_platform_is_not_there_ends_with_a_word() -> None:
    said = str(not_found("--platform", "tpu", RuntimeError(f"{'word ' * 50}\nmore")))
    assert re.fullmatch(r".* here \((word ){39}\.\.\.\); for a TPU: pip install 'jax\[tpu\]'", said)
    assert "(short); for" in str(not_found("--platform", "tpu", RuntimeError("short")))


def test_a_platform_is_too_late_when_jax_has_started() -> None:
    jax.devices()
    before = jax.config.values["jax_platforms"]
    with pytest.raises(BadInput, match="--platform = tpu: cpu, as JAX has started on it in this process"):
        use_platform("tpu")
    jax.config.update("jax_platforms", before)
    use_platform("cpu")
    jax.config.update("jax_platforms", before)


class _Device(SimpleNamespace):
    """Looks like a device of JAX that says what it is given, or nothing."""

    def memory_stats(self) -> Any:
        if "stats" not in self.__dict__:
            raise NotImplementedError
        return self.stats


H100 = _Device(platform="gpu", device_kind="NVIDIA H100 80GB HBM3")
V5E = _Device(platform="tpu", device_kind="TPU v5 lite")
SMALL = _Device(platform="gpu", device_kind="one that nobody knows", stats={"bytes_limit": 6 << 30}, core_count=10)


def test_what_an_accelerator_is() -> None:
    assert accelerator(H100) == Accelerator(79 << 30, 132)  # type: ignore[arg-type]
    assert accelerator(V5E) == Accelerator(16 << 30, 1)  # type: ignore[arg-type]
    assert accelerator(SMALL) == Accelerator(6 << 30, 10)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("device", "state", "lanes"),
    [
        (H100, 100, 1 << 20), (H100, 120_000, 1 << 16), (H100, 1 << 34, 1), (V5E, 100, 1 << 16),
        (V5E, 1 << 16, 1 << 15), (SMALL, 100, 1 << 16), (_Device(platform="cpu", device_kind="cpu"), 100, 2048),
        (_Device(platform="cpu", device_kind="cpu"), 1 << 17, 1024),
    ],
)  # fmt: skip
def test_lanes_follow_from_the_device(device: Any, state: int, lanes: int) -> None:
    lane: Any = jax.ShapeDtypeStruct((state,), np.uint8)
    mesh: Any = SimpleNamespace(devices=np.array([device], object))
    assert _most_lanes(lane, Execution(), mesh) == lanes


@pytest.mark.parametrize(("times", "lanes"), [(0, 1 << 19), (3, 1 << 19), (8, 1 << 18), (32, 1 << 16)])
def test_what_a_step_works_on_counts_as_memory(times: int, lanes: int) -> None:
    lane: Any = jax.ShapeDtypeStruct((15_000,), np.uint8)
    mesh: Any = SimpleNamespace(devices=np.array([H100], object))
    assert _most_lanes(lane, Execution(temporaries=times), mesh) == lanes


@pytest.mark.parametrize(
    ("device", "shape", "lanes"),
    [(V5E, (1024, 5), 4096), (V5E, (5 * 1024,), 1 << 16), (V5E, (9, 3), 1 << 16), (H100, (1024, 5), 1 << 18)],
)
def test_a_tpu_has_room_for_whole_tiles(device: Any, shape: tuple[int, ...], lanes: int) -> None:
    """Of 8 times 128 words, in which the last two axes of an array lie."""
    lane: Any = jax.ShapeDtypeStruct(shape, np.int32)
    mesh: Any = SimpleNamespace(devices=np.array([device], object))
    assert _most_lanes(lane, Execution(), mesh) == lanes


def test_results_of_two_platforms_are_not_mixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(families.FAMILIES, "toy", toy.FAMILY)

    def study(runs: int) -> Any:
        return Study.of({"runs": runs, "problem": {"kind": "toy/coins", "budget": 10}, "policy": [{"kind": "best"}]})

    out = tmp_path / "out"
    rows = run_study(study(20), out)
    about = out / "results.zarr" / "zarr.json"
    held = json.loads(about.read_text())
    assert held["attributes"]["platform"] == "cpu"
    assert run_study(study(40), out, lanes=2)[0]["runs"] == 40
    held["attributes"]["platform"] = "gpu"
    about.write_text(json.dumps(held))
    with pytest.raises(BadInput, match="a folder of results from cpu; these are from gpu"):
        run_study(study(60), out)
    assert rows == run_study(study(20), tmp_path / "again", lanes=3)


def test_lanes_of_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", "none.toml", "--out", "none", "--lanes", "0"]) == 2
    assert capsys.readouterr().err == "jaxbandit: --lanes = 0: a whole number from 1 to 2147483647\n"


def test_the_doctor_checks(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """EE's mean is the exact one; a wrong bit is found, and is what the exit status says."""
    monkeypatch.setattr(checkup, "RUNS", checkup.HASHED)
    monkeypatch.setattr(checkup, "_SECONDS", 0)
    monkeypatch.setenv("JAXBANDIT_CACHE", "off")
    monkeypatch.setattr("jaxbandit.cli.doctor._hits", lambda platform: "not asked")
    assert cli.main(["doctor", "--check"]) == 0
    found = capsys.readouterr().out
    assert f"law       right: over {checkup.HASHED:,} runs ee removes 68" in found
    for line in (f"bits      right: {checkup.BITS}, as they", "speed     right: "):
        assert line in found
    monkeypatch.setattr(checkup, "BITS", "0" * 16)
    assert cli.main(["doctor", "--check"]) == 1
    assert f"bits      WRONG: {found.split('bits      right: ')[1][:16]}, and not 0000" in capsys.readouterr().out

    weights = np.asarray(uniform_false_values(0, checkup.MOST), np.float64)
    exact = expected_removed(
        checkup.BUDGET, checkup.EXPLORE, 3, Uniform().cells(1e-4), weights / weights.sum(), entities=checkup.ENTITIES
    )
    assert exact.mean[-1] == pytest.approx(checkup.EXPECTED, rel=1e-6)
    assert exact.std[-1] == pytest.approx(checkup.SPREAD, rel=1e-6)
