"""What the engine promises: the same bits however a simulation is cut, and no compilation in a sweep."""

import contextlib
import itertools
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from jax.sharding import Mesh

from jaxbandit import BadInput, Execution, simulate
from jaxbandit import engine as engine_module
from jaxbandit import jobs as jobs_module
from jaxbandit import lanes as lanes_module
from jaxbandit.cleaning import EE, Normal, Uniform, ee, epsilon_greedy, of_table, synthetic, uniform_false_values
from jaxbandit.cleaning.family import POLICIES, Setting
from jaxbandit.jobs import Jobs
from jaxbandit.lanes import bytes_of, shapes_of
from jaxbandit.programs import past
from jaxbandit.progress import Status
from jaxbandit.pytree import pytree
from jaxbandit.study.spec import Study
from jaxbandit.xla import options
from jaxbandit.xla.options import Effort, options_for
from tests import toy


def problem(budget: int = 300, entities: int = 500, **changes: Any) -> Any:
    given = {"false_values": uniform_false_values(0, 9), "sc_pdf": Uniform()} | changes
    return synthetic(budget=budget, entities=entities, **given)


def every_policy(setting: Setting, names: Sequence[str] = ()) -> dict[str, Any]:
    return {
        kind.name: kind.build(setting, **{parameter.name: parameter.default for parameter in kind.parameters})[0]
        for kind in POLICIES
        if not names or kind.name in names
    }


def same(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


def test_configurations_do_not_meet() -> None:
    seed = 3
    policies = [ee(1, 1.0), ee(3, 0.667), ee(5, 0.8), ee(3, 0.667, early_stopping=False)]
    together = simulate(problem(), policies, runs=40, seed=seed)
    for number, policy in enumerate(policies):
        alone = simulate(problem(), policy, runs=40, seed=seed)
        assert same({name: values[number : number + 1] for name, values in together.items()}, alone)


def test_small_arrays_of_policies_are_stacked_as_scalars_are() -> None:
    """Schedules differ with beta and with the budget: they run together, with the bits that each has alone."""
    means = np.linspace(0.1, 0.9, 12).tolist()
    rules = [{"kind": "optmai", "beta": [0.76, 0.9, 0.95]}]
    given = {"problem": {"kind": "topk/bernoulli", "means": {"list": means}, "K": 3}, "policy": rules}
    found = Study.of({**given, "sweep": {"budget": [90, 200]}}, counted=False).configurations()
    problems, policies = [each.problem for each in found], [each.policy for each in found]
    pairs = [engine_module._fast(*pair) for pair in zip(problems, policies, strict=True)]
    groups = engine_module._groups(pairs)
    assert len(groups) == 1
    assert any(knob.ndim > 1 for knob in groups[0][2])
    together = simulate(problems, policies, runs=30, seed=3)
    for number, (one, policy) in enumerate(zip(problems, policies, strict=True)):
        alone = simulate(one, policy, runs=30, seed=3)
        assert same({name: values[number : number + 1] for name, values in together.items()}, alone)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "on_tape"), [("ee", True), ("known-sc", True), ("epsilon-greedy", True), ("ee", False), ("greedy", False)]
)
def test_checkpoints_are_runs_with_smaller_budgets(kind: str, on_tape: bool) -> None:
    """On a tape exactly; else the first one, before which no pull is cut, exactly, and the others in law."""
    at = [40, 90, 200]
    policy = every_policy(Setting(300, 500, uniform_false_values(0, 9), Uniform()), [kind])[kind]
    curve = simulate(problem(on_tape=on_tape), policy, runs=200, seed=2, checkpoints=at, lanes=64)
    assert curve["removed"].shape == (1, 200, 4)
    for column, budget in enumerate([*at, 300]):
        alone = simulate(problem(budget=budget, on_tape=on_tape), policy, runs=200, seed=2)
        if on_tape or column == 0:
            for answer in alone.keys() - {"endless"}:
                assert np.array_equal(curve[answer][:, :, column], alone[answer]), (budget, answer)
        else:
            difference = curve["removed"][0, :, column].astype(float) - alone["removed"][0]
            assert abs(difference.mean()) <= 4 * difference.std() / np.sqrt(200), budget


@pytest.mark.slow
@pytest.mark.usefixtures("fast_programs")
def test_many_checkpoints_do_not_bend_the_law_of_random() -> None:
    """Its runs of unmet entities are cut at each: the next draw must again be of any entity."""
    given = problem(budget=300, entities=100, false_values=uniform_false_values(1, 3))
    policy = every_policy(Setting(300, 100, uniform_false_values(1, 3), Uniform()), ["random"])["random"]
    whole = simulate(given, policy, runs=4000)
    cut = simulate(given, policy, runs=4000, seed=1, checkpoints=list(range(5, 300, 5)))
    for answer in ("finished", "removed"):
        a, b = whole[answer][0].astype(float), cut[answer][0, :, -1].astype(float)
        assert abs(a.mean() - b.mean()) <= 4 * np.sqrt((a.var() + b.var()) / 4000), answer
    for column, budget in enumerate(range(5, 300, 5)):
        if budget in (50, 150):
            alone = simulate(problem(budget=budget, entities=100, false_values=uniform_false_values(1, 3)), policy,
                             runs=4000, seed=2)["finished"][0].astype(float)  # fmt: skip
            there = cut["finished"][0, :, column].astype(float)
            assert abs(alone.mean() - there.mean()) <= 4 * np.sqrt((alone.var() + there.var()) / 4000), budget


@pytest.mark.slow
def test_checkpoints_and_cuts_of_stacked_budgets() -> None:
    problems = [problem(budget=budget) for budget in (60, 300)]
    whole = simulate(problems, ee(2, 0.5), runs=50, checkpoints=[10, 50])
    assert whole["cleans"][:, :, :2].min() == 10
    assert (whole["cleans"] == np.array([[10, 50, 60], [10, 50, 300]])[:, None]).all()
    parts = [
        simulate(problems, ee(2, 0.5), runs=25, first_run=first, lanes=9, checkpoints=[10, 50]) for first in (0, 25)
    ]
    assert same(whole, {name: np.concatenate([part[name] for part in parts], axis=1) for name in whole})


@pytest.mark.parametrize("name", ["epsilon-greedy", "index"])
def test_one_run_is_the_first_of_several(name: str, fast_programs: None) -> None:
    """Alone, too, where a CPU makes many steps of its lanes in one kernel; numbers may be NumPy's."""
    given = problem(budget=50, entities=200)
    setting = Setting(50, 200, uniform_false_values(0, 9), Uniform())
    policy = every_policy(setting, [name])[name]
    device = jax.devices("cpu")[:1]
    several = simulate(given, policy, runs=np.int64(9), devices=device)  # type: ignore[arg-type]
    for lanes in (None, 1):
        alone = simulate(given, policy, runs=1, lanes=lanes, devices=device)
        assert same(alone, {key: values[:, :1] for key, values in several.items()})


@pytest.mark.parametrize("wrong", [[0, 5], [5, 5], [9, 5], [300], [5, 301]])
def test_wrong_checkpoints(wrong: list[int]) -> None:
    with pytest.raises(BadInput, match="checkpoints"):
        simulate(problem(), ee(2, 0.5), runs=1, checkpoints=wrong)


def test_out_of_memory_halves_the_lanes(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    whole = simulate(problem(), ee(2, 0.5), runs=40)
    original, widths = Jobs._run_on, []

    def small(jobs: Jobs, chunk: Any, size: Any, *given: Any) -> Any:
        widths.append(size.lanes)
        if size.lanes > 16:
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 1 bytes.")
        return original(jobs, chunk, size, *given)

    monkeypatch.setattr(Jobs, "_run_on", small)
    assert same(whole, simulate(problem(), ee(2, 0.5), runs=40, lanes=64))
    assert widths == [64, 32, 16]
    assert "out of memory with 64 lanes a device; going on with 32" in caplog.text
    assert same(whole, simulate(problem(), ee(2, 0.5), runs=40))

    def broken(*given: Any) -> Any:
        raise jax.errors.JaxRuntimeError("INTERNAL: something else")

    monkeypatch.setattr(Jobs, "_run_on", broken)
    with pytest.raises(jax.errors.JaxRuntimeError):
        simulate(problem(), ee(2, 0.5), runs=40)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Counter:
    """Counts what it is told, whether its run is over or not, up to ``goal``."""

    goal: Array
    execution: Any = field(default=Execution(), metadata={"static": True})

    def init(self, view: Any) -> Array:
        return jnp.int32(0)

    def ask(self, view: Any, state: Array) -> Any:
        return (jnp.int32(0), state, jnp.int32(1))

    def tell(self, view: Any, state: Array, pull: Any, outcome: Array) -> Array:
        return state + 1

    def done(self, view: Any, state: Array) -> Array:
        return state >= self.goal

    def answer(self, view: Any, state: Array) -> dict[str, Array]:
        return {"told": state}


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Hashing(_Counter):
    """Answers by its goal, in a type that depends on the goal's; and more, if it is ``open``."""

    open: bool = field(default=False, metadata={"static": True})

    def answer(self, view: Any, state: Array) -> dict[str, Array]:
        more = {"more": jnp.int32(7)} if self.open else {}
        return {"told": (jnp.uint32(2654435769) * self.goal) >> 16, **more}


def test_a_number_of_python_has_one_type_everywhere() -> None:
    """By itself, among others, and where a run is checked."""
    coins = toy.Setting(1, 0.5, 0.5).problem()
    told = [simulate(coins, each, runs=2)["told"] for each in (_Hashing(1), [_Hashing(1), _Hashing(3)])]  # type: ignore[arg-type]
    assert told[0].dtype == told[1].dtype == np.int32
    assert told[0][0, 0] == told[1][0, 0]
    strong = simulate(coins, [_Hashing(jnp.uint32(1)), _Hashing(np.uint32(2**31)), _Hashing(jnp.int32(1))], runs=2)[
        "told"
    ]
    assert strong[:, 0].tolist() == [40503, 32768, told[0][0, 0]]
    assert engine_module.count_programs([(coins, _Counter(each)) for each in (0, 0.25, 1)]) == 1  # type: ignore[arg-type]
    assert simulate(coins, [_Counter(2), _Counter(2.5)], runs=1)["told"].ravel().tolist() == [2, 3]  # type: ignore[arg-type]


@pytest.mark.parametrize("goal", [2**31, np.int64(3_000_000_000), np.array([1, 3_000_000_000]), np.uint64(2**32)])
def test_integers_that_jax_would_not_keep_are_refused(goal: Any) -> None:
    with pytest.raises(BadInput, match=r"^policy _Counter.goal = .*: a number of 32 bits, "):
        simulate(toy.Setting(1, 0.5, 0.5).problem(), _Counter(goal), runs=1)
    with pytest.raises(BadInput, match=r"^problem or policy = .*: a number of 32 bits, "):
        engine_module.Batch([(toy.Setting(1, 0.5, 0.5).problem(), _Counter(goal))])


def test_answers_of_policies_that_have_different_ones() -> None:
    """In any order, the same."""
    coins, two = toy.Setting(1, 0.5, 0.5).problem(), (_Hashing(np.uint32(1), open=True), _Counter(np.int32(3)))
    found = simulate(coins, two, runs=2), simulate(coins, two[::-1], runs=2)
    assert found[0]["told"][:, 0].tolist() == [40503, 3]
    assert np.array_equal(found[0]["more"], [[7, 7], [np.nan, np.nan]], equal_nan=True)
    assert all(np.array_equal(found[1][name][::-1], values, equal_nan=True) for name, values in found[0].items())


def test_answers_of_two_shapes_are_refused_before_any_run(monkeypatch: pytest.MonkeyPatch) -> None:
    @jax.tree_util.register_dataclass
    @dataclass(frozen=True)
    class Twice(_Counter):
        def answer(self, view: Any, state: Array) -> dict[str, Array]:
            return {"told": jnp.stack([state, state])}

    coins, three = toy.Setting(1, 0.5, 0.5).problem(), np.int32(3)
    assert simulate(coins, Twice(three), runs=2)["told"].tolist() == [[[3, 3]] * 2]
    monkeypatch.setattr(engine_module.Batch, "each", lambda *_, **__: pytest.fail("it ran"))
    line = r"^policy\.answer\['told'\] = \(\) and \(2,\): of one shape by all policies of a call; "
    with pytest.raises(BadInput, match=line):
        simulate(coins, [Twice(three), _Counter(three)], runs=2)


@pytest.mark.parametrize(
    "context",
    [lambda: jax.set_mesh(jax.make_mesh((jax.device_count(),), ("x",))), jax.disable_jit,
     lambda: jax.transfer_guard("disallow")],
    ids=["set_mesh", "disable_jit", "transfer_guard"],
)  # fmt: skip
def test_settings_that_are_meant_for_the_users_own_code(context: Any) -> None:
    coins, rule = toy.Setting(1, 0.5, 0.5).problem(), _Counter(jnp.int32(3))
    with context():
        told = simulate(coins, rule, runs=3, progress=False)["told"]
    assert told.tolist() == [[3, 3, 3]]


def test_a_simulation_within_a_traced_function_is_refused() -> None:
    coins, rule = toy.Setting(1, 0.5, 0.5).problem(), _Counter(jnp.int32(3))
    with pytest.raises(BadInput, match=r"^simulate = within jax\.jit.*: called outside of it"):
        jax.jit(lambda: simulate(coins, rule, runs=3)["told"])()


def test_a_policy_may_be_a_named_tuple() -> None:
    class Named(NamedTuple):
        goal: Any
        init, ask, tell, done, answer = _Counter.init, _Counter.ask, _Counter.tell, _Counter.done, _Counter.answer

    assert simulate(toy.Setting(1, 0.5, 0.5).problem(), Named(np.int32(3)), runs=2)["told"].tolist() == [[3, 3]]


def test_a_run_that_is_over_stays_as_it_is() -> None:
    coins = toy.Setting(1, 0.5, 0.5).problem()
    goals = [3, 100, 101]
    told = simulate(coins, [_Counter(np.int32(goal)) for goal in goals], runs=5)["told"]
    assert told.tolist() == [[goal] * 5 for goal in goals]
    masked = simulate(coins, _Counter(np.int32(3), Execution(masked=True)), runs=1)["told"]
    assert masked.tolist() == [[32]]  # it promised what it does not do: the test sees the difference


def test_wrong_execution() -> None:
    with pytest.raises(BadInput, match=r"_Counter\.execution = fast: a jaxbandit\.Execution"):
        simulate(toy.Setting(1, 0.5, 0.5).problem(), _Counter(np.int32(3), "fast"), runs=1)


_SCRIPT = """
import sys, jax, numpy as np
jax.config.update("jax_num_cpu_devices", int(sys.argv[1]))
if sys.argv[3] == "x64":
    jax.config.update("jax_enable_x64", True)
from tests.test_engine import every_policy
from jaxbandit import simulate
from jaxbandit.cleaning import Normal, uniform_false_values
from jaxbandit.cleaning.family import Setting
assert jax.local_device_count() == int(sys.argv[1])
setting = Setting(200, 300, uniform_false_values(0, 9), Normal(variance=0.3))
for name, policy in every_policy(setting, "ee known-sc epsilon-greedy index".split()).items():
    answers = simulate(setting.problem(), policy, runs=37, seed=1)
    np.savez(f"{sys.argv[2]}-{name}.npz", **answers)
"""


@pytest.mark.slow
def test_devices_and_x64_change_nothing(tmp_path: Any) -> None:
    jobs = [(1, "x32"), (2, "x32"), (4, "x64")]
    running = [
        subprocess.Popen(
            [sys.executable, "-c", _SCRIPT, str(devices), str(tmp_path / f"{devices}{width}"), width],
            env={**os.environ, "PYTHONPATH": os.getcwd(), "JAX_PLATFORMS": "cpu"},
            stderr=subprocess.PIPE,
            text=True,
        )
        for devices, width in jobs
    ]
    for process in running:
        assert process.wait(timeout=600) == 0, process.communicate()[1]
    for kind in ("ee", "known-sc", "epsilon-greedy", "index"):
        first, *others = (np.load(tmp_path / f"{devices}{width}-{kind}.npz") for devices, width in jobs)
        for other in others:
            for name in first.files:
                assert np.array_equal(first[name], other[name]), (kind, name)


def test_the_less_work_the_less_effort_for_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    def effort(policy: Any, runs: int) -> Effort:
        (program,) = engine_module.Batch([(problem(budget=200), policy)]).programs([0], runs=runs)
        found: Effort = program.key[0][1]
        return found

    monkeypatch.setattr(jobs_module, "saves_effort", lambda platform, effort: True)  # whatever version of XLA is there
    rule = ee(2, 0.5)
    assert [effort(rule, runs) for runs in (64, 10**5, 10**7)] == [Effort.LEAST, Effort.LITTLE, Effort.FULL]
    monkeypatch.setattr(EE, "execution", Execution(masked=True, gain_ns=1e6))  # a millisecond for each clean
    assert effort(rule, 64) is Effort.FULL
    monkeypatch.setattr(EE, "execution", Execution(masked=True, gain_ns=1e6, loss_ns=1e7, growth=0))  # for each run
    assert [effort(rule, runs) for runs in (10, 100, 1000)] == [Effort.LEAST, Effort.LITTLE, Effort.FULL]
    monkeypatch.setattr(EE, "execution", Execution(masked=True, gain_ns=1, loss_ns=1e6))
    assert effort(rule, 64) is Effort.LITTLE
    monkeypatch.setattr(jobs_module, "saves_effort", lambda platform, effort: False)
    assert effort(rule, 64) is Effort.FULL
    assert not any(options.saves_effort(platform, Effort.LEAST) for platform in ("gpu", "tpu"))
    # A newer XLA has no program between the least and the full effort.
    monkeypatch.setattr(jobs_module, "saves_effort", lambda platform, effort: effort is Effort.LEAST)
    assert effort(rule, 64) is Effort.FULL
    monkeypatch.setattr(EE, "execution", Execution(masked=True))
    assert effort(rule, 64) is Effort.LEAST


def test_effort_is_saved_where_it_makes_another_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not where the user's flags leave it no choice."""
    hurried = {Effort.LEAST: {options.LEVEL: 0}, Effort.LITTLE: {}, Effort.FULL: {}}
    monkeypatch.setattr(options, "HURRIED", hurried)
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    saved = [options.saves_effort(platform, Effort.LEAST) for platform in ("cpu", "gpu", "tpu")]
    assert saved == [True, False, False]
    assert not options.saves_effort("cpu", Effort.LITTLE)
    monkeypatch.setenv("XLA_FLAGS", "--xla_backend_optimization_level=0")
    assert not options.saves_effort("cpu", Effort.LEAST)


def test_many_small_calls_are_worth_what_a_large_one_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each effort once what its lack has cost pays for another compilation; the answers are the same."""
    monkeypatch.setattr(jobs_module, "saves_effort", lambda platform, effort: True)
    monkeypatch.setattr(past, "_past", {})
    monkeypatch.setattr(jobs_module, "WORTH_COMPILING", 5e4)  # nanoseconds
    monkeypatch.setattr(EE, "execution", Execution(masked=True, gain_ns=5, loss_ns=10))
    batch = engine_module.Batch([(problem(budget=200), ee(2, 0.5))])
    efforts, answers = [], []
    for _ in range(27):
        efforts.append(batch.programs([0], runs=10)[0].key[0][1])  # 2,000 cleans: 20 us and 10 us
        answers.append(batch.run([0], runs=10, seed=3)["removed"])
    assert efforts == [Effort.LEAST] * 12 + [Effort.LITTLE] * 12 + [Effort.FULL] * 3
    assert all(np.array_equal(answers[0], other) for other in answers)


def test_other_numbers_of_runs_share_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """While that costs less time than a compilation; each run is what it is in a program of its own."""
    pair = problem(budget=150), ee(2, 0.5)
    alone = simulate(*pair, runs=300)
    monkeypatch.setattr(past, "_past", {})
    monkeypatch.setattr(past, "PATIENCE", 3.5)
    seconds = itertools.count()  # each call of a program takes one
    monkeypatch.setattr(jobs_module, "time", SimpleNamespace(monotonic=lambda: float(next(seconds))))
    batch = engine_module.Batch([pair])

    def room(runs: int, lanes: int | None = None) -> int:
        """Of the program that makes them."""
        found: int = batch.programs([0], runs=runs, lanes=lanes)[0].key[3].answers
        answers = batch.run([0], runs=runs, seed=0, lanes=lanes)
        assert same(answers, {name: values[:, :runs] for name, values in alone.items()})
        return found

    assert room(100) == 128
    assert [room(20), room(20), room(20)] == [128] * 3
    assert room(20, lanes=7) == 32  # as the user says
    assert room(300) == 128  # in three calls
    assert [room(20), room(300)] == [32, 512]  # once more would be the fourth second, and the sixth
    assert [room(20), room(100), room(300)] == [32, 128, 512]


def test_options_of_an_effort(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's flags win."""
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    quick = {"xla_cpu_use_fusion_emitters": False}  # some versions have none
    monkeypatch.setattr(options, "HURRIED", {Effort.LEAST: quick, Effort.LITTLE: quick, Effort.FULL: {}})
    full = options_for("cpu")
    assert full is not None
    for effort in (Effort.LEAST, Effort.LITTLE):
        assert full.items() < (options_for("cpu", effort) or {}).items()
        assert options_for("gpu", effort) == options.GPU_OPTIONS
        assert options_for("tpu", effort) is None
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_use_fusion_emitters=true --xla_disable_hlo_passes=fusion")
    little = options_for("cpu", Effort.LITTLE) or {}
    assert not {"xla_cpu_use_fusion_emitters", "xla_disable_hlo_passes"} & little.keys()
    assert little.items() > options.BITS.items()
    assert options_for("gpu") is None


def test_less_effort_waits_for_programs_that_are_rounded_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where products meet sums, the package's own programs are compiled in a hurry, as it is tested that they have the
    same bits then; and those of a user's class with all effort, as of them nobody has tested it."""
    original = jobs_module.chunk_function

    class Mine(EE):
        pass

    def efforts(alike: bool | None, rule: Any) -> set[Effort]:
        found = set()

        def noted(*key: Any) -> Any:
            found.add(key[3])
            return original(*key)

        with monkeypatch.context() as patch:
            patch.setattr(jobs_module, "saves_effort", lambda platform, effort: True)
            patch.setattr(jobs_module, "chunk_function", noted)
            patch.setattr(jobs_module, "_alike", {})
            if alike is not None:
                patch.setattr(jobs_module, "alike", lambda *_: alike)
            simulate(problem(), rule, runs=10)
        return found

    rule = ee(2, 0.5)
    mine = pytree(Mine)(**vars(rule))
    assert efforts(None, rule) == efforts(None, mine) == {Effort.LEAST}
    assert efforts(False, rule) == {Effort.LITTLE}
    assert efforts(False, mine) == {Effort.FULL}


def test_a_policy_says_at_which_level_it_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """In full; the user's flags win."""
    monkeypatch.setattr(EE, "execution", Execution(masked=True, level=3))
    (program,) = engine_module.Batch([(problem(budget=200), ee(2, 0.5))]).programs([0], runs=64)
    assert program.key[0][2] == 3
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    for level in (2, 3):
        assert (options_for("cpu", level=level) or {})[options.LEVEL] == level
    monkeypatch.setenv("XLA_FLAGS", "--xla_backend_optimization_level=0")
    assert options.LEVEL not in (options_for("cpu") or {})


def test_what_progress_raises_reaches_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no sign that a program that was loaded does not run."""

    class Stop(Exception):
        pass

    def stopped(status: Status) -> None:
        if status.doing == "running":
            raise Stop

    monkeypatch.setattr(jobs_module.Ahead, "need", lambda _, program, tell: program.lower().compile())
    simulate(problem(), ee(2, 0.5), runs=10)
    with pytest.raises(Stop):
        simulate(problem(), ee(2, 0.5), runs=10, progress=stopped)


def test_a_class_may_be_run_in_both_widths_of_floats() -> None:
    """What was found of its shapes in one says nothing of the other."""

    @pytree
    @dataclass(frozen=True)
    class Mean:
        """Throws all coins, and keeps the mean in JAX's usual type."""

        def init(self, view: Any) -> Any:
            return jnp.zeros(2)

        def ask(self, view: Any, state: Any) -> Any:
            return jnp.int32(0), state[1].astype(jnp.int32), jnp.int32(1)

        def tell(self, view: Any, state: Any, pull: Any, outcome: Any) -> Any:
            return state + jnp.stack([outcome, 1])

        def done(self, view: Any, state: Any) -> Any:
            return state[1] >= view.budget

        def answer(self, view: Any, state: Any) -> Any:
            return {"total": state[0]}

    pair = toy.Coins(np.int32(5), np.float32(0.2), np.float32(0.8)), Mean()
    narrow = simulate(*pair, runs=3)
    with jax.enable_x64(True):
        wide = simulate(*pair, runs=3)
    assert narrow["total"].dtype == np.float32
    assert wide["total"].dtype == np.float64


def compilations() -> int:
    return sum(chunk._cache_size() for chunk in (jobs_module.chunk_function(*key) for key in _COMPILED))


_COMPILED: list[Any] = []


def test_a_sweep_compiles_once(monkeypatch: pytest.MonkeyPatch) -> None:
    original = jobs_module.chunk_function

    def noted(*key: Any) -> Any:
        if key not in _COMPILED:
            _COMPILED.append(key)
        return original(*key)

    monkeypatch.setattr(jobs_module, "chunk_function", noted)
    simulate(problem(), ee(2, 0.5), runs=64)
    before = compilations()
    for t in range(1, 8):
        simulate(problem(budget=200 + t, entities=100 + t), ee(t, 1.0), runs=64, seed=t)
    # Other numbers of runs of the same power of two, another distribution of the same size, other starts.
    simulate(problem(false_values=np.arange(10.0)), ee(3, 0.5), runs=50, first_run=9)
    # Up to 8 numbers of false values, or 16.
    simulate(problem(false_values=uniform_false_values(0, 7)), ee(3, 0.5), runs=50)
    # More entities than a run of the first size can meet, and tables that EE does not use.
    simulate(problem(budget=1_000, entities=9_000), ee(3, 0.5), runs=50)
    simulate(problem(paired=False), ee(3, 0.5), runs=50)
    assert compilations() == before
    several = [ee(t, q) for t in (1, 2, 3) for q in (0.0, 0.7)]
    simulate(problem(), several, runs=10)
    between = compilations()
    simulate(problem(), [ee(t, q) for t in (4, 5, 6) for q in (0.2, 1.0)], runs=10)
    simulate(problem(), several[:5], runs=12)
    assert compilations() == between


@pytest.mark.slow
def test_strict_types(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the engine and the cleaning rules themselves, without ``lenient``."""
    monkeypatch.setattr(engine_module, "lenient", contextlib.nullcontext)
    strict = simulate.__wrapped__  # type: ignore[attr-defined]
    setting = Setting(120, 80, uniform_false_values(0, 5), Normal(variance=0.2))
    given, policies = setting.problem(), every_policy(setting)
    with jax.numpy_rank_promotion("raise"), jax.numpy_dtype_promotion("strict"):
        for policy in policies.values():
            assert strict(given, policy, runs=3)["cleans"].max() <= 120


def test_progress_ends_with_all(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[Status] = []
    with caplog.at_level("INFO", "jaxbandit"):
        simulate(problem(), [ee(1, 1.0), ee(2, 1.0)], runs=30, lanes=11, progress=seen.append)
    assert [each.getMessage() for each in caplog.records if each.name == "jaxbandit"] == [
        "jaxbandit: configurations by the class that runs them: EE 2"
    ]
    assert list(dict.fromkeys(status.doing for status in seen)) == ["compiling", "running"]
    assert (seen[-1].done, seen[-1].of) == (60, 60)
    assert [status.done for status in seen] == sorted(status.done for status in seen)


@pytest.mark.parametrize(
    ("field", "changes"),
    [("runs", {"runs": 0}), ("runs", {"runs": "20"}), ("runs", {"runs": True}), ("lanes", {"runs": 1, "lanes": 2.5}),
     ("first_run", {"runs": 5, "first_run": 2**32 - 4}), ("checkpoints", {"runs": 1, "checkpoints": "abc"}),
     ("checkpoints", {"runs": 1, "checkpoints": 5}), ("runs", {"runs": 2**31}), ("seed", {"runs": 1, "seed": -1}),
     ("lanes", {"runs": 1, "lanes": 0}), ("first_run", {"runs": np.uint8(9), "first_run": 2**32 - 4}),
     ("first_run", {"runs": 2, "first_run": np.uint32(2**32 - 1)}), ("checkpoints", {"runs": 1, "checkpoints": [5j]}),
     *[("devices", {"runs": 1, "devices": given})
       for given in (jax.devices()[0], "cpu", 5, ["cpu"], [], jax.devices()[:1] * 2)],
     ("progress", {"runs": 1, "progress": "x"}),
     ("policy", {"runs": 1, "policy": [ee(1, 1.0)] * 3})],
)  # fmt: skip
def test_bad_arguments(field: str, changes: dict[str, Any]) -> None:
    given = {"policy": ee(1, 1.0)} | changes
    problems = [problem(), problem()] if field == "policy" else problem()
    with pytest.raises(BadInput, match=f"^{field} = ") as error:
        simulate(problems, **given)
    assert changes.get("runs") != "20" or str(error.value).startswith('runs = "20": a whole number')


def test_no_problem_is_said() -> None:
    with pytest.raises(BadInput, match=r"^problem = none: one, or a list of them"):
        simulate([], [], runs=1)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("kind", [np.uint8, np.int8, np.uint32])
def test_counts_of_numpy_are_those_of_python(kind: Any) -> None:
    """Their sums are not: of 8 bits, 100 and 100 are more than there are."""
    given = {"runs": kind(100), "first_run": kind(100), "seed": kind(3), "progress": False}
    whole = simulate(problem(), ee(1, 1.0), runs=100, first_run=100, seed=3, progress=False)
    assert np.array_equal(simulate(problem(), ee(1, 1.0), **given)["removed"], whole["removed"])
    coins, counter = toy.Setting(1, 0.5, 0.5).problem(), _Counter(np.int32(200))
    assert simulate(coins, counter, runs=2, max_steps=kind(100), lanes=kind(64))["endless"].all()


@pytest.mark.parametrize(
    ("field", "make"),
    [
        ("budget", lambda: problem(budget=0)),
        ("budget", lambda: problem(budget=2**31)),
        ("entities", lambda: problem(entities=0)),
        ("false_values", lambda: problem(false_values=np.array([1.0, -1.0]))),
        ("t", lambda: ee(0, 0.5)),
        ("q", lambda: ee(3, 1.5)),
        ("q", lambda: ee(3, float("nan"))),
        ("epsilon", lambda: epsilon_greedy(-0.1)),
        ("false_values", lambda: of_table(budget=3, false_values=np.array([0, 0]), sc_pdf=Uniform())),
        ("sc_probabilities", lambda: of_table(budget=3, false_values=np.array([1]), sc_probabilities=np.array([1.2]))),
    ],
)
def test_bad_problems_and_policies(field: str, make: Any) -> None:
    with pytest.raises(BadInput, match=f"^{field} = ") as error:
        make()
    assert "\n" not in str(error.value)


def test_made_lanes_are_the_same_from_the_host_and_from_a_device() -> None:
    mesh = Mesh(np.array(jax.local_devices()), (lanes_module.AXIS,))
    partition, shared, varying, _ = engine_module._groups([(problem(), ee(3, 0.667))])[0]
    leaves, structure = jax.tree.flatten(shapes_of(partition, shared, varying, np.zeros(0, np.int32)))
    host, device = (lanes_module._lane_maker(structure, tuple(leaves), 8, 16, mesh, where)() for where in (True, False))
    for one, other in zip(jax.tree.leaves(host), jax.tree.leaves(device), strict=True):
        assert one.dtype == other.dtype
        assert one.sharding == other.sharding
        assert np.array_equal(one, other)
    assert (np.asarray(host[0].job) < 0).all()


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Watched(toy.Coin):
    """Until the first head, with a word to ``seen`` on each step of a run that is not over: whether it ever began."""

    seen: Any = field(metadata={"static": True})
    execution = Execution(stride=2, masked=True)

    def init(self, view: Any) -> Any:
        return super().init(view), jnp.bool_(True)

    def ask(self, view: Any, state: Any) -> Any:
        return super().ask(view, state[0])

    def tell(self, view: Any, state: Any, pull: Any, outcome: Array) -> Any:
        over, (coin, begun) = self.done(view, state), state
        jax.debug.callback(self.seen, over, begun)
        told = super().tell(view, coin, pull, outcome)
        return jax.tree.map(lambda old, new: jnp.where(over, old, new), coin, told), begun

    def done(self, view: Any, state: Any) -> Array:
        return super().done(view, state[0]) | (state[0].heads > 0)

    def answer(self, view: Any, state: Any) -> dict[str, Array]:
        return super().answer(view, state[0])


@pytest.mark.parametrize(("runs", "more"), [(8, 0), (7, 1), (24, 0)])
def test_lanes_make_no_steps_but_those_of_runs(runs: int, more: int) -> None:
    """A step of a lane that never had a run costs what garbage costs; runs end at other times, and are not made anew.
    Lanes beyond the number of runs have one run more, the first again."""
    going: list[bool] = []

    def seen(over: Any, begun: Any) -> None:
        going.extend(np.atleast_1d(begun)[~np.atleast_1d(over)].tolist())

    coins = toy.Coins(np.int32(40), np.float32(0.1), np.float32(0.2))
    answers = simulate(coins, Watched(np.float32(0.5), seen), runs=runs, seed=5, lanes=8, devices=jax.devices()[:1])
    jax.effects_barrier()
    thrown = answers["thrown"].ravel()
    assert len(set(thrown.tolist())) > 3
    assert len(going) == thrown.sum() + more * thrown[0]
    assert all(going)


def test_a_lane_of_ee_does_not_grow_with_the_entities() -> None:
    def size(entities: int) -> int:
        partition, shared, varying, _ = engine_module._groups([(problem(entities=entities), ee(3, 0.667))])[0]
        return bytes_of(shapes_of(partition, shared, varying, np.zeros(0, np.int32))[0])

    assert size(10) == size(100_000_000) < 128
    assert isinstance(ee(1, 0.5), EE)
