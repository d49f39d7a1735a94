"""GOLD in batches of pulls: ``tests/test_outlier_policies.py::test_gold_is_its_oracle`` ties it to
``jaxbandit.outliers.gold``.

Radii grow with T, so a pull can only lose edges of the arm that is pulled: a sweep needs two checks an edge. An event
is a pull that parts a community. So up to ``SWEEPS`` sweeps of single rewards are drawn, and the least upper and the
greatest lower end of each arm's interval in them tell which edges surely stay. If those hold each community together,
the sweeps hold no event. The status of an edge that is not needed may stay unknown: the edge is *perhaps* there. Where
needed edges may be lost, they are checked after every pull, up to the first one that parts a community. If it matters
there whether an edge of unknown status was lost (possible, but never seen), the run begins again and leaves no status
unknown: a reward is a function of its address, so all rewards are the same again.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
from jax import Array, lax

from jaxbandit.arms.problem import made_for
from jaxbandit.grammar import Execution, accelerated
from jaxbandit.outliers.fast.event import Found, half_widths, resolve, unsure_below
from jaxbandit.outliers.fast.leap import low_bits
from jaxbandit.outliers.fast.log_terms import LogTerms, tabulated
from jaxbandit.outliers.fast.sweeps import (
    KEPT,
    LOST,
    PERHAPS,
    SWEEPS,
    State,
    by_sweep,
    of_sweep,
    pulls_until,
    rank,
    so_far,
)
from jaxbandit.outliers.gold import GOLD, NEVER
from jaxbandit.outliers.problem import OutlierArms, Singles, View
from jaxbandit.outliers.record import Seen, answer, means_of
from jaxbandit.pytree import pytree
from jaxbandit.xla.batch import any_lane
from jaxbandit.xla.entries import select
from jaxbandit.xla.fence import patiently
from jaxbandit.xla.formula import formula

_TURNS = 4
"""Steps along edges on accelerators, between two questions whether some lane needs more."""
_SAFE = 5.0
"""By how much intervals must overlap for their edge to be relied on, in units of 1 / (pulls * width). An edge that is
not checked then matters later with a probability of about exp(-2 * _SAFE)."""


@pytree
@dataclass(frozen=True)
class GOLDInBatches:
    """Runs a ``rule`` of GOLD in batches, with a table of its ``log_terms``; ``n`` (static): how many arms."""

    rule: GOLD
    log_terms: LogTerms
    n: int = field(metadata={"static": True})

    @property
    def execution(self) -> Execution:
        """Says that a step works on the whole graph, several times, for which level 3 has loops that are twice as
        fast."""
        graph = 12 * self.n * self.n
        return Execution(
            stride=8, cache_mib=1, step_bytes=graph, most_lanes=64, masked=True, level=3, gain_ns=5, loss_ns=80
        )

    def init(self, view: View) -> State:
        """Begins with a sweep over all arms, and a complete graph."""
        n, no = self.n, jnp.bool_(False)
        edges, never = jnp.full((n, n), KEPT, jnp.int8), jnp.full(n, NEVER, jnp.int32)
        labels, members = jnp.zeros(n, jnp.int32), jnp.ones(n, bool)
        return State(Seen.nothing(n), edges, labels, members, jnp.int32(0), never, no, no, no)

    def advance(self, view: View, state: State, sample: Callable[[Singles], Array]) -> State:
        """Draws the rewards of a batch, finds its first event, and makes the pulls up to there."""
        n = self.n
        arms = jnp.arange(n, dtype=jnp.int32)
        last = self._last(view, state)
        asked, first = pulls_until(state, last), state.seen.total == 0
        outcome = sample(Singles(asked, state.seen.pulls))
        steady, relied, edges = self._screen(state, last, asked, outcome)
        needed = (last >= 0) & ~first & (state.strict | state.close | ~steady)
        no = jnp.bool_(False)
        otherwise = Found(last, edges, state.labels, jnp.zeros(n, bool), no, no)
        found: Found = resolve(needed, otherwise, self.rule, self.log_terms, state, relied, last, outcome)
        counts = pulls_until(state, found.last)
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
        """Returns the turn of the last pull that may be made before the next evaluation, -1 where there is none."""
        n = self.n
        size, before = of_sweep(state)
        # A sweep whose arms are not those of the next one ends the batch.
        same = jnp.all(state.members != (state.scores != NEVER))
        pulls = jnp.where(same, SWEEPS, 1) * size - before
        pulls = jnp.where(state.close, 1, pulls)
        # Each arm once, at first.
        pulls = jnp.where(state.seen.total == 0, n, pulls)
        pulls = jnp.where(self.done(view, state), 0, jnp.minimum(pulls, view.budget - state.seen.total))
        final = before + pulls - 1
        arms = jnp.arange(n, dtype=jnp.int32)
        arm = jnp.max(jnp.where(state.members & (rank(state.members) == final % size), arms, 0))
        return jnp.where(pulls > 0, final // size * n + arm, -1)

    def _screen(self, state: State, last: Array, counts: Array, outcome: Array) -> tuple[Array, Array, Array]:
        """Returns whether a batch surely parts no community, by which edges, and the status of all edges after it."""
        relied, edges = self._edges(state, last, counts, outcome)
        # No community comes apart if these edges lead from its lowest arm to all others.
        free = state.scores == NEVER
        heads = free & (state.labels == jnp.arange(self.n, dtype=jnp.int32))
        return jnp.all(_reached(relied, heads) | ~free), relied, edges

    @formula
    def _edges(self, state: State, last: Array, counts: Array, outcome: Array) -> tuple[Array, Array]:
        """Returns which edges surely stay in a batch, and the status of all edges after it."""
        after_sweeps, at_end = by_sweep(state, last, counts, outcome)
        log_term = self.log_terms.at(jnp.maximum(state.seen.total, 1))
        records = zip(so_far(state), after_sweeps, strict=True)
        pulls, ones = (jnp.concatenate([now[None], later]) for now, later in records)
        # All the time, an arm's interval reaches up to ``high`` at least, and down to ``low`` (radii grow with T).
        means = means_of(pulls, ones)
        half = half_widths(self.rule, pulls, ones, log_term)
        high, low = jnp.min(means + half, axis=0), jnp.max(means - half, axis=0)
        widest = jnp.max(half[0])
        unsure = unsure_below(widest)
        least = jnp.min(jnp.where(state.scores == NEVER, pulls[0], NEVER)).astype(jnp.float32)
        safe = jnp.float32(_SAFE) / (least * widest)
        # By how much the intervals of two arms overlap at least.
        room = jnp.minimum(high[:, None] - low[None, :], high[None, :] - low[:, None])
        # Edges whose intervals surely do not overlap at the end of the batch are lost.
        total = state.seen.total + jnp.sum(counts, dtype=jnp.int32)
        final = half_widths(self.rule, *at_end, self.log_terms.at(jnp.maximum(total, 1)))
        means = means_of(*at_end)
        gone = jnp.abs(means[:, None] - means[None, :]) - (final[:, None] + final[None, :]) > unsure
        moved = (state.seen.total > 0) & (last >= 0)
        edges = jnp.where(room > unsure, state.edges, jnp.minimum(state.edges, PERHAPS))
        edges = jnp.where(moved, jnp.where(gone, LOST, edges), state.edges).astype(jnp.int8)
        return (room > unsure + safe) & (state.edges == KEPT), edges

    def done(self, view: View, state: State) -> Array:
        """Ends the run when there are enough terminal arms, or the budget is spent."""
        return state.ended | (state.seen.total >= view.budget)

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """Answers that the terminal arms are the outliers, with their scores, as ``GOLD`` does."""
        return answer(state.seen, state.scores != NEVER, state.ended) | {"scores": state.scores}


def _reached(linked: Array, start: Array) -> Array:
    """Returns which arms are connected with some of ``start`` (bool, (n,)). ``linked``: bool, (n, n), symmetric."""

    def spread(_: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        found, _ = carry
        wider = found | jnp.any(linked & found[:, None], axis=0)
        return wider, jnp.any(wider != found)

    most = start.shape[0]
    return patiently(most, lambda _, carry: any_lane(carry[1]), spread, (start, jnp.any(start)), _TURNS)[0]


@accelerated.register
def _(rule: GOLD, problem: Any) -> Any:
    if not isinstance(problem, OutlierArms):
        return rule
    n = problem.source.arms
    made_for(rule, n)
    if not problem.rewards.whole:
        return rule
    return GOLDInBatches(rule, tabulated(rule.interval, n), n)
