"""Iterative Best Arm Identification (IB): Zhuang, Wang and Wang, "Identifying Outlier Arms in Multi-Armed Bandit", NIPS
2017, section 5.2. It finds the best arm and removes it, again and again, until the arm found is no estimated outlier.

The best arm is found by CLUCB of Chen, Lin, King, Lyu and Chen, "Combinatorial Pure Exploration of Multi-Armed
Bandits", NIPS 2014, Algorithm 1. It has a pair of arms: the *best* one, which has the largest mean, and the *rival*,
which has the highest upper bound of the others. It pulls the one with fewer pulls, until the lower bound of the best
arm is not below the upper bound of the rival. Each search uses all pulls that were made so far, so that one pull may
end several searches. In its radii n is the number of all arms, T counts all pulls and delta is not divided: one
confidence event carries all searches. Of equal means or bounds, the lower arm counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from jaxbandit.describe import brief
from jaxbandit.outliers import given
from jaxbandit.outliers.double_float import DoubleFloat, highest_in_float64, in_float64
from jaxbandit.outliers.intervals import Interval
from jaxbandit.outliers.problem import Pull, View
from jaxbandit.outliers.record import Seen, answer, means_of
from jaxbandit.parameters import checked
from jaxbandit.pytree import pytree
from jaxbandit.xla.formula import formula

if TYPE_CHECKING:
    from jaxtyping import Bool, Float64, Int32


class State(NamedTuple):
    """Holds the record of all pulls (``seen``), which arms were not removed (``left``), the ``arm`` that is pulled
    next, and whether the rule has ``ended``: the arm found is no outlier, or no arm is left."""

    seen: Seen
    left: Bool[Array, " arms"]
    arm: Int32[Array, ""]
    ended: Bool[Array, ""]


class Move(NamedTuple):
    """Says what IB does next: which arms are ``left``, the ``arm`` to pull and the ``other`` one of CLUCB's pair
    (for ``fast/ib.py``), and whether the rule has ``ended``."""

    left: Bool[Array, " arms"]
    arm: Int32[Array, ""]
    other: Int32[Array, ""]
    ended: Bool[Array, ""]


@pytree
@dataclass(frozen=True)
class IB:
    """Finds outliers by iterative best-arm identification, with the threshold and the delta of ``interval``, and with
    CLUCB's R, the sub-Gaussian ``scale`` of a reward: 1/2 is enough for rewards in [0, 1].

    Example:
        >>> from jaxbandit import outliers
        >>> outliers.ib(outliers.interval("bounded", delta=0.1, k=2.5), scale=0.5).interval.name
        'bounded'
    """

    interval: Interval
    scale: DoubleFloat

    __repr__ = brief

    def init(self, view: View) -> State:
        """Begins before the first pull, with no arm removed."""
        return State(Seen.nothing(view.arms), jnp.ones(view.arms, bool), jnp.int32(0), jnp.bool_(False))

    def ask(self, view: View, state: State) -> Pull:
        """Pulls the arm that CLUCB chose; at first each arm once."""
        return state.seen.next_of(state.arm)

    def tell(self, view: View, state: State, pull: Pull, outcome: Int32[Array, ""]) -> State:
        """Removes arms whose search is over, and lets CLUCB choose the next arm once each arm was pulled."""
        seen = state.seen.after(pull, outcome)
        move, opening = self.move(seen, state.left, view.unit), seen.total < view.arms
        left, ended = jnp.where(opening, state.left, move.left), move.ended & ~opening
        return State(seen, left, jnp.where(opening, pull.arm + 1, move.arm), ended)

    @formula
    def log_term(self, n: int, total: Int32[Array, ""]) -> Float64[Array, ""]:
        """Returns 2 ln(4 n T^3 / delta) after T = ``total`` pulls: float64, for use ``in_float64``. With it, CLUCB's
        radius is R sqrt(log term / pulls)."""
        t = total.astype(jnp.float64)
        return 2 * jnp.log(4 * n * t**3 / self.interval.delta.wide())

    @in_float64
    def move(self, seen: Seen, left: Bool[Array, " arms"], unit: float) -> Move:
        """Returns what to do next when each arm was pulled. Searches that are over without a further pull are done."""
        pulls = jnp.maximum(seen.pulls, 1)
        arms = jnp.arange(pulls.shape[0], dtype=jnp.int32)
        (means, radii), outliers = self._means_and_radii(pulls, seen, unit), self.interval.outliers(seen, unit)
        upper = means + radii

        def search(carry: tuple[Move, Array]) -> tuple[Move, Array]:
            """Returns what CLUCB says of the arms that are left, and whether the next search begins at once."""
            left = carry[0].left
            best = highest_in_float64(means, left)
            others = left & (arms != best)
            rival = highest_in_float64(upper, others)
            # The search is over where the lower bound of the best arm is not below the upper bound of the rival.
            over = ~jnp.any(others) | (upper[rival] <= means[best] - radii[best])
            removes = over & outliers[best]
            again = removes & jnp.any(others)
            best_is_next = (pulls[best] < pulls[rival]) | ((pulls[best] == pulls[rival]) & (best < rival))
            arm, other = jnp.where(best_is_next, best, rival), jnp.where(best_is_next, rival, best)
            return Move(jnp.where(removes, others, left), arm, other, over & ~again), again

        start = Move(left, jnp.int32(0), jnp.int32(1), jnp.bool_(False)), jnp.bool_(True)
        return lax.while_loop(lambda carry: carry[1], search, start)[0]

    @formula
    def _means_and_radii(
        self, pulls: Int32[Array, " arms"], seen: Seen, unit: float
    ) -> tuple[Float64[Array, " arms"], Float64[Array, " arms"]]:
        means, log_term = means_of(pulls, seen.ones, jnp.float64) * unit, self.log_term(pulls.shape[0], seen.total)
        return means, self.scale.wide() * jnp.sqrt(log_term / pulls.astype(jnp.float64))

    def done(self, view: View, state: State) -> Bool[Array, ""]:
        """Ends the run when the best arm is no outlier, no arm is left, or the budget is spent."""
        return state.ended | (state.seen.total >= view.budget)

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """Answers which arms are estimated outliers; see ``record.answer``."""
        return answer(state.seen, self.interval.outliers(state.seen, view.unit), state.ended)


@checked
def ib(interval: Interval, *, scale: given.Scale = 0.5) -> IB:
    """Makes iterative best-arm identification by CLUCB: Zhuang, Wang and Wang 2017, section 5.2.

    Args:
        interval: the threshold and delta.
        scale: CLUCB's R, the sub-Gaussian scale of a reward.

    Raises:
        BadInput: for an argument out of range, or an ``interval`` without k.

    Example:
        >>> from jaxbandit import outliers
        >>> outliers.ib(outliers.interval("bounded", delta=0.1, k=2.5)).interval.name
        'bounded'
    """
    return IB(given.threshold_of(interval), DoubleFloat.of(scale))
