"""Accelerators, without one: every policy lowers for them, and the ways that they take give the bits of the CPU's."""

import functools
from typing import Any

import jax
import numpy as np
import pytest
from jax import export, lax

from benchmarks.ahead_of_time import complaints, counted
from jaxbandit import jobs, lanes, simulate
from jaxbandit.engine import Batch
from jaxbandit.registry import parse
from jaxbandit.study.families import FAMILIES

RUNS = 64
PROBLEMS: dict[str, tuple[str, dict[str, Any]]] = {
    "cleaning": ("synthetic", {"budget": 60, "entities": 40, "false_values": {"uniform": [0, 6]}}),
    "topk": ("bernoulli", {"n": 12, "K": 3, "budget": 240}),
    "outliers": ("synthetic", {"n": 12, "budget": 20_000}),
    "extraction": ("people", {"budget": 20}),
}
CHANGES: dict[str, dict[str, Any]] = {"counted": {"paired": False, "entities": 400}, "gs-exact": {"informed": True}}
POLICIES: dict[str, dict[str, Any]] = {"ee": {"t": 3, "q": 0.6}, "epsilon-greedy": {"epsilon": 0.5}}
COUNTED = ["random", "greedy", "epsilon-greedy"]
CASES = [
    *(f"{family}/{name}" for family in FAMILIES for name in FAMILIES[family].policies),
    *(f"cleaning/counted {name}" for name in COUNTED),
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
    return setting.problem(), of.build(setting, **parse("policy", of.parameters, POLICIES.get(policy, {})))[0]


class _Exported:
    """A chunk that is lowered for accelerators in the place of compiled."""

    def __init__(self, *structure: Any) -> None:
        self._chunk = lanes.compiled(*structure)

    def lower(self, *arguments: Any) -> Any:
        return export.export(self._chunk, platforms=["cuda", "tpu"])(*arguments)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_every_policy_lowers_for_accelerators(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "compiled", _Exported)
    (program,) = Batch([built(name)], devices=jax.devices("cpu")[:1]).programs([0], runs=RUNS)
    assert set(program.lower().platforms) == {"cuda", "tpu"}


def answers(name: str) -> dict[str, np.ndarray]:
    """Of runs whose program is traced and compiled anew."""
    jax.clear_caches()
    lanes.compiled.cache_clear()
    try:
        return simulate(*built(name), runs=RUNS, seed=7, devices=jax.devices("cpu")[:1], progress=False)
    finally:
        jax.clear_caches()
        lanes.compiled.cache_clear()


@functools.cache
def own_answers(name: str) -> dict[str, np.ndarray]:
    """Those of the CPU's own way, as tests compile."""
    return answers(name)


def assert_same(first: dict[str, np.ndarray], second: dict[str, np.ndarray]) -> None:
    """Bit by bit."""
    assert first.keys() == second.keys()
    for key, values in first.items():
        np.testing.assert_array_equal(values, second[key], key)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(x, marks=[] if x in QUICK else pytest.mark.slow)
        for x in CASES
        if x.partition("/")[2] not in ("root-chao", "rand-leaf", "optmai-printed", "lucb-stop")  # classes of others
    ],
)
def test_the_ways_of_accelerators_have_the_same_bits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    own = own_answers(name)
    with monkeypatch.context() as patch:
        patch.setattr(lax, "platform_dependent", lambda *operands, default, **ways: default(*operands))
        assert_same(own, answers(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_programs_compiled_in_a_hurry_have_the_same_bits(name: str, request: pytest.FixtureRequest) -> None:
    """Little work is compiled so (``Jobs``), as all of the tests is (conftest.py): no user may see which it was."""
    quick = own_answers(name)
    request.getfixturevalue("fast_programs")
    assert_same(quick, answers(name))


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
    assert complaints(full, [full]) == []
    assert complaints(full | {"kernels": 9}, [full]) == ["a for tpu: 9 kernels, and 2 before"]
    assert complaints(full | {"cpu_s": 61}, []) == ["a for tpu: 61 CPU-seconds to compile, and at most 60 are allowed"]
    assert complaints(full | {"argument_bytes": 17 << 30}, []) == ["a for tpu: 17.0 GiB of the device's 16"]
