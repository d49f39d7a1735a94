"""Faster rules in rounds: OptMAI, SAR and sequential halving. Their numbers of active arms and of pulls are known
before the run (``schedule.py``), and one policy runs all three rules (``Rounds``).

A run is one step of the engine (``Rounds.advance``). Active arms are at the front of the arrays, and a round works on
that part alone, block after block: it is compiled once, whatever the number of arms. Accelerators would wait for the
host at each block: for them the first rounds take all arms at once, later ones an eighth, and so on. Arms that left are
only marked until there are many of them, and are then moved to the back. Selection is by bisection, without a sort.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxbandit.arms.problem import Outcome, Pull, View
from jaxbandit.arms.pulls import percentiles
from jaxbandit.describe import brief
from jaxbandit.grammar import Execution
from jaxbandit.pytree import pytree
from jaxbandit.topk.empirical import numbers_of_round, random_numbers
from jaxbandit.topk.fast.schedule import Schedule
from jaxbandit.xla.batch import any_lane, over_lanes
from jaxbandit.xla.fence import once
from jaxbandit.xla.platforms import by_platform
from jaxbandit.xla.prefix import BLOCK, added, over_blocks, places
from jaxbandit.xla.selection import NONE, Cut, Extent, cut_of

_NUMBER = (1 << 20) - 1
"""The bits of an arm's number in ``State.order``."""
_REJECTED = -(1 << 31)
_ACCEPTED = _REJECTED | (1 << 20)
"""The other bits of an arm that left."""
_NOBODY = -1
"""An entry of ``State.order`` that is no arm."""
_PADDING = 16
"""Entries behind the blocks, so that rows are not a power of two long (docs/xla-cpu.md)."""


class State(NamedTuple):
    """Holds a run between rounds. ``order``: the arms, active ones in front (int32, shape (m,)); the number of an arm
    that left is negative, with bit 20 set if it was accepted, and -1 is no arm. ``total``: the sum of the rewards that
    an arm is judged by, and ``held``: how many they are; ``given``: all its pulls (both scalars where pulls are even,
    else of shape (m,)). ``round``: how many are over; ``active``, ``need``: arms that are active, and arms that are
    still to be accepted. All are int32 but ``total``."""

    order: Array
    total: Array
    given: Array
    held: Array
    round: Array
    active: Array
    need: Array


@pytree
@dataclass(frozen=True)
class Rounds:
    """Runs a rule that has a schedule. ``want``: how many arms are sought; ``sign``: -1 to seek the worst arms and
    choose the others (both int32); ``reuse``: judge by all rewards, else by those of the last round with pulls (bool).
    ``arms`` (static): how many there are.

    ``accept`` (static): an arm that leaves by its gap is accepted if its "rank" is at most K', the number still to be
    accepted; "kth": if its mean is at least the K'-th largest; "printed": at least the next one. ``ties`` (static): see
    ``tie_order``; "anew": equal means are in another random order in each round. ``few`` (static): see ``Pull``.
    """

    schedule: Schedule
    want: Array
    sign: Array
    reuse: Array
    arms: int = field(metadata={"static": True})
    accept: str = field(default="rank", metadata={"static": True})
    ties: str = field(default="lowest", metadata={"static": True})
    few: bool = field(default=False, metadata={"static": True})

    __repr__ = brief

    @property
    def execution(self) -> Execution:
        """Says that a step works on all arrays of all arms, and that many pulls take little more than a few."""
        gain = 20 * math.sqrt(10 * self.arms)  # 20 ns for each of ten pulls an arm
        return Execution(
            stride=1, cache_mib=2, temporaries=16, most_lanes=320, masked=True,
            gain_ns=gain, loss_ns=15 * gain, growth=0.5,
        )  # fmt: skip

    def init(self, view: View) -> State:
        """Begins with all arms active and no pulls."""
        block = _block(view.arms)
        size = -(-view.arms // block) * block + _PADDING
        place = jnp.arange(size, dtype=jnp.int32)
        pulls = jnp.zeros(() if view.even else (size,), jnp.int32)
        return State(
            jnp.where(place < view.arms, place, _NOBODY), view.nothing((size,)), pulls, pulls, jnp.int32(0),
            jnp.int32(view.arms), self.want,
        )  # fmt: skip

    def advance(self, view: View, state: State, sample: Callable[[Pull], Outcome]) -> State:
        """Makes all rounds of a run in one step."""
        made: State = by_platform(
            cpu=lambda: self._in_blocks(view, state, sample), default=lambda: self._by_widths(view, state, sample)
        )
        return made

    def _in_blocks(self, view: View, state: State, sample: Callable[[Pull], Outcome]) -> State:
        """Makes all rounds, each on as many blocks as hold the active arms of all lanes."""
        block = _block(view.arms)

        def enough(state: State) -> Array:
            """Returns that number of blocks; 0 once all runs are over."""
            return (self._most_active(view, state) + block - 1) // block

        def stage(carry: tuple[Array, State, Array]) -> tuple[Array, State, Array]:
            width, state, keys = carry

            def judged(some: tuple[State, Array]) -> tuple[State, Array]:
                return self._judged(view, self._pulled(view, some[0], sample, width), width, some[1])

            state, keys = lax.while_loop(lambda some: 8 * block * enough(some[0]) > 4 * width, judged, (state, keys))
            return jnp.maximum(enough(state), 1) * block, self._packed(view, state, width), keys

        start = jnp.int32(state.order.shape[0] - _PADDING), state, jnp.zeros_like(state.order)
        return lax.while_loop(lambda carry: enough(carry[1]) > 0, stage, start)[1]

    def _by_widths(self, view: View, state: State, sample: Callable[[Pull], Outcome]) -> State:
        """Makes all rounds on the first arms, of which there are few numbers, each with a program of its own."""

        def judged(some: State) -> State:
            return self._judged(view, self._pulled(view, some, sample, None), None, jnp.zeros_like(some.order))[0]

        def stage(state: State, width: int, below: int) -> State:
            part = jax.tree.map(lambda x: x[:width] if x.ndim else x, state)
            part = lax.while_loop(lambda some: self._most_active(view, some) > below, judged, part)
            part = self._packed(view, part, None) if below else part
            whole: State = jax.tree.map(lambda x, new: x.at[:width].set(new) if x.ndim else new, state, part)
            return whole

        widths = _widths(state.order.shape[0] - _PADDING)
        for width, below in itertools.pairwise([*widths, 0]):
            state = stage(state, width, below)
        return state

    def _most_active(self, view: View, state: State) -> Array:
        """Returns the most active arms of a lane whose run is not over."""
        most: Array = over_lanes(jnp.where(self.done(view, state), 0, state.active))
        return most

    def _now(self, state: State) -> Schedule:
        """Returns the round's row of the schedule."""
        at = jnp.minimum(state.round, self.schedule.size.shape[0] - 1)
        columns = self.schedule
        return Schedule(columns.size[at], columns.share[at], columns.keep[at], columns.gaps[at])

    def ask(self, view: View, state: State) -> Pull:
        """Pulls every active arm as often as the round's share says."""
        return self._pull(state.order, state.given, self._made(view, state))

    def tell(self, view: View, state: State, pull: Pull, outcome: Outcome) -> State:
        """Judges the active arms, some of which leave, also after a round whose share is 0."""
        made = self._made(view, state)
        total, given, held = self._told(view, state, pull.arm, outcome, made)
        state = state._replace(total=total, given=given, held=held)
        return self._judged(view, state, None, jnp.zeros_like(state.order))[0]

    def _made(self, view: View, state: State) -> Array:
        """Returns the round's pulls of each active arm."""
        return jnp.where(self.done(view, state), 0, self._now(state).share)

    def _pull(self, order: Array, given: Array, made: Array) -> Pull:
        return Pull(order, given, made, jnp.where(made > 0, jnp.int32(order.shape[0]), 0), self.few)

    def _told(
        self, view: View, state: State, order: Array, outcome: Outcome, made: Array
    ) -> tuple[Array, Array, Array]:
        """Returns ``total``, ``given`` and ``held`` after an outcome, for the arms that ``state`` holds."""
        made = made if view.even else outcome.made
        fresh = made > 0
        total = outcome.total + jnp.where(self.reuse, state.total, jnp.zeros_like(state.total))
        held = jnp.where(fresh, made + jnp.where(self.reuse, state.held, 0), state.held)
        return jnp.where((order >= 0) & fresh, total, state.total), state.given + made, held

    def _pulled(self, view: View, state: State, sample: Callable[[Pull], Outcome], width: Array | None) -> State:
        """Makes the round's pulls of the active arms among the first ``width``, or all of them at once."""
        made, block = self._made(view, state), _taken(view, state, width)

        def part(_: Array, carry: None, cut: list[Array]) -> tuple[None, list[Array]]:
            total, *counts, order = cut
            given, held = counts or (state.given, state.held)
            outcome = sample(self._pull(order, given, made))
            some = state._replace(total=total, given=given, held=held)
            return None, list(self._told(view, some, order, outcome, made)[: len(cut) - 1])

        arrays = [state.total] if view.even else [state.total, state.given, state.held]
        _, arrays = over_blocks(part, width, block, None, arrays, [state.order])
        if view.even:
            held = jnp.where(made > 0, made + jnp.where(self.reuse, state.held, 0), state.held)
            arrays += [state.given + made, held]
        return state._replace(total=arrays[0], given=arrays[1], held=arrays[2])

    def _judged(self, view: View, state: State, width: Array | None, space: Array) -> tuple[State, Array]:
        """Judges the first ``width`` arms at the end of a round, or all at once: some leave. ``space`` (int32, as
        ``order``) is for their keys, whatever it holds, and is returned for those of the next round.

        Selections follow one another, each by a key and a count: the K' largest means, between which and the others
        the gaps are measured; the arms that leave by their gaps, or that stay by their means; where ties are random,
        which of the equal ones leave; and where arms are accepted by their means, which of those that leave fit.
        """
        block, row, going = _taken(view, state, width), self._now(state), ~self.done(view, state)
        by_gap = going & (row.gaps == 1)
        read = [state.order, state.total, *([] if view.even else [state.held])]
        counts = [jnp.where(by_gap, state.need, 0), jnp.where(by_gap, state.active - row.keep, row.keep)]
        keys: list[Callable[..., Array]] = [lambda arm, _: arm.score, self._loss]
        if self.ties != "lowest":
            keys.append(partial(self._tie, view, state.round))
        by_rank = self.accept == "rank"
        if not by_rank:
            keys.append(partial(self._fit, view, state.round))

        def arms_of(place: Array, order: Array, total: Array, *own: Array) -> _Arms:
            held = own[0] if own else state.held
            score = self.sign * view.mean(total, held, equal_counts=view.even)
            return _Arms(place, order, score, going & (order >= 0), by_gap)

        def select(number: Array | int, found: tuple[Cut, Array]) -> tuple[Cut, Array]:
            cuts, space = found

            def part(place: Array, extent: Extent, cut: list[Array]) -> tuple[Extent, list[Array]]:
                arms = arms_of(place, *cut[1:])
                own = [lambda each=each: each(arms, cuts) for each in keys]
                key = own[number]() if isinstance(number, int) else lax.switch(number, own)
                key = jnp.where(arms.there, key, NONE)
                return extent.of(key), [key]

            extent, (key,) = over_blocks(part, width, block, Extent.nothing(), [space], read)
            third = [cuts.room[1]] if self.ties != "lowest" else []
            wanted = jnp.stack([*counts, *third, *([] if by_rank else [state.need])])[number]
            cut = cut_of(key, jnp.where(going, wanted, 0), extent, width, block)
            return Cut(*(all_.at[number].set(x) for all_, x in zip(cuts, cut, strict=True))), key

        def leave(place: Array, need: Array, cut: list[Array]) -> tuple[Array, list[Array]]:
            arms = arms_of(place, *cut)
            gone = self._gone(view, state.round, arms, cuts)
            key = arms.score if by_rank else self._fit(view, state.round, arms, cuts)
            accepted = gone & cuts.has(0 if by_rank else -1, key, place)
            # All that is read of ``order`` goes into one number, or it would be copied (docs/xla-cpu.md).
            mark = once(jnp.where(gone, jnp.where(accepted, jnp.int32(_ACCEPTED), jnp.int32(_REJECTED)), 0))
            return need - added((mark == _ACCEPTED).astype(jnp.int32)), [arms.order | mark]

        found = Cut.nothing(len(keys)), space
        if width is None:
            for number in range(len(keys)):
                found = select(number, found)
        else:
            # Where no arm goes by its gap, the second selection is enough, but for the order of equal means.
            gaps, enough = over_lanes(by_gap.astype(jnp.int32)), 3 if self.ties == "anew" else 2
            found = lax.fori_loop(1 - gaps, jnp.where(gaps > 0, len(keys), enough), select, found)
        cuts, space = found
        need, (order,) = over_blocks(leave, width, block, state.need, read[:1], read[1:])
        judged = state._replace(
            order=order, need=need, round=state.round + going.astype(jnp.int32),
            active=jnp.where(going, row.keep, state.active),
        )  # fmt: skip
        return judged, space

    def _loss(self, arms: "_Arms", cuts: Cut) -> Array:
        """Returns the empirical gaps, of which the largest leave; or the means, of which the largest stay."""
        gap = jnp.maximum(arms.score - cuts.after[0], cuts.least[0] - arms.score)
        return jnp.where(arms.by_gap, gap, arms.score)

    def _tie(self, view: View, round: Array, arms: "_Arms", cuts: Cut) -> Array:
        """Returns a random order of the arms whose gap is the smallest one that leaves, or of those whose mean is the
        smallest one that stays."""
        last = arms.there & (self._loss(arms, cuts) == cuts.least[1])

        def drawn() -> Array:
            arm = arms.order & _NUMBER
            return random_numbers(view, arm) if self.ties == "random" else numbers_of_round(view, arm, round)

        # On a CPU in a branch, so once, and only where it is needed.
        needed = any_lane(arms.by_gap if self.ties == "random" else jnp.any(last))
        order = by_platform(cpu=lambda: lax.cond(needed, drawn, lambda: jnp.zeros_like(arms.order)), default=drawn)
        return jnp.where(last, order, NONE)

    def _gone(self, view: View, round: Array, arms: "_Arms", cuts: Cut) -> Array:
        """Returns which of the arms leave in this round: bool."""
        loss = self._loss(arms, cuts)
        picked = cuts.has(1, loss, arms.place)
        if self.ties != "lowest":
            drawn = (loss > cuts.least[1]) | cuts.has(2, self._tie(view, round, arms, cuts), arms.place)
            picked = drawn if self.ties == "anew" else jnp.where(arms.by_gap, drawn, picked)
        return arms.there & (picked == arms.by_gap)

    def _fit(self, view: View, round: Array, arms: "_Arms", cuts: Cut) -> Array:
        """Returns the gaps of the arms that leave with a mean that is large enough to be accepted."""
        fits = self._gone(view, round, arms, cuts) & arms.by_gap
        fits = fits & (arms.score >= (cuts.least[0] if self.accept == "kth" else cuts.after[0]))
        return jnp.where(fits, self._loss(arms, cuts), NONE)

    def _packed(self, view: View, state: State, width: Array | None) -> State:
        """Moves the active ones of the first ``width`` arms, or of all, to the front, and the others behind these."""
        block, going = _taken(view, state, width), ~self.done(view, state)
        # All is read from the old arrays, or those that are written would be copied (docs/xla-cpu.md).
        old = [state.order, state.total, *([] if view.even else [state.given, state.held])]

        def turn(number: Array, carry: tuple[Array, list[Array]]) -> tuple[Array, list[Array]]:
            before, arrays = carry
            start = number * block
            cut = [lax.dynamic_slice_in_dim(array, start, block) for array in old]
            place, stays = start + jnp.arange(block, dtype=jnp.int32), (cut[0] >= 0) | ~going
            front = before + places(stays)
            to = jnp.where(stays, front, state.active + place - front)
            moved = zip(arrays, cut, strict=True)
            arrays = [array.at[to].set(part, mode="promise_in_bounds", unique_indices=True) for array, part in moved]
            return before + added(stays.astype(jnp.int32)), arrays

        start = jnp.int32(0), list(old)
        _, arrays = turn(jnp.int32(0), start) if width is None else lax.fori_loop(0, width // block, turn, start)
        given, held = (state.given, state.held) if view.even else arrays[2:]
        return state._replace(order=arrays[0], total=arrays[1], given=given, held=held)

    def done(self, view: View, state: State) -> Array:
        """Ends the run when K arms are accepted, or when all active ones are needed."""
        return (state.need <= 0) | (state.need == state.active)

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """Answers which arms are chosen, and how often arms were pulled (as percentiles where pulls are even)."""
        arm, gone = jnp.where(state.order == _NOBODY, view.arms, state.order & _NUMBER), state.order < 0
        accepted = jnp.where(gone, (state.order & _ACCEPTED) == _ACCEPTED, state.need == state.active)
        nothing = jnp.zeros(view.arms, bool)
        chosen = nothing.at[arm].set(accepted ^ (self.sign < 0), mode="drop", unique_indices=True)
        if not view.even:
            return {"chosen": chosen, "arm_pulls": state.given[: view.arms]}
        made = jnp.arange(self.schedule.share.shape[0], dtype=jnp.int32) < state.round
        share = jnp.where(made, self.schedule.share, 0)

        def ranked(rank: int) -> Array:
            return added(jnp.where(self.schedule.size > view.arms - rank, share, 0))

        return {"chosen": chosen, "pulls": added(share * self.schedule.size), **percentiles(view.arms, ranked)}


class _Arms(NamedTuple):
    """Holds arms in a round: their places in the arrays, their numbers, and their means, negated where the worst arms
    are sought (int32); whether they are active in a round that is judged (``there``), and whether the round takes arms
    out ``by_gap`` (bool)."""

    place: Array
    order: Array
    score: Array
    there: Array
    by_gap: Array


def _taken(view: View, state: State, width: Array | None) -> int:
    """Returns how many arms are taken at once: a block of the first ``width``, or all that the state holds."""
    return state.order.shape[0] if width is None else _block(view.arms)


def _widths(size: int) -> list[int]:
    """Returns on how many arms an accelerator makes rounds, of ``size`` and fewer: an eighth, and so on, in blocks."""
    widths = [size]
    while widths[-1] > 4 * BLOCK:
        widths.append(-(-widths[-1] // (8 * BLOCK)) * BLOCK)
    return widths


def _block(arms: int) -> int:
    """Returns how many arms are judged at once: an eighth of them, but at most about 3 roots of their number. The many
    last rounds of SAR have few arms and take a block each; the first have all, and each block costs the loop's turn."""
    if arms <= BLOCK:
        return -(-arms // 8) * 8
    return BLOCK * min(-(-arms // (8 * BLOCK)), -(-3 * math.isqrt(arms) // BLOCK))
