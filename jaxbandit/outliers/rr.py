"""Round-Robin (RR): Zhuang, Wang and Wang, "Identifying Outlier Arms in Multi-Armed Bandit", NIPS 2017, Algorithm 1.

All arms in turn, until none is active: until no arm's interval overlaps with that of the threshold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxbandit.contract import brief
from jaxbandit.outliers.intervals import Interval
from jaxbandit.outliers.problem import Pull, View
from jaxbandit.outliers.record import Seen, answer

if TYPE_CHECKING:
    from jaxtyping import Bool, Int32


class State(NamedTuple):
    """``seen``: the record of all pulls; ``arm``: the one that is pulled next; ``active``: whether any arm is."""

    seen: Seen
    arm: Int32[Array, ""]
    active: Bool[Array, ""]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class RR:
    """RR with the threshold and the intervals ``of``: see ``intervals.interval``.

    Example:
        >>> from jaxbandit import outliers
        >>> outliers.RR(outliers.interval("bounded", delta=0.1, k=2.5)).of.name
        'bounded'
    """

    of: Interval

    __repr__ = brief

    def init(self, view: View) -> State:
        """Before the first pull."""
        return State(Seen.nothing(view.arms), jnp.int32(0), jnp.bool_(True))

    def ask(self, view: View, state: State) -> Pull:
        """Line 7: the next arm."""
        return state.seen.next_of(state.arm)

    def tell(self, view: View, state: State, pull: Pull, outcome: Int32[Array, ""]) -> State:
        """Lines 8 and 9: new estimates, and whether an arm is active; and line 6, who is next."""
        seen = state.seen.after(pull, outcome)
        active = (seen.total < view.arms) | jnp.any(self.of.active(seen, view.unit))
        return State(seen, next_arm(seen, pull.arm), active)

    def done(self, view: View, state: State) -> Bool[Array, ""]:
        """No arm is active (line 5), or the budget is spent."""
        return ~state.active | (state.seen.total >= view.budget)

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """See ``record.answer``."""
        return answer(state.seen, self.of.outliers(state.seen, view.unit), ~state.active)


def next_arm(seen: Seen, arm: Int32[Array, ""]) -> Int32[Array, ""]:
    """The arm after ``arm``: after one pull of each (lines 1 to 4), the round goes on with the second one."""
    n = seen.pulls.shape[0]
    return jnp.where(seen.total == n, 1, (arm + 1) % n)
