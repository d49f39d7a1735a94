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
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxbandit.grammar import Execution, accelerated
from jaxbandit.outliers.fast.event import Found, resolve, unsure_below
from jaxbandit.outliers.fast.leap import low_bits, select
from jaxbandit.outliers.fast.sweeps import (
    KEPT,
    LOST,
    PERHAPS,
    SWEEPS,
    State,
    of_sweep,
    pulls_until,
    rank,
    so_far,
    walk,
)
from jaxbandit.outliers.fast.tables import Table, tabulated
from jaxbandit.outliers.gold import GOLD, NEVER
from jaxbandit.outliers.problem import OutlierArms, Singles, View
from jaxbandit.outliers.record import Seen, answer, means_of

_SAFE = 5.0
"""How far above its end an edge must stay to be relied on, in units of 1 / (pulls * width): an edge that then is left
open matters later with a probability of about exp(-2 * _SAFE)."""


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
        asked, first = pulls_until(state, last), state.seen.total == 0
        outcome = sample(Singles(asked, state.seen.pulls))
        steady, relied, edges = self._screen(state, last, asked, outcome)
        needed = (last >= 0) & ~first & (state.strict | state.close | ~steady)
        no = jnp.bool_(False)
        otherwise = Found(last, edges, state.labels, jnp.zeros(n, bool), no, no)
        found: Found = resolve(needed, otherwise, self.rule, self.table, state, relied, last, outcome)
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
        """The turn of the last pull that may be made before the next evaluation, -1 where there is none."""
        n = self.n
        size, before = of_sweep(state)
        alike = jnp.all(state.members != (state.scores != NEVER))
        pulls = jnp.where(alike, SWEEPS, 1) * size - before
        pulls = jnp.where(state.close, 1, pulls)
        # Each arm once, at first.
        pulls = jnp.where(state.seen.total == 0, n, pulls)
        pulls = jnp.where(self.done(view, state), 0, jnp.minimum(pulls, view.budget - state.seen.total))
        final = before + pulls - 1
        arms = jnp.arange(n, dtype=jnp.int32)
        arm = jnp.max(jnp.where(state.members & (rank(state.members) == final % size), arms, 0))
        return jnp.where(pulls > 0, final // size * n + arm, -1)

    def _screen(self, state: State, last: Array, counts: Array, outcome: Array) -> tuple[Array, Array, Array]:
        """Whether a leap surely parts no community, by which edges, and what is then known of all edges."""
        at, ends = walk(state, last, counts, outcome)
        log_term, of, b = self.table.at(jnp.maximum(state.seen.total, 1)), self.rule.of, self.rule.b.hi
        pulls, ones = (jnp.concatenate([now[None], later]) for now, later in zip(so_far(state), at, strict=True))
        y = means_of(pulls, ones)
        half = b * of.radii(pulls, ones, log_term)
        high, low = jnp.min(y + half, axis=0), jnp.max(y - half, axis=0)
        widest = jnp.max(half[0])
        unsure = unsure_below(widest)
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


def _reached(linked: Array, start: Array) -> Array:
    """Which arms are connected with some of ``start`` (bool, (n,)). ``linked``: bool, (n, n), symmetric."""

    def spread(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        found, _ = carry
        wider = found | jnp.any(linked & found[:, None], axis=0)
        return wider, jnp.any(wider != found)

    return lax.while_loop(lambda carry: carry[1], spread, (start, jnp.any(start)))[0]


@accelerated.register
def _(rule: GOLD, problem: Any) -> Any:
    if not isinstance(problem, OutlierArms) or not problem.rewards.whole:
        return rule
    n = problem.source.arms
    return LeapingGOLD(rule, tabulated(rule.of, n), n)
