"""What an algorithm may know of a cleaning problem in a run."""

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from jaxbandit.random import categorical, position
from jaxbandit.random.stream import Stream, words

FALSE_VALUES, ORDER = 1, 2
"""What a word is for: the first half of its counter, under the key of what is public."""


class Drawn(NamedTuple):
    """The public side of entities that are drawn afresh in each run: independent and alike."""

    key: Stream
    thresholds: Array

    def false_values(self, entity: Array) -> Array:
        """Drawn from the distribution given r > 0."""
        return 1 + categorical(words(self.key, FALSE_VALUES, entity)[0], self.thresholds)

    def has_one(self, entity: Array) -> Array:
        """Whether an entity begins with a single false value (bool): by the first of the thresholds alone."""
        return categorical(words(self.key, FALSE_VALUES, entity)[0], self.thresholds[:1]) == 0

    def in_random_order(self, place: Array) -> Array:
        """Any order of such entities is a uniformly random one."""
        return place


class Listed(NamedTuple):
    """The public side of a table's entities."""

    key: Stream
    counts: Array

    def false_values(self, entity: Array) -> Array:
        """As the table has them."""
        return self.counts[jnp.clip(entity, 0, self.counts.shape[0] - 1)]

    def has_one(self, entity: Array) -> Array:
        """Whether an entity begins with a single false value (bool)."""
        return self.false_values(entity) == 1

    def in_random_order(self, place: Array) -> Array:
        """A keyed permutation of the rows, walked without being stored."""
        return position(self.key, ORDER, place, self.counts.shape[0])


@dataclass(frozen=True)
class View:
    """What an algorithm knows in one run. Nothing in it tells an sc-probability.

    ``budget``: the units of cost it may spend; ``entities``: how many have a false value (both int32); ``choices``: a
    stream for the algorithm's own random choices; ``capacity`` (a number of Python): room for all entities that a run
    can meet, as the size of an array.
    """

    budget: Array
    entities: Array
    choices: Stream
    capacity: int
    _public: Drawn | Listed

    def false_values(self, entity: Array) -> Array:
        """How many false values an entity begins with: int32, at least 1."""
        return self._public.false_values(entity)

    def in_random_order(self, place: Array) -> Array:
        """The entity at a place, 0 to entities - 1, of a uniformly random order (int32): a walk without memory."""
        return self._public.in_random_order(place)
