"""GOLD in leaps: ``tests/test_outlier_policies.py::test_gold_is_its_oracle`` ties it to ``jaxbandit.outliers.gold``.

Radii grow with T, so a pull loses edges of the pulled arm alone: a sweep is two checks an edge. Nothing is decided but
by the partition into communities. So up to ``SWEEPS`` sweeps of single rewards are drawn, and the least upper and the
greatest lower end of each arm's interval on the way tell which edges surely stay. If those keep each community
together, the sweeps hold no event. What became of an edge that was not needed may stay open: it is *perhaps* there.
Where edges that are needed come close to being lost, they are checked after every pull, up to the first one that parts
a community. If then it matters what became of an open edge (never seen, but possible), the run begins again and
leaves none open: a reward is a function of its address, so all is as before.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxbandit.grammar import Execution, accelerated
from jaxbandit.outliers.fast.leap import low_bits, select
from jaxbandit.outliers.fast.tables import Table, tabulated
from jaxbandit.outliers.gold import GOLD, NEVER, communities
from jaxbandit.outliers.problem import OutlierArms, Singles, View
from jaxbandit.outliers.record import Seen, answer, means_of
from jaxbandit.xla.fence import rarely

SWEEPS = 32
"""The most sweeps in a leap."""
LOST, PERHAPS, KEPT = range(3)
"""What is known of an edge."""

_SAFE = 5.0
"""How far above its end an edge must stay to be relied on, in units of 1 / (pulls * width): an edge that then is left
open matters later with a probability of about exp(-2 * _SAFE)."""


class State(NamedTuple):
    """``edges``: int8, (n, n), ``LOST``, ``PERHAPS`` or ``KEPT``; ``labels``: the lowest arm of each arm's community
    among those not terminal, (n,); ``members``: the arms of this sweep (bool); ``cursor``: the first that may still be
    pulled in it; ``scores``: (n,), ``NEVER`` at first; ``strict``: whether no edge is left open; ``close``: whether the
    next pull is evaluated alone; ``ended``: whether there are enough terminal arms."""

    seen: Seen
    edges: Array
    labels: Array
    members: Array
    cursor: Array
    scores: Array
    strict: Array
    close: Array
    ended: Array


class Found(NamedTuple):
    """What a leap held. Pulls are ordered by their *turn*: sweep * n + arm, sweeps counted from the present one.

    ``last``: the turn of the last pull that is made, -1 where it is none; ``fresh``: which arms it made terminal;
    ``stuck``: whether the next pull must be evaluated alone; ``lost``: whether an open edge mattered."""

    last: Array
    edges: Array
    labels: Array
    fresh: Array
    stuck: Array
    lost: Array


def _parting(turns: Array, labels: Array, free: Array) -> Array:
    """The turn at which a community of the arms ``free`` first comes apart, an edge being lost at its turn in
    ``turns``, (n, n)."""
    n = labels.shape[0]
    start = jnp.where(~free | (labels == jnp.arange(n, dtype=jnp.int32)), NEVER, -1)

    def spread(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        width, _ = carry
        reached = jnp.max(jnp.minimum(turns, width[:, None]), axis=0)
        wider = jnp.maximum(width, reached)
        return wider, jnp.any(wider != width)

    width = lax.while_loop(lambda carry: carry[1], spread, (start, jnp.bool_(True)))[0]
    return jnp.min(width)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class LeapingGOLD:
    """``rule``; its log terms, ``table``; ``n`` (static): how many arms."""

    rule: GOLD
    table: Table
    n: int = field(metadata={"static": True})

    @property
    def execution(self) -> Execution:
        """A step works on the graph, several times."""
        return Execution(stride=8, in_cache=True, step_bytes=12 * self.n * self.n, masked=True)

    def init(self, view: View) -> State:
        """A first sweep over all arms."""
        n, no = self.n, jnp.bool_(False)
        edges, never = jnp.full((n, n), KEPT, jnp.int8), jnp.full(n, NEVER, jnp.int32)
        labels, members = jnp.zeros(n, jnp.int32), jnp.ones(n, bool)
        return State(Seen.nothing(n), edges, labels, members, jnp.int32(0), never, no, no, no)

    def advance(self, view: View, state: State, sample: Callable[[Singles], Array]) -> State:
        """Looks for the first event of a leap, and goes up to there."""
        n = self.n
        arms = jnp.arange(n, dtype=jnp.int32)
        last = self._last(view, state)
        asked, first = _counts(state, last), state.seen.total == 0
        outcome = sample(Singles(asked, state.seen.pulls))
        steady, relied, edges = self._screen(state, last, asked, outcome)
        needed = (last >= 0) & ~first & (state.strict | state.close | ~steady)
        no = jnp.bool_(False)
        otherwise = Found(last, edges, state.labels, jnp.zeros(n, bool), no, no)
        found: Found = _resolve(needed, otherwise, self, state, relied, last, outcome)
        counts = _counts(state, found.last)
        seen = state.seen.add(counts, lax.population_count(outcome & low_bits(counts)).astype(jnp.int32))
        scores = jnp.where(found.fresh, seen.total, state.scores)
        done = scores != NEVER
        cursor = jnp.where(found.last >= 0, found.last % n + 1, state.cursor)
        over = ~jnp.any(state.members & (arms >= cursor))
        enough = (over | self.rule.at_once) & (jnp.sum(done, dtype=jnp.int32) >= self.rule.enough) & ~first
        members, cursor = jnp.where(over, ~done, state.members), jnp.where(over, 0, cursor)
        close, ended = jnp.where(last >= 0, found.stuck, state.close), state.ended | enough
        after = State(seen, found.edges, found.labels, members, cursor, scores, state.strict, close, ended)
        return select(found.lost, self.init(view)._replace(strict=jnp.bool_(True)), after)

    def _last(self, view: View, state: State) -> Array:
        """The turn of the last pull that may be made before the next evaluation, -1 where there is none."""
        n = self.n
        size, before = _sweep(state)
        alike = jnp.all(state.members != (state.scores != NEVER))
        pulls = jnp.where(alike, SWEEPS, 1) * size - before
        pulls = jnp.where(state.close, 1, pulls)
        # Each arm once, at first.
        pulls = jnp.where(state.seen.total == 0, n, pulls)
        pulls = jnp.where(self.done(view, state), 0, jnp.minimum(pulls, view.budget - state.seen.total))
        final = before + pulls - 1
        arms = jnp.arange(n, dtype=jnp.int32)
        arm = jnp.max(jnp.where(state.members & (_rank(state.members) == final % size), arms, 0))
        return jnp.where(pulls > 0, final // size * n + arm, -1)

    def _screen(self, state: State, last: Array, counts: Array, outcome: Array) -> tuple[Array, Array, Array]:
        """Whether a leap surely parts no community, by which edges, and what is then known of all edges."""
        at, ends = _walk(state, last, counts, outcome)
        log_term, of, b = self.table.at(jnp.maximum(state.seen.total, 1)), self.rule.of, self.rule.b.hi
        pulls, ones = (jnp.concatenate([now[None], later]) for now, later in zip(_now(state), at, strict=True))
        y = means_of(pulls, ones)
        half = b * of.radii(pulls, ones, log_term)
        high, low = jnp.min(y + half, axis=0), jnp.max(y - half, axis=0)
        widest = jnp.max(half[0])
        unsure = _unsure(widest)
        free = state.scores == NEVER
        least = jnp.min(jnp.where(free, pulls[0], NEVER)).astype(jnp.float32)
        safe = jnp.float32(_SAFE) / (least * widest)
        room = jnp.minimum(high[:, None] - low[None, :], high[None, :] - low[:, None])
        total = state.seen.total + jnp.sum(counts, dtype=jnp.int32)
        final = b * of.radii(*ends, self.table.at(jnp.maximum(total, 1)))
        y = means_of(*ends)
        gone = jnp.abs(y[:, None] - y[None, :]) - (final[:, None] + final[None, :]) > unsure
        moved = (state.seen.total > 0) & (last >= 0)
        edges = jnp.where(room > unsure, state.edges, jnp.minimum(state.edges, PERHAPS))
        edges = jnp.where(moved, jnp.where(gone, LOST, edges), state.edges).astype(jnp.int8)
        relied = (room > unsure + safe) & (state.edges == KEPT)
        heads = free & (state.labels == jnp.arange(self.n, dtype=jnp.int32))
        return jnp.all(_reached(relied, heads) | ~free), relied, edges

    def done(self, view: View, state: State) -> Array:
        """There are enough terminal arms, or the budget is spent."""
        return state.ended | (state.seen.total >= view.budget)

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """See ``GOLD.answer``."""
        return answer(state.seen, state.scores != NEVER, state.ended) | {"scores": state.scores}


def _unsure(widest: Array) -> Array:
    """The distance that float32 cannot be trusted below: several times its error."""
    least: Array = jnp.float32(2.0**-19) * (1 + widest + widest)
    return least


def _reached(linked: Array, start: Array) -> Array:
    """Which arms are connected with some of ``start`` (bool, (n,)). ``linked``: bool, (n, n), symmetric."""

    def spread(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        found, _ = carry
        wider = found | jnp.any(linked & found[:, None], axis=0)
        return wider, jnp.any(wider != found)

    return lax.while_loop(lambda carry: carry[1], spread, (start, jnp.any(start)))[0]


def _rank(members: Array) -> Array:
    """How many members have a lower number: int32, (n,)."""
    padded = jnp.pad(members, (0, -members.shape[0] % 32)).reshape(-1, 32).astype(jnp.uint32)
    groups = jnp.sum(padded << jnp.arange(32, dtype=jnp.uint32), axis=-1, dtype=jnp.uint32)
    places = jnp.arange(members.shape[0], dtype=jnp.int32)
    counts = lax.population_count(groups).astype(jnp.int32)
    whole = jnp.cumsum(counts) - counts
    return whole[places // 32] + lax.population_count(groups[places // 32] & low_bits(places % 32)).astype(jnp.int32)


def _sweep(state: State) -> tuple[Array, Array]:
    """How many arms a sweep has, and how many of them were pulled in this one."""
    arms = jnp.arange(state.members.shape[0], dtype=jnp.int32)
    size = jnp.sum(state.members, dtype=jnp.int32)
    return size, jnp.sum(state.members & (arms < state.cursor), dtype=jnp.int32)


def _open(state: State) -> Array:
    """The pairs of arms that are not terminal: bool, (n, n)."""
    free = state.scores == NEVER
    return free[:, None] & free[None, :]


def _counts(state: State, last: Array) -> Array:
    """Pulls of each arm until the turn ``last``: int32, (n,), or (sweeps, n) where ``last`` is (sweeps, 1)."""
    n = state.members.shape[0]
    arms = jnp.arange(n, dtype=jnp.int32)
    made = last // n + (arms <= last % n).astype(jnp.int32) - (arms < state.cursor).astype(jnp.int32)
    return jnp.where(state.members & (last >= 0), jnp.maximum(made, 0), 0)


def _now(state: State) -> tuple[Array, Array]:
    return jnp.maximum(state.seen.pulls, 1), state.seen.ones


def _walk(state: State, last: Array, counts: Array, outcome: Array) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Pulls and successes after each sweep of a leap, (sweeps, n), and at its end, (n,)."""
    n = state.members.shape[0]
    turns = jnp.arange(1, SWEEPS + 1, dtype=jnp.int32)[:, None] * n - 1

    def after(counts: Array) -> tuple[Array, Array]:
        ones = lax.population_count(outcome & low_bits(counts)).astype(jnp.int32)
        return jnp.maximum(state.seen.pulls + counts, 1), state.seen.ones + ones

    return after(jnp.minimum(_counts(state, turns), counts)), after(counts)


@rarely
def _resolve(policy: LeapingGOLD, state: State, relied: Array, last: Array, outcome: Array) -> Found:
    """What a leap holds, by each check."""
    found: Found = lax.cond(state.close, _evaluate_closely, _evaluate, policy, state, relied, last, outcome)
    return found


class _Ends(NamedTuple):
    """Of each arm in each sweep, (sweeps, n): its mean, b times its radius where the sweep begins, and by how much
    that grows until its end."""

    y: Array
    half: Array
    growth: Array

    def of(self, arm: Array) -> "_Ends":
        """Of one arm: (sweeps, 1)."""
        return _Ends(*(lax.dynamic_slice_in_dim(x, arm, 1, axis=1) for x in self))


def _pick(condition: Array, yes: _Ends, no: _Ends) -> _Ends:
    return _Ends(*(jnp.where(condition, a, b) for a, b in zip(yes, no, strict=True)))


def _evaluate(policy: LeapingGOLD, state: State, relied: Array, last: Array, outcome: Array) -> Found:
    """The checks of the edges that matter, as far as float32 tells."""
    n = policy.n
    arms = jnp.arange(n, dtype=jnp.int32)
    sweep = jnp.arange(SWEEPS, dtype=jnp.int32)[:, None]
    (pulls, ones), _ = _walk(state, last, _counts(state, last), outcome)
    now = _now(state)
    earlier = tuple(jnp.concatenate([one[None], many[:-1]]) for one, many in zip(now, (pulls, ones), strict=True))
    # Radii are read at the ends of each sweep; between these they are nearly linear in T.
    size, before = _sweep(state)
    borders = jnp.maximum(state.seen.total - before + jnp.arange(SWEEPS + 1, dtype=jnp.int32) * size, 1)
    log_term = jax.vmap(policy.table.at)(borders)[:, None]
    of, b = policy.rule.of, policy.rule.b.hi

    def ends(pulls: Array, ones: Array) -> _Ends:
        at_start, at_end = (b * of.radii(pulls, ones, x) for x in (log_term[:-1], log_term[1:]))
        return _Ends(means_of(pulls, ones), at_start, at_end - at_start)

    old, new = ends(*earlier), ends(pulls, ones)
    share = (_rank(state.members) + 1).astype(jnp.float32) / size.astype(jnp.float32)
    turn = sweep * n + arms
    made = state.members & ((sweep > 0) | (arms >= state.cursor)) & (turn <= last)
    own = jnp.where(made, new.half + share * new.growth, jnp.float32(1e9))
    widest = jnp.max(old.half)
    step = size.astype(jnp.float32) / borders[0].astype(jnp.float32)
    bend = jnp.square((log_term[1, 0] - log_term[0, 0]) / log_term[0, 0]) / 2 + jnp.square(step) / 4
    unsure = _unsure(widest) + widest * bend
    # The ends on the way tell which edges surely stay, and the parts that relied ones connect need no others.
    high = jnp.minimum(jnp.min(new.y + new.half, axis=0), (old.y + old.half)[0])
    low = jnp.maximum(jnp.max(new.y - new.half, axis=0), (old.y - old.half)[0])
    room = jnp.minimum(high[:, None] - low[None, :], high[None, :] - low[:, None])
    free = _open(state)
    stays = relied & free
    parts = communities(stays)
    needed = (parts[:, None] != parts[None, :]) | state.strict
    unsettled = (room <= unsure) & ~stays & (state.edges != LOST) & free & (arms[:, None] != arms[None, :])

    def check(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        """All edges of the arm that has the most of them to check."""
        left, possible, certain = carry
        arm = jnp.argmax(jnp.sum(left, axis=0, dtype=jnp.int32)).astype(jnp.int32)
        here = arms == arm

        def mine(x: Array) -> Array:
            return lax.dynamic_slice_in_dim(x, arm, 1, axis=-1)

        theirs, ours = _pick(arms < arm, new, old), _pick(arm < arms, new.of(arm), old.of(arm))
        at_ours = jnp.abs(mine(new.y) - theirs.y) - (mine(own) + theirs.half + mine(share) * theirs.growth)
        at_theirs = jnp.abs(new.y - ours.y) - (own + ours.half + share * ours.growth)

        def when(limit: Array) -> Array:
            at = jnp.minimum(jnp.where(at_ours > limit, mine(turn), NEVER), jnp.where(at_theirs > limit, turn, NEVER))
            return jnp.where(here, NEVER, jnp.min(at, axis=0))

        def put(all_: Array, row: Array) -> Array:
            return jnp.where(here[:, None], row[None, :], jnp.where(here[None, :], row[:, None], all_))

        return left & ~here[:, None] & ~here[None, :], put(possible, when(-unsure)), put(certain, when(unsure))

    left = unsettled & needed
    # What is not checked is open from the start; what surely stays is not lost.
    start = jnp.where(unsettled & ~needed, -1, NEVER), jnp.full((n, n), NEVER)
    _, possible, certain = lax.while_loop(lambda carry: jnp.any(carry[0]), check, (left, *start))
    kept, perhaps = (state.edges == KEPT) & free, (state.edges != LOST) & free
    parting = _parting(jnp.where(kept, possible, -1), state.labels, state.scores == NEVER)
    unclear = jnp.min(jnp.where(perhaps & (possible < certain), possible, NEVER))
    unclear = jnp.where(state.strict, unclear, NEVER)
    event = jnp.minimum(parting, unclear)
    some = event < NEVER

    def until(turn: Array) -> Array:
        edges = jnp.where(possible > turn, state.edges, jnp.minimum(state.edges, PERHAPS))
        return jnp.where(certain > turn, edges, LOST).astype(jnp.int8)

    edges = until(jnp.where(some, event, last))
    labels = communities((edges == KEPT) & free)
    # An event that is not certain is left to the next evaluation, together with its pull.
    wider = communities((edges != LOST) & free)
    stuck = some & ((unclear <= parting) & (unclear < NEVER) | jnp.any(labels != wider))
    edges = jnp.where(stuck, until(event - 1), edges)
    event = jnp.where(stuck, _turn_before(state, event), event)
    parted = some & ~stuck
    labels = jnp.where(parted, labels, state.labels)
    fresh = parted & _small(labels, policy, state)
    return Found(jnp.where(some, event, last), edges, labels, fresh, stuck, jnp.bool_(False))


def _small(labels: Array, policy: LeapingGOLD, state: State) -> Array:
    """Which arms become terminal with these communities."""
    size = jnp.sum(labels[:, None] == labels[None, :], axis=0, dtype=jnp.int32)
    return (state.scores == NEVER) & (size <= policy.rule.largest)


def _turn_before(state: State, turn: Array) -> Array:
    """The last turn of a pull before ``turn`` that is not made yet, -1 where there is none."""
    n = state.members.shape[0]
    arms = jnp.arange(n, dtype=jnp.int32)
    sweep, arm = turn // n, turn % n
    here = jnp.max(jnp.where(state.members & (arms < arm) & ((sweep > 0) | (arms >= state.cursor)), arms, -1))
    end = jnp.max(jnp.where(state.members & ((sweep > 1) | (arms >= state.cursor)), arms, -1))
    earlier = jnp.where((sweep > 0) & (end >= 0), (sweep - 1) * n + end, -1)
    return jnp.where(here >= 0, sweep * n + here, earlier)


def _evaluate_closely(policy: LeapingGOLD, state: State, relied: Array, last: Array, outcome: Array) -> Found:
    """The checks of one pull, exactly."""
    arms = jnp.arange(policy.n, dtype=jnp.int32)
    _, (pulls, ones) = _walk(state, last, _counts(state, last), outcome)
    arm, of = last % policy.n, policy.rule.of
    total = state.seen.total + 1
    radii, y = policy.rule.b.hi * of.radii(pulls, ones, policy.table.at(total)), means_of(pulls, ones)
    rough = jnp.abs(y - y[arm]) - (radii + radii[arm])
    close = jnp.any(jnp.abs(rough) <= _unsure(jnp.max(radii)))
    seen = Seen(pulls, ones, total)
    apart = lax.cond(close, lambda: ~policy.rule.neighbours(seen, 1.0)[arm], lambda: rough > 0)
    gone = (apart[None, :] & (arms[:, None] == arm)) | (apart[:, None] & (arms[None, :] == arm))
    edges = jnp.where(gone, LOST, state.edges).astype(jnp.int8)
    labels, wider = (communities(found & _open(state)) for found in (edges == KEPT, edges != LOST))
    parted = jnp.any((labels != state.labels) & (state.scores == NEVER))
    fresh = parted & _small(labels, policy, state)
    return Found(last, edges, labels, fresh, jnp.bool_(False), jnp.any(labels != wider))


@accelerated.register
def _(rule: GOLD, problem: Any) -> Any:
    if not isinstance(problem, OutlierArms) or not problem.rewards.whole:
        return rule
    n = problem.source.arms
    return LeapingGOLD(rule, tabulated(rule.of, n), n)
