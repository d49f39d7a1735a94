"""Sequential halving as a schedule of rounds.

``test_fast_rounds_equal_the_rules`` (tests/test_topk_policies.py) ties it to ``topk/halving.py``.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxbandit.arms.problem import Arms
from jaxbandit.grammar import accelerated
from jaxbandit.topk.fast.rounds import Rounds
from jaxbandit.topk.fast.schedule import are_few, pulls_of, schedule
from jaxbandit.topk.given import suiting
from jaxbandit.topk.halving import SequentialHalving


@accelerated.register
def _(rule: SequentialHalving, problem: Any) -> Rounds | SequentialHalving:
    if not isinstance(problem, Arms):
        return rule
    rounds, size = [], problem.means.arms
    for share in np.asarray(rule.share).tolist():
        keep = max(int(rule.want), -(-size // 2))
        rounds.append((size, share, keep, False))
        size = keep
    suiting(rule, int(rule.want), pulls_of(rounds), problem)
    few = are_few(rounds, problem.rewards)
    ties = "anew" if rule.ties == "random" else "lowest"
    arms = problem.means.arms
    return Rounds(schedule(rounds, len(rounds)), rule.want, jnp.int32(1), rule.reuse, arms, ties=ties, few=few)
