"""LUCB's arms in blocks, so that a round evaluates a few of them and not all.

An arm's *side mean* is its mean if it is one of the K largest (of the *top*), else 1 less its mean. The lower
confidence bound of the side mean is its *bound*. So on both sides of the cut, the arm with the lowest bound is pulled,
and the arms next to the cut are the arms with the lowest side means.

Each block is on one side of the cut. An evaluation of a block finds its *first* arm, which has the lowest bound, and a
*floor*, below which the bounds of its other arms do not fall as the exploration rate grows. In later rounds, the
current bounds of all first arms are compared. If the lowest of them is below all floors, its arm has the lowest bound
of all. Else the block in doubt is evaluated again.
"""

import functools
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from jaxbandit.random.trials import UNITS
from jaxbandit.topk.confidence import lower_bound, unit
from jaxbandit.xla.entries import at
from jaxbandit.xla.prefix import lowest

NONE = 2**31 - 1
"""A number above all others, which is no arm's and no block's."""
EMPTY = 2**30 - 1
"""The side mean in a slot that has no arm."""
_FAR = 0x7F000000
"""The key of a bound that is above all others: the bits of 2^127."""
ROW = {"hoeffding": 64, "kl": 16}
"""There is room for so many blocks or a multiple of it, as shorter loops are slow (docs/xla-cpu.md)."""
_SLACK = {"hoeffding": 1e-6, "kl": 1e-5}
"""By which share of its size a floor is lowered: more than rounding can change it."""


class Slots(NamedTuple):
    """Holds arms by their slots, shape (slots,): the arms with the K largest means and then, from the next whole block
    on, the others. ``arm``: its number (int32; in an empty slot, the number of all arms); ``total``, ``made``: the sum
    of its rewards and its pulls; ``side_mean`` (int32); ``width``: what the exploration rate is multiplied by
    (float32)."""

    arm: Array
    total: Array
    made: Array
    side_mean: Array
    width: Array


class Blocks(NamedTuple):
    """Holds the last evaluation of each block, shape (blocks,). ``arm``, ``side_mean``, ``width``: of its first arm;
    ``floor``, ``slope`` (float32): the bounds of the other arms, made linear by ``_straight``, are at least ``floor``
    less ``slope`` times the exploration rate (arms of an equal bound and greater numbers left out); ``since``: the
    round of the evaluation; ``least``: the least side mean in the block; ``next_to``: of the arms with that side mean,
    the one that crosses the cut first, with a minus sign above the cut."""

    arm: Array
    side_mean: Array
    width: Array
    floor: Array
    slope: Array
    since: Array
    least: Array
    next_to: Array


class Sides(NamedTuple):
    """Compares the blocks of both sides. ``first``, ``bound``: the arm with the lowest bound of the top and of the
    others, and these bounds; ``doubt``: a block that must be evaluated before this is sure, or ``NONE``; ``swap``:
    whether the arms next to the cut, ``last`` above it and ``early`` below it, must swap sides."""

    first: list[Array]
    bound: list[Array]
    doubt: Array
    swap: Array
    last: Array
    early: Array


def empty(blocks: int, unseen: Array) -> Blocks:
    """Returns so many blocks before any evaluation; those that are ``unseen`` (bool, shape (blocks,)) will have
    arms."""
    none, low = jnp.zeros(blocks, jnp.int32), jnp.zeros(blocks, jnp.float32)
    nowhere = jnp.full_like(none, EMPTY)
    floor = jnp.where(unseen, jnp.float32(-1e9), jnp.float32(1e9))
    return Blocks(none, nowhere, low, floor, low, none, nowhere, none)


def evaluated(
    divergence: str, size: int, slots: Slots, place: Array, block: Array, sign: int, rate: Array, round_: Array
) -> Blocks:
    """Evaluates a block of ``size`` slots; ``sign``: -1 for a block of the top; ``place``: each arm's slot."""
    arm, side_mean, width = (
        lax.dynamic_slice_in_dim(x, block * size, size, allow_negative_indices=False)
        for x in (slots.arm, slots.side_mean, slots.width)
    )
    bound = lower_bound(divergence, side_mean, width, rate)
    key = _ordered(bound)
    least = _least(key)
    first = _least(jnp.where(key == least, arm, NONE))
    slot = at(place, first)
    own = at(slots.side_mean, slot), at(slots.width, slot)
    others = jnp.where((side_mean == own[0]) & (width == own[1]), _FAR, key)
    floor = _straight(divergence, _float(_least(others)))
    # Floats that are not negative are ordered as their bits are.
    falls = lax.bitcast_convert_type(_fall(divergence, side_mean, width, bound), jnp.int32)
    slope = lax.bitcast_convert_type(-_least(-falls), jnp.float32)
    floor = floor + slope * rate - _SLACK[divergence] * (2 + jnp.abs(floor) + slope * rate)
    cut = _least(side_mean)
    next_to = _least(jnp.where(side_mean == cut, sign * arm, NONE))
    return Blocks(first, *own, floor, slope, round_, cut, next_to)


def compared(divergence: str, blocks: Blocks, tops: Array, rate: Array, round_: Array) -> Sides:
    """Compares all blocks in a round; the first ``tops`` of them are of the top."""
    number = jnp.arange(blocks.arm.shape[0], dtype=jnp.int32)
    top = number < tops
    sides = top, ~top

    def first(key: Array, tag: Array) -> tuple[list[Array], list[Array]]:
        """Returns for each side the lowest key, and the lowest tag that has it."""
        least = [_least(jnp.where(side, key, NONE)) for side in sides]
        tags = [_least(jnp.where(side & (key == own), tag, NONE)) for side, own in zip(sides, least, strict=True)]
        return least, tags

    keys, arms = first(_ordered(lower_bound(divergence, blocks.side_mean, blocks.width, rate)), blocks.arm)
    bounds = [_float(key) for key in keys]
    above, below = (_straight(divergence, bound) for bound in bounds)
    doubt = (blocks.floor - blocks.slope * rate <= jnp.where(top, above, below)) & (blocks.since != round_)
    # Next to the cut are the last arm with the least mean of the top, and the first with the largest of the others.
    (out, into), (last, early) = first(blocks.least, blocks.next_to)
    swap = (out + into < UNITS) | ((out + into == UNITS) & (early < -last))
    return Sides(arms, bounds, _least(jnp.where(doubt, number, NONE)), swap, -last, early)


def _straight(divergence: str, bound: Array) -> Array:
    """Returns a function of bounds that falls along a line, or ever slower, as the exploration rate grows."""
    return bound if divergence == "hoeffding" else jnp.log(jnp.maximum(bound, jnp.float32(1e-38)))


def _fall(divergence: str, side_mean: Array, width: Array, bound: Array) -> Array:
    """Returns how fast ``_straight`` falls with the exploration rate now; it falls no faster later."""
    if divergence == "hoeffding":
        return width
    # The derivative of d(mean, q) with respect to log q is (q - mean) / (1 - q).
    mean = unit(side_mean)
    return jnp.where(mean > 0, width * jnp.maximum(1 - bound, 0) / jnp.maximum(mean - bound, jnp.float32(1e-6)), 0)


def _ordered(x: Array) -> Array:
    """Returns int32 keys in the order of finite float32 ``x``."""
    return _turned(lax.bitcast_convert_type(x + jnp.float32(0), jnp.int32))


def _float(ordered: Array) -> Array:
    """Returns the float32 number that ``_ordered`` made a key of."""
    return lax.bitcast_convert_type(_turned(ordered), jnp.float32)


def _turned(bits: Array) -> Array:
    return jnp.where(bits < 0, bits ^ jnp.int32(0x7FFFFFFF), bits)


def _least(x: Array) -> Array:
    """Returns the least int32 of shape (n,), n a power of two or whole rows; of few, first by parts of 16."""
    if x.shape[0] > 256:
        return lowest(x)
    return jnp.min(functools.reduce(jnp.minimum, [x[i : i + 16] for i in range(0, x.shape[0], 16)]))
