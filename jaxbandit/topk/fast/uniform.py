"""Uniform sampling on a batch: a run is one step, and its choice and its percentiles are found without a sort.

``test_fast_uniform_equals_the_rule`` (tests/test_topk_policies.py) ties it to ``topk/uniform.py``.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from jaxbandit.arms.problem import Arms, View
from jaxbandit.arms.pulls import percentiles
from jaxbandit.grammar import Execution, accelerated
from jaxbandit.topk.uniform import State, Uniform
from jaxbandit.xla.prefix import added, best


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Once(Uniform):
    """Uniform sampling whose run is one step."""

    execution = Execution(stride=1, in_cache=True, gain_ns=5)

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """See ``Uniform``."""
        chosen, _ = best(view.mean(state.total, state.pulls), self.want, jnp.ones(view.arms, bool))
        if not view.even:
            return {"chosen": chosen, "arm_pulls": state.pulls}
        # Even pulls fall with the number of the arm.
        ranked = percentiles(view.arms, lambda rank: state.pulls[view.arms - rank])
        return {"chosen": chosen, "pulls": added(state.pulls), **ranked}


@accelerated.register
def _(rule: Uniform, problem: Any) -> Uniform:
    return Once(rule.want, rule.spread) if isinstance(problem, Arms) else rule
