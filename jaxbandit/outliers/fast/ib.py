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

import jax.numpy as jnp
from jax import Array, lax

from jaxbandit.grammar import Execution, accelerated
from jaxbandit.outliers.double_float import in_float64
from jaxbandit.outliers.fast.clucb import (
    CANDIDATES,
    REWARDS,
    STOP,
    UNSURE,
    Candidate,
    Drawn,
    Made,
    Others,
    Start,
    ahead,
    next_candidate,
    ones_among,
)
from jaxbandit.outliers.fast.leap import outliers
from jaxbandit.outliers.fast.log_terms import LogTerms, tabulated
from jaxbandit.outliers.ib import IB, Move
from jaxbandit.outliers.problem import Chosen, OutlierArms, View
from jaxbandit.outliers.record import Seen, answer, means_of
from jaxbandit.pytree import pytree
from jaxbandit.xla.batch import any_lane
from jaxbandit.xla.entries import gathered, select
from jaxbandit.xla.exact import quotient
from jaxbandit.xla.fence import patiently, rarely
from jaxbandit.xla.formula import formula
from jaxbandit.xla.prefix import highest

MOST_PULLS = 40
"""The most pulls in a batch."""

_EXACT = 2**26
"""Up to so many pulls, means that are closer than ``UNSURE`` are compared exactly (``ahead``)."""

_OVER = 2**30
"""The number of a pull that no batch has."""


class State(NamedTuple):
    """Holds the record, the arms that were not removed (``left``, bool (n,)), the candidates (``arms``, of which the
    first is pulled next; int32, -1 for none), bounds of the ``others``, and whether the rule has ``ended``."""

    seen: Seen
    left: Array
    arms: tuple[Array, ...]
    others: Others
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
        step, gain = 512 + 32 * self.n, 15 + self.n / 4
        return Execution(stride=16, cache_mib=1, step_bytes=step, most_lanes=64, masked=True, gain_ns=gain)

    def init(self, view: View) -> State:
        """Begins with the first arms as candidates, each to be pulled once."""
        zero = jnp.float32(0)
        none = Others((zero, zero), (zero, zero), zero, (jnp.int32(0), jnp.int32(1), jnp.int32(0)))
        return State(Seen.nothing(self.n), jnp.ones(self.n, bool), self._opening(jnp.int32(0)), none, jnp.bool_(False))

    def advance(self, view: View, state: State, sample: Callable[[Chosen], Array]) -> State:
        """Pulls each arm once at first; then makes the pulls of a batch, and picks the candidates of the next one."""
        n, goes = self.n, ~self.done(view, state)
        arms, first = jnp.arange(n, dtype=jnp.int32), state.seen.total < n
        candidates = jnp.stack(state.arms)
        pulls, ones = (gathered(x, jnp.maximum(candidates, 0)) for x in (state.seen.pulls, state.seen.ones))
        words: list[Array] = []
        # One pull for all candidates that may use as many rewards.
        for most, slots in itertools.groupby(range(CANDIDATES), REWARDS.__getitem__):
            these = slice(len(words), len(words) + len(list(slots)))
            words.extend(sample(Chosen(candidates[these], pulls[these], most)))
        drawn = Drawn(state.arms, tuple(pulls), tuple(ones), tuple(words))
        counts = new_ones = jnp.zeros(n, jnp.int32)
        for arm, made, word in zip(state.arms, self._pulls(view, state, drawn), words, strict=True):
            made = jnp.where(first, (arm >= 0).astype(jnp.int32), made)
            here = arms == arm
            counts = jnp.where(here, made, counts)
            new_ones = jnp.where(here, ones_among(word, made), new_ones)
        seen = state.seen.add(counts, new_ones)
        opening = seen.total < n
        at_least_one = Seen(jnp.maximum(seen.pulls, 1), seen.ones, jnp.maximum(seen.total, 1))
        after = self.at(at_least_one, state.left, ~opening & goes)
        following = select(opening, self._opening(seen.total), after.arms)
        return select(goes, after._replace(seen=seen, arms=following), state)

    def at(self, seen: Seen, left: Array, going: Array) -> State:
        """Returns the state where each arm was pulled and some are ``left``, with the candidates of the next batch;
        exactly where ``going`` (bool)."""
        y = means_of(seen.pulls, seen.ones)
        radii = _radii(self.rule.scale.hi, self.log_terms.at(seen.total), seen.pulls)
        unclear, pair = self._screen(seen, left, y, radii)
        move = _closely(unclear & going, Move(left, *pair, jnp.bool_(False)), self.rule, seen, left)
        return State(seen, move.left, *self._candidates(seen, move, y, y + radii), move.ended)

    def _opening(self, total: Array) -> tuple[Array, ...]:
        """Returns the next arms that were not pulled, as candidates."""
        return tuple(jnp.where(total + j < self.n, total + j, -1) for j in range(CANDIDATES))

    def _pulls(self, view: View, state: State, drawn: Drawn) -> list[Array]:
        """Returns how often the batch pulls each candidate: int32."""
        total = jnp.maximum(state.seen.total, 1)
        log_term, scale = self.log_terms.at(total), self.rule.scale.hi
        most = jnp.where(total < _EXACT, jnp.minimum(MOST_PULLS, total), 1)
        most = jnp.minimum(most, view.budget - state.seen.total)
        start = Start(scale * scale, log_term, quotient(1, total), state.others)

        def one(_: Array, carry: tuple[Array, Made]) -> tuple[Array, Made]:
            number, made = carry
            slot = next_candidate(start, drawn, made, number)
            goes = (slot < STOP) & (number < most)
            return jnp.where(goes, number + 1, _OVER), made.after(slot, goes)

        # The first candidate's first pull is that for which the batch was made.
        begun = jnp.int32(1), Made(jnp.int32(1), jnp.int32(0))
        _, made = patiently(MOST_PULLS, lambda _, carry: any_lane(carry[0] < most), one, begun)
        return [made.of(slot) for slot in range(CANDIDATES)]

    def _screen(self, seen: Seen, left: Array, y: Array, radii: Array) -> tuple[Array, tuple[Array, Array]]:
        """Returns whether float32 does not tell what to do, or a search may be over; and, if neither, the arm to pull
        and the other one of the pair."""
        arms = jnp.arange(self.n, dtype=jnp.int32)

        def first(where: Array) -> Array:
            return jnp.minimum(-_largest(jnp.where(where, -arms, -self.n)), self.n - 1)

        # Of the arms with about the largest mean, the best one is the first whose exact mean none exceeds.
        most = _highest(y, left)
        leader = first(left & (y == most))
        ahead = seen.ones * seen.pulls[leader] - seen.ones[leader] * seen.pulls
        close = left & (y >= most - UNSURE)
        unclear = jnp.any(close & (ahead > 0)) | (seen.total >= _EXACT)
        best = first(close & (ahead == 0))
        others, upper = left & (arms != best), y + radii
        top = _highest(upper, others)
        rival = first(others & (upper == top))
        pulls, rival_pulls = seen.pulls[best], seen.pulls[rival]
        # Arms with about the same upper bound as the rival must all have one record, and a bound that is surely lower.
        near = others & ~_same_record(seen, rival) & (upper >= top - UNSURE * (1 + top))
        second = first(near)
        doubtful = jnp.any(near & ~_same_record(seen, second)) | ~_above(self.rule, self.log_terms, seen, rival, second)
        unclear = unclear | (near[second] & doubtful)
        lower = y[best] - radii[best]
        over = top - lower <= UNSURE * (1 + top)
        chosen = (pulls < rival_pulls) | ((pulls == rival_pulls) & (best < rival))
        return unclear | over | (top == 0), (jnp.where(chosen, best, rival), jnp.where(chosen, rival, best))

    def _candidates(self, seen: Seen, move: Move, y: Array, upper: Array) -> tuple[tuple[Array, ...], Others]:
        """Returns the pair and the other arms with the highest upper bounds as candidates, and bounds of the rest."""
        arms = jnp.arange(self.n, dtype=jnp.int32)
        arm_bits, none = jnp.int32((1 << (self.n - 1).bit_length()) - 1), jnp.int32(2**31 - 1)
        rest = move.left & (arms != move.arm) & (arms != move.other)
        # Arms are ordered by how far their bounds are below the highest one. Floats that are not negative are ordered
        # as their bits are, and the lowest bits are replaced by the arm. (Of arms whose bounds are nearly equal, the
        # bits that are left of the bounds themselves would be equal.)
        below = lax.bitcast_convert_type(_highest(upper, rest) - upper, jnp.int32)
        key = jnp.where(rest, (below & ~arm_bits) | arms, none)
        chosen, last = [move.arm, move.other], jnp.int32(-1)
        for _ in range(CANDIDATES - 2):
            last = -_largest(jnp.where(key > last, -key, -none))
            chosen.append(jnp.where(last < none, last & arm_bits, -1))
        rest = rest & (key > last)
        pair = [Candidate.of(arm, seen.pulls[arm], seen.ones[arm], y[arm]) for arm in chosen[:2]]
        leader = select(ahead(*pair), *pair)
        level = seen.ones * leader.pulls == leader.ones * seen.pulls
        equal = rest & level & (jnp.abs(y - leader.mean) <= UNSURE)
        after = rest & _same_record(seen, chosen[-1]) & (arms > chosen[-1])
        means = _highest(y, rest & ~equal), _highest(y, rest)
        uppers = _highest(upper, rest & ~after), _highest(upper, rest)
        widest = _radii(self.rule.scale.hi, self.log_terms.at(seen.total), -_largest(-seen.pulls))
        return tuple(chosen), Others(means, uppers, widest, (leader.arm, leader.pulls, leader.ones))

    def done(self, view: View, state: State) -> Array:
        """Ends the run when the rule has ended, or the budget is spent."""
        return state.ended | (state.seen.total >= view.budget)

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """Answers which arms are estimated outliers, as ``IB`` does."""
        return answer(state.seen, outliers(self.rule.interval, state.seen, view.unit), state.ended)


@formula
def _radii(scale: Array, log_term: Array, pulls: Array) -> Array:
    radii: Array = scale * jnp.sqrt(log_term / pulls.astype(log_term.dtype))
    return radii


def _highest(x: Array, among: Array) -> Array:
    """Returns the largest of some numbers that are not negative, or 0 of none, by their bits, as this is faster."""
    bits = lax.bitcast_convert_type(x, jnp.int32)
    return lax.bitcast_convert_type(_largest(jnp.where(among, bits, 0)), jnp.float32)


def _largest(x: Array) -> Array:
    """Returns the largest int32. Of few, it is not found by parts, which would take longer."""
    return highest(x) if x.shape[0] > 64 else jnp.max(x)


def _same_record(seen: Seen, arm: Array) -> Array:
    """Returns which arms had as many pulls and rewards as this one."""
    return (seen.pulls == seen.pulls[arm]) & (seen.ones == seen.ones[arm])


@in_float64
@formula
def _above(rule: IB, log_terms: LogTerms, seen: Seen, one: Array, other: Array) -> Array:
    """Returns whether the upper bound of ``one`` is surely above that of ``other``. They share a log term in float32,
    so that little of its error is left in their difference."""
    log_term = log_terms.at(seen.total).astype(jnp.float64)
    pulls, ones = (jnp.stack([x[one], x[other]]) for x in (seen.pulls, seen.ones))
    y, radii = means_of(pulls, ones, jnp.float64), _radii(rule.scale.wide(), log_term, pulls)
    gap = radii[0] - radii[1]
    return y[0] - y[1] + gap > UNSURE * jnp.abs(gap)


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
