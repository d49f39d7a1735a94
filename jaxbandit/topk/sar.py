"""SAR, successive accepts and rejects: Bubeck, Wang and Viswanathan, "Multiple identifications in multi-armed bandits",
ICML 2013.

Phase k of n - 1 pulls each active arm until it has n_k = ceil((Q - n) / (logbar(n) (n + 1 - k))) pulls in all, where
logbar(n) = 1/2 + 1/2 + 1/3 + ... + 1/n. Then the arm with the largest empirical gap leaves: it is accepted if its rank
is at most the number still wanted, else rejected. Of equal means, the lower arm's has the better rank, so that an arm
that ties at the cut may be accepted; to accept means above the next one alone would reject all that tie there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Context, Decimal, localcontext
from typing import TYPE_CHECKING, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxbandit.arms.problem import Outcome, Pull, View
from jaxbandit.describe import brief
from jaxbandit.parameters import checked
from jaxbandit.pytree import pytree
from jaxbandit.topk.empirical import ArmSamples, empirical_gaps, no_samples, pull_of_active, ranks, tie_order
from jaxbandit.topk.given import Arms, Budget, Ties, Want, fitting

if TYPE_CHECKING:
    from jaxtyping import Bool, Int32

_DIGITS = 60


class State(NamedTuple):
    """Holds which arms are ``active`` and which ``accepted``, and how many phases are over (``phase``)."""

    active: Bool[Array, " arms"]
    accepted: Bool[Array, " arms"]
    samples: ArmSamples
    phase: Int32[Array, ""]


@pytree
@dataclass(frozen=True)
class Sar:
    """Selects arms by SAR (Bubeck, Wang and Viswanathan 2013); ``sar`` makes it. ``want``: K; ``share``: the pulls of
    an active arm in each phase, n_k - n_(k-1). Static: ``ties``; ``arms``: for how many it was
    made, 0 where that is not known.

    Example:
        >>> from jaxbandit import topk
        >>> rule = topk.sar(4, 2, 60)
        >>> rule.share.tolist(), sum(active * int(share) for active, share in zip((4, 3, 2), rule.share))
        ([9, 3, 6], 57)
    """

    want: Int32[Array, ""]
    share: Int32[Array, " phases"]
    ties: str = field(metadata={"static": True})
    arms: int = field(default=0, metadata={"static": True})

    __repr__ = brief

    def init(self, view: View) -> State:
        """Begins with all arms active and none accepted."""
        active = jnp.ones(view.arms, bool)
        return State(active, ~active, no_samples(view), jnp.int32(0))

    def ask(self, view: View, state: State) -> Pull:
        """Pulls every active arm until it has the n_k pulls of this phase."""
        return pull_of_active(view, state.active, state.samples, self.share[state.phase])

    def tell(self, view: View, state: State, pull: Pull, outcome: Outcome) -> State:
        """Accepts or rejects the active arm that has the largest empirical gap."""
        samples = state.samples.after(outcome, jnp.bool_(True))
        need = self._need(state)  # K less the accepted arms; ranks count from 0
        gap, rank = empirical_gaps(state.active, samples.mean(view), need)
        gone = state.active & (ranks(state.active, gap, tie_order(view, self.ties)) == 0)
        return State(state.active & ~gone, state.accepted | (gone & (rank < need)), samples, state.phase + 1)

    def _need(self, state: State) -> Array:
        return self.want - jnp.sum(state.accepted)

    def done(self, view: View, state: State) -> Bool[Array, ""]:
        """Ends the run when K arms are accepted, or when all active ones are needed."""
        need = self._need(state)
        return (need <= 0) | (need == jnp.sum(state.active))

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """Chooses the accepted arms, and the active ones too where all of them are needed."""
        filled = self._need(state) == jnp.sum(state.active)
        return {"chosen": state.accepted | (state.active & filled), "arm_pulls": state.samples.pulls}


def phases(arms: int, budget: int) -> list[int]:
    """Returns n_1 ... n_(n-1), an arm's pulls up to each phase; they are 0 where the budget is at most n pulls."""
    if budget <= arms:
        return [0] * (arms - 1)
    with localcontext(Context(prec=_DIGITS)):
        logbar = Decimal(1) / 2 + sum((Decimal(1) / i for i in range(2, arms + 1)), Decimal(0))
        # Rounding may put a quotient that is a whole number a little above it, by less than 10^-40.
        tight = Decimal(10) ** -40
        return [
            int((Decimal(budget - arms) / (logbar * left) - tight).to_integral_value("ROUND_CEILING"))
            for left in range(arms, 1, -1)
        ]


@checked
def sar(arms: Arms, want: Want, budget: Budget, *, ties: Ties = "random") -> Sar:
    """Makes SAR for ``want`` of ``arms`` arms with at most ``budget`` pulls.

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
    return Sar(jnp.int32(want), jnp.asarray(share, jnp.int32), ties, arms)
