"""Bernoulli trials that stop at a number of successes, of failures, or of trials, whichever comes first.

One word gives the end of up to ``LONGEST_RACE`` trials. The possible ends lie on a path of lattice points (successes,
failures): the wall of successes, the wall of trials, the wall of failures. The sampler inverts the distribution
function along that path, from the end with no failures on; the next end's probability is the last one's times a
ratio, so a step costs a few operations and no memory.

The binomial (no wall but trials) and the negative binomial (no wall but successes) are its corners.
"""

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxbandit.random.stream import Stream, words

LONGEST_RACE = 16
"""The most trials that one word decides: beyond it, half to the power of the trials leaves a word's resolution."""

UNLIMITED = 2**31 - 1
"""A wall that is never reached."""

_SCALE = 2.0**30


@jax.custom_batching.custom_vmap
def _packed_race(word: Array, probability: Array, successes: Array, failures: Array, trials: Array) -> Array:
    """``successes * 64 + failures`` of a race."""
    grid = probability >> jnp.uint32(8)
    likely = grid >= jnp.uint32(1 << 23)
    rarer = jnp.where(likely, jnp.uint32((1 << 24) - 1) - grid, grid)
    q = (rarer.astype(jnp.float32) + jnp.float32(0.5)) * jnp.float32(2.0**-24)  # exact
    p = jnp.float32(1.0) - q
    # The rarer outcome is the one that is counted along the path.
    common = jnp.where(likely, successes, failures)
    rare = jnp.where(likely, failures, successes)
    limit = jnp.minimum(trials, LONGEST_RACE)
    started = (jnp.minimum(common, rare) > 0) & (limit > 0)

    odds, inverse = q / p, jnp.float32(1.0) / p
    x = jnp.minimum(common, limit)
    y = jnp.zeros_like(x)
    mass, power = jnp.full_like(p, _SCALE), p
    for bit in range(LONGEST_RACE.bit_length()):
        mass = jnp.where((x >> bit) & 1 == 1, mass * power, mass)
        power = power * power
    rest = (word >> jnp.uint32(2)).astype(jnp.int32)
    for _ in range(LONGEST_RACE):
        rest = rest - mass.astype(jnp.int32)
        go = (rest >= 0) & (x > 0)
        at_common, at_rare, last = x == common, y == rare, y + 1 == rare
        stays = at_common & ~last & (x + y < limit)
        numerator = jnp.where(at_common & last, 1, jnp.where(at_common & ~at_rare, x + y, x))
        denominator = jnp.where(at_rare, x + rare - 1, jnp.where(last, jnp.where(at_common, 1, limit), y + 1))
        ratio = numerator.astype(jnp.float32) / denominator.astype(jnp.float32)
        mass = jnp.where(go, mass * (ratio * jnp.where(at_rare, inverse, jnp.where(stays, q, odds))), 0)
        x = jnp.where(go & ~stays, x - 1, x)
        y = jnp.where(go & ~at_rare, y + 1, y)
    return jnp.where(started, jnp.where(likely, x * 64 + y, y * 64 + x), 0)


@_packed_race.def_vmap
def _batched_race(size: int, batched: list[bool], *operands: Array) -> tuple[Array, bool]:
    """The batch's races as one branch of a condition.

    The branch, always taken, is a wall that XLA's fusion does not pass: without it the CPU backend repeats the whole
    path in each kernel that uses a part of the result.
    """
    full = [
        operand if has else jnp.broadcast_to(operand, (size, *operand.shape))
        for operand, has in zip(operands, batched, strict=True)
    ]
    return lax.cond(full[-1][0] >= 0, _packed_race.fun, lambda *_: jnp.zeros_like(full[-1]), *full), True


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
    packed = _packed_race(word, probability, successes, failures, trials)
    return packed >> 6, packed & 63


def race_on_tape(
    key: Stream, first: Array, probability: Array, entity: Array, successes: Array, failures: Array, trials: Array
) -> tuple[Array, Array]:
    """The same race, trial by trial: attempt j of an entity has its own word, at the counter (entity, j).

    ``first`` (int32) is the number of attempts on this entity before the race. Exact to 2^-24 by an integer
    comparison, and slow: for tests, and for users who want one trial's result not to depend on the size of a pull.
    """
    threshold = ((probability >> jnp.uint32(8)) << jnp.uint32(8)) + jnp.uint32(128)
    x, y = jnp.zeros_like(trials), jnp.zeros_like(trials)
    limit = jnp.minimum(trials, LONGEST_RACE)
    for _ in range(LONGEST_RACE):
        go = (x < successes) & (y < failures) & (x + y < limit)
        word, _unused = words(key, entity, first + x + y)
        won = word < threshold
        x, y = x + (go & won), y + (go & ~won)
    return x, y
