"""LUCB's arms in blocks, so that a round evaluates a few of them and not all.

An arm's *side mean* is its mean if it is one of the K largest (of the top), else 1 less its mean. The lower confidence
bound of that is its *bound*. So on both sides of the cut, the arm of the lowest bound is pulled, and the arms next to
the cut are those of the lowest side means.

Blocks stand each on one side of the cut. What the evaluation of a block finds is kept: its arm of the lowest bound, and
a *floor* below the bounds of its other arms as the exploration rate grows. Of blocks that were evaluated before, the
first arms are compared as they are now. If one of them is below all floors, it is the lowest for sure; else the block
that is in doubt is evaluated again.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxbandit.random.trials import UNITS
from jaxbandit.topk.confidence import lower_bound, unit
from jaxbandit.xla.batch import whole
from jaxbandit.xla.prefix import lowest

NONE = 2**31 - 1
"""A number above all others, and that of no arm and no block."""
EMPTY = 2**30 - 1
"""The side mean of a slot without an arm."""
_FAR = 0x7F000000
"""A bound as far as can be: the bits of 2^127."""
ROW = {"hoeffding": 64, "kl": 16}
"""There is room for whole rows of blocks: XLA makes no vectors of loops that are shorter, unless they compute much."""
_SLACK = {"hoeffding": 1e-6, "kl": 1e-5}
"""More than rounding makes of a floor, relatively."""


class Slots(NamedTuple):
    """Arms by their slots, shape (slots,): first those of the K largest means, then, from the next whole block on, the
    others. ``arm``: the number (int32, that of all arms where there is none); ``total``, ``made``: the sum of its
    rewards and its pulls; ``side_mean`` (int32); ``width``: what its exploration rate is multiplied by (float32)."""

    arm: Array
    total: Array
    made: Array
    side_mean: Array
    width: Array


class Blocks(NamedTuple):
    """What the last evaluation of each block found, shape (blocks,). ``arm``, ``side_mean``, ``width``: of its arm of
    the lowest bound; the bounds of the others, but for those that equal it and have greater numbers, are at least
    ``floor`` less ``slope`` times the exploration rate (float32), as ``_straight`` has it; ``since``: the round of the
    evaluation; ``least``: the least side mean in the block, and ``next_to``: of the arms that have it, the one that
    crosses the cut first, with a minus sign above the cut."""

    arm: Array
    side_mean: Array
    width: Array
    floor: Array
    slope: Array
    since: Array
    least: Array
    next_to: Array


class Sides(NamedTuple):
    """What the blocks of both sides together say: the ``first`` arms by their bounds, of the top and of the others, and
    these bounds; a block that is in ``doubt``, or ``NONE``; whether two arms must ``swap`` sides, and the two arms
    ``last`` above the cut and ``early`` below it that would."""

    first: list[Array]
    bound: list[Array]
    doubt: Array
    swap: Array
    last: Array
    early: Array


def at(x: Array, place: Array) -> Array:
    """``x[place]``, of a place that there is."""
    found: Array = lax.dynamic_index_in_dim(x, place, keepdims=False, allow_negative_indices=False)
    return found


@jax.custom_batching.custom_vmap
def put_both(x: Array, values: tuple[Array, Array], places: tuple[Array, Array], where: Array) -> Array:
    """Returns ``x`` with two ``values`` in two ``places`` that there are; of lanes side by side, ``x`` itself in those
    where not ``where`` (bool). A lane alone makes no step when it is over, so it need not look."""
    for value, place in zip(values, places, strict=True):
        x = lax.dynamic_update_slice(x, value[None], (place,), allow_negative_indices=False)
    return x


@put_both.def_vmap
def _(size: int, batched: Any, *operands: Any) -> tuple[Array, bool]:
    """One scatter, which leaves out the lanes that write nothing, so that nothing is read for them."""
    x, values, places, where = whole(size, batched, list(operands))
    at_end = jnp.where(where[:, None], jnp.stack(places, 1), x.shape[1])
    return x.at[jnp.arange(size)[:, None], at_end].set(jnp.stack(values, 1), mode="drop"), True


def empty(blocks: int, unseen: Array) -> Blocks:
    """Nothing evaluated, for that many blocks; those that are ``unseen`` (bool, shape (blocks,)) will have arms."""
    none, low = jnp.zeros(blocks, jnp.int32), jnp.zeros(blocks, jnp.float32)
    nowhere = jnp.full_like(none, EMPTY)
    floor = jnp.where(unseen, jnp.float32(-1e9), jnp.float32(1e9))
    return Blocks(none, nowhere, low, floor, low, none, nowhere, none)


def evaluated(
    divergence: str, size: int, slots: Slots, place: Array, block: Array, sign: int, rate: Array, round_: Array
) -> Blocks:
    """What is to be known of a block of ``size`` slots; ``sign``: -1 for one of the top; ``place``: each arm's slot."""
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
    """What all blocks say in a round, of which the first ``tops`` are of the top."""
    number = jnp.arange(blocks.arm.shape[0], dtype=jnp.int32)
    top = number < tops
    sides = top, ~top

    def first(key: Array, tag: Array) -> tuple[list[Array], list[Array]]:
        """Of each side, the lowest key, and the lowest tag that has it."""
        least = [_least(jnp.where(side, key, NONE)) for side in sides]
        tags = [_least(jnp.where(side & (key == own), tag, NONE)) for side, own in zip(sides, least, strict=True)]
        return least, tags

    keys, arms = first(_ordered(lower_bound(divergence, blocks.side_mean, blocks.width, rate)), blocks.arm)
    bounds = [_float(key) for key in keys]
    above, below = (_straight(divergence, bound) for bound in bounds)
    doubt = (blocks.floor - blocks.slope * rate <= jnp.where(top, above, below)) & (blocks.since != round_)
    # Next to the cut: of the top the last arm of the least mean, of the others the first of the largest.
    (out, into), (last, early) = first(blocks.least, blocks.next_to)
    swap = (out + into < UNITS) | ((out + into == UNITS) & (early < -last))
    return Sides(arms, bounds, _least(jnp.where(doubt, number, NONE)), swap, -last, early)


def _straight(divergence: str, bound: Array) -> Array:
    """Of bounds, what falls along a line as the exploration rate grows, or ever slower."""
    return bound if divergence == "hoeffding" else jnp.log(jnp.maximum(bound, jnp.float32(1e-38)))


def _fall(divergence: str, side_mean: Array, width: Array, bound: Array) -> Array:
    """How fast that falls with the exploration rate: now, and no faster later."""
    if divergence == "hoeffding":
        return width
    # The derivative of d(mean, q) with respect to log q is (q - mean) / (1 - q).
    mean = unit(side_mean)
    return jnp.where(mean > 0, width * jnp.maximum(1 - bound, 0) / jnp.maximum(mean - bound, jnp.float32(1e-6)), 0)


def _ordered(x: Array) -> Array:
    """int32 in the order of finite float32 ``x``."""
    return _turned(lax.bitcast_convert_type(x + jnp.float32(0), jnp.int32))


def _float(ordered: Array) -> Array:
    """What was ``_ordered``."""
    return lax.bitcast_convert_type(_turned(ordered), jnp.float32)


def _turned(bits: Array) -> Array:
    return jnp.where(bits < 0, bits ^ jnp.int32(0x7FFFFFFF), bits)


def _least(x: Array) -> Array:
    """The least of int32 of shape (n,), n a power of two or whole rows; of few, as vectors of 16 side by side first."""
    if x.shape[0] > 256:
        return lowest(x)
    return jnp.min(functools.reduce(jnp.minimum, [x[i : i + 16] for i in range(0, x.shape[0], 16)]))
