"""Single entries of arrays, and the choice between two states: what loops of fast policies read and write."""

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxbandit.xla.batch import whole
from jaxbandit.xla.plain import PLAIN
from jaxbandit.xla.platforms import by_platform

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


def taken(x: Array, places: tuple[Array, ...]) -> tuple[Array, ...]:
    """Returns the entries of ``x`` in some places that there are: slices for loops that go lane by lane, for lanes side
    by side one gather."""
    found: tuple[Array, ...] = _taken(x, places)
    return tuple(x[place] for place in places) if PLAIN else found


@jax.custom_batching.custom_vmap
def _taken(x: Array, places: tuple[Array, ...]) -> tuple[Array, ...]:
    return tuple(at(x, place) for place in places)


@_taken.def_vmap
def _(size: int, batched: Any, x: Array, places: tuple[Array, ...]) -> tuple[tuple[Array, ...], tuple[bool, ...]]:
    x, places = whole(size, batched, [x, places])
    found = jax.vmap(gathered)(x, jnp.stack(places, 1))
    return tuple(found.T), (True,) * len(places)


def put_where(x: Array, values: tuple[Array, ...], places: tuple[Array, ...], where: Array) -> Array:
    """Returns ``x`` with ``values`` in as many ``places`` that there are; of lanes side by side, ``x`` itself in those
    where not ``where`` (bool). A lane alone makes no step when it is over, so it need not look."""
    if PLAIN:
        for value, place in zip(values, places, strict=True):
            x = x.at[jnp.where(where, place, x.shape[0])].set(value, mode="drop")
        return x
    found: Array = _put_where(x, values, places, where)
    return found


@jax.custom_batching.custom_vmap
def _put_where(x: Array, values: tuple[Array, ...], places: tuple[Array, ...], where: Array) -> Array:
    for value, place in zip(values, places, strict=True):
        x = put(x, value, place)
    return x


@_put_where.def_vmap
def _(size: int, batched: Any, *operands: Any) -> tuple[Array, bool]:
    """Makes one scatter, which leaves out the lanes that write nothing, so that nothing is read for them."""
    x, values, places, where = whole(size, batched, list(operands))
    place = jnp.where(where[:, None], jnp.stack(places, 1), x.shape[1])
    return x.at[jnp.arange(size)[:, None], place].set(jnp.stack(values, 1), mode="drop"), True


def put_parts_where(x: Array, parts: tuple[Array, ...], starts: tuple[Array, ...], where: tuple[Array, ...]) -> Array:
    """Returns ``x`` with other parts from some places on, that it has room for; of lanes side by side, without those
    that are not ``where`` (bool). A lane alone writes them all the same, so they have to be what ``x`` has there."""
    if PLAIN:
        for part, start, own in zip(parts, starts, where, strict=True):
            x = jnp.where(own, lax.dynamic_update_slice(x, part, (start,)), x)
        return x
    found: Array = _put_parts(x, parts, starts, where)
    return found


@jax.custom_batching.custom_vmap
def _put_parts(x: Array, parts: tuple[Array, ...], starts: tuple[Array, ...], where: tuple[Array, ...]) -> Array:
    for part, start in zip(parts, starts, strict=True):
        x = lax.dynamic_update_slice(x, part, (start,), allow_negative_indices=False)
    return x


@_put_parts.def_vmap
def _(size: int, batched: Any, *operands: Any) -> tuple[Array, bool]:
    """Makes one scatter, as ``put_where`` does."""
    x, parts, starts, where = whole(size, batched, list(operands))
    places = [
        jnp.where(own[:, None], start[:, None] + jnp.arange(part.shape[1])[None, :], x.shape[1])
        for part, start, own in zip(parts, starts, where, strict=True)
    ]
    return x.at[jnp.arange(size)[:, None], jnp.concatenate(places, 1)].set(jnp.concatenate(parts, 1), mode="drop"), True


def in_shared(function: Callable[..., S]) -> Callable[..., S]:
    """``f(arrays, *operands)``: ``function``, which returns the arrays with other entries.

    Of lanes under ``vmap`` that share the arrays, one lane after the other; each writes in a part of its own. Of lanes
    that have arrays of their own, side by side.
    """
    plain = jax.custom_batching.custom_vmap(function)

    @plain.def_vmap
    def batch(size: int, batched: list[Any], arrays: S, *operands: Any) -> tuple[S, Any]:
        shared = not any(jax.tree.leaves(batched[0]))
        operands = tuple(whole(size, batched[1:], list(operands)))
        if not shared:
            arrays = whole(size, batched[0], arrays)
            return jax.vmap(function)(arrays, *operands), jax.tree.map(lambda _: True, arrays)

        def one(lane: Array, arrays: S) -> S:
            return function(arrays, *jax.tree.map(lambda x: at(x, lane), operands))

        return lax.fori_loop(0, size, one, arrays), batched[0]

    found: Callable[..., S] = plain
    return found


def ascending(key: Array) -> Array:
    """Returns the places of keys (int32, shape (n,)), the lowest first, and of equal ones the earlier first: int32.

    XLA's CPU backend sorts pairs with a comparison that it calls for each, which takes five times as long as a sort of
    numbers. So a key and its place are one number there, of 64 bits.
    """

    def as_numbers(key: Array) -> Array:
        with jax.enable_x64(True):
            place = jnp.arange(key.shape[0], dtype=jnp.int64)
            numbers = jnp.sort((key.astype(jnp.int64) << jnp.int64(32)) | place)
            places: Array = (numbers & jnp.int64(2**32 - 1)).astype(jnp.int32)
            return places

    def as_pairs(key: Array) -> Array:
        return jnp.argsort(key, stable=True).astype(jnp.int32)

    if PLAIN:
        return as_pairs(key)
    found: Array = by_platform(key, cpu=as_numbers, default=as_pairs)
    return found
