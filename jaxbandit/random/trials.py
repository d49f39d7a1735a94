"""The successes in a number of Bernoulli trials, many trials a word: for counts of one to about a thousand.

A trial succeeds where a uniform number is below the probability. The first bit of that number decides half of the
trials, the second one half of the others, and so on; which half succeeds or fails, the bits of the probability say. So
the trials that stay open are counted, each time, as the ones among as many random bits. When 16 trials are open, one
more word gives their successes by inversion: a chain of 16 probabilities, no loop, no logarithm. Up to 6 trials have a
word each.

A pull of c trials that begins at attempt j owns the words at j, j + 1 ... j + c - 1, so pulls of the same arm never
share one (17 trials would need an 18th word with a probability of 2^-289, others with less). Above ``MOST_TRIALS``,
the rejection of ``counts.binomial`` costs less.

What an element gets depends on itself alone, but how many words are drawn depends on the largest count of the
batch; ``over_lanes`` makes that bound a scalar, so that under ``vmap`` a branch that no lane needs is not computed.
"""

from functools import partial
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from jaxbandit.random.counts import binomial
from jaxbandit.random.stream import Stream, words
from jaxbandit.xla.batch import over_lanes
from jaxbandit.xla.exact import quotient
from jaxbandit.xla.fence import ENDLESS, patiently
from jaxbandit.xla.platforms import by_platform

UNITS = 1 << 24
"""Probabilities here are whole multiples of 1 / UNITS: exact as float32, with their complements."""

MOST_TRIALS = 1024

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


def _ones(word: Array, bits: Array) -> Array:
    """Counts the ones among the lowest ``bits`` (int32) of a word: none where ``bits`` is negative, at most 32."""
    mask = (jnp.uint32(1) << jnp.maximum(bits, 0).astype(jnp.uint32)) - jnp.uint32(1)  # a shift by 32 gives 0
    return lax.population_count(word & mask).astype(jnp.int32)


class _Open(NamedTuple):
    """The trials that bits have not decided, all int32: how many are open (``trials``), the ``probability`` of the bits
    still to come, in units of 1 / ``UNITS``, how many succeeded (``won``), and the address of the next word
    (``place``); ``largest`` is the most open trials of any element."""

    trials: Array
    probability: Array
    won: Array
    place: Array
    largest: Array


def _few_open(key: Stream, purpose: Array, state: _Open) -> _Open:
    """Lets bits decide until at most ``_CHAIN`` trials of each element are open."""

    def toss(state: _Open, number: Array, ones: Array) -> Array:
        """Tosses for the open trials from 64 ``number`` on, and adds the ones to those of the trials before."""
        low, high = words(key, purpose, state.place + number)
        bits = jnp.where(state.trials > _CHAIN, state.trials, 0) - 64 * number
        return ones + _ones(low, jnp.minimum(bits, 32)) + _ones(high, jnp.minimum(bits - 32, 32))

    def halved(state: _Open, ones: Array, tossed: Array | bool) -> _Open:
        """Has the next bit of each trial's uniform number decide about half of the open trials, once all are tossed."""
        going = (state.trials > _CHAIN) & tossed
        # From 1/2 on, a zero is a success and ones stay open; below, a one is a failure and zeros stay open.
        likely = state.probability >= UNITS // 2
        zeros = state.trials - ones
        trials = jnp.where(going, jnp.where(likely, ones, zeros), state.trials)
        doubled = 2 * state.probability - jnp.where(likely, UNITS, 0)
        return _Open(
            trials, jnp.where(going, doubled, state.probability), state.won + jnp.where(going & likely, zeros, 0),
            state.place + jnp.where(going, (state.trials + 63) // 64, 0), over_lanes(jnp.max(trials, initial=0)),
        )  # fmt: skip

    def in_turn(state: _Open) -> _Open:
        def halve(state: _Open) -> _Open:
            parts = (state.largest + 63) // 64
            return halved(state, lax.fori_loop(0, parts, partial(toss, state), jnp.zeros_like(state.won)), True)

        return lax.while_loop(lambda state: state.largest > _CHAIN, halve, state)

    def patient(state: _Open) -> _Open:
        """The same in one loop, which an accelerator asks less often whether it is over."""

        def turn(_: Array, carry: tuple[_Open, Array, Array]) -> tuple[_Open, Array, Array]:
            state, number, ones = carry
            ones, number = toss(state, number, ones), number + 1
            tossed = 64 * number >= state.largest
            return halved(state, ones, tossed), jnp.where(tossed, 0, number), jnp.where(tossed, 0, ones)

        start = state, jnp.int32(0), jnp.zeros_like(state.won)
        return patiently(ENDLESS, lambda _, carry: carry[0].largest > _CHAIN, turn, start, turns=4)[0]

    found: _Open = by_platform(state, cpu=in_turn, default=patient)
    return found


def successes(key: Stream, purpose: Array, first: Array, count: Array, probability: Array) -> Array:
    """Draws the successes in ``count`` trials (int32), where counts are few.

    Args:
        key, purpose, first: the address: ``first`` (int32) is the number of trials before these for this ``purpose``.
        count: int32, 0 to ``MOST_TRIALS``; more counts as 0, and ``many_successes`` is to be called.
        probability: int32 in units of 1 / ``UNITS``, 0 to ``UNITS``.

    All broadcast to the shape of the result. The law is exact but for rounding: within 3e-6 in total variation.
    """
    # What is one number for all is left so.
    shape = jnp.broadcast_shapes(*map(jnp.shape, (purpose, first, count, probability)))
    count = jnp.where(count <= MOST_TRIALS, count, 0)
    few, nothing = jnp.where(count <= _DIRECT, count, 0), jnp.zeros(shape, jnp.int32)
    fewest, longest = over_lanes(jnp.max(few, initial=0)), over_lanes(jnp.max(count - few, initial=0))

    def direct(number: Array, found: Array) -> Array:
        for part, word in enumerate(words(key, purpose, first + 2 * number)):
            won = (2 * number + part < few) & ((word >> jnp.uint32(8)).astype(jnp.int32) < probability)
            found = found + won.astype(jnp.int32)
        return found

    def by_bits(found: Array) -> Array:
        trials, chance, place = (jnp.broadcast_to(x, shape) for x in (count - few, probability, first))
        state = _few_open(key, purpose, _Open(trials, chance, nothing, place, longest))
        likely, rare = _rarer(state.probability)
        other = 1 - rare
        odds = quotient(rare, other)
        chain = _begin(words(key, purpose, state.place)[0], state.trials, other)
        for k in range(_CHAIN + 1):
            chain = _link(chain, jnp.float32(k), state.trials, odds)
        drawn = _count(chain, state.trials, rare)
        return jnp.where(count > _DIRECT, state.won + jnp.where(likely, state.trials - drawn, drawn), found)

    found = patiently(_DIRECT // 2, lambda number, _: 2 * number < fewest, direct, nothing)
    total: Array = lax.cond(longest > 0, by_bits, lambda found: found, found)
    return total


def many_successes(key: Stream, purpose: Array, first: Array, count: Array, probability: Array) -> Array:
    """Draws the successes of any count, for those above ``MOST_TRIALS``; its law is that of ``counts.binomial``."""
    likely, rare = _rarer(probability)
    found = binomial(key, purpose, first, count, rare)
    return jnp.where(likely, count - found, found)


def _rarer(units: Array) -> tuple[Array, Array]:
    """Tells whether successes are more likely than failures, and returns the probability of the rarer (float32,
    exact)."""
    likely = units > UNITS // 2
    return likely, jnp.where(likely, UNITS - units, units).astype(jnp.float32) * jnp.float32(1 / UNITS)
