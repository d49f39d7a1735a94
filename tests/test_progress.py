"""Waiting is visible: what is told while programs compile and runs go on, and how it is shown. Runs that do not end."""

import io
import re
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from jaxbandit import BadInput, Execution, experiment, open_results, progress, run_study, simulate
from jaxbandit.cleaning import EpsilonGreedy, Uniform, epsilon_greedy, uniform_false_values
from jaxbandit.cleaning.family import FAMILY, Setting
from jaxbandit.cli.console import progress_shown
from jaxbandit.progress import Clock, Display, Status
from tests import toy

COINS = toy.Coins(np.int32(40), np.float32(0.2), np.float32(0.8))
COIN = toy.Coin(np.float32(0.5))
SETTING = Setting(100, 1_000, uniform_false_values(0, 19), Uniform())


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Stuck(toy.Coin):
    """Never ends where the first throw shows no head."""

    def tell(self, view: toy.View, state: toy.State, pull: tuple[Array, Array, Array], outcome: Array) -> toy.State:
        following = super().tell(view, state, pull, outcome)
        stuck = (following.thrown == 1) & (following.heads == 0)
        return following._replace(heads=following.heads - 1000 * stuck)

    def done(self, view: toy.View, state: toy.State) -> Array:
        return super().done(view, state) & (state.heads >= 0)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Fair(toy.Coin):
    """Another program."""


STUCK = Stuck(np.float32(0.5))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def on_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    found = Terminal()
    monkeypatch.setattr(sys, "stderr", found)  # within a test: pytest sets its own between a fixture and the test
    return found


@pytest.fixture
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_TICK", "_FIRST_LINE", "_NEXT_LINE"):
        monkeypatch.setattr(progress, name, 0.02)


def test_a_line_says_how_far_it_is() -> None:
    display = Display()
    display(Status(0, 24_000, "compiling ee (2 of 6)"))
    assert display.line() == "0 of 24,000 runs; compiling ee (2 of 6)"
    display._since -= 12
    assert display.line() == "0 of 24,000 runs; compiling ee (2 of 6), 12 s"
    display(Status(4000, 24_000, "running ee (2 of 6)", 6400, 0.0021, 754.0))
    assert display.line() == "4,000 of 24,000 runs; running ee (2 of 6); about 13 min left; widest interval ±0.0021"
    display._moved -= 60
    display._told -= 700
    assert "no run has ended for 6,400 steps; about 54 s left" in display.line()
    display._told -= 100
    assert "left" not in display.line()
    display(display.status._replace(left=float("nan")))
    assert "; time left not known yet; " in display.line()


@pytest.mark.usefixtures("_quick")
def test_without_a_terminal_there_is_a_line_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    with Display("compiling"):
        time.sleep(0.3)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) > 2
    assert set(lines) == {"jaxbandit: compiling"}


def test_one_run_is_no_runs(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_shown(Path("out")) as display:
        display(Status(1, 1, "done"))
    assert re.fullmatch(r"jaxbandit: 1 run done after .* s; results in out\n", capsys.readouterr().err)


@pytest.mark.usefixtures("_quick")
def test_a_terminal_has_a_bar_that_moves_while_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    with Display() as display:
        display(Status(3, 9, "compiling ee (2 of 6)"))
        time.sleep(2.2)
    for text in ("compiling ee (2 of 6), 1 s:  33%", "compiling ee (2 of 6), 2 s:  33%", "3/9 runs"):
        assert text in terminal.getvalue()


def test_what_is_soon_over_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    monkeypatch.setattr(progress, "_TICK", 60.0)
    simulate(COINS, COIN, runs=5)
    assert terminal.getvalue() == ""


@pytest.mark.usefixtures("_quick")
def test_without_tqdm_nothing_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with Display("compiling"):
        time.sleep(0.1)
    assert simulate(COINS, COIN, runs=5)["thrown"].min() == 40
    assert terminal.getvalue() == ""


def test_a_study_says_what_goes_on(tmp_path: Path) -> None:
    told: list[Status] = []
    fair = Fair(np.float32(0.5))
    study = experiment(COINS, {"half": COIN, "fair": fair}, {"heads": _heads}, runs=20)
    run_study(study, tmp_path / "out", progress=told.append)
    doing = list(dict.fromkeys(status.doing for status in told))
    assert [each for each in doing if not each.startswith("compiling")] == [
        "preparing problems and policies", "running half (1 of 2)", "running fair (2 of 2)", "reading the results back",
    ]  # fmt: skip
    assert doing[1] == "compiling 1 of 2 programs"
    counted = [status.done for status in told]
    assert counted == sorted(counted)
    counting = [status for status in told if status.of]
    assert all(np.isnan(status.left) for status in counting if status.done == 0)
    assert all(status.left >= 0 for status in counting if status.doing == "running fair (2 of 2)")


def test_runs_that_are_to_come_take_as_long_as_those_before(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    clock = Clock()
    clock.begin(50, 100)  # 50 runs, then 100
    clock.tell(False, 0)
    now += 10  # a program compiles
    clock.tell(True, 0)
    assert np.isnan(clock.left())
    now += 5
    clock.tell(True, 25)
    assert clock.left() == 25 * 0.2 + 100 * 0.2
    clock.tell(False, 25)
    now += 4
    assert clock.left() == 5 + 20
    clock.tell(True, 25)
    now += 15
    clock.tell(True, 50)
    assert clock.running == 20
    clock.begin(100)
    clock.tell(False, 0)
    assert clock.left() == 100 * 0.4
    now += 6
    clock.tell(True, 0)
    now += 1
    clock.tell(True, 10)
    assert clock.left() == pytest.approx(90 * 0.1)


def _heads(setting: Any, answers: Any) -> np.ndarray:
    heads: np.ndarray = answers["heads"].astype(float)
    return heads


def test_a_cap_on_steps_does_not_depend_on_lanes_and_cuts(caplog: pytest.LogCaptureFixture) -> None:
    whole = simulate(COINS, STUCK, runs=60, max_steps=1000)
    endless = whole["endless"][0]
    assert 10 < endless.sum() < 50
    assert (whole["thrown"][0] == np.where(endless, 0, 40)).all()
    ends = simulate(COINS, COIN, runs=60)
    assert not ends["endless"].any()
    assert (whole["heads"][0] == np.where(endless, 0, ends["heads"][0])).all()
    [said] = [record.getMessage() for record in caplog.records]
    assert said.startswith(
        f"jaxbandit: policy Stuck: {endless.sum()} of 60 runs made as many steps as they may (max_steps)"
    )
    parts = [simulate(COINS, STUCK, runs=20, first_run=first, max_steps=999, lanes=7) for first in (0, 20, 40)]
    for name, values in whole.items():
        assert np.array_equal(values, np.concatenate([part[name] for part in parts], axis=1)), name
    curve = simulate(COINS, STUCK, runs=60, max_steps=1000, checkpoints=[5, 9])
    assert curve["endless"].shape == (1, 60)
    assert np.array_equal(curve["endless"][0], endless)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Lucky(toy.Coin):
    """Throws the worse coin until 8 heads have come."""

    execution: ClassVar[Execution] = Execution(stride=8)

    def ask(self, view: Any, state: Any) -> Any:
        return jnp.int32(0), state.thrown, jnp.int32(1)

    def done(self, view: Any, state: Any) -> Any:
        return state.heads >= 8


def test_a_run_that_ends_later_than_it_may_is_endless_whatever_the_lanes() -> None:
    found = [
        simulate(COINS, Lucky(np.float32(1)), runs=600, max_steps=48, lanes=lanes, progress=False)
        for lanes in (1, 16, 64)
    ]
    assert 50 < found[0]["endless"].sum() < 550
    assert found[0]["thrown"].max() <= 48
    for other in found[1:]:
        assert all(np.array_equal(other[name], values) for name, values in found[0].items())


def test_a_cap_on_steps_ends_no_run_before_it() -> None:
    """Of 40 steps, in rounds of 32."""
    assert simulate(COINS, COIN, runs=9, max_steps=32)["endless"].all()
    assert not simulate(COINS, COIN, runs=9, max_steps=33)["endless"].any()
    with pytest.raises(BadInput, match="max_steps = 0: a whole number from 1 to"):
        simulate(COINS, COIN, runs=9, max_steps=0)


@pytest.mark.parametrize(
    "policy", [epsilon_greedy(0.3), FAMILY.policies["index"].build(SETTING)[0]], ids=["abreast", "in turn"]
)
def test_a_cap_on_steps_of_many_steps_counts_those_of_the_run(policy: Any) -> None:
    """Whatever other lanes do: short runs beside long ones end many a kernel early."""
    budgets = [5, 320, 321, 5, 2000]
    problems = [replace(SETTING, budget=budget).problem() for budget in budgets]
    found = simulate(problems, [policy] * len(budgets), runs=40, max_steps=320)
    alone = [simulate(problem, policy, runs=40, max_steps=320) for problem in problems]
    for name, values in found.items():
        assert np.array_equal(values, np.concatenate([one[name] for one in alone])), name
    if isinstance(policy, EpsilonGreedy):  # which makes an operation a step
        assert found["endless"].sum(1).tolist() == [0, 0, 40, 0, 40]


def test_a_study_of_runs_that_do_not_end_says_so_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    study = experiment(COINS, {"fine": COIN, "stuck": STUCK}, {"heads": _heads}, runs=20, check=False)
    with pytest.raises(BadInput, match=r"^policy = stuck: one whose runs end; \d+ of 20 runs made as many steps"):
        run_study(study, tmp_path / "out", max_steps=1000)
    assert not caplog.records
    assert open_results(tmp_path / "out").done.sum() == 20
