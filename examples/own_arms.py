"""A rule of one's own for the K best arms, beside the built-in ones: see docs/own-arms.md.

jaxbandit run examples/own_arms.toml --out DIR --plugin examples/own_arms.py
"""

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxbandit import register_policy, topk
from jaxbandit.registry import whole


class State(NamedTuple):
    total: Array  # of each arm: the sum of its rewards
    pulls: Array  # of each arm: how often it was pulled
    stage: Array  # 0, 1, and 2 at the end


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class TwoStages:
    """Tests all arms equally often, ``first`` times, then the best ``keep``, to choose ``want`` (all int32)."""

    want: Array
    first: Array
    keep: Array

    def init(self, view: topk.View) -> State:
        return State(view.nothing((view.arms,)), jnp.zeros(view.arms, jnp.int32), jnp.int32(0))

    def rank(self, view: topk.View, state: State) -> Array:
        """Of each arm by its mean so far, 0 the best; of equal means the lower arm first."""
        return jnp.argsort(jnp.argsort(-view.mean(state.total, state.pulls)))

    def ask(self, view: topk.View, state: State) -> topk.Pull:
        rest = (view.budget - jnp.sum(state.pulls)) // self.keep
        second = jnp.where(self.rank(view, state) < self.keep, rest, 0)
        return topk.Pull(
            arm=jnp.arange(view.arms, dtype=jnp.int32),
            first=state.pulls,  # how often each was pulled before
            times=jnp.where(state.stage == 0, self.first, second),  # and how often it is now
            used=jnp.int32(view.arms),  # all entries name an arm
        )

    def tell(self, view: topk.View, state: State, pull: topk.Pull, outcome: topk.Outcome) -> State:
        return State(state.total + outcome.total, state.pulls + outcome.made, state.stage + 1)

    def done(self, view: topk.View, state: State) -> Array:
        return state.stage >= 2

    def answer(self, view: topk.View, state: State) -> dict[str, Array]:
        return {"chosen": self.rank(view, state) < self.want, "arm_pulls": state.pulls}


@register_policy("topk")
def two_stages(setting: Any, factor: Annotated[int, whole(1, 100), "the best factor K arms stay"] = 3) -> TwoStages:
    """Tests all arms with half of the budget, then the best of them with the rest."""
    keep = min(factor * setting.want, setting.arms)
    return TwoStages(np.int32(setting.want), np.int32(setting.budget // 2 // setting.arms), np.int32(keep))
