"""What rules in rounds share: pulls of all active arms, empirical means, their order, and empirical gaps."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import jax.numpy as jnp
from jax import Array

from jaxbandit.arms.problem import Outcome, Pull, View
from jaxbandit.random import Stream, substream, words

if TYPE_CHECKING:
    from jaxtyping import Bool, Int32, Num

_TIE, _TIE_OF_ROUND = 1, 2
"""What a word of ``View.choices`` is for: an arm's place among equal gaps, and among equal means in a round."""


class ArmSamples(NamedTuple):
    """Keeps what each arm is judged by: ``total`` is the sum of ``held`` rewards; ``pulls`` counts all pulls so far.

    Totals are int32 where rewards are 0 or 1, else float32."""

    total: Num[Array, " arms"]
    held: Int32[Array, " arms"]
    pulls: Int32[Array, " arms"]

    def after(self, outcome: Outcome, reuse: Bool[Array, ""]) -> ArmSamples:
        """Adds the rewards of a round, which replace earlier ones unless these are reused. An arm without rewards in
        the round is judged as before."""
        fresh = outcome.made > 0
        kept = reuse | ~fresh
        return ArmSamples(
            outcome.total + jnp.where(kept, self.total, 0),
            outcome.made + jnp.where(kept, self.held, 0),
            self.pulls + outcome.made,
        )

    def mean(self, view: View) -> Int32[Array, " arms"]:
        """Returns empirical means that can be compared exactly (``View.mean``): active arms have equally many pulls."""
        return view.mean(self.total, self.held, equal_counts=view.even)


def no_samples(view: View) -> ArmSamples:
    """Returns the samples of a run before its first pull."""
    none = jnp.zeros(view.arms, jnp.int32)
    return ArmSamples(view.nothing((view.arms,)), none, none)


def pull_of_active(view: View, active: Bool[Array, " arms"], samples: ArmSamples, times: Int32[Array, ""]) -> Pull:
    """Returns the pull of a round, in which each active arm is pulled ``times`` times."""
    arm = jnp.where(active, jnp.arange(view.arms, dtype=jnp.int32), -1)  # -1: no pull
    return Pull(arm, first=samples.pulls, times=times, used=jnp.int32(view.arms))


def ranks(eligible: Bool[Array, " arms"], *keys: Int32[Array, " arms"]) -> Int32[Array, " arms"]:
    """Returns the rank of each eligible arm, from 0: by the first key (above -2^31), largest first; where that ties, by
    the next key; and at last the lower arm first. The other arms come after them."""
    order = jnp.lexsort([-key for key in reversed(keys)] + [~eligible])
    rank: Array = jnp.zeros_like(order).at[order].set(jnp.arange(order.size, dtype=order.dtype))
    return rank


def largest(mean: Int32[Array, " arms"], count: Int32[Array, ""]) -> Bool[Array, " arms"]:
    """Returns which arms have the ``count`` largest means; of equal means, the lower arm's counts as the larger."""
    return ranks(jnp.ones(mean.shape, bool), mean) < count


def mean_at(place: Int32[Array, ""], rank: Int32[Array, " arms"], mean: Int32[Array, " arms"]) -> Int32[Array, ""]:
    """Returns the mean of the arm whose rank is ``place``: a sum in which all other arms count 0."""
    return jnp.sum(jnp.where(rank == place, mean, 0))


def empirical_gaps(
    active: Bool[Array, " arms"], mean: Int32[Array, " arms"], need: Int32[Array, ""]
) -> tuple[Int32[Array, " arms"], Int32[Array, " arms"]]:
    """Returns how far active arms are from the cut between the ``need`` largest means and the others: equation 2 of
    Zhou, Chen and Li 2014, max(mean - the next one after the cut, the last one before the cut - mean).

    Args:
        active: bool, shape (arms,). mean: int32 of that shape.
        need: int32 scalar, from 1 to one less than the number of active arms.

    Returns:
        The gaps, and the arms' ranks by their means: both int32 of shape (arms,).
    """
    rank = ranks(active, mean)
    before, after = (mean_at(place, rank, mean) for place in (need - 1, need))
    return jnp.maximum(mean - after, before - mean), rank


def tie_order(view: View, ties: str) -> Int32[Array, " arms"]:
    """Returns a key for arms of equal gaps, of which the one with the largest key goes first: the "lowest" arm, or one
    in a "random" order that is drawn for the run.

    Where many means tie at the cut, all gaps are 0 there. The lowest arms also have the best ranks, so "lowest" accepts
    them without further pulls until no place is left, and "random" goes on sampling.
    """
    arm = jnp.arange(view.arms, dtype=jnp.int32)
    return -arm if ties == "lowest" else random_numbers(view, arm)


def random_numbers(view: View, arm: Int32[Array, "*some"]) -> Int32[Array, "*some"]:
    """Returns a random number for each of these arms: int32, at least 0, and the same at each call in a run."""
    return _number(view.choices, _TIE, arm)


def numbers_of_round(view: View, arm: Int32[Array, "*some"], round: Int32[Array, ""]) -> Int32[Array, "*some"]:
    """Returns such numbers that are drawn anew in each round."""
    return _number(substream(view.choices, _TIE_OF_ROUND, round), 0, arm)


def _number(key: Stream, purpose: int, arm: Array) -> Array:
    number: Array = (words(key, purpose, arm)[0] >> jnp.uint32(2)).astype(jnp.int32)
    return number
