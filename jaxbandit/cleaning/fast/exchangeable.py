"""Exchangeable entities are counted, not held: the synthetic problem where only the law of runs matters.

Entities of a synthetic problem are independent and of one law, so those with the same record are exchangeable. A policy
need not name them: it holds how many there are of a record, and what an entity hides is drawn when it first matters.

Those are its *residual trials*, given the one operation that was made on it: the successes and failures that are
still to come, in a random order, before the success that leaves it clean. Trials with a hidden p are exchangeable, so
each order is as likely as any other, and p itself is never drawn: the law of residual trials has it integrated out.
They are drawn up to a number of operations that no budget exceeds (``LENGTHS``): an entity that is not clean by then
has that many successes and failures, and no next one.

Laws of residual trials are tables, made on the host in float64.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from jaxbandit.errors import BadInput
from jaxbandit.laws import Law
from jaxbandit.random.draws import scale
from jaxbandit.random.stream import Stream, words
from jaxbandit.xla.batch import any_lane, sum_over_lanes
from jaxbandit.xla.fence import once, patiently, side_by_side

Floats = NDArray[np.float64]

VISIT, OTHER, RESIDUAL, PLACE, CUT = range(1, 6)
"""What a word of the outcomes' stream is for."""

LENGTHS = (1 << 14, 1 << 16)
"""Numbers of operations on an entity up to which its residual trials are drawn: the least that is not below the budget
is taken. Each is compiled anew."""
MOST_FALSE_VALUES = 64
"""The most false values an entity may have: for some more, float64 would lose the expectations of p^s (1 - p)^f."""

_TURNS = 8
"""Pairs of trials on accelerators, between two questions whether some lane needs more."""

VISITS = 16
"""Visits to unmet entities that are drawn at once."""

RARE = 2
"""A value of ``Operations.visits``: the first visit is known to be none of ``Tables.visits``."""

UNKNOWN = -1
_COUNT_BITS = 20
_SLOT_BITS = 16


def pack(gained: Any, made: Any) -> Any:
    """Packs two counts, below 2^11 and 2^20, into one int32."""
    return (gained << _COUNT_BITS) | made


def unpack(packed: Array) -> tuple[Array, Array]:
    """Returns the two counts that ``pack`` put into one int32."""
    return packed >> _COUNT_BITS, packed & ((1 << _COUNT_BITS) - 1)


class Alias(NamedTuple):
    """A law of whole numbers, drawn by Walker's alias method ("An efficient method for generating discrete random
    variables with general distributions", ACM TOMS 3, 1977). All arrays have one shape, (a power of two,).

    ``share`` (uint32): the part of a cell, in units of 2^-32, that belongs to its ``own`` number; the rest belongs to
    its ``other`` number (int32 both).
    """

    share: Array
    own: Array
    other: Array

    def draw(self, high: Array, low: Array, where: Array) -> Array:
        """Draws a number (int32) by two words; where not ``where``, any number of the law, at less cost."""
        bits = self.share.shape[0].bit_length() - 1
        cell = jnp.where(where, high >> jnp.uint32(32 - bits), 0).astype(jnp.int32)
        found: Array = jnp.where(low < self.share[cell], self.own[cell], self.other[cell])
        return found


class Chances(NamedTuple):
    """What an operation does by the record of its entity, uint32 in units of 2^-31. Record f ``width`` + g has f
    failures and g successes.

    ``success``: the chance that it succeeds, by records, to the end of the residual trials; ``clean``: the chance that
    it leaves the entity clean, of the first 2 ``width`` records; ``last``: the chance that the success after g others
    leaves the entity clean, (``width``,).
    """

    success: Array
    clean: Array
    last: Array

    @property
    def width(self) -> int:
        """Returns how many numbers of successes the table tells apart."""
        return self.last.shape[0]

    def of(self, failures: Array, successes: Array) -> tuple[Array, Array]:
        """Reads ``success`` and ``last`` of entities with so many failures and successes, which the table must have."""
        record = failures * self.width + successes
        success, last = self.success.at[record], self.last.at[successes]
        return success.get(mode="promise_in_bounds"), last.get(mode="promise_in_bounds")


class Tables(NamedTuple):
    """The laws from which counted entities are drawn, for one problem.

    ``visits`` (int32, (2^16,)): equally likely ends of a first visit, which is one operation and, if that succeeds, all
    until the entity is clean: ``pack`` of (false values removed, operations), or ``UNKNOWN``, for which ``others`` has
    the law; ``failed``: the residual trials of an entity after one operation, which failed, ``pack`` of (successes,
    failures); ``chances``: what one operation does; ``streak`` (float32): how many operations on an entity that find it
    at nothing but successes, the first operation left out, in expectation.
    """

    visits: Array
    others: Alias
    failed: Alias
    chances: Chances
    streak: Array


class Operations(NamedTuple):
    """A pull: some operations on one entity, or a first visit to each of many unmet ones.

    int32 all. ``words``: the number of the words that are used, another in each pull; ``residual``: the residual trials
    of the one entity, ``UNKNOWN`` where they are still to be drawn, after one failure; ``cleans``: operations on it;
    ``visits``: 1 or ``RARE`` if unmet entities are visited, else 0.
    """

    words: Array
    residual: Array
    cleans: Array
    visits: Array


class Operated(NamedTuple):
    """The outcome of ``Operations``. ``cleans``: operations on the one entity, 0 where the policy is to ask again;
    ``residual``: its residual trials before them; ``gained``: how many of them succeeded, without the one that left it
    clean; ``visits``: the ends of ``VISITS`` visits, as in ``Tables``, and 0 where none was asked for. A visit that is
    still ``UNKNOWN`` must be the first of the next pull, which is ``RARE``. The policy says how many of those before it
    are made; the others are drawn again later, as nothing has seen them."""

    cleans: Array
    residual: Array
    gained: Array
    visits: tuple[Array, ...]


def operate(tables: Tables, key: Stream, pull: Operations) -> Operated:
    """Draws the outcome of a pull, by the stream ``key`` of the run's outcomes."""
    drawn = tables.failed.draw(*words(key, RESIDUAL, pull.words), pull.residual == UNKNOWN)
    residual = once(jnp.where(pull.residual == UNKNOWN, drawn, pull.residual))
    good, bad = unpack(residual)
    taken = jnp.minimum(pull.cleans, good + bad)
    one = scale(words(key, PLACE, pull.words)[0], good + bad) < good
    some = (pull.cleans > 1) & (pull.cleans < good + bad)
    # Some of the residual trials are drawn one by one in a loop that all lanes share. A lane that needs it asks again,
    # with no operation made, until an eighth of the lanes do, or all that go on.
    asked = (pull.cleans > 0) | (pull.visits > 0)
    waiting, going, lanes = (sum_over_lanes(jnp.int32(x)) for x in (some, asked, True))
    due = some & ((8 * waiting >= lanes) | (going == waiting))
    among = successes_among(key, pull.words, good, bad, jnp.where(due, taken, 0))
    gained = jnp.where(
        some, among, jnp.where(pull.cleans == 1, jnp.where(one, taken, 0), jnp.where(taken > 0, good, 0))
    )
    return Operated(
        jnp.where(some & ~due, 0, pull.cleans), residual, gained, _visits(tables, key, pull.words, pull.visits)
    )


def _visits(tables: Tables, key: Stream, index: Array, made: Array) -> tuple[Array, ...]:
    """Draws the ends of visits; of those that ``Tables.visits`` does not know, the first alone is drawn."""
    ends = _slots(tables.visits, key, index, made)
    first = jnp.int32(VISITS)
    for number in reversed(range(VISITS)):
        first = jnp.where(ends[number] == UNKNOWN, number, first)
    first = once(first)
    other = once(tables.others.draw(*words(key, OTHER, index), first < VISITS))
    return tuple(jnp.where(first == number, other, end) for number, end in enumerate(ends))


@side_by_side(VISITS)
def _slots(number: Array, ends: Array, key: Stream, index: Array, made: Array) -> Array:
    word = words(key, VISIT, index * VISITS + number)[0]
    end = ends[(word >> jnp.uint32(32 - _SLOT_BITS)).astype(jnp.int32)]
    return jnp.where((made == RARE) & (number == 0), UNKNOWN, jnp.where(made > 0, end, 0))


def successes_among(key: Stream, index: Array, good: Array, bad: Array, taken: Array) -> Array:
    """Draws how many of the first ``taken`` of ``good`` successes and ``bad`` failures in random order are successes.

    The number is hypergeometric (int32); its trials are drawn one by one.
    """
    few, many = jnp.minimum(good, taken), jnp.maximum(good, taken)

    def two(turn: Array, found: Array) -> Array:
        for part, word in enumerate(words(key, CUT, index * MOST_FALSE_VALUES + 2 * turn)):
            number = 2 * turn + part
            hit = scale(word, good + bad - number) < many - found
            found = found + ((number < few) & hit).astype(jnp.int32)
        return found

    return patiently(
        MOST_FALSE_VALUES // 2 + 1, lambda turn, _: any_lane(2 * turn < few), two, jnp.zeros_like(few), _TURNS
    )


# The tables, on the host.


def nodes(law: Law) -> tuple[Floats, Floats, Floats]:
    """Returns log p, log (1 - p) and weights such that weighted sums are expectations under ``law``, (nodes,) each.

    The law is cut into cells, 1,024 an octave of the distance to the nearer end. In a cell its density is taken as
    linear, with the masses of both halves; so two nodes of Gauss are exact for polynomials of the second degree.
    """
    octaves = np.ldexp(1.0, np.arange(-31, -1))
    ends = np.concatenate([[0.0], (octaves[:, None] * (1 + np.arange(1024) / 1024)).ravel(), [0.5]])
    middle, half = (ends[1:] + ends[:-1]) / 2, np.diff(ends) / 2
    near = np.concatenate([middle - half / np.sqrt(3), middle + half / np.sqrt(3)])
    weights = []
    for side in (law, law.complement()):
        start, centre, end = side.cdf(ends[:-1]), side.cdf(middle), side.cdf(ends[1:])
        mass = np.maximum(end - start, 0)
        lean = np.clip((start + end - 2 * centre) / np.sqrt(3), -mass / 2, mass / 2)
        weights += [mass / 2 - lean, mass / 2 + lean]
    low, high, weight = np.log(near), np.log1p(-near), np.concatenate(weights)
    kept = weight > 0
    return np.concatenate([low, high])[kept], np.concatenate([high, low])[kept], weight[kept] / weight.sum()


def moments(law: Law, most: int, length: int) -> Floats:
    """Computes E[p^s (1 - p)^f] for s = 0 ... most and f = 0 ... length: float64, (most + 1, length + 1)."""
    log_p, log_q, weight = nodes(law)
    edge = np.exp(np.arange(most + 1)[:, None] * log_p + length * log_q) @ weight
    step = 128
    inner, outer = np.arange(step), np.arange(0, length + 1, step)
    last = np.zeros((outer.size, step))
    for begin in range(0, weight.size, 1 << 13):
        part = slice(begin, begin + (1 << 13))
        powers = np.exp(outer[:, None] * log_q[part] + most * log_p[part]) * weight[part]
        last += powers @ np.exp(log_q[part, None] * inner)
    # E[p^s q^f] = E[p^(s + 1) q^f] + E[p^s q^(f + 1)]: all terms are positive, so nothing cancels.
    found = np.empty((most + 1, length + 1))
    found[most] = last.ravel()[: length + 1]
    for s in range(most - 1, -1, -1):
        found[s] = np.append(found[s + 1, :-1], edge[s])[::-1].cumsum()[::-1]
    return found


def _log_choose(good: int, length: int) -> Floats:
    """Computes log (good + f choose good) for f = 0 ... length."""
    bad = np.arange(length + 1)
    return np.asarray(sum((np.log1p(bad / i) for i in range(1, good + 1)), np.zeros(length + 1)))


def _residuals(
    moment: Floats, false_values: Floats, gained: int, failed: int, length: int
) -> tuple[Floats, NDArray[np.int64], NDArray[np.int64]]:
    """Returns probabilities (their sum is the record's), successes and failures of all residual trials after a record.

    ``false_values``: the distribution of r from 1 on.
    """
    most = len(false_values)
    goods = np.arange(most - gained)
    more = false_values[::-1].cumsum()[::-1]  # more[s]: the probability of r > s
    chances, good, bad = [], [], []
    for s in goods:
        # In each order of s successes and f failures, either the next success leaves the entity clean, which has s + 1
        # false values then; or the trials are as many as are drawn at most, and it has more than s.
        ways = np.exp(_log_choose(int(s), length)[: length - s + 1])
        clean = ways[:-1] * moment[gained + s + 1, failed : failed + length - s]
        last = ways[-1] * moment[gained + s, failed + length - s]
        chances.append(np.append(clean * false_values[gained + s], last * more[gained + s]))
        bad.append(np.arange(length - s + 1))
        good.append(np.full(length - s + 1, s))
    return np.concatenate(chances), np.concatenate(good), np.concatenate(bad)


def width(most: int) -> int:
    """Returns how many numbers of successes a table tells apart for up to so many false values: each is compiled
    for."""
    return -(-most // 4) * 4


def _chances(moment: Floats, false_values: Floats) -> Chances:
    """Makes the table from ``moments`` and the distribution ``false_values`` of r from 1 on."""
    most = len(false_values)
    success, last = np.zeros((moment.shape[1], width(most))), np.ones(width(most))
    more = false_values[::-1].cumsum()[::-1]
    success[:, :most] = np.divide(moment[1:], moment[:-1], out=np.zeros_like(moment[1:]), where=moment[:-1] > 0).T
    last[:most] = np.divide(false_values, more, out=np.ones(most), where=more > 0)

    def units(chance: Floats) -> Array:
        return jnp.asarray(np.rint(np.clip(chance, 0, 1) * 2.0**31).astype(np.uint32).ravel())

    return Chances(units(success), units(success[:2] * last), units(last))


def alias(weights: Floats, numbers: NDArray[np.int64]) -> Alias:
    """Makes the table of a law of ``numbers``: by sums, what light cells lack is filled from heavy ones, in order."""
    size = 1 << (weights.size - 1).bit_length()
    mass = np.append(weights, np.zeros(size - weights.size)) / weights.sum() * size
    value = np.append(numbers, np.full(size - weights.size, numbers[0])).astype(np.int32)
    light, heavy = np.flatnonzero(mass < 1), np.flatnonzero(mass >= 1)
    lack, surplus = (1 - mass[light]).cumsum(), (mass[heavy] - 1).cumsum()
    share, other = np.ones(size), np.arange(size)
    filler = np.searchsorted(surplus, np.append(0, lack[:-1]), side="right")
    share[light], other[light] = mass[light], heavy[np.minimum(filler, heavy.size - 1)]
    # A heavy cell gives until it has less than 1 itself; the next one fills that.
    after = np.append(lack, np.inf)[np.searchsorted(lack, surplus, side="left")]
    short = np.isfinite(after[:-1])
    share[heavy[:-1][short]] = 1 - (after[:-1] - surplus[:-1])[short]
    other[heavy[:-1][short]] = heavy[1:][short]
    units = np.rint(np.clip(share, 0, 1) * 2.0**32)
    other[units == 2.0**32] = np.arange(size)[units == 2.0**32]
    return Alias(*map(jnp.asarray, (np.minimum(units, 2.0**32 - 1).astype(np.uint32), value, value[other])))


@lru_cache(maxsize=8)
def _tables(law: Law, weights: tuple[float, ...], length: int) -> Tables:
    """Makes the tables for ``weights`` of r from 1 on, with residual trials up to ``length`` operations."""
    false_values = np.asarray(weights) / sum(weights)
    most = len(weights)
    moment = moments(law, most, length + 1)
    chance, good, bad = _residuals(moment, false_values, 0, 1, length)
    failed = alias(chance, pack(good, bad))
    ends = [np.array([moment[0, 1], false_values[0] * moment[1, 0]])], [pack(np.array([0, 1]), 1)]
    if most > 1:
        chance, good, bad = _residuals(moment, false_values, 1, 0, length)
        ends[0].append(chance)
        ends[1].append(pack(good + 2, good + bad + 2))
    chance, number = np.concatenate(ends[0]), np.concatenate(ends[1])
    chance = chance / chance.sum()
    # A whole number of slots whose last bit a processor's sums round down stays whole.
    slots = np.floor(chance * (1 << _SLOT_BITS) + 2.0**-24).astype(np.int64)
    visits = np.full(1 << _SLOT_BITS, UNKNOWN, np.int32)
    visits[: slots.sum()] = np.repeat(number, slots)
    rest = np.maximum(chance - slots / (1 << _SLOT_BITS), 0)
    others = alias(rest if rest.any() else chance, number)  # no rest: the slots have it all
    successes = np.arange(1, most)
    streak = np.float32(moment[successes, 0] @ (1 - false_values.cumsum()[:-1]))
    return Tables(jnp.asarray(visits), others, failed, _chances(moment, false_values), jnp.asarray(streak))


def tables_for(budget: int, weights: Floats, law: Law) -> Tables:
    """Makes the tables of a problem with ``weights`` of r = 0, 1, 2 ..., or finds those that it made before.

    Raises:
        BadInput: for a budget above the greatest of ``LENGTHS``, or more false values than ``MOST_FALSE_VALUES``.
    """
    most = int(np.flatnonzero(weights).max())
    if budget > LENGTHS[-1]:
        raise BadInput("budget", budget, f"at most {LENGTHS[-1]} where runs are not paired")
    if most > MOST_FALSE_VALUES:
        raise BadInput("false_values", f"up to {most}", f"at most {MOST_FALSE_VALUES} where runs are not paired")
    length = next(size for size in LENGTHS if size >= budget)
    return _tables(law, tuple(map(float, weights[1 : most + 1])), length)
