"""OptMAI as a schedule of rounds: how many arms are active in each is known before the run.

``test_fast_rounds_equal_the_rules`` (tests/test_topk_policies.py) ties it to ``topk/optmai.py``.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxbandit.arms.problem import Arms
from jaxbandit.grammar import accelerated
from jaxbandit.topk.fast.rounds import Rounds
from jaxbandit.topk.fast.schedule import are_few, pulls_of, schedule
from jaxbandit.topk.given import suiting
from jaxbandit.topk.optmai import OptMAI


def rounds_of(rule: OptMAI, arms: int) -> list[tuple[int, int, int, bool]]:
    """Returns the columns (size, share, keep, gaps) of ``Schedule`` for each round of OptMAI."""
    rounds, size = [], arms
    for share in np.asarray(rule.share).tolist():
        by_gap = size < 4 * int(rule.sought)
        keep = 0 if by_gap and rule.last == "uniform" else size - -(-size // 4)
        rounds.append((size, share, keep, by_gap))
        size = keep
    return rounds


@accelerated.register
def _(rule: OptMAI, problem: Any) -> Rounds | OptMAI:
    if not isinstance(problem, Arms):
        return rule
    n = problem.means.arms
    rounds = rounds_of(rule, n)
    suiting(rule, int(rule.sought), pulls_of(rounds), problem)
    accept = rule.accept if rule.last == "ar" else "rank"
    sign = jnp.where(rule.worst, jnp.int32(-1), jnp.int32(1))
    few = are_few(rounds, problem.rewards)
    return Rounds(schedule(rounds, len(rounds)), rule.sought, sign, rule.reuse, n, accept, rule.ties, few)
