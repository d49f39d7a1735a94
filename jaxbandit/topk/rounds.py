"""Selection of the K best arms in rounds: the active arms are pulled equally often, then some of them go.

Uniform sampling, OptMAI, SAR and sequential halving are all of this kind, and their numbers of active arms and of pulls
are known before the run: ``Schedule`` holds them. So one policy runs them all (``Rounds``), and a rule is how it makes
its schedule. Arms that are still active stay at the front of a run's arrays, and a round works on those and few others:
the cost of a run is that of the sum of the active arms over the rounds. Those that went are sorted out when they
are more than a quarter.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxbandit.arms.prefix import added, best, highest, kept_first, on_prefix
from jaxbandit.arms.problem import Outcome, Pull, View
from jaxbandit.random import words
from jaxbandit.random.trials import over_lanes
from jaxbandit.topk.answer import answer, by_rank

_NUMBER = (1 << 20) - 1
_ACCEPTED, _REJECTED = 1 << 20, 1 << 21
_TIE = 1
"""What a word of ``View.choices`` is for: an arm's place among equal gaps."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Schedule:
    """The rounds of a run, int32 of shape (rounds,): ``size``, the active arms; ``share``, the pulls of each; ``keep``,
    how many stay active; ``gaps``, 1 where those of the largest empirical gap go, accepted or rejected, and 0 where
    those of the smallest means go, rejected. Only the first ``length`` (int32) rounds count.
    """

    size: Array
    share: Array
    keep: Array
    gaps: Array
    length: Array


def schedule(rounds: list[tuple[int, int, int, bool]], room: int) -> Schedule:
    """``rounds`` of (size, share, keep, gaps), with ``room`` for as many, so that few lengths are compiled for."""
    table = np.zeros((max(room, len(rounds), 1), 4), np.int32)
    if rounds:
        table[: len(rounds)] = rounds
    size, share, keep, gaps = map(jnp.asarray, table.T)
    return Schedule(size, share, keep, gaps, jnp.int32(len(rounds)))


class State(NamedTuple):
    """``order``: all arms, the active ones within the first ``extent`` and in the order of their numbers (int32, shape
    (arms,); 2^20 is added to the accepted and 2^21 to the rejected); ``total``: the rewards that an arm is judged by,
    in this order. ``given``: an arm's pulls up to now, ``held``: those that ``total`` is of: scalars where pulls are
    even, else in the order of ``order``. ``round``, ``judged``: rounds gone by, and those before the choice was made;
    ``active``, ``need``: arms that are active, and that are still to be accepted. All int32 but ``total``."""

    order: Array
    total: Array
    given: Array
    held: Array
    round: Array
    judged: Array
    extent: Array
    active: Array
    need: Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Rounds:
    """``want``: K; ``sign``: -1 to look for the K worst, and choose the others (both int32); ``reuse``: judge by all
    rewards, else by those of the last round that had any (bool).

    ``accept`` (static): an arm that goes by its gap is accepted if its "rank" is at most K', the number still to be
    accepted; "kth": if its mean is at least the K'-th largest; "printed": at least the next one. Ties in rank go to
    the lower arm.

    ``ties`` (static): of equal gaps the "lowest" arm's goes first, or "random": they go in a random order of the arms
    that is drawn for the run. Where many means tie at the cut, all gaps are 0 there; the lowest arms also have the
    best ranks, so "lowest" accepts them unseen until no place is left, and "random" goes on sampling.
    """

    schedule: Schedule
    want: Array
    sign: Array
    reuse: Array
    accept: str = field(default="rank", metadata={"static": True})
    ties: str = field(default="lowest", metadata={"static": True})

    stride = 1  # the lanes of a group have one schedule and end together
    dense = True

    def init(self, view: View) -> State:
        """All arms active, nothing pulled."""
        pulls, zero = jnp.zeros(() if view.even else (view.arms,), jnp.int32), jnp.int32(0)
        order = jnp.arange(view.arms, dtype=jnp.int32)
        arms = jnp.int32(view.arms)
        return State(order, view.nothing((view.arms,)), pulls, pulls, zero, zero, arms, arms, self.want)

    def _settled(self, state: State) -> Array:
        """K arms are accepted, or as many are active as are wanted."""
        return (state.need <= 0) | (state.need == state.active)

    def _now(self, state: State) -> Schedule:
        """The round's row."""
        at = jnp.minimum(state.round, self.schedule.size.shape[0] - 1)
        columns = self.schedule
        return Schedule(columns.size[at], columns.share[at], columns.keep[at], columns.gaps[at], columns.length)

    def ask(self, view: View, state: State) -> Pull:
        """The round's share for every active arm."""
        share = self._now(state).share
        going = ~self.done(view, state) & ~self._settled(state) & (share > 0)
        times = jnp.where(state.order < _ACCEPTED, share, 0)
        return Pull(state.order & _NUMBER, state.given, times, jnp.where(going, state.extent, 0))

    def tell(self, view: View, state: State, pull: Pull, outcome: Outcome) -> State:
        """Judge the active arms; some go. A round whose share is 0 judges too."""
        now, over, settled = self._now(state), self.done(view, state), self._settled(state)
        judged = ~over & ~settled & ((pull.used > 0) | (now.share == 0))
        by_gap, anew = now.gaps == 1, judged & (pull.used > 0)
        given = state.given + jnp.where(anew, now.share, 0)
        held = jnp.where(anew, now.share + jnp.where(self.reuse, state.held, 0), state.held)
        used = jnp.where(judged, state.extent, 0)
        sorted_out = over_lanes((4 * now.keep < 3 * used).astype(jnp.int32)) > 0

        def judge(cut: list[Array]) -> tuple[list[Array], Array]:
            order, total, drawn, *uneven = cut
            there = judged & (order < _ACCEPTED)
            fresh, pulled = anew & there, [given, held]
            if uneven:
                tried, kept, made = uneven
                fresh = made > 0
                pulled = [tried + made, jnp.where(fresh, made + jnp.where(self.reuse, kept, 0), kept)]
            total = jnp.where(fresh, drawn + jnp.where(self.reuse, total, 0), total)
            score = self.sign * view.score(total, pulled[1], alike=not uneven)
            top, kth = best(score, jnp.where(by_gap & judged, state.need, 0), there)
            after = highest(jnp.where(there & ~top, score, -(2**29)))
            gap = jnp.maximum(score - after, kth - score)
            many = jnp.where(by_gap, state.active - now.keep, now.keep)
            picked = self._picked(view, jnp.where(by_gap, gap, score), jnp.where(judged, many, 0), there, by_gap, order)
            gone = there & (picked == by_gap)
            if self.accept == "rank":
                accepted = gone & top
            else:
                fits = gone & by_gap & (score >= (kth if self.accept == "kth" else after))
                accepted, _ = best(gap, jnp.minimum(state.need, added(fits.astype(jnp.int32))), fits)
            order = order + jnp.where(accepted, _ACCEPTED, jnp.where(gone, _REJECTED, 0))
            moved = lax.cond(
                sorted_out,
                lambda arrays: kept_first(arrays[0] < _ACCEPTED, used, arrays),
                lambda arrays: arrays,
                [order, total, *(pulled if uneven else [])],
            )
            return moved, added(accepted.astype(jnp.int32))

        if view.even:
            (order, total), accepted = on_prefix(judge, used, [state.order, state.total], [outcome.total])
        else:
            (order, total, given, held), accepted = on_prefix(
                lambda cut: judge([*cut[:2], cut[4], *cut[2:4], cut[5]]), used,
                [state.order, state.total, state.given, state.held], [outcome.total, outcome.made],
            )  # fmt: skip
        active = jnp.where(judged, now.keep, state.active)
        return State(
            order, total, given, held,
            round=state.round + (judged | (settled & ~over)).astype(jnp.int32),
            judged=state.judged + judged.astype(jnp.int32),
            extent=jnp.where(sorted_out & judged, active, state.extent),
            active=active,
            need=state.need - accepted,
        )  # fmt: skip

    def _picked(self, view: View, key: Array, many: Array, there: Array, by_gap: Array, order: Array) -> Array:
        """The ``many`` entries of the largest ``key``."""
        picked, least = best(key, many, there)
        if self.ties == "lowest":
            return picked
        above, level = there & (key > least), there & (key == least)
        chance = (words(view.choices, _TIE, order & _NUMBER)[0] >> jnp.uint32(2)).astype(jnp.int32)
        place = jnp.arange(key.shape[0], dtype=jnp.int32)
        room = many - jnp.sum(above, dtype=jnp.int32)
        return above | best(jnp.where(by_gap, chance, -place), room, level)[0]

    def done(self, view: View, state: State) -> Array:
        """At the end of the schedule, even where the choice is made before: lanes that end together begin together."""
        return state.round >= self.schedule.length

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """See ``topk.answer``."""
        accepted = ((state.order & _ACCEPTED) > 0) | ((state.need == state.active) & (state.order < _ACCEPTED))
        chosen = (
            jnp.zeros(view.arms, bool).at[state.order & _NUMBER].set(accepted ^ (self.sign < 0), unique_indices=True)
        )
        if not view.even:
            return answer(view, chosen, added(state.given), by_rank(state.given))
        made = jnp.arange(self.schedule.share.shape[0], dtype=jnp.int32) < state.judged
        share = jnp.where(made, self.schedule.share, 0)

        def ranked(rank: int) -> Array:
            return added(jnp.where(self.schedule.size >= rank, share, 0))

        return answer(view, chosen, added(share * self.schedule.size), ranked)
