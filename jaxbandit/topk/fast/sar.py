"""SAR in as many rounds as it has phases that pull.

Most phases have n_k = n_(k-1) and pull nothing. Between two pulls the means do not change. Taking an arm out does not
move the cut between the arms that are still wanted and the others, as an accepted arm lowers the number wanted. So b
phases without a pull between them take out the b arms with the largest gaps, all at once and exactly. The rounds are as
many as there are different n_k.

``test_fast_rounds_equal_the_rules`` (tests/test_topk_policies.py) ties it to ``topk/sar.py``.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxbandit.arms.problem import Arms
from jaxbandit.grammar import accelerated
from jaxbandit.topk.fast.rounds import Rounds
from jaxbandit.topk.fast.schedule import are_few, pulls_of, schedule
from jaxbandit.topk.given import suiting
from jaxbandit.topk.sar import Sar


def rounds_of(rule: Sar, arms: int) -> list[tuple[int, int, int, bool]]:
    """Returns the columns (size, share, keep, gaps) of ``Schedule`` for each phase that pulls."""
    share = np.asarray(rule.share)
    starts = [0, *(np.flatnonzero(share[1:]) + 1).tolist()]
    ends = [*starts[1:], max(arms - 1, 1)]
    return [(arms - k, int(share[k]), arms - after, True) for k, after in zip(starts, ends, strict=True)]


@accelerated.register
def _(rule: Sar, problem: Any) -> Rounds | Sar:
    if not isinstance(problem, Arms):
        return rule
    n = problem.means.arms
    rounds = rounds_of(rule, n)
    suiting(rule, int(rule.want), pulls_of(rounds), problem)
    room = 1 << n.bit_length()  # whatever the budget, so that budgets share a program
    few = are_few(rounds, problem.rewards)
    return Rounds(schedule(rounds, room), rule.want, jnp.int32(1), jnp.bool_(True), n, "rank", rule.ties, few)
