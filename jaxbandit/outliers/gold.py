"""GOLD: Ban and He, "Generic Outlier Detection in Multi-Armed Bandit", KDD 2020, Algorithm 1.

Two arms are neighbours while their intervals, b times as wide, overlap. A graph begins complete and loses the edge of
two arms when these are no longer neighbours. Its connected components are *communities*. An arm becomes *terminal* when
its community is small for the first time; the pulls T by then are its score, and arms are ranked by their scores.

Lines are those of the listing, where the paper's text counts two less. Scores begin as ``NEVER``, and not as 0 (line
4): arms are ranked from the lowest score up, and those that never became terminal are no outliers. The file is above
150 lines because it has the paper's constants and the graph as well.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from jaxbandit.describe import brief
from jaxbandit.errors import BadInput
from jaxbandit.outliers import given
from jaxbandit.outliers.double_float import DoubleFloat, in_float64
from jaxbandit.outliers.intervals import Interval
from jaxbandit.outliers.problem import Pull, View
from jaxbandit.outliers.record import Seen, answer, means_of
from jaxbandit.parameters import checked
from jaxbandit.parsers import as_printed
from jaxbandit.pytree import pytree
from jaxbandit.xla.formula import formula

if TYPE_CHECKING:
    from jaxtyping import Bool, Int32

NEVER = 2**31 - 1
"""The score of an arm that was never terminal."""


def factor(eps: float) -> float:
    """Returns b of equation 3, (1 + e^(1/16) + eps) / (1 - e^(1/16) + eps); BadInput for eps <= e^(1/16) - 1."""
    root = math.exp(1 / 16)
    if not eps > root - 1:
        raise BadInput("eps", eps, f"above e^(1/16) - 1 = {root - 1:.6f}")
    return (1 + root + eps) / (1 - root + eps)


def sizes(n: int, rho: float, terminal: str = "at-most") -> tuple[int, int]:
    """Returns the largest size of a terminal community, and how many terminal arms end the run, by exact arithmetic.

    ``terminal``: a community is terminal if its size is "at-most" n (1 - rho), or "below" that, as printed. With n (1 -
    rho) outliers, their group is never terminal as printed. ``rho`` stands for the decimal that prints it.
    """
    limit = n * (1 - as_printed(rho))
    return math.floor(limit) if terminal == "at-most" else math.ceil(limit) - 1, math.ceil(limit)


class State(NamedTuple):
    """Holds the record of all pulls (``seen``), the ``arm`` that is pulled next, the arms of this sweep (``members``,
    the set N of line 14), the ``edges`` of the graph, the score S of each arm (``scores``, ``NEVER`` until it is
    terminal), and whether enough arms are terminal (``ended``)."""

    seen: Seen
    arm: Int32[Array, ""]
    members: Bool[Array, " arms"]
    edges: Bool[Array, "arms arms"]
    scores: Int32[Array, " arms"]
    ended: Bool[Array, ""]


@pytree
@dataclass(frozen=True)
class GOLD:
    """Ranks arms by GOLD (Ban and He 2020, Algorithm 1), with the intervals that ``interval`` describes (without k).

    ``b``: see ``factor``; ``largest``, ``enough``: see ``sizes``; ``at_once``: whether the run ends as soon as there
    are enough terminal arms, or with the sweep, as the listing does; ``arms``: for how many it was made (static),
    0 where that is not known.

    Example:
        >>> import jax.numpy as jnp
        >>> from jaxbandit import outliers
        >>> rule = outliers.gold(outliers.interval("bounded", delta=0.1), arms=10, eps=1.5, rho=0.8)
        >>> int(rule.enough), rule.init(outliers.View(jnp.int32(1_000), arms=10)).edges.shape
        (2, (10, 10))
    """

    interval: Interval
    b: DoubleFloat
    largest: Int32[Array, ""]
    enough: Int32[Array, ""]
    at_once: Bool[Array, ""]
    arms: int = field(default=0, metadata={"static": True})

    __repr__ = brief

    def init(self, view: View) -> State:
        """Begins with a sweep over all arms (lines 3 to 5). All first intervals overlap, so that the graph is complete
        (lines 9 to 12)."""
        n = view.arms
        never = jnp.full(n, NEVER, jnp.int32)
        return State(Seen.nothing(n), jnp.int32(0), jnp.ones(n, bool), jnp.ones((n, n), bool), never, jnp.bool_(False))

    def ask(self, view: View, state: State) -> Pull:
        """Pulls the arm whose turn it is in this sweep (lines 6 and 16)."""
        return state.seen.next_of(state.arm)

    def tell(self, view: View, state: State, pull: Pull, outcome: Int32[Array, ""]) -> State:
        """Updates the graph, the communities and the scores (lines 18 to 21), and finds the next arm: of this sweep
        (line 15), or the first one of a new sweep (line 14).

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
    @formula
    def neighbours(self, seen: Seen, unit: float) -> Bool[Array, "arms arms"]:
        """Returns which pairs of arms are neighbours (equation 2)."""
        pulls = jnp.maximum(seen.pulls, 1)
        log_term = self.interval.log_term(pulls.shape[0], seen.total)
        y = means_of(pulls, seen.ones, jnp.float64) * unit
        half = self.b.wide() * self.interval.radii(pulls, seen.ones, log_term)
        return jnp.abs(y[:, None] - y[None, :]) <= half[:, None] + half[None, :]

    def done(self, view: View, state: State) -> Bool[Array, ""]:
        """Ends the run when there are enough terminal arms (line 13), or the budget is spent."""
        return state.ended | (state.seen.total >= view.budget)

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """Ranks arms by their ``scores``, ascending (int32, (n,); line 22), and answers that the terminal arms are the
        outliers (``record.answer``): the paper returns the ranking alone."""
        return answer(state.seen, state.scores != NEVER, state.ended) | {"scores": state.scores}


def communities(linked: Bool[Array, "arms arms"]) -> Int32[Array, " arms"]:
    """Returns the lowest arm that each arm is connected with, by the symmetric matrix ``linked`` of edges."""
    n = linked.shape[-1]

    def spread(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        labels, _ = carry
        reached = jnp.min(jnp.where(linked, labels[:, None], n), axis=0)
        wider = jnp.minimum(labels, reached)
        return wider, jnp.any(wider != labels)

    return lax.while_loop(lambda carry: carry[1], spread, (jnp.arange(n, dtype=jnp.int32), jnp.bool_(True)))[0]


@checked
def gold(
    interval: Interval, arms: given.Arms, *, eps: given.Eps = 2.5, rho: given.NormalShare = 0.9,
    size: given.Size = "at-most", at_once: given.Flag = False,
) -> GOLD:  # fmt: skip
    """Makes GOLD for ``arms`` arms: Ban and He 2020, Algorithm 1.

    Args:
        interval: the intervals; GOLD has no threshold.
        arms: n.
        eps: of (eps, rho)-groups, how much farther than neighbours outliers are (left out in a study, the problem's).
        rho: of (eps, rho)-groups, the share of normal arms (left out in a study, the problem's).
        size: a community is terminal with at most (1 - rho) n arms, or below that, as printed.
        at_once: end as soon as there are enough terminal arms, else with the sweep.

    Raises:
        BadInput: for an argument out of range, or what is no ``interval``.

    Example:
        >>> from jaxbandit import outliers
        >>> rule = outliers.gold(outliers.interval("bounded", delta=0.1), arms=50)
        >>> int(rule.largest), int(rule.enough)
        (5, 5)
    """
    largest, enough = sizes(arms, rho, size)
    if largest < 1:
        bound = "at least 1" if size == "at-most" else 'above 1 where size = "below"'
        raise BadInput("rho", rho, f"such that (1 - rho) n is {bound}, for {arms} arms")
    own, b = given.interval_of(interval), DoubleFloat.of(factor(eps))
    return GOLD(own, b, jnp.int32(largest), jnp.int32(enough), jnp.bool_(at_once), arms)
