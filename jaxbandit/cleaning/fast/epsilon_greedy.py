"""epsilon-Greedy with the highest estimates in O(log) of the entities met. ``tests/test_cleaning_policies.py`` ties it
to ``cleaning/epsilon_greedy.py``: by the same oracle on the tape, by enumeration and by means.

Many entities can have an estimate above 0. The entities met stand in three parts: those with the estimate 1, those
between, and those with 0. Only where no estimate is 1 does a greedy operation compare estimates: the part between has a
tree over its slots for that (``ties.py``), which gets to know new slots when it is asked.

All is decided for many runs at once. What it changes in a run's arrays is a ``_Change``: these are made one run after
the other.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxbandit.cleaning.epsilon_greedy import EXPLORE
from jaxbandit.cleaning.fast.pool import PADDING
from jaxbandit.cleaning.fast.pulls import Trials
from jaxbandit.cleaning.fast.ties import Ties
from jaxbandit.cleaning.pulls import Outcome, Totals
from jaxbandit.cleaning.view import View
from jaxbandit.describe import brief
from jaxbandit.grammar import Execution
from jaxbandit.pytree import pytree
from jaxbandit.random.draws import scale, uniform
from jaxbandit.random.stream import words
from jaxbandit.xla.entries import at, in_shared, put, put_parts_where
from jaxbandit.xla.exact import quotient
from jaxbandit.xla.fence import once
from jaxbandit.xla.platforms import by_platform

CERTAIN, BETWEEN, ZERO, NOWHERE = map(np.int32, range(4))
"""The parts; an entity that was not met, or is clean, is in none."""


class MetEntity(NamedTuple):
    """An entity with the operations on it so far, how many of them succeeded, and its false values left (int32)."""

    entity: Array
    tried: Array
    gained: Array
    left: Array

    def add(self, outcome: Outcome) -> "MetEntity":
        """Returns the record after an outcome of the entity."""
        tried, gained, left = self.tried + outcome.cleans, self.gained + outcome.removed, self.left - outcome.removed
        return MetEntity(self.entity, tried, gained, left)

    def part(self) -> Array:
        """Returns the part where an entity with this record belongs, once it was tried."""
        part = jnp.where(self.gained == self.tried, CERTAIN, jnp.where(self.gained > 0, BETWEEN, ZERO))
        return jnp.where(self.left == 0, NOWHERE, part)

    def estimate(self) -> Array:
        """Returns gained / tried as the bits of a float32, whose order is that of the estimates."""
        ratio = quotient(self.gained.astype(jnp.float32), jnp.maximum(self.tried, 1).astype(jnp.float32))
        return lax.bitcast_convert_type(ratio, jnp.int32)


def _row(rows: Array, place: Array) -> Array:
    """Returns the row at a place that is in bounds: int32, (4,)."""
    return lax.dynamic_slice(rows, (4 * place,), (4,), allow_negative_indices=False)


def _put_row(rows: Array, row: Array, place: Array) -> Array:
    """Returns ``rows`` with another row at a place that is in bounds."""
    return lax.dynamic_update_slice(rows, row, (4 * place,), allow_negative_indices=False)


class _Change(NamedTuple):
    """What an operation changes in the arrays of its run.

    The entity's ``row`` comes to ``place``, and where it does not stay in its part, the ``last`` row of its old part to
    the ``hole``. ``base``, ``size``: see ``Ties``. ``changed`` is the slot of the hole, or of an entity that ``stays``;
    ``new`` is that of one that comes; -1 where they are not in the part between; ``estimate`` is the entity's. The tree
    knows the slots before ``begin``, and has to know those before ``end``.
    """

    row: Array
    stays: Array
    hole: Array
    last: Array
    place: Array
    base: Array
    size: Array
    changed: Array
    new: Array
    estimate: Array
    begin: Array
    end: Array


_Arrays = tuple[Array, Array, Array]


@functools.lru_cache
def _changed(capacity: int) -> Callable[..., _Arrays]:
    """Makes the function that changes the arrays of a run."""

    def in_turn(arrays: _Arrays, change: _Change) -> _Arrays:
        rows, best, many = arrays
        rows = _put_row(rows, _row(rows, change.last), change.hole)
        rows = _put_row(rows, change.row, change.place)
        new = change.new >= 0
        best = put(best, jnp.where(new, change.estimate, 0), change.base + jnp.where(new, capacity + change.new, 0))
        ties = Ties(best, many, change.base, change.size, capacity)
        estimate = jnp.where(change.stays, change.estimate, at(best, change.base + capacity + change.size))
        top = jnp.where(change.changed < change.begin, ties.top, capacity)
        ties = ties.put(jnp.where(change.changed >= 0, capacity + change.changed, 0), estimate, top)
        ties = ties.put_all(change.begin, change.end)
        return rows, ties.best, ties.many

    def together(arrays: _Arrays, change: _Change) -> _Arrays:
        """Of lanes side by side, whose trees know all slots after each operation, so that one is new to them at
        most."""
        rows, best, many = arrays
        both = _row(rows, change.last), change.row
        rows = put_parts_where(rows, both, (4 * change.hole, 4 * change.place), (jnp.bool_(True), jnp.bool_(True)))
        ties, leaves = Ties(best, many, change.base, change.size, capacity), change.base + capacity
        moved = jnp.where(change.stays, change.estimate, at(best, leaves + change.size))
        last = jnp.where(change.changed == change.begin, moved, at(best, leaves + change.begin))
        last = jnp.where(change.new >= 0, change.estimate, last)
        nodes = (
            jnp.where(change.changed >= 0, capacity + change.changed, 0),
            jnp.where(change.begin < change.end, capacity + change.begin, 0),
        )
        top = jnp.where(change.changed < change.begin, ties.top, capacity)
        ties = ties.put_both(nodes, (moved, last), (top, ties.top))
        return rows, ties.best, ties.many

    def one(arrays: _Arrays, change: _Change) -> _Arrays:
        found: _Arrays = by_platform(arrays, change, cpu=in_turn, default=together)
        return found

    return in_shared(one)


def _size_of(part: Array, sizes: tuple[Array, Array, Array]) -> Array:
    """Returns the size of a part; of ``NOWHERE``, that of the last one."""
    return jnp.where(part == CERTAIN, sizes[CERTAIN], jnp.where(part == BETWEEN, sizes[BETWEEN], sizes[ZERO]))


class State(NamedTuple):
    """The state of a run. ``rows``: int32, (4 (2 memory + PADDING),), a ``MetEntity`` each: from row 0 upward those of
    the part ``CERTAIN``, from row memory - 1 downward those of ``ZERO``, from row memory upward those of ``BETWEEN``;
    ``best``, ``many``: see ``Ties``, which knows the first ``known`` slots of the part between; ``sizes``: how many a
    part has; ``met``: how many were met. ``part`` and ``slot``: the place of the entity that is next, and ``next``
    itself. ``run``: see ``Execution.many_steps``."""

    rows: Array
    best: Array
    many: Array
    known: Array
    sizes: tuple[Array, Array, Array]
    met: Array
    part: Array
    slot: Array
    next: MetEntity
    run: Array
    totals: Totals


def _moved(sizes: tuple[Array, Array, Array], old: Array, new: Array) -> tuple[Array, Array, Array]:
    """Returns the sizes of the parts after an entity has moved from one to another, or to nowhere."""
    certain, between, zeros = (
        size + (new == number).astype(jnp.int32) - (old == number).astype(jnp.int32)
        for number, size in enumerate(sizes)
    )
    return certain, between, zeros


def _to_know(state: State, told: State, part: Array, greedy: Array) -> tuple[Array, Array]:
    """Returns up to which slot the tree knows those of the part between, and up to which it has to: all of them where
    the next operation is ``greedy`` and no estimate is 1."""
    certain, between, _ = told.sizes
    # The slot before the one that falls away is put again, which corrects the nodes that counted the lost one.
    lost = (state.part == BETWEEN) & (part != BETWEEN)
    known = jnp.maximum(jnp.where(lost, jnp.minimum(state.known, between - 1), state.known), 0)
    # On an accelerator all lanes wait for the longest loop, so each slot is put when it comes.
    always = by_platform(cpu=lambda: jnp.bool_(False), default=lambda: jnp.bool_(True))
    return known, jnp.where(always | (greedy & (certain == 0)), between, known)


@pytree
@dataclass(frozen=True)
class EpsilonGreedyByParts:
    """Epsilon-greedy on entities that are held, in three parts by their estimates. ``epsilon``: as in
    ``EpsilonGreedy``; ``memory`` (static): the most entities that a run can meet, a power of two.

    Of the pair of words of an operation the first is the coin, the second the choice."""

    epsilon: Array
    memory: int = field(metadata={"static": True})

    execution = Execution(most_lanes=16, scratch=("rows", "best", "many"), masked=True, many_steps="abreast", gain_ns=4)

    __repr__ = brief

    def init(self, view: View) -> State:
        """Begins the run with no entity met, and draws the first one."""
        zero = jnp.int32(0)
        rows = jnp.zeros(4 * (2 * self.memory + PADDING), jnp.int32)
        tree = jnp.zeros(2 * self.memory, jnp.int32)
        nobody = MetEntity(zero, zero, zero, zero)
        state = State(rows, tree, tree, zero, (zero, zero, zero), zero, zero, zero, nobody, zero, Totals.zero())
        return self._drawn(view, state, *self._words(view, state))

    def _ties(self, state: State) -> Ties:
        return Ties(state.best, state.many, state.run * (2 * self.memory), state.sizes[BETWEEN], self.memory)

    def _place(self, run: Array, part: Array, slot: Array) -> Array:
        """Returns the place in ``rows`` of a slot of a part; where there is none, one in which nothing is kept."""
        place = jnp.where(part == ZERO, self.memory - 1 - slot, jnp.where(part == BETWEEN, self.memory + slot, slot))
        return run * (2 * self.memory + PADDING) + jnp.where(part == NOWHERE, 2 * self.memory, place)

    def _words(self, view: View, state: State) -> tuple[Array, Array]:
        """Draws whether the next operation explores, with chance epsilon, and a word for its choice."""
        coin, word = words(view.choices, EXPLORE, state.totals.spent)
        return uniform(coin) < self.epsilon, word

    def _drawn(self, view: View, state: State, explore: Array, word: Array) -> State:
        """Draws the next entity: any where it explores, else one of the highest estimate."""
        certain, between, zeros = state.sizes
        alive = certain + between + zeros + (view.entities - state.met)
        ties = self._ties(state)
        best = jnp.where(certain > 0, certain, jnp.where(between > 0, ties.highest(), alive))
        rank = scale(word, jnp.where(explore, alive, best))
        search = ~explore & (certain == 0) & (between > 0)
        tied = ties.find(rank, search)
        part = jnp.where(rank < certain, CERTAIN, jnp.where(rank < certain + between, BETWEEN, ZERO))
        before = jnp.where(rank < certain, 0, jnp.where(rank < certain + between, certain, certain + between))
        slot = jnp.where(search, tied, rank - before)
        part = jnp.where(search, BETWEEN, part)
        part = jnp.where((part == ZERO) & (slot >= zeros), NOWHERE, part)

        def fresh() -> MetEntity:
            entity = view.in_random_order(jnp.minimum(state.met, view.entities - 1))
            return MetEntity(entity, jnp.int32(0), jnp.int32(0), once(view.false_values(entity)))

        upcoming: MetEntity = lax.cond(
            part == NOWHERE, fresh, lambda: MetEntity(*_row(state.rows, self._place(state.run, part, slot)))
        )
        return state._replace(part=part, slot=slot, next=upcoming)

    def ask(self, view: View, state: State) -> Trials:
        """Asks for one operation on the entity at hand."""
        over = self.done(view, state).astype(jnp.int32)
        return Trials(state.next.entity, state.next.tried, state.next.left, 1 - over)

    def tell(self, view: View, state: State, pull: Trials, outcome: Outcome) -> State:
        """Moves the entity to the part of its new estimate, or out if it is clean, and draws the next one."""
        outcome = Outcome(outcome.cleans, once(outcome.removed))
        operated, after = outcome.cleans > 0, state.next.add(outcome)
        part = jnp.where(operated, after.part(), state.part)
        told = state._replace(
            sizes=_moved(state.sizes, state.part, part),
            met=state.met + (operated & (state.part == NOWHERE)).astype(jnp.int32),
            totals=state.totals.add(outcome, operated & (part == NOWHERE)),
        )
        explore, word = self._words(view, told)
        known = _to_know(state, told, part, ~explore)
        change = self._change(state, told, after, part, known)
        rows, best, many = _changed(self.memory)((state.rows, state.best, state.many), change)
        told = told._replace(rows=rows, best=best, many=many, known=jnp.maximum(*known))
        return self._drawn(view, told, explore, word)

    def _change(self, state: State, told: State, after: MetEntity, part: Array, known: tuple[Array, Array]) -> _Change:
        """Returns what the entity at hand changes, whose record ``after`` the operation belongs to a ``part``; the
        state is ``told`` the sizes. ``known``: see ``_to_know``."""
        stays, between = part == state.part, told.sizes[BETWEEN]
        left = jnp.where(stays, NOWHERE, state.part)
        operated = after.tried > state.next.tried
        filled = operated & (state.part == BETWEEN) & (state.slot < between)
        return _Change(
            row=jnp.where(part != NOWHERE, jnp.stack(after), 0),
            stays=stays,
            hole=self._place(state.run, left, state.slot),
            last=self._place(state.run, left, _size_of(state.part, state.sizes) - 1),
            place=self._place(state.run, part, jnp.where(stays, state.slot, _size_of(part, state.sizes))),
            base=state.run * (2 * self.memory),
            size=between,
            changed=jnp.where(filled, state.slot, -1),
            new=jnp.where((part == BETWEEN) & ~stays, between - 1, -1),
            estimate=after.estimate(),
            begin=known[0],
            end=known[1],
        )

    def done(self, view: View, state: State) -> Array:
        """Ends the run when the budget is spent or no false value is left."""
        certain, between, zeros = state.sizes
        alive = certain + between + zeros + view.entities - state.met
        return (state.totals.spent >= view.budget) | (alive <= 0)

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """Returns the counts of the run by name, as ``Totals`` has them."""
        return state.totals.answer()
