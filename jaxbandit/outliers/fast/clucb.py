"""Which candidate IB pulls next in a batch: a step of CLUCB among a few arms, as far as float32 bounds tell that no
other arm matters.

``ib.py`` picks the candidates and makes the batch.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from jaxbandit.outliers.double_float import in_float64
from jaxbandit.outliers.fast.leap import low_bits
from jaxbandit.outliers.problem import MOST
from jaxbandit.xla.entries import select
from jaxbandit.xla.fence import computed_once
from jaxbandit.xla.formula import formula

CANDIDATES = 8
"""The arms in a batch. The pulls of each take 8 bits in one of two int32 numbers."""
REWARDS = (*[MOST] * 2, *[MOST // 2] * 2, *[MOST // 4] * 4)
"""How many rewards are drawn for each candidate: most pulls are of the first few."""

UNSURE = 2.0**-21
"""The distance of sums of a mean and a radius below which float32 cannot be trusted: several times its error."""

_TINY = 2.0**-48
"""The same for float64."""

STOP = CANDIDATES
"""What ``next_candidate`` returns where the batch ends."""


class Others(NamedTuple):
    """Bounds the arms that are left and are no candidates: the best ``mean`` (without those that are equal to the
    leader's, and of all), the highest ``upper`` bound (without those with the record of the last candidate, and of all)
    and the ``widest`` radius, float32; 0 where there are none. ``leader``: its number, pulls and rewards (int32)."""

    mean: tuple[Array, Array]
    upper: tuple[Array, Array]
    widest: Array
    leader: tuple[Array, Array, Array]


def ones_among(word: Array, made: Array) -> Array:
    """Returns how many of the first ``made`` rewards in the bits of a word are 1: int32."""
    return lax.population_count(word & low_bits(made)).astype(jnp.int32)


class Start(NamedTuple):
    """Holds what a batch begins with (float32): the square of CLUCB's R (``squared_scale``), the ``log_term``, 1 / T
    (``per_pull``), and bounds of the arms that are no candidates."""

    squared_scale: Array
    log_term: Array
    per_pull: Array
    others: Others


class Drawn(NamedTuple):
    """Holds the candidates as a batch begins, an entry each: their numbers (``arms``), ``pulls`` and ``ones`` so far
    (int32), and the rewards that were drawn for them, as bits (``words``, uint32)."""

    arms: tuple[Array, ...]
    pulls: tuple[Array, ...]
    ones: tuple[Array, ...]
    words: tuple[Array, ...]


class Made(NamedTuple):
    """Holds how often the batch has pulled each candidate, 8 bits each: the first four in ``low``, the others in
    ``high`` (int32)."""

    low: Array
    high: Array

    def of(self, slot: int) -> Array:
        """Returns the pulls of the candidate in a slot: int32."""
        return ((self.low if slot < 4 else self.high) >> (8 * (slot & 3))) & 255

    def after(self, slot: Array, where: Array) -> "Made":
        """Returns the pulls after one more of the candidate in a slot, ``where`` (bool) it is made."""
        one = jnp.where(where, jnp.int32(1) << (8 * (slot & 3)), 0)
        return Made(self.low + jnp.where(slot < 4, one, 0), self.high + jnp.where(slot < 4, 0, one))


class Candidate(NamedTuple):
    """Holds a candidate in the course of a batch: its number (``arm``), its ``slot`` among the candidates, how many of
    the ``rewards`` that were drawn for it are left, its ``pulls`` and ``ones`` (int32), ``mean`` and ``radius``
    (float64)."""

    arm: Array
    slot: Array
    rewards: Array
    pulls: Array
    ones: Array
    mean: Array
    radius: Array

    @classmethod
    def of(cls, arm: Array, pulls: Array, ones: Array, mean: Array) -> "Candidate":
        """Returns an arm that is compared by its mean alone."""
        return cls(arm, jnp.zeros_like(arm), jnp.zeros_like(arm), pulls, ones, mean, jnp.zeros_like(mean))


def ahead(one: Candidate, other: Candidate) -> Array:
    """Returns whether ``one`` has the larger mean, or an equal one and the lower number.

    The difference of cross products is exact modulo 2^32, and below 2^31 where means are close.
    """
    gap = one.mean - other.mean
    exact = one.ones * other.pulls - other.ones * one.pulls
    close = (exact > 0) | ((exact == 0) & (one.arm < other.arm))
    return jnp.where(jnp.abs(gap) > UNSURE, gap > 0, close)


@computed_once
@in_float64
@formula
def next_candidate(start: Start, drawn: Drawn, made: Made, number: Array) -> Array:
    """Returns the slot of the candidate that is pulled next, as pull ``number`` of the batch, or ``STOP``: int32.
    It is computed once (docs/xla-cpu.md).

    Means and radii of candidates are float64: the rule keeps the upper bounds of arms with close means within a pull of
    each other, which float32 does not tell apart after some 10^5 pulls. The log term is float32, but the same in all
    radii, so that the error of their differences is a share of these.
    """
    growth = _growth(number.astype(jnp.float32) * start.per_pull)
    level = start.squared_scale * (start.log_term + growth)
    candidates = [_standing(drawn, slot, made.of(slot), level) for slot in range(CANDIDATES)]
    best = candidates[0]
    for one in candidates[1:]:
        best = select(ahead(one, best), one, best)
    rival, top = _rival(candidates, best)
    clear = _others_are_behind(start, made, best, top, growth)
    # The search goes on while the lower bound of the best arm is below the upper bound of the rival.
    clear = clear & (top - (best.mean - best.radius) > UNSURE * (1 + top))
    for one in candidates:
        same = (one.pulls == rival.pulls) & (one.ones == rival.ones)
        below = top - (one.mean + one.radius) > UNSURE * jnp.abs(rival.radius - one.radius) + _TINY
        clear = clear & (same | (one.slot == best.slot) | below)
    best_is_next = (best.pulls < rival.pulls) | ((best.pulls == rival.pulls) & (best.arm < rival.arm))
    chosen = select(best_is_next, best, rival)
    return jnp.where(clear & (chosen.rewards > 0), chosen.slot, STOP)


def _growth(x: Array) -> Array:
    """Returns by how much the log term, which is 6 ln T and a constant, grows while T grows by a share ``x`` <= 1."""
    # ln(1 + x) = 2 artanh(x / (2 + x)), by its series.
    z = x / (2 + x)
    zz = z * z
    return 12 * z * (1 + zz * (1 / 3 + zz * (1 / 5 + zz * (1 / 7 + zz * (1 / 9 + zz * (1 / 11))))))


def _standing(drawn: Drawn, slot: int, made: Array, level: Array) -> Candidate:
    """Returns the candidate in a slot after ``made`` pulls of it. ``level``: R^2 times the log term. Where there is no
    arm, its mean and its radius are -1, which is below all others."""
    arm, pulls = drawn.arms[slot], drawn.pulls[slot] + made
    ones = drawn.ones[slot] + ones_among(drawn.words[slot], made)
    inverse = 1 / pulls.astype(jnp.float64)
    mean, radius = ones.astype(jnp.float64) * inverse, jnp.sqrt(level.astype(jnp.float64) * inverse)
    exists, place = arm >= 0, jnp.full(arm.shape, slot, jnp.int32)
    mean, radius = jnp.where(exists, mean, -1), jnp.where(exists, radius, -1)
    return Candidate(arm, place, REWARDS[slot] - made, pulls, ones, mean, radius)


def _rival(candidates: list[Candidate], best: Candidate) -> tuple[Candidate, Array]:
    """Returns the candidate with the highest upper bound, the best one left out, and that bound (float64)."""
    lowest = jnp.full_like(best.mean, -1)
    rival, top = best._replace(mean=lowest, radius=lowest), jnp.full_like(best.mean, -2)
    for one in candidates:
        upper = one.mean + one.radius
        higher = (one.slot != best.slot) & ((upper > top) | ((upper == top) & (one.arm < rival.arm)))
        rival, top = select(higher, one, rival), jnp.where(higher, upper, top)
    return rival, top


def _others_are_behind(start: Start, made: Made, best: Candidate, top: Array, growth: Array) -> Array:
    """Returns whether no arm but the candidates can be the best one or the rival, whose upper bound is ``top``: bool.

    Of arms with the leader's mean, the leader is the first; of arms with the record of the last candidate, this one is,
    until it is pulled. (Where the last candidate is the best arm, the means of these arms end the batch.)
    """
    others = start.others
    arm, pulls, ones = others.leader
    leader = Candidate.of(arm, pulls, ones, ones.astype(jnp.float64) / pulls.astype(jnp.float64))
    mean = jnp.where(ahead(leader, best), others.mean[1], others.mean[0])
    upper = jnp.where(made.of(CANDIDATES - 1) > 0, others.upper[1], others.upper[0])
    # A radius grows as the root of the log term: by less than half of the log term's share.
    upper = upper + others.widest * growth / (start.log_term + start.log_term)
    return (best.mean - mean > UNSURE) & (top - upper > UNSURE * (1 + top))
