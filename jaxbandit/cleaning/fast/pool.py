"""What implementations that hold the entities they met share: their records and the room for them."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from jaxbandit.cleaning.problem import Cleaning
from jaxbandit.cleaning.pulls import Outcome
from jaxbandit.errors import BadInput

PADDING = 8
"""Rows added to a power of two, or the same row of all lanes would share a few lines of the processor's caches."""

MOST_REMEMBERED = 1 << 24
"""The most entities that a run remembers: 200 MB of them."""


def room(problem: Cleaning) -> int:
    """Returns how many entities a run remembers, which is the size of its arrays.

    Raises:
        BadInput: for more than ``MOST_REMEMBERED``.
    """
    if problem.capacity > MOST_REMEMBERED:
        raise too_many(int(problem.budget))
    return problem.capacity


def too_many(budget: int) -> BadInput:
    """Makes the error for a budget with which a run can meet more than ``MOST_REMEMBERED`` entities."""
    allowed = f"at most {MOST_REMEMBERED} here, as this policy remembers each entity met (known-sc and ee do not)"
    return BadInput("problem.budget", budget, allowed)


class Entry(NamedTuple):
    """An entity with the operations on it so far and how many of them succeeded (int32 each)."""

    entity: Array
    tried: Array
    gained: Array

    def add(self, outcome: Outcome) -> "Entry":
        """Returns the record after an outcome of the entity."""
        return Entry(self.entity, self.tried + outcome.cleans, self.gained + outcome.removed)


def flat_row_at(rows: Array, slot: Array, width: int) -> Array:
    """Returns the row in a slot, int32 (``width``,); any slot may be asked for, one in use gives what was written
    there.

    ``rows``: int32, (slots * width,), row after row. With an axis of its own for a row's few entries, a TPU would lay
    each row out in 128 words.
    """
    start = width * jnp.clip(slot, 0, rows.shape[0] // width - 1)
    found: Array = lax.dynamic_slice(rows, (start,), (width,), allow_negative_indices=False)
    return found


def with_flat_row(rows: Array, slot: Array, row: Array) -> Array:
    """Returns such ``rows`` with another row in a slot; as they were where there is no such slot."""
    return with_block(rows, slot * row.shape[0], row)


def with_block(rows: Array, start: Array, block: Array) -> Array:
    """Returns such ``rows`` with other words from ``start`` on; as they were where these do not fit."""
    window = lax.ScatterDimensionNumbers((0,), (), (0,))
    after: Array = lax.scatter(rows, start[None], block, window, mode=lax.GatherScatterMode.FILL_OR_DROP)
    return after
