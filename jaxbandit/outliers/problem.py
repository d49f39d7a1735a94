"""Bernoulli arms pulled in bulk: a pull is a count for every arm."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxbandit.arms.problem import Tape
from jaxbandit.random import Stream, bernoulli, substream, words
from jaxbandit.random.fence import computed_once
from jaxbandit.random.trials import over_lanes

MOST = 32
"""The most pulls of an arm in a pull."""
OUTCOME = 1
_UNROLLED = 4


class Pull(NamedTuple):
    """``counts``: pulls of each arm, 0 to ``MOST``; ``attempts``: pulls of it before. int32, shape (n,)."""

    counts: Array
    attempts: Array


class Once(NamedTuple):
    """As ``Pull``, no arm being pulled twice: one word decides a reward, on tape or not."""

    counts: Array
    attempts: Array


class Singles(NamedTuple):
    """Pulls whose rewards are looked at one by one: as ``Pull``, and fewer may be used than were drawn. Reward j of the
    outcome is bit j of the arm's word: uint32, shape (n,)."""

    counts: Array
    attempts: Array


class Chosen(NamedTuple):
    """Pulls of a few arms, whose rewards are looked at one by one. ``arms``: which, -1 for none; ``attempts``: pulls of
    each before; ``many``: the most pulls of each that may be used. int32 scalars; the outcome has a uint32 for each
    arm, as that of ``Singles``."""

    arms: tuple[Array, ...]
    attempts: tuple[Array, ...]
    many: tuple[Array, ...]


def reward(key: Stream, p: Array, arm: Array, attempt: Array) -> Array:
    """Whether a pull of ``arm``, after ``attempt`` others, pays: bool."""
    return bernoulli(words(key, arm, attempt)[0], p)


class Rewards(NamedTuple):
    """Rewards of 0 and 1 of the arms of one run, each drawn when it is asked for: the outcome of a ``Tape``."""

    key: Stream
    p: Array

    def of(self, arm: Array, attempt: Array) -> Array:
        """See ``reward``."""
        return reward(self.key, self.p[arm], arm, attempt)


class View(NamedTuple):
    """What an algorithm knows before the first pull: nothing but how many arms there are."""

    n: Array


@computed_once
def few(word: Array, p: Array, count: Array) -> Array:
    """int32, the successes in ``count`` <= ``MOST`` trials of probability ``p`` (float32): inversion of one word.

    Probabilities are products, added as integers in units of 2^-30; what rounding leaves over goes to the mode.
    """
    rare = jnp.minimum(p, 1 - p)
    trials = count.astype(jnp.float32)
    # (1 - rare)^count by its bits.
    power, start, bits = 1 - rare, jnp.float32(2**30), count
    for _ in range(MOST.bit_length()):
        start = jnp.where((bits & 1) == 1, start * power, start)
        power, bits = power * power, bits >> 1
    odds, term, rest = rare / (1 - rare), start, (word >> jnp.uint32(2)).astype(jnp.int32)
    found = jnp.zeros_like(count)
    for j in range(1, MOST + 2):
        rest = rest - term.astype(jnp.int32)
        found = found + (rest >= 0).astype(jnp.int32)
        term = term * (odds * jnp.float32(1 / j) * jnp.maximum(trials - (j - 1), 0))
    mode = ((trials + 1) * rare).astype(jnp.int32)
    found = jnp.where(found > count, mode, found)
    return jnp.where(p > 0.5, count - found, found)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Bernoulli:
    """``p``: float32, shape (n,)."""

    p: Array
    on_tape: bool = field(metadata={"static": True}, default=False)

    def draw(self, key: Stream) -> Stream:
        """The key of the tape."""
        return substream(key, OUTCOME)

    def view(self, key: Stream, instance: Stream) -> View:
        """The number of arms."""
        return View(jnp.int32(self.p.shape[0]))

    def pull(self, key: Stream, instance: Stream, pull: Pull | Once | Singles | Chosen | Tape) -> Any:
        """The successes of each arm, or its rewards."""
        if isinstance(pull, Tape):
            return Rewards(instance, self.p)
        if isinstance(pull, Chosen):
            return [
                self._bits(instance, jnp.maximum(arm, 0), attempts, many, self.p[jnp.maximum(arm, 0)])
                for arm, attempts, many in zip(*pull, strict=True)
            ]
        arm = jnp.arange(self.p.shape[0])
        if isinstance(pull, Singles):
            return self._bits(instance, arm, pull.attempts, jnp.max(pull.counts), self.p)
        if isinstance(pull, Once):
            hit = bernoulli(words(instance, arm, pull.attempts)[0], self.p)
            return hit.astype(jnp.int32) * pull.counts
        if not self.on_tape:
            return few(words(instance, arm, pull.attempts)[0], self.p, pull.counts)

        def one(j: Array, ones: Array) -> Array:
            hit = bernoulli(words(instance, arm, pull.attempts + j)[0], self.p)
            return ones + (hit & (j < pull.counts)).astype(jnp.int32)

        ones: Array = lax.fori_loop(0, jnp.max(pull.counts), one, jnp.zeros_like(pull.counts))
        return ones

    def _bits(self, instance: Stream, arm: Array, attempts: Array, many: Array, p: Array) -> Array:
        """Rewards one by one as bits, at least ``many``."""

        def some(group: Array, bits: Array) -> Array:
            for j in range(_UNROLLED):
                number = group * _UNROLLED + j
                hit = bernoulli(words(instance, arm, attempts + number)[0], p)
                bits = bits | (hit.astype(jnp.uint32) << number.astype(jnp.uint32))
            return bits

        blank = jnp.zeros(arm.shape, jnp.uint32)
        rewards: Array = lax.fori_loop(0, (over_lanes(many) + _UNROLLED - 1) // _UNROLLED, some, blank)
        return rewards
