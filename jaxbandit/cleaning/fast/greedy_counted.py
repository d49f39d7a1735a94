"""Greedy where exchangeable entities are counted (``exchangeable.py``), some visits a step.

``tests/test_cleaning_counted.py`` ties its law to the paper's rule by enumeration, and by means to
``fast/greedy.py``, which ``tests/test_cleaning_policies.py`` ties to ``cleaning/greedy.py``.

A visit is one operation and, if that succeeds, all until the entity is clean. Visits to unmet entities are of one law
and independent, so many are drawn at once; a run of them ends before the first that is to an entity tried before, and
before one that the budget does not cover. Those that failed once are a number. A second visit tells an entity's
residual trials.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxbandit.cleaning.fast.exchangeable import RARE, UNKNOWN, VISITS, Operated, Operations, pack, unpack
from jaxbandit.cleaning.fast.pool import PADDING
from jaxbandit.cleaning.fast.random import RUN
from jaxbandit.cleaning.pulls import Totals
from jaxbandit.cleaning.records import PICK
from jaxbandit.cleaning.view import View
from jaxbandit.describe import brief
from jaxbandit.grammar import Execution
from jaxbandit.pytree import pytree
from jaxbandit.random.draws import below, uniform
from jaxbandit.random.stream import words
from jaxbandit.xla.fence import once

ANY, UNCOMMON, AGAIN, ON = range(4)
"""What is next: a visit to any entity; one to an unmet entity, see ``exchangeable.RARE``; one to an entity tried
before; more of the visit that is under way."""


class State(NamedTuple):
    """int32 all. ``unmet``: entities not met; ``failed``: those with one operation, which failed; ``rows``: shape
    (memory,), the residual trials of those with more; ``size``: how many these are. ``next``: see ``ANY``; ``slot`` and
    ``at``: the entity at hand and its residual trials, a slot of ``memory`` or more being none of the rows."""

    unmet: Array
    failed: Array
    rows: Array
    size: Array
    next: Array
    slot: Array
    at: Array
    totals: Totals


@pytree
@dataclass(frozen=True)
class CountedGreedy:
    """Greedy for problems that are not ``paired``. ``memory`` (static): the most entities that a run can visit
    twice."""

    memory: int = field(metadata={"static": True})

    execution = Execution(stride=16, most_lanes=512, scratch=("rows",), masked=True, gain_ns=3)

    __repr__ = brief

    def init(self, view: View) -> State:
        """Begins the run with all entities counted as unmet."""
        zero = jnp.int32(0)
        rows = jnp.zeros(self.memory + PADDING, jnp.int32)
        return State(view.entities, zero, rows, zero, zero, zero, zero, Totals.zero())

    def ask(self, view: View, state: State) -> Operations:
        """Asks for visits to unmet entities, or for operations on the entity at hand."""
        over = self.done(view, state)
        left = view.budget - state.totals.spent
        cleans = jnp.where(state.next == ON, left, jnp.where(state.next == AGAIN, 1, 0))
        return Operations(
            words=state.totals.spent,
            residual=state.at,
            cleans=jnp.where(over, 0, cleans),
            visits=jnp.where(over | (state.next >= AGAIN), 0, jnp.where(state.next == UNCOMMON, RARE, 1)),
        )

    def tell(self, view: View, state: State, pull: Operations, outcome: Operated) -> State:
        """Counts the visits that were made, and draws the entity that is next."""
        run = _run(view, state, outcome.visits)
        good, bad = unpack(outcome.residual)
        made = jnp.minimum(outcome.cleans, good + bad)
        clean = outcome.cleans > made
        told = pack(good - outcome.gained, bad - (made - outcome.gained))
        again = (state.next == AGAIN) & (outcome.cleans > 0)
        lost = again & (outcome.gained == 0) & ~clean
        listed = state.slot < self.memory
        gone = again & ~lost & listed
        row = jnp.where(lost, told, state.rows[jnp.clip(state.size - 1, 0, self.memory)])
        slot = jnp.where(listed, state.slot, state.size)
        rows = state.rows.at[jnp.where(lost | gone, slot, self.memory + PADDING)].set(row, mode="drop")
        size = state.size + (lost & ~listed).astype(jnp.int32) - gone.astype(jnp.int32)
        failed = state.failed + run.failed - (again & ~listed).astype(jnp.int32)
        totals = Totals(
            state.totals.spent + run.cleans + made + clean.astype(jnp.int32),
            state.totals.removed + run.removed + outcome.gained + clean.astype(jnp.int32),
            state.totals.finished + run.finished + clean.astype(jnp.int32),
        )
        on = (run.cut != UNKNOWN) | ((state.next == ON) | again) & ~clean & ~lost
        tried = failed + size
        place = below(view.choices, PICK, totals.spent, jnp.maximum(tried, 1))
        drawn = jnp.where(place < failed, self.memory, place - failed)
        slot = jnp.where(run.again, drawn, self.memory)
        known = rows[jnp.minimum(slot, self.memory)]
        at = jnp.where(run.cut != UNKNOWN, run.cut, jnp.where(on, told, jnp.where(slot < self.memory, known, UNKNOWN)))
        following = jnp.where(on, ON, jnp.where(run.again, AGAIN, jnp.where(run.rare, UNCOMMON, ANY)))
        moved = (outcome.cleans > 0) | (outcome.visits[0] > 0)
        after = State(state.unmet - run.met, failed, state.rows, size, following, slot, at, totals)
        kept: State = jax.tree.map(lambda new, old: jnp.where(moved, new, old), after, state)
        return kept._replace(rows=rows)

    def done(self, view: View, state: State) -> Array:
        """Ends the run when the budget is spent or no false value is left."""
        none = (state.next != ON) & (state.unmet + state.failed + state.size <= 0)
        return (state.totals.spent >= view.budget) | none

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """Returns the counts of the run by name, as ``Totals`` has them."""
        return state.totals.answer()


class _Run(NamedTuple):
    """The visits to unmet entities that are made: how many and how many failed; operations, false values removed,
    entities finished (int32); ``again``, ``rare``: whether the next visit is to an entity tried before, and is
    ``UNCOMMON``; ``cut``: the residual trials of an entity whose visit the budget does not cover, after its first
    operation; else ``UNKNOWN``."""

    met: Array
    failed: Array
    cleans: Array
    removed: Array
    finished: Array
    again: Array
    rare: Array
    cut: Array


def _run(view: View, state: State, visits: tuple[Array, ...]) -> _Run:
    word, left = words(view.choices, RUN, state.totals.spent)[0], view.budget - state.totals.spent
    u = uniform(word)
    share, zero = jnp.ones((), jnp.float32), jnp.int32(0)
    alive = state.unmet + state.failed + state.size
    met = failed = cleans = removed = again = rare = zero
    cut = jnp.int32(UNKNOWN)
    going = visits[0] > 0
    known = state.next == UNCOMMON
    for number, visit in enumerate(visits):
        if number == VISITS // 2:
            # Longer chains take minutes to compile (docs/xla-cpu.md).
            level = lax.bitcast_convert_type(share, jnp.int32)
            parts = met, failed, cleans, removed, again, rare, cut + 1, alive, going.astype(jnp.int32), level
            met, failed, cleans, removed, again, rare, cut, alive, on, level = once(jnp.stack(parts))
            cut, going, share = cut - 1, on > 0, lax.bitcast_convert_type(level, jnp.float32)
        gained, cost = unpack(visit)
        chance = (state.unmet - number).astype(jnp.float32) / jnp.maximum(alive, 1).astype(jnp.float32)
        share = share * (jnp.where(known, 1, chance) if number == 0 else chance)
        going = going & (cleans < left)
        again = again | jnp.where(going & (u >= share), 1, 0)
        going = going & (u < share)
        rare = rare | jnp.where(going & (visit == UNKNOWN), 1, 0)
        going = going & (visit != UNKNOWN)
        covered = cost <= left - cleans
        # After the first operation and before the last, the others are its residual trials.
        cut = jnp.where(going & ~covered, pack(gained - 2, cost - gained), cut)
        first, whole = going & ~covered, going & covered
        lost = whole & (gained == 0)
        met = met + going.astype(jnp.int32)
        failed = failed + lost.astype(jnp.int32)
        alive = alive - (going & ~lost).astype(jnp.int32)
        cleans = cleans + jnp.where(whole, cost, first.astype(jnp.int32))
        removed = removed + jnp.where(whole, gained, first.astype(jnp.int32))
        going = whole
    bits, mask = VISITS.bit_length(), (1 << VISITS.bit_length()) - 1
    counts = once(((removed << bits | met) << bits | failed) << 2 | again << 1 | rare)
    cleans, cut = once(cleans), once(cut + 1) - 1
    met, failed = counts >> 2 + bits & mask, counts >> 2 & mask
    finished = met - failed - (cut != UNKNOWN).astype(jnp.int32)
    return _Run(met, failed, cleans, counts >> 2 + 2 * bits, finished, counts & 2 > 0, counts & 1 > 0, cut)
