"""A bag of met entities that a policy draws from at random: an array whose holes the last entry fills."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from jaxbandit.cleaning.problem import Outcome
from jaxbandit.random.draws import wide_product
from jaxbandit.random.fence import computed_once
from jaxbandit.random.stream import Stream, words


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


class Pool(NamedTuple):
    """``rows``: int32, shape (capacity, 3), an ``Entry`` each; ``size``: how many are in use (int32)."""

    rows: Array
    size: Array

    @classmethod
    def empty(cls, capacity: int) -> "Pool":
        """A pool for up to ``capacity`` entities."""
        return cls(jnp.zeros((capacity, 3), jnp.int32), jnp.int32(0))

    def at(self, slot: Array) -> Entry:
        """The entry in a slot; any slot may be asked for, one in use gives an entry."""
        row = self.rows[jnp.clip(slot, 0, self.rows.shape[0] - 1)]
        return Entry(row[0], row[1], row[2])

    def put(self, slot: Array, entry: Entry, *, where: Array, keep: Array) -> "Pool":
        """Where ``where``: the entry takes its slot (``size`` for a new one) if ``keep``; else the slot is vacated."""
        new = slot >= self.size
        last = self.size - 1
        row = jnp.where(keep, jnp.stack(entry), self.rows[jnp.clip(last, 0, self.rows.shape[0] - 1)])
        write = where & (keep | ~new)
        rows = self.rows.at[jnp.where(write, jnp.minimum(slot, self.size), self.rows.shape[0])].set(row, mode="drop")
        grown = jnp.where(new, keep.astype(jnp.int32), keep.astype(jnp.int32) - 1)
        return Pool(rows, self.size + jnp.where(where, grown, 0))


def below(key: Stream, purpose: int, index: Array, bound: Array) -> Array:
    """A whole number from 0 to bound - 1 (int32), each as likely as the others to within 2^-63.

    Both words of the address, as a fraction of 64 bits, times the bound: no rejection, so nothing that loops.
    """
    high, low = words(key, purpose, index)
    return _scaled(high, low, bound)


@computed_once
def _scaled(high: Array, low: Array, bound: Array) -> Array:
    size = bound.astype(jnp.uint32)
    top, middle = wide_product(high, size)
    carried = middle + wide_product(low, size)[0]
    return (top + (carried < middle).astype(jnp.uint32)).astype(jnp.int32)


def place_among(weights: Array, rank: Array) -> tuple[Array, Array]:
    """The place that holds item number ``rank`` when place i holds ``weights[i]`` items, and the rank within it.

    int32 all; the number of places is a power of two. They are taken as a square, first the row, then the column:
    XLA's prefix sums cost the square of their length on a CPU.
    """
    columns = 1 << (weights.shape[0].bit_length() // 2)
    square = weights.reshape(-1, columns)
    row, rank = _place(jnp.sum(square, axis=1, dtype=jnp.int32), rank)
    here = jnp.arange(square.shape[0])[:, None] == row
    column, rank = _place(jnp.sum(jnp.where(here, square, 0), axis=0, dtype=jnp.int32), rank)
    return row * columns + column, rank


def _place(weights: Array, rank: Array) -> tuple[Array, Array]:
    order = jnp.arange(weights.shape[0])
    before = jnp.sum(jnp.where(order[None, :] < order[:, None], weights[None, :], 0), axis=1, dtype=jnp.int32)
    passed = before + weights <= rank
    return jnp.sum(passed, dtype=jnp.int32), rank - jnp.max(jnp.where(passed, before + weights, 0))


def capacity_for(entities: int, budget: int) -> int:
    """Room for the entities that a run can meet: a power of two, of which few are used, since each is compiled."""
    most = min(entities, budget)
    return next(size for size in (1 << 9, 1 << 14, *(1 << bits for bits in range(16, 33, 2))) if size >= most)
