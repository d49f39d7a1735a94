"""Weighted Round-Robin (WRR): Zhuang, Wang and Wang, "Identifying Outlier Arms in Multi-Armed Bandit", NIPS 2017,
Algorithm 2.

All arms have their turns in order. Each turn adds rho to the arm's counter c_i, whether or not the arm is active. An
arm that is not active gets one pull a turn. An active arm is pulled at least once, and then until it has c_i pulls in
all or is no longer active. An arm is active while its interval overlaps with that of the threshold (``intervals.py``).
The file is long because rho is a fraction, and counters of it are kept as whole numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import jax.numpy as jnp
from jax import Array

from jaxbandit.describe import brief
from jaxbandit.outliers import given
from jaxbandit.outliers.intervals import Interval, width_of_threshold
from jaxbandit.outliers.problem import Pull, View
from jaxbandit.outliers.record import Seen, answer
from jaxbandit.outliers.rr import next_arm
from jaxbandit.parameters import checked
from jaxbandit.parsers import as_printed, between, whole
from jaxbandit.pytree import pytree

if TYPE_CHECKING:
    from jaxtyping import Bool, Int32


def rho_star(n: int, k: float, delta: float) -> float:
    """Returns the rho of equation 6 for ``n`` arms: (n - 1)^(2/3) / l(k)^(1/3), and at least 1.

    l(k) is ``intervals.width_of_threshold``, which depends on ``k`` and ``delta``.

    Raises:
        BadInput: for ``n`` below 1, ``k`` not above 0, or ``delta`` not in (0, 1).

    Example:
        >>> from jaxbandit import outliers
        >>> round(outliers.rho_star(50, 2.5, 0.1), 2)
        6.33
    """
    n, k, delta = whole(1, 2**31 - 1)("n", n), between(0, math.inf)("k", k), between(0, 1)("delta", delta)
    return max(1.0, math.cbrt((n - 1) ** 2 / width_of_threshold(n, k, delta)))


@pytree
@dataclass(frozen=True)
class Ratio:
    """Holds a number exactly, as ``units`` + ``part`` / ``parts`` with ``part`` < ``parts`` < 2^24."""

    units: Int32[Array, ""]
    part: Int32[Array, ""]
    parts: Int32[Array, ""]

    @classmethod
    def of(cls, number: float) -> Ratio:
        """Returns the ratio with a denominator below 2^24 that is nearest to the decimal that prints ``number``."""
        ratio = as_printed(number).limit_denominator(2**24 - 1)
        units = ratio.numerator // ratio.denominator
        return cls(*map(jnp.int32, (units, ratio.numerator - units * ratio.denominator, ratio.denominator)))


class Counter(NamedTuple):
    """Holds c_i, which is rho times the turns so far: a whole number of ``units``, and ``part`` / ``Ratio.parts``."""

    units: Int32[Array, " arms"]
    part: Int32[Array, " arms"]

    def after(self, turns: int | Array, rho: Ratio) -> Counter:
        """Returns c_i after further ``turns``, at most 127 of them, so that their product with ``part`` is below 2^31
        (the rule makes one at a time)."""
        part = self.part + turns * rho.part
        over = part // rho.parts
        # A sum beyond 2^31 wraps; the counter stays, which asks for more pulls than a run can have.
        units = jnp.maximum(self.units, self.units + turns * rho.units + over)
        return Counter(units, part - over * rho.parts)

    def ceiling(self) -> Int32[Array, " arms"]:
        """Returns the least whole number of pulls that is at least c_i."""
        return self.units + (self.part > 0).astype(jnp.int32)


class State(NamedTuple):
    """Holds the record of all pulls (``seen``), the ``arm`` that is pulled next, the ``counters`` c_i, and whether any
    arm is active or has had no pull yet."""

    seen: Seen
    arm: Int32[Array, ""]
    counters: Counter
    any_active: Bool[Array, ""]


@pytree
@dataclass(frozen=True)
class WRR:
    """Finds outliers by weighted round-robin, with the threshold and the intervals that ``interval`` describes, and
    ``rho``.

    Example:
        >>> from jaxbandit import outliers
        >>> rule = outliers.wrr(outliers.interval("bounded", delta=0.1, k=2.5), rho=3.5)
        >>> rule.interval.name, int(rule.rho.units), int(rule.rho.part), int(rule.rho.parts)
        ('bounded', 3, 1, 2)
    """

    interval: Interval
    rho: Ratio

    __repr__ = brief

    def init(self, view: View) -> State:
        """Begins before the first pull, with all counters at 0 (line 4)."""
        none = jnp.zeros(view.arms, jnp.int32)
        return State(Seen.nothing(view.arms), jnp.int32(0), Counter(none, none), jnp.bool_(True))

    def ask(self, view: View, state: State) -> Pull:
        """Pulls the arm whose turn it is (line 10)."""
        return state.seen.next_of(state.arm)

    def tell(self, view: View, state: State, pull: Pull, outcome: Int32[Array, ""]) -> State:
        """Updates estimates and intervals, and decides whether the turn is over (lines 11 to 13). If it is, the next
        arm's turn begins, which adds rho to its counter (lines 7 and 8)."""
        seen = state.seen.after(pull, outcome)
        active, opening = self.interval.active(seen, view.unit), seen.total < view.arms
        short = seen.pulls < state.counters.ceiling()
        # At first each arm gets one pull, outside of any turn (lines 1 to 5).
        stays = (active & short)[pull.arm] & (seen.total > view.arms)
        arm = jnp.where(stays, pull.arm, next_arm(seen, pull.arm))
        begins = (jnp.arange(view.arms, dtype=jnp.int32) == arm) & ~stays & ~opening
        counters = state.counters.after(begins.astype(jnp.int32), self.rho)
        return State(seen, arm, counters, opening | jnp.any(active))

    def done(self, view: View, state: State) -> Bool[Array, ""]:
        """Ends the run when no arm is active (line 6) or the budget is spent."""
        return ~state.any_active | (state.seen.total >= view.budget)

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """Answers which arms are estimated outliers (line 14); see ``record.answer``."""
        return answer(state.seen, self.interval.outliers(state.seen, view.unit), ~state.any_active)


@checked
def wrr(interval: Interval, *, rho: given.PullRatio) -> WRR:
    """Makes weighted round-robin: Zhuang, Wang and Wang 2017, Algorithm 2.

    Args:
        interval: the threshold and the intervals.
        rho: pulls of an active arm for each of another. In a study the default is that of equation 6, which
            ``rho_star`` computes.

    Raises:
        BadInput: for an argument out of range, or an ``interval`` without k.

    Example:
        >>> from jaxbandit import outliers
        >>> interval = outliers.interval("bounded", delta=0.1, k=2.5)
        >>> int(outliers.wrr(interval, rho=outliers.rho_star(50, 2.5, 0.1)).rho.units)
        6
    """
    return WRR(given.threshold_of(interval), Ratio.of(rho))
