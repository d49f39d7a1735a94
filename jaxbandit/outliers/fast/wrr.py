"""WRR in batches of pulls: ``tests/test_outlier_policies.py::test_wrr_is_its_oracle`` ties it to
``jaxbandit.outliers.wrr``.

Which arm is pulled next depends on the last pull, but seldom on an evaluation of all arms. A pull changes a few sums
over arms by what its own arm adds to them. From these sums follow mu, sigma, the threshold's radius and whether the arm
is active. So a batch makes pulls one by one, each in a time that does not depend on n. Rounding changes the sums a
little, and radii that grow with T are not added up anew. So a batch ends at a pull after which it is not clear whether
its arm, or any arm, is active; the evaluation after the batch decides that. Medians are no sums: with the robust rule
each pull is evaluated.

A *visit* is the pulls of an arm in one of its turns. Pulls are recorded as bits in words, and added to the record of
each arm after some words.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxbandit.grammar import Execution, accelerated
from jaxbandit.outliers.fast.check import ENDS, UNCLEAR, Features, OnePull, Start, checked, features
from jaxbandit.outliers.fast.leap import active, cyclic, evaluate, low_bits, outliers
from jaxbandit.outliers.fast.log_terms import LogTerms, tabulated
from jaxbandit.outliers.intervals import width_of_threshold
from jaxbandit.outliers.problem import Once, OutlierArms, Pull, View
from jaxbandit.outliers.record import Seen, answer, means_of
from jaxbandit.outliers.wrr import WRR, Counter
from jaxbandit.pytree import pytree
from jaxbandit.xla.batch import any_lane
from jaxbandit.xla.entries import gathered, select
from jaxbandit.xla.exact import ordered_sum
from jaxbandit.xla.fence import as_one_kernel, computed_once, patiently
from jaxbandit.xla.formula import formula


class State(NamedTuple):
    """Holds a run between batches. ``cursor``: the place in the round (0 to n - 1) of the arm that is pulled next;
    ``counter``: c_i at the beginning of this round, the same for all arms; ``best``: the arm with the largest overlap
    at the last evaluation, which is checked after each pull (which arm it is decides nothing); and whether any arm is
    active."""

    seen: Seen
    cursor: Array
    counter: Counter
    best: Array
    any_active: Array


_GOES, _RESTS, _UNCLEAR = range(3)
"""What a lane does in a batch: it goes on; it rests until the next word; or it has ended the batch by a pull after
which float32 does not tell what to do."""
_WORD = 32
_WORDS = 8
"""A batch is at most so many words of pulls, a bit each."""


class _Progress(NamedTuple):
    """Holds a batch while it is made. ``mode``: one of the three above; ``left``: pulls that may still be made;
    ``visits``: visits since ``cursor``; ``pulls``, ``ones``: the record of the arm that is visited. This word has
    ``made`` pulls, a bit each: ``hits`` are those with a reward of 1, ``ends`` those that ended a visit (uint32).
    ``sums``: see ``check.Features``; ``best``: what the arm ``best`` adds to them."""

    seen: Seen
    cursor: Array
    counter: Counter
    left: Array
    visits: Array
    pulls: Array
    ones: Array
    hits: Array
    ends: Array
    made: Array
    sums: Features
    best: Features
    mode: Array


@pytree
@dataclass(frozen=True)
class WRRInBatches:
    """Runs a ``rule`` of WRR in batches, with a table of its ``log_terms``; ``n`` (static): how many arms."""

    rule: WRR
    log_terms: LogTerms
    n: int = field(metadata={"static": True})

    @property
    def execution(self) -> Execution:
        """Says that a step works on a few arrays of all arms."""
        return Execution(stride=4, most_lanes=64, masked=True, gain_ns=self.n / 200, loss_ns=0.7 * self.n)

    @property
    def words(self) -> int:
        """Returns the words between two records, so few that no arm is visited twice (one word where arms are few)."""
        return max(1, min(self.n // _WORD, _WORDS))

    def init(self, view: View) -> State:
        """Begins before the first pull of each arm, with all counters at 0."""
        zero = jnp.int32(0)
        return State(Seen.nothing(self.n), zero, Counter(zero, zero), zero, jnp.bool_(True))

    def advance(self, view: View, state: State, sample: Callable[[Any], Array]) -> State:
        """Makes pulls as far as it is clear what they decide, evaluates, and decides about the last one by that."""
        n, interval, goes = self.n, self.rule.interval, ~self.done(view, state)
        first = state.seen.total == 0
        arms = jnp.arange(n, dtype=jnp.int32)
        batch = self._pulled(view, state, sample)
        once = jnp.broadcast_to(first.astype(jnp.int32), (n,))
        seen = select(first, state.seen.add(once, sample(Once(once, state.seen.pulls))), batch.seen)
        now = evaluate(interval, seen, self.log_terms.at(jnp.maximum(seen.total, 1)), view.unit)
        overlap = now.at.overlap
        best = jnp.max(overlap)
        here = arms == self.arm_of(batch.cursor)
        own = jnp.max(jnp.where(here, overlap, -jnp.inf))
        unclear = ((batch.mode == _UNCLEAR) | first) & goes
        close = (jnp.abs(best) <= now.unsure) | (jnp.abs(own) <= now.unsure)
        on = active(interval, seen, now, view.unit, close & unclear)
        due = batch.counter.after(1, self.rule.rho).ceiling()
        ended = unclear & ~first & ~jnp.any(here & on & (seen.pulls < due))
        cursor, counter = self.onward(batch.cursor, batch.counter, ended.astype(jnp.int32))
        # Floats that are not negative are ordered as their bits are; the lowest bits are replaced by the arm.
        mask = jnp.int32((1 << (n - 1).bit_length()) - 1)
        strongest = jnp.max((lax.bitcast_convert_type(jnp.maximum(overlap, 0), jnp.int32) & ~mask) | arms) & mask
        return select(goes, State(seen, cursor, counter, strongest, ~unclear | jnp.any(on)), state)

    def arm_of(self, turn: Array) -> Array:
        """Returns the arm whose turn it is at a place in the round, 0 to 3 n - 1; arm 1 comes first."""
        arm = 1 + turn
        for _ in range(3):
            arm = jnp.where(arm >= self.n, arm - self.n, arm)
        return arm

    def onward(self, cursor: Array, counter: Counter, visits: Array) -> tuple[Array, Counter]:
        """Returns the cursor and the counter up to n visits later; a new round adds rho to the counter."""
        cursor = cursor + visits
        again = cursor >= self.n
        return jnp.where(again, cursor - self.n, cursor), select(again, counter.after(1, self.rule.rho), counter)

    def _pulled(self, view: View, state: State, sample: Callable[[Any], Array]) -> _Progress:
        """Makes pulls as far as it is clear what is pulled next."""
        seen, interval = state.seen, self.rule.interval
        pulls, total = jnp.maximum(seen.pulls, 1), jnp.maximum(seen.total, 1)
        span = jnp.minimum(_WORD * _WORDS, total)
        left = jnp.minimum(view.budget - seen.total, span) if interval.rule == "k-sigma" else jnp.int32(1)
        left = jnp.where(~self.done(view, state) & (seen.total > 0), left, 0)
        start = self._start(state, pulls, total, span)
        parts = features(interval.name, pulls, seen.ones, start.middle, start.log_term)
        sums, best = jax.tree.map(ordered_sum, parts), jax.tree.map(lambda x: x[state.best], parts)
        zero, none = jnp.int32(0), jnp.uint32(0)
        batch = _Progress(
            seen._replace(pulls=pulls), state.cursor, state.counter, left, zero, zero, zero, none, none, zero,
            sums, best, jnp.where(left > 0, _GOES, _RESTS),
        )  # fmt: skip
        return _Batch(self, sample, start).to_its_end(batch)

    @formula
    def _start(self, state: State, pulls: Array, total: Array, span: Array) -> Start:
        """Returns what a batch of at most ``span`` pulls begins with."""
        n, interval, ones = self.n, self.rule.interval, state.seen.ones
        assert interval.k is not None
        # The log term is linear between both ends of a batch, nearly, as a batch at most doubles T.
        log_term, last = self.log_terms.at(total), self.log_terms.at(total + span)
        step = (last - log_term) / span.astype(jnp.float32)
        doubt = jnp.square(span.astype(jnp.float32) / total.astype(jnp.float32)) / (2 * log_term)
        if interval.rule != "k-sigma":
            doubt = jnp.float32(1e9)
        middle = jnp.sum(means_of(pulls, ones)) / n
        even = jnp.all(ones == 0) | jnp.all(ones == pulls)
        width = width_of_threshold(n, interval.k.hi, interval.delta.hi, jnp)
        return Start(interval.k.hi, width, middle, log_term, step, doubt, even, total, state.best)

    def done(self, view: View, state: State) -> Array:
        """Ends the run when no arm is active, or the budget is spent."""
        return ~state.any_active | (state.seen.total >= view.budget)

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """Answers which arms are estimated outliers, as ``WRR`` does."""
        return answer(state.seen, outliers(self.rule.interval, state.seen, view.unit), ~state.any_active)


@dataclass(frozen=True, eq=False)
class _Batch:
    """Makes the pulls of a batch by ``policy`` from ``start``, word by word; some words later it adds them to
    ``seen``."""

    policy: WRRInBatches
    sample: Callable[[Any], Array]
    start: Start

    def to_its_end(self, batch: _Progress) -> _Progress:
        """Makes all pulls of the batch, and returns what they led to."""
        records = _WORDS // self.policy.words
        return as_one_kernel(lambda: patiently(records, self._goes_on, self._some, batch))

    def _goes_on(self, _: Array, batch: _Progress) -> Array:
        return any_lane((batch.mode != _UNCLEAR) & (batch.left > 0))

    def _some(self, number: Array, batch: _Progress) -> _Progress:
        """Makes the words up to the next record, and adds them to the record."""
        policy = self.policy
        arm, seen = policy.arm_of(batch.cursor), batch.seen
        pulls, ones = (gathered(x, arm) for x in (seen.pulls, seen.ones))
        mode = jnp.where(batch.mode == _UNCLEAR, _UNCLEAR, jnp.where(batch.left > 0, _GOES, _RESTS))
        batch = batch._replace(visits=jnp.int32(0), pulls=pulls, ones=ones, mode=mode)
        blank = jnp.zeros((policy.words, 3), jnp.uint32)
        batch, record = lax.fori_loop(0, policy.words, self._word, (batch, blank))
        place = cyclic(policy.n, arm)
        upto = _upto(record, place)
        each = upto - jnp.where(place == 0, 0, jnp.roll(upto, 1))
        seen = batch.seen._replace(pulls=seen.pulls + (each >> 16), ones=seen.ones + (each & 0xFFFF))
        cursor, counter = policy.onward(batch.cursor, batch.counter, batch.visits)
        return batch._replace(seen=seen, cursor=cursor, counter=counter)

    def _word(self, number: Array, carry: tuple[_Progress, Array]) -> tuple[_Progress, Array]:
        batch, record = carry
        batch = patiently(_WORD, lambda _, batch: any_lane(batch.mode == _GOES), self._one, batch)
        made, none = batch.made, jnp.uint32(0)
        record = record.at[number].set(jnp.stack([batch.ends, batch.hits, made.astype(jnp.uint32)]))
        return batch._replace(
            seen=batch.seen._replace(total=batch.seen.total + made), left=batch.left - made,
            visits=batch.visits + _set_bits(batch.ends), hits=none, ends=none, made=jnp.int32(0),
        ), record  # fmt: skip

    def _one(self, number: Array, batch: _Progress) -> _Progress:
        """Makes pull ``number`` of a word, and checks what it decides."""
        start, policy = self.start, self.policy
        n, interval, rho = policy.n, policy.rule.interval, policy.rule.rho
        due = tuple(batch.counter.after(rounds, rho).ceiling() for rounds in (1, 2))
        visits = batch.visits + _set_bits(batch.ends)
        turn = batch.cursor + visits
        here = jnp.where(turn >= n, due[1], due[0])
        arm, later = policy.arm_of(turn), policy.arm_of(turn + 1)
        reward = self.sample(Pull(arm, batch.pulls))
        check = checked(interval.name, interval.sides, n)
        pull = OnePull(batch.seen.total, here, arm, batch.pulls, batch.ones, reward)
        code = check(start, pull, batch.sums, batch.best, batch.made)
        goes = batch.mode == _GOES
        over = goes & (code == ENDS)
        pulls, ones = batch.pulls + 1, batch.ones + reward
        old, new = (
            features(interval.name, *record, start.middle, start.log_term)
            for record in ((batch.pulls, batch.ones), (pulls, ones))
        )
        sums = jax.tree.map(lambda total, before, after: total + (after - before), batch.sums, old, new)
        bit = jnp.uint32(1) << number.astype(jnp.uint32)
        made = batch.made + goes.astype(jnp.int32)
        last = (made >= batch.left) | (over & (visits + 1 >= n))
        mode = jnp.where(code == UNCLEAR, _UNCLEAR, jnp.where(last, _RESTS, _GOES))
        return batch._replace(
            pulls=jnp.where(over, gathered(batch.seen.pulls, later), pulls),
            ones=jnp.where(over, gathered(batch.seen.ones, later), ones),
            hits=jnp.where(goes & (reward > 0), batch.hits | bit, batch.hits),
            ends=jnp.where(over, batch.ends | bit, batch.ends),
            made=made,
            sums=select(goes, sums, batch.sums),
            best=select(goes & (arm == start.best), new, batch.best),
            mode=jnp.where(goes, mode, batch.mode),
        )


def _set_bits(bits: Array) -> Array:
    return lax.population_count(bits).astype(jnp.int32)


@computed_once
def _upto(record: Array, place: Array) -> Array:
    """Returns how many pulls were made up to the end of visit number ``place``, times 2^16, plus their rewards: int32,
    as ``place``.

    ``record``: for each word the bits of pulls that ended a visit, those of pulls with a reward, and how many pulls the
    word has: shape (..., words, 3).
    """
    # The word in which the visit ends, and how many visits, pulls and rewards the words before it have.
    own = [jnp.zeros_like(place)] * 6
    visits, before, paid = (jnp.zeros_like(place[..., :1]) for _ in range(3))
    for number in range(record.shape[-2]):
        ends, hits, made = (record[..., number, j, None].astype(jnp.int32) for j in range(3))
        some = ends, hits, made, visits, before, paid
        own = [jnp.where(place >= visits, x, last) for x, last in zip(some, own, strict=True)]
        visits, before, paid = visits + _set_bits(ends), before + made, paid + _set_bits(hits)
    ends, hits, made, visits, before, paid = own
    # By bisection, as many bits as have at most ``rank`` ends: the next bit is the end. A visit that goes on beyond the
    # word has all of its pulls.
    rank, pulls = place - visits, jnp.zeros_like(place)
    for size in (16, 8, 4, 2, 1):
        longer = pulls + size
        pulls = jnp.where(_set_bits(ends & ((jnp.int32(1) << longer) - 1)) <= rank, longer, pulls)
    pulls = jnp.where(rank < _set_bits(ends), pulls + 1, made)
    inside = lax.bitcast_convert_type(low_bits(pulls), jnp.int32)
    return ((before + pulls) << 16) + paid + _set_bits(hits & inside)


@accelerated.register
def _(rule: WRR, problem: Any) -> Any:
    if not isinstance(problem, OutlierArms) or not problem.rewards.whole:
        return rule
    n = problem.source.arms
    return WRRInBatches(rule, tabulated(rule.interval, n), n)
