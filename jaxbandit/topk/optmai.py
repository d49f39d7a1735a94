"""OptMAI: Zhou, Chen and Li, "Optimal PAC multiple arm identification with applications to crowdsourcing", ICML 2014.

Round r = 0, 1 ... has beta^r (1 - beta) Q pulls, shared equally by the active arms (Algorithm 1). While there are at
least 4K of them it drops the quarter with the smallest means (QE, Algorithm 2); after that, the quarter with the
largest empirical gaps goes, each arm accepted or rejected (AR, Algorithm 3). The numbers of active arms are known
before the run, and with them all shares (``shares.py``). The file is long because the text can be read in several ways,
and ``optmai`` says what each is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxbandit.arms.problem import Outcome, Pull, View
from jaxbandit.contract import brief
from jaxbandit.parameters import checked
from jaxbandit.topk.empirical import Samples, empirical_gaps, no_samples, ranks, tie_order
from jaxbandit.topk.given import (
    Accept,
    Arms,
    Beta,
    Budget,
    Flag,
    Last,
    Reading,
    Shares,
    Ties,
    Want,
    fitting,
)  # fmt: skip
from jaxbandit.topk.shares import optmai_shares, printed_beta

if TYPE_CHECKING:
    from jaxtyping import Bool, Int32


class State(NamedTuple):
    """Which arms are ``active`` (S) and which ``accepted`` (T); ``round``: r."""

    active: Bool[Array, " arms"]
    accepted: Bool[Array, " arms"]
    samples: Samples
    round: Int32[Array, ""]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class OptMAI:
    """OptMAI: Zhou, Chen and Li 2014, Algorithms 1 to 3; see ``optmai``.

    ``want``: K; ``worst``: look for the K worst, and choose the others; ``reuse``: judge by all rewards, else by those
    of the last round that had pulls for an arm; ``share``: pulls of an active arm in each round; others: static.

    Example:
        >>> from jaxbandit import topk
        >>> rule = topk.optmai(16, 2, 400)
        >>> [int(share) for share in rule.share if share]  # ever fewer arms are active
        [5, 6, 7, 8, 10, 10, 12]
    """

    want: Int32[Array, ""]
    worst: Bool[Array, ""]
    reuse: Bool[Array, ""]
    share: Int32[Array, " rounds"]
    accept: str = field(metadata={"static": True})
    last: str = field(metadata={"static": True})
    ties: str = field(metadata={"static": True})

    __repr__ = brief

    def init(self, view: View) -> State:
        """All arms are active (Algorithm 1, line 2)."""
        active = jnp.ones(view.arms, bool)
        return State(active, ~active, no_samples(view), jnp.int32(0))

    def ask(self, view: View, state: State) -> Pull:
        """The round's share for every active arm (line 2 of Algorithms 2 and 3); -1 stands for an arm that is not."""
        arm = jnp.where(state.active, jnp.arange(view.arms, dtype=jnp.int32), -1)
        return Pull(arm, state.samples.pulls, self.share[state.round], jnp.int32(view.arms))

    def tell(self, view: View, state: State, pull: Pull, outcome: Outcome) -> State:
        """Some of the active arms go (Algorithm 1, lines 4 to 10)."""
        samples = state.samples.after(outcome, self.reuse)
        mean = samples.mean(view) * jnp.where(self.worst, -1, 1)
        active, accepted = self._accept_reject(view, state, mean)
        elimination = jnp.sum(state.active) >= 4 * self.want
        active = jnp.where(elimination, self._quartile_elimination(state, mean), active)
        accepted = jnp.where(elimination, state.accepted, accepted)
        return State(active, accepted, samples, state.round + 1)

    def _quartile_elimination(self, state: State, mean: Array) -> Array:
        """S without the quarter that has the smallest means (Algorithm 2); a quarter is rounded up."""
        size = jnp.sum(state.active)
        return state.active & (ranks(state.active, mean) < size - _quarter(size))

    def _accept_reject(self, view: View, state: State, mean: Array) -> tuple[Array, Array]:
        """S and T after the quarter with the largest gaps went (Algorithm 3), or all of S in the stage of Remark 4.1.

        Ranks count from 0 here."""
        need = self._need(state)  # K'
        gap, rank = empirical_gaps(state.active, mean, need)
        goes = jnp.sum(state.active)
        if self.last == "ar":
            goes = _quarter(goes)
        gone = state.active & (ranks(state.active, gap, tie_order(view, self.ties)) < goes)
        if self.accept == "rank" or self.last == "uniform":
            fits = gone & (rank < need)
        else:
            at_cut = rank == (need - 1 if self.accept == "kth" else need)
            fits = gone & (mean >= jnp.sum(jnp.where(at_cut, mean, 0)))
            fits = fits & (ranks(fits, gap) < need)
        return state.active & ~gone, state.accepted | fits

    def _need(self, state: State) -> Array:
        """K', how many arms are still to be accepted."""
        return self.want - jnp.sum(state.accepted)

    def done(self, view: View, state: State) -> Bool[Array, ""]:
        """K arms are accepted, or all active ones are needed."""
        need = self._need(state)
        return (need <= 0) | (need == jnp.sum(state.active))

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """The accepted arms; the active ones too, where all are needed."""
        filled = self._need(state) == jnp.sum(state.active)
        return {
            "chosen": (state.accepted | (state.active & filled)) ^ self.worst,
            "arm_pulls": state.samples.pulls,
        }


def _quarter(size: Array) -> Array:
    return (size + 3) // 4


@checked
def optmai(
    arms: Arms, want: Want, budget: Budget, *, beta: Beta = 0.8, inflate: Flag = True, reuse: Flag = True,
    shares: Shares = "carry", accept: Accept = "rank", last: Last = "ar", reduce: Reading = False,
    ties: Ties = "random",
) -> OptMAI:  # fmt: skip
    """OptMAI for ``want`` of ``arms`` arms with at most ``budget`` pulls, as section 6 runs it.

    Args:
        arms, want, budget: n; K, at most n; and Q.
        beta: above 0.75 and below 1, or "printed" for 0.75 e^0.2; a float is read as its shortest decimal.
        inflate: allot with Q' = Q / (1 - beta^(ln n / ln (4/3))) (section 6); no more than Q is ever spent.
        reuse: judge by all rewards of an arm (section 6), else by those of the round (Algorithms 2 and 3).
        shares: what becomes of a round's remainder: carried into the next round, lost ("floor"), or an arm's shares
            added up before they are rounded down ("cumulative").
        accept: which of the arms that go are accepted, those whose "rank" is at most K', or with "kth" all whose mean
            is at least the K'-th largest, or with "printed" at least the next one (Algorithm 3, line 6).
        last: the last stage: accept-reject ("ar"), or "uniform" sampling (Remark 4.1): below 4K arms, all pulls left,
            shared equally, and the K largest means.
        reduce: where K >= n/2, look for the n - K worst arms and choose the others (Theorem 4.5).
        ties: of equal gaps the "lowest" arm's goes first, or they go in a "random" order. Of equal means, the lower
            arm's always counts as the larger.

    Raises:
        BadInput: for an argument out of range.

    Example:
        >>> from jaxbandit import topk
        >>> int(topk.optmai(100, 10, 5_000).want)
        10
    """
    fitting(arms, want)
    exact = printed_beta() if beta is None else beta if isinstance(beta, Decimal) else Decimal(repr(beta))
    worst = reduce and 2 * want >= arms
    sought = arms - want if worst else want
    share = optmai_shares(arms, sought, budget, exact, inflate, shares, last)
    return OptMAI(
        jnp.int32(sought), jnp.bool_(worst), jnp.bool_(reuse), jnp.asarray(share, jnp.int32), accept, last, ties
    )  # fmt: skip
