"""The variance of an estimated gain under the bootstrap: n of a sample's n answers drawn again, each time any of them.

- ``resampled`` makes such samples of any size. Each of the n draws takes one word and falls to an entity by integers
  alone. Whose entity is whose does not matter, so a resample is frequency counts again. It costs the product of answers
  and distinct entities.
- ``few_resampled`` makes the same draws for at most ``FEW`` answers, where a set of entities is the bits of a word.
- ``delta_variance`` is the limit of many resamples for more answers, for estimators that are smooth functions of a few
  totals. The others are not smooth: a frequency that comes up or not changes the fitted curve by a jump.
"""

import functools
import itertools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from jaxbandit.extraction.estimators import Totals
from jaxbandit.random.draws import LARGEST, scale
from jaxbandit.random.stream import Stream, words
from jaxbandit.xla.batch import over_lanes
from jaxbandit.xla.fence import as_one_kernel
from jaxbandit.xla.fence import once_in_blocks as once
from jaxbandit.xla.formula import formula

_DRAWS, _ENTITIES = 32, 64
"""Draws and entities that are compared at a time."""
_PART = 8
"""Entities whose counts are written out in a loop: all of them would be a large program."""

FEW = 31
"""Samples of so many answers, at most, are resampled in the bits of an int32."""


def before(f: Array) -> Array:
    """Counts the entities in the columns before each one: int32, of the shape of ``f`` (..., V)."""
    column = jnp.arange(f.shape[-1], dtype=jnp.int32)
    earlier = (column[:, None] < column[None, :]).astype(jnp.float32)
    return (f.astype(jnp.float32) @ earlier).astype(jnp.int32)


def resampled(key: Stream, f: Array, sizes: Array, copies: int, columns: int) -> tuple[Array, Array]:
    """Draws bootstrap samples of some samples, as frequency counts.

    Args:
        key: of each sample, (samples,). The draws of its copy c are the words (n, index) with index = c, copies + c,
            2 copies + c ...: two draws each.
        f: int32 (samples, V), its frequency counts.
        sizes: int32 (V,) or (samples, V), the i of each column f_i, all different.
        copies: how many resamples (static).
        columns: of the result, which are of the sizes 1 ... ``columns`` (static).

    Returns:
        int32 (samples, copies, columns); and bool (samples,), whether no entity came up more often than there are
        columns.
    """
    sizes = jnp.broadcast_to(sizes, f.shape)
    n, distinct = jnp.sum(f * sizes, axis=1, dtype=jnp.int32), jnp.sum(f, axis=1, dtype=jnp.int32)
    longest, most = over_lanes(jnp.max(n, initial=0)), over_lanes(jnp.max(distinct, initial=0))
    below = once(before(f))
    bounds = Stream(key.high[:, None, None], key.low[:, None, None])
    copy = jnp.arange(copies, dtype=jnp.int32)
    size = jnp.arange(1, columns + 1, dtype=jnp.int32)

    def entities(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        """The next entities in the order of the columns: how often each is drawn."""
        first, found, fits = carry
        rank = first + jnp.arange(_ENTITIES, dtype=jnp.int32)
        within = rank - below[:, :, None]
        mine = (within >= 0) & (within < f[:, :, None])
        times = jnp.sum(jnp.where(mine, sizes[:, :, None], 0), axis=1, dtype=jnp.int32)
        start = jnp.sum(sizes[:, :, None] * jnp.clip(within, 0, f[:, :, None]), axis=1, dtype=jnp.int32)
        times, start = once(times), once(start)

        def draws(carry: tuple[Array, Array]) -> tuple[Array, Array]:
            done, count = carry
            number = done + jnp.arange(_DRAWS, dtype=jnp.int32)[:, None]
            index = (number[::2] // 2) * copies + copy
            pair = jnp.stack(words(bounds, n[:, None, None], index), axis=2)
            place = scale(pair.reshape(f.shape[0], _DRAWS, copies), n[:, None, None])
            place = once(jnp.where(number < n[:, None, None], place, LARGEST))
            for i in range(_DRAWS):
                # Unsigned, so that what lies before an entity's answers is far beyond them.
                inside = (place[:, i, :, None] - start[:, None, :]).astype(jnp.uint32) < times[:, None, :].astype(
                    jnp.uint32
                )
                count += inside.astype(jnp.int32)
            return done + _DRAWS, count

        none = jnp.zeros((f.shape[0], copies, _ENTITIES), jnp.int32)
        _, count = lax.while_loop(lambda carry: carry[0] < longest, draws, (jnp.int32(0), none))

        def counted(part: Array, found: Array) -> Array:
            some = lax.dynamic_slice_in_dim(count, part * _PART, _PART, axis=2)
            for e in range(_PART):
                found += (some[:, :, e, None] == size).astype(jnp.int32)
            return found

        found = lax.fori_loop(0, _ENTITIES // _PART, counted, found)
        return first + _ENTITIES, found, fits & jnp.all(count <= columns, axis=(1, 2))

    nothing = (jnp.int32(0), jnp.zeros((f.shape[0], copies, columns), jnp.int32), jnp.ones(f.shape[0], bool))
    _, found, fits = lax.while_loop(lambda carry: carry[0] < most, entities, nothing)
    return found, fits


def drawn(key: Stream, f: Array, sizes: Array, copies: int) -> Array:
    """Draws bootstrap samples of samples of at most ``FEW`` answers, draw by draw: those of ``resampled``, which
    explains the arguments.

    Returns:
        int32 (FEW, copies, samples): the entity that each draw falls to, by its rank in the order of the columns;
        ``FEW`` where there are fewer draws.
    """
    n = jnp.sum(f * sizes, axis=1, dtype=jnp.int32)
    # A word has a bit for each answer: those with which an entity begins, every i-th within a column of size i.
    every = np.array([sum(1 << place for place in range(0, FEW, max(i, 1))) for i in range(FEW + 1)], np.int32)
    some = jnp.asarray(every)[jnp.minimum(sizes, FEW)] & ((1 << jnp.minimum(f * sizes, FEW)) - 1)
    first = jnp.sum(jnp.where(f > 0, some << before(f * sizes), 0), axis=1, dtype=jnp.int32)
    index = jnp.arange((FEW + 1) // 2 * copies, dtype=jnp.int32).reshape(-1, copies, 1)
    halves = []
    for part, word in enumerate(words(key, n, index)):
        number = 2 * jnp.arange(index.shape[0], dtype=jnp.int32)[:, None, None] + part
        rank = lax.population_count(first & ((2 << scale(word, n)) - 1)) - 1
        halves.append(once(jnp.where(number < n, rank, FEW)))
    return jnp.stack(halves, axis=1).reshape(-1, copies, f.shape[0])[:FEW]


def few_resampled(
    key: Stream, f: Array, sizes: Array, pair: tuple[Array, Array], outside: Array, copies: int
) -> tuple[Totals, Array, Array]:
    """Computes the totals of ``drawn`` resamples, and what exclude lists take out of them.

    Args:
        key, f, sizes, copies: as in ``resampled``.
        pair: uint32 (l / 2, copies, samples) each, the words of a list's draws 0, 2, 4 ... and 1, 3, 5 ....
        outside: int32 (samples,), further entities that a list may have.

    Returns:
        The totals, int32 (copies, samples); int32 (l or one more, copies, samples), how often each entity of a list
        came up; int32 (copies, samples), of how many entities it is drawn.
    """
    entity = drawn(key, f, sizes, copies)

    def counted(number: Array, digits: tuple[Array, ...]) -> tuple[Array, ...]:
        """One draw more: the counts of all entities, a binary digit of all of them in a word."""
        one = entity[number]
        carry = jnp.where(one < FEW, 1 << one, 0)
        more = []
        for digit in digits:
            more.append(digit ^ carry)
            carry &= digit
        return tuple(more)

    none = jnp.zeros(entity.shape[1:], jnp.int32)
    digits = as_one_kernel(lambda: lax.fori_loop(0, FEW, counted, (none,) * FEW.bit_length()))
    present, large = functools.reduce(jnp.bitwise_or, digits), functools.reduce(jnp.bitwise_or, digits[1:])
    left, many = once(present), once(lax.population_count(present))
    squares = jnp.zeros_like(none)
    for (i, one), (j, other) in itertools.combinations_with_replacement(enumerate(digits), 2):
        squares += lax.population_count(one & other) << (i + j + (i != j))
    n = jnp.broadcast_to(jnp.sum(f * sizes, axis=1, dtype=jnp.int32), none.shape)
    whole = Totals(n, many, once(lax.population_count(present & ~large)), none, once(squares - n))
    pool = many + outside
    before_it = 2 * jnp.arange(pair[0].shape[0], dtype=jnp.int32)[:, None, None]
    halves = [once(scale(some, jnp.maximum(pool - before_it - part, 0))) for part, some in enumerate(pair)]
    ranks = jnp.stack(halves, axis=1).reshape(2 * halves[0].shape[0], *pool.shape)

    def listed(left: Array, rank: Array) -> tuple[Array, Array]:
        """One entity more of each list; those outside have the last ranks."""
        place = once(_nth_bit(left, rank))
        held = rank < lax.population_count(left)
        times = functools.reduce(jnp.add, [((digit >> place) & 1) << i for i, digit in enumerate(digits)])
        return jnp.where(held, left & ~(1 << place), left), jnp.where(held, times, 0)

    return whole, lax.scan(listed, left, ranks)[1], pool


def _nth_bit(mask: Array, rank: Array) -> Array:
    """The place of the set bit with ``rank`` set ones below it: int32."""
    place = jnp.zeros_like(rank)
    for width in (16, 8, 4, 2, 1):
        below = lax.population_count((mask >> place) & ((1 << width) - 1))
        place = jnp.where(rank >= below, place + width, place)
        rank = jnp.where(rank >= below, rank - below, rank)
    return place


@formula
def mean(gains: Array) -> Array:
    """Returns the mean of gains over the first axis."""
    return jnp.sum(gains, axis=0) / gains.shape[0]


@formula
def spread(gains: Array) -> tuple[Array, Array]:
    """Returns the mean of gains over the first axis, and their variance: the mean squared distance from it."""
    centre = jnp.sum(gains, axis=0) / gains.shape[0]
    return centre, jnp.sum((gains - centre) ** 2, axis=0) / gains.shape[0]


_ERFC = 0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429
"""erfc(x) = exp(-x^2) t (_ERFC[0] + _ERFC[1] t + ...) with t = 1 / (1 + 0.3275911 x), within 2e-7, for x >= 0
(Abramowitz and Stegun, 7.1.26)."""


def _normal(z: Array) -> Array:
    """Computes the standard normal distribution function, within 2e-7."""
    x = jnp.abs(z) * np.float32(0.5**0.5)
    t = 1 / (1 + 0.3275911 * x)
    series = functools.reduce(lambda total, coefficient: total * t + coefficient, _ERFC[::-1], jnp.zeros_like(t))
    above = jnp.exp(-x * x) * t * series / 2
    return jnp.where(z > 0, 1 - above, above)


_OFTEN = 30
"""Answers of an entity that is in every resample, but for one in 10^13."""


@formula
def delta_variance(
    f: Array,
    sizes: Array,
    estimate: Callable[[Totals, ArrayLike], Array],
    m: ArrayLike,
    length: ArrayLike,
    outside: ArrayLike,
    unseen: ArrayLike,
) -> Array:
    """Computes the limit of the bootstrap variance for many resamples of many answers, by the delta method.

    In a resample the counts of the entities are Poisson variables whose means are the counts in the sample, given that
    they sum to n. So the totals of a resample have known means and covariances, and the variance of a gain is their
    quadratic form with its gradient at the means. An exclude list of l takes entities out of the resample; its share
    in the variance is that of a sample without replacement from a finite population. Where a resample may have no more
    entities than are excluded, the gain jumps to that of an unseen node, with a normal probability.

    Args:
        f: int32 (samples, V), frequency counts; with fewer than about thirty answers the result is rough.
        sizes: int32 (samples, V), the i of each column.
        estimate: of the gain, one of ``estimators.OF_TOTALS``.
        m: further answers; ``length``: entities excluded; ``unseen``: the gain of a sample that is excluded as a whole;
            each a number for each configuration, (C, 1).
        outside: int32 (samples,), further entities that an exclude list may have.

    Returns:
        float32 (C, samples).
    """
    i = sizes.astype(jnp.float32)
    # No resample is without an entity that was seen often: its share would be lost below the least float32.
    none = jnp.where(i > _OFTEN, 0, jnp.exp(-i))
    single = i * none
    each = i, i**2, i**3, i**4, none, single, i * single, i**2 * single, none**2, none * single, single**2
    # One sum of all: eleven of them would be a larger program.
    n, i2, i3, i4, zero, one, i_one, i2_one, zero_zero, zero_one, one_one = jnp.sum(f * jnp.stack(each), axis=-1)
    distinct = jnp.sum(f, axis=-1) - zero
    # Of four totals, n, D, f1 and the sum of x (x - 1) over the entities' counts x, in this order: their means, their
    # second moments summed over the entities (``second``), and their covariances given n, which are those of Poisson
    # counts (the rows below) less c c' / n, where c are the covariances with n (``with_n``).
    mean = jnp.stack([n, distinct, one, i2])
    second = jnp.stack(
        [
            jnp.stack([i2 + n, n, one, i3 + 2 * i2]),
            jnp.stack([n, distinct, one, i2]),
            jnp.stack([one, one, one, jnp.zeros_like(one)]),
            jnp.stack([i3 + 2 * i2, i2, jnp.zeros_like(one), i4 + 4 * i3 + 2 * i2]),
        ]
    )
    with_n = jnp.stack([n, one, one - i_one, 2 * i2])
    covariance = jnp.stack(
        [
            with_n,
            jnp.stack([one, zero - zero_zero, zero_one, i_one]),
            jnp.stack([one - i_one, zero_one, one - one_one, -i2_one]),
            jnp.stack([2 * i2, i_one, -i2_one, 4 * i3 + 2 * i2]),
        ]
    )
    covariance -= with_n[:, None] * with_n[None] / n
    listed = jnp.asarray(length, jnp.float32)
    pool = jnp.maximum(distinct + outside, listed + 1)
    kept = 1 - listed / pool
    gain, back = jax.vjp(lambda *t: estimate(Totals(t[0], t[1], t[2], t[0], t[3]), m), *(kept * mean[:, None]))
    slope = jnp.stack(back(jnp.ones_like(gain)))
    of_list = jnp.einsum("scn,tcn,stn->cn", slope, slope, second) / pool
    of_list -= (jnp.sum(slope * mean[:, None], axis=0) / pool) ** 2
    whole = kept * slope
    whole = whole.at[1].add(jnp.sum(slope * mean[:, None], axis=0) * listed / pool**2)
    variance = jnp.einsum("scn,tcn,stn->cn", whole, whole, covariance)
    # Where something is listed, the pool has more than one; else, as of a node with one entity, the term is 0.
    variance += listed * kept * pool / jnp.maximum(pool - 1, 1) * jnp.maximum(of_list, 0)
    spread_of_distinct = jnp.sqrt(jnp.maximum(covariance[1, 1], 1e-6))
    short = jnp.where(listed > 0, _normal((listed + 0.5 - distinct - outside) / spread_of_distinct), 0)
    return (1 - short) * (jnp.maximum(variance, 0) + short * (unseen - gain) ** 2)
