"""GOLD: Ban and He, "Generic Outlier Detection in Multi-Armed Bandit", KDD 2020, Algorithm 1.

Arms are neighbours until their intervals, b times as wide, first fail to meet. An arm is terminal when its community, a
connected component of what is left of the graph, first is small; the time of that is its score.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxbandit.contract import brief
from jaxbandit.errors import BadInput
from jaxbandit.outliers.double_float import DoubleFloat, in_float64
from jaxbandit.outliers.intervals import Interval
from jaxbandit.outliers.problem import Pull, View
from jaxbandit.outliers.record import Seen, answer, means_of

if TYPE_CHECKING:
    from jaxtyping import Bool, Int32

NEVER = 2**31 - 1
"""The score of an arm that was never terminal."""


def factor(eps: float) -> float:
    """b of Eq. 3: (1 + e^(1/16) + eps) / (1 - e^(1/16) + eps). Raises BadInput for eps <= e^(1/16) - 1."""
    root = math.exp(1 / 16)
    if not eps > root - 1:
        raise BadInput("eps", eps, f"above e^(1/16) - 1 = {root - 1:.6f}")
    return (1 + root + eps) / (1 - root + eps)


def sizes(n: int, rho: float, terminal: str = "at-most") -> tuple[int, int]:
    """The size of the largest terminal community, and how many terminal arms end the run, by exact arithmetic.

    ``terminal``: a community is terminal where its size is "at-most" n (1 - rho), or "below" it, as printed: with as
    many outliers as that, it is the reading under which their group ever is one. ``rho`` is the decimal that prints it.
    """
    limit = n * (1 - Fraction(repr(float(rho))))
    return math.floor(limit) if terminal == "at-most" else math.ceil(limit) - 1, math.ceil(limit)


class State(NamedTuple):
    """``seen``: the record of all pulls; ``arm``: the one that is pulled next; ``members``: the arms of this sweep;
    ``edges``: of the graph; ``scores``: when each arm was terminal first, ``NEVER`` before; ``ended``: whether there
    are enough terminal arms."""

    seen: Seen
    arm: Int32[Array, ""]
    members: Bool[Array, " arms"]
    edges: Bool[Array, "arms arms"]
    scores: Int32[Array, " arms"]
    ended: Bool[Array, ""]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class GOLD:
    """GOLD (Ban and He 2020, Algorithm 1) with the intervals ``of`` (see ``intervals.interval``, without k), and ``b``:
    see ``factor``.

    ``largest``, ``enough``: see ``sizes``; ``at_once``: whether the run ends as soon as there are enough terminal arms,
    or with the sweep, as the listing does.

    Example:
        >>> import jax.numpy as jnp
        >>> from jaxbandit import outliers
        >>> rule = outliers.gold(outliers.interval("bounded", delta=0.1), arms=10, eps=1.5, rho=0.8)
        >>> int(rule.enough), rule.init(outliers.View(jnp.int32(1_000), arms=10)).edges.shape
        (2, (10, 10))
    """

    of: Interval
    b: DoubleFloat
    largest: Int32[Array, ""]
    enough: Int32[Array, ""]
    at_once: Bool[Array, ""]

    __repr__ = brief

    def init(self, view: View) -> State:
        """Lines 3 and 4, and the sweep of line 5. The first intervals all meet, so that the graph is complete."""
        n = view.arms
        never = jnp.full(n, NEVER, jnp.int32)
        return State(Seen.nothing(n), jnp.int32(0), jnp.ones(n, bool), jnp.ones((n, n), bool), never, jnp.bool_(False))

    def ask(self, view: View, state: State) -> Pull:
        """Lines 6 and 16."""
        return state.seen.next_of(state.arm)

    def tell(self, view: View, state: State, pull: Pull, outcome: Int32[Array, ""]) -> State:
        """Lines 18 to 21, and who is next: an arm of this sweep (line 15), or the first one of a new one (line 14).

        A score is set once: line 36 as printed would set it anew at each later pull.
        """
        seen = state.seen.after(pull, outcome)
        edges = state.edges & (self.neighbours(seen, view.unit) | (seen.total <= view.arms))
        labels = communities(edges)
        size = jnp.sum(labels[:, None] == labels[None, :], axis=0, dtype=jnp.int32)
        small = (size <= self.largest) & (seen.total > view.arms)
        scores = jnp.where(small & (state.scores == NEVER), seen.total, state.scores)
        arms = jnp.arange(view.arms, dtype=jnp.int32)
        rest = state.members & (arms > pull.arm)
        over = ~jnp.any(rest)
        members = jnp.where(over, scores == NEVER, state.members)
        following = jnp.argmax(jnp.where(over, members, rest)).astype(jnp.int32)
        enough = jnp.sum(scores != NEVER, dtype=jnp.int32) >= self.enough
        return State(seen, following, members, edges, scores, enough & (over | self.at_once))

    @in_float64
    def neighbours(self, seen: Seen, unit: float) -> Bool[Array, "arms arms"]:
        """Which arms are neighbours (Eq. 2)."""
        pulls = jnp.maximum(seen.pulls, 1)
        log_term = self.of.log_term(pulls.shape[0], seen.total)
        y = means_of(pulls, seen.ones, jnp.float64) * unit
        half = self.b.wide() * self.of.radii(pulls, seen.ones, log_term)
        return jnp.abs(y[:, None] - y[None, :]) <= half[:, None] + half[None, :]

    def done(self, view: View, state: State) -> Bool[Array, ""]:
        """There are enough terminal arms (line 13), or the budget is spent."""
        return state.ended | (state.seen.total >= view.budget)

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """See ``record.answer``; the outliers are the terminal arms. ``scores`` (int32, (n,)), ascending, rank the arms
        (line 22)."""
        return answer(state.seen, state.scores != NEVER, state.ended) | {"scores": state.scores}


def communities(linked: Bool[Array, "arms arms"]) -> Int32[Array, " arms"]:
    """The lowest arm that each arm is connected with. ``linked`` is symmetric."""
    n = linked.shape[-1]

    def spread(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        labels, _ = carry
        reached = jnp.min(jnp.where(linked, labels[:, None], n), axis=0)
        wider = jnp.minimum(labels, reached)
        return wider, jnp.any(wider != labels)

    return lax.while_loop(lambda carry: carry[1], spread, (jnp.arange(n, dtype=jnp.int32), jnp.bool_(True)))[0]
