"""index by lists. ``test_index_by_lists_equals_the_rule`` (tests/test_cleaning_policies.py) ties it to
``cleaning/index.py``.

The record with which an entity is given up says at which level it will be worth its price again. So it waits in a list
of that level, from whose end it is taken. Fresh entities are searched for many at once.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxbandit.cleaning.fast.pool import PADDING
from jaxbandit.cleaning.pulls import Outcome, Pull, Totals
from jaxbandit.cleaning.search import Known
from jaxbandit.cleaning.view import View
from jaxbandit.describe import brief
from jaxbandit.grammar import Execution
from jaxbandit.pytree import pytree
from jaxbandit.random.race import UNLIMITED
from jaxbandit.xla.entries import select
from jaxbandit.xla.fence import once
from jaxbandit.xla.platforms import by_platform

_NONE = 2**31 - 1
"""A place that no entity has."""

SCANNED = 32
"""How many entities are checked together for one with a number of false values."""


class ListSearch(NamedTuple):
    """Where the search for the next entity stands, as ``search.Search``; ``over`` (bool): whether it has come to an
    entity to work on, or to the end."""

    stage: Array
    r: Array
    place: Array
    over: Array


class State(NamedTuple):
    """The state of a run. ``at``: the entity at hand, and ``slot`` its row. ``rows``: int32, (5 (memory + PADDING),),
    five words for each entity met: a ``Known``, and 1 + the row before it in its list, 0 for none; ``met``: how many
    they are. ``ends``: int32, (levels,), 1 + the row at the end of each level's list. ``run``: see
    ``Execution.many_steps``."""

    search: ListSearch
    at: Known
    slot: Array
    rows: Array
    met: Array
    ends: Array
    run: Array
    totals: Totals


@pytree
@dataclass(frozen=True)
class IndexByLists:
    """The policy index by lists of entities given up. ``allowed`` and ``first``: as in ``Index``; ``memory`` (static):
    the most entities that a run can meet."""

    allowed: Array
    first: Array | np.int32
    memory: int = field(metadata={"static": True})

    execution = Execution(most_lanes=64, scratch=("rows",), masked=True, many_steps="in turn", gain_ns=9)

    __repr__ = brief

    def init(self, view: View) -> State:
        """Begins at the first level, with the first entity of the most false values."""
        zero = jnp.int32(0)
        search = ListSearch(zero, jnp.int32(self.allowed.shape[2]), zero, jnp.bool_(False))
        rows = jnp.zeros(5 * (self.memory + PADDING), jnp.int32)
        ends = jnp.zeros(self.allowed.shape[0], jnp.int32)
        nobody = Known(zero, zero, zero, zero)
        state = State(search, nobody, zero, rows, zero, ends, zero, Totals.zero())
        return self._next(view, state, jnp.bool_(True))

    def _limits(self, began: Array, gained: Array) -> Array:
        """Returns the failures allowed at each level: int32, (levels,)."""
        levels, _, most = self.allowed.shape
        row, column = self.first + jnp.clip(began, 0, most), jnp.clip(gained, 0, most - 1)
        limits = lax.dynamic_slice(self.allowed, (jnp.int32(0), row, column), (levels, 1, 1)).reshape(-1)
        return jnp.where(jnp.arange(levels) == levels - 1, UNLIMITED, limits)

    def _limit(self, stage: Array, began: Array, gained: Array) -> Array:
        limits = self._limits(began, gained)
        return limits[jnp.clip(stage, 0, limits.shape[0] - 1)]

    def _search(self, view: View, search: ListSearch, ends: Array) -> tuple[ListSearch, Array]:
        """Moves the search to the first level, from its own on, and there to the first r, that has an entity to work
        on; where lanes are side by side, by one turn towards that.

        If nobody waits in the level's list, that is the fresh entity at the search's place, which is returned beside
        it.
        """
        levels = self.allowed.shape[0]

        def waiting(search: ListSearch) -> Array:
            return ends[jnp.minimum(search.stage, levels - 1)] > 0

        def onward(carry: tuple[ListSearch, Array]) -> tuple[ListSearch, Array]:
            search, _ = carry
            worth = (search.r > 0) & (self._limit(search.stage, search.r, jnp.int32(0)) > 0)
            place = search.place + jnp.arange(SCANNED, dtype=jnp.int32)
            # As vectors: a CPU would compute them one by one where it takes the first of them.
            entity = once(view.in_random_order(jnp.minimum(place, view.entities - 1)))
            hit = once(view.begins_with(entity, search.r))
            first = jnp.min(jnp.where(hit & (place < view.entities), place, _NONE))
            found = worth & (first != _NONE)
            passed = worth & ~found & (search.place + SCANNED >= view.entities)
            # A number not worth a try ends the level: those below it are worth less.
            after = search._replace(
                stage=search.stage + (~worth).astype(jnp.int32),
                r=search.r - passed.astype(jnp.int32),
                place=jnp.where(
                    found, first, jnp.where(passed, 0, jnp.where(worth, search.place + SCANNED, search.place))
                ),
            )
            after = after._replace(over=found | (after.stage >= levels) | waiting(after))
            return after, entity[jnp.where(found, first - search.place, 0)]

        def until_over(*start: Any) -> tuple[ListSearch, Array]:
            return lax.while_loop(lambda carry: ~carry[0].over, onward, start)

        def one_turn(*start: Any) -> tuple[ListSearch, Array]:
            after = select(start[0].over, start[0], onward(start)[0])
            return after, view.in_random_order(jnp.minimum(after.place, view.entities - 1))  # to look it up is a copy

        begun = search._replace(over=(search.stage >= levels) | waiting(search))
        found: tuple[ListSearch, Array] = by_platform(begun, jnp.int32(0), cpu=until_over, default=one_turn)
        return found

    def _next(self, view: View, state: State, leave: Array) -> State:
        """Takes, where ``leave``, the next entity that is worth its price, or goes on to search for it."""
        levels, base = self.allowed.shape[0], state.run * (self.memory + PADDING)
        # Where nothing is left, the search ends before it begins.
        search, fresh = self._search(
            view, state.search._replace(stage=jnp.where(leave, state.search.stage, levels)), state.ends
        )
        search, leave = select(leave, search, state.search), leave & search.over
        stage = jnp.minimum(search.stage, levels - 1)
        end = state.ends[stage]
        again, over = (end > 0) & (search.stage < levels), search.stage >= levels
        row = lax.dynamic_slice(state.rows, (5 * (base + jnp.maximum(end - 1, 0)),), (5,))
        unmet = Known(fresh, search.r, jnp.int32(0), jnp.int32(0))
        at = Known(
            *(jnp.where(leave & ~over, jnp.where(again, old, new), same)
              for old, new, same in zip(row[:4], unmet, state.at, strict=True))
        )  # fmt: skip
        taken = leave & ~again & ~over
        slot = jnp.where(leave & again, end - 1, jnp.where(taken, state.met, state.slot))
        ends = state.ends.at[stage].set(jnp.where(leave & again, row[4], end))
        search = search._replace(place=search.place + taken.astype(jnp.int32))
        return state._replace(search=search, at=at, slot=slot, met=state.met + taken.astype(jnp.int32), ends=ends)

    def ask(self, view: View, state: State) -> Pull:
        """Asks to work on the entity at hand until its record could be worth too little.

        The failures allowed do not fall as successes are gained, so the present limit can be met but not passed.
        """
        at = state.at
        limit = self._limit(state.search.stage, at.began, at.gained)
        return Pull(
            entity=at.entity,
            attempt=at.tried,
            successes=at.began - at.gained,
            failures=jnp.where(limit == UNLIMITED, UNLIMITED, limit - (at.tried - at.gained)),
            cleans=jnp.where(self.done(view, state) | ~state.search.over, 0, view.budget - state.totals.spent),
        )

    def tell(self, view: View, state: State, pull: Pull, outcome: Outcome) -> State:
        """Stays with the entity where that is still worth its price, or puts it into a list and takes the next one."""
        moved = outcome.cleans > 0
        clean = moved & (outcome.removed == pull.successes)
        at = state.at._replace(tried=state.at.tried + outcome.cleans, gained=state.at.gained + outcome.removed)
        limits, failed = self._limits(at.began, at.gained), at.tried - at.gained
        level = jnp.arange(limits.shape[0], dtype=jnp.int32)
        given_up = moved & ~clean & (failed >= limits[jnp.clip(state.search.stage, 0, limits.shape[0] - 1)])
        # The first level below at which this record is worth its price.
        later = jnp.min(jnp.where((level > state.search.stage) & (failed < limits), level, limits.shape[0] - 1))
        base = state.run * (self.memory + PADDING)
        row = jnp.where(given_up, jnp.stack([*at, state.ends[later]]), 0)
        slot = jnp.where(given_up, state.slot, self.memory)
        rows = lax.dynamic_update_slice(state.rows, row, (5 * (base + slot),))
        ends = jnp.where((level == later) & given_up, state.slot + 1, state.ends)
        told = state._replace(at=at, rows=rows, ends=ends, totals=state.totals.add(outcome, clean))
        return self._next(view, told, clean | given_up | ~state.search.over)

    def done(self, view: View, state: State) -> Array:
        """Ends the run when the budget is spent or every entity is clean."""
        return (state.totals.spent >= view.budget) | (state.search.stage >= self.allowed.shape[0])

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """Returns the counts of the run by name, as ``Totals`` has them."""
        return state.totals.answer()
