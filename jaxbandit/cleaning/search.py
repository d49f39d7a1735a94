"""The search of ``index`` for the next entity: of one level after the other, down to the first that has any."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from jaxbandit.cleaning.view import View

if TYPE_CHECKING:
    from jaxtyping import Bool, Int32


class Known(NamedTuple):
    """Records of entities: their numbers, false values at the beginning, operations and how many succeeded."""

    entity: Int32[Array, " ..."]
    began: Int32[Array, " ..."]
    tried: Int32[Array, " ..."]
    gained: Int32[Array, " ..."]


class Search(NamedTuple):
    """Where the search for the next entity stands: ``stage``, the number of the level; ``r`` and ``place``, the false
    values, descending, and the place in the random order, of the unmet entity that is checked next."""

    stage: Int32[Array, ""]
    r: Int32[Array, ""]
    place: Int32[Array, ""]


def searched(
    view: View, start: Search, limit: Callable[[Array, Known], Array], level: Int32[Array, " capacity"], levels: int
) -> tuple[Search, Known, Bool[Array, ""]]:
    """Moves the search to the first of ``levels``, from its own on, that has an entity worth its price; also returns
    the unmet entity there, and whether one that was given up comes before it.

    ``limit``: the failures allowed at a level after a record; ``level``: see ``index.State``.
    """

    def waiting(search: Search) -> Array:
        return jnp.any(level == search.stage)

    def unmet(search: Search) -> Known:
        entity = view.in_random_order(jnp.minimum(search.place, view.entities - 1))
        return Known(entity, view.false_values(entity), jnp.int32(0), jnp.int32(0))

    def worth(search: Search) -> Array:
        fresh = unmet(search)._replace(began=search.r)
        return (search.r > 0) & (limit(search.stage, fresh) > 0)

    def found(search: Search) -> Array:
        there = (unmet(search).began == search.r) & (search.place < view.entities)
        return waiting(search) | (worth(search) & there)

    def onward(search: Search) -> Search:
        # A number not worth a try ends the level: those below it are worth less.
        tried, end = worth(search), search.place + 1 >= view.entities
        return Search(
            stage=search.stage + (~tried).astype(jnp.int32),
            r=search.r - (tried & end).astype(jnp.int32),
            place=jnp.where(tried, jnp.where(end, 0, search.place + 1), search.place),
        )

    search = lax.while_loop(lambda search: (search.stage < levels) & ~found(search), onward, start)
    return search, unmet(search), waiting(search)
