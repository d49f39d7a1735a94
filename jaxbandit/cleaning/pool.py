"""What policies that remember the entities they met share: their records, their memory, and draws among them."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jaxbandit.cleaning.problem import Outcome
from jaxbandit.random.draws import wide_product
from jaxbandit.random.stream import Stream, words
from jaxbandit.xla.fence import computed_once

PADDING = 8
"""Rows added to a power of two, or the same row of all lanes would share a few lines of the processor's caches."""


class Entry(NamedTuple):
    """An entity with the operations on it so far and how many of them succeeded (int32 each)."""

    entity: Array
    tried: Array
    gained: Array

    def add(self, outcome: Outcome) -> "Entry":
        """The record after an outcome."""
        return Entry(self.entity, self.tried + outcome.cleans, self.gained + outcome.removed)


def select(condition: Array, yes: Entry, no: Entry) -> Entry:
    """One of two entries."""
    return Entry(*(jnp.where(condition, a, b) for a, b in zip(yes, no, strict=True)))


def below(key: Stream, purpose: ArrayLike, index: Array, bound: Array) -> Array:
    """A whole number from 0 to bound - 1 (int32), each as likely as the others to within 2^-63.

    Both words of the address, as a fraction of 64 bits, times the bound: no rejection, so nothing that loops.
    """
    return _below(key.high, key.low, jnp.asarray(purpose), index, bound)


@computed_once
def _below(high: Array, low: Array, purpose: Array, index: Array, bound: Array) -> Array:
    return scaled(*words(Stream(high, low), purpose, index), bound)


def row_at(rows: Array, slot: Array) -> Entry:
    """The entry in a slot of ``rows`` (int32, (capacity, 3)); any slot may be asked for, one in use gives an entry."""
    row = rows[jnp.clip(slot, 0, rows.shape[0] - 1)]
    return Entry(row[0], row[1], row[2])


def scaled(high: Array, low: Array, bound: Array) -> Array:
    """The fraction of 64 bits, high and low, times the bound."""
    size = bound.astype(jnp.uint32)
    top, middle = wide_product(high, size)
    carried = middle + wide_product(low, size)[0]
    return (top + (carried < middle).astype(jnp.uint32)).astype(jnp.int32)


def capacity_for(entities: int, budget: int) -> int:
    """Room for the entities that a run can meet: a power of two, of which few are used, since each is compiled."""
    most = min(entities, budget)
    return next(size for size in (1 << 9, 1 << 11, 1 << 14, *(1 << bits for bits in range(16, 33, 2))) if size >= most)
