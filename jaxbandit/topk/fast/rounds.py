"""What makes rules in rounds fast: OptMAI, SAR and sequential halving, whose numbers of active arms and of pulls are
known before the run. ``Schedule`` holds them, and one policy runs them all (``Rounds``).

A run is one step of the engine (``Rounds.advance``), in arrays that shrink with the number of active arms: its cost is
that of the sum of the active arms over the rounds. Within a width, arms that went are only marked. Selection is by
bisection, without a sort.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxbandit.arms.problem import Outcome, Pull, View
from jaxbandit.arms.pulls import percentiles
from jaxbandit.contract import brief
from jaxbandit.grammar import Execution
from jaxbandit.random.trials import MOST_CHAINED
from jaxbandit.topk.empirical import random_numbers
from jaxbandit.xla.batch import over_lanes
from jaxbandit.xla.fence import where_due
from jaxbandit.xla.prefix import added, best, highest, kept_first, ladder, put

_NUMBER = (1 << 20) - 1
_REJECTED = -(1 << 31)
_ACCEPTED = _REJECTED | (1 << 20)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Schedule:
    """The rounds of a run, int32 of shape (rounds,): ``size``, the active arms; ``share``, the pulls of each; ``keep``,
    how many stay active; ``gaps``, 1 where those of the largest empirical gap go, accepted or rejected, and 0 where
    those of the smallest means go, rejected.
    """

    size: Array
    share: Array
    keep: Array
    gaps: Array


def schedule(rounds: list[tuple[int, int, int, bool]], room: int) -> Schedule:
    """``rounds`` of (size, share, keep, gaps), with ``room`` for as many, so that few lengths are compiled for."""
    table = np.zeros((max(room, len(rounds), 1), 4), np.int32)
    table[: len(rounds)] = np.reshape(rounds, (-1, 4))
    return Schedule(*map(jnp.asarray, table.T))


class State(NamedTuple):
    """``order``: the arms, or the first of them (int32, shape (m,)); the numbers of those that went are negative, their
    bit 20 set if they were accepted. ``total``: the rewards that an arm is judged by. ``given``: an arm's pulls up to
    now, ``held``: those that ``total`` is of: scalars where pulls are even, else of shape (m,). ``round``: rounds gone
    by; ``active``, ``need``: arms that are active, and that are still to be accepted. All int32 but ``total``."""

    order: Array
    total: Array
    given: Array
    held: Array
    round: Array
    active: Array
    need: Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Rounds:
    """``want``: K; ``sign``: -1 to look for the K worst, and choose the others (both int32); ``reuse``: judge by all
    rewards, else by those of the last round that had any (bool).

    ``accept`` (static): an arm that goes by its gap is accepted if its "rank" is at most K', the number still to be
    accepted; "kth": if its mean is at least the K'-th largest; "printed": at least the next one. ``ties`` (static): as
    ``tie_order`` has it.
    """

    schedule: Schedule
    want: Array
    sign: Array
    reuse: Array
    accept: str = field(default="rank", metadata={"static": True})
    ties: str = field(default="lowest", metadata={"static": True})

    # All steps are made at once, on a part of the arrays most of the time.
    execution = Execution(stride=1, in_cache=2, masked=True)

    __repr__ = brief

    def init(self, view: View) -> State:
        """All arms active, nothing pulled."""
        pulls = jnp.zeros(() if view.even else (view.arms,), jnp.int32)
        order = jnp.arange(view.arms, dtype=jnp.int32)
        return State(
            order, view.nothing((view.arms,)), pulls, pulls, jnp.int32(0), jnp.int32(view.arms), self.want
        )  # fmt: skip

    def advance(self, view: View, state: State, sample: Callable[[Pull], Outcome]) -> State:
        """All steps of a run, on arrays that shrink to the arms that are left; but where arms are pulled very often, on
        arrays of all arms: there pulls cost more than all else, and their sampler is dear to compile."""
        across = 2 if view.even else 4  # fields of an entry an arm
        more = 32 - view.arms % 32 if view.arms > 32 else 1  # words of bits are whole; and no width is that of all arms

        def going(some: State) -> Array:
            return ~self.done(view, some)

        def step(some: State) -> State:
            pull = self.ask(view, some)
            return self.tell(view, some, pull, sample(pull))

        def any_of(lanes: Array) -> Array:
            found: Array = over_lanes(lanes.astype(jnp.int32)) > 0
            return found

        def narrow(state: State) -> State:
            for width, below in itertools.pairwise([*ladder(view.arms + more), 0]):

                def fits(some: State, below: int = below) -> Array:
                    few = self._now(some).share <= MOST_CHAINED
                    return any_of(going(some) & few & (some.active > below))

                cut = [array[:width] for array in state[:across]]
                some = lax.while_loop(fits, step, State(*cut, *state[across:]))
                new = kept_first(some.order >= 0, some[:across])
                whole = [put(a, b, jnp.int32(0)) for a, b in zip(state, new, strict=False)]
                state = State(*whole, *some[across:])
            return state

        def turn(state: State) -> State:
            padded = [
                jnp.pad(array, (0, more), constant_values=blank)
                for array, blank in zip(state[:across], (_REJECTED, 0, 0, 0), strict=False)
            ]
            state = narrow(State(*padded, *state[across:]))
            state = State(*(array[: view.arms] for array in state[:across]), *state[across:])
            return where_due(any_of(going(state)), step, state)

        return lax.while_loop(lambda state: any_of(going(state)), turn, state)

    def _now(self, state: State) -> Schedule:
        """The round's row."""
        at = jnp.minimum(state.round, self.schedule.size.shape[0] - 1)
        columns = self.schedule
        return Schedule(columns.size[at], columns.share[at], columns.keep[at], columns.gaps[at])

    def ask(self, view: View, state: State) -> Pull:
        """The round's share for every active arm."""
        share = self._now(state).share
        going = ~self.done(view, state) & (share > 0)
        size = state.order.shape[0]
        few, end = size != view.arms, jnp.int32(size)
        if not few:
            end = highest(jnp.where(state.order >= 0, jnp.arange(1, size + 1, dtype=jnp.int32), 0))
        return Pull(state.order, state.given, share, jnp.where(going, end, 0), few)

    def tell(self, view: View, state: State, pull: Pull, outcome: Outcome) -> State:
        """Judge the active arms; some go. A round whose share is 0 judges too."""
        now, order, need = self._now(state), state.order, state.need
        judged = ~self.done(view, state) & ((pull.used > 0) | (now.share == 0))
        by_gap, there = now.gaps == 1, judged & (order >= 0)
        made = jnp.where(judged & (pull.used > 0), now.share, 0) if view.even else outcome.made
        fresh = made > 0
        held = jnp.where(fresh, made + jnp.where(self.reuse, state.held, 0), state.held)
        total = jnp.where(there & fresh, outcome.total + jnp.where(self.reuse, state.total, 0), state.total)
        score = self.sign * view.mean(total, held, alike=view.even)

        def cut(_: None) -> tuple[Array, Array, Array]:
            top, kth = best(score, jnp.where(by_gap & judged, need, 0), there)
            return top, kth, highest(jnp.where(there & ~top, score, -(2**29)))

        none = jnp.int32(0)
        top, kth, after = lax.cond(
            over_lanes(now.gaps) > 0, cut, lambda _: (jnp.zeros(order.shape, bool), none, none), None
        )
        gap = jnp.maximum(score - after, kth - score)
        many = jnp.where(by_gap, state.active - now.keep, now.keep)
        picked = self._picked(view, jnp.where(by_gap, gap, score), jnp.where(judged, many, 0), there, by_gap, order)
        gone = there & (picked == by_gap)
        if self.accept == "rank":
            accepted = gone & top
        else:
            fits = gone & by_gap & (score >= (kth if self.accept == "kth" else after))
            accepted, _ = best(gap, jnp.minimum(need, added(fits.astype(jnp.int32))), fits)
        return State(
            jnp.where(gone, order | jnp.where(accepted, _ACCEPTED, _REJECTED), order),
            total,
            state.given + made,
            held,
            state.round + judged.astype(jnp.int32),
            jnp.where(judged, now.keep, state.active),
            need - added(accepted.astype(jnp.int32)),
        )

    def _picked(self, view: View, key: Array, many: Array, there: Array, by_gap: Array, order: Array) -> Array:
        """The ``many`` entries of the largest ``key``."""
        picked, least = best(key, many, there)
        if self.ties == "lowest":
            return picked
        above, level = there & (key > least), there & (key == least)
        chance = random_numbers(view, order & _NUMBER)
        place = jnp.arange(key.shape[0], dtype=jnp.int32)
        room = many - jnp.sum(above, dtype=jnp.int32)
        return above | best(jnp.where(by_gap, chance, -place), room, level)[0]

    def done(self, view: View, state: State) -> Array:
        """K arms are accepted, or as many are active as are wanted."""
        return (state.need <= 0) | (state.need == state.active)

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """The choice, and how often arms were pulled."""
        gone, number = state.order < 0, state.order & _NUMBER
        accepted = jnp.where(gone, (state.order & _ACCEPTED) == _ACCEPTED, state.need == state.active)
        chosen = jnp.zeros(view.arms, bool).at[number].set(accepted ^ (self.sign < 0), unique_indices=True)
        if not view.even:
            return {"chosen": chosen, "arm_pulls": state.given}
        made = jnp.arange(self.schedule.share.shape[0], dtype=jnp.int32) < state.round
        share = jnp.where(made, self.schedule.share, 0)

        def ranked(rank: int) -> Array:
            return added(jnp.where(self.schedule.size > view.arms - rank, share, 0))

        return {"chosen": chosen, "pulls": added(share * self.schedule.size), **percentiles(view.arms, ranked)}
