"""Bernoulli trials that stop at a number of successes, of failures, or of trials, whichever comes first.

One word gives the end of up to ``LONGEST_RACE`` trials. One of the two outcomes is counted up, 0, 1, 2 ...: while the
other's limit can be met within the trials, they end there (a negative binomial); from then on they end at the limit of
trials (a binomial). Each end's probability is the last one's times a ratio, so a step of the inversion is a few
operations. The limit of the outcome that is counted cannot be passed, because the trials are no more than it.

The binomial (no limit but trials) and the negative binomial (no limit but successes) are special cases.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax.numpy as jnp
from jax import Array, lax

from jaxbandit.random.stream import Stream, words
from jaxbandit.xla.exact import quotient
from jaxbandit.xla.fence import computed_once

if TYPE_CHECKING:
    from jaxtyping import Bool, Int32, Integer, UInt32

LONGEST_RACE = 16
"""The most trials that one word decides."""

UNLIMITED = 2**31 - 1
"""A limit that is never met."""

_SCALE = 2.0**30
_BITS = 100
"""A product of probabilities stays above 2^-_BITS, far from the least float32."""


@computed_once
def _packed_race(word: Array, probability: Array, successes: Array, failures: Array, trials: Array) -> Array:
    """Draws a race, and returns ``successes * 64 + failures``."""
    grid = probability >> jnp.uint32(8)
    likely = grid >= jnp.uint32(1 << 23)
    # The smaller of p and 1 - p is exact, the other within half a unit of the last place.
    small = (jnp.where(likely, jnp.uint32((1 << 24) - 1) - grid, grid).astype(jnp.float32) + 0.5) * 2.0**-24
    large = 1 - small
    p, q = jnp.where(likely, large, small), jnp.where(likely, small, large)
    longest = jnp.minimum(trials, LONGEST_RACE)
    started = (jnp.minimum(successes, failures) > 0) & (longest > 0)

    # Of the two outcomes, count up the one whose limit leaves more trials to this word. The chance that none of them
    # comes, with which the inversion begins, must not be too small a number for float32: else count the other one.
    if_failures, if_successes = jnp.minimum(longest, failures), jnp.minimum(longest, successes)
    counts_failures = jnp.where(
        if_failures > if_successes,
        _doublings(p) * if_successes <= _BITS,
        (if_failures == if_successes) & likely | (_doublings(q) * if_failures > _BITS),
    )
    limit = jnp.where(counts_failures, successes, failures)
    most = jnp.where(counts_failures, if_failures, if_successes)
    steady, counted = jnp.where(counts_failures, p, q), jnp.where(counts_failures, q, p)

    start = jnp.minimum(limit, most)
    mass, power = jnp.full_like(p, _SCALE), steady
    for bit in range(LONGEST_RACE.bit_length()):
        mass = jnp.where((start >> bit) & 1 == 1, mass * power, mass)
        power = power * power
    rest = (word >> jnp.uint32(2)).astype(jnp.int32) - mass.astype(jnp.int32)
    count = (rest >= 0).astype(jnp.int32)
    odds = quotient(counted, steady)
    within, top = jnp.minimum(limit, 2 * LONGEST_RACE).astype(jnp.float32), most.astype(jnp.float32)
    for done in range(LONGEST_RACE - 1):
        ways = jnp.where(within + done <= top, within + done, top - done) * (1 / (done + 1))
        mass = mass * (ways * jnp.where(within + (done + 1) <= top, counted, odds))
        rest = rest - mass.astype(jnp.int32)
        count = count + (rest >= 0).astype(jnp.int32)
    # Rounding can leave a word beyond the last end.
    count = jnp.where(started & (count <= most), count, 0)
    other = jnp.where(started, jnp.minimum(limit, most - count), 0)
    return jnp.where(counts_failures, other * 64 + count, count * 64 + other)


def _doublings(p: Array) -> Array:
    """Counts how often a float32 in (0, 1) must be doubled until it is 1 or more."""
    return 127 - (lax.bitcast_convert_type(p, jnp.int32) >> 23)


def race(
    word: UInt32[Array, "*races"],
    probability: UInt32[Array, "*races"],
    successes: Int32[Array, "*races"],
    failures: Int32[Array, "*races"],
    trials: Int32[Array, "*races"],
) -> tuple[Int32[Array, "*races"], Int32[Array, "*races"]]:
    """Draws the successes and failures of trials that end at the first of three limits at the latest.

    The limits are ``successes`` (> 0), ``failures`` (> 0) and ``min(trials, LONGEST_RACE)``; where one of them is 0
    or less, nothing is tried and both results are 0. A race may end before any limit is met: one word decides no more
    trials than the limit of the outcome that is counted. So a caller goes on with what is left, by another word.

    Args:
        word: uint32, the randomness.
        probability: uint32, of success, in units of 2^-32, taken at the middle of its multiple of 2^-24.
        successes, failures, trials: int32.

    All have one shape, which is that of the two int32 results. The distribution is exact but for the rounding of
    float32 products, below 2e-6 in total variation. Products are not added to as floats but converted to integers
    first, so no compiler can contract them and the same word gives the same bits on every device.

    Example:
        >>> import jax.numpy as jnp
        >>> from jaxbandit import random
        >>> key = random.stream(0, 7)  # of seed 0, run 7
        >>> word, _ = random.words(key, 1, 0)
        >>> chance = jnp.uint32(2**31)  # 1/2, in units of 2^-32
        >>> won, lost = random.race(word, chance, jnp.int32(2), jnp.int32(3), jnp.int32(16))
        >>> bool((won <= 2) & (lost <= 3) & (won + lost > 0))
        True
    """
    packed = _packed_race(word, probability, successes, failures, jnp.maximum(trials, 0))
    return packed >> 6, packed & 63


# Trials of an entity have addresses under a key, of purpose ``entity``. The first word at index j + 1 decides attempt
# j > 0; the second one all trials of a race that begins with attempt j. Index 0 has what is ``concealed``.


def concealed(word: UInt32[Array, " ..."], probability: UInt32[Array, " ..."]) -> UInt32[Array, " ..."]:
    """Packs what decides an entity's trials into one number (uint32), so that it is drawn once: the probability of
    success, without the bits that nothing uses, and as the lowest bit whether ``word`` makes attempt 0 a success."""
    both: Array = (probability & jnp.uint32(0xFFFFFF00)) | trial(word, probability).astype(jnp.uint32)
    return both


def race_at(
    key: Stream, entity: Array, attempt: Array, probability: Array, successes: Array, failures: Array, trials: Array
) -> tuple[Array, Array]:
    """Draws a ``race`` by the word of races at an address; the word is drawn where it is used and nowhere else."""
    return race(words(key, entity, attempt + 1)[1], probability, successes, failures, trials)


def visit_at(
    key: Stream, entity: Array, attempt: Array, hidden: Array, successes: Array, proven: Array, trials: Array
) -> tuple[Array, Array]:
    """Draws the successes and failures of trials that end at the first of two limits, or with a first trial that fails.

    It is a ``race`` without a limit of failures, but for the first trial, which has its own word; the word of races
    decides up to ``LONGEST_RACE`` more. Where ``proven`` (int32, 0 or 1) there is no such first trial.
    """
    tried = jnp.where((trials > 0) & (successes > 0), 1 - proven, 0)
    first, word = words(key, entity, attempt + 1)
    won = tried * _won(first, attempt, hidden).astype(jnp.int32)
    limit = jnp.where((proven == 1) | (won == 1), jnp.maximum(trials - tried, 0), 0)
    packed = _packed_race(word, hidden, successes - won, jnp.full_like(limit, UNLIMITED), limit)
    return won + (packed >> 6), tried - won + (packed & 63)


def trial(word: UInt32[Array, " ..."], probability: UInt32[Array, " ..."]) -> Bool[Array, " ..."]:
    """Tells whether one trial succeeds (bool), by a comparison of integers. It takes arguments as ``race`` does."""
    won: Array = word < ((probability >> jnp.uint32(8)) << jnp.uint32(8)) + jnp.uint32(128)
    return won


def trial_at(key: Stream, entity: Array, attempt: Array, hidden: Array, made: Array) -> Array:
    """Returns 1 (int32) where a trial is made and succeeds. ``made``: int32, 0 or 1; ``hidden``: see ``concealed``."""
    return made * _trial(key, entity, attempt, hidden).astype(jnp.int32)


def _trial(key: Stream, entity: Array, attempt: Array, hidden: Array) -> Array:
    return _won(words(key, entity, attempt + 1)[0], attempt, hidden)


def _won(word: Array, attempt: Array, hidden: Array) -> Array:
    """Tells whether the trial at a word succeeds; the trial of attempt 0 is decided in ``hidden``."""
    return jnp.where(attempt == 0, (hidden & 1) > 0, trial(word, hidden))


def race_on_tape(
    key: Stream,
    entity: Integer[Array, "*races"],
    attempt: Integer[Array, "*races"],
    hidden: UInt32[Array, "*races"],
    successes: Int32[Array, "*races"],
    failures: Int32[Array, "*races"],
    trials: Int32[Array, "*races"],
) -> tuple[Int32[Array, "*races"], Int32[Array, "*races"]]:
    """Draws a race trial by trial, each by its own word; ``hidden``: see ``concealed``.

    ``key``, ``entity`` and ``attempt`` (uint32) are the address of the first trial's word; ``successes``, ``failures``
    and ``trials`` (int32) are the limits. Exact to 2^-24 by an integer comparison, and slow: for tests, and for users
    who want one trial's result not to depend on the size of a pull.

    Example:
        >>> import jax.numpy as jnp
        >>> from jaxbandit import random
        >>> key = random.stream(0, 7)  # of seed 0, run 7
        >>> hidden = jnp.uint32(2**31)  # 1/2, in units of 2^-32
        >>> limits = jnp.int32(2), jnp.int32(3), jnp.int32(16)
        >>> won, lost = random.race_on_tape(key, jnp.uint32(5), jnp.uint32(0), hidden, *limits)
        >>> bool((won == 2) | (lost == 3))
        True
    """
    limits = successes, failures, jnp.ones_like(trials), trials
    return _on_tape(key, entity, attempt, hidden, *limits)


def visit_on_tape(
    key: Stream, entity: Array, attempt: Array, hidden: Array, successes: Array, proven: Array, trials: Array
) -> tuple[Array, Array]:
    """Draws what ``visit_at`` draws, trial by trial as in ``race_on_tape``, and up to ``LONGEST_RACE`` in all."""
    limits = successes, jnp.full_like(trials, UNLIMITED), proven, trials
    return _on_tape(key, entity, attempt, hidden, *limits)


def _on_tape(
    key: Stream, entity: Array, attempt: Array, hidden: Array, successes: Array, failures: Array, proven: Array,
    trials: Array,
) -> tuple[Array, Array]:  # fmt: skip
    x, y = jnp.zeros_like(trials), jnp.zeros_like(trials)
    limit = jnp.minimum(trials, LONGEST_RACE)
    for _ in range(LONGEST_RACE):
        go = (x < successes) & (y < failures) & (x + y < limit) & ((proven == 1) | (x > 0) | (y == 0))
        won = _trial(key, entity, attempt + x + y, hidden)
        x, y = x + (go & won).astype(jnp.int32), y + (go & ~won).astype(jnp.int32)
    return x, y
