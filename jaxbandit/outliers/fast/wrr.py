"""WRR in walks: ``tests/test_outlier_policies.py::test_wrr_is_its_oracle`` ties it to ``jaxbandit.outliers.wrr``.

Which arm is pulled next depends on the last pull, but little of that needs an evaluation of all arms. A pull changes a
few sums over arms by what its own arm adds to them, and from these follow mu, sigma, the threshold's radius and whether
the arm is active. So a walk makes pulls one by one, each of them in a time that does not depend on n. Sums drift, and
radii that grow with T are not added up anew: a walk ends at a pull after which it is not clear whether its arm, or any
arm, is active. The evaluation at its end decides that. Medians are no sums: with the robust rule each pull is
evaluated.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxbandit.grammar import Execution, accelerated
from jaxbandit.outliers.fast.check import Start, checked, features
from jaxbandit.outliers.fast.leap import active, cyclic, evaluate, low_bits, outliers, select
from jaxbandit.outliers.fast.tables import Table, tabulated
from jaxbandit.outliers.intervals import width_of_threshold
from jaxbandit.outliers.problem import Once, OutlierArms, Pull, View
from jaxbandit.outliers.record import Seen, answer
from jaxbandit.outliers.wrr import WRR, Counter
from jaxbandit.xla.batch import over_lanes
from jaxbandit.xla.fence import as_one_kernel, computed_once


class State(NamedTuple):
    """``cursor``: the turn (0 to n - 1, in the order of a round) of the arm that is pulled next; ``counter``: of the
    arms not yet visited in this round, the one at ``cursor`` included; ``best``: the arm that was most active at the
    last evaluation, which decides nothing; ``active``: whether any arm is."""

    seen: Seen
    cursor: Array
    counter: Counter
    best: Array
    active: Array


_GOES, _RESTS, _UNCLEAR = range(3)
_WORD = 32
_WORDS = 8
"""A walk is at most so many words of pulls, a bit each."""


class _Way(NamedTuple):
    """A walk. ``way``: of the three above; ``left``: pulls that may be made. Of the arm at ``cursor``, or ``visits``
    later: pulls ``m`` and ``ones``. In this word: ``made`` pulls, a bit each; ``hits``: those that paid,
    ``ends``: those that ended a visit. ``sums``: over all arms, see ``check.features``; ``best``: those of one arm."""

    seen: Seen
    cursor: Array
    counter: Counter
    left: Array
    visits: Array
    m: Array
    ones: Array
    hits: Array
    ends: Array
    made: Array
    sums: tuple[Array, ...]
    best: tuple[Array, ...]
    way: Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class WalkingWRR:
    """``rule``; its log terms, ``table``; ``n`` (static): how many arms."""

    rule: WRR
    table: Table
    n: int = field(metadata={"static": True})

    @property
    def words(self) -> int:
        """Words of pulls between two records: in so many pulls no arm is visited twice, but for few arms."""
        return max(1, min(self.n // _WORD, _WORDS))

    @property
    def execution(self) -> Execution:
        """Where arms are few, 64 lanes or more share a kernel."""
        return Execution(stride=4, in_cache=True, step_bytes=min(4096 + 60 * self.n, 1 << 14), masked=True, gain_ns=1)

    def init(self, view: View) -> State:
        """Each arm once."""
        zero = jnp.int32(0)
        return State(Seen.nothing(self.n), zero, Counter(zero, zero), zero, jnp.bool_(True))

    def advance(self, view: View, state: State, sample: Callable[[Any], Array]) -> State:
        """Walks as far as is clear, evaluates, and decides about the last pull where it was not."""
        n, of, goes = self.n, self.rule.of, ~self.done(view, state)
        first = state.seen.total == 0
        arms = jnp.arange(n, dtype=jnp.int32)
        way = self._walk(view, state, sample)
        once = jnp.broadcast_to(first.astype(jnp.int32), (n,))
        seen = select(first, state.seen.add(once, sample(Once(once, state.seen.pulls))), way.seen)
        now = evaluate(of, seen, self.table.at(jnp.maximum(seen.total, 1)), view.unit)
        overlap = now.at.overlap
        best = jnp.max(overlap)
        here = arms == self.arm_of(way.cursor)
        own = jnp.sum(jnp.where(here, overlap, 0))
        unclear = ((way.way == _UNCLEAR) | first) & goes
        close = (jnp.abs(best) <= now.unsure) | (jnp.abs(own) <= now.unsure)
        on = active(of, seen, now, view.unit, close & unclear)
        due = way.counter.after(1, self.rule.share).ceiling()
        ended = unclear & ~first & ~jnp.any(here & on & (seen.pulls < due))
        cursor, counter = self.onward(way.cursor, way.counter, ended.astype(jnp.int32))
        # Floats that are not negative are ordered as their bits are; the lowest of these are the arm.
        mask = jnp.int32((1 << (n - 1).bit_length()) - 1)
        strongest = jnp.max((lax.bitcast_convert_type(jnp.maximum(overlap, 0), jnp.int32) & ~mask) | arms) & mask
        return select(goes, State(seen, cursor, counter, strongest, ~unclear | jnp.any(on)), state)

    def arm_of(self, turn: Array) -> Array:
        """The arm whose turn it is: 0 to 3 n - 1."""
        arm = 1 + turn
        for _ in range(3):
            arm = jnp.where(arm >= self.n, arm - self.n, arm)
        return arm

    def onward(self, cursor: Array, counter: Counter, visits: Array) -> tuple[Array, Counter]:
        """Up to n visits later."""
        cursor = cursor + visits
        again = cursor >= self.n
        return jnp.where(again, cursor - self.n, cursor), select(again, counter.after(1, self.rule.share), counter)

    def _walk(self, view: View, state: State, sample: Callable[[Any], Array]) -> _Way:
        """Pulls as far as it is clear what is pulled next."""
        n, of = self.n, self.rule.of
        assert of.k is not None
        k, seen = of.k.hi, state.seen
        pulls, total = jnp.maximum(seen.pulls, 1), jnp.maximum(seen.total, 1)
        y = seen.ones.astype(jnp.float32) / pulls.astype(jnp.float32)
        middle = jnp.sum(y) / n
        # Log terms are read at both ends of a walk, which is not to double T.
        span = jnp.minimum(_WORD * _WORDS, total)
        log_term, last = self.table.at(total), self.table.at(total + span)
        trusted = jnp.bool_(of.rule == "k-sigma")
        left = jnp.where(trusted, jnp.minimum(view.budget - seen.total, span), 1)
        left = jnp.where(~self.done(view, state) & (seen.total > 0), left, 0)
        parts = features(of.name, pulls, seen.ones, middle, log_term)
        sums = tuple(jnp.sum(x) for x in parts)
        best = tuple(x[state.best] for x in parts)
        even = jnp.all(seen.ones == 0) | jnp.all(seen.ones == pulls)
        step = (last - log_term) / span.astype(jnp.float32)
        doubt = jnp.square(span.astype(jnp.float32) / total.astype(jnp.float32)) / (2 * log_term)
        doubt = jnp.where(trusted, doubt, jnp.float32(1e9))
        scale = width_of_threshold(n, k, of.delta.hi, jnp)
        start = Start(k, scale, middle, log_term, step, doubt, even, total, state.best)
        zero, none = jnp.int32(0), jnp.uint32(0)
        way = _Way(
            seen._replace(pulls=pulls), state.cursor, state.counter, left, zero, zero, zero, none, none, zero,
            sums, best, jnp.where(left > 0, _GOES, _RESTS),
        )  # fmt: skip
        return _Walk(self, sample, start).to_its_end(way)

    def done(self, view: View, state: State) -> Array:
        """No arm is active, or the budget is spent."""
        return ~state.active | (state.seen.total >= view.budget)

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """See ``record.answer``."""
        return answer(state.seen, outliers(self.rule.of, state.seen, view.unit), ~state.active)


@dataclass(frozen=True, eq=False)
class _Walk:
    """A walk by ``policy`` from ``start``: words of pulls, and after some of them their record is put into ``seen``."""

    policy: WalkingWRR
    sample: Callable[[Any], Array]
    start: Start

    def to_its_end(self, way: _Way) -> _Way:
        """After all pulls, in one kernel."""
        way = as_one_kernel(lambda: lax.while_loop(self._more, self._some, (jnp.int32(0), way)))[1]
        return way

    def _more(self, carry: tuple[Array, _Way]) -> Array:
        number, way = carry
        return (number < _WORDS // self.policy.words) & _any((way.way != _UNCLEAR) & (way.left > 0))

    def _some(self, carry: tuple[Array, _Way]) -> tuple[Array, _Way]:
        """Words up to the next record."""
        number, way = carry
        policy = self.policy
        arm, seen = policy.arm_of(way.cursor), way.seen
        m, ones = (_at(x, arm) for x in (seen.pulls, seen.ones))
        mode = jnp.where(way.way == _UNCLEAR, _UNCLEAR, jnp.where(way.left > 0, _GOES, _RESTS))
        way = way._replace(visits=jnp.int32(0), m=m, ones=ones, way=mode)
        blank = jnp.zeros((policy.words, 3), jnp.uint32)
        way, record = lax.fori_loop(0, policy.words, self._word, (way, blank))
        place = cyclic(policy.n, arm)
        upto = _upto(record, place)
        each = upto - jnp.where(place == 0, 0, jnp.roll(upto, 1))
        seen = way.seen._replace(pulls=seen.pulls + (each >> 16), ones=seen.ones + (each & 0xFFFF))
        cursor, counter = policy.onward(way.cursor, way.counter, way.visits)
        return number + 1, way._replace(seen=seen, cursor=cursor, counter=counter)

    def _word(self, number: Array, carry: tuple[_Way, Array]) -> tuple[_Way, Array]:
        way, record = carry
        way = lax.while_loop(lambda c: (c[0] < _WORD) & _any(c[1].way == _GOES), self._one, (jnp.int32(0), way))[1]
        made, none = way.made, jnp.uint32(0)
        record = record.at[number].set(jnp.stack([way.ends, way.hits, made.astype(jnp.uint32)]))
        return way._replace(
            seen=way.seen._replace(total=way.seen.total + made), left=way.left - made,
            visits=way.visits + _set_bits(way.ends), hits=none, ends=none, made=jnp.int32(0),
        ), record  # fmt: skip

    def _one(self, carry: tuple[Array, _Way]) -> tuple[Array, _Way]:
        """Pull ``number`` of a word."""
        number, way = carry
        start, policy = self.start, self.policy
        n, of, share = policy.n, policy.rule.of, policy.rule.share
        due = tuple(way.counter.after(rounds, share).ceiling() for rounds in (1, 2))
        visits = way.visits + _set_bits(way.ends)
        turn = way.cursor + visits
        here = jnp.where(turn >= n, due[1], due[0])
        arm, later = policy.arm_of(turn), policy.arm_of(turn + 1)
        paid = self.sample(Pull(arm, way.m))
        check = checked(of.name, of.sides, n)
        code = check(*start, way.seen.total, here, arm, way.m, way.ones, paid, *way.sums, *way.best, way.made)
        goes = way.way == _GOES
        over = goes & ((code & 2) > 0)
        m, ones = way.m + 1, way.ones + paid
        old, new = (features(of.name, *x, start.middle, start.log_term) for x in ((way.m, way.ones), (m, ones)))
        bit = jnp.uint32(1) << number.astype(jnp.uint32)
        made = way.made + goes.astype(jnp.int32)
        last = (made >= way.left) | (over & (visits + 1 >= n))
        mode = jnp.where((code & 4) > 0, _UNCLEAR, jnp.where(last, _RESTS, _GOES))
        return number + 1, way._replace(
            m=jnp.where(over, _at(way.seen.pulls, later), m),
            ones=jnp.where(over, _at(way.seen.ones, later), ones),
            hits=jnp.where(goes & (paid > 0), way.hits | bit, way.hits),
            ends=jnp.where(over, way.ends | bit, way.ends),
            made=made,
            sums=tuple(jnp.where(goes, s + (b - a), s) for s, a, b in zip(way.sums, old, new, strict=True)),
            best=tuple(jnp.where(goes & (arm == start.best), b, x) for x, b in zip(way.best, new, strict=True)),
            way=jnp.where(goes, mode, way.way),
        )


def _at(x: Array, arm: Array) -> Array:
    """``x[arm]``, of an arm that there is."""
    return x.at[arm].get(mode="promise_in_bounds")


def _any(lane: Array) -> Array:
    """Whether it is so in any lane."""
    found: Array = over_lanes(lane.astype(jnp.int32)) > 0
    return found


def _set_bits(bits: Array) -> Array:
    return lax.population_count(bits).astype(jnp.int32)


@computed_once
def _upto(record: Array, place: Array) -> Array:
    """How many pulls were made up to the end of visit number ``place``, times 2^16, and how many of them paid.

    ``record``: words of the ends of visits, of rewards, and how many pulls they have, shape (..., words, 3).
    """
    own = [jnp.zeros_like(place)] * 6
    visits, before, paid = (jnp.zeros_like(place[..., :1]) for _ in range(3))
    for number in range(record.shape[-2]):
        ends, hits, made = (record[..., number, j, None].astype(jnp.int32) for j in range(3))
        some = ends, hits, made, visits, before, paid
        own = [jnp.where(place >= visits, x, last) for x, last in zip(some, own, strict=True)]
        visits, before, paid = visits + _set_bits(ends), before + made, paid + _set_bits(hits)
    ends, hits, made, visits, before, paid = own
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
    return WalkingWRR(rule, tabulated(rule.of, n), n)
