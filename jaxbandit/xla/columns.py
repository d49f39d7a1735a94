"""Columns of numbers in one array of words, so that an accelerator reads or writes entries of all of them at once."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import jax.numpy as jnp
from jax import Array, lax

from jaxbandit.pytree import pytree
from jaxbandit.xla.entries import at, put_parts_where, put_where, taken

T = TypeVar("T", bound=tuple[Any, ...])


@pytree
@dataclass(frozen=True)
class Columns(Generic[T]):
    """Holds the columns of a named tuple ``T`` one after the other in ``words`` (int32), as bits. ``kind`` (static):
    the class of the tuple and its dtypes. A row is a ``T`` of scalars."""

    words: Array
    kind: Any = field(metadata={"static": True})

    @staticmethod
    def of(columns: T) -> "Columns[T]":
        """Returns the columns of a tuple of arrays of one length, int32 or float32."""
        kind = type(columns), tuple(x.dtype for x in columns)
        return Columns(jnp.concatenate([_bits(x) for x in columns]), kind)

    def _tuple(self, words: Iterable[Array]) -> T:
        cls, dtypes = self.kind
        found: T = cls(*map(lax.bitcast_convert_type, words, dtypes))
        return found

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return int(self.words.shape[0] // len(self.kind[1]))

    def _starts(self) -> range:
        return range(0, self.words.shape[0], self.rows)

    def all(self) -> T:
        """Returns all columns."""
        return self._tuple(self.words[start : start + self.rows] for start in self._starts())

    def part(self, first: Array, size: int) -> T:
        """Returns rows ``first`` to ``first + size - 1``, which there are."""
        return self._tuple(
            lax.dynamic_slice_in_dim(self.words, start + first, size, allow_negative_indices=False)
            for start in self._starts()
        )

    def row(self, place: Array) -> T:
        """Returns the row of a place that there is."""
        return self._tuple(taken(self.words, tuple(start + place for start in self._starts())))

    def entry(self, name: str, place: Array) -> Array:
        """Returns the entry of one column in a place that there is."""
        cls, dtypes = self.kind
        number = cls._fields.index(name)
        return lax.bitcast_convert_type(at(self.words, number * self.rows + place), dtypes[number])

    def put_parts_where(self, parts: Sequence[T], firsts: Sequence[Array], where: Sequence[Array]) -> "Columns[T]":
        """Returns them with other rows from each of some places on, as ``entries.put_parts_where`` does."""
        to = [
            (_bits(x), start + first, own)
            for part, first, own in zip(parts, firsts, where, strict=True)
            for start, x in zip(self._starts(), part, strict=True)
        ]
        return Columns(put_parts_where(self.words, *zip(*to, strict=True)), self.kind)

    def put_where(self, rows: Sequence[Iterable[Array | None]], places: Sequence[Array], where: Array) -> "Columns[T]":
        """Returns them with other rows in some places, as ``entries.put_where`` does. What is None in a row is left as
        it is."""
        to = [
            (_bits(x), start + place)
            for row, place in zip(rows, places, strict=True)
            for start, x in zip(self._starts(), row, strict=True)
            if x is not None
        ]
        values, at_words = zip(*to, strict=True)
        return Columns(put_where(self.words, values, at_words, where), self.kind)


def _bits(x: Array) -> Array:
    return lax.bitcast_convert_type(x, jnp.int32)
