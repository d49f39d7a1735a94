"""LUCB: Kalyanakrishnan, Tewari, Auer and Stone, "PAC subset selection in stochastic multi-armed bandits", ICML 2012;
KL-LUCB: Kaufmann and Kalyanakrishnan, "Information complexity in bandit subset selection", COLT 2013.

First every arm is pulled once. Then a round pulls two arms: the *weak* one, which has the lowest lower bound of the K
arms with the largest means, and the *strong* one, which has the highest upper bound of the others. A run ends when the
budget is spent (section 6 of Zhou, Chen and Li 2014), or when these two bounds overlap by less than epsilon (KL-LUCB:
by at most epsilon, from the second round on). The answer is the K largest means. Ties go to the lower arm; arms are
numbered in a random order (``Given.shuffled``). *Weak* and *strong* are names of ours. The t of the exploration rate is
read as the number of the round, not of the pulls.

The file is above 150 lines because it has both rules, and because a budget may cut a round in two and be raised later
(``simulate``'s checkpoints): the round's other pull comes first then.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import jax.numpy as jnp
from jax import Array

from jaxbandit.arms.problem import Outcome, Pull, View
from jaxbandit.describe import brief
from jaxbandit.parameters import checked
from jaxbandit.pytree import pytree
from jaxbandit.random.trials import UNITS
from jaxbandit.topk.confidence import RATES, exploration, lower_bound, stops, width
from jaxbandit.topk.empirical import largest
from jaxbandit.topk.given import ODD, Delta, Divergence, Epsilon, Odd, Power, Rate, Want

if TYPE_CHECKING:
    from jaxtyping import Bool, Float32, Int32, Num


class Round(NamedTuple):
    """Describes a round: its ``number`` t from 1 (0 while arms get their first pull), its two arms ``weak`` and
    ``strong``, by how much their bounds overlap (``overlap``), and the pulls that were made ``before`` it."""

    number: Int32[Array, ""]
    weak: Int32[Array, ""]
    strong: Int32[Array, ""]
    overlap: Float32[Array, ""]
    before: Int32[Array, ""]


class State(NamedTuple):
    """Holds the sum of each arm's rewards (``total``), how often it was pulled (``pulls``), the pulls that were asked
    for (``spent``), the ``round``, and whether its two pulls gave nothing because records have ended (``stuck``)."""

    total: Num[Array, " arms"]
    pulls: Int32[Array, " arms"]
    spent: Int32[Array, ""]
    round: Round
    stuck: Bool[Array, ""]


@pytree
@dataclass(frozen=True)
class Lucb:
    """Selects arms by LUCB (Kalyanakrishnan et al. 2012) or KL-LUCB (Kaufmann and Kalyanakrishnan 2013); ``lucb`` makes
    it. ``want``: K; ``epsilon``: -inf to go on to the budget; ``odd``: the place of a word in ``ODD``; ``divergence``:
    static.

    Example:
        >>> from jaxbandit import topk
        >>> topk.lucb(10, delta=0.05)  # it goes on to the budget
        Lucb(want=10, delta=0.05, k1=1.25, alpha=4, epsilon=-inf, odd=0, divergence='hoeffding')
        >>> topk.lucb(10, delta=0.05, epsilon=0.1, divergence="kl").k1.item()  # of the exploration rate
        405.5
    """

    want: Int32[Array, ""]
    delta: Float32[Array, ""]
    k1: Float32[Array, ""]
    alpha: Float32[Array, ""]
    epsilon: Float32[Array, ""]
    odd: Int32[Array, ""]
    divergence: str = field(metadata={"static": True})

    __repr__ = brief

    def init(self, view: View) -> State:
        """Begins with no pulls, in round 0."""
        zero, none = jnp.int32(0), jnp.zeros(view.arms, jnp.int32)
        opening = Round(zero, zero, zero, jnp.float32(jnp.inf), zero)
        return State(view.nothing((view.arms,)), none, zero, opening, jnp.bool_(False))

    def ask(self, view: View, state: State) -> Pull:
        """Pulls each arm once, and then the two arms of a round at a time."""
        arm = jnp.arange(view.arms, dtype=jnp.int32)
        opening = (arm >= state.spent) & (arm < view.budget)
        weak, strong = self.takes(view, state.spent)
        pair = (weak & (arm == state.round.weak)) | (strong & (arm == state.round.strong))
        times = jnp.where(state.round.number == 0, opening, pair).astype(jnp.int32)
        return Pull(arm, first=state.pulls, times=times, used=jnp.int32(view.arms))

    def half_done(self, view: View, spent: Array) -> Array:
        """Returns whether a round has had one of its two pulls, after ``spent`` pulls."""
        return (spent - view.arms) & 1 == 1

    def takes(self, view: View, spent: Array) -> tuple[Array, Array]:
        """Returns whether the weak and the strong arm are pulled next, after ``spent`` pulls.

        Both are, unless the budget has one pull left: then ``odd`` says which. If the budget is raised later, the other
        arm of that round comes first."""
        pair, cut = view.budget - spent > 1, self.half_done(view, spent)
        weak, strong = self.odd == ODD.index("weak"), self.odd == ODD.index("strong")
        return jnp.where(cut, strong, pair | weak), jnp.where(cut, weak, pair | strong)

    def tell(self, view: View, state: State, pull: Pull, outcome: Outcome) -> State:
        """Adds the rewards and, where the round is over, chooses the two arms of the next one."""
        total, pulls = state.total + outcome.total, state.pulls + outcome.made
        spent = state.spent + jnp.sum(pull.times, dtype=jnp.int32)
        following = self._following(view, total, pulls, state.round)
        over = (spent >= view.arms) & ~self.half_done(view, spent)
        stuck = state.stuck | (over & (following.before == state.round.before))
        round_ = Round(*(jnp.where(over, new, old) for new, old in zip(following, state.round, strict=True)))
        return State(total, pulls, spent, round_, stuck)

    def _following(self, view: View, total: Array, pulls: Array, last: Round) -> Round:
        """Returns the next round, with its weak and its strong arm."""
        number, mean = last.number + 1, view.mean(total, pulls)
        rate = exploration(self.divergence, self.k1, view.arms, self.delta, self.alpha, number)
        top, wide = largest(mean, self.want), width(self.divergence, pulls)
        lower = lower_bound(self.divergence, mean, wide, rate)
        above = lower_bound(self.divergence, UNITS - mean, wide, rate)  # 1 less the upper bound
        weak = jnp.argmin(jnp.where(top, lower, jnp.inf)).astype(jnp.int32)
        strong = jnp.argmin(jnp.where(top, jnp.inf, above)).astype(jnp.int32)
        overlap = (1 - above[strong]) - lower[weak]
        return Round(number, weak, strong, overlap, jnp.sum(pulls, dtype=jnp.int32))

    def over(self, view: View, spent: Int32[Array, ""], round_: Int32[Array, ""]) -> Bool[Array, ""]:
        """Returns whether the budget is spent, or all arms are wanted so that there is nothing to choose."""
        skipped = (self.odd == ODD.index("skip")) & (round_ > 0)
        return (view.budget - spent <= skipped.astype(jnp.int32)) | (self.want >= view.arms)

    def done(self, view: View, state: State) -> Bool[Array, ""]:
        """Ends the run when the budget is spent, the two bounds are close enough, or records have ended."""
        close = stops(self.divergence, self.epsilon, state.round.number, state.round.overlap)
        return self.over(view, state.spent, state.round.number) | close | state.stuck

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """Chooses the K largest means; ``stopped`` is 1 where the stopping rule ended the run."""
        chosen = largest(view.mean(state.total, state.pulls), self.want)
        close = stops(self.divergence, self.epsilon, state.round.number, state.round.overlap)
        return {"chosen": chosen, "arm_pulls": state.pulls, "stopped": close.astype(jnp.int32)}


@checked
def lucb(
    want: Want, *, delta: Delta = 0.1, epsilon: Epsilon = None, divergence: Divergence = "hoeffding",
    k1: Rate = None, alpha: Power = None, odd: Odd = "weak",
) -> Lucb:  # fmt: skip
    """Makes LUCB or, with the divergence "kl", KL-LUCB for ``want`` arms.

    Args:
        want: K.
        delta: confidence, above 0 and below 1; a parameter of the bounds alone where a run goes on to the budget.
        epsilon: stop when the two bounds overlap by less than this share of the scale of rewards, from the least
            possible one to the largest (0 to 1); None to go on to the budget. Normal rewards have no such scale.
        divergence: "hoeffding" or "kl"; the bounds of both need rewards in [0, 1], or on another known scale.
        k1: factor in the exploration rate; that of ``RATES`` where None.
        alpha: power of the round in the exploration rate; that of ``RATES`` where None.
        odd: which arm gets a last pull that has no pair: the "weak" one, the "strong" one, or "skip" for neither.

    Raises:
        BadInput: for an argument out of range.

    Example:
        >>> from jaxbandit import topk
        >>> int(topk.lucb(10).want)
        10
    """
    own_k1, own_alpha = RATES[divergence]
    return Lucb(
        jnp.int32(want), jnp.float32(delta), jnp.float32(own_k1 if k1 is None else k1),
        jnp.float32(own_alpha if alpha is None else alpha), jnp.float32(-jnp.inf if epsilon is None else epsilon),
        jnp.int32(ODD.index(odd)), divergence,
    )  # fmt: skip
