"""Programs compile side by side: in order, each once, and what goes wrong with one is raised where it is needed."""

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from jaxbandit import experiment, run_study, simulate
from jaxbandit.programs import store
from jaxbandit.programs.ahead import Ahead, Program
from jaxbandit.progress import Status
from tests import toy

COINS = toy.Coins(np.int32(40), np.float32(0.2), np.float32(0.8))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Other(toy.Coin):
    """Another program."""


class _Lowered:
    """Compiles as soon as it is told to."""

    def __init__(self, error: Exception | None = None) -> None:
        self.go, self.count, self.error = threading.Event(), 0, error

    def compile(self) -> None:
        assert self.go.wait(10)
        self.count += 1
        if self.error:
            raise self.error


def test_others_are_traced_while_one_compiles_and_each_is_compiled_once() -> None:
    made = {name: _Lowered() for name in "abc"}
    traced: list[str] = []

    def program(name: str) -> Program:
        def lower() -> _Lowered:
            traced.append(name)
            return made[name]

        return Program(name, lower)

    told: list[str] = []

    def tell(doing: str) -> None:
        told.append(doing)
        if len(traced) == 3:
            made["a"].go.set()

    with Ahead([program(name) for name in "abca"]) as ahead:
        assert np.isnan(ahead.left())
        ahead.need(program("a"), tell)
        assert traced == ["a", "b", "c"]
        assert set(told) == {"compiling 1 of 3 programs"}
        assert made["a"].count == 1
        assert made["b"].count == made["c"].count == 0
        assert ahead.left() > 0
        for name in "bc":
            made[name].go.set()
            ahead.need(program(name), told.append)
        ahead.need(program("a"), told.append)
        assert [made[name].count for name in "abc"] == [1, 1, 1]
        assert ahead.left() == 0


def test_what_is_raised_is_raised_where_the_program_is_needed() -> None:
    def untraceable() -> Any:
        raise ValueError("not traced")

    good, bad = _Lowered(), _Lowered(ValueError("not compiled"))
    good.go.set()
    bad.go.set()
    programs = [Program("untraceable", untraceable), Program("bad", lambda: bad), Program("good", lambda: good)]
    with Ahead(programs) as ahead:
        ahead.need(programs[2], lambda doing: None)
        for program, said in zip(programs[:2], ("not traced", "not compiled"), strict=True):
            with pytest.raises(ValueError, match=said):
                ahead.need(program, lambda doing: None)


def test_what_has_not_begun_is_dropped_at_the_end() -> None:
    made = [_Lowered() for _ in range(40)]
    with Ahead() as ahead:
        for number, each in enumerate(made):
            ahead._begin(Program(number, lambda each=each: each))
    for each in made:
        each.go.set()
    for thread in threading.enumerate():
        if thread.name.startswith("jaxbandit-compiler"):
            thread.join(10)
    assert sum(each.count for each in made) < len(made)


def test_a_later_call_lowers_nothing_unless_settings_have_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    lowered: list[Any] = []
    original = store.compiled
    monkeypatch.setattr(store, "compiled", lambda *given: lowered.append(given) or original(*given))
    monkeypatch.setattr(store, "COMPILED", set())
    for runs in (70, 70, 68):  # of which no other test has the program
        simulate(COINS, toy.Coin(np.float32(0.5)), runs=runs)
    assert len(lowered) == 1
    with jax.default_matmul_precision("highest"):
        simulate(COINS, toy.Coin(np.float32(0.5)), runs=70)
    assert len(lowered) == 2


@pytest.mark.smoke
def test_a_plain_call_finds_what_was_compiled_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """JAX promises nothing of the kind, so this is what a new version of it must be held against."""
    events: list[str] = []

    def count(event: str, duration: float, **_: Any) -> None:
        if threading.current_thread() is threading.main_thread() and event.endswith("backend_compile_duration"):
            events.append(event)

    policies = {"few": toy.Coin(np.float32(0.5)), "more": _Other(np.float32(0.5))}
    study = experiment(COINS, policies, {"heads": lambda setting, answers: answers["heads"].astype(float)}, runs=20)
    simulate(COINS, policies["few"], runs=20, checkpoints=[7])  # small programs of the host
    told: list[Status] = []
    original = Ahead.need

    def need(ahead: Ahead, *given: Any) -> None:
        original(ahead, *given)
        events.clear()  # from here on the program is called

    monkeypatch.setattr(Ahead, "need", need)
    jax.monitoring.register_event_duration_secs_listener(count)
    try:
        run_study(study, tmp_path / "out", progress=told.append)
    finally:
        jax.monitoring.clear_event_listeners()
    assert events == []
    assert next(status.doing for status in told if "compiling" in status.doing) == "compiling 1 of 2 programs"
