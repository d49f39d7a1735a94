"""Naive Round-Robin (NRR): Zhuang, Wang and Wang, "Identifying Outlier Arms in Multi-Armed Bandit", NIPS 2017, section
5.2: all arms in turn, until the estimated set was the same after each of the last 1/delta pulls.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxbandit.contract import brief
from jaxbandit.outliers.intervals import Interval
from jaxbandit.outliers.problem import Pull, View
from jaxbandit.outliers.record import Seen, answer
from jaxbandit.outliers.rr import next_arm

if TYPE_CHECKING:
    from jaxtyping import Bool, Int32


def patience(delta: float) -> int:
    """1/delta as a number of pulls: the smallest that is at least that, delta being the decimal that prints it."""
    return math.ceil(1 / Fraction(repr(float(delta))))


class State(NamedTuple):
    """``seen``: the record of all pulls; ``arm``: the one that is pulled next; ``found``: the estimated set; ``same``:
    pulls since it changed."""

    seen: Seen
    arm: Int32[Array, ""]
    found: Bool[Array, " arms"]
    same: Int32[Array, ""]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class NRR:
    """NRR with the threshold ``of`` (see ``intervals.interval``, whose intervals it does not need), which ends after
    ``need`` pulls without a change: see ``patience``.

    Example:
        >>> from jaxbandit import outliers
        >>> outliers.NRR(outliers.interval("bounded", delta=0.1, k=2.5), need=10).of.name
        'bounded'
    """

    of: Interval
    need: Int32[Array, ""]

    __repr__ = brief

    def init(self, view: View) -> State:
        """Before the first pull."""
        return State(Seen.nothing(view.arms), jnp.int32(0), jnp.zeros(view.arms, bool), jnp.int32(0))

    def ask(self, view: View, state: State) -> Pull:
        """The next arm."""
        return state.seen.next_of(state.arm)

    def tell(self, view: View, state: State, pull: Pull, outcome: Int32[Array, ""]) -> State:
        """Looks whether the set has changed; it exists once each arm was pulled."""
        seen = state.seen.after(pull, outcome)
        found = self.of.outliers(seen, view.unit)
        changed = (seen.total <= view.arms) | jnp.any(found != state.found)
        return State(seen, next_arm(seen, pull.arm), found, jnp.where(changed, 0, state.same + 1))

    def done(self, view: View, state: State) -> Bool[Array, ""]:
        """The set has not changed for long enough, or the budget is spent."""
        return (state.same >= self.need) | (state.seen.total >= view.budget)

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """See ``record.answer``."""
        return answer(state.seen, state.found, state.same >= self.need)
