"""LUCB's arms in blocks, so that a round evaluates a few of them and not all.

An arm's *side mean* is its mean if it is one of the K largest (of the *top*), else 1 less its mean. The lower
confidence bound of the side mean is its *bound*. So on both sides of the cut, the arm with the lowest bound is pulled,
and the arms next to the cut are the arms with the lowest side means.

Each block is on one side of the cut. An evaluation of a block finds its *first* arm, which has the lowest bound, and a
*floor*, below which the bounds of its other arms do not fall as the exploration rate grows. In later rounds, the
current bounds of all first arms are compared. If the lowest of them is below all floors, its arm has the lowest bound
of all. Else the block in doubt is evaluated again.

Hoeffding's bounds fall along lines as the exploration rate grows. KL's are found by a search, which costs much more.
But their logarithms are convex in the rate, so that each stays above its tangent. So an arm keeps a tangent (``Line``),
and arms are compared by lines first. Bounds are computed of the arms whose lines are lowest, and where lines leave a
doubt.

Bounds and lines are float32. They are compared as int32 *keys* (``_ordered``), which are in the same order.
"""

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from jaxbandit.arms.rewards import unit
from jaxbandit.random.trials import UNITS
from jaxbandit.topk.confidence import lower_bound
from jaxbandit.xla.columns import Columns
from jaxbandit.xla.elementary import pinned
from jaxbandit.xla.entries import at
from jaxbandit.xla.fence import each
from jaxbandit.xla.formula import formula
from jaxbandit.xla.prefix import lowest

NONE = 2**31 - 1
"""A number above all others, which is no arm's and no block's."""
EMPTY = 2**30 - 1
"""The side mean in a slot that has no arm."""
_FAR = 0x7F000000
"""A key above those of all bounds: the bits of 2^127."""
_NOWHERE = 5.0
"""The start of a line that stays above the logarithms of all bounds."""
ROW = 64
"""There is room for so many blocks or a multiple of it, as shorter loops are slow (docs/xla-cpu.md)."""
_SLACK = {"hoeffding": 1e-6, "kl": 1e-5}
"""By which share of its size a line is lowered: by more than rounding can change it."""


class Line(NamedTuple):
    """Holds a line that the logarithm of a KL bound stays above: ``start`` less ``fall`` times the exploration rate
    (float32)."""

    start: Array
    fall: Array

    def value(self, rate: Array) -> Array:
        """Returns the value at a rate."""
        return self.start - self.fall * rate


Lines = Columns[Line] | None


class Slots(NamedTuple):
    """Holds arms by their slots, shape (slots,): the arms with the K largest means and then, from the next whole block
    on, the others. ``arm``: its number (int32; in an empty slot, the number of all arms); ``total``, ``made``: the sum
    of its rewards and its pulls; ``side_mean`` (int32); ``width``: what the exploration rate is multiplied by
    (float32); ``place``: by the number of an arm and not by slots, the slot of that arm."""

    arm: Array
    total: Array
    made: Array
    side_mean: Array
    width: Array
    place: Array


class Blocks(NamedTuple):
    """Holds the last evaluation of each block, shape (blocks,).

    ``arm``: its first arm, or the one that is first by lines (int32); ``side_mean``, ``width``: those of this arm, as
    in ``Slots``. ``floor``, ``slope`` (float32): the bounds of the other arms, made linear by ``_straight``, are at
    least ``floor`` less ``slope`` times the exploration rate; this leaves out the arms with the first arm's side mean
    and width, as they have its bound and greater numbers. ``since``: the round of the evaluation, 0 if by lines
    (int32). ``least``: the least side mean in the block; ``next_to``: of the arms with that side mean, the one that
    crosses the cut first, with a minus sign above the cut (int32)."""

    arm: Array
    side_mean: Array
    width: Array
    floor: Array
    slope: Array
    since: Array
    least: Array
    next_to: Array


class Sides(NamedTuple):
    """Holds a comparison of all blocks. ``first``: the arm with the lowest bound of the top, and that of the others
    (int32); ``bound``: their bounds (float32); ``doubt``: a block that must be evaluated before these arms are sure, or
    ``NONE`` (int32); ``swap``: whether the arms next to the cut must swap sides (bool), which are ``last`` above it and
    ``early`` below it (int32)."""

    first: list[Array]
    bound: list[Array]
    doubt: Array
    swap: Array
    last: Array
    early: Array


def no_arms(slots: int, arms: int, nothing: Callable[[tuple[int, ...]], Array]) -> Slots:
    """Returns so many empty slots for ``arms`` arms; ``nothing``: makes sums of no rewards."""
    none = jnp.zeros(slots, jnp.int32)
    number = jnp.arange(slots, dtype=jnp.int32)
    return Slots(
        jnp.full_like(none, arms),
        nothing((slots,)),
        none,
        jnp.full_like(none, EMPTY),
        jnp.zeros(slots, jnp.float32),
        number,
    )


def empty(blocks: int, unseen: Array) -> Blocks:
    """Returns so many blocks before any evaluation; those that are ``unseen`` (bool, shape (blocks,)) will have
    arms."""
    none, low = jnp.zeros(blocks, jnp.int32), jnp.zeros(blocks, jnp.float32)
    nowhere = jnp.full_like(none, EMPTY)
    floor = jnp.where(unseen, jnp.float32(-1e9), jnp.float32(1e9))
    return Blocks(none, nowhere, low, floor, low, none, nowhere, none)


def no_lines(divergence: str, count: int) -> Lines:
    """Returns lines above all others, or None where bounds are Hoeffding's."""
    low = jnp.zeros(count, jnp.float32)
    return None if divergence == "hoeffding" else Columns.of(Line(jnp.full_like(low, _NOWHERE), low))


def lines_now(side_means: Sequence[Array], widths: Sequence[Array], rate: Array) -> list[Line]:
    """Returns the lines of some arms as of now, which are found side by side."""
    mean, width = jnp.stack(side_means), jnp.stack(widths)
    line = _tangent(mean, width, lower_bound("kl", mean, width, rate), rate)
    return list(map(Line, line.start, line.fall))


def _tangent(side_mean: Array, width: Array, bound: Array, rate: Array) -> Line:
    """Returns the tangents of the logarithms of KL's bounds, which are convex in the rate."""
    # The derivative of d(mean, q) with respect to log q is (q - mean) / (1 - q).
    mean = unit(side_mean)
    fall = width * jnp.maximum(1 - bound, 0) / jnp.maximum(mean - bound, jnp.float32(1e-6))
    fall = jnp.where(mean > 0, fall, 0)
    return Line(_straight("kl", bound) + fall * rate, fall)


def exact_bounds(
    size: int, slots: Columns[Slots], lines: Columns[Line], rate: Array, blocks: Sequence[Array], due: Sequence[Array]
) -> list[tuple[Array, Line]]:
    """Returns for each of some blocks keys (int32) in the order of its arms' KL bounds, and their lines of now, where
    they are ``due`` (bool); else zeros, and the lines that there are.

    One branch has all blocks, so that all lines are read before one is written (docs/xla-cpu.md)."""
    firsts = [block * size for block in blocks]
    own, old = ([columns.part(first, size) for first in firsts] for columns in (slots, lines))
    none = jnp.zeros(size, jnp.int32)

    def now(due: Array, own: Slots, old: Line) -> tuple[Array, Line]:
        def searched() -> tuple[Array, Line]:
            bound = lower_bound("kl", own.side_mean, own.width, rate)
            return _ordered(bound), _tangent(own.side_mean, own.width, bound, rate)

        found: tuple[Array, Line] = lax.cond(due, searched, lambda: (none, old))
        return found

    found: list[tuple[Array, Line]] = lax.cond(
        functools.reduce(operator.or_, due), lambda: each(now, due, own, old), lambda: [(none, line) for line in old]
    )
    return found


def evaluated(
    divergence: str, size: int, slots: Columns[Slots], lines: Lines, rate: Array, block: Array, sign: Array,
    exact: Array, key: Array, since: Array,
) -> tuple[Blocks, Line | None]:  # fmt: skip
    """Evaluates a block of ``size`` slots; returns its row of ``Blocks``, and with KL the line of its first arm.

    KL's arms are compared by ``key`` where ``exact`` (bool), else by their lines. ``sign``: -1 for a block of the top,
    else 1; ``since``: what to note as the round of the evaluation.
    """
    own = slots.part(block * size, size)
    if lines is None:
        value, fall = _ordered(lower_bound(divergence, own.side_mean, own.width, rate)), own.width
        key = value
    else:
        own_lines = lines.part(block * size, size)
        value, fall = _ordered(own_lines.value(rate)), own_lines.fall
        key = jnp.where(exact, key, value)
    first = _least(jnp.where(key == _least(key), own.arm, NONE))
    lead = slots.row(slots.entry("place", first))
    equal = (own.side_mean == lead.side_mean) & (own.width == lead.width)
    first_line = None
    if lines is not None:
        # Lines of equal arms may differ, so the arm with the lowest line need not have the lowest number of them.
        first = _least(jnp.where(equal, own.arm, NONE))
        line = lines.row(slots.entry("place", first))
        first_line = _lowered(divergence, line.value(rate), line.fall, rate)
    # All arms are above the lowest value among them now, and none falls faster than the one that falls fastest.
    floor = _float(_least(jnp.where(equal, _FAR, value)))
    # Floats that are not negative are ordered as their bits are.
    slope = lax.bitcast_convert_type(-_least(-lax.bitcast_convert_type(fall, jnp.int32)), jnp.float32)
    least = _least(own.side_mean)
    next_to = _least(jnp.where(own.side_mean == least, sign * own.arm, NONE))
    floor = _lowered(divergence, floor, slope, rate).start
    return Blocks(first, lead.side_mean, lead.width, floor, slope, since, least, next_to), first_line


@formula
def _lowered(divergence: str, value: Array, fall: Array, rate: Array) -> Line:
    """Returns the line that has a ``value`` at the present rate and falls by ``fall``, lowered by more than rounding
    can change it."""
    risen = fall * rate
    return Line(value + risen - _SLACK[divergence] * (2 + jnp.abs(value) + risen), fall)


def compared(
    divergence: str, blocks: Blocks, lines: Line | None, tops: Array, rate: Array, round_: Array
) -> tuple[Line | None, Sides]:
    """Compares all blocks in a round; the first ``tops`` of them are of the top. Returns the lines of their first
    arms, which it may renew, and the comparison."""
    number = jnp.arange(blocks.arm.shape[0], dtype=jnp.int32)
    top = number < tops

    def first(key: Array, tag: Array) -> tuple[list[Array], list[Array]]:
        """Returns for each side the lowest key, and the lowest tag that has it."""
        least = [_least(jnp.where(side, key, NONE)) for side in (top, ~top)]
        tags = [_least(jnp.where(side & (key == own), tag, NONE)) for side, own in zip((top, ~top), least, strict=True)]
        return least, tags

    lines, key = _first_keys(divergence, blocks, lines, top, first, rate)
    keys, arms = first(key, blocks.arm)
    bounds = [_float(key) for key in keys]
    above, below = (_straight(divergence, bound) for bound in bounds)
    doubt = (blocks.floor - pinned(blocks.slope * rate) <= jnp.where(top, above, below)) & (blocks.since != round_)
    # Next to the cut are the last arm with the least mean of the top, and the first with the largest of the others.
    # The side mean of the latter is 1 less its mean, so the two are in the wrong order where the sum is below 1.
    (above_cut, below_cut), (last, early) = first(blocks.least, blocks.next_to)
    both = above_cut + below_cut
    swap = (both < UNITS) | ((both == UNITS) & (early < -last))
    return lines, Sides(arms, bounds, _least(jnp.where(doubt, number, NONE)), swap, -last, early)


def _first_keys(
    divergence: str, blocks: Blocks, lines: Line | None, top: Array, first: Callable[[Array, Array], Any], rate: Array
) -> tuple[Line | None, Array]:
    """Returns keys (int32) in the order of the bounds of first arms. KL's are computed for the lowest arm of each side
    by lines alone, if all others' lines are above its bound; then their keys are above all others."""
    means, widths = blocks.side_mean, blocks.width
    if lines is None:
        return None, _ordered(lower_bound(divergence, means, widths, rate))
    value = lines.value(rate)
    # Of each side, the block whose first arm has the lowest line, and the bound of this arm.
    lead = first(_ordered(value), jnp.arange(top.shape[0], dtype=jnp.int32))[1]
    mean, width = (jnp.stack([at(x, own) for own in lead]) for x in (means, widths))
    bound = lower_bound(divergence, mean, width, rate)
    of_sides = mean, width, _ordered(bound), _straight(divergence, bound)
    # The same by blocks, each of which has what its side has.
    mean, width, key, near = (jnp.where(top, x[0], x[1]) for x in of_sides)
    equal = (means == mean) & (widths == width)
    clear = _least((equal | (value > near)).astype(jnp.int32)) > 0

    def now() -> tuple[Array, Line]:
        bound = lower_bound(divergence, means, widths, rate)
        fall = _tangent(means, widths, bound, rate).fall
        return _ordered(bound), _lowered(divergence, _straight(divergence, bound), fall, rate)

    key, lines = lax.cond(clear, lambda: (jnp.where(equal, key, _FAR), lines), now)
    return lines, key


def _straight(divergence: str, bound: Array) -> Array:
    """Returns a function of bounds that falls along a line, or ever slower, as the exploration rate grows."""
    return bound if divergence == "hoeffding" else jnp.log(jnp.maximum(bound, jnp.float32(1e-38)))


def _ordered(x: Array) -> Array:
    """Returns int32 keys in the order of finite float32 ``x``."""
    return _turned(lax.bitcast_convert_type(x + jnp.float32(0), jnp.int32))


def _float(ordered: Array) -> Array:
    """Returns the float32 number that ``_ordered`` made a key of."""
    return lax.bitcast_convert_type(_turned(ordered), jnp.float32)


def _turned(bits: Array) -> Array:
    """Returns int32 bits of floats as keys, or the keys as bits: of negative floats, all bits but the sign turn."""
    return jnp.where(bits < 0, bits ^ jnp.int32(0x7FFFFFFF), bits)


def _least(x: Array) -> Array:
    """Returns the least int32 of shape (n,), n a power of two or whole rows; of few, first by parts of 16."""
    if x.shape[0] > 256:
        return lowest(x)
    return jnp.min(functools.reduce(jnp.minimum, [x[i : i + 16] for i in range(0, x.shape[0], 16)]))
