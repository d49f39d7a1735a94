"""A tiny family for tests of studies: flip one of two coins, each throw paid from a budget.

As a program, it is the command line with this family and a figure of it.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxbandit import registry
from jaxbandit.errors import BadInput
from jaxbandit.random.stream import Stream, words
from jaxbandit.registry import Family, Metric, Parameter, PolicyKind, ProblemKind
from jaxbandit.study import families
from jaxbandit.study.figure import Axes, Figure, Plan, Request
from jaxbandit.study.summary import Row


class View(NamedTuple):
    budget: Array


class State(NamedTuple):
    thrown: Array
    heads: Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Coins:
    budget: Array
    low: Array
    high: Array

    def draw(self, key: Stream) -> Array:
        return jnp.int32(0)

    def view(self, key: Stream, instance: Array) -> View:
        return View(self.budget)

    def pull(self, key: Stream, instance: Array, pull: tuple[Array, Array, Array]) -> Array:
        coin, number, count = pull
        p = jnp.where(coin == 1, self.high, self.low)
        return jnp.where((count > 0) & (words(key, 1, number)[0] < (p * 2.0**32).astype(jnp.uint32)), 1, 0)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Coin:
    """Throws the better coin with probability ``share``."""

    share: Array

    def init(self, view: View) -> State:
        return State(jnp.int32(0), jnp.int32(0))

    def ask(self, view: View, state: State) -> tuple[Array, Array, Array]:
        coin = (state.thrown.astype(jnp.float32) < self.share * view.budget).astype(jnp.int32)
        return coin, state.thrown, jnp.minimum(1, view.budget - state.thrown)

    def tell(self, view: View, state: State, pull: tuple[Array, Array, Array], outcome: Array) -> State:
        return State(state.thrown + pull[2], state.heads + outcome)

    def done(self, view: View, state: State) -> Array:
        return state.thrown >= view.budget

    def answer(self, view: View, state: State) -> dict[str, Array]:
        return {"heads": state.heads, "thrown": state.thrown}


@dataclass(frozen=True)
class Setting:
    budget: int
    low: float
    high: float

    def problem(self) -> Coins:
        return Coins(np.int32(self.budget), np.float32(self.low), np.float32(self.high))


def _setting(budget: int, odds: Any, path: str | None) -> Setting:
    if path is not None:
        odds = [float(word) for word in Path(path).read_text().split()]
    low, high = odds
    if low > high:
        raise BadInput("problem.odds", odds, "the lower one first")
    return Setting(budget, low, high)


def _pair(name: str, value: Any) -> Any:
    if not isinstance(value, list) or len(value) != 2:
        raise BadInput(name, value, "two probabilities")
    return tuple(registry.real(0, 1)(name, each) for each in value)


def _mixed(setting: Setting, share: float) -> tuple[Coin, Mapping[str, Any]]:
    return Coin(np.float32(share)), {"throws": round(share * setting.budget)}


PROBLEM = ProblemKind(
    "coins",
    "two coins",
    (
        Parameter("budget", registry.whole(1, 2**31 - 1), "throws, a whole number from 1 to 2147483647"),
        Parameter("odds", _pair, "two probabilities", (0.2, 0.8)),
        Parameter("path", registry.text, "a file with the odds", None),
    ),
    _setting,
)
POLICIES = (
    PolicyKind("best", "the better coin alone", (), lambda setting: (Coin(np.float32(1)), {}), anytime=True),
    PolicyKind("mixed", "both coins", (Parameter("share", registry.real(0, 1), "of the better coin", 0.5),), _mixed),
)


def _tune(setting: Setting) -> list[Any]:
    return [Row(policy="mixed", params={}, metric="share", mean=1.0, ci_low=None, ci_high=None, runs=0)]


FAMILY = Family(
    "toy",
    {"coins": PROBLEM},
    {policy.name: policy for policy in POLICIES},
    (
        Metric("heads", "heads per throw", lambda setting, answers: answers["heads"] / answers["thrown"]),
        Metric("never", "no value", lambda setting, answers: answers["heads"] / (0 * answers["thrown"])),
        Metric("thrown", "throws", lambda setting, answers: answers["thrown"].astype(np.float64)),
    ),
    ("budget",),
    _tune,
)


def _figure(request: Request) -> Plan:
    study = {"problem": {"kind": "toy/coins"}, "policy": [{"kind": "best"}, {"kind": "mixed", "share": [0.2, 0.5]}]}
    studies = [
        request.study(
            {**study, "sweep": {"budget": [10, 100]}},
            labels={"coins": request.data.name if request.data else "default"},
        ),
        request.study(
            {**study, "problem": {"kind": "toy/coins", "budget": 10, "odds": [0, 1]}}, labels={"coins": "sure"}
        ),
    ]

    def exact(rows: list[Row]) -> list[Row]:
        return [Row(policy="exact", params={}, metric="heads", mean=0.5, ci_low=None, ci_high=None, runs=0)]

    def timings() -> list[Row]:
        return [Row(policy="best", params={}, metric="ratio", mean=2.0, ci_low=1.9, ci_high=2.1, runs=5)]

    axes = Axes("budget", "heads", "budget (throws)", "heads per throw", xlog=True, published={"best": [(50, 0.81)]})
    return Plan(studies, exact, timings, axes)


FIGURES = {"toy/fig1": Figure("toy/fig1", "Heads against budget", 50, _figure)}


if __name__ == "__main__":
    import os
    import signal

    from jaxbandit import cli, papers
    from jaxbandit.study import chunks

    families.register(FAMILY)
    papers.FIGURES = FIGURES
    # A shell's background job ignores SIGINT, and so would a process that it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if "TOY_CHUNK" in os.environ:  # chunks that small, and never larger
        chunks._FIRST_JOBS, chunks._SHORT = int(os.environ["TOY_CHUNK"]), 0.0
    sys.exit(cli.main())
