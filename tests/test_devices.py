"""All cores from Python: JAX is given one device a core, unless it has started or the user has said otherwise."""

import os
import subprocess
import sys

import pytest

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


def test_an_import_changes_nothing() -> None:
    code = "import jaxbandit, jaxbandit.engine, jaxbandit.study.run, jaxbandit.topk; print(jax.local_device_count())"
    assert run(code) == ("1", "")


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


def test_once_it_is_said_that_jax_had_started() -> None:
    devices, said = run("jax.devices()" + _USE)
    assert devices == "1"
    assert said.count("\n") == 1
    assert "jaxbandit: one core of 3 is used, as JAX had started before: set JAX_NUM_CPU_DEVICES=3" in said
