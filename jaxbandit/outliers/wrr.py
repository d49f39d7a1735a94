"""Weighted Round-Robin (WRR): Zhuang, Wang and Wang, "Identifying Outlier Arms in Multi-Armed Bandit", NIPS 2017,
Algorithm 2.

All arms in turn. One that is not active gets a pull a turn; an active one is pulled again and again until it has rho
pulls for each of all its turns so far, also of those in which it was not active, or until it is active no more.
Whether an arm is active is told by intervals (``intervals.py``): its own and the threshold's overlap.
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
from jaxbandit.outliers.intervals import Interval, width_of_threshold
from jaxbandit.outliers.problem import Pull, View
from jaxbandit.outliers.record import Seen, answer
from jaxbandit.outliers.rr import next_arm

if TYPE_CHECKING:
    from jaxtyping import Bool, Int32


def rho_star(n: int, k: float, delta: float) -> float:
    """Eq. 6 for ``n`` arms: (n - 1)^(2/3) / l(k)^(1/3), at least 1; l(k) depends on ``k`` and ``delta``.

    Example:
        >>> from jaxbandit import outliers
        >>> round(outliers.rho_star(50, 2.5, 0.1), 2)
        6.33
    """
    return max(1.0, math.cbrt((n - 1) ** 2 / width_of_threshold(n, k, delta)))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Share:
    """rho = ``units`` + ``part`` / ``parts``, an exact ratio (``parts`` below 2^24)."""

    units: Int32[Array, ""]
    part: Int32[Array, ""]
    parts: Int32[Array, ""]

    @classmethod
    def of(cls, rho: float) -> Share:
        """A float stands for the decimal that prints it, to the nearest ratio of whole numbers below 2^24."""
        ratio = Fraction(repr(float(rho))).limit_denominator(2**24 - 1)
        units = ratio.numerator // ratio.denominator
        return cls(*map(jnp.int32, (units, ratio.numerator - units * ratio.denominator, ratio.denominator)))


class Counter(NamedTuple):
    """c_i, rho for each turn: the whole part and what is left, in units of 1 / ``Share.parts``."""

    units: Int32[Array, " arms"]
    part: Int32[Array, " arms"]

    def after(self, turns: int | Array, share: Share) -> Counter:
        """Some turns later; at most 127, as more times ``part`` may not be an int32."""
        part = self.part + turns * share.part
        over = part // share.parts
        return Counter(self.units + turns * share.units + over, part - over * share.parts)

    def ceiling(self) -> Int32[Array, " arms"]:
        """The fewest pulls that are at least c_i."""
        return self.units + (self.part > 0).astype(jnp.int32)


class State(NamedTuple):
    """``seen``: the record of all pulls; ``arm``: the one that is pulled next; ``counters``: c_i; ``active``: whether
    any arm is."""

    seen: Seen
    arm: Int32[Array, ""]
    counters: Counter
    active: Bool[Array, ""]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class WRR:
    """WRR with the threshold and the intervals ``of`` (see ``intervals.interval``), and rho = ``share``.

    Example:
        >>> from jaxbandit import outliers
        >>> rule = outliers.wrr(outliers.interval("bounded", delta=0.1, k=2.5), rho=3.5)
        >>> rule.of.name, int(rule.share.units), int(rule.share.part), int(rule.share.parts)
        ('bounded', 3, 1, 2)
    """

    of: Interval
    share: Share

    __repr__ = brief

    def init(self, view: View) -> State:
        """Before the first pull (line 4: the counters are 0)."""
        none = jnp.zeros(view.arms, jnp.int32)
        return State(Seen.nothing(view.arms), jnp.int32(0), Counter(none, none), jnp.bool_(True))

    def ask(self, view: View, state: State) -> Pull:
        """Line 10: a pull of the arm whose turn it is."""
        return state.seen.next_of(state.arm)

    def tell(self, view: View, state: State, pull: Pull, outcome: Int32[Array, ""]) -> State:
        """Lines 11 to 13: new estimates, and whether the turn is over; then the next arm's begins (lines 7 and 8)."""
        seen = state.seen.after(pull, outcome)
        active, opening = self.of.active(seen, view.unit), seen.total < view.arms
        due = seen.pulls < state.counters.ceiling()
        stays = (active & due)[pull.arm] & (seen.total > view.arms)
        arm = jnp.where(stays, pull.arm, next_arm(seen, pull.arm))
        turns = (jnp.arange(view.arms, dtype=jnp.int32) == arm) & ~stays & ~opening
        counters = state.counters.after(turns.astype(jnp.int32), self.share)
        return State(seen, arm, counters, opening | jnp.any(active))

    def done(self, view: View, state: State) -> Bool[Array, ""]:
        """No arm is active (line 6), or the budget is spent."""
        return ~state.active | (state.seen.total >= view.budget)

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """See ``record.answer``."""
        return answer(state.seen, self.of.outliers(state.seen, view.unit), ~state.active)
