"""Naive Round-Robin (NRR): Zhuang, Wang and Wang, "Identifying Outlier Arms in Multi-Armed Bandit", NIPS 2017, section
5.2. All arms are pulled in turn, until the set of estimated outliers was the same after each of the last 1/delta pulls.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import jax.numpy as jnp
from jax import Array

from jaxbandit.describe import brief
from jaxbandit.outliers import given
from jaxbandit.outliers.intervals import Delta, Interval
from jaxbandit.outliers.problem import Pull, View
from jaxbandit.outliers.record import Seen, answer
from jaxbandit.outliers.rr import next_arm
from jaxbandit.parameters import checked
from jaxbandit.parsers import as_printed
from jaxbandit.pytree import pytree

if TYPE_CHECKING:
    from jaxtyping import Bool, Int32


def patience(delta: float) -> int:
    """Returns the least number of pulls that is at least 1/delta, with delta as the decimal that prints it; but no more
    than 2^31 - 1, which is above any budget."""
    return min(math.ceil(1 / as_printed(delta)), 2**31 - 1)


class State(NamedTuple):
    """Holds the record of all pulls (``seen``), the ``arm`` that is pulled next, the estimated outliers (``found``),
    and the pulls since these changed (``same``)."""

    seen: Seen
    arm: Int32[Array, ""]
    found: Bool[Array, " arms"]
    same: Int32[Array, ""]


@pytree
@dataclass(frozen=True)
class NRR:
    """Finds outliers by naive round-robin, which ends after ``need`` pulls without a change (see ``patience``). It uses
    the threshold that ``interval`` describes, and no intervals.

    Example:
        >>> from jaxbandit import outliers
        >>> outliers.NRR(outliers.interval("bounded", delta=0.1, k=2.5), need=10).interval.name
        'bounded'
    """

    interval: Interval
    need: Int32[Array, ""]

    __repr__ = brief

    def init(self, view: View) -> State:
        """Begins before the first pull, with an empty set."""
        return State(Seen.nothing(view.arms), jnp.int32(0), jnp.zeros(view.arms, bool), jnp.int32(0))

    def ask(self, view: View, state: State) -> Pull:
        """Pulls the arm whose turn it is."""
        return state.seen.next_of(state.arm)

    def tell(self, view: View, state: State, pull: Pull, outcome: Int32[Array, ""]) -> State:
        """Estimates the set again and counts the pulls since it changed; it exists once each arm was pulled."""
        seen = state.seen.after(pull, outcome)
        found = self.interval.outliers(seen, view.unit)
        changed = (seen.total <= view.arms) | jnp.any(found != state.found)
        return State(seen, next_arm(seen, pull.arm), found, jnp.where(changed, 0, state.same + 1))

    def done(self, view: View, state: State) -> Bool[Array, ""]:
        """Ends the run when the set was the same for 1/delta pulls, or the budget is spent."""
        return (state.same >= self.need) | (state.seen.total >= view.budget)

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """Answers which arms are estimated outliers; see ``record.answer``."""
        return answer(state.seen, state.found, state.same >= self.need)


@checked
def nrr(interval: Interval, *, delta: Delta = 0.1) -> NRR:
    """Makes naive round-robin, which ends when the set was the same for 1/delta pulls: Zhuang et al. 2017, section 5.2.

    Args:
        interval: the threshold; NRR uses no intervals, and not the ``delta`` of this.
        delta: the run ends after 1/delta pulls that left the set the same; above 0 and below 1. It promises nothing.

    Raises:
        BadInput: for an argument out of range, or an ``interval`` without k.

    Example:
        >>> from jaxbandit import outliers
        >>> int(outliers.nrr(outliers.interval("bounded", delta=0.1, k=2.5), delta=0.05).need)
        20
    """
    return NRR(given.threshold_of(interval), jnp.int32(patience(delta)))
