"""Exchangeable entities are counted, not held: the synthetic problem where only the law of runs matters.

Entities of a synthetic problem are independent and of one law, so those with the same record are exchangeable. A policy
need not name them: it holds how many there are of a record, and what an entity hides is drawn when it first matters.

Those are its *residual trials*, given the one operation that was made on it: the successes and failures that are
still to come, in a random order, before the success that leaves it clean. Trials with a hidden p are exchangeable, so
each order is as likely as any other, and p itself is never drawn: the law of residual trials has it integrated out.
They are told to an end that no budget reaches (``REACH``): an entity that is not clean by then has that many successes
and failures, and no next one.

Laws of residual trials are tables, made on the host in float64.
"""

from functools import lru_cache
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import NDArray

from jaxbandit.cleaning.fast.mixed import Chances, chances
from jaxbandit.cleaning.fast.ticks import Records, records
from jaxbandit.errors import BadInput
from jaxbandit.laws import Law
from jaxbandit.random.draws import scale
from jaxbandit.random.stream import Stream, words
from jaxbandit.xla.batch import sum_over_lanes
from jaxbandit.xla.fence import once, side_by_side

Floats = NDArray[np.float64]

VISIT, OTHER, RESIDUAL, PLACE, CUT = range(1, 6)
"""What a word of the outcomes' stream is for."""

REACH = (1 << 14, 1 << 16)
"""Operations on an entity to which its residual trials are told: the first that the budget does not pass. Each is
compiled anew."""
MOST_FALSE_VALUES = 64
"""As many an entity may have: for some more, float64 would lose the probabilities of p^s (1 - p)^f."""

VISITS = 16
"""Visits to unmet entities that are drawn at once."""

RARE = 2
"""For ``Operations.visits``: the first of them is known to be none of ``Tables.visits``."""

UNKNOWN = -1
_COUNT = 20
_SLOTS = 16


def pack(gained: Array, made: Array | int) -> Array:
    """Two counts in an int32: at most 2^11 and 2^20."""
    return (gained << _COUNT) | made


def unpack(packed: Array) -> tuple[Array, Array]:
    """The two counts of ``pack``."""
    return packed >> _COUNT, packed & ((1 << _COUNT) - 1)


class Alias(NamedTuple):
    """A law of whole numbers by Walker's alias method ("An efficient method for generating discrete random variables
    with general distributions", ACM TOMS 3, 1977). All of one shape, (a power of two,).

    ``share`` (uint32): which part of a cell, in units of 2^-32, is its ``own`` number, the rest being the ``other``
    (int32).
    """

    share: Array
    own: Array
    other: Array

    def draw(self, high: Array, low: Array, where: Array) -> Array:
        """A number (int32) by two words; some number of the law where not ``where``, at less cost."""
        bits = self.share.shape[0].bit_length() - 1
        cell = jnp.where(where, high >> jnp.uint32(32 - bits), 0).astype(jnp.int32)
        found: Array = jnp.where(low < self.share[cell], self.own[cell], self.other[cell])
        return found


class Tables(NamedTuple):
    """The laws of what entities hide.

    ``visits`` (int32, (2^16,)): equally likely ends of a first visit, which is one operation and, if that succeeds, all
    until the entity is clean: ``pack`` of (false values removed, operations), or ``UNKNOWN``, for which ``others`` has
    the law; ``failed``: the residual trials of an entity after one operation, which failed, ``pack`` of (successes,
    failures); ``records``: what one operation does; ``chances``: the same, of longer records; ``streak`` (float32): how
    many operations on an entity that find it at nothing but successes, the first operation left out, in expectation.
    """

    visits: Array
    others: Alias
    failed: Alias
    records: Records
    chances: Chances
    streak: Array


class Operations(NamedTuple):
    """Some operations on one entity, or a first visit to each of many unmet ones.

    int32 all. ``words``: the number of those that are used, another in each pull; ``residual``: trials of the one
    entity; ``UNKNOWN`` where it is still to be drawn, the entity having failed once; ``cleans``: operations on it;
    ``visits``: 1 or ``RARE`` if unmet entities are visited, else 0.
    """

    words: Array
    residual: Array
    cleans: Array
    visits: Array


class Operated(NamedTuple):
    """The outcome of ``Operations``. ``cleans``: operations on the one entity; none, where it says to ask again;
    ``residual``: its residual trials before them; ``gained``: how many of them succeeded, without that which left it
    clean; ``visits``: the ends of ``VISITS`` visits, as in ``Tables``, and 0 where none was asked for. One that is
    still ``UNKNOWN`` must be the first of the next pull, which is ``RARE``. Up to there it is the policy that says how
    many are made: what is drawn for others was not seen."""

    cleans: Array
    residual: Array
    gained: Array
    visits: tuple[Array, ...]


def operate(tables: Tables, key: Stream, pull: Operations) -> Operated:
    """The outcome of a pull; ``key``: of the run's outcomes."""
    drawn = tables.failed.draw(*words(key, RESIDUAL, pull.words), pull.residual == UNKNOWN)
    residual = once(jnp.where(pull.residual == UNKNOWN, drawn, pull.residual))
    good, bad = unpack(residual)
    taken = jnp.minimum(pull.cleans, good + bad)
    one = scale(words(key, PLACE, pull.words)[0], good + bad) < good
    cut = (pull.cleans > 1) & (pull.cleans < good + bad)
    # A loop is one of all lanes: those that need it wait for each other.
    asked = (pull.cleans > 0) | (pull.visits > 0)
    waiting, going, lanes = (sum_over_lanes(jnp.int32(x)) for x in (cut, asked, True))
    due = cut & ((8 * waiting >= lanes) | (going == waiting))
    some = successes_among(key, pull.words, good, bad, jnp.where(due, taken, 0))
    gained = jnp.where(cut, some, jnp.where(pull.cleans == 1, jnp.where(one, taken, 0), jnp.where(taken > 0, good, 0)))
    return Operated(
        jnp.where(cut & ~due, 0, pull.cleans), residual, gained, _visits(tables, key, pull.words, pull.visits)
    )


def _visits(tables: Tables, key: Stream, index: Array, made: Array) -> tuple[Array, ...]:
    """The ends of visits; of those that ``Tables.visits`` does not know, the first alone is drawn."""
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
    end = ends[(word >> jnp.uint32(32 - _SLOTS)).astype(jnp.int32)]
    return jnp.where((made == RARE) & (number == 0), UNKNOWN, jnp.where(made > 0, end, 0))


def successes_among(key: Stream, index: Array, good: Array, bad: Array, taken: Array) -> Array:
    """How many of some operations succeed, of ``good`` successes and ``bad`` failures in a random order (int32).

    Hypergeometric, drawn one by one.
    """
    few, many = jnp.minimum(good, taken), jnp.maximum(good, taken)

    def two(state: tuple[Array, Array]) -> tuple[Array, Array]:
        number, found = state
        for word in words(key, CUT, index * MOST_FALSE_VALUES + number):
            hit = scale(word, good + bad - number) < many - found
            number, found = number + 1, found + ((number < few) & hit).astype(jnp.int32)
        return number, found

    zero = jnp.zeros_like(few)
    found: Array = lax.while_loop(lambda state: state[0] < few, two, (zero, zero))[1]
    return found


# The tables, on the host.


def nodes(law: Law) -> tuple[Floats, Floats, Floats]:
    """log p, log (1 - p) and weights such that sums over them are expectations, (nodes,) each.

    A law is cut into cells, 1,024 an octave of the distance to the nearer end. In a cell its density is taken as
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


def moments(law: Law, most: int, reach: int) -> Floats:
    """E[p^s (1 - p)^f] of s = 0 ... most, f = 0 ... reach: float64, (most + 1, reach + 1)."""
    log_p, log_q, weight = nodes(law)
    edge = np.exp(np.arange(most + 1)[:, None] * log_p + reach * log_q) @ weight
    step = 128
    inner, outer = np.arange(step), np.arange(0, reach + 1, step)
    last = np.zeros((outer.size, step))
    for begin in range(0, weight.size, 1 << 13):
        part = slice(begin, begin + (1 << 13))
        powers = np.exp(outer[:, None] * log_q[part] + most * log_p[part]) * weight[part]
        last += powers @ np.exp(log_q[part, None] * inner)
    # E[p^s q^f] = E[p^(s + 1) q^f] + E[p^s q^(f + 1)]: all terms are positive, so nothing cancels.
    found = np.empty((most + 1, reach + 1))
    found[most] = last.ravel()[: reach + 1]
    for s in range(most - 1, -1, -1):
        found[s] = np.append(found[s + 1, :-1], edge[s])[::-1].cumsum()[::-1]
    return found


def _log_choose(good: int, reach: int) -> Floats:
    """log of (good + f choose good), f = 0 ... reach."""
    bad = np.arange(reach + 1)
    return np.asarray(sum((np.log1p(bad / i) for i in range(1, good + 1)), np.zeros(reach + 1)))


def _residuals(
    moment: Floats, false_values: Floats, gained: int, failed: int, reach: int
) -> tuple[Floats, NDArray[np.int64], NDArray[np.int64]]:
    """Probabilities (their sum is that of the record), successes and failures, of all residual trials after a record.

    ``false_values``: the distribution of r from 1 on.
    """
    most = len(false_values)
    goods = np.arange(most - gained)
    more = false_values[::-1].cumsum()[::-1]  # more[s]: the probability of r > s
    chances, good, bad = [], [], []
    for s in goods:
        ways = np.exp(_log_choose(int(s), reach)[: reach - s + 1])
        clean = ways[:-1] * moment[gained + s + 1, failed : failed + reach - s]
        last = ways[-1] * moment[gained + s, failed + reach - s]
        chances.append(np.append(clean * false_values[gained + s], last * more[gained + s]))
        bad.append(np.arange(reach - s + 1))
        good.append(np.full(reach - s + 1, s))
    return np.concatenate(chances), np.concatenate(good), np.concatenate(bad)


def alias(weights: Floats, numbers: NDArray[np.int64]) -> Alias:
    """The table of a law of ``numbers``, by sums: what light cells lack is filled from heavy ones, in order."""
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
def _tables(law: Law, weights: tuple[float, ...], reach: int) -> Tables:
    """``weights``: of r from 1 on; residual trials are told to ``reach`` operations."""
    false_values = np.asarray(weights) / sum(weights)
    most = len(weights)
    moment = moments(law, most, reach + 1)
    chance, good, bad = _residuals(moment, false_values, 0, 1, reach)
    failed = alias(chance, good << _COUNT | bad)
    ends = [np.array([moment[0, 1], false_values[0] * moment[1, 0]])], [np.array([1, 1 << _COUNT | 1])]
    if most > 1:
        chance, good, bad = _residuals(moment, false_values, 1, 0, reach)
        ends[0].append(chance)
        ends[1].append((good + 2) << _COUNT | (good + bad + 2))
    chance, number = np.concatenate(ends[0]), np.concatenate(ends[1])
    chance = chance / chance.sum()
    slots = np.floor(chance * (1 << _SLOTS)).astype(np.int64)
    visits = np.full(1 << _SLOTS, UNKNOWN, np.int32)
    visits[: slots.sum()] = np.repeat(number, slots)
    others = alias(chance - slots / (1 << _SLOTS), number)
    successes = np.arange(1, most)
    streak = np.float32(moment[successes, 0] @ (1 - false_values.cumsum()[:-1]))
    singles = records(moment, false_values), chances(moment, false_values)
    return Tables(jnp.asarray(visits), others, failed, *singles, jnp.asarray(streak))


def tables_for(budget: int, weights: Floats, law: Law) -> Tables:
    """The tables of a problem. ``weights``: of r = 0, 1, 2 ...

    Raises:
        BadInput: for a budget above the greatest ``REACH``, or more false values than ``MOST_FALSE_VALUES``.
    """
    most = int(np.flatnonzero(weights).max())
    if budget > REACH[-1]:
        raise BadInput("budget", budget, f"at most {REACH[-1]} where runs are not paired")
    if most > MOST_FALSE_VALUES:
        raise BadInput("false_values", f"up to {most}", f"at most {MOST_FALSE_VALUES} where runs are not paired")
    reach = next(size for size in REACH if size >= budget)
    return _tables(law, tuple(map(float, weights[1 : most + 1])), reach)
