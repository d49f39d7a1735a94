"""Bernoulli trials that stop at a number of successes, of failures, or of trials, whichever comes first.

One word gives the end of up to ``LONGEST_RACE`` trials. One of the two outcomes is counted up, 0, 1, 2 ...: as long as
the other's wall is within reach the trials end there (a negative binomial), beyond it they end at the wall of trials (a
binomial). Each end's probability is the last one's times a ratio, so a step of the inversion is a few operations. The
wall of the outcome that is counted cannot be passed because the trials are no more than its height.

The binomial (no wall but trials) and the negative binomial (no wall but successes) are its corners.
"""

import jax.numpy as jnp
from jax import Array, lax

from jaxbandit.random.stream import Stream, words
from jaxbandit.xla.fence import computed_once

LONGEST_RACE = 16
"""The most trials that one word decides."""

UNLIMITED = 2**31 - 1
"""A wall that is never reached."""

_SCALE = 2.0**30
_BITS = 100
"""A product of probabilities stays above 2^-_BITS, far from the least float32."""


@computed_once
def _packed_race(word: Array, probability: Array, successes: Array, failures: Array, trials: Array) -> Array:
    """``successes * 64 + failures`` of a race."""
    grid = probability >> jnp.uint32(8)
    likely = grid >= jnp.uint32(1 << 23)
    # The smaller of p and 1 - p is exact, the other within half a unit of the last place.
    small = (jnp.where(likely, jnp.uint32((1 << 24) - 1) - grid, grid).astype(jnp.float32) + 0.5) * 2.0**-24
    large = 1 - small
    p, q = jnp.where(likely, large, small), jnp.where(likely, small, large)
    longest = jnp.minimum(trials, LONGEST_RACE)
    started = (jnp.minimum(successes, failures) > 0) & (longest > 0)

    # Count what leaves more trials to one word, where the chance of the first end is no number too small.
    if_failures, if_successes = jnp.minimum(longest, failures), jnp.minimum(longest, successes)
    counts_failures = jnp.where(
        if_failures > if_successes,
        _doublings(p) * if_successes <= _BITS,
        (if_failures == if_successes) & likely | (_doublings(q) * if_failures > _BITS),
    )
    wall = jnp.where(counts_failures, successes, failures)
    limit = jnp.where(counts_failures, if_failures, if_successes)
    steady, counted = jnp.where(counts_failures, p, q), jnp.where(counts_failures, q, p)

    height = jnp.minimum(wall, limit)
    mass, power = jnp.full_like(p, _SCALE), steady
    for bit in range(LONGEST_RACE.bit_length()):
        mass = jnp.where((height >> bit) & 1 == 1, mass * power, mass)
        power = power * power
    rest = (word >> jnp.uint32(2)).astype(jnp.int32) - mass.astype(jnp.int32)
    count = (rest >= 0).astype(jnp.int32)
    odds = counted / steady
    within, top = jnp.minimum(wall, 2 * LONGEST_RACE).astype(jnp.float32), limit.astype(jnp.float32)
    for done in range(LONGEST_RACE - 1):
        ways = jnp.where(within + done <= top, within + done, top - done) * (1 / (done + 1))
        mass = mass * (ways * jnp.where(within + (done + 1) <= top, counted, odds))
        rest = rest - mass.astype(jnp.int32)
        count = count + (rest >= 0).astype(jnp.int32)
    # Rounding can leave a word beyond the last end.
    count = jnp.where(started & (count <= limit), count, 0)
    other = jnp.where(started, jnp.minimum(wall, limit - count), 0)
    return jnp.where(counts_failures, other * 64 + count, count * 64 + other)


def _doublings(p: Array) -> Array:
    """How often a float32 in (0, 1) must be doubled to reach 1, rounded up."""
    return 127 - (lax.bitcast_convert_type(p, jnp.int32) >> 23)


def race(word: Array, probability: Array, successes: Array, failures: Array, trials: Array) -> tuple[Array, Array]:
    """Successes and failures when trials end at the first of three walls.

    The walls are ``successes`` (> 0), ``failures`` (> 0) and ``min(trials, LONGEST_RACE)``; where one of them is 0
    or less, nothing is tried and both results are 0.

    Args:
        word: uint32, the randomness.
        probability: uint32, of success, in units of 2^-32, taken at the middle of its multiple of 2^-24.
        successes, failures, trials: int32.

    All have one shape, which is that of the two int32 results. The distribution is exact but for the rounding of
    float32 products, below 2e-6 in total variation. Products are not added to as floats but converted to integers
    first, so no compiler can contract them and the same word gives the same bits on every device.
    """
    packed = _packed_race(word, probability, successes, failures, jnp.maximum(trials, 0))
    return packed >> 6, packed & 63


def race_at(
    key: Stream, purpose: Array, index: Array, probability: Array, successes: Array, failures: Array, trials: Array
) -> tuple[Array, Array]:
    """``race`` by the first word at an address, which is drawn where it is used and nowhere else."""
    walls = successes, failures, jnp.maximum(trials, 0)
    packed = _packed_race_at(key.high, key.low, purpose, index, probability, *walls)
    return packed >> 6, packed & 63


@computed_once
def _packed_race_at(high: Array, low: Array, purpose: Array, index: Array, *rest: Array) -> Array:
    return _packed_race(words(Stream(high, low), purpose, index)[0], *rest)


def chase_at(
    key: Stream, purpose: Array, index: Array, probability: Array, successes: Array, proven: Array, trials: Array
) -> tuple[Array, Array]:
    """Successes and failures when trials end at the first of two walls, or with the first of them if it fails.

    As ``race`` without a wall of failures, but for the first trial, which has the first word at the address; the second
    decides up to ``LONGEST_RACE`` more. Where ``proven`` (int32, 0 or 1) there is no such first trial.
    """
    tried = jnp.where((trials > 0) & (successes > 0), 1 - proven, 0)
    won = _first_trial(key.high, key.low, purpose, index, probability, tried)
    limit = jnp.where((proven == 1) | (won == 1), jnp.maximum(trials - tried, 0), 0)
    walls = successes - won, jnp.full_like(limit, UNLIMITED), limit
    packed = _packed_rest(key.high, key.low, purpose, index, probability, *walls)
    return won + (packed >> 6), tried - won + (packed & 63)


@computed_once
def _first_trial(high: Array, low: Array, purpose: Array, index: Array, probability: Array, made: Array) -> Array:
    return made * trial(words(Stream(high, low), purpose, index)[0], probability).astype(jnp.int32)


@computed_once
def _packed_rest(high: Array, low: Array, purpose: Array, index: Array, *rest: Array) -> Array:
    return _packed_race(words(Stream(high, low), purpose, index)[1], *rest)


def trial(word: Array, probability: Array) -> Array:
    """bool, whether one trial succeeds: a comparison of integers. Arguments as for ``race``."""
    won: Array = word < ((probability >> jnp.uint32(8)) << jnp.uint32(8)) + jnp.uint32(128)
    return won


def trial_at(key: Stream, purpose: Array, index: Array, probability: Array, made: Array) -> Array:
    """int32: 1 where a trial is made and succeeds. ``made``: int32, 0 or 1; the address as for ``race_at``."""
    return _first_trial(key.high, key.low, purpose, index, probability, made)


def race_on_tape(
    key: Stream, first: Array, probability: Array, entity: Array, successes: Array, failures: Array, trials: Array
) -> tuple[Array, Array]:
    """The same race, trial by trial: attempt j of an entity has its own word, at the counter (entity, j).

    ``first`` (int32) is the number of attempts on this entity before the race. Exact to 2^-24 by an integer
    comparison, and slow: for tests, and for users who want one trial's result not to depend on the size of a pull.
    """
    return _on_tape(key, entity, first, probability, successes, failures, jnp.ones_like(trials), trials)


def chase_on_tape(
    key: Stream, entity: Array, first: Array, probability: Array, successes: Array, proven: Array, trials: Array
) -> tuple[Array, Array]:
    """The same as ``chase_at``, trial by trial as in ``race_on_tape``; up to ``LONGEST_RACE`` in all."""
    return _on_tape(key, entity, first, probability, successes, jnp.full_like(trials, UNLIMITED), proven, trials)


def _on_tape(
    key: Stream, entity: Array, first: Array, probability: Array, successes: Array, failures: Array, proven: Array,
    trials: Array,
) -> tuple[Array, Array]:  # fmt: skip
    x, y = jnp.zeros_like(trials), jnp.zeros_like(trials)
    limit = jnp.minimum(trials, LONGEST_RACE)
    for _ in range(LONGEST_RACE):
        go = (x < successes) & (y < failures) & (x + y < limit) & ((proven == 1) | (x > 0) | (y == 0))
        word, _unused = words(key, entity, first + x + y)
        won = trial(word, probability)
        x, y = x + (go & won).astype(jnp.int32), y + (go & ~won).astype(jnp.int32)
    return x, y
