"""The first event of a batch of GOLD: the pull after which a community comes apart, or may have done so."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxbandit.outliers.fast.log_terms import LogTerms
from jaxbandit.outliers.fast.sweeps import (
    KEPT,
    LOST,
    PERHAPS,
    SWEEPS,
    State,
    by_sweep,
    of_sweep,
    open_pairs,
    pulls_until,
    rank,
    so_far,
    turn_before,
)
from jaxbandit.outliers.gold import GOLD, NEVER, communities
from jaxbandit.outliers.record import Seen, means_of
from jaxbandit.xla.entries import select
from jaxbandit.xla.fence import rarely
from jaxbandit.xla.formula import formula


class Found(NamedTuple):
    """Holds the outcome of a batch. ``last``: the turn of the last pull that is made, -1 for none; ``edges``,
    ``labels``: see ``State``; ``fresh``: which arms became terminal; ``stuck``: whether the next pull must be evaluated
    alone; ``lost``: whether an edge of unknown status mattered, so that the run must begin again."""

    last: Array
    edges: Array
    labels: Array
    fresh: Array
    stuck: Array
    lost: Array


@rarely
def resolve(rule: GOLD, log_terms: LogTerms, state: State, relied: Array, last: Array, outcome: Array) -> Found:
    """Returns the outcome of a batch, whose last pull is at turn ``last``, by checks of single pulls."""
    found: Found = lax.cond(state.close, _evaluate_closely, _evaluate, rule, log_terms, state, relied, last, outcome)
    return found


class _Ends(NamedTuple):
    """Holds for each arm in each sweep, (sweeps, n): its mean, b times its radius where the sweep begins, and by how
    much that grows until the sweep's end."""

    y: Array
    half: Array
    growth: Array

    def of(self, arm: Array) -> "_Ends":
        """Returns the columns of one arm: (sweeps, 1)."""
        return _Ends(*(lax.dynamic_slice_in_dim(x, arm, 1, axis=1) for x in self))


class _Course(NamedTuple):
    """Holds the intervals of all arms in the course of a batch: ``old`` before the pull of each sweep and ``new`` after
    it. ``turn``: of that pull, and ``own``: the half width at it, very large where it is not made (sweeps, n);
    ``share``: the part of a sweep that is over then, (n,); ``unsure``: float32 cannot be trusted below this
    distance."""

    old: _Ends
    new: _Ends
    turn: Array
    own: Array
    share: Array
    unsure: Array

    @formula
    def room(self) -> Array:
        """Returns by how much the intervals of two arms overlap at least, (n, n)."""
        high = jnp.minimum(jnp.min(self.new.y + self.new.half, axis=0), (self.old.y + self.old.half)[0])
        low = jnp.maximum(jnp.max(self.new.y - self.new.half, axis=0), (self.old.y - self.old.half)[0])
        return jnp.minimum(high[:, None] - low[None, :], high[None, :] - low[:, None])

    @formula
    def check(self, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        """Checks all edges of the arm that has the most edges to check. Returns the edges that are left to check, and
        the turns at which each edge is possibly lost and certainly lost, (n, n)."""
        left, possible, certain = carry
        old, new, own, share, turn = self.old, self.new, self.own, self.share, self.turn
        arms = jnp.arange(left.shape[0], dtype=jnp.int32)
        arm = jnp.argmax(jnp.sum(left, axis=0, dtype=jnp.int32)).astype(jnp.int32)
        here = arms == arm

        def mine(x: Array) -> Array:
            return lax.dynamic_slice_in_dim(x, arm, 1, axis=-1)

        # An edge is checked in each sweep at the pull of the arm, and at the pull of the other arm. At the arm's pull,
        # arms of lower numbers have had theirs in this sweep; at the others' pulls, the arm has if its number is lower.
        theirs, ours = select(arms < arm, new, old), select(arm < arms, new.of(arm), old.of(arm))
        # By how much two intervals are apart then; they overlap where this is below 0.
        at_ours = jnp.abs(mine(new.y) - theirs.y) - (mine(own) + theirs.half + mine(share) * theirs.growth)
        at_theirs = jnp.abs(new.y - ours.y) - (own + ours.half + share * ours.growth)

        def when(limit: Array) -> Array:
            """Returns the first turn at which each edge's intervals are apart by more than a limit: int32, (n,)."""
            at = jnp.minimum(jnp.where(at_ours > limit, mine(turn), NEVER), jnp.where(at_theirs > limit, turn, NEVER))
            return jnp.where(here, NEVER, jnp.min(at, axis=0))

        def put(all_: Array, row: Array) -> Array:
            """Returns the turns of all edges, with others at the edges of the arm."""
            return jnp.where(here[:, None], row[None, :], jnp.where(here[None, :], row[:, None], all_))

        left = left & ~here[:, None] & ~here[None, :]
        return left, put(possible, when(-self.unsure)), put(certain, when(self.unsure))


@formula
def _course(rule: GOLD, log_terms: LogTerms, state: State, last: Array, outcome: Array) -> _Course:
    """Returns the intervals in the course of a batch whose last pull is at turn ``last``."""
    n = state.members.shape[0]
    arms = jnp.arange(n, dtype=jnp.int32)
    sweep = jnp.arange(SWEEPS, dtype=jnp.int32)[:, None]
    (pulls, ones), _ = by_sweep(state, last, pulls_until(state, last), outcome)
    now = so_far(state)
    earlier = tuple(jnp.concatenate([one[None], many[:-1]]) for one, many in zip(now, (pulls, ones), strict=True))
    # Radii are computed at the ends of each sweep. In between, they are nearly linear in T.
    size, before = of_sweep(state)
    borders = jnp.maximum(state.seen.total - before + jnp.arange(SWEEPS + 1, dtype=jnp.int32) * size, 1)
    log_term = jax.vmap(log_terms.at)(borders)[:, None]

    def ends(pulls: Array, ones: Array) -> _Ends:
        at_start, at_end = (half_widths(rule, pulls, ones, x) for x in (log_term[:-1], log_term[1:]))
        return _Ends(means_of(pulls, ones), at_start, at_end - at_start)

    old, new = ends(*earlier), ends(pulls, ones)
    share = (rank(state.members) + 1).astype(jnp.float32) / size.astype(jnp.float32)
    turn = sweep * n + arms
    made = state.members & ((sweep > 0) | (arms >= state.cursor)) & (turn <= last)
    own = jnp.where(made, new.half + share * new.growth, jnp.float32(1e9))
    widest = jnp.max(old.half)
    step = size.astype(jnp.float32) / borders[0].astype(jnp.float32)
    bend = jnp.square((log_term[1, 0] - log_term[0, 0]) / log_term[0, 0]) / 2 + jnp.square(step) / 4
    return _Course(old, new, turn, own, share, unsure_below(widest) + widest * bend)


def _evaluate(rule: GOLD, log_terms: LogTerms, state: State, relied: Array, last: Array, outcome: Array) -> Found:
    """Checks the edges that matter, as far as float32 tells."""
    n = state.members.shape[0]
    arms = jnp.arange(n, dtype=jnp.int32)
    course = _course(rule, log_terms, state, last, outcome)
    # The ends of intervals in the course tell which edges surely stay. Parts that those connect need no other edges.
    room, free = course.room(), open_pairs(state)
    stays = relied & free
    parts = communities(stays)
    needed = (parts[:, None] != parts[None, :]) | state.strict
    unsettled = (room <= course.unsure) & ~stays & (state.edges != LOST) & free & (arms[:, None] != arms[None, :])
    left = unsettled & needed
    # An edge that is not checked is open from the start; one that surely stays is not lost.
    start = jnp.where(unsettled & ~needed, -1, NEVER), jnp.full((n, n), NEVER)
    _, possible, certain = lax.while_loop(lambda carry: jnp.any(carry[0]), course.check, (left, *start))
    return _first_event(rule, state, last, possible, certain)


def _first_event(rule: GOLD, state: State, last: Array, possible: Array, certain: Array) -> Found:
    """Returns the outcome at the first turn at which a community comes apart, or may have, by ``_Course.check``."""
    free = open_pairs(state)
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
    event = jnp.where(stuck, turn_before(state, event), event)
    parted = some & ~stuck
    labels = jnp.where(parted, labels, state.labels)
    fresh = parted & _small(labels, rule, state)
    return Found(jnp.where(some, event, last), edges, labels, fresh, stuck, jnp.bool_(False))


def _evaluate_closely(
    rule: GOLD, log_terms: LogTerms, state: State, relied: Array, last: Array, outcome: Array
) -> Found:
    """Checks the edges of one pull, exactly where float32 is not sure."""
    arms = jnp.arange(state.members.shape[0], dtype=jnp.int32)
    _, (pulls, ones) = by_sweep(state, last, pulls_until(state, last), outcome)
    arm, total = last % arms.shape[0], state.seen.total + 1
    radii, y = half_widths(rule, pulls, ones, log_terms.at(total)), means_of(pulls, ones)
    rough = jnp.abs(y - y[arm]) - (radii + radii[arm])
    close = jnp.any(jnp.abs(rough) <= unsure_below(jnp.max(radii)))
    seen = Seen(pulls, ones, total)
    apart = lax.cond(close, lambda: ~rule.neighbours(seen, 1.0)[arm], lambda: rough > 0)
    gone = (apart[None, :] & (arms[:, None] == arm)) | (apart[:, None] & (arms[None, :] == arm))
    edges = jnp.where(gone, LOST, state.edges).astype(jnp.int8)
    labels, wider = (communities(found & open_pairs(state)) for found in (edges == KEPT, edges != LOST))
    parted = jnp.any((labels != state.labels) & (state.scores == NEVER))
    fresh = parted & _small(labels, rule, state)
    return Found(last, edges, labels, fresh, jnp.bool_(False), jnp.any(labels != wider))


def _parting(turns: Array, labels: Array, free: Array) -> Array:
    """Returns the turn at which a community of the arms ``free`` first comes apart, where each edge is lost at its turn
    in ``turns``, (n, n).

    An arm stays connected with the lowest arm of its community until the best path to there loses its first edge.
    """
    n = labels.shape[0]
    start = jnp.where(~free | (labels == jnp.arange(n, dtype=jnp.int32)), NEVER, -1)

    def spread(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        width, _ = carry
        wider = jnp.maximum(width, jnp.max(jnp.minimum(turns, width[:, None]), axis=0))
        return wider, jnp.any(wider != width)

    width = lax.while_loop(lambda carry: carry[1], spread, (start, jnp.bool_(True)))[0]
    return jnp.min(width)


def _small(labels: Array, rule: GOLD, state: State) -> Array:
    """Returns which arms become terminal with these communities."""
    size = jnp.sum(labels[:, None] == labels[None, :], axis=0, dtype=jnp.int32)
    return (state.scores == NEVER) & (size <= rule.largest)


@formula
def half_widths(rule: GOLD, pulls: Array, ones: Array, log_term: Array) -> Array:
    """Returns b times each arm's radius (float32): two intervals overlap while means are as far apart as their sum."""
    half: Array = rule.b.hi * rule.interval.radii(pulls, ones, log_term)
    return half


@formula
def unsure_below(widest: Array) -> Array:
    """Returns the distance below which float32 cannot be trusted: several times its error."""
    least: Array = jnp.float32(2.0**-19) * (1 + widest + widest)
    return least
