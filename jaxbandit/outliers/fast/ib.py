"""IB in batches of pulls: ``tests/test_outlier_policies.py::test_ib_is_its_oracle`` ties it to
``jaxbandit.outliers.ib``.

A pull depends on the one before, but nearly all pulls go to few arms. So an evaluation picks a few *candidates*, the
best mean and the highest upper bounds, and a batch follows the rule among these alone. The means of the other arms
stay, and their radii grow with T. A batch ends where one of them might be pulled, where float32 does not tell which arm
is next, where a search may be over, or where the rewards that were drawn for an arm are used up.

Among many arms with few pulls, most have the same record as others. Of equal arms the rule takes the first. So the
others whose means are that of the *leader*, the best arm as the batch begins, do not come before an arm that is not
behind it; and those with the record of the last candidate come after it, until it is pulled.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxbandit.grammar import Execution, accelerated
from jaxbandit.outliers.double_float import in_float64
from jaxbandit.outliers.fast.leap import low_bits, outliers
from jaxbandit.outliers.fast.log_terms import LogTerms, tabulated
from jaxbandit.outliers.ib import IB, Move
from jaxbandit.outliers.problem import MOST, Chosen, OutlierArms, View
from jaxbandit.outliers.record import Seen, answer, means_of
from jaxbandit.pytree import pytree
from jaxbandit.random.counts import pinned
from jaxbandit.xla.batch import any_lane
from jaxbandit.xla.entries import gathered, select
from jaxbandit.xla.fence import computed_once, patiently, rarely
from jaxbandit.xla.prefix import highest

CANDIDATES = 8
"""The arms in a batch. The pulls of each take 8 bits in one of two int32 numbers."""
MOST_PULLS = 40
"""The most pulls in a batch."""

_REWARDS = (*[MOST] * 2, *[MOST // 2] * 2, *[MOST // 4] * 4)
"""How many rewards are drawn for each candidate: most pulls are of the first few."""

_UNSURE = 2.0**-21
"""The distance of sums of a mean and a radius below which float32 cannot be trusted: several times its error."""

_TINY = 2.0**-48
"""The same for float64."""

_EXACT = 2**26
"""Up to so many pulls, means that are closer than ``_UNSURE`` are compared exactly (``_ahead``)."""

_STOP, _OVER = CANDIDATES, 2**30
_OF_LANE = 11
"""Operands of ``_next`` that are no candidate's."""


class _Others(NamedTuple):
    """Bounds the arms that are left and are no candidates: the best ``mean`` (without those that are equal to the
    leader's, and of all), the highest ``upper`` bound (without those with the record of the last candidate, and of all)
    and the ``widest`` radius, float32; 0 where there are none. ``leader``: its number, pulls and rewards (int32)."""

    mean: tuple[Array, Array]
    upper: tuple[Array, Array]
    widest: Array
    leader: tuple[Array, Array, Array]


class State(NamedTuple):
    """Holds the record, the arms that were not removed (``left``, bool (n,)), the candidates (``arms``, of which the
    first is pulled next; int32, -1 for none), bounds of the ``others``, and whether the rule has ``ended``."""

    seen: Seen
    left: Array
    arms: tuple[Array, ...]
    others: _Others
    ended: Array


@pytree
@dataclass(frozen=True)
class IBInBatches:
    """Runs a ``rule`` of IB in batches, with a table of its ``log_terms``; ``n`` (static): how many arms."""

    rule: IB
    log_terms: LogTerms
    n: int = field(metadata={"static": True})

    @property
    def execution(self) -> Execution:
        """Says that a step works on a few arrays of all arms."""
        return Execution(stride=16, cache_mib=1, step_bytes=512 + 32 * self.n, most_lanes=64, masked=True, gain_ns=400)

    def init(self, view: View) -> State:
        """Begins with the first arms as candidates, each to be pulled once."""
        zero = jnp.float32(0)
        none = _Others((zero, zero), (zero, zero), zero, (jnp.int32(0), jnp.int32(1), jnp.int32(0)))
        return State(Seen.nothing(self.n), jnp.ones(self.n, bool), self._opening(jnp.int32(0)), none, jnp.bool_(False))

    def advance(self, view: View, state: State, sample: Callable[[Chosen], Array]) -> State:
        """Pulls each arm once at first; then makes the pulls of a batch, and picks the candidates of the next one."""
        n, goes = self.n, ~self.done(view, state)
        arms, first = jnp.arange(n, dtype=jnp.int32), state.seen.total < n
        few = jnp.stack(state.arms)
        pulls, own_ones = (gathered(x, jnp.maximum(few, 0)) for x in (state.seen.pulls, state.seen.ones))
        words: list[Array] = []
        for most, slots in itertools.groupby(range(CANDIDATES), _REWARDS.__getitem__):
            these = slice(len(words), len(words) + len(list(slots)))
            words.extend(sample(Chosen(few[these], pulls[these], most)))
        made_of = self._pulls(view, state, list(pulls), list(own_ones), words)
        counts = ones = jnp.zeros(n, jnp.int32)
        for arm, made, word in zip(state.arms, made_of, words, strict=True):
            made = jnp.where(first, (arm >= 0).astype(jnp.int32), made)
            here = arms == arm
            counts = jnp.where(here, made, counts)
            ones = jnp.where(here, lax.population_count(word & low_bits(made)).astype(jnp.int32), ones)
        seen = state.seen.add(counts, ones)
        opening = seen.total < n
        some = Seen(jnp.maximum(seen.pulls, 1), seen.ones, jnp.maximum(seen.total, 1))
        after = self.at(some, state.left, ~opening & goes)
        following = select(opening, self._opening(seen.total), after.arms)
        return select(goes, after._replace(seen=seen, arms=following), state)

    def at(self, seen: Seen, left: Array, going: Array) -> State:
        """Returns the state where each arm was pulled and some are ``left``, with the candidates of the next batch;
        exactly where ``going`` (bool)."""
        y = means_of(seen.pulls, seen.ones)
        # Pinned, so that an upper bound is the same number wherever it is computed: ``_screen`` finds arms by it.
        radii = pinned(_radii(self.rule.scale.hi, self.log_terms.at(seen.total), seen.pulls))
        unclear, pair = self._screen(seen, left, y, radii)
        move = _closely(unclear & going, Move(left, *pair, jnp.bool_(False)), self.rule, seen, left)
        return State(seen, move.left, *self._candidates(seen, move, y, y + radii), move.ended)

    def _opening(self, total: Array) -> tuple[Array, ...]:
        """Returns the next arms that were not pulled, as candidates."""
        return tuple(jnp.where(total + j < self.n, total + j, -1) for j in range(CANDIDATES))

    def _pulls(
        self, view: View, state: State, pulls: list[Array], ones: list[Array], words: list[Array]
    ) -> list[Array]:
        """Returns how often the batch pulls each candidate."""
        total = jnp.maximum(state.seen.total, 1)
        log_term, scale = self.log_terms.at(total), self.rule.scale.hi
        many = jnp.where(total < _EXACT, jnp.minimum(MOST_PULLS, total), 1)
        many = jnp.minimum(many, view.budget - state.seen.total)
        of_lane = (scale * scale, log_term, 1 / total.astype(jnp.float32), *jax.tree.leaves(state.others))

        def one(_: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            number, low, high = carry
            found = _next(*of_lane, *state.arms, *pulls, *ones, *words, low, high, number)
            goes = (found < _STOP) & (number < many)
            place = jnp.where(goes, jnp.int32(1) << (8 * (found & 3)), 0)
            low, high = low + jnp.where(found < 4, place, 0), high + jnp.where(found < 4, 0, place)
            return jnp.where(goes, number + 1, _OVER), low, high

        start = (jnp.int32(1), jnp.int32(1), jnp.int32(0))
        _, low, high = patiently(MOST_PULLS, lambda _, carry: any_lane(carry[0] < many), one, start)
        return [_made(low, high, j) for j in range(CANDIDATES)]

    def _screen(self, seen: Seen, left: Array, y: Array, radii: Array) -> tuple[Array, tuple[Array, Array]]:
        """Returns whether float32 does not tell what to do, or a search may be over; and, if neither, the arm to pull
        and the other one of the pair."""
        arms = jnp.arange(self.n, dtype=jnp.int32)

        def first(where: Array) -> Array:
            return jnp.minimum(-_most(jnp.where(where, -arms, -self.n)), self.n - 1)

        most = _highest(y, left)
        some = first(left & (y == most))
        ahead = seen.ones * seen.pulls[some] - seen.ones[some] * seen.pulls
        close = left & (y >= most - _UNSURE)
        unclear = jnp.any(close & (ahead > 0)) | (seen.total >= _EXACT)
        best = first(close & (ahead == 0))
        others, upper = left & (arms != best), y + radii
        top = _highest(upper, others)
        rival = first(others & (upper == top))
        pulls, rival_pulls = seen.pulls[best], seen.pulls[rival]
        near = others & ~_same_record(seen, rival) & (upper >= top - _UNSURE * (1 + top))
        second = first(near)
        doubtful = jnp.any(near & ~_same_record(seen, second)) | ~_above(self.rule, self.log_terms, seen, rival, second)
        unclear = unclear | (near[second] & doubtful)
        lower = y[best] - radii[best]
        over = top - lower <= _UNSURE * (1 + top)
        chosen = (pulls < rival_pulls) | ((pulls == rival_pulls) & (best < rival))
        return unclear | over | (top == 0), (jnp.where(chosen, best, rival), jnp.where(chosen, rival, best))

    def _candidates(self, seen: Seen, move: Move, y: Array, upper: Array) -> tuple[tuple[Array, ...], _Others]:
        """Returns the pair and the other arms with the highest upper bounds as candidates, and bounds of the rest."""
        arms = jnp.arange(self.n, dtype=jnp.int32)
        mask, none = jnp.int32((1 << (self.n - 1).bit_length()) - 1), jnp.int32(2**31 - 1)
        rest = move.left & (arms != move.arm) & (arms != move.other)
        # By how far they are below the highest: floats that are not negative are ordered as their bits are. The lowest
        # bits are replaced by the arm. Of many arms that are nearly level, the bounds themselves would have too few.
        below = lax.bitcast_convert_type(_highest(upper, rest) - upper, jnp.int32)
        key = jnp.where(rest, (below & ~mask) | arms, none)
        chosen, last = [move.arm, move.other], jnp.int32(-1)
        for _ in range(CANDIDATES - 2):
            last = -_most(jnp.where(key > last, -key, -none))
            chosen.append(jnp.where(last < none, last & mask, -1))
        rest = rest & (key > last)
        pair = [_Candidate.of(arm, seen.pulls[arm], seen.ones[arm], y[arm]) for arm in chosen[:2]]
        leader = select(_ahead(*pair), *pair)
        level = seen.ones * leader.pulls == leader.ones * seen.pulls
        equal = rest & level & (jnp.abs(y - leader.mean) <= _UNSURE)
        after = rest & _same_record(seen, chosen[-1]) & (arms > chosen[-1])
        means, uppers = ((_highest(x, rest & ~out), _highest(x, rest)) for x, out in ((y, equal), (upper, after)))
        widest = _radii(self.rule.scale.hi, self.log_terms.at(seen.total), -_most(-seen.pulls))
        return tuple(chosen), _Others(means, uppers, widest, (leader.arm, leader.pulls, leader.ones))

    def done(self, view: View, state: State) -> Array:
        """Ends the run when the rule has ended, or the budget is spent."""
        return state.ended | (state.seen.total >= view.budget)

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """Answers which arms are estimated outliers, as ``IB`` does."""
        return answer(state.seen, outliers(self.rule.interval, state.seen, view.unit), state.ended)


def _radii(scale: Array, log_term: Array, pulls: Array) -> Array:
    radii: Array = scale * jnp.sqrt(log_term / pulls.astype(log_term.dtype))
    return radii


def _highest(x: Array, among: Array) -> Array:
    """Returns the largest of some numbers that are not negative, or 0 of none, by their bits, as this is faster."""
    bits = lax.bitcast_convert_type(x, jnp.int32)
    return lax.bitcast_convert_type(_most(jnp.where(among, bits, 0)), jnp.float32)


def _most(x: Array) -> Array:
    """Returns the largest int32. Of few, it is not found by parts, which would take longer."""
    return highest(x) if x.shape[0] > 64 else jnp.max(x)


def _made(low: Array, high: Array, slot: int) -> Array:
    return ((low if slot < 4 else high) >> (8 * (slot & 3))) & 255


class _Candidate(NamedTuple):
    """``rewards``: how many of those that were drawn are left; ``slot``: its place among the candidates."""

    arm: Array
    slot: Array
    rewards: Array
    pulls: Array
    ones: Array
    mean: Array
    radius: Array

    @classmethod
    def of(cls, arm: Array, pulls: Array, ones: Array, mean: Array) -> "_Candidate":
        """Returns an arm that is compared by its mean alone."""
        return cls(arm, jnp.zeros_like(arm), jnp.zeros_like(arm), pulls, ones, mean, jnp.zeros_like(mean))


def _ahead(one: _Candidate, other: _Candidate) -> Array:
    """Returns whether ``one`` has the larger mean, or an equal one and the lower number.

    The difference of cross products is exact modulo 2^32, and below 2^31 where means are close.
    """
    gap = one.mean - other.mean
    exact = one.ones * other.pulls - other.ones * one.pulls
    close = (exact > 0) | ((exact == 0) & (one.arm < other.arm))
    return jnp.where(jnp.abs(gap) > _UNSURE, gap > 0, close)


def _same_record(seen: Seen, arm: Array) -> Array:
    """Returns which arms had as many pulls and rewards as this one."""
    return (seen.pulls == seen.pulls[arm]) & (seen.ones == seen.ones[arm])


@in_float64
def _above(rule: IB, log_terms: LogTerms, seen: Seen, one: Array, other: Array) -> Array:
    """Returns whether the upper bound of ``one`` is surely above that of ``other``. They share a log term in float32,
    so that little of its error is left in their difference."""
    log_term = log_terms.at(seen.total).astype(jnp.float64)
    pulls, ones = (jnp.stack([x[one], x[other]]) for x in (seen.pulls, seen.ones))
    y, radii = means_of(pulls, ones, jnp.float64), _radii(rule.scale.wide(), log_term, pulls)
    gap = radii[0] - radii[1]
    return y[0] - y[1] + gap > _UNSURE * jnp.abs(gap)


@computed_once
@in_float64
def _next(*operands: Array) -> Array:
    """Returns the candidate that is pulled next, or ``_STOP``: int32. It is computed once (docs/xla-cpu.md).

    Means and radii of candidates are float64: the rule keeps the upper bounds of arms with close means within a pull of
    each other, which float32 does not tell apart after some 10^5 pulls. The log term is float32, but the same in all
    radii, so that the error of their differences is a share of these.
    """
    level, log_term, per_pull, mean, all_means, upper, all_uppers, widest, *leading = operands[:_OF_LANE]
    arms, pulls, ones, words = (operands[_OF_LANE + i * CANDIDATES :][:CANDIDATES] for i in range(4))
    low, high, number = operands[_OF_LANE + 4 * CANDIDATES :]
    # The log term is 6 ln T and a constant. ln(1 + x) = 2 artanh(x / (2 + x)), for x <= 1, by its series.
    x = number.astype(jnp.float32) * per_pull
    z = x / (2 + x)
    zz = z * z
    growth = 12 * z * (1 + zz * (1 / 3 + zz * (1 / 5 + zz * (1 / 7 + zz * (1 / 9 + zz * (1 / 11))))))
    level = level * (log_term + growth)
    found = []
    for j in range(CANDIDATES):
        made = _made(low, high, j)
        m = pulls[j] + made
        s = ones[j] + lax.population_count(words[j] & low_bits(made)).astype(jnp.int32)
        each = 1 / m.astype(jnp.float64)
        y, radius = s.astype(jnp.float64) * each, jnp.sqrt(level.astype(jnp.float64) * each)
        exists = arms[j] >= 0
        slot = jnp.full(arms[j].shape, j, jnp.int32)
        found.append(
            _Candidate(arms[j], slot, _REWARDS[j] - made, m, s, jnp.where(exists, y, -1), jnp.where(exists, radius, -1))
        )
    best = found[0]
    for one in found[1:]:
        best = select(_ahead(one, best), one, best)
    nobody = best._replace(mean=jnp.full_like(best.mean, -1), radius=jnp.full_like(best.mean, -1))
    rival, top = nobody, jnp.full_like(best.mean, -2)
    for one in found:
        mine = one.mean + one.radius
        higher = (one.slot != best.slot) & ((mine > top) | ((mine == top) & (one.arm < rival.arm)))
        rival, top = select(higher, one, rival), jnp.where(higher, mine, top)
    unsure = _UNSURE * (1 + top)
    # The last candidate comes before its equals until it is pulled. (Where it is the best, their means end the batch.)
    upper = jnp.where(_made(low, high, CANDIDATES - 1) > 0, all_uppers, upper) + widest * growth / (log_term + log_term)
    arm, m, s = leading
    leader = _Candidate.of(arm, m, s, s.astype(jnp.float64) / m.astype(jnp.float64))
    mean = jnp.where(_ahead(leader, best), all_means, mean)
    clear = (best.mean - mean > _UNSURE) & (top - upper > unsure)
    clear = clear & (top - (best.mean - best.radius) > unsure)
    for one in found:
        same = (one.pulls == rival.pulls) & (one.ones == rival.ones)
        below = top - (one.mean + one.radius) > _UNSURE * jnp.abs(rival.radius - one.radius) + _TINY
        clear = clear & (same | (one.slot == best.slot) | below)
    chosen = select((best.pulls < rival.pulls) | ((best.pulls == rival.pulls) & (best.arm < rival.arm)), best, rival)
    return jnp.where(clear & (chosen.rewards > 0), chosen.slot, _STOP)


@rarely
def _closely(rule: IB, seen: Seen, left: Array) -> Move:
    """Returns what the rule itself does next, in float64."""
    return rule.move(seen, left, 1.0)


@accelerated.register
def _(rule: IB, problem: Any) -> Any:
    if not isinstance(problem, OutlierArms) or not problem.rewards.whole:
        return rule
    n = problem.source.arms
    return IBInBatches(rule, tabulated(rule, n), n)
