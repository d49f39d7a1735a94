"""Single entries of arrays, and the choice between two states: what loops of fast policies read and write."""

from typing import TypeVar

import jax
import jax.numpy as jnp
from jax import Array, lax

S = TypeVar("S")


def select(condition: Array, yes: S, no: S) -> S:
    """Returns one of two pytrees of the same structure, entry by entry where the condition is an array."""
    chosen: S = jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)
    return chosen


def at(x: Array, place: Array) -> Array:
    """Returns ``x[place]`` of a place that there is, as a slice: for loops that go lane by lane."""
    found: Array = lax.dynamic_index_in_dim(x, place, keepdims=False, allow_negative_indices=False)
    return found


def put(x: Array, value: Array, place: Array) -> Array:
    """Returns ``x`` with another value in a place that there is, as a slice: for loops that go lane by lane."""
    return lax.dynamic_update_slice(x, value[None], (place,), allow_negative_indices=False)


def gathered(x: Array, place: Array) -> Array:
    """Returns ``x[place]`` of places that there are, as a gather: for many lanes, or many places, at once."""
    return x.at[place].get(mode="promise_in_bounds")
