"""A rule for arms that pulls one arm at a time, chosen at random: see docs/own-arms.md."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxbandit import Study, random, register_policy, run_study, table, topk


class State(NamedTuple):
    total: Array  # of each arm: the sum of its rewards
    pulls: Array  # of each arm: how often it was pulled


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class OneByOne:
    """Pulls each arm once, then always one of the best 2 ``want`` so far (int32), at random."""

    want: Array

    def init(self, view: topk.View) -> State:
        return State(view.nothing((view.arms,)), jnp.zeros(view.arms, jnp.int32))

    def order(self, view: topk.View, state: State) -> Array:
        return jnp.argsort(-view.mean(state.total, state.pulls))  # the best arm first

    def ask(self, view: topk.View, state: State) -> topk.Pull:
        made = jnp.sum(state.pulls)
        best = jnp.minimum(2 * self.want, view.arms)
        place = random.integers(view.choices, 1, made, best)  # purpose 1, draw number ``made``: from 0 to best - 1
        arm = jnp.where(made < view.arms, made, self.order(view, state)[place])
        return topk.Pull(arm=arm[None], first=state.pulls[arm][None], times=jnp.int32(1), used=jnp.int32(1))

    def tell(self, view: topk.View, state: State, pull: topk.Pull, outcome: topk.Outcome) -> State:
        return State(state.total.at[pull.arm].add(outcome.total), state.pulls.at[pull.arm].add(outcome.made))

    def done(self, view: topk.View, state: State) -> Array:
        return jnp.sum(state.pulls) >= view.budget

    def answer(self, view: topk.View, state: State) -> dict[str, Array]:
        chosen = jnp.zeros(view.arms, bool).at[self.order(view, state)].set(jnp.arange(view.arms) < self.want)
        return {"chosen": chosen, "arm_pulls": state.pulls}


@register_policy("topk")
def one_by_one(setting: Any) -> OneByOne:
    """Pulls each arm once, then always one of the best 2K so far, at random."""
    return OneByOne(np.int32(setting.want))


if __name__ == "__main__":
    problem = {"kind": "topk/bernoulli", "n": 164, "K": 20, "means": {"beta": [6, 2]}, "budget": 2_000}
    study = Study.of({"runs": 100, "problem": problem, "policy": [{"kind": "uniform"}, {"kind": "one-by-one"}]})
    print(table(run_study(study, progress=False), "regret"), end="")
