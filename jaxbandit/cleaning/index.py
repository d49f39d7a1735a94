"""index: beyond the paper, the best use of a budget when no sc-probability is known but every r is.

Each entity is an optimal stopping problem (``stopping.py``). At a level, the price of an operation, an entity is worked
on while its index is above the level. Levels go down: at each, first the entities given up before whose index is above
it, then those not tried before, with the most false values first. The ladder is finest where the budget ends: just
below the level at which the expected cost of all entities meets it.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxbandit.cleaning.pool import Entry, Pool, select
from jaxbandit.cleaning.problem import Outcome, Pull, Totals, View
from jaxbandit.grammar import Execution
from jaxbandit.random.race import UNLIMITED


def ladder(level: float) -> np.ndarray:
    """The levels of a run whose budget ends at about ``level``: float64, descending to 0, always 18 of them.

    The step below ``level`` is slight: it is often the very index of a class of fresh entities, part of which the
    budget pays for.
    """
    above = np.geomspace(max(0.9, level), max(level, 1e-3), 8, endpoint=False)
    below = np.array([1 - 1e-9, 0.98, 0.95, 0.9, 0.8, 0.65, 0.5, 0.3, 0.15, 0.0])
    return np.concatenate([above, level * below])


class Walk(NamedTuple):
    """Where the search for the next entity stands (int32 all).

    ``stage``: number of the level; ``slot``: the next entry of the pool to be looked at, descending, -1 after the last;
    ``klass`` and ``place``: of the fresh entity at hand or last seen, by false values descending and in random order.
    """

    stage: Array
    slot: Array
    klass: Array
    place: Array


class State(NamedTuple):
    """``at``: the entity at hand; ``pool``: those given up at a higher level."""

    walk: Walk
    at: Entry
    pool: Pool
    totals: Totals


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Index:
    """``allowed``: int32, shape (levels, R + 1, R), at [k, r, s]: the failures at which an entity that began with r
    false values and lost s of them is given up at level k; ``memory`` (static): the most entities that a run can meet.
    """

    allowed: Array
    memory: int = field(metadata={"static": True})

    execution = Execution(masked=True)

    def init(self, view: View) -> State:
        """At the first entity with the most false values."""
        zero = jnp.int32(0)
        walk = Walk(zero, jnp.int32(-1), jnp.int32(self.allowed.shape[2]), zero)
        state = State(walk, Entry(zero, zero, zero), Pool.empty(self.memory), Totals.zero())
        return self._search(view, state, jnp.bool_(True))

    def _limit(self, stage: Array, began: Array, gained: Array) -> Array:
        levels, rows, columns = self.allowed.shape
        limit = self.allowed[
            jnp.clip(stage, 0, levels - 1), jnp.clip(began, 0, rows - 1), jnp.clip(gained, 0, columns - 1)
        ]
        return jnp.where(stage >= levels - 1, UNLIMITED, limit)

    def _advance(self, view: View, walk: Walk, pool: Pool) -> Walk:
        """The next candidate: of the pool, of the class, of the next class, or of the next level."""
        in_pool = walk.slot >= 0
        # A class not worth a try ends the level: those below it are worth less.
        ends = ~in_pool & ((walk.klass <= 0) | ~self._worth(walk))
        passed = ~in_pool & ~ends & (walk.place >= view.entities)
        onward = ~in_pool & ~ends & ~passed
        return Walk(
            stage=walk.stage + ends.astype(jnp.int32),
            slot=jnp.where(in_pool, walk.slot - 1, jnp.where(ends, pool.size - 1, walk.slot)),
            klass=walk.klass - passed.astype(jnp.int32),
            place=jnp.where(passed, 0, walk.place + onward.astype(jnp.int32)),
        )

    def _search(self, view: View, state: State, leave: Array) -> State:
        """Where ``leave``: the first entity, from the present candidate on, that is worth its price."""
        levels = self.allowed.shape[0]

        def fresh(walk: Walk) -> Array:
            return view.in_random_order(jnp.clip(walk.place, 0, view.entities - 1))

        def found(walk: Walk) -> Array:
            entry = state.pool.at(walk.slot)
            again = entry.tried - entry.gained < self._limit(walk.stage, view.false_values(entry.entity), entry.gained)
            first = (walk.place < view.entities) & (view.false_values(fresh(walk)) == walk.klass)
            return jnp.where(walk.slot >= 0, again, (walk.klass > 0) & self._worth(walk) & first)

        def over(walk: Walk) -> Array:
            return walk.stage >= levels

        walk = lax.while_loop(
            lambda walk: leave & ~found(walk) & ~over(walk),
            lambda walk: self._advance(view, walk, state.pool),
            state.walk,
        )
        recalled = leave & (walk.slot >= 0) & ~over(walk)
        taken = state.pool.at(walk.slot)
        met = Entry(fresh(walk), jnp.int32(0), jnp.int32(0))
        pool = state.pool.put(walk.slot, taken, where=recalled, keep=jnp.bool_(False))
        return State(walk, select(leave, select(walk.slot >= 0, taken, met), state.at), pool, state.totals)

    def _worth(self, walk: Walk) -> Array:
        return self._limit(walk.stage, walk.klass, jnp.int32(0)) > 0

    def ask(self, view: View, state: State) -> Pull:
        """Work on the entity at hand until its record could be worth too little.

        The failures allowed do not fall as successes are gained, so the present limit can be met but not passed.
        """
        began = view.false_values(state.at.entity)
        failed = state.at.tried - state.at.gained
        limit = self._limit(state.walk.stage, began, state.at.gained)
        return Pull(
            entity=state.at.entity,
            attempt=state.at.tried,
            successes=began - state.at.gained,
            failures=jnp.where(limit == UNLIMITED, UNLIMITED, limit - failed),
            cleans=jnp.where(self.done(view, state), 0, view.budget - state.totals.spent),
        )

    def tell(self, view: View, state: State, pull: Pull, outcome: Outcome) -> State:
        """Go on where that is still worth it, or to the next entity."""
        moved = outcome.cleans > 0
        clean = moved & (outcome.removed == pull.successes)
        at = state.at.add(outcome)
        limit = self._limit(state.walk.stage, pull.successes + state.at.gained, at.gained)
        given_up = moved & ~clean & (at.tried - at.gained >= limit)
        pool = state.pool.put(state.pool.size, at, where=given_up, keep=jnp.bool_(True))
        leave = clean | given_up
        onward = self._advance(view, state.walk, pool)
        walk = Walk(*(jnp.where(leave, new, old) for new, old in zip(onward, state.walk, strict=True)))
        return self._search(view, State(walk, at, pool, state.totals.add(outcome, clean)), leave)

    def done(self, view: View, state: State) -> Array:
        """The budget is spent, or every entity is clean."""
        return (state.totals.spent >= view.budget) | (state.walk.stage >= self.allowed.shape[0])

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """See ``Totals``."""
        return state.totals.answer()
