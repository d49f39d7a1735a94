"""This package's policies pass the check that ``jaxbandit.testing`` gives users, which finds what is put wrong."""

import os
import subprocess
import sys
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from jaxbandit import BadInput
from jaxbandit.grammar import accelerated
from jaxbandit.registry import parse
from jaxbandit.study.families import FAMILIES
from jaxbandit.testing import conformance
from tests import toy
from tests.test_contract import Endless, Leftover, WithStatic, own

PROBLEMS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "cleaning": (
        "synthetic", {"budget": 40, "entities": 30, "false_values": {"uniform": [0, 4]}}, {"sc_pdf": {"beta": [9, 1]}},
    ),
    "topk": (
        "bernoulli", {"K": 2, "budget": 60, "means": {"list": [0.1, 0.9, 0.3, 0.5, 0.7]}},
        {"means": {"list": [0.8, 0.2, 0.6, 0.5, 0.4]}},
    ),
    "outliers": (
        "bernoulli", {"budget": 3000, "k": 1.2, "means": {"list": [0.2, 0.25, 0.95, 0.3, 0.2]}},
        {"means": {"list": [0.9, 0.3, 0.2, 0.1, 0.3]}},
    ),
    "extraction": ("people", {"budget": 6, "configurations": [[3, 0], [5, 2]]}, {"domain_seed": 1}),
}  # fmt: skip
"""Of each family a problem, and what changes its truth but nothing that is shown."""
POLICIES: dict[str, dict[str, Any]] = {"gold": {"rho": 0.7}}
"""Parameters that a policy needs on its problem."""


def _built(family: str, name: str, changes: dict[str, Any]) -> tuple[Any, Any]:
    kind, given, _ = PROBLEMS[family]
    problem, policy = FAMILIES[family].problems[kind], FAMILIES[family].policies[name]
    setting = problem.build(**parse("problem", problem.parameters, given | changes))
    return setting.problem(), policy.build(setting, **parse("policy", policy.parameters, POLICIES.get(name, {})))[0]


OTHER_NAMES = {"root-chao", "rand-leaf", "optmai-printed", "lucb-stop"}
"""Policies that are another one's class with other parameters."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "name"),
    [(family, name) for family in PROBLEMS for name in FAMILIES[family].policies if name not in OTHER_NAMES],
)
def test_policies_conform(family: str, name: str) -> None:
    """Those of extraction have the bits of their rules, on small problems; ``gs-exact`` may know the truth."""
    informed = {"informed": True} if name == "gs-exact" else {}
    problem, policy = _built(family, name, informed)
    other = None if informed else _built(family, name, PROBLEMS[family][2])[0]
    assert conformance(problem, policy, other, fast="bits" if family == "extraction" else "law") == []


COINS, SWAPPED = (toy.Coins(np.int32(20), np.float32(low), np.float32(1 - low)) for low in (0.2, 0.8))
HALF = np.float32(0.5)


class _Seen(NamedTuple):
    budget: Array
    odds: Array


@own
class _Open(toy.Coins):
    """Shows what nobody may know."""

    def view(self, key: Any, instance: Any) -> Any:
        return _Seen(self.budget, self.high)


@own
class _Cheat(toy.Coin):
    def ask(self, view: Any, state: Any) -> Any:
        _, number, count = super().ask(view, state)
        return (view.odds > 0.5).astype(jnp.int32), number, count


@own
class _Own(toy.Coin):
    """Has a fast implementation that throws the other coin more often."""


@own
class _Faster(toy.Coin):
    def advance(self, view: Any, state: Any, sample: Any) -> Any:
        pull = self.ask(view, state)
        return self.tell(view, state, pull, sample(pull))


@pytest.mark.smoke
def test_a_policy_of_ones_own_conforms() -> None:
    sweep = [toy.Coin(np.float32(share)) for share in (0.2, 0.7)]
    assert conformance(COINS, sweep, SWAPPED) == []
    accelerated.register(_Own, lambda policy, problem: _Faster(policy.share))
    assert conformance(COINS, _Own(HALF), SWAPPED, fast="bits") == []
    accelerated.register(_Own, lambda policy, problem: _Faster(policy.share * np.float32(0.5)))
    with pytest.raises(BadInput, match=r"^policy _Own.answer\['heads'\] = other values of its fast implementation: "):
        conformance(COINS, _Own(HALF), fast="bits")
    with pytest.raises(BadInput, match=r"^policy _Own.answer\['heads'\] = a mean of .* of its fast implementation: "):
        conformance(COINS, _Own(HALF))


@pytest.mark.parametrize(
    ("policies", "line"),
    [
        (_Cheat(HALF), "policy _Cheat.answer['heads'] = other values where the truth is another: the same, as the "),
        (Leftover(HALF), "policy Leftover.answer['heads'] = other values where runs share lanes otherwise: the same b"),
        (Endless(HALF), "policy Endless.done = 4 runs did not all end in "),
        ([WithStatic(HALF, 3), WithStatic(HALF, 4)], "policy WithStatic = 2 programs for 2 policies: one, so that a s"),
    ],
)
def test_what_does_not_conform(policies: Any, line: str) -> None:
    problems = [_Open(each.budget, each.low, each.high) for each in (COINS, SWAPPED)]
    given = problems if isinstance(policies, _Cheat) else [COINS, SWAPPED]
    with pytest.raises(BadInput) as error:
        conformance(given[0], policies, given[1])
    assert str(error.value).startswith(line)


class _Tuple(NamedTuple):
    """A coin as a tuple of its fields."""

    share: Any
    init, ask, tell, done, answer = (vars(toy.Coin)[name] for name in ("init", "ask", "tell", "done", "answer"))


def test_what_is_no_list_of_policies() -> None:
    assert conformance(COINS, _Tuple(HALF)) == []
    with pytest.raises(BadInput, match=r"^policies = \[\]: one policy, or several$"):
        conformance(COINS, [])
    with pytest.raises(BadInput, match=r"^fast = bit: one of bits, law$"):
        conformance(COINS, toy.Coin(HALF), fast="bit")  # type: ignore[arg-type]


_TWO = """
import jax, jaxbandit.testing as testing
from tests.test_conformance import COINS, HALF
from tests import toy
seen, simulate = [], testing.simulate
testing.simulate = lambda *pair, **more: (seen.append(len(more["devices"])), simulate(*pair, **more))[1]
assert testing.conformance(COINS, toy.Coin(HALF)) == []
assert set(seen) == {1, 2}, seen
"""


def test_two_devices_are_compared() -> None:
    environment = os.environ | {"JAX_NUM_CPU_DEVICES": "2", "PYTHONPATH": os.getcwd()}
    ended = subprocess.run([sys.executable, "-c", _TWO], env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
