"""epsilon-Greedy with the highest estimates in O(log) of the entities met. ``tests/test_cleaning_policies.py`` ties it
to ``cleaning/epsilon_greedy.py``: by the same oracle on the tape, by enumeration and by means.

Many entities can have an estimate above 0. The entities met stand in three parts: those with the estimate 1, those
between, and those with 0. Only where no estimate is 1 does a greedy operation compare estimates: the part between has a
binary tree over its slots (``Ties``), each node of which knows the highest estimate below it and how many have it.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxbandit.cleaning.epsilon_greedy import EXPLORE
from jaxbandit.cleaning.fast.pool import PADDING
from jaxbandit.cleaning.fast.pulls import Trials
from jaxbandit.cleaning.pulls import Outcome, Totals
from jaxbandit.cleaning.view import View
from jaxbandit.contract import brief
from jaxbandit.grammar import Execution
from jaxbandit.random.draws import scale, uniform
from jaxbandit.random.stream import words
from jaxbandit.xla.batch import over_lanes
from jaxbandit.xla.entries import at, put_where
from jaxbandit.xla.fence import once

CERTAIN, BETWEEN, ZERO, NOWHERE = map(np.int32, range(4))
"""The parts; an entity that was not met, or is clean, is in none."""


class Known(NamedTuple):
    """An entity with the operations on it so far, how many of them succeeded, and its false values left (int32)."""

    entity: Array
    tried: Array
    gained: Array
    left: Array

    def add(self, outcome: Outcome) -> "Known":
        """Returns the record after an outcome of the entity."""
        tried, gained, left = self.tried + outcome.cleans, self.gained + outcome.removed, self.left - outcome.removed
        return Known(self.entity, tried, gained, left)

    def part(self) -> Array:
        """Returns the part where an entity with this record belongs, once it was tried."""
        part = jnp.where(self.gained == self.tried, CERTAIN, jnp.where(self.gained > 0, BETWEEN, ZERO))
        return jnp.where(self.left == 0, NOWHERE, part)

    def estimate(self) -> Array:
        """Returns gained / tried as the bits of a float32, whose order is that of the estimates."""
        ratio = self.gained.astype(jnp.float32) / jnp.maximum(self.tried, 1).astype(jnp.float32)
        return lax.bitcast_convert_type(ratio, jnp.int32)


def _row(rows: Array, place: Array) -> Known:
    """Returns the record in a row that is in bounds."""
    return Known(*lax.dynamic_slice(rows, (4 * place,), (4,), allow_negative_indices=False))


def _put_row(rows: Array, known: Array, place: Array) -> Array:
    """Returns ``rows`` with another record in a row that is in bounds."""
    return lax.dynamic_update_slice(rows, known, (4 * place,), allow_negative_indices=False)


_Way = tuple[Array, Array, Array, Array, Array, Array, Array]


class Ties(NamedTuple):
    """The highest estimate in each part of an array's slots, and how many slots have it: a binary tree.

    ``best``, ``many``: int32, (runs * 2 * capacity,), those of all runs that share the arrays. Of the nodes of ``run``,
    1 is the root, 2 i and 2 i + 1 are below node i, and capacity + j is slot j. The tree ends at the lowest node that
    is above all slots in use; what is said of other slots is out of date and is never read.
    """

    best: Array
    many: Array
    run: Array

    def _top(self, capacity: int, size: Array) -> Array:
        return capacity >> (32 - lax.clz(jnp.maximum(size - 1, 0)))

    def highest(self, capacity: int, size: Array) -> Array:
        """Returns how many of the ``size`` slots in use have the highest estimate."""
        return at(self.many, self.run * (2 * capacity) + self._top(capacity, size))

    def find(self, capacity: int, size: Array, rank: Array, where: Array) -> Array:
        """Finds the slot of a rank, from 0, among those that have the highest estimate; 0 where not ``where``."""
        base, top = self.run * (2 * capacity), self._top(capacity, size)
        best = at(self.best, base + top)

        def lower(carry: tuple[Array, Array]) -> tuple[Array, Array]:
            node, rank = carry
            child = base + 2 * node
            first = jnp.where(at(self.best, child) == best, at(self.many, child), 0)
            right = rank >= first
            return 2 * node + right.astype(jnp.int32), rank - jnp.where(right, first, 0)

        start = jnp.where(where, top, capacity), rank
        return lax.while_loop(lambda carry: carry[0] < capacity, lower, start)[0] - capacity

    def put(self, capacity: int, size: Array, slot: Array, estimate: Array, where: Array, new: Array) -> "Ties":
        """Puts another estimate into a slot, where ``where``; ``size`` slots are in use then.

        ``estimate``: 0 for a slot that is in use no longer; ``new``: the slot was not in use before.
        """
        base, top = self.run * (2 * capacity), self._top(capacity, size)

        def upward(carry: _Way) -> _Way:
            # All reads come after the writes (docs/xla-cpu.md).
            best, many, node, width, high, ties, going = carry
            best, many = (put_where(x, (y,), (base + node,), going) for x, y in ((best, high), (many, ties)))
            other, above = node ^ 1, node >> 1
            used = other * width - capacity < size
            rival = jnp.where(used, at(best, base + other), 0)
            ties = jnp.where(high >= rival, ties, 0)
            ties = ties + jnp.where(used & (rival >= high), at(many, base + other), 0)
            high = jnp.maximum(high, rival)
            same = (at(best, base + above) == high) & (at(many, base + above) == ties)
            return best, many, above, 2 * width, high, ties, going & (node > top) & (new | ~same)

        ties = (estimate > 0).astype(jnp.int32)
        start: _Way = self.best, self.many, capacity + slot, jnp.int32(1), estimate, ties, where
        # Side by side, lanes go up until the last is at its end.
        best, many, *_ = lax.while_loop(lambda carry: over_lanes(carry[-1].astype(jnp.int32)) > 0, upward, start)
        return Ties(best, many, self.run)


class State(NamedTuple):
    """The state of a run. ``rows``: int32, (4 (2 memory + PADDING),), a ``Known`` each: from row 0 upward those of the
    part ``CERTAIN``, from row memory - 1 downward those of ``ZERO``, from row memory upward those of ``BETWEEN``;
    ``best``, ``many``: see ``Ties``; ``sizes``: how many a part has; ``met``: how many were met. ``part`` and ``slot``:
    the place of the entity that is next, and ``at`` itself; ``last``: the last one of its part, which fills its place
    when it leaves.

    ``run``: see ``Execution.in_turn``."""

    rows: Array
    best: Array
    many: Array
    sizes: tuple[Array, Array, Array]
    met: Array
    part: Array
    slot: Array
    at: Known
    last: Known
    run: Array
    totals: Totals


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class EpsilonGreedyByParts:
    """Epsilon-greedy on entities that are held, in three parts by their estimates. ``epsilon``: as in
    ``EpsilonGreedy``; ``memory`` (static): the most entities that a run can meet, a power of two.

    Of the pair of words of an operation the first is the coin, the second the choice."""

    epsilon: Array
    memory: int = field(metadata={"static": True})

    execution = Execution(most_lanes=16, scratch=("rows", "best", "many"), masked=True, in_turn=True, gain_ns=4)

    __repr__ = brief

    def init(self, view: View) -> State:
        """Begins the run with no entity met, and draws the first one."""
        zero = jnp.int32(0)
        rows = jnp.zeros(4 * (2 * self.memory + PADDING), jnp.int32)
        tree = jnp.zeros(2 * self.memory, jnp.int32)
        nobody = Known(zero, zero, zero, zero)
        state = State(
            rows, tree, tree, (zero, zero, zero), zero, zero, zero, nobody, nobody, zero, Totals.zero()
        )  # fmt: skip
        return self._drawn(view, state)

    def _row(self, run: Array, part: Array, slot: Array) -> Array:
        """Returns the row of a slot of a part; where there is none, a row in which nothing is kept."""
        place = jnp.where(part == ZERO, self.memory - 1 - slot, jnp.where(part == BETWEEN, self.memory + slot, slot))
        return run * (2 * self.memory + PADDING) + jnp.where(part == NOWHERE, 2 * self.memory, place)

    def _drawn(self, view: View, state: State) -> State:
        """Draws the next entity: any, with chance epsilon, else one of the highest estimate."""
        certain, between, zeros = state.sizes
        coin, word = words(view.choices, EXPLORE, state.totals.spent)
        alive = certain + between + zeros + (view.entities - state.met)
        explore = uniform(coin) < self.epsilon
        ties = Ties(state.best, state.many, state.run)
        best = jnp.where(certain > 0, certain, jnp.where(between > 0, ties.highest(self.memory, between), alive))
        rank = scale(word, jnp.where(explore, alive, best))
        # One number, so that the pair of words is drawn once.
        both = once(rank << 1 | explore.astype(jnp.int32))
        rank, explore = lax.shift_right_logical(both, jnp.int32(1)), (both & 1) > 0
        search = ~explore & (certain == 0) & (between > 0)
        tied = ties.find(self.memory, between, rank, search)
        part = jnp.where(rank < certain, CERTAIN, jnp.where(rank < certain + between, BETWEEN, ZERO))
        before = jnp.where(rank < certain, 0, jnp.where(rank < certain + between, certain, certain + between))
        slot = jnp.where(search, tied, rank - before)
        part = jnp.where(search, BETWEEN, part)
        part = jnp.where((part == ZERO) & (slot >= zeros), NOWHERE, part)
        size = jnp.where(part == CERTAIN, certain, jnp.where(part == BETWEEN, between, zeros))
        row, last = once(self._row(state.run, part, slot)), once(self._row(state.run, part, size - 1))

        def fresh() -> Known:
            entity = view.in_random_order(jnp.minimum(state.met, view.entities - 1))
            return Known(entity, jnp.int32(0), jnp.int32(0), view.false_values(entity))

        at: Known = lax.cond(part == NOWHERE, fresh, lambda: _row(state.rows, row))
        return state._replace(part=part, slot=slot, at=at, last=_row(state.rows, last))

    def ask(self, view: View, state: State) -> Trials:
        """Asks for one operation on the entity at hand."""
        over = self.done(view, state).astype(jnp.int32)
        return Trials(state.at.entity, state.at.tried, state.at.left, 1 - over)

    def tell(self, view: View, state: State, pull: Trials, outcome: Outcome) -> State:
        """Moves the entity to the part of its new estimate, or out if it is clean, and draws the next one."""
        outcome = Outcome(outcome.cleans, once(outcome.removed))
        moved = outcome.cleans > 0
        after = state.at.add(outcome)
        part = once(jnp.where(moved, after.part(), state.part))
        stays = part == state.part
        # What is left of its old place: its own record, or that of the last one there.
        kept = Known(*(jnp.where(stays, new, last) for new, last in zip(after, state.last, strict=True)))
        size = jnp.where(part == CERTAIN, state.sizes[CERTAIN], state.sizes[BETWEEN])
        size = jnp.where(part == ZERO, state.sizes[ZERO], size)
        hole = self._row(state.run, state.part, state.slot)
        place = once(self._row(state.run, jnp.where(stays, NOWHERE, part), size))
        rows = _put_row(state.rows, jnp.where(state.part != NOWHERE, jnp.stack(kept), 0), hole)
        rows = _put_row(rows, jnp.where(~stays & (part != NOWHERE), jnp.stack(after), 0), place)
        leaves, enters = ((~stays & (x == BETWEEN)) for x in (state.part, part))
        sizes = tuple(
            old + (part == number).astype(jnp.int32) - (state.part == number).astype(jnp.int32)
            for number, old in enumerate(state.sizes)
        )
        between = sizes[BETWEEN]
        ties = Ties(state.best, state.many, state.run)
        filled = moved & (state.part == BETWEEN) & (state.slot < between)
        ties = ties.put(self.memory, between, state.slot, kept.estimate(), filled, jnp.bool_(False))
        end = jnp.where(leaves, between, between - 1)
        estimate = jnp.where(leaves, 0, after.estimate())
        ties = ties.put(self.memory, between, end, estimate, leaves | enters, enters)
        told = State(
            rows=rows,
            best=ties.best,
            many=ties.many,
            sizes=(sizes[0], between, sizes[2]),
            met=state.met + (moved & (state.part == NOWHERE)).astype(jnp.int32),
            part=state.part,
            slot=state.slot,
            at=state.at,
            last=state.last,
            run=state.run,
            totals=state.totals.add(outcome, moved & (part == NOWHERE)),
        )
        return self._drawn(view, told)

    def done(self, view: View, state: State) -> Array:
        """Ends the run when the budget is spent or no false value is left."""
        certain, between, zeros = state.sizes
        alive = certain + between + zeros + view.entities - state.met
        return (state.totals.spent >= view.budget) | (alive <= 0)

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """Returns the counts of the run by name, as ``Totals`` has them."""
        return state.totals.answer()
