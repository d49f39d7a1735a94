"""What rules judge arms by: empirical means, their order, and the empirical gaps of Bubeck et al. 2013."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import jax.numpy as jnp
from jax import Array

from jaxbandit.arms.problem import Outcome, View
from jaxbandit.random import words

if TYPE_CHECKING:
    from jaxtyping import Bool, Int32, Num

_TIE = 1
"""What a word of ``View.choices`` is for: an arm's place among equal gaps."""


class Samples(NamedTuple):
    """Of each arm: ``total``, the sum of the rewards that it is judged by, and ``held``, how many those are; ``pulls``,
    how often it was pulled in all. Totals are int32 where rewards are 0 or 1, else float32."""

    total: Num[Array, " arms"]
    held: Int32[Array, " arms"]
    pulls: Int32[Array, " arms"]

    def after(self, outcome: Outcome, reuse: Bool[Array, ""]) -> Samples:
        """With the rewards of a round, which are all that counts unless earlier ones are reused. An arm that got none
        is judged as before."""
        fresh = outcome.made > 0
        kept = reuse | ~fresh
        return Samples(
            outcome.total + jnp.where(kept, self.total, 0),
            outcome.made + jnp.where(kept, self.held, 0),
            self.pulls + outcome.made,
        )

    def mean(self, view: View) -> Int32[Array, " arms"]:
        """Empirical means, int32 (``View.mean``), of arms that are pulled equally often as long as they are active."""
        return view.mean(self.total, self.held, alike=view.even)


def no_samples(view: View) -> Samples:
    """Nothing pulled."""
    none = jnp.zeros(view.arms, jnp.int32)
    return Samples(view.nothing((view.arms,)), none, none)


def ranks(eligible: Bool[Array, " arms"], *keys: Int32[Array, " arms"]) -> Int32[Array, " arms"]:
    """The rank of each eligible arm, from 0: by the first key (above -2^31), largest first; where that ties, by the
    next; and at last the lower arm first. The other arms come after them."""
    order = jnp.lexsort([-key for key in reversed(keys)] + [~eligible])
    rank: Array = jnp.zeros_like(order).at[order].set(jnp.arange(order.size, dtype=order.dtype))
    return rank


def largest(mean: Int32[Array, " arms"], count: Int32[Array, ""]) -> Bool[Array, " arms"]:
    """Which arms have the ``count`` largest means, ties to the lower arm."""
    return ranks(jnp.ones(mean.shape, bool), mean) < count


def empirical_gaps(
    active: Bool[Array, " arms"], mean: Int32[Array, " arms"], need: Int32[Array, ""]
) -> tuple[Int32[Array, " arms"], Int32[Array, " arms"]]:
    """How far the active arms are from the cut between the ``need`` largest means and the others (equation 2 of Zhou,
    Chen and Li 2014): max(mean - the next one after the cut, the last one before the cut - mean).

    Args:
        active: bool, shape (arms,). mean: int32 of that shape.
        need: int32 scalar, from 1 to one less than the number of active arms.

    Returns:
        The gaps, and the arms' ranks by their means: both int32 of shape (arms,).
    """
    rank = ranks(active, mean)
    before, after = (jnp.sum(jnp.where(rank == at, mean, 0)) for at in (need - 1, need))
    return jnp.maximum(mean - after, before - mean), rank


def tie_order(view: View, ties: str) -> Int32[Array, " arms"]:
    """Which of equal gaps goes first, by the largest number: those of the "lowest" arms, or in a "random" order of the
    arms that is drawn for the run.

    Where many means tie at the cut, all gaps are 0 there. The lowest arms also have the best ranks, so "lowest" accepts
    them unseen until no place is left, and "random" goes on sampling.
    """
    arm = jnp.arange(view.arms, dtype=jnp.int32)
    return -arm if ties == "lowest" else random_numbers(view, arm)


def random_numbers(view: View, arm: Int32[Array, "*some"]) -> Int32[Array, "*some"]:
    """A random number of each of these arms, int32 from 0."""
    number: Array = (words(view.choices, _TIE, arm)[0] >> jnp.uint32(2)).astype(jnp.int32)
    return number
