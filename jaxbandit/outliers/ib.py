"""Iterative Best Arm Identification (IB): Zhuang, Wang and Wang, "Identifying Outlier Arms in Multi-Armed Bandit", NIPS
2017, section 5.2: the best arm is searched for and removed, until the one found is not an estimated outlier.

The search is CLUCB of Chen, Lin, King, Lyu and Chen, "Combinatorial Pure Exploration of Multi-Armed Bandits", NIPS
2014, Algorithm 1, for one arm: the best mean and, of the others, the highest upper bound; of these two the one with
fewer pulls is pulled, until the lower bound of the first is not below the upper bound of the second. All searches go on
from all pulls made so far, so that one event carries them all.

A pull depends on the one before, but nearly all pulls go to few arms. So a look picks a few candidates, the best mean
and the highest upper bounds, and a walk follows the rule among these alone. The others stay as they are, but for radii
that grow with T: the walk ends where one of them might be pulled, where float32 does not tell which arm is next, where
a search may be over, or where the rewards drawn for an arm are used up.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxbandit.grammar import Execution
from jaxbandit.outliers.intervals import Interval, all_equal, arm_radii, means_of
from jaxbandit.outliers.leap import CAPPED, DECIDED, FLAT, RUNNING, Seen, above_threshold, answer, low_bits, select
from jaxbandit.outliers.problem import MOST, Chosen, View
from jaxbandit.outliers.twofold import Twofold, in_float64
from jaxbandit.random.fence import computed_once, rarely

CANDIDATES = 8
"""The arms in a walk. How often each was pulled takes 8 bits of an int32, of which there are two."""
WALK = 40
"""The most pulls in a walk."""

_UNSURE = 2.0**-21
"""The distance, in sums of a mean and radii as large, that float32 cannot be trusted below: several times its error."""

_EXACT = 2**26
"""Up to so many pulls, means that are closer than ``_UNSURE`` are compared exactly: see ``_ahead``."""

_STOP, _OVER = CANDIDATES, 2**30


class _Others(NamedTuple):
    """Of the arms that are left but for the candidates: the best mean and the highest upper bound, 0 where there are
    none; and no radius is above ``widest``. float32."""

    mean: Array
    upper: Array
    widest: Array


class State(NamedTuple):
    """``left``: the arms that were not removed, bool (n,); ``arms``: the candidates, the first is pulled next (int32,
    -1 for none); ``others``; ``code``."""

    seen: Seen
    left: Array
    arms: tuple[Array, ...]
    others: _Others
    code: Array


class _Move(NamedTuple):
    """What is left, the arm to pull, that of the pair that is not pulled, and whether the rule has ended."""

    left: Array
    arm: Array
    other: Array
    ended: Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class IB:
    """``of``: the interval of ``intervals.clucb``; all else as in ``RR``."""

    k: Twofold
    of: Interval
    cap: Array
    leaping: Array
    n: int = field(metadata={"static": True})

    @property
    def execution(self) -> Execution:
        """A step works on a few arrays of all arms."""
        return Execution(stride=16, in_cache=True, step_bytes=256 + 16 * self.n, masked=True)

    def init(self, view: View) -> State:
        """The first arms."""
        none = _Others(*[jnp.float32(0)] * 3)
        return State(
            Seen.nothing(self.n), jnp.ones(self.n, bool), self._opening(jnp.int32(0)), none, jnp.int32(RUNNING)
        )

    def ask(self, view: View, state: State) -> Chosen:
        """The rewards of the candidates, one by one."""
        attempts = tuple(state.seen.pulls[jnp.maximum(arm, 0)] for arm in state.arms)
        alone = ~self.leaping | (state.seen.total < self.n)
        many = tuple(
            jnp.where(state.code == RUNNING, jnp.where(alone, 1, _rewards(jnp.int32(slot))), 0)
            for slot in range(CANDIDATES)
        )
        return Chosen(state.arms, attempts, many)

    def tell(self, view: View, state: State, pull: Chosen, outcome: list[Array]) -> State:
        """Each arm once at first; then what CLUCB wants."""
        n = self.n
        arms = jnp.arange(n, dtype=jnp.int32)
        first = state.seen.total < n
        walked = self._walk(state, pull, outcome)
        counts = ones = jnp.zeros(n, jnp.int32)
        for arm, made, word in zip(state.arms, walked, outcome, strict=True):
            made = jnp.where(first, (arm >= 0).astype(jnp.int32), made)
            here = arms == arm
            counts = jnp.where(here, made, counts)
            ones = jnp.where(here, lax.population_count(word & low_bits(made)).astype(jnp.int32), ones)
        seen = state.seen.add(counts, ones)
        opening = seen.total < n
        some = Seen(jnp.maximum(seen.pulls, 1), seen.ones, jnp.maximum(seen.total, 1))
        y = means_of(some.pulls, some.ones)
        radii = arm_radii(self.of, some.pulls, some.ones, self.of.reach_at(some.total))
        unclear, pair = self._glance(some, state.left, y, radii)
        needed = unclear & ~opening & (state.code == RUNNING)
        move: _Move = _closely(needed, _Move(state.left, *pair, jnp.bool_(False)), self, some, state.left)
        code = jnp.where(move.ended, DECIDED, jnp.where(opening | (seen.total < self.cap), RUNNING, CAPPED))
        chosen, others = self._candidates(some, move, y, y + radii)
        following = select(opening, self._opening(seen.total), chosen)
        after = State(seen, move.left, following, others, code.astype(jnp.int32))
        return select(state.code == RUNNING, after, state)

    def _opening(self, total: Array) -> tuple[Array, ...]:
        """The next arms that were not pulled."""
        return tuple(jnp.where(total + j < self.n, total + j, -1) for j in range(CANDIDATES))

    def _walk(self, state: State, pull: Chosen, outcome: list[Array]) -> list[Array]:
        """How often each candidate is pulled."""
        total = jnp.maximum(state.seen.total, 1)
        reach = self.of.reach_at(total)
        wide = self.of.width.hi
        many = jnp.where(self.leaping & (total < _EXACT), jnp.minimum(WALK, total), 1)
        many = jnp.minimum(many, self.cap - state.seen.total)
        ones = [state.seen.ones[jnp.maximum(arm, 0)] for arm in state.arms]
        of_lane = (wide * wide / 2, reach, 1 / total.astype(jnp.float32), *state.others)

        def one(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            number, low, high = carry
            found = _next(*of_lane, *state.arms, *pull.attempts, *ones, *outcome, low, high, number)
            goes = found < _STOP
            place = jnp.where(goes, jnp.int32(1) << (8 * (found & 3)), 0)
            low, high = low + jnp.where(found < 4, place, 0), high + jnp.where(found < 4, 0, place)
            return jnp.where(goes, number + 1, _OVER), low, high

        start = (jnp.int32(1), jnp.int32(1), jnp.int32(0))
        _, low, high = lax.while_loop(lambda carry: carry[0] < many, one, start)
        return [_made(low, high, j) for j in range(CANDIDATES)]

    def _glance(self, seen: Seen, left: Array, y: Array, radii: Array) -> tuple[Array, tuple[Array, Array]]:
        """Whether float32 does not tell what to do, or a search is over; and, if neither, the arm to pull and the other
        one of the pair."""
        arms = jnp.arange(self.n, dtype=jnp.int32)

        def first(where: Array) -> Array:
            return jnp.minimum(jnp.min(jnp.where(where, arms, self.n)), self.n - 1)

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
        near = others & ~_alike(seen, rival) & (upper >= top - _UNSURE * (1 + top))
        second = first(near)
        doubtful = jnp.any(near & ~_alike(seen, second)) | ~_above(self.of, seen, rival, second)
        unclear = unclear | (near[second] & doubtful)
        lower = y[best] - radii[best]
        over = top - lower <= _UNSURE * (1 + top)
        chosen = (pulls < rival_pulls) | ((pulls == rival_pulls) & (best < rival))
        return unclear | over | (top == 0), (jnp.where(chosen, best, rival), jnp.where(chosen, rival, best))

    def _candidates(self, seen: Seen, move: _Move, y: Array, upper: Array) -> tuple[tuple[Array, ...], _Others]:
        """The pair, and the arms with the highest upper bounds but for these."""
        arms = jnp.arange(self.n, dtype=jnp.int32)
        mask = jnp.int32((1 << (self.n - 1).bit_length()) - 1)
        rest = move.left & (arms != move.arm) & (arms != move.other)
        # Floats that are not negative are ordered as their bits are; the lowest of these are the arm.
        key = jnp.where(rest, (lax.bitcast_convert_type(upper, jnp.int32) & ~mask) | arms, -1)
        chosen, last = [move.arm, move.other], jnp.int32(2**31 - 1)
        for _ in range(CANDIDATES - 2):
            last = jnp.max(jnp.where(key < last, key, -1))
            chosen.append(jnp.where(last >= 0, last & mask, -1))
        rest = rest & (key < last)
        widest = self.of.width.hi * jnp.sqrt(
            self.of.reach_at(seen.total) / (2 * jnp.min(seen.pulls).astype(jnp.float32))
        )
        return tuple(chosen), _Others(_highest(y, rest), _highest(upper, rest), widest)

    def done(self, view: View, state: State) -> Array:
        """The best arm left is no outlier, or none is left, or the cap is reached."""
        return state.code != RUNNING

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """See ``leap.answer``."""
        some = jnp.maximum(state.seen.pulls, 1)
        flat = (state.code == CAPPED) & all_equal(some, state.seen.ones)
        return answer(self.of, self.k, state.seen, jnp.where(flat, FLAT, state.code))


def _highest(x: Array, among: Array) -> Array:
    """The largest of some numbers that are not negative, 0 of none: by their bits, as integers are reduced faster."""
    bits = lax.bitcast_convert_type(x, jnp.int32)
    return lax.bitcast_convert_type(jnp.max(jnp.where(among, bits, 0)), jnp.float32)


def _rewards(slot: Array) -> Array:
    """How many are drawn for a candidate: most pulls are of the first few."""
    return jnp.where(slot < 2, MOST, jnp.where(slot < 4, MOST // 2, MOST // 4))


def _made(low: Array, high: Array, slot: int) -> Array:
    return ((low if slot < 4 else high) >> (8 * (slot & 3))) & 255


class _Candidate(NamedTuple):
    arm: Array
    slot: Array
    made: Array
    pulls: Array
    ones: Array
    mean: Array
    radius: Array


def _ahead(one: _Candidate, other: _Candidate) -> Array:
    """Whether ``one`` has the better mean, or an equal one and the lower number.

    The difference of cross products is exact modulo 2^32, and below 2^31 where means are close.
    """
    gap = one.mean - other.mean
    exact = one.ones * other.pulls - other.ones * one.pulls
    close = (exact > 0) | ((exact == 0) & (one.arm < other.arm))
    return jnp.where(jnp.abs(gap) > _UNSURE, gap > 0, close)


def _alike(seen: Seen, arm: Array) -> Array:
    """Which arms had the same pulls and rewards as this one."""
    return (seen.pulls == seen.pulls[arm]) & (seen.ones == seen.ones[arm])


@in_float64
def _above(of: Interval, seen: Seen, one: Array, other: Array) -> Array:
    """Whether the upper bound of ``one`` is surely above that of ``other``. They share a reach in float32, so little of
    its error is left in their difference."""
    reach = of.reach_at(seen.total).astype(jnp.float64)
    y, radii = [], []
    for arm in (one, other):
        pulls, ones = seen.pulls[arm], seen.ones[arm]
        y.append(means_of(pulls, ones, precise=True))
        radii.append(arm_radii(of, pulls, ones, reach, precise=True))
    gap = radii[0] - radii[1]
    return y[0] - y[1] + gap > _UNSURE * jnp.abs(gap)


@computed_once
def _next(*of: Array) -> Array:
    """The candidate that is pulled next, or ``_STOP``: int32. Fenced, so that XLA makes one kernel of it."""
    level, reach, per_pull, mean, upper, widest = of[:6]
    arms, pulls, ones, words = (of[6 + i * CANDIDATES : 6 + (i + 1) * CANDIDATES] for i in range(4))
    low, high, number = of[6 + 4 * CANDIDATES :]
    # The reach of CLUCB is 12 ln T, and a constant. ln(1 + x) = 2 artanh(x / (2 + x)), for x <= 1; XLA's own is slow.
    x = number.astype(jnp.float32) * per_pull
    z = x / (2 + x)
    zz = z * z
    growth = 24 * z * (1 + zz * (1 / 3 + zz * (1 / 5 + zz * (1 / 7 + zz * (1 / 9 + zz * (1 / 11))))))
    level = level * (reach + growth)
    upper = upper + widest * growth / (reach + reach)
    found = []
    for j in range(CANDIDATES):
        made = _made(low, high, j)
        m = pulls[j] + made
        s = ones[j] + lax.population_count(words[j] & low_bits(made)).astype(jnp.int32)
        each = 1 / m.astype(jnp.float32)
        y, radius = s.astype(jnp.float32) * each, jnp.sqrt(level * each)
        exists = arms[j] >= 0
        slot = jnp.full(arms[j].shape, j, jnp.int32)
        found.append(_Candidate(arms[j], slot, made, m, s, jnp.where(exists, y, -1), jnp.where(exists, radius, -1)))
    best = found[0]
    for one in found[1:]:
        best = select(_ahead(one, best), one, best)
    nobody = best._replace(mean=jnp.full_like(mean, -1), radius=jnp.full_like(mean, -1))
    rival, top = nobody, jnp.full_like(mean, -2)
    for one in found:
        mine = one.mean + one.radius
        higher = (one.slot != best.slot) & ((mine > top) | ((mine == top) & (one.arm < rival.arm)))
        rival, top = select(higher, one, rival), jnp.where(higher, mine, top)
    unsure = _UNSURE * (1 + top)
    clear = (best.mean - mean > _UNSURE) & (top - upper > unsure)
    clear = clear & (top - (best.mean - best.radius) > unsure)
    for one in found:
        alike = (one.pulls == rival.pulls) & (one.ones == rival.ones)
        clear = clear & (alike | (one.slot == best.slot) | (one.mean + one.radius < top - unsure))
    chosen = select((best.pulls < rival.pulls) | ((best.pulls == rival.pulls) & (best.arm < rival.arm)), best, rival)
    return jnp.where(clear & (chosen.made < _rewards(chosen.slot)), chosen.slot, _STOP)


@rarely
@in_float64
def _closely(policy: IB, seen: Seen, left: Array) -> _Move:
    """What to do, exactly; searches that are over without a further pull included."""
    arms = jnp.arange(policy.n, dtype=jnp.int32)
    y = means_of(seen.pulls, seen.ones, precise=True)
    reach = policy.of.reach_at(seen.total, precise=True)
    radii = arm_radii(policy.of, seen.pulls, seen.ones, reach, precise=True)
    found = above_threshold(policy.of, policy.k, seen) & ~all_equal(seen.pulls, seen.ones)
    upper = y + radii

    def largest(x: Array, among: Array) -> Array:
        """The first one. (JAX lowers its own argmax outside, where there is no float64.)"""
        top = jnp.max(jnp.where(among, x, -jnp.inf))
        return jnp.minimum(jnp.min(jnp.where(among & (x == top), arms, policy.n)), policy.n - 1)

    def search(carry: tuple[_Move, Array]) -> tuple[_Move, Array]:
        left = carry[0].left
        best = largest(y, left)
        others = left & (arms != best)
        rival = largest(upper, others)
        over = ~jnp.any(others) | (upper[rival] <= y[best] - radii[best])
        pulls, rival_pulls = seen.pulls[best], seen.pulls[rival]
        first = (pulls < rival_pulls) | ((pulls == rival_pulls) & (best < rival))
        kept = jnp.where(over & found[best], others, left)
        again = over & found[best] & jnp.any(others)
        return _Move(kept, jnp.where(first, best, rival), jnp.where(first, rival, best), over & ~again), again

    start = _Move(left, jnp.int32(0), jnp.int32(1), jnp.bool_(False)), jnp.bool_(True)
    return lax.while_loop(lambda carry: carry[1], search, start)[0]
