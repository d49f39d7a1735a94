"""Greedy where exchangeable entities are counted (``exchangeable.py``): a step makes some visits.

``tests/test_cleaning_counted.py`` ties its law to the paper's rule by enumeration, and by means to
``fast/greedy.py``, which ``tests/test_cleaning_policies.py`` ties to ``cleaning/greedy.py``.

A visit is one operation and, if that succeeds, all others until the entity is clean. Visits to unmet entities are
independent and have one distribution, so many are drawn at once. A run of them ends before the first visit to an entity
that was tried before. It also ends where the budget does not cover a visit.

Entities whose only operation failed are a number. When such an entity is visited again, its residual trials are drawn.
From then on a row has them.
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
from jaxbandit.xla.exact import quotient
from jaxbandit.xla.fence import once

ANY, UNCOMMON, AGAIN, ON = range(4)
"""What is next: a visit to any entity; a visit to an unmet entity whose end is ``exchangeable.RARE``; a visit to an
entity that was tried before; or more of the visit that is under way."""


class State(NamedTuple):
    """Holds a run between steps; all fields are int32.

    ``unmet``: how many entities were not met; ``failed``: how many had one operation, which failed; ``rows``: the
    residual trials of the entities with more operations, shape (memory + PADDING,), of which the first ``size`` are in
    use. ``next``: see ``ANY``; ``slot``: the row of the entity at hand, ``memory`` or more where it has none; ``at``:
    its residual trials, ``UNKNOWN`` where they are still to be drawn."""

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
        # The operations on the entity at hand, of which the one that leaves it clean is no residual trial.
        good, bad = unpack(outcome.residual)
        made = jnp.minimum(outcome.cleans, good + bad)
        clean = outcome.cleans > made
        rest = pack(good - outcome.gained, bad - (made - outcome.gained))
        again = (state.next == AGAIN) & (outcome.cleans > 0)
        lost = again & (outcome.gained == 0) & ~clean
        # An entity that fails again keeps its row or gets one. One that succeeds leaves its row to the last entity.
        listed = state.slot < self.memory
        gone = again & ~lost & listed
        row = jnp.where(lost, rest, state.rows[jnp.clip(state.size - 1, 0, self.memory)])
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
        # Of the entities that were tried before, any is as likely: first come those that failed once, then the rows.
        tried = failed + size
        place = below(view.choices, PICK, totals.spent, jnp.maximum(tried, 1))
        drawn = jnp.where(place < failed, self.memory, place - failed)
        slot = jnp.where(run.again, drawn, self.memory)
        known = rows[jnp.minimum(slot, self.memory)]
        at = jnp.where(run.cut != UNKNOWN, run.cut, jnp.where(on, rest, jnp.where(slot < self.memory, known, UNKNOWN)))
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
    """Holds the visits to unmet entities that are made: how many (``met``), how many of them ``failed``, their
    operations (``cleans``), the false values ``removed`` and the entities ``finished`` (int32). ``again``, ``rare``:
    whether the next visit is to an entity tried before, and whether it is ``UNCOMMON`` (bool). ``cut``: the residual
    trials after its first operation of the entity whose visit the budget does not cover, or ``UNKNOWN``."""

    met: Array
    failed: Array
    cleans: Array
    removed: Array
    finished: Array
    again: Array
    rare: Array
    cut: Array


def _run(view: View, state: State, visits: tuple[Array, ...]) -> _Run:
    """Makes visits to unmet entities, which end as ``visits`` says, up to the first one that is not made whole."""
    u = uniform(words(view.choices, RUN, state.totals.spent)[0])
    left = view.budget - state.totals.spent
    none, alive = jnp.int32(0), state.unmet + state.failed + state.size
    share = jnp.ones((), jnp.float32)
    chain = _Chain(none, none, none, none, none, none, jnp.int32(UNKNOWN), alive, visits[0] > 0, share)
    for number, visit in enumerate(visits):
        if number == VISITS // 2:
            chain = chain.computed_once()
        chance = quotient((state.unmet - number).astype(jnp.float32), jnp.maximum(chain.alive, 1).astype(jnp.float32))
        if number == 0:
            chance = jnp.where(state.next == UNCOMMON, 1, chance)
        chain = chain.after(visit, u, chance, left)
    return chain.packed()


class _Chain(NamedTuple):
    """Holds a run of visits while they are made one after the other. Like those of ``_Run``: ``met`` to ``cut`` (int32,
    ``again`` and ``rare`` being 0 or 1). ``alive``: the entities that have false values left; ``going``: whether all
    visits so far were made whole (bool); ``share``: the chance that all of them are to unmet entities (float32)."""

    met: Array
    failed: Array
    cleans: Array
    removed: Array
    again: Array
    rare: Array
    cut: Array
    alive: Array
    going: Array
    share: Array

    def after(self, visit: Array, u: Array, chance: Array, left: Array) -> "_Chain":
        """Returns the chain after one more visit.

        ``visit``: how it ends if it is to an unmet entity, see ``Tables.visits``; ``chance``: that it is to one;
        ``u``: the uniform number of the run, below the share while all visits are; ``left``: the run's operations.
        """
        gained, cost = unpack(visit)
        share = self.share * chance
        going = self.going & (self.cleans < left)
        again = self.again | jnp.where(going & (u >= share), 1, 0)
        going = going & (u < share)
        rare = self.rare | jnp.where(going & (visit == UNKNOWN), 1, 0)
        going = going & (visit != UNKNOWN)
        # Where the budget covers a part of the visit, its first operation alone is made here, and it succeeds. The
        # operations after that one and before the last are the residual trials.
        covered = cost <= left - self.cleans
        begun, whole = going & ~covered, going & covered
        cut = jnp.where(begun, pack(gained - 2, cost - gained), self.cut)
        lost = whole & (gained == 0)
        return _Chain(
            met=self.met + going.astype(jnp.int32),
            failed=self.failed + lost.astype(jnp.int32),
            cleans=self.cleans + jnp.where(whole, cost, begun.astype(jnp.int32)),
            removed=self.removed + jnp.where(whole, gained, begun.astype(jnp.int32)),
            again=again,
            rare=rare,
            cut=cut,
            alive=self.alive - (going & ~lost).astype(jnp.int32),
            going=whole,
            share=share,
        )

    def computed_once(self) -> "_Chain":
        """Returns the same. Chains that are longer without it take minutes to compile (docs/xla-cpu.md)."""
        going, share = self.going.astype(jnp.int32), lax.bitcast_convert_type(self.share, jnp.int32)
        rows = _Chain(*once(jnp.stack(self._replace(cut=self.cut + 1, going=going, share=share))))
        share = lax.bitcast_convert_type(rows.share, jnp.float32)
        return rows._replace(cut=rows.cut - 1, going=rows.going > 0, share=share)

    def packed(self) -> _Run:
        """Returns the visits that were made, from three numbers that are computed once each."""
        bits, mask = VISITS.bit_length(), (1 << VISITS.bit_length()) - 1
        counts = once(((self.removed << bits | self.met) << bits | self.failed) << 2 | self.again << 1 | self.rare)
        cleans, cut = once(self.cleans), once(self.cut + 1) - 1
        removed, met, failed = counts >> (2 + 2 * bits), counts >> (2 + bits) & mask, counts >> 2 & mask
        finished = met - failed - (cut != UNKNOWN).astype(jnp.int32)
        return _Run(met, failed, cleans, removed, finished, counts & 2 > 0, counts & 1 > 0, cut)
