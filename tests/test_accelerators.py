"""Every policy's program: it lowers for accelerators, and has the same bits by their ways, loaded from disk,
and compiled in full."""

import contextlib
import functools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
from jax import export, lax
from jax.experimental.compilation_cache.compilation_cache import reset_cache

import jaxbandit
from benchmarks.ahead_of_time import complaints, counted
from jaxbandit import jobs, lanes, simulate
from jaxbandit.engine import Batch
from jaxbandit.grammar import accelerated
from jaxbandit.programs import store
from jaxbandit.registry import parse
from jaxbandit.study.families import FAMILIES
from jaxbandit.xla import platforms
from jaxbandit.xla.contraction import rounded_alike
from jaxbandit.xla.options import BITS, LEVEL, options_for
from tests.test_compilation import unset_settings

RUNS = 64
PROBLEMS: dict[str, tuple[str, dict[str, Any]]] = {
    "cleaning": ("synthetic", {"budget": 60, "entities": 40, "false_values": {"uniform": [0, 6]}}),
    "topk": ("bernoulli", {"n": 12, "K": 3, "budget": 240}),
    "outliers": ("synthetic", {"n": 12, "budget": 20_000}),
    "extraction": ("people", {"budget": 20}),
}
CHANGES: dict[str, dict[str, Any]] = {
    "counted": {"paired": False, "entities": 400}, "repeated": {"budget": 200}, "gs-exact": {"informed": True},
    "many": {"n": 300, "K": 40, "budget": 60_000},
}  # fmt: skip
POLICIES: dict[str, dict[str, Any]] = {"ee": {"t": 3, "q": 0.6}, "epsilon-greedy": {"epsilon": 0.5}}
ENOUGH: dict[str, dict[str, Any]] = {"epsilon-greedy": {"epsilon": 0.8}}
"""Of the counted ones: it explores so much that its entities are counted."""
COUNTED = ["random", "greedy", "epsilon-greedy"]
CASES = [
    *(f"{family}/{name}" for family in FAMILIES for name in FAMILIES[family].policies),
    *(f"cleaning/counted {name}" for name in COUNTED),
    "cleaning/repeated random",
]
QUICK = [
    "cleaning/epsilon-greedy", "cleaning/index", "cleaning/counted epsilon-greedy", "topk/lucb", "topk/sar",
    "outliers/wrr", "outliers/ib", "outliers/gold", "extraction/crux",
]  # fmt: skip
"""Policies that take all ways of accelerators between them: the others' bits are compared in the slow tests."""


def built(name: str) -> tuple[Any, Any]:
    """A small problem and a policy."""
    family, _, rest = name.partition("/")
    how, _, policy = rest.rpartition(" ")
    kind, given = PROBLEMS[family]
    problem, of = FAMILIES[family].problems[kind], FAMILIES[family].policies[policy]
    setting = problem.build(**parse("problem", problem.parameters, given | CHANGES.get(how or policy, {})))
    return setting.problem(), of.build(
        setting, **parse("policy", of.parameters, (ENOUGH if how else POLICIES).get(policy, {}))
    )[0]


@pytest.mark.parametrize("name", COUNTED)
def test_what_is_called_counted_is(name: str) -> None:
    problem, policy = built(f"cleaning/counted {name}")
    assert type(accelerated(policy, problem)).__name__.startswith("Counted")


def test_where_operations_are_repeated_random_makes_passes() -> None:
    problem, policy = built("cleaning/repeated random")
    assert type(accelerated(policy, problem)).__name__ == "RandomInPasses"


OTHERS = ("extraction/root-chao", "extraction/rand-leaf", "topk/optmai-printed", "topk/lucb-stop")
"""Policies that are another one's class with other parameters: they take that one's ways of accelerators."""
CONTRACTED = {"topk/kl-lucb"}
"""Policies whose products meet sums, so that level 0 of LLVM's optimization gives other bits than the others."""
# pytest runs all tests of a policy one after the other, and the fixture ``own`` traces and compiles for all of them.
CASES.sort(key=OTHERS.__contains__)
ALL = pytest.mark.parametrize("own", CASES, indirect=True, scope="module")
WAYS = pytest.mark.parametrize(
    "own",
    [pytest.param(x, marks=[] if x in QUICK else pytest.mark.slow) for x in CASES if x not in OTHERS],
    indirect=True,
    scope="module",
)


class Own(NamedTuple):
    """What a policy answers by the CPU's own way, compiled as tests compile, and the folder where its program is."""

    name: str
    answers: dict[str, np.ndarray]
    folder: Path


def answers(name: str) -> dict[str, np.ndarray]:
    return simulate(*built(name), runs=RUNS, seed=7, devices=jax.devices("cpu")[:1], progress=False)


def forget() -> None:
    """What was traced and compiled is so anew."""
    jax.clear_caches()
    lanes.chunk_function.cache_clear()
    store.COMPILED.clear()


@contextlib.contextmanager
def kept(folder: Path) -> Iterator[None]:
    """Whole programs are kept in a folder. That of the other tests has none, as names do not tell what tests change."""
    reset_cache()
    with unset_settings():
        jaxbandit.cache(folder)
        yield
    reset_cache()


@pytest.fixture(scope="module")
def own(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Own]:
    """Compiled with the least effort that has the bits of more. What is traced and compiled for it stays in memory
    until the next policy."""
    forget()
    folder = tmp_path_factory.mktemp("programs")
    with pytest.MonkeyPatch.context() as patch:
        if request.param in CONTRACTED and "optimization_level=0" in os.environ.get("XLA_FLAGS", ""):
            patch.setitem(BITS, LEVEL, 1)
        with kept(folder):
            found = answers(request.param)
            assert store._MADE_HERE
            assert not store._LOADED
        yield Own(request.param, found, folder)
    forget()


def assert_same(first: dict[str, np.ndarray], second: dict[str, np.ndarray]) -> None:
    """Bit by bit."""
    assert first.keys() == second.keys()
    for key, values in first.items():
        np.testing.assert_array_equal(values, second[key], key)


class _Exported:
    """A chunk that is lowered for accelerators in the place of compiled."""

    def __init__(self, *structure: Any) -> None:
        self._chunk = lanes.chunk_function(*structure)

    def lower(self, *arguments: Any) -> Any:
        return export.export(self._chunk, platforms=["cuda", "tpu"])(*arguments)


@pytest.mark.slow
@ALL
def test_every_policy_lowers_for_accelerators(own: Own, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platforms, "known", lambda: None)
    monkeypatch.setattr(jobs, "chunk_function", _Exported)
    (program,) = Batch([built(own.name)], devices=jax.devices("cpu")[:1]).programs([0], runs=RUNS)
    assert set(program.lower().platforms) == {"cuda", "tpu"}


@pytest.mark.slow
@ALL
def test_a_loaded_program_has_the_bits_of_the_one_that_was_compiled(own: Own) -> None:
    with kept(own.folder):
        for _ in range(2):
            assert_same(own.answers, answers(own.name))
            assert len(store._LOADED) == 1


class _InFull:
    """A chunk that is compiled as users have those with much to run."""

    def __init__(self, *structure: Any) -> None:
        self._chunk, self._level = lanes.chunk_function(*structure), structure[-1]

    def lower(self, *arguments: Any) -> Any:
        self._lowered = self._chunk.lower(*arguments)
        return self

    def compile(self) -> None:
        self._compiled = self._lowered.compile((options_for("cpu") or {}) | {LEVEL: self._level})

    def __call__(self, *arguments: Any) -> Any:
        return self._compiled(*arguments)


@pytest.mark.slow
@ALL
@pytest.mark.usefixtures("fast_programs")
def test_programs_compiled_in_a_hurry_have_the_same_bits(own: Own, monkeypatch: pytest.MonkeyPatch) -> None:
    """Little work is compiled so (``Jobs``), as all of the tests is: no user may see which it was. At level 0 too where
    no rounding is left to the compiler."""
    monkeypatch.setattr(jobs, "chunk_function", functools.cache(_InFull))
    assert_same(own.answers, answers(own.name))


class _Alike(_Exported):
    """A chunk of which is found out whether it is rounded alike at all levels."""

    def lower(self, *arguments: Any) -> Any:
        return rounded_alike(self._chunk.trace(*arguments).jaxpr)


@pytest.mark.slow
@pytest.mark.smoke
@pytest.mark.parametrize("name", CASES)
def test_which_policies_are_rounded_alike_is_known(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is added to one of them may not leave its rounding to the compiler: its first call would take longer. The
    newest JAX may have operations that nobody knows yet."""
    monkeypatch.setattr(jobs, "chunk_function", _Alike)
    (program,) = Batch([built(name)], devices=jax.devices("cpu")[:1]).programs([0], runs=RUNS)
    assert program.lower() == (name not in CONTRACTED)


def take_accelerators_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platforms, "known", lambda: None)
    monkeypatch.setattr(lax, "platform_dependent", lambda *operands, default, **ways: default(*operands))


@WAYS
def test_the_ways_of_accelerators_have_the_same_bits(own: Own, monkeypatch: pytest.MonkeyPatch) -> None:
    forget()
    take_accelerators_ways(monkeypatch)
    assert_same(own.answers, answers(own.name))
    forget()


@pytest.mark.parametrize("name", ["topk/many sar", "topk/many optmai"])
def test_rounds_of_many_arms_have_the_same_bits_by_the_ways_of_accelerators(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On all arms at first, then on an eighth; with draws of up to hundreds of rewards."""
    forget()
    found = answers(name)
    forget()
    take_accelerators_ways(monkeypatch)
    assert_same(found, answers(name))
    forget()


PROGRAM = """
%fused (a: s32[]) -> s32[] {
  ROOT %b = s32[] negate(%a)
}
%step (s: (s32[])) -> (s32[]) {
  %x = s32[] fusion(%s), kind=kLoop, calls=%fused
  %y = s32[] copy(%x)
  ROOT %t = (s32[]) tuple(%y)
}
%more (s: (s32[])) -> pred[] {
  ROOT %p = pred[] fusion(%s), kind=kLoop, calls=%fused
}
%one (s: (s32[])) -> (s32[]) {
  ROOT %v = (s32[]) while(%s), condition=%more, body=%step, backend_config={"known_trip_count":{"n":"32"}}
}
ENTRY %main (s: (s32[])) -> (s32[]) {
  %w = (s32[]) while(%s), condition=%more, body=%one
  ROOT %c = (s32[]) conditional(%i, %w, %w), branch_computations={%step, %one}
}
"""


def test_what_a_program_starts_is_counted() -> None:
    row = counted(PROGRAM, 32)
    expected = {"kernels": 2, "copies": 1, "dynamic_loops": 1, "conditions": 1, "step_kernels": 1, "step_copies": 1}
    assert row == expected
    full = row | {
        "policy": "a",
        "platform": "tpu",
        "lanes": 8,
        "argument_bytes": 0,
        "temporary_bytes": 0,
        "host_bytes": 0,
        "cpu_s": 60,
    }
    assert complaints(full, [full], timed=True) == []
    assert complaints(full | {"kernels": 9}, [full], timed=True) == ["a for tpu: 9 kernels, and 2 before"]
    slow = full | {"cpu_s": 61}
    assert complaints(slow, [], timed=True) == ["a for tpu: 61 CPU-seconds to compile, and at most 60 are allowed"]
    assert complaints(slow, [], timed=False) == []
    large = full | {"argument_bytes": 17 << 30}
    assert complaints(large, [], timed=False) == ["a for tpu: 17.0 GiB of the device's 16"]
