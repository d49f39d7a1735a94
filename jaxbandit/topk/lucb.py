"""LUCB: Kalyanakrishnan, Tewari, Auer and Stone, "PAC subset selection in stochastic multi-armed bandits", ICML 2012;
KL-LUCB: Kaufmann and Kalyanakrishnan, "Information complexity in bandit subset selection", COLT 2013.

First every arm is pulled once. Then a round pulls two arms: of the K largest means the one with the lowest lower bound,
and of the others the one with the highest upper bound. It ends at the budget (section 6 of Zhou, Chen and Li 2014), or
where these two bounds overlap by less than epsilon. The answer is the K largest means. Where the budget cuts a round in
two and is raised later (``simulate``'s checkpoints), the round's second pull comes first. The file is long for that,
and because it has both rules.

Ties go to the lower arm, at the cut as among bounds: a random order, drawn once a run (``Given.shuffled``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxbandit.arms.problem import Outcome, Pull, View
from jaxbandit.contract import brief
from jaxbandit.parameters import checked
from jaxbandit.random.trials import UNITS
from jaxbandit.topk.confidence import RATES, exploration, lower_bound, stops, width
from jaxbandit.topk.empirical import largest
from jaxbandit.topk.given import ODD, Delta, Divergence, Epsilon, Odd, Power, Rate, Want

if TYPE_CHECKING:
    from jaxtyping import Bool, Float32, Int32, Num


class Round(NamedTuple):
    """``number``: t, from 1, or 0 while arms get their first pull; ``weak`` and ``strong``: its two arms; ``overlap``:
    by how much their bounds overlap; ``before``: pulls made when it began."""

    number: Int32[Array, ""]
    weak: Int32[Array, ""]
    strong: Int32[Array, ""]
    overlap: Float32[Array, ""]
    before: Int32[Array, ""]


class State(NamedTuple):
    """``total``, ``pulls``: the sum of an arm's rewards and how often it was pulled; ``spent``: pulls asked for;
    ``stuck``: a round's pulls gave nothing, as where records end."""

    total: Num[Array, " arms"]
    pulls: Int32[Array, " arms"]
    spent: Int32[Array, ""]
    round: Round
    stuck: Bool[Array, ""]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Lucb:
    """LUCB (Kalyanakrishnan et al. 2012) and KL-LUCB (Kaufmann and Kalyanakrishnan 2013); see ``lucb``. ``want``: K;
    ``epsilon``: -inf to go on to the budget; ``odd``: the number of a word of ``ODD``; ``divergence``: static.

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
        """Nothing pulled."""
        zero, none = jnp.int32(0), jnp.zeros(view.arms, jnp.int32)
        opening = Round(zero, zero, zero, jnp.float32(jnp.inf), zero)
        return State(view.nothing((view.arms,)), none, zero, opening, jnp.bool_(False))

    def ask(self, view: View, state: State) -> Pull:
        """Each arm once, and then the two arms of a round."""
        arm = jnp.arange(view.arms, dtype=jnp.int32)
        opening = (arm >= state.spent) & (arm < view.budget)
        weak, strong = self.takes(view, state.spent)
        pair = (weak & (arm == state.round.weak)) | (strong & (arm == state.round.strong))
        times = jnp.where(state.round.number == 0, opening, pair).astype(jnp.int32)
        return Pull(arm, state.pulls, times, jnp.int32(view.arms))

    def takes(self, view: View, spent: Array) -> tuple[Array, Array]:
        """Whether the weak arm and the strong arm are pulled after ``spent`` pulls: both, but for a last pull that has
        no pair; and where that cut a round in two, the other one, if there is more to spend later."""
        pair, cut = view.budget - spent > 1, (spent - view.arms) & 1 == 1
        weak, strong = self.odd == ODD.index("weak"), self.odd == ODD.index("strong")
        return jnp.where(cut, strong, pair | weak), jnp.where(cut, weak, pair | strong)

    def tell(self, view: View, state: State, pull: Pull, outcome: Outcome) -> State:
        """The rewards are added up; where the round is over, the next one's arms are chosen."""
        total, pulls = state.total + outcome.total, state.pulls + outcome.made
        spent = state.spent + jnp.sum(pull.times, dtype=jnp.int32)
        following = self._following(view, total, pulls, state.round)
        over = (spent >= view.arms) & ((spent - view.arms) & 1 == 0)
        stuck = state.stuck | (over & (following.before == state.round.before))
        round_ = Round(*(jnp.where(over, new, old) for new, old in zip(following, state.round, strict=True)))
        return State(total, pulls, spent, round_, stuck)

    def _following(self, view: View, total: Array, pulls: Array, last: Round) -> Round:
        """The next round, whose arms are, of the K largest means, that of the lowest lower bound, and of the others
        that of the highest upper bound."""
        number, mean = last.number + 1, view.mean(total, pulls)
        rate = exploration(self.divergence, self.k1 * view.arms / self.delta, self.alpha, number)
        top, wide = largest(mean, self.want), width(self.divergence, pulls)
        lower = lower_bound(self.divergence, mean, wide, rate)
        above = lower_bound(self.divergence, UNITS - mean, wide, rate)  # 1 less the upper bound
        weak = jnp.argmin(jnp.where(top, lower, jnp.inf)).astype(jnp.int32)
        strong = jnp.argmin(jnp.where(top, jnp.inf, above)).astype(jnp.int32)
        overlap = (1 - above[strong]) - lower[weak]
        return Round(number, weak, strong, overlap, jnp.sum(pulls, dtype=jnp.int32))

    def over(self, view: View, spent: Int32[Array, ""], round_: Int32[Array, ""]) -> Bool[Array, ""]:
        """Whether the budget is spent, or there is nothing to choose."""
        skipped = (self.odd == ODD.index("skip")) & (round_ > 0)
        return (view.budget - spent <= skipped.astype(jnp.int32)) | (self.want >= view.arms)

    def done(self, view: View, state: State) -> Bool[Array, ""]:
        """The budget is spent, the bounds are close enough, or nothing is left to tell apart."""
        close = stops(self.divergence, self.epsilon, state.round.number, state.round.overlap)
        return self.over(view, state.spent, state.round.number) | close | state.stuck

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """The K largest means. ``stopped``: 1 where the stopping rule ended the run."""
        chosen = largest(view.mean(state.total, state.pulls), self.want)
        close = stops(self.divergence, self.epsilon, state.round.number, state.round.overlap)
        return {"chosen": chosen, "arm_pulls": state.pulls, "stopped": close.astype(jnp.int32)}


@checked
def lucb(
    want: Want, *, delta: Delta = 0.1, epsilon: Epsilon = None, divergence: Divergence = "hoeffding",
    k1: Rate = None, alpha: Power = None, odd: Odd = "weak",
) -> Lucb:  # fmt: skip
    """LUCB or KL-LUCB.

    Args:
        want: K.
        delta: confidence, above 0 and below 1; a parameter of the bounds alone where a run goes on to the budget.
        epsilon: stop when the two bounds overlap by less than this, 0 to 1; None to go on to the budget.
        divergence: "hoeffding" or "kl", which needs rewards in [0, 1].
        k1: factor in the exploration rate; that of ``RATES`` where None.
        alpha: power of the round in the exploration rate; that of ``RATES`` where None.
        odd: who gets a last pull that has no pair: the "weak" arm, the "strong" arm, or "skip" for nobody.

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
