"""SAR, successive accepts and rejects: Bubeck, Wang and Viswanathan, "Multiple identifications in multi-armed bandits",
ICML 2013.

Phase k of n - 1 pulls each active arm up to n_k = ceil((Q - n) / (logbar(n) (n + 1 - k))) times in all, then takes the
arm of the largest empirical gap away: into the choice if its rank is at most the number still wanted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Context, Decimal, localcontext
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxbandit.arms.problem import Outcome, Pull, View
from jaxbandit.contract import brief
from jaxbandit.parameters import checked
from jaxbandit.topk.empirical import Samples, empirical_gaps, no_samples, ranks, tie_order
from jaxbandit.topk.given import Arms, Budget, Ties, Want, fitting

if TYPE_CHECKING:
    from jaxtyping import Bool, Int32

_DIGITS = 60


class State(NamedTuple):
    """Which arms are ``active`` and which ``accepted``; ``phase``: how many are over."""

    active: Bool[Array, " arms"]
    accepted: Bool[Array, " arms"]
    samples: Samples
    phase: Int32[Array, ""]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Sar:
    """SAR: Bubeck, Wang and Viswanathan 2013; see ``sar``. ``want``: K; ``share``: the pulls of an active arm in each
    phase; ``ties``: static.

    Example:
        >>> from jaxbandit import topk
        >>> rule = topk.sar(4, 2, 60)
        >>> rule.share.tolist(), sum(active * int(share) for active, share in zip((4, 3, 2), rule.share))
        ([9, 3, 6], 57)
    """

    want: Int32[Array, ""]
    share: Int32[Array, " phases"]
    ties: str = field(metadata={"static": True})

    __repr__ = brief

    def init(self, view: View) -> State:
        """All arms are active."""
        active = jnp.ones(view.arms, bool)
        return State(active, ~active, no_samples(view), jnp.int32(0))

    def ask(self, view: View, state: State) -> Pull:
        """The phase's pulls of every active arm."""
        arm = jnp.where(state.active, jnp.arange(view.arms, dtype=jnp.int32), -1)
        return Pull(arm, state.samples.pulls, self.share[state.phase], jnp.int32(view.arms))

    def tell(self, view: View, state: State, pull: Pull, outcome: Outcome) -> State:
        """The arm of the largest empirical gap goes."""
        samples = state.samples.after(outcome, jnp.bool_(True))
        need = self._need(state)
        gap, rank = empirical_gaps(state.active, samples.mean(view), need)
        gone = state.active & (ranks(state.active, gap, tie_order(view, self.ties)) == 0)
        return State(state.active & ~gone, state.accepted | (gone & (rank < need)), samples, state.phase + 1)

    def _need(self, state: State) -> Array:
        return self.want - jnp.sum(state.accepted)

    def done(self, view: View, state: State) -> Bool[Array, ""]:
        """K arms are accepted, or all active ones are needed."""
        need = self._need(state)
        return (need <= 0) | (need == jnp.sum(state.active))

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """The accepted arms; the active ones too, where all are needed."""
        filled = self._need(state) == jnp.sum(state.active)
        return {"chosen": state.accepted | (state.active & filled), "arm_pulls": state.samples.pulls}


def phases(arms: int, budget: int) -> list[int]:
    """n_1 ... n_(n-1): an arm's pulls up to each phase, 0 where the budget is no more than one pull an arm."""
    if budget <= arms:
        return [0] * (arms - 1)
    with localcontext(Context(prec=_DIGITS)):
        logbar = Decimal(1) / 2 + sum((Decimal(1) / i for i in range(2, arms + 1)), Decimal(0))
        # What is whole in truth may come out a little above it, by less than 10^-40.
        tight = Decimal(10) ** -40
        return [
            int((Decimal(budget - arms) / (logbar * left) - tight).to_integral_value("ROUND_CEILING"))
            for left in range(arms, 1, -1)
        ]


@checked
def sar(arms: Arms, want: Want, budget: Budget, *, ties: Ties = "random") -> Sar:
    """SAR for ``want`` of ``arms`` arms with at most ``budget`` pulls.

    Args:
        arms, want, budget: n; K, at most n; and Q.
        ties: of equal gaps the "lowest" arm's goes first, or they go in a "random" order.

    Raises:
        BadInput: for an argument out of range.

    Example:
        >>> from jaxbandit import topk
        >>> int(topk.sar(100, 10, 5_000).want)
        10
    """
    fitting(arms, want)
    share = np.diff([0, *phases(arms, budget)]) if arms > 1 else [0]
    return Sar(jnp.int32(want), jnp.asarray(share, jnp.int32), ties)
