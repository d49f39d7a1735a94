"""OptMAI: Zhou, Chen and Li, "Optimal PAC multiple arm identification with applications to crowdsourcing", ICML 2014.

Round r = 0, 1 ... has beta^r (1 - beta) Q pulls, shared equally by the active arms (Algorithm 1). While at least 4K
arms are active, a round drops the quarter with the smallest means (QE, Algorithm 2). After that it takes out the
quarter with the largest empirical gaps, accepts those among the K' best and rejects the others (AR, Algorithm 3): K'
arms are still to be accepted. The numbers of active arms are known before the run, and so are all shares
(``shares.py``). The file is long because ``optmai`` has options where the paper can be read in several ways. By
default, AR accepts an arm by its rank; line 6 of Algorithm 3 compares means, and accepts arms below the cut where
means tie (``accept="printed"``). The rest is read so: a quarter is rounded up; QE drops it also where arms tie with the
quartile, which line 4 of Algorithm 2 would keep (with such ties a run may never end); it goes on as long as at least 4K
arms are active (Algorithm 1; by section 3 more than 4K); and a run ends when |S| = K', where the (K'+1)-th mean of
equation 2 does not exist.
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
from jaxbandit.topk import given
from jaxbandit.topk.empirical import ArmSamples, empirical_gaps, mean_at, no_samples, pull_of_active, ranks, tie_order
from jaxbandit.topk.shares import exact_beta, optmai_shares

if TYPE_CHECKING:
    from jaxtyping import Bool, Int32


class State(NamedTuple):
    """Holds S and T of the paper, the ``active`` and the ``accepted`` arms, and the number r of the ``round``."""

    active: Bool[Array, " arms"]
    accepted: Bool[Array, " arms"]
    samples: ArmSamples
    round: Int32[Array, ""]


@pytree
@dataclass(frozen=True)
class OptMAI:
    """Selects arms by OptMAI (Zhou, Chen and Li 2014, Algorithms 1 to 3); ``optmai`` makes it.

    ``sought``: how many arms it looks for: the K best or, where ``worst``, the n - K worst, to choose the others;
    ``reuse``: judge an arm by all its rewards, else by those of its last round with pulls; ``share``: pulls of an
    active arm in each round. Static: ``accept``, ``last`` and ``ties``, as in ``optmai``;
    ``arms``: for how many it was made, 0 where that is not known.

    Example:
        >>> from jaxbandit import topk
        >>> rule = topk.optmai(16, 2, 400)
        >>> [int(share) for share in rule.share if share]  # ever fewer arms are active
        [5, 6, 7, 8, 10, 10, 12]
    """

    sought: Int32[Array, ""]
    worst: Bool[Array, ""]
    reuse: Bool[Array, ""]
    share: Int32[Array, " rounds"]
    accept: str = field(metadata={"static": True})
    last: str = field(metadata={"static": True})
    ties: str = field(metadata={"static": True})
    arms: int = field(default=0, metadata={"static": True})

    __repr__ = brief

    def init(self, view: View) -> State:
        """Begins with all arms active and none accepted (Algorithm 1, line 2)."""
        active = jnp.ones(view.arms, bool)
        return State(active, ~active, no_samples(view), jnp.int32(0))

    def ask(self, view: View, state: State) -> Pull:
        """Pulls every active arm as often as the round's share says (line 2 of Algorithms 2 and 3)."""
        return pull_of_active(view, state.active, state.samples, self.share[state.round])

    def tell(self, view: View, state: State, pull: Pull, outcome: Outcome) -> State:
        """Takes a quarter of the active arms out, by QE while there are at least 4K of them, else by AR (Algorithm 1,
        lines 4 to 10)."""
        samples = state.samples.after(outcome, self.reuse)
        mean = samples.mean(view) * jnp.where(self.worst, -1, 1)
        elimination = jnp.sum(state.active) >= 4 * self.sought
        # Both are computed and one is taken: of the runs in a batch, some are in either stage.
        stages = self._quartile_elimination(state, mean), self._accept_reject(view, state, mean)
        active, accepted = (jnp.where(elimination, qe, ar) for qe, ar in zip(*stages, strict=True))
        return State(active, accepted, samples, state.round + 1)

    def _quartile_elimination(self, state: State, mean: Array) -> tuple[Array, Array]:
        """Returns S without the quarter that has the smallest means, rounded up, and T as it was (Algorithm 2). Of
        equal means at the quartile, the lower arm stays."""
        size = jnp.sum(state.active)
        return state.active & (ranks(state.active, mean) < size - _quarter(size)), state.accepted

    def _accept_reject(self, view: View, state: State, mean: Array) -> tuple[Array, Array]:
        """Returns S and T after the quarter with the largest gaps went (Algorithm 3), or all of S by Remark 4.1."""
        need = self._need(state)  # K'; the K'-th largest mean has rank K' - 1, as ranks count from 0
        gap, rank = empirical_gaps(state.active, mean, need)
        # Line 4 stops at K accepted arms; here a round takes out all of its quarter, and the run ends as T is full.
        leaving = jnp.sum(state.active) if self.last == "uniform" else _quarter(jnp.sum(state.active))
        gone = state.active & (ranks(state.active, gap, tie_order(view, self.ties)) < leaving)
        if self.accept == "rank" or self.last == "uniform":
            accepted = gone & (rank < need)
        else:
            fits = gone & (mean >= mean_at(need - 1 if self.accept == "kth" else need, rank, mean))
            # Of equal means at the cut, more than K' may fit. Line 4 stops when K are accepted: the largest gaps first.
            accepted = fits & (ranks(fits, gap) < need)
        return state.active & ~gone, state.accepted | accepted

    def _need(self, state: State) -> Array:
        """Returns K', how many arms are still to be accepted."""
        return self.sought - jnp.sum(state.accepted)

    def done(self, view: View, state: State) -> Bool[Array, ""]:
        """Ends the run when all arms that were sought are accepted, or all active ones are needed (Algorithm 1, line
        3)."""
        need = self._need(state)
        return (need <= 0) | (need == jnp.sum(state.active))

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """Chooses the accepted arms, and the active ones too where all of them are needed (Algorithm 1, line 12)."""
        filled = self._need(state) == jnp.sum(state.active)
        chosen = (state.accepted | (state.active & filled)) ^ self.worst
        return {"chosen": chosen, "arm_pulls": state.samples.pulls}


def _quarter(size: Array) -> Array:
    return (size + 3) // 4


@checked
def optmai(
    arms: given.Arms, want: given.Want, budget: given.Budget, *, beta: given.Beta = 0.8, inflate: given.Flag = True,
    reuse: given.Flag = True, shares: given.Shares = "carry", accept: given.Accept = "rank", last: given.Last = "ar",
    reduce: given.Reading = False, ties: given.TiesInAR = "random",
) -> OptMAI:  # fmt: skip
    """Makes OptMAI for ``want`` of ``arms`` arms with at most ``budget`` pulls, by default as section 6 runs it: with
    Q', rewards reused and beta = 0.8. The paper leaves ``shares`` and ``ties`` open; by ``accept``, arms that tie are
    accepted otherwise than its listing says, and ``last`` is what its Remark 4.1 offers.

    Args:
        arms, want, budget: n; K, at most n; and Q.
        beta: above 0.75 and below 1, or "printed" for 0.75 e^0.2; a float is read as its shortest decimal.
        inflate: allot with Q' = Q / (1 - beta^(ln n / ln (4/3))) (section 6); no more than Q is ever spent.
        reuse: judge by all rewards of an arm (section 6), else by those of the round (Algorithms 2 and 3).
        shares: what becomes of a round's remainder: carried into the next round, lost ("floor"), or an arm's shares
            added up before they are rounded down ("cumulative").
        accept: which of the arms that go are accepted, those whose "rank" is at most K', or with "kth" all whose mean
            is at least the K'-th largest, or with "printed" at least the next one (Algorithm 3, line 6). The last
            accepts arms below the cut where means tie.
        last: the last stage: accept-reject ("ar"), or "uniform" sampling (Remark 4.1): below 4K arms, all pulls left,
            shared equally, and the K largest means.
        reduce: where K >= n/2, look for the n - K worst arms and choose the others (Theorem 4.5).
        ties: of equal gaps the "lowest" arm's goes first, or they go in a "random" order. Of equal means, the lower
            arm's always counts as the larger; of arms with equal gaps that "kth" or "printed" would accept, of which
            there may be more than K', the lower ones are accepted.

    Raises:
        BadInput: for an argument out of range.

    Example:
        >>> from jaxbandit import topk
        >>> int(topk.optmai(100, 95, 5_000, reduce=True).sought)  # the five worst arms, to choose the others
        5
    """
    given.fitting(arms, want)
    worst = reduce and 2 * want >= arms
    sought = arms - want if worst else want
    share = optmai_shares(arms, sought, budget, exact_beta(beta), inflate, shares, last)
    return OptMAI(
        jnp.int32(sought), jnp.bool_(worst), jnp.bool_(reuse), jnp.asarray(share, jnp.int32), accept, last, ties,
        arms,
    )  # fmt: skip
