"""Sequential halving: Karnin, Koren and Somekh, "Almost optimal exploration in multi-armed bandits", ICML 2013.

There are R = ceil(log2(n / K)) rounds of Q / R pulls, shared equally by the active arms. A round keeps the better half
of them, and at least K. (The paper has K = 1, and says nothing of equal means. Here they
come in a random order, another one in each round.)
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
from jaxbandit.topk.empirical import ArmSamples, no_samples, numbers_of_round, pull_of_active, ranks
from jaxbandit.topk.given import Arms, Budget, Flag, Ties, Want, fitting

if TYPE_CHECKING:
    from jaxtyping import Bool, Int32


class State(NamedTuple):
    """Holds which arms are still ``active``, and how many rounds are over (``round``)."""

    active: Bool[Array, " arms"]
    samples: ArmSamples
    round: Int32[Array, ""]


@pytree
@dataclass(frozen=True)
class SequentialHalving:
    """Selects arms by sequential halving (Karnin, Koren and Somekh 2013); ``sequential_halving`` makes it. ``want``: K;
    ``reuse``: judge by all rewards, else by the round's; ``share``: pulls of an active arm in each round (0 after the
    last). Static: ``arms``: for how many it was made, 0 where that is not known; ``ties``.

    Example:
        >>> from jaxbandit import topk
        >>> rule = topk.sequential_halving(8, 1, 120)
        >>> [active * int(share) for active, share in zip((8, 4, 2), rule.share)]  # each round has a third of the pulls
        [40, 40, 40]
    """

    want: Int32[Array, ""]
    reuse: Bool[Array, ""]
    share: Int32[Array, " rounds"]
    arms: int = field(default=0, metadata={"static": True})
    ties: str = field(default="random", metadata={"static": True})

    __repr__ = brief

    def init(self, view: View) -> State:
        """Begins with all arms active and no rewards."""
        return State(jnp.ones(view.arms, bool), no_samples(view), jnp.int32(0))

    def ask(self, view: View, state: State) -> Pull:
        """Pulls every active arm as often as the round's share says."""
        return pull_of_active(view, state.active, state.samples, self.share[state.round])

    def tell(self, view: View, state: State, pull: Pull, outcome: Outcome) -> State:
        """Keeps the half of the active arms with the larger means, rounded up, and at least K of them."""
        samples = state.samples.after(outcome, self.reuse)
        keep = jnp.maximum(self.want, (jnp.sum(state.active) + 1) // 2)
        keys = [samples.mean(view)]
        if self.ties == "random":
            keys.append(numbers_of_round(view, jnp.arange(view.arms, dtype=jnp.int32), state.round))
        active = state.active & (ranks(state.active, *keys) < keep)
        return State(active, samples, state.round + 1)

    def done(self, view: View, state: State) -> Bool[Array, ""]:
        """Ends the run when only K arms are left."""
        return jnp.sum(state.active) == self.want

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """Chooses the K arms that are left."""
        return {"chosen": state.active, "arm_pulls": state.samples.pulls}


@checked
def sequential_halving(
    arms: Arms, want: Want, budget: Budget, *, reuse: Flag = False, carry: Flag = False, ties: Ties = "random"
) -> SequentialHalving:
    """Makes sequential halving for ``want`` of ``arms`` arms with at most ``budget`` pulls.

    Args:
        arms, want, budget: n; K, at most n; and Q.
        reuse: judge by all rewards of an arm, else by those of the round (as published).
        carry: what a round leaves of its pulls goes to the next, else it is lost (as published).
        ties: of equal means a "random" arm's counts as the largest, in each round anew, or the "lowest" one's in all
            rounds.

    Raises:
        BadInput: for an argument out of range.

    Example:
        >>> from jaxbandit import topk
        >>> int(topk.sequential_halving(100, 10, 5_000).want)
        10
    """
    fitting(arms, want)
    rounds = 0
    while want << rounds < arms:
        rounds += 1
    share, size, spent = [0] * arms.bit_length(), arms, 0  # of one length whatever K is: one program serves all K
    for number in range(rounds):
        left = budget * (number + 1) - spent * rounds if carry else budget
        share[number] = left // (size * rounds)
        spent += share[number] * size
        size = max(want, -(-size // 2))
    return SequentialHalving(jnp.int32(want), jnp.bool_(reuse), jnp.asarray(share, jnp.int32), arms, ties)
