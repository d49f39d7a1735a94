"""A rule of one's own for outlier arms, beside the built-in ones: see docs/own-others.md.

python examples/own_outliers.py
jaxbandit run examples/own_outliers.toml --out DIR --plugin examples/own_outliers.py
"""

from dataclasses import dataclass
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxbandit import Study, outliers, register_policy, run_study, table
from jaxbandit.registry import between


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class InDoubt:
    """Pulls all arms in turn, ``first`` times together (int32), and then the arm that is hardest to judge.

    ``interval``: the threshold; ``margin`` (float32): added to each distance from it, so that a close arm is left.
    """

    interval: outliers.Interval
    first: Array
    margin: Array

    def init(self, view: outliers.View) -> outliers.Seen:
        return outliers.Seen.nothing(view.arms)  # pulls and rewards of each arm: the state of this rule

    def ask(self, view: outliers.View, state: outliers.Seen) -> outliers.Pull:
        excess = self.interval.estimates(state, jnp.float32(1), view.unit).excess  # how far above the threshold
        sure = jnp.sqrt(state.pulls.astype(jnp.float32)) * (jnp.abs(excess) + self.margin)
        hardest = jnp.argmin(sure).astype(jnp.int32)
        arm = jnp.where(state.total < self.first, state.total % view.arms, hardest)
        return outliers.Pull(arm=arm, attempt=state.pulls[arm])

    def tell(self, view: outliers.View, state: outliers.Seen, pull: outliers.Pull, outcome: Array) -> outliers.Seen:
        return state.after(pull, outcome)

    def done(self, view: outliers.View, state: outliers.Seen) -> Array:
        return state.total >= view.budget

    def answer(self, view: outliers.View, state: outliers.Seen) -> dict[str, Array]:
        found = self.interval.outliers(state, view.unit)
        return {"outliers": found, "arm_pulls": state.pulls, "code": jnp.int32(outliers.CAPPED)}


@register_policy("outliers")
def in_doubt(setting: Any, margin: Annotated[float, between(0, 1), "added to each distance"] = 0.1) -> InDoubt:
    """Pulls all arms with half of the budget, and then the arm that is hardest to judge."""
    interval = outliers.interval("bounded", delta=0.1, k=setting.definition.k)
    turns = max(setting.budget // 2 // setting.arms, 1)
    return InDoubt(interval, np.int32(turns * setting.arms), np.float32(margin))


if __name__ == "__main__":
    problem = {"kind": "outliers/synthetic", "n": 50, "budget": 1_000}
    study = Study.of({"runs": 200, "problem": problem, "policy": [{"kind": "wrr"}, {"kind": "in-doubt"}]})
    print(table(run_study(study, progress=False), "correct"), end="")
