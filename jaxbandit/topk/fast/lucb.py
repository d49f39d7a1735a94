"""LUCB among blocks of arms (``blocks.py``), by about as many *turns* as there are rounds.

A turn pulls the two arms of a round, or evaluates two blocks anew, or has two arms swap sides of the cut. A round
changes two means, one on either side of the cut. Before it, no mean above the cut was smaller than one below it. So at
most the least mean above and the greatest below swap sides after it, and no round ranks the arms anew.

``test_fast_lucb_equals_the_rule`` (tests/test_topk_policies.py) ties it to ``topk/lucb.py``.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from jaxbandit.arms.problem import Arms, Outcome, Single, View
from jaxbandit.grammar import Execution, accelerated
from jaxbandit.pytree import pytree
from jaxbandit.random.trials import UNITS
from jaxbandit.topk.confidence import exploration, stops, width
from jaxbandit.topk.fast.blocks import (
    NONE,
    ROW,
    Blocks,
    Lines,
    Slots,
    compared,
    empty,
    evaluated,
    exact_bounds,
    lines_now,
    no_arms,
    no_lines,
)
from jaxbandit.topk.given import suiting
from jaxbandit.topk.lucb import Lucb
from jaxbandit.xla.batch import any_lane
from jaxbandit.xla.columns import Columns
from jaxbandit.xla.entries import select
from jaxbandit.xla.fence import each, once, walk
from jaxbandit.xla.prefix import best, places

_PULL, _EVALUATE, _SWAP = range(3)
"""What a turn does."""

_ABREAST = 64
"""Turns in a step of lanes side by side, where all of them are made."""

_BLOCK, _BLOCKS = 64, 128
"""Arms in a block, and from how many blocks on these are larger: measured with 100 to 30,000 arms."""

_Sample = Callable[[Single], Outcome]
_Pair = tuple[list[Array], list[Array], Array]
"""The weak and the strong arm, each with its number, its total and its pulls; and how many pulls gave a reward."""


class State(NamedTuple):
    """Holds a run of LUCB between turns.

    ``slots``, ``blocks``: see ``blocks.py``; ``lines``, ``block_lines``: with KL, the lines of the arms by slots and of
    the blocks' first arms, else None. ``turn``: what is next, to pull the arms in the slots ``weak`` and ``strong``, to
    evaluate their blocks, or to have them swap sides. ``round``: its number from 1, or 0 before; ``rate``, ``after``:
    its exploration rate and that of the next round (float32); ``spent``: the pulls asked for. Bools: whether the bounds
    are close enough to stop (``stopped``), whether the last pulls gave no rewards (``dry``), and whether no pull of a
    round did (``stuck``). All else is int32."""

    slots: Columns[Slots]
    blocks: Columns[Blocks]
    lines: Lines
    block_lines: Lines
    turn: Array
    weak: Array
    strong: Array
    round: Array
    rate: Array
    after: Array
    spent: Array
    stopped: Array
    dry: Array
    stuck: Array

    def small(self) -> dict[str, Any]:
        """Returns the fields, by name, that a turn changes also in lanes whose runs are over. It writes to ``slots``,
        ``blocks`` and ``lines`` only where a lane goes on."""
        return {name: x for name, x in self._asdict().items() if name not in ("slots", "blocks", "lines")}


@pytree
@dataclass(frozen=True)
class LucbByTurns:
    """Runs a rule of LUCB by turns. ``block`` (static): arms in a block, a power of two; ``turns`` (static): the most
    turns in a step. Both change the time that a run takes and nothing else."""

    rule: Lucb
    block: int = field(metadata={"static": True})
    turns: int = field(default=2048, metadata={"static": True})

    execution = Execution(stride=4, cache_mib=1, masked=True, gain_ns=10, loss_ns=750)

    def init(self, view: View) -> State:
        """Begins with no pulls. Before the first round, each arm is in the slot of its number."""
        many, kind = -(-view.arms // self.block) + 1, self.rule.divergence
        block = jnp.arange(-(-many // ROW) * ROW, dtype=jnp.int32)
        zero, false = jnp.int32(0), jnp.bool_(False)
        unseen = block * self.block < self._rest() + (view.arms - self.rule.want)
        return State(
            Columns.of(no_arms(many * self.block, view.arms, view.nothing)),
            Columns.of(empty(block.shape[0], unseen)), no_lines(kind, many * self.block),
            no_lines(kind, block.shape[0]), jnp.int32(_PULL), zero, zero, zero, jnp.float32(0), jnp.float32(0),
            zero, false, false, false,
        )  # fmt: skip

    def advance(self, view: View, state: State, sample: _Sample) -> State:
        """Pulls each arm once; then makes turns, as many as a step has."""
        opening = (state.round == 0) & ~self.done(view, state)

        def opened(state: State) -> State:
            own = self._opened(view, state, sample)
            return select(opening, own, state)

        state = lax.cond(any_lane(opening), opened, lambda same: same, state)

        def turn(state: State, going: Array) -> State:
            return self._turn(view, state, sample, going)

        def going(state: State) -> Array:
            return (state.round > 0) & ~self.done(view, state)

        return walk(turn, going, state, self.turns, min(self.turns, _ABREAST))

    def _rest(self) -> Array:
        """Returns the first slot behind the blocks of the top."""
        blocks = (self.rule.want + (self.block - 1)) // self.block
        return blocks * self.block

    def _rate(self, arms: int, round_: Array) -> Array:
        rule = self.rule
        rate: Array = once(exploration(rule.divergence, rule.k1, arms, rule.delta, rule.alpha, round_))
        return rate

    def _opened(self, view: View, state: State, sample: _Sample) -> State:
        """Makes the first pulls; when each arm has one, the arms with the K largest means are the top."""
        arms, upto = jnp.arange(view.arms, dtype=jnp.int32), jnp.minimum(view.budget, view.arms)
        outcome = sample(Single(arms, jnp.zeros_like(arms)))
        fresh = (arms >= state.spent) & (arms < upto)
        old = state.slots.all()
        total = old.total[: view.arms] + jnp.where(fresh, outcome.total, 0)
        made = old.made[: view.arms] + jnp.where(fresh, outcome.made, 0)
        begun = upto == view.arms
        mean = view.mean(total, made)
        top = best(mean, self.rule.want, jnp.ones(view.arms, bool))[0]
        before = places(top)
        place = jnp.where(begun, jnp.where(top, before, self._rest() + arms - before), arms)

        def placed(x: Array, values: Array) -> Array:
            return x.at[place].set(values, mode="promise_in_bounds", unique_indices=True)

        side_mean, kind = jnp.where(top, mean, UNITS - mean), self.rule.divergence
        rate, after = (self._rate(view.arms, jnp.int32(number)) for number in (1, 2))
        blank = no_arms(state.slots.rows, view.arms, view.nothing)
        known = Slots(arms, total, made, side_mean, width(kind, made), arms)
        slots = Slots(*map(placed, blank, known))._replace(place=blank.place.at[: view.arms].set(place))
        # Lines are those of no arms, until a block is evaluated, which is before any pull.
        return state._replace(
            slots=Columns.of(slots), turn=jnp.where(begun, _EVALUATE, _PULL),
            strong=self._rest(), round=begun.astype(jnp.int32), rate=rate, after=after, spent=upto,
        )  # fmt: skip

    def _turn(self, view: View, state: State, sample: _Sample, going: Array) -> State:
        """Makes a turn, which is a pull of two arms, an evaluation of two blocks or a swap, and decides the next
        one; where not ``going``, it changes nothing."""
        weak, strong, gave = self._acted(view, state, sample)
        before, pulls = state, state.turn == _PULL
        state = self._clocked(view, state, gave)
        half_done, where = self.rule.half_done(view, state.spent), (state.weak, state.strong)

        def renewed(pulled: list[Array], top: bool) -> tuple[Array, ...]:
            arm, total, made = pulled
            mean = view.mean(total, made)
            return arm, total, made, mean if top else UNITS - mean, width(self.rule.divergence, made)

        new = [renewed(weak, top=True), renewed(strong, top=False)]
        # Rows of ``Slots``: all but ``place`` at the two slots, and ``place`` alone at the numbers of their arms.
        rows = [*((*own, None) for own in new), *((*[None] * 5, slot) for slot in where)]
        slots = state.slots.put_where(rows, (*where, weak[0], strong[0]), going)
        lines = state.lines
        if lines is not None:
            means, widths = zip(*(own[-2:] for own in new), strict=True)
            lines = lines.put_where(lines_now(means, widths, state.rate), where, going)
        state = self._evaluated(state._replace(slots=slots, lines=lines), going)
        after = self._next(state, pulls & half_done)
        return after._replace(**select(going, after.small(), before.small()))

    def _evaluated(self, state: State, going: Array) -> State:
        """Evaluates the blocks of the weak and the strong arm anew."""
        slots, lines, kind = state.slots, state.lines, self.rule.divergence
        where = state.weak, state.strong
        block = tuple(slot >> (self.block.bit_length() - 1) for slot in where)
        # A block in doubt is named by its first slot. If the other one is sure, it has to stay so, or they could be in
        # doubt by turns without end.
        exact = [
            (state.turn == _EVALUATE) & ((slot & (self.block - 1) == 0) | (state.blocks.row(own).since == state.round))
            for slot, own in zip(where, block, strict=True)
        ]
        # Both are written before one is read, or arrays would be copied.
        keys: Sequence[Array] = [jnp.int32(0)] * 2
        since = [state.round] * 2
        if lines is not None:
            keys, parts = zip(*exact_bounds(self.block, slots, lines, state.rate, block, exact), strict=True)
            lines = lines.put_parts_where(parts, [own * self.block for own in block], [going & sure for sure in exact])
            since = [jnp.where(sure, state.round, 0) for sure in exact]
        evaluate = partial(evaluated, kind, self.block, slots, lines, state.rate)
        found, firsts = zip(*each(evaluate, block, (jnp.int32(-1), jnp.int32(1)), exact, keys, since), strict=True)
        blocks, block_lines = state.blocks.put_where(found, block, going), state.block_lines
        if block_lines is not None:
            block_lines = block_lines.put_where(firsts, block, going)
        return state._replace(blocks=blocks, lines=lines, block_lines=block_lines)

    def _acted(self, view: View, state: State, sample: _Sample) -> _Pair:
        """Returns the weak and the strong arm after the turn. All that is written depends on all that was read, or
        arrays would be copied (docs/xla-cpu.md)."""
        slots, takes = state.slots, self.rule.takes(view, state.spent)

        def same() -> _Pair:
            weak, strong = (list(slots.row(slot)[:3]) for slot in (state.weak, state.strong))
            return weak, strong, jnp.int32(0)

        def swapped() -> _Pair:
            weak, strong, _ = same()
            return strong, weak, jnp.int32(0)

        def pulled() -> _Pair:
            weak, strong, all_made = same()
            for take, arm in zip(takes, (weak, strong), strict=True):
                outcome = sample(Single(arm[0], arm[2]))
                made = jnp.where(take, outcome.made, 0)
                arm[1], arm[2], all_made = arm[1] + jnp.where(take, outcome.total, 0), arm[2] + made, all_made + made
            return weak, strong, all_made

        pair: _Pair = lax.switch(state.turn, [pulled, same, swapped])
        return pair

    def _clocked(self, view: View, state: State, gave: Array) -> State:
        """Updates the round, its rate and the pulls spent, after a turn that gave so many rewards."""
        left, cut = view.budget - state.spent, self.rule.half_done(view, state.spent)
        pulls = state.turn == _PULL
        spent = state.spent + jnp.where(pulls, jnp.where(cut, 1, jnp.minimum(left, 2)), 0)
        over = pulls & ~self.rule.half_done(view, spent)
        nothing = pulls & (gave == 0)
        round_ = state.round + over.astype(jnp.int32)
        return state._replace(
            spent=spent, round=round_, rate=jnp.where(over, state.after, state.rate),
            after=self._rate(view.arms, round_ + 1), dry=jnp.where(pulls, nothing, state.dry),
            stuck=state.stuck | (over & nothing & (state.dry | ~cut)),
        )  # fmt: skip

    def _next(self, state: State, kept: Array) -> State:
        """Decides the next turn by a comparison of all blocks. Where ``kept`` (bool), one pull of the round is left,
        and the turn stays as it is."""
        rest, slot_of = self._rest(), partial(state.slots.entry, "place")
        lines = None if state.block_lines is None else state.block_lines.all()
        lines, sides = compared(
            self.rule.divergence, state.blocks.all(), lines, rest // self.block, state.rate, state.round
        )
        weak, strong, last, early = (slot_of(arm) for arm in (*sides.first, sides.last, sides.early))
        # The arms next to the cut swap first. Then a block in doubt is evaluated, which its first slot stands for.
        doubtful, block = ~sides.swap & (sides.doubt != NONE), sides.doubt * self.block
        weak = jnp.where(sides.swap, last, jnp.where(doubtful & (block < rest), block, weak))
        strong = jnp.where(sides.swap, early, jnp.where(doubtful & (block >= rest), block, strong))
        turn = jnp.where(sides.swap, _SWAP, jnp.where(doubtful, _EVALUATE, _PULL))
        lower, above = sides.bound  # of the weak arm; of the strong arm's side mean, so 1 less its upper bound
        close = stops(self.rule.divergence, self.rule.epsilon, state.round, (1 - above) - lower)
        stopped = state.stopped | (close & (turn == _PULL) & ~kept)
        block_lines = None if lines is None else Columns.of(lines)
        turn, weak, strong = select(kept, (jnp.int32(_PULL), state.weak, state.strong), (turn, weak, strong))
        return state._replace(block_lines=block_lines, turn=turn, weak=weak, strong=strong, stopped=stopped)

    def done(self, view: View, state: State) -> Array:
        """Ends the run where ``Lucb`` does, but not before the blocks of the last pull are evaluated."""
        return (state.turn == _PULL) & (self.rule.over(view, state.spent, state.round) | state.stopped | state.stuck)

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """Chooses the K largest means, as ``Lucb`` does, without a sort."""
        slots = state.slots.all()
        place = slots.place[: view.arms]
        total, made = slots.total[place], slots.made[place]
        chosen, _ = best(view.mean(total, made), self.rule.want, jnp.ones(view.arms, bool))
        return {"chosen": chosen, "arm_pulls": made, "stopped": state.stopped.astype(jnp.int32)}


@accelerated.register
def _(rule: Lucb, problem: Any) -> LucbByTurns | Lucb:
    if not isinstance(problem, Arms):
        return rule
    suiting(rule, int(rule.want), 0, problem)
    # A turn reads two blocks, and the first arms of all blocks: of many arms blocks are larger, so that these are few.
    return LucbByTurns(rule, max(_BLOCK, 1 << ((problem.means.arms - 1) // _BLOCKS).bit_length()))
