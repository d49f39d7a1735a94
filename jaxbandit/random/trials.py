"""The successes in a number of Bernoulli trials, a few trials a word: for counts of one to some hundreds.

A word gives up to 16 trials by inversion: a chain of 16 probabilities, no loop, no logarithm; up to 6 trials have a
word each. A pull of c trials that begins at attempt j owns the words at j, j + 1 ... j + c - 1, so pulls of the same
arm never share one. From ``MOST_CHAINED`` trials on, the rejection of ``counts.binomial`` costs less.

What an element gets depends on itself alone, but how many words are drawn depends on the largest count of the
batch; ``over_lanes`` makes that bound a scalar, so that under ``vmap`` a branch that no lane needs is not computed.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from jaxbandit.random.counts import binomial
from jaxbandit.random.stream import Stream, words
from jaxbandit.xla.batch import over_lanes

UNITS = 1 << 24
"""Probabilities here are whole multiples of 1 / UNITS: exact as float32, with their complements."""

MOST_CHAINED = 1024

_DIRECT, _CHAIN = 6, 16


class _Chain(NamedTuple):
    """The state of an inversion: what is left of a word's probability, in units of 2^-30, after the first counts; the
    next count's probability in those units; and how many counts were passed."""

    rest: Array
    mass: Array
    passed: Array


def _begin(word: Array, trials: Array, other: Array) -> _Chain:
    mass, power = jnp.full_like(other, 2.0**30), other
    for bit in range(_CHAIN.bit_length()):
        mass = jnp.where((trials >> bit) & 1 == 1, mass * power, mass)
        power = power * power
    return _Chain((word >> jnp.uint32(2)).astype(jnp.int32), mass, jnp.zeros_like(trials))


def _link(chain: _Chain, k: Array, trials: Array, odds: Array) -> _Chain:
    """Goes from count k (float32) to the next. Probabilities are multiplied as floats, then subtracted as integers, so
    that no compiler can contract a product and a sum."""
    rest = chain.rest - chain.mass.astype(jnp.int32)
    onward = jnp.maximum(trials.astype(jnp.float32) - k, 0) * (1 / (k + 1)) * odds
    return _Chain(rest, chain.mass * onward, chain.passed + (rest >= 0).astype(jnp.int32))


def _count(chain: _Chain, trials: Array, rare: Array) -> Array:
    # What rounding leaves over, about 2^-23, goes near the mean and not to the far end.
    return jnp.where(chain.passed <= trials, chain.passed, (trials.astype(jnp.float32) * rare).astype(jnp.int32))


def successes(key: Stream, purpose: Array, first: Array, count: Array, probability: Array) -> Array:
    """Draws the successes in ``count`` trials (int32), where counts are few.

    Args:
        key, purpose, first: the address: ``first`` (int32) is the number of trials before these for this ``purpose``.
        count: int32, 0 to ``MOST_CHAINED``; from there on it counts as 0, and ``many_successes`` is to be called.
        probability: int32 in units of 1 / ``UNITS``, 0 to ``UNITS``.

    All broadcast to the shape of the result. The law is exact but for rounding: within 3e-6 in total variation up to
    16 trials, and at most that much more for each further 16.
    """
    # What is one number for all is left so.
    shape = jnp.broadcast_shapes(*map(jnp.shape, (purpose, first, count, probability)))
    count = jnp.where(count <= MOST_CHAINED, count, 0)
    few = jnp.where(count <= _DIRECT, count, 0)
    fewest, longest = over_lanes(jnp.max(few, initial=0)), over_lanes(jnp.max(count - few, initial=0))

    def direct(number: Array, found: Array) -> Array:
        for part, word in enumerate(words(key, purpose, first + 2 * number)):
            won = (2 * number + part < few) & ((word >> jnp.uint32(8)).astype(jnp.int32) < probability)
            found = found + won.astype(jnp.int32)
        return found

    def by_chain(found: Array) -> Array:
        likely, rare = _rarer(probability)
        other = 1 - rare
        odds = rare / other

        def more(state: tuple[Array, Array]) -> tuple[Array, Array]:
            done, total = state
            trials = jnp.clip(count - done, 0, _CHAIN)
            chain = _begin(words(key, purpose, first + done)[0], trials, other)
            for k in range(_CHAIN + 1):
                chain = _link(chain, jnp.float32(k), trials, odds)
            return done + _CHAIN, total + _count(chain, trials, rare)

        _, chain = lax.while_loop(lambda state: state[0] < longest, more, (jnp.int32(0), jnp.zeros(shape, jnp.int32)))
        return jnp.where(count > _DIRECT, jnp.where(likely, count - chain, chain), found)

    found = lax.fori_loop(0, (fewest + 1) // 2, direct, jnp.zeros(shape, jnp.int32))
    total: Array = lax.cond(longest > 0, by_chain, lambda found: found, found)
    return total


def many_successes(key: Stream, purpose: Array, first: Array, count: Array, probability: Array) -> Array:
    """Draws the successes of any count, for those above ``MOST_CHAINED``; its law is that of ``counts.binomial``."""
    likely, rare = _rarer(probability)
    found = binomial(key, purpose, first, count, rare)
    return jnp.where(likely, count - found, found)


def _rarer(units: Array) -> tuple[Array, Array]:
    """Tells whether successes are more likely than failures, and returns the probability of the rarer (float32,
    exact)."""
    likely = units > UNITS // 2
    return likely, jnp.where(likely, UNITS - units, units).astype(jnp.float32) * jnp.float32(1 / UNITS)
