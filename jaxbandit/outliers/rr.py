"""Round-Robin (RR): Zhuang, Wang and Wang, "Identifying Outlier Arms in Multi-Armed Bandit", NIPS 2017, Algorithm 1.

All arms are pulled in turn, as long as any arm is active. An arm is active while its interval overlaps with that of the
threshold, so that it is not sure on which side of it the arm is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import jax.numpy as jnp
from jax import Array

from jaxbandit.describe import brief
from jaxbandit.outliers import given
from jaxbandit.outliers.intervals import Interval
from jaxbandit.outliers.problem import Pull, View
from jaxbandit.outliers.record import Seen, answer
from jaxbandit.pytree import pytree

if TYPE_CHECKING:
    from jaxtyping import Bool, Int32


class State(NamedTuple):
    """Holds the record of all pulls (``seen``), the ``arm`` that is pulled next, and whether any arm is active,
    which counts as true until each arm was pulled."""

    seen: Seen
    arm: Int32[Array, ""]
    any_active: Bool[Array, ""]


@pytree
@dataclass(frozen=True)
class RR:
    """Finds outliers by round-robin, with the threshold and the intervals that ``interval`` describes.

    Example:
        >>> from jaxbandit import outliers
        >>> outliers.RR(outliers.interval("bounded", delta=0.1, k=2.5)).interval.name
        'bounded'
    """

    interval: Interval

    __repr__ = brief

    def init(self, view: View) -> State:
        """Begins before the first pull, with arm 0 as the next one."""
        return State(Seen.nothing(view.arms), jnp.int32(0), jnp.bool_(True))

    def ask(self, view: View, state: State) -> Pull:
        """Pulls the arm whose turn it is (line 7)."""
        return state.seen.next_of(state.arm)

    def tell(self, view: View, state: State, pull: Pull, outcome: Int32[Array, ""]) -> State:
        """Updates estimates and intervals, and with them which arms are active (lines 8 and 9); moves to the next arm
        (line 6)."""
        seen = state.seen.after(pull, outcome)
        opening = seen.total < view.arms  # not every arm was pulled yet
        any_active = opening | jnp.any(self.interval.active(seen, view.unit))
        return State(seen, next_arm(seen, pull.arm), any_active)

    def done(self, view: View, state: State) -> Bool[Array, ""]:
        """Ends the run when no arm is active (line 5) or the budget is spent."""
        return ~state.any_active | (state.seen.total >= view.budget)

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """Answers which arms are estimated outliers (line 10); see ``record.answer``."""
        return answer(state.seen, self.interval.outliers(state.seen, view.unit), ~state.any_active)


def next_arm(seen: Seen, arm: Int32[Array, ""]) -> Int32[Array, ""]:
    """Returns the arm after ``arm``. When each arm has one pull (lines 1 to 4), arm 1 is next: line 6 adds before it
    pulls."""
    n = seen.pulls.shape[0]
    return jnp.where(seen.total == n, 1, (arm + 1) % n)


def rr(interval: Interval) -> RR:
    """Makes round-robin: Zhuang, Wang and Wang 2017, Algorithm 1.

    Raises:
        BadInput: for an ``interval`` without k, or none.

    Example:
        >>> from jaxbandit import outliers
        >>> outliers.rr(outliers.interval("bounded", delta=0.1, k=2.5)).interval.name
        'bounded'
    """
    return RR(given.threshold_of(interval))
