"""What an algorithm may know of a cleaning problem in a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import jax.numpy as jnp
from jax import Array

from jaxbandit.random import categorical, position
from jaxbandit.random.stream import Stream, words

if TYPE_CHECKING:
    from jaxtyping import Bool, Int32, UInt32

FALSE_VALUES, ORDER = 1, 2
"""What a word is for: the first half of its counter, under the key of what is public."""


class DrawnEntities(NamedTuple):
    """The public side of entities that are drawn afresh in each run, independent and of one law."""

    key: Stream
    thresholds: UInt32[Array, " kinds"]

    def false_values(self, entity: Int32[Array, "*some"]) -> Int32[Array, "*some"]:
        """Draws how many false values an entity begins with, given that r > 0."""
        return 1 + categorical(words(self.key, FALSE_VALUES, entity)[0], self.thresholds)

    def begins_with(self, entity: Int32[Array, "*some"], count: Int32[Array, ""] | int) -> Bool[Array, "*some"]:
        """Tells whether an entity begins with ``count`` false values: whether its word is between two thresholds."""
        bottom, top = jnp.zeros(1, jnp.uint32), jnp.full(1, 2**32 - 1, jnp.uint32)  # a word is at most 2^32 - 2
        edges = jnp.concatenate([bottom, self.thresholds, top])
        low, high = (edges[jnp.clip(place, 0, edges.shape[0] - 1)] for place in (count - 1, count))
        word = jnp.minimum(words(self.key, FALSE_VALUES, entity)[0], top[0] - 1)
        return (word >= low) & (word < high)

    def in_random_order(self, place: Int32[Array, "*some"]) -> Int32[Array, "*some"]:
        """Returns the place itself: any order of such entities is a uniformly random one."""
        return place


class Listed(NamedTuple):
    """The public side of a table's entities, whose false values are known."""

    key: Stream
    counts: Int32[Array, " entities"]

    def false_values(self, entity: Int32[Array, "*some"]) -> Int32[Array, "*some"]:
        """Returns how many false values the table has of an entity."""
        return self.counts[jnp.clip(entity, 0, self.counts.shape[0] - 1)]

    def begins_with(self, entity: Int32[Array, "*some"], count: Int32[Array, ""] | int) -> Bool[Array, "*some"]:
        """Tells whether an entity begins with ``count`` false values."""
        return self.false_values(entity) == count

    def in_random_order(self, place: Int32[Array, "*some"]) -> Int32[Array, "*some"]:
        """Returns the row at a place of a keyed permutation, which is not stored."""
        return position(self.key, ORDER, place, self.counts.shape[0])


@dataclass(frozen=True)
class View:
    """What an algorithm knows in one run. Nothing in it tells an sc-probability.

    ``budget``: the units of cost it may spend; ``entities``: how many have a false value; ``choices``: a stream for the
    algorithm's own random choices; ``capacity`` (a number of Python): room for all entities that a run can meet, as the
    size of an array.

    Example:
        >>> import jax.numpy as jnp
        >>> import numpy as np
        >>> from jaxbandit import cleaning, random
        >>> problem = cleaning.of_table(budget=9, false_values=np.array([2, 3, 5]), sc_pdf=cleaning.Uniform())
        >>> key = random.stream(0, 0)
        >>> view = problem.view(key, problem.draw(key))
        >>> order = view.in_random_order(jnp.arange(3, dtype=jnp.int32))
        >>> order.tolist(), view.false_values(order).tolist()  # the entities as this run meets them
        ([2, 0, 1], [5, 2, 3])
    """

    budget: Int32[Array, ""]
    entities: Int32[Array, ""]
    choices: Stream
    capacity: int
    _public: DrawnEntities | Listed

    def false_values(self, entity: Int32[Array, "*some"]) -> Int32[Array, "*some"]:
        """Returns how many false values an entity begins with: at least 1."""
        return self._public.false_values(entity)

    def begins_with(self, entity: Int32[Array, "*some"], count: Int32[Array, ""] | int) -> Bool[Array, "*some"]:
        """Tells whether an entity begins with ``count`` false values, from 1 on."""
        return self._public.begins_with(entity, count)

    def in_random_order(self, place: Int32[Array, "*some"]) -> Int32[Array, "*some"]:
        """Returns the entity at a place, 0 to entities - 1, of a uniformly random order that is not stored."""
        return self._public.in_random_order(place)
