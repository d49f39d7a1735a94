"""index: beyond the paper, the best use of a budget when no sc-probability is known but every r is.

Each entity is an optimal stopping problem (``stopping.py``). At a level, the price of an operation, an entity is worked
on while its index is above it. Levels go down: at each, first come entities given up whose index is above it, the last
one first; then those not tried, with the most false values first. Levels are finest where the budget should end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxbandit.cleaning.pulls import Outcome, Pull, Totals
from jaxbandit.cleaning.search import Known, Search, searched
from jaxbandit.cleaning.stopping import allowed_at_levels
from jaxbandit.cleaning.view import View
from jaxbandit.describe import brief
from jaxbandit.laws import Law
from jaxbandit.pytree import pytree
from jaxbandit.random.race import UNLIMITED

if TYPE_CHECKING:
    from jaxtyping import Bool, Int32

_TOP = np.int32(0)


class State(NamedTuple):
    """The state of a run. ``at``: the entity at hand, the ``number``th of the ``met``. By that number: ``known``,
    records of entities given up; ``level``, at which one is worth its price again, -1 for all others; ``since``, the
    operations made when it was given up."""

    search: Search
    at: Known
    number: Int32[Array, ""]
    met: Int32[Array, ""]
    known: Known
    level: Int32[Array, " capacity"]
    since: Int32[Array, " capacity"]
    totals: Totals


@pytree
@dataclass(frozen=True)
class Index:
    """The policy index, which is beyond the paper: see ``index``.

    ``allowed``: at [k, r, s]: the failures at which an entity that began with r false values and lost s of them is
    given up at level k. Tables of several rules may stand in it, one after the other along r, so that they are one
    program; ``first`` is then the row at which this rule's table begins.

    Example:
        >>> from jaxbandit import cleaning
        >>> weights = cleaning.uniform_false_values(1, 3)
        >>> rule = cleaning.index(budget=100, entities=1_000, false_values=weights, sc_pdf=cleaning.Uniform())
        >>> rule.allowed[8, 3].tolist()  # at level 8, with 3 false values at first: after 0, 1 and 2 successes
        [1, 1, 2]
    """

    allowed: Int32[Array, "levels rows R"]
    first: Int32[Array, ""] | np.int32 = _TOP

    __repr__ = brief

    def init(self, view: View) -> State:
        """Begins at the first level, with the first entity of the most false values."""
        zero, blank = jnp.int32(0), jnp.zeros(view.capacity, jnp.int32)
        search = Search(zero, jnp.int32(self.allowed.shape[2]), zero)
        nobody, nowhere = Known(zero, zero, zero, zero), Known(blank, blank, blank, blank)
        return self._next(view, State(search, nobody, zero, zero, nowhere, blank - 1, blank, Totals.zero()))

    def _limit(self, stage: Array, at: Known) -> Array:
        levels, _, most = self.allowed.shape
        limit = self.allowed[jnp.clip(stage, 0, levels - 1), self.first + jnp.clip(at.began, 0, most),
                             jnp.clip(at.gained, 0, most - 1)]  # fmt: skip
        return jnp.where(stage >= levels - 1, UNLIMITED, limit)  # at the last level an operation costs nothing

    def _next(self, view: View, state: State) -> State:
        """Goes on to the next entity that is worth its price: at the first level, from the present one on, that has
        any, the last one given up, or else an unmet one."""
        levels = self.allowed.shape[0]
        search, fresh, again = searched(view, state.search, self._limit, state.level, levels)
        over = search.stage >= levels
        last = jnp.argmax(jnp.where(state.level == search.stage, state.since, -1))
        number = jnp.where(again, last.astype(jnp.int32), state.met)
        at = Known(*(jnp.where(again, column[last], x) for column, x in zip(state.known, fresh, strict=True)))
        taken = (~again & ~over).astype(jnp.int32)
        return state._replace(
            search=search._replace(place=search.place + taken), at=at, number=number, met=state.met + taken,
            level=jnp.where(again, state.level.at[number].set(-1), state.level),
        )  # fmt: skip

    def ask(self, view: View, state: State) -> Pull:
        """Asks to work on the entity at hand until its record could be worth too little.

        The failures allowed do not fall as successes are gained, so the present limit can be met but not passed.
        """
        at, limit = state.at, self._limit(state.search.stage, state.at)
        return Pull(
            entity=at.entity,
            attempt=at.tried,
            successes=at.began - at.gained,
            failures=jnp.where(limit == UNLIMITED, UNLIMITED, limit - (at.tried - at.gained)),
            cleans=view.budget - state.totals.spent,
        )

    def tell(self, view: View, state: State, pull: Pull, outcome: Outcome) -> State:
        """Stays with the entity where that is still worth its price, or gives it up for the next one."""
        clean = outcome.removed == pull.successes
        at = state.at._replace(tried=state.at.tried + outcome.cleans, gained=state.at.gained + outcome.removed)
        stages, failed = jnp.arange(self.allowed.shape[0], dtype=jnp.int32), at.tried - at.gained
        worth = failed < jax.vmap(lambda stage: self._limit(stage, at))(stages)
        given_up = ~clean & ~worth[state.search.stage]
        later = jnp.argmax(worth & (stages > state.search.stage)).astype(jnp.int32)
        known = Known(*(column.at[state.number].set(x) for column, x in zip(state.known, at, strict=True)))
        level = state.level.at[state.number].set(jnp.where(given_up, later, -1))
        totals = state.totals.add(outcome, clean)
        told = state._replace(
            at=at, known=known, level=level, since=state.since.at[state.number].set(totals.spent), totals=totals
        )
        leave = clean | given_up
        return State(*jax.tree.map(lambda new, old: jnp.where(leave, new, old), self._next(view, told), told))

    def done(self, view: View, state: State) -> Bool[Array, ""]:
        """Ends the run when the budget is spent or every entity is clean."""
        return (state.totals.spent >= view.budget) | (state.search.stage >= self.allowed.shape[0])

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """Returns the counts of the run by name, as ``Totals`` has them."""
        return state.totals.answer()


def index(*, budget: int, entities: int, false_values: np.ndarray, sc_pdf: Law) -> Index:
    """Makes the policy index for a problem, ``budget`` and ``sc_pdf`` as for ``synthetic``. Of a table, ``entities``
    are its rows and ``false_values`` how many of them have r = 0, 1, 2 ... (``np.bincount``). It takes up to
    ``MOST_INDEXED`` false values.

    Example:
        >>> from jaxbandit import cleaning
        >>> weights = cleaning.uniform_false_values(0, 3)
        >>> rule = cleaning.index(budget=100, entities=1_000, false_values=weights, sc_pdf=cleaning.Uniform())
        >>> rule.allowed.dtype
        dtype('int32')
    """
    return Index(jnp.asarray(allowed_at_levels(budget, entities, false_values, sc_pdf)))
