"""Whole programs on disk: another process runs them untraced, with the same bits, but not where something changed."""

import functools
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxbandit
from jaxbandit import cleaning, lanes
from jaxbandit.cleaning.ee import EE
from jaxbandit.engine import Batch
from jaxbandit.programs import code, store
from tests import toy
from tests.test_accelerators import CASES, built
from tests.test_compilation import unset  # noqa: F401

STUDY = """
seed = 3
runs = 200
[problem]
kind = "cleaning/synthetic"
entities = 400
[[policy]]
kind = "random"
[sweep]
budget = [50, 60]
[[policy]]
kind = "ee"
t = 3
q = 0.6
"""
PROGRAM = """
import json, sys
import jax
from jaxbandit import cli
from jaxbandit.programs import store
chunks = []
compiled = store.compiled
store.compiled = lambda *given: chunks.append(1) or compiled(*given)
shapes = []
eval_shape = jax.eval_shape
def counted(function, *given):
    if function.__qualname__ == "_shapes.<locals>.sample":
        shapes.append(1)
    return eval_shape(function, *given)
jax.eval_shape = counted
assert cli.main(sys.argv[1:]) == 0
print(json.dumps([len(chunks), len(shapes)]))
"""


@pytest.fixture
def cached(unset: None, tmp_path: Path) -> Path:  # noqa: F811
    """The folder of programs, which ``jaxbandit.cache`` has set."""
    place = jaxbandit.cache(tmp_path / "cache")
    assert place is not None
    return place


@pytest.mark.smoke
@pytest.mark.slow
def test_another_process_does_not_trace_what_one_has_compiled(tmp_path: Path) -> None:
    study, cache = tmp_path / "study.toml", tmp_path / "cache"
    study.write_text(STUDY)

    def traced(name: str, **more: str) -> list[int]:
        own = {key: value for key, value in os.environ.items() if key != "JAX_COMPILATION_CACHE_DIR"}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, "run", str(study), "--out", str(tmp_path / name)],
            env=own | {"JAXBANDIT_CACHE": str(cache)} | more, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        found: list[int] = json.loads(done.stdout.splitlines()[-1])
        return found

    assert min(traced("cold")) >= 2
    assert traced("warm") == [0, 0]
    assert min(traced("plain", JAXBANDIT_PLAIN="1")) >= 2

    (folder,) = cache.iterdir()
    whole = [file for file in folder.iterdir() if len(file.stem) == 64]
    assert len(whole) >= 4
    for file in whole:
        damaged = bytearray(file.read_bytes())
        damaged[-9] ^= 1
        file.write_bytes(damaged)
    # JAX's own cache has them still; what is loaded from there cannot be written again.
    assert min(traced("damaged")) >= 2
    assert traced("loaded")[0] >= 2
    for file in folder.iterdir():
        file.unlink()
    assert min(traced("anew")) >= 2
    assert traced("repaired") == [0, 0]
    names = ("cold", "warm", "damaged", "loaded", "repaired", "plain")
    summaries = [(tmp_path / name / "summary.json").read_bytes() for name in names]
    assert len(set(summaries)) == 1


def name_of(name: str, **given: Any) -> str | None:
    """Of the program of a policy on a small problem."""
    (program,) = Batch([built(name)], devices=jax.devices("cpu")[:1]).programs([0], **{"runs": 64} | given)
    return store.name_of(program.key)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
@pytest.mark.usefixtures("cached")
def test_the_programs_of_every_policy_can_be_kept(case: str) -> None:
    assert name_of(case)


@pytest.mark.usefixtures("cached")
def test_a_name_depends_on_all_that_a_program_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    base = name_of("cleaning/ee")
    assert base
    assert name_of("cleaning/ee") == base
    others = {name_of("cleaning/known-sc"), name_of("topk/uniform"), name_of("cleaning/ee", lanes=7)}
    with jax.enable_x64(True):
        others.add(name_of("cleaning/ee"))
    with monkeypatch.context() as patch:
        flags = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_enable_fast_math=false"
        patch.setenv("XLA_FLAGS", flags)
        assert name_of("cleaning/ee") is None  # nobody knows whether they came in time
        patch.setattr(store, "FLAGS", flags)
        others.add(name_of("cleaning/ee"))
    with monkeypatch.context() as patch:
        patch.setattr(store, "_source", lambda: "another")
        others.add(name_of("cleaning/ee"))
    assert None not in others
    assert len(others | {base}) == 7


@pytest.mark.usefixtures("cached")
def test_what_may_change_unseen_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    coins = toy.Coins(np.int32(5), np.float32(0.2), np.float32(0.8)), toy.Coin(np.float32(0.5))
    (program,) = Batch([coins]).programs([0], runs=8)
    assert store.name_of(program.key) is None  # of a user's class
    assert store.name_of(np.float32(3)) is None
    assert store.name_of(lambda: 0) is None

    @dataclass(frozen=True)
    class Jaxbandit:
        """Has nothing of the package but a name."""

    assert store.name_of(Jaxbandit()) is None
    assert store.name_of(1) is not None
    monkeypatch.setattr(store, "WHEN", 0.0)  # the files are newer than what runs
    assert store.name_of(1) is None


def spent(policy: Any) -> float:
    problem = built("cleaning/ee")[0]
    answers = jaxbandit.simulate(problem, policy, runs=8, progress=False, implementation="reference")
    return float(answers["cleans"].mean())


@pytest.mark.usefixtures("cached")
def test_what_somebody_replaced_is_what_runs_and_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A method, a method's code and a constant of the package, as a plugin or a notebook may do to try something."""
    rule, name = cleaning.ee(2, 0.6), name_of("cleaning/ee")
    whole = spent(rule)

    def halved(self: Any, view: Any, state: Any) -> Any:
        return state.totals.spent >= view.budget // 2

    with monkeypatch.context() as patch:
        patch.setattr(EE, "done", halved)
        assert spent(rule) < whole
        assert name_of("cleaning/ee") is None
    with monkeypatch.context() as patch:
        patch.setattr(EE.done, "__code__", halved.__code__)
        assert spent(rule) < whole
    with monkeypatch.context() as patch:
        patch.setattr(lanes, "_NOWHERE", 2**31 - 2)
        assert name_of("cleaning/ee") is None
    assert spent(rule) == whole
    assert name_of("cleaning/ee") == name is not None
    assert code.replaced() == ()


def test_what_a_plugin_replaced_before_anything_ran_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code, "_seen", {})
    monkeypatch.setattr(code, "_strange", [])
    assert code.replaced() == ()
    monkeypatch.setattr(code, "_seen", {})
    with monkeypatch.context() as patch:
        patch.setattr(EE, "done", lambda self, view, state: True)
        assert len(code.replaced()) == 1


SHARE = 1.0
SHARES = np.float32(1)


def helper(share: Any) -> Any:
    return share


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Shared(toy.Coin):
    """Answers a constant of this module."""

    def answer(self, view: Any, state: Any) -> dict[str, Any]:
        return {"share": jax.lax.cond(state.heads >= 0, lambda: helper(jnp.float32(SHARE)) * SHARES, lambda: 0.0)}


def test_a_users_constants_and_methods_are_those_of_the_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    coins, rule = toy.Coins(np.int32(5), np.float32(0.2), np.float32(0.8)), Shared(np.float32(0.5))

    def share() -> float:
        return float(jaxbandit.simulate(coins, rule, runs=2, progress=False)["share"][0, 0])

    assert share() == 1
    with monkeypatch.context() as patch:
        patch.setattr(sys.modules[__name__], "SHARE", 0.25)
        assert share() == 0.25
        patch.setattr(Shared, "answer", lambda self, view, state: {"share": jnp.float32(3)})
        assert share() == 3
    assert share() == 1
    with monkeypatch.context() as patch:
        patch.setattr(sys.modules[__name__], "SHARES", np.float32(0.5))
        assert share() == 0.5
        patch.setattr(sys.modules[__name__], "helper", lambda share: 4 * share)
        assert share() == 2

    def enclosing(value: float) -> Any:
        return lambda self, view, state, more=0.0: {"share": jnp.float32(value + more)}

    for value in (5.0, 6.0):
        monkeypatch.setattr(Shared, "answer", enclosing(value))
        assert share() == value
    monkeypatch.setattr(Shared, "answer", functools.partialmethod(enclosing(5.0), more=2.0))
    assert share() == 7
    told = [Batch([(coins, rule)])._groups[0][0].code for _ in range(20)]
    assert len(set(told)) == 1  # or each call would compile it


def test_a_number_that_no_method_reads_compiles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as the variable of a script's loop that has the name of an attribute."""
    coins, rule = toy.Coins(np.int32(5), np.float32(0.2), np.float32(0.8)), toy.Coin(np.float32(0.5))
    pairs = [(coins, rule)]
    first = Batch(pairs)._groups[0][0].code
    monkeypatch.setattr(toy, "budget", 7, raising=False)
    monkeypatch.setattr(toy, "heads", 8, raising=False)
    assert first
    assert Batch(pairs)._groups[0][0].code == first


def test_texts_tell_values_apart() -> None:
    values = [1, True, 1.0, "1", b"1", None, (1,), [1], ((1,),), "(1)", -0.0, 0.0, np.dtype("i4"), np.dtype("i8"), int,
              jax.tree.structure((1, 2)), jax.tree.structure([1, 2]), jax.ShapeDtypeStruct((2,), "int32"),
              jax.ShapeDtypeStruct((2,), "float32")]  # fmt: skip
    assert len({store._spelled(value) for value in values}) == len(values)


def test_what_does_not_run_is_forgotten_and_made_anew(cached: Path) -> None:
    def broken(*_: Any) -> Any:
        raise jax.errors.JaxRuntimeError("NOT_FOUND: a function of the program")

    pair = built("cleaning/greedy")
    first = jaxbandit.simulate(*pair, runs=8, progress=False)["removed"]
    for name in store._MADE_HERE:
        store._LOADED[name] = broken
    store._MADE_HERE.clear()
    store.COMPILED.clear()
    np.testing.assert_array_equal(jaxbandit.simulate(*pair, runs=8, progress=False)["removed"], first)
    assert not any((cached / f"{name}.program").exists() for name in store._MADE_HERE)


def test_what_cannot_be_loaded_is_forgotten_and_made_anew(cached: Path) -> None:
    def removed() -> np.ndarray:
        return jaxbandit.simulate(*built("cleaning/greedy"), runs=8, progress=False)["removed"]

    first = removed()
    for name in store._MADE_HERE:
        store._put(name, b"of another version")
    store._MADE_HERE.clear()
    store.COMPILED.clear()
    np.testing.assert_array_equal(removed(), first)
    assert not any((cached / f"{name}.program").exists() for name in store._MADE_HERE)


def test_a_name_knows_the_source_and_weak_types(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.py"
    monkeypatch.setattr(store, "_PACKAGE", tmp_path)
    monkeypatch.setattr(store, "_files", lambda: [str(file)])
    digests = []
    for text in ("1", "2"):
        file.write_text(text)
        store.digest.cache_clear()
        digests.append(store.digest())
    store.digest.cache_clear()
    assert digests[0] != digests[1]
    spelled = [store._spelled(jax.ShapeDtypeStruct((2,), "int32", weak_type=weak)) for weak in (False, True)]
    assert spelled[0] != spelled[1]
