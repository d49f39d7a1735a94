"""Iterative Best Arm Identification (IB): Zhuang, Wang and Wang, "Identifying Outlier Arms in Multi-Armed Bandit", NIPS
2017, section 5.2: the best arm is searched for and removed, until the one found is not an estimated outlier.

The search is CLUCB of Chen, Lin, King, Lyu and Chen, "Combinatorial Pure Exploration of Multi-Armed Bandits", NIPS
2014, Algorithm 1, for one arm: the best mean and, of the others, the highest upper bound; of these two the one with
fewer pulls is pulled, until the lower bound of the first is not below the upper bound of the second. All searches go on
from all pulls made so far, so that one event carries them all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxbandit.contract import brief
from jaxbandit.outliers.double_float import DoubleFloat, in_float64
from jaxbandit.outliers.intervals import Interval
from jaxbandit.outliers.problem import Pull, View
from jaxbandit.outliers.record import Seen, answer, means_of

if TYPE_CHECKING:
    from jaxtyping import Bool, Float64, Int32


class State(NamedTuple):
    """``seen``: the record of all pulls; ``left``: the arms that were not removed; ``arm``: the one that is pulled
    next; ``ended``: whether the arm found is no outlier, or no arm is left."""

    seen: Seen
    left: Bool[Array, " arms"]
    arm: Int32[Array, ""]
    ended: Bool[Array, ""]


class Move(NamedTuple):
    """What CLUCB does next: which arms are ``left``, the ``arm`` to pull and the ``other`` one of the pair, and whether
    the rule has ``ended``."""

    left: Bool[Array, " arms"]
    arm: Int32[Array, ""]
    other: Int32[Array, ""]
    ended: Bool[Array, ""]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class IB:
    """IB with the threshold and delta ``of`` (see ``intervals.interval``), and CLUCB's R, the sub-Gaussian ``scale`` of
    a reward: 1/2 is enough for rewards in [0, 1].

    Example:
        >>> from jaxbandit import outliers
        >>> outliers.ib(outliers.interval("bounded", delta=0.1, k=2.5), scale=0.5).of.name
        'bounded'
    """

    of: Interval
    scale: DoubleFloat

    __repr__ = brief

    def init(self, view: View) -> State:
        """Before the first pull."""
        return State(Seen.nothing(view.arms), jnp.ones(view.arms, bool), jnp.int32(0), jnp.bool_(False))

    def ask(self, view: View, state: State) -> Pull:
        """The next arm."""
        return state.seen.next_of(state.arm)

    def tell(self, view: View, state: State, pull: Pull, outcome: Int32[Array, ""]) -> State:
        """Each arm once at first; then what CLUCB wants."""
        seen = state.seen.after(pull, outcome)
        move, opening = self.move(seen, state.left, view.unit), seen.total < view.arms
        left, ended = jnp.where(opening, state.left, move.left), move.ended & ~opening
        return State(seen, left, jnp.where(opening, pull.arm + 1, move.arm), ended)

    def log_term(self, n: int, total: Int32[Array, ""]) -> Float64[Array, ""]:
        """2 ln(4 n T^3 / delta) after ``total`` pulls: float64, for use ``in_float64``."""
        t = total.astype(jnp.float64)
        return 2 * jnp.log(4 * n * t**3 / self.of.delta.wide())

    @in_float64
    def move(self, seen: Seen, left: Bool[Array, " arms"], unit: float) -> Move:
        """What to do when each arm was pulled; searches that are over without a further pull included."""
        n, pulls = seen.pulls.shape[0], jnp.maximum(seen.pulls, 1)
        arms = jnp.arange(n, dtype=jnp.int32)
        y = means_of(pulls, seen.ones, jnp.float64) * unit
        radii = self.scale.wide() * jnp.sqrt(self.log_term(n, seen.total) / pulls.astype(jnp.float64))
        upper, outliers = y + radii, self.of.outliers(seen, unit)

        def ahead(one: tuple[Array, Array], other: tuple[Array, Array]) -> tuple[Array, Array]:
            (x, arm), (y, rival) = one, other
            mine = (x > y) | ((x == y) & (arm < rival))
            return jnp.where(mine, x, y), jnp.where(mine, arm, rival)

        def highest(x: Array, among: Array) -> Array:
            """The first one of the largest; JAX lowers its own argmax outside, where there is no float64."""
            nobody = jnp.float64(-jnp.inf), jnp.int32(n - 1)
            place: Array = lax.reduce((jnp.where(among, x, -jnp.inf), arms), nobody, ahead, (0,))[1]
            return place

        def search(carry: tuple[Move, Array]) -> tuple[Move, Array]:
            left = carry[0].left
            best = highest(y, left)
            others = left & (arms != best)
            rival = highest(upper, others)
            found = ~jnp.any(others) | (upper[rival] <= y[best] - radii[best])
            first = (pulls[best] < pulls[rival]) | ((pulls[best] == pulls[rival]) & (best < rival))
            kept = jnp.where(found & outliers[best], others, left)
            again = found & outliers[best] & jnp.any(others)
            arm, other = jnp.where(first, best, rival), jnp.where(first, rival, best)
            return Move(kept, arm, other, found & ~again), again

        start = Move(left, jnp.int32(0), jnp.int32(1), jnp.bool_(False)), jnp.bool_(True)
        return lax.while_loop(lambda carry: carry[1], search, start)[0]

    def done(self, view: View, state: State) -> Bool[Array, ""]:
        """The best arm left is no outlier, or none is left, or the budget is spent."""
        return state.ended | (state.seen.total >= view.budget)

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """See ``record.answer``."""
        return answer(state.seen, self.of.outliers(state.seen, view.unit), state.ended)
