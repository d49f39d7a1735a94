"""The successes in a number of Bernoulli trials, a few trials a word: for counts of one to some hundreds.

A word gives up to 16 trials by inversion: a chain of 16 probabilities, no loop, no logarithm. A pull of c trials that
begins at attempt j owns the words at j, j + 32 ... below j + c, so pulls of the same arm never share one. From
``MOST_CHAINED`` trials on, the rejection of ``counts.binomial`` costs less.

What an element gets depends on itself alone, but how many words are looked at depends on the largest count of the
batch; ``over_lanes`` makes that bound a scalar, so that under ``vmap`` a branch that no lane needs is not computed.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxbandit.random.counts import binomial
from jaxbandit.random.stream import Stream, words

UNITS = 1 << 24
"""Probabilities here are whole multiples of 1 / UNITS: exact as float32, with their complements."""

MOST_CHAINED = 1024

_CHAIN, _LINKS = 16, 4


@jax.custom_batching.custom_vmap
def over_lanes(x: Array) -> Array:
    """``x``; under ``vmap``, the elementwise maximum over the batch, the same for all of it.

    For bounds on work (how wide, how often), whose value may not change what is computed.
    """
    return x


@over_lanes.def_vmap
def _(size: int, batched: list[bool], x: Array) -> tuple[Array, bool]:
    return (jnp.max(x, axis=0) if batched[0] else x), False


class _Chain(NamedTuple):
    """What is left of a word's probability, in units of 2^-30, after the first counts; the next count's probability in
    those units; and how many counts were passed."""

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
    """From count k (float32) to the next. Probabilities are multiplied as floats, then subtracted as integers, so that
    no compiler can contract a product and a sum."""
    rest = chain.rest - chain.mass.astype(jnp.int32)
    onward = jnp.maximum(trials.astype(jnp.float32) - k, 0) * (1 / (k + 1)) * odds
    return _Chain(rest, chain.mass * onward, chain.passed + (rest >= 0).astype(jnp.int32))


def _count(chain: _Chain, trials: Array, rare: Array) -> Array:
    # What rounding leaves over, about 2^-23, goes near the mean and not to the far end.
    return jnp.where(chain.passed <= trials, chain.passed, (trials.astype(jnp.float32) * rare).astype(jnp.int32))


def successes(key: Stream, purpose: Array, first: Array, count: Array, probability: Array) -> Array:
    """int32, the successes in ``count`` trials.

    Args:
        key, purpose, first: the address: ``first`` (int32) is the number of trials before these for this ``purpose``.
        count: int32, 0 to ``MOST_CHAINED``; from there on it counts as 0, and ``many_successes`` is to be called.
        probability: int32 in units of 1 / ``UNITS``, 0 to ``UNITS``.

    All broadcast to the shape of the result. The law is exact but for rounding: within 3e-6 in total variation up to
    16 trials, and at most that much more for each further 16.
    """
    purpose, first, count, units = jnp.broadcast_arrays(purpose, first, count, probability)
    count = jnp.where(count <= MOST_CHAINED, count, 0)
    likely, rare = _rarer(units)
    other = 1 - rare
    odds = rare / other
    longest = over_lanes(jnp.max(count, initial=0))

    def short(_: None) -> Array:
        """One word, and no more links than the longest count needs: a loop of a few links each."""

        def links(number: Array, chain: _Chain) -> _Chain:
            for link in range(_LINKS):
                chain = _link(chain, (number * _LINKS + link).astype(jnp.float32), count, odds)
            return chain

        chain = _begin(words(key, purpose, first)[0], jnp.minimum(count, _CHAIN), other)
        return _count(lax.fori_loop(0, longest // _LINKS + 1, links, chain), count, rare)

    def long(_: None) -> Array:
        def more(state: tuple[Array, Array]) -> tuple[Array, Array]:
            done, found = state
            for word in words(key, purpose, first + done):
                trials = jnp.clip(count - done, 0, _CHAIN)
                chain = _begin(word, trials, other)
                for k in range(_CHAIN + 1):
                    chain = _link(chain, jnp.float32(k), trials, odds)
                found, done = found + _count(chain, trials, rare), done + _CHAIN
            return done, found

        return lax.while_loop(lambda state: state[0] < longest, more, (jnp.int32(0), jnp.zeros_like(count)))[1]

    found = lax.cond(longest <= _CHAIN, short, long, None)
    return jnp.where(likely, count - found, found)


def many_successes(key: Stream, purpose: Array, first: Array, count: Array, probability: Array) -> Array:
    """The same of any count, for those above ``MOST_CHAINED``; its law is that of ``counts.binomial``."""
    likely, rare = _rarer(probability)
    found = binomial(key, purpose, first, count, rare)
    return jnp.where(likely, count - found, found)


def _rarer(units: Array) -> tuple[Array, Array]:
    """Whether successes are more likely than failures, and the probability of the rarer (float32, exact)."""
    likely = units > UNITS // 2
    return likely, jnp.where(likely, UNITS - units, units).astype(jnp.float32) * jnp.float32(1 / UNITS)
