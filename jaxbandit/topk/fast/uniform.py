"""Uniform sampling whose choice and percentiles are found without a sort. A run is one step.

``test_fast_uniform_equals_the_rule`` (tests/test_topk_policies.py) ties it to ``topk/uniform.py``.
"""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jax import Array

from jaxbandit.arms.problem import Arms, View
from jaxbandit.arms.pulls import percentiles
from jaxbandit.grammar import Execution, accelerated
from jaxbandit.pytree import pytree
from jaxbandit.topk.given import suiting
from jaxbandit.topk.uniform import State, Uniform
from jaxbandit.xla.prefix import added, best


@pytree
@dataclass(frozen=True)
class UniformInBatches(Uniform):
    """Makes all pulls of uniform sampling in one step, and finds its choice without a sort."""

    execution = Execution(stride=1, cache_mib=1, temporaries=16, gain_ns=160, loss_ns=480, growth=0.5)

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """Chooses as ``Uniform`` does; where pulls are even it gives their percentiles and not each arm's pulls."""
        chosen, _ = best(view.mean(state.total, state.pulls), self.want, jnp.ones(view.arms, bool))
        if not view.even:
            return {"chosen": chosen, "arm_pulls": state.pulls}
        # Even pulls fall with the number of the arm.
        ranked = percentiles(view.arms, lambda rank: state.pulls[view.arms - rank])
        return {"chosen": chosen, "pulls": added(state.pulls), **ranked}


@accelerated.register
def _(rule: Uniform, problem: Any) -> Uniform:
    if not isinstance(problem, Arms):
        return rule
    suiting(rule, int(rule.want), 0, problem)
    return UniformInBatches(rule.want, rule.spread)
