"""Operations on entities drawn at random, many at once, where exchangeable ones are counted (``exchangeable.py``).

As many *ticks* as operations are left fall on the entities alive, each on any of them. What becomes of an entity
depends on its own ticks alone, and a tick on an entity that is clean by then is void: it costs nothing. So ticks never
overspend, and the operations that they stand for are those of ``random.py``. The few that are left for the void ones
are drawn one by one.

How often unmet entities are ticked is drawn as for a Poisson number of ticks, level by level. Then single ticks are
added or taken away until they are as many as they must be: given their total, Poisson ticks fall uniformly too.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import jax.numpy as jnp
from jax import Array, lax

from jaxbandit.cleaning.fast.exchangeable import Chances
from jaxbandit.random.counts import binomial
from jaxbandit.random.draws import scale
from jaxbandit.random.stream import Stream, substream, words
from jaxbandit.xla.batch import any_lane
from jaxbandit.xla.elementary import pinned
from jaxbandit.xla.exact import quotient
from jaxbandit.xla.fence import ENDLESS, once, patiently

T = TypeVar("T")

UNMET, LEVEL, ADJUST, RESIDUAL, LONE, MET, ONE = range(8, 15)
"""What a word of the outcomes' stream is for."""

_BITS = 4
SIDE = 1 << _BITS
"""Records are told apart by up to 15 failures and 15 successes: record f ``SIDE`` + g has f and g of them. Where they
may be counted so (``fits``), more than 15 operations on one entity have a chance below 2^-32 a run, less than the
rounding of a word; more failures or successes would count as 15."""
CLASSES = SIDE * SIDE
_TURNS = 16
"""Turns after which an accelerator asks whether a loop goes on."""
_LEAST = 32
"""Ticks from which on they are drawn many at once."""


def _split(record: Array) -> tuple[Array, Array]:
    """Returns the failures and the successes of a record."""
    return record >> _BITS, record & (SIDE - 1)


def fits(budget: int, entities: float) -> bool:
    """Tells whether records of 15 failures and successes suffice for ``budget`` operations on about so many
    entities."""
    return 2 * budget <= entities


class Ticks(NamedTuple):
    """A pull: operations on entities drawn at random. ``counts``: int32, (CLASSES,), how many are alive with a record
    or one before it, record 0 being that of the unmet. ``words``: as in ``exchangeable.Operations``; ``cleans``: how
    many are to be made (int32)."""

    words: Array
    counts: Array
    cleans: Array


class Ticked(NamedTuple):
    """The outcome of ``Ticks``: the counts after them, operations made, false values removed, entities finished."""

    counts: Array
    cleans: Array
    removed: Array
    finished: Array

    def tick(self, table: Chances, key: Stream, number: Array, rank: Array, where: Array) -> "Ticked":
        """Makes one operation on the entity of a rank in the order of records, where there is one and ``where``
        holds."""
        where = where & (rank < self.counts[-1])
        # By bisection, the first record up to which there are more entities than ``rank``.
        old = jnp.int32(0)
        for bit in range((CLASSES - 1).bit_length())[::-1]:
            old = old + jnp.where(self.counts[old + (1 << bit) - 1] <= rank, 1 << bit, 0)
        old = once(jnp.where(where, old, 0))
        won, clean = _operation(table, key, number, old)
        # An entity that leaves the record ``old`` for ``new`` is counted no more from ``old`` to before ``new``.
        failed, gained = _split(old)
        new = jnp.minimum(failed + 1 - won, SIDE - 1) * SIDE + jnp.minimum(gained + won, SIDE - 1)
        new = jnp.where(clean, CLASSES, new)
        place = jnp.arange(CLASSES, dtype=jnp.int32)
        moved = (place >= new).astype(jnp.int32) - (place >= old).astype(jnp.int32)
        made = where.astype(jnp.int32)
        return Ticked(
            self.counts + made * moved,
            self.cleans + made,
            self.removed + made * won,
            self.finished + made * clean.astype(jnp.int32),
        )


def _operation(table: Chances, key: Stream, number: Array, record: Array) -> tuple[Array, Array]:
    """Draws whether an operation on an entity with a record succeeds (0 or 1), and whether the entity is clean then."""
    high, low = words(key, 0, number)
    success, last = table.of(*_split(record))
    won = high >> jnp.uint32(1) < success
    packed = once(won.astype(jnp.int32) * 2 + (won & (low >> jnp.uint32(1) < last)).astype(jnp.int32))
    return packed >> 1, packed & 1 > 0


def make_ticks(table: Chances, key: Stream, pull: Ticks) -> Ticked:
    """Draws the outcome of a pull, by the stream ``key`` of the run's outcomes."""
    zero = jnp.int32(0)
    unmet, alive = pull.counts[0], pull.counts[-1]
    ticks = jnp.where(pull.cleans >= _LEAST, jnp.minimum(pull.cleans, alive), 0)
    share = quotient(unmet.astype(jnp.float32), jnp.maximum(alive, 1).astype(jnp.float32))
    fresh = jnp.where(unmet < alive, binomial(key, UNMET, pull.words, ticks, share), ticks)
    fresh = jnp.minimum(fresh, (SIDE - 1) * jnp.minimum(unmet, 1 << 16))
    known, state = substream(key, MET, pull.words), Ticked(pull.counts, zero, zero, zero)

    # Ticks on the entities met before, clean ones among them as they become so.
    def again(number: Array, state: Ticked) -> Ticked:
        rank = unmet + scale(words(known, 1, number)[0], alive - unmet)
        return state.tick(table, known, number, rank, number < ticks - fresh)

    state = _patiently(lambda number, _: number < ticks - fresh, again, state)
    state = _on_unmet(table, key, pull.words, fresh, state)
    alone = substream(key, ONE, pull.words)

    def more(state: Ticked) -> Array:
        going: Array = (state.cleans < pull.cleans) & (state.counts[-1] > 0)
        return going

    def one(_: Array, state: Ticked) -> Ticked:
        rank = scale(words(alone, 1, state.cleans)[0], state.counts[-1])
        return state.tick(table, alone, state.cleans, rank, more(state))

    return _patiently(lambda _, state: more(state), one, state)


def _patiently(going: Callable[[Array, T], Array], turn: Callable[[Array, T], T], state: T) -> T:
    """Makes turns while any lane is ``going``; a turn leaves the others as they are."""
    return patiently(ENDLESS, lambda number, state: any_lane(going(number, state)), turn, state, _TURNS)


def _on_unmet(table: Chances, key: Stream, index: Array, ticks: Array, state: Ticked) -> Ticked:
    """Makes the operations of ``ticks`` that fall on the unmet entities."""
    levels = _levels(key, index, ticks, state.counts[0])
    return _lone(table, key, index, levels, _bulk(table, key, index, levels, state))


def _levels(key: Stream, index: Array, ticks: Array, unmet: Array) -> Array:
    """Draws how many of the unmet entities have at least k + 1 ticks: int32, (SIDE,), the last one 0."""
    mean = quotient(ticks.astype(jnp.float32), jnp.maximum(unmet, 1).astype(jnp.float32))
    # The Poisson tail from k on is exp(-mean) mean^k / k! times series[k]. The quotient of two tails is chances[k]: the
    # chance that an entity with at least k ticks has more than k.
    series = [jnp.ones((), jnp.float32)]
    for k in range(2 * SIDE, 0, -1):
        series.append(1 + pinned(mean * (1 / k) * series[-1]))
    series = series[::-1]
    chances = pinned(jnp.stack([mean * (1 / (k + 1)) * quotient(series[k + 1], series[k]) for k in range(SIDE - 1)]))

    def deeper(k: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        count, sums = carry
        count = binomial(key, LEVEL, index * SIDE + k, count, chances[k])
        return count, sums + jnp.where(jnp.arange(SIDE) >= k, count, 0)

    sums = lax.fori_loop(0, SIDE - 1, deeper, (unmet, jnp.zeros(SIDE, jnp.int32)))[1]
    own = substream(key, ADJUST, index)

    def levels(sums: Array) -> Array:
        """Returns how many entities are on each level, by how many are on it and those before it."""
        return sums - jnp.concatenate([jnp.zeros(1, jnp.int32), sums[:-1]])

    def adjust(number: Array, sums: Array) -> Array:
        # Entities stand in the order of their ticks: that of a rank has as many as there are levels above it.
        counts, total = levels(sums), sums[-1]
        missing = ticks - total
        word = words(own, 0, number)[0]
        place = scale(word, jnp.where(missing > 0, unmet, total))
        level = jnp.sum(sums <= place, dtype=jnp.int32)
        before = jnp.where(level > 0, sums[jnp.maximum(level - 1, 0)], 0)
        # A tick is added to any unmet entity, or any of the ticks is taken away: its entity has ``has`` of them.
        rank = jnp.where(missing > 0, place, place - before)
        has = jnp.sum(counts > rank, dtype=jnp.int32)
        step = jnp.where((missing > 0) & (has < SIDE - 1), (jnp.arange(SIDE) >= has).astype(jnp.int32), 0)
        step = step - jnp.where(missing < 0, (jnp.arange(SIDE) >= has - 1).astype(jnp.int32), 0)
        return sums + step

    return levels(_patiently(lambda _, sums: sums[-1] != ticks, adjust, sums))


def _bulk(table: Chances, key: Stream, index: Array, levels: Array, state: Ticked) -> Ticked:
    """Makes the operations on entities with one tick and with two, by binomial counts."""
    group = jnp.stack([levels[0] - levels[1], levels[1] - levels[2]])
    # For both groups: successes, and those that leave an entity clean. Then the same for the second operation on those
    # of the latter group that failed, and on those that succeeded.
    units = table.of(jnp.array([[0, 0], [1, 0]]), jnp.array([[0, 0], [0, 1]]))
    won, clean = (chance.astype(jnp.float32) * jnp.float32(2**-31) for chance in units)
    chances = jnp.stack([won[0], clean[0], won[1], clean[1]])

    def draw(k: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        of, drawn = carry
        found = binomial(key, RESIDUAL, index * SIDE + 2 * k + jnp.arange(2, dtype=jnp.int32), of, chances[k])
        drawn = jnp.where(jnp.arange(4)[:, None] == k, found, drawn)
        return jnp.where(k == 1, jnp.stack([group[1] - drawn[0, 1], drawn[0, 1] - drawn[1, 1]]), found), drawn

    drawn = lax.fori_loop(0, 4, draw, (group, jnp.zeros((4, 2), jnp.int32)))[1]
    dirty, again = drawn[0] - drawn[1], drawn[2] - drawn[3]
    failed, place = group - drawn[0], jnp.arange(CLASSES, dtype=jnp.int32)
    counts = state.counts - (levels[0] - levels[2])
    for record, count in (
        (SIDE, failed[0]),  # one tick, which failed
        (1, dirty[0]),  # one that succeeded
        (2 * SIDE, failed[1] - drawn[2, 0]),  # two that failed
        (SIDE + 1, again[0] + dirty[1] - drawn[2, 1]),  # one of each, in either order
        (2, again[1]),  # two that succeeded
    ):
        counts = counts + jnp.where(place >= record, count, 0)
    return Ticked(
        counts,
        state.cleans + group[0] + 2 * group[1] - drawn[1, 1],
        state.removed + jnp.sum(drawn[0] + drawn[2], dtype=jnp.int32),
        state.finished + jnp.sum(drawn[1] + drawn[3], dtype=jnp.int32),
    )


def _lone(table: Chances, key: Stream, index: Array, levels: Array, state: Ticked) -> Ticked:
    """Makes the operations on entities with three ticks and more, one in each turn."""
    own, place = substream(key, LONE, index), jnp.arange(CLASSES, dtype=jnp.int32)

    def going(_: Array, carry: tuple[Array, Array, Ticked]) -> Array:
        return carry[0] < levels[2]

    def turn(number: Array, carry: tuple[Array, Array, Ticked]) -> tuple[Array, Array, Ticked]:
        entity, record, state = carry
        made = (entity < levels[2]).astype(jnp.int32)
        won, clean = _operation(table, own, number, record)
        after = record + jnp.where(won > 0, 1, SIDE)
        over = clean | (sum(_split(after)) >= jnp.sum(levels > entity, dtype=jnp.int32))
        gone = jnp.where(over, made, 0)
        kept = jnp.where(clean, CLASSES, after)
        state = Ticked(
            state.counts + gone * ((place >= kept).astype(jnp.int32) - 1), state.cleans + made,
            state.removed + made * won, state.finished + made * clean.astype(jnp.int32),
        )  # fmt: skip
        return entity + gone, once(jnp.where(over, 0, after)), state

    return _patiently(going, turn, (jnp.int32(0), jnp.int32(0), state))[2]
