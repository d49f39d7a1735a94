"""index: beyond the paper, the best use of a budget when no sc-probability is known but every r is.

Each entity is an optimal stopping problem (``stopping.py``). At the level, the price of an operation, at which the
expected cost of all entities meets the budget, an entity is worked on while its index is above the level. What the
level then leaves of the budget, by chance, goes to the entities given up, and at last to those never worth a try.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxbandit.cleaning.pool import Entry, Pool, select
from jaxbandit.cleaning.problem import Outcome, Pull, Totals, View
from jaxbandit.random.race import UNLIMITED


class State(NamedTuple):
    """``klass``: the number of false values whose entities are being visited, in descending order, and ``place``: of
    the one at hand (both int32); ``at``: its record, or that of an entity from ``pool``, where those given up wait;
    ``recalled`` (bool): whether it is from there."""

    klass: Array
    place: Array
    at: Entry
    recalled: Array
    pool: Pool
    totals: Totals


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Index:
    """``allowed``: int32, shape (R + 1, R), at [r, s]: the failures at which an entity that began with r false values
    and lost s of them is given up; ``memory`` (static): the most entities that a run can meet."""

    allowed: Array
    memory: int = field(metadata={"static": True})

    def init(self, view: View) -> State:
        """At the first entity with the most false values."""
        zero = jnp.int32(0)
        state = State(
            jnp.int32(self.allowed.shape[1]), jnp.int32(-1), Entry(zero, zero, zero), jnp.bool_(False),
            Pool.empty(self.memory), Totals.zero(),
        )  # fmt: skip
        return self._next(view, state, jnp.bool_(True))

    def _worth(self, klass: Array) -> Array:
        return self.allowed[jnp.clip(klass, 0, self.allowed.shape[1]), 0] > 0

    def _next(self, view: View, state: State, leave: Array) -> State:
        """Where ``leave``: the next entity, of the classes worth a try, then of the pool, then of the others."""

        def missing(at: tuple[Array, Array]) -> Array:
            klass, place = at
            recall = (state.pool.size > 0) & ~self._worth(klass)
            here = view.false_values(view.in_random_order(jnp.clip(place, 0, view.entities - 1))) == klass
            return leave & (klass > 0) & ~recall & ~((place < view.entities) & here)

        def advance(at: tuple[Array, Array]) -> tuple[Array, Array]:
            klass, place = at
            over = place >= view.entities
            return jnp.where(over, klass - 1, klass), jnp.where(over, 0, place + 1)

        first = (state.klass, state.place + (leave & ~state.recalled).astype(jnp.int32))
        klass, place = lax.while_loop(missing, advance, first)
        recall = (state.pool.size > 0) & ~self._worth(klass)
        fresh = Entry(view.in_random_order(jnp.clip(place, 0, view.entities - 1)), jnp.int32(0), jnp.int32(0))
        taken = state.pool.at(state.pool.size - 1)
        return State(
            klass=klass,
            # A recalled entity must not move the walk on when it is left.
            place=place,
            at=select(leave, select(recall, taken, fresh), state.at),
            recalled=jnp.where(leave, recall, state.recalled),
            pool=state.pool._replace(size=state.pool.size - (leave & recall).astype(jnp.int32)),
            totals=state.totals,
        )

    def _limit(self, state: State, began: Array, gained: Array) -> Array:
        row = jnp.clip(began, 0, self.allowed.shape[1])
        limit = self.allowed[row, jnp.clip(gained, 0, self.allowed.shape[1] - 1)]
        return jnp.where(state.recalled | ~self._worth(state.klass), UNLIMITED, limit)

    def ask(self, view: View, state: State) -> Pull:
        """Work on the entity at hand until its record could be worth too little.

        The failures allowed do not fall as successes are gained, so the present limit can be met but not passed.
        """
        began = view.false_values(state.at.entity)
        failed = state.at.tried - state.at.gained
        limit = self._limit(state, began, state.at.gained)
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
        began = pull.successes + state.at.gained
        given_up = moved & ~clean & (at.tried - at.gained >= self._limit(state, began, at.gained))
        pool = state.pool.put(state.pool.size, at, where=given_up, keep=jnp.bool_(True))
        after = state._replace(at=at, pool=pool, totals=state.totals.add(outcome, clean))
        return self._next(view, after, clean | given_up)

    def done(self, view: View, state: State) -> Array:
        """The budget is spent, or every entity is clean."""
        return (state.totals.spent >= view.budget) | ((state.klass <= 0) & ~state.recalled)

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """See ``Totals``."""
        return state.totals.answer()
