"""For all tests."""

import gc
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

# Compilation is nearly all that the tests take: what one file, command or notebook compiled, the others load.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.05")
os.environ.setdefault("JAX_NUM_CPU_DEVICES", "1")  # tests run side by side; those of devices say how many

# Half of the time that XLA takes for a program makes it faster and no other, except that products and sums contract
# (`level_1`). With `XLA_FLAGS=`, tests have programs as users do. A version that does not know a flag ends the process.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1"
    + (" --xla_cpu_use_fusion_emitters=false" if version("jaxlib").startswith("0.10.") else ""),
)

import jax

from jaxbandit import grammar
from jaxbandit import jobs as jobs_module
from jaxbandit.programs import past, store
from jaxbandit.study import families, plugins
from jaxbandit.xla.options import BITS

# Runs that a test divides among calls are to meet programs of other sizes, not the first one again.
past.PATIENCE = -1.0

gc.set_threshold(50_000, 20, 50)  # as on the command line: tracing makes many objects, of which few are in cycles


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Where time is short (.ci/run), slow tests are skipped from then on: else all would be stopped."""
    until = float(os.environ.get("TESTS_UNTIL", "inf"))
    if item.get_closest_marker("slow") and time.time() > until:
        pytest.skip("slow, and the time for tests is over (TESTS_UNTIL)")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where time is short, another file comes first each day, or the same slow tests would be skipped every time."""
    if "TESTS_UNTIL" in os.environ:
        files = [*dict.fromkeys(item.path for item in items)]
        first = int(float(os.environ["TESTS_UNTIL"]) // 86_400) * 7 % len(files) if files else 0
        order = {path: place for place, path in enumerate([*files[first:], *files[:first]])}
        items.sort(key=lambda item: order[item.path])


@pytest.fixture(autouse=True, scope="module")
def _forget_programs() -> Iterator[None]:
    """What one file compiled is of little use to the next, and adds up to gigabytes."""
    yield
    jax.clear_caches()
    store.COMPILED.clear()


@pytest.fixture
def own_names(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test registers is gone afterwards, and the plugins that it loaded: the next test loads them again."""
    before = dict(plugins.families())
    monkeypatch.setattr(plugins, "_registered", set())
    monkeypatch.setattr(plugins, "_loaded", set())
    yield
    families.FAMILIES.clear()
    families.FAMILIES.update(before)
    for name in plugins._loaded:
        sys.modules.pop(name, None)


@pytest.fixture
def fast_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that sample for longer than their programs take to compile: compiled as users get them."""
    if "optimization_level=0" in os.environ.get("XLA_FLAGS", ""):
        monkeypatch.setitem(BITS, "xla_backend_optimization_level", 2)
    if "fusion_emitters=false" in os.environ.get("XLA_FLAGS", ""):
        monkeypatch.setitem(BITS, "xla_cpu_use_fusion_emitters", True)


@pytest.fixture(scope="module")
def level_1() -> Iterator[None]:
    """For files that sample for long, or compare bits of sums of products: LLVM contracts these from level 1 on."""
    with pytest.MonkeyPatch.context() as patch:
        if "optimization_level=0" in os.environ.get("XLA_FLAGS", ""):
            patch.setitem(BITS, "xla_backend_optimization_level", 1)
        yield


@pytest.fixture
def short_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine looks every four steps which runs are over. Results do not change; many runs of few steps take a
    quarter of the time, as they else make 32."""

    def execution_of(policy: Any) -> grammar.Execution:
        found = grammar.execution_of(policy)
        return replace(found, stride=min(found.stride, 4))

    monkeypatch.setattr(jobs_module, "execution_of", execution_of)
