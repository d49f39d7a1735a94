"""What a query q^v(k, E) returns: k entities of node v outside E, by one of two models, exactly.

``proportional``: proportionally to popularity, without replacement. An entity's clock rings after an exponential time
of rate w, and the first k are returned; or, the same law, entities are drawn proportionally to w, and repeats dropped.

``k-largest``: those with the k largest of uniform x w. Minus its logarithm is an exponential time of rate 1 that begins
at -log w. So again the first k clocks are returned; or: at any time, all clocks that have begun ring at rate 1, any
of them with the same probability, and repeats are dropped.

A small node's clocks are all drawn. In a large node, ``Crowd.slots`` draws are made, each by a binary search; where too
few of them are new, the clocks of all that are left are drawn, which is seldom and costs O(population).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxbandit.errors import BadInput
from jaxbandit.extraction.poset import Domain
from jaxbandit.pytree import pytree
from jaxbandit.random import exponential, scale
from jaxbandit.random.stream import Stream, words
from jaxbandit.xla.batch import any_lane
from jaxbandit.xla.fence import ENDLESS, patiently, rarely
from jaxbandit.xla.pairs import matches

if TYPE_CHECKING:
    from jaxtyping import Float32, Int32, UInt32

MODELS = ("proportional", "k-largest")

_DRAW, _CLOCK = range(2)
"""Purposes: the draws of a query, by number; and the clocks, by entity."""
_TURNS = 4
"""On accelerators, between two questions whether members of a node are left."""


@pytree
@dataclass(frozen=True)
class Crowd:
    """The hidden truth that answers come from. Entities of popularity 0 are never returned, and are not in it.

    ``member``: the entities of node v from ``start[v]`` on, in descending popularity. Under ``proportional``: a word
    draws the member i of its node, counted from 0, if it reaches i of the node's ``thresholds``. Under
    ``k-largest``: when the node's clocks that began have run for a total time of t ``units`` (int, static), as many
    have begun as there are thresholds up to t. ``clock``: the mean of an entity's clock, or the time of its begin.
    ``leaf``: where an entity sits. ``slots``, ``depth`` (static): how many draws a query makes, and the steps of a
    search.
    """

    start: Int32[Array, " nodes+1"]
    member: Int32[Array, " members"]
    thresholds: UInt32[Array, " members"]
    clock: Float32[Array, " entities"]
    leaf: Int32[Array, " entities"]
    model: str = field(metadata={"static": True})
    units: int = field(metadata={"static": True})
    slots: int = field(metadata={"static": True})
    depth: int = field(metadata={"static": True})


def crowd(domain: Domain, model: str, most: int) -> Crowd:
    """Makes the crowd of a domain under an answer model; ``most``: the largest k + l of a query.

    Raises:
        BadInput: for a model that does not exist.
    """
    if model not in MODELS:
        raise BadInput("answers", model, f"one of {', '.join(MODELS)}")
    slots = max(32, 2 * most + -2 * most % 16)
    # The sum of as many exponentials is below 8 times their number, but for a chance of e^-150.
    units = 2**32 // (8 * slots)
    weight = domain.popularity
    held = np.asarray(domain.poset.ancestors)[domain.leaf]
    held = np.where(weight[:, None] > 0, held, -1)
    order = np.argsort(-weight, kind="stable").astype(np.int32)
    node = held[order]
    entity = np.broadcast_to(order[:, None], node.shape)[node >= 0]
    node = node[node >= 0]
    by_node = np.argsort(node, kind="stable")
    node, entity = node[by_node], entity[by_node]
    size = np.bincount(node, minlength=len(domain.values))
    start = np.concatenate([[0], np.cumsum(size)])
    if model == "proportional":
        share = weight[entity] / np.bincount(node, weight[entity])[node]
        until = np.cumsum(share)
        thresholds = (until - (until - share)[start[node]]) * 2.0**32
        clock = 1 / np.where(weight > 0, weight / max(weight.max(), 1e-300), 1)
    else:
        clock = -np.log(np.where(weight > 0, weight / max(weight.max(), 1e-300), 1))
        begin = clock[entity]
        within = np.arange(len(entity)) - start[node]
        ran = np.minimum(np.diff(begin, prepend=0) * within, 2.0**10)
        ran = np.cumsum(np.where(within > 0, ran, 0))
        thresholds = (ran - ran[start[node]]) * units
    return Crowd(
        jnp.asarray(start, jnp.int32),
        jnp.asarray(entity, jnp.int32),
        jnp.asarray(np.minimum(np.rint(thresholds), 2.0**32 - 1).astype(np.uint32)),
        jnp.asarray(clock, jnp.float32),
        jnp.asarray(domain.leaf, jnp.int32),
        model,
        units,
        slots,
        int(size.max(initial=0)).bit_length(),
    )


def answer(
    crowd: Crowd,
    key: Stream,
    node: Int32[Array, ""],
    k: Int32[Array, ""],
    exclude: Int32[Array, " any"],
    most: int,
    on_tape: bool,
) -> Int32[Array, " most"]:
    """Returns the entities that answer a query, -1 from where there are no more.

    Args:
        crowd: who answers.
        key: the query's own stream.
        node, k: int32 scalars, k at most ``most``; 0 is no query.
        exclude: int32, (any,), at most ``crowd.slots`` / 2 - ``most`` entities, -1 where there is none.
        most: static.
        on_tape: the clock of entity e is the quantile at the word (1, e) of ``key``, whatever the node's size (static).
    """
    begin, size = crowd.start[node], crowd.start[node + 1] - crowd.start[node]
    nothing = jnp.full(most, -1, jnp.int32)
    if on_tape:
        return _first_clocks(crowd, key, begin, size, k, exclude, nothing, jnp.float32(-jnp.inf))
    slot = jnp.arange(crowd.slots, dtype=jnp.int32)
    small = size <= crowd.slots
    since = jnp.float32(-jnp.inf)
    if crowd.model == "proportional":
        word = jnp.concatenate(words(key, _DRAW, slot[: crowd.slots // 2]))
        place = jnp.minimum(_reached(crowd, begin, size, word), size - 1)
    else:
        word, other = words(key, _DRAW, slot)
        ran = jnp.cumsum((exponential(word) * jnp.float32(crowd.units)).astype(jnp.uint32))
        begun = _reached(crowd, begin, size, ran)
        place = scale(other, begun)
        last = begin + jnp.maximum(begun[-1] - 1, 0)
        rest = (ran[-1] - crowd.thresholds[last]).astype(jnp.float32) / jnp.float32(crowd.units)
        since = crowd.clock[crowd.member[last]] + rest / jnp.maximum(begun[-1], 1).astype(jnp.float32)
    entity = crowd.member[begin + jnp.maximum(jnp.where(small, jnp.minimum(slot, size - 1), place), 0)]
    ring = jnp.where(small, _ring(crowd, word, entity, jnp.float32(-jnp.inf)), slot.astype(jnp.float32))
    there = jnp.where(small, slot < size, size > 0)
    repeats = matches(lambda other, at, is_there: is_there & (other == entity) & (at < slot), entity, slot, there)
    fresh = there & (repeats == 0) & ~_in(entity, exclude)
    found = _earliest(ring, entity, fresh, most, k)
    short = ~small & (jnp.sum(found >= 0, dtype=jnp.int32) < k)
    completed: Array = _completed(short, found, crowd, key, begin, size, k, exclude, found, since)
    return completed


def _reached(crowd: Crowd, begin: Array, size: Array, value: Array) -> Array:
    """How many of the ``size`` thresholds from ``begin`` on are at most ``value``: int32, its shape."""
    found = jnp.zeros(value.shape, jnp.int32)
    for bit in reversed(range(crowd.depth)):
        further = found + (1 << bit)
        entry = crowd.thresholds[begin + jnp.minimum(further, size) - 1]
        found = jnp.where((further <= size) & (entry <= value), further, found)
    return found


def _ring(crowd: Crowd, word: Array, entity: Array, since: Array) -> Array:
    """When the clocks of entities ring, given that they have not by the time ``since``: float32."""
    if crowd.model == "proportional":
        return exponential(word) * crowd.clock[entity]
    return exponential(word) + jnp.maximum(crowd.clock[entity], since)


def _in(entity: Array, some: Array) -> Array:
    found: Array = jnp.any(entity[:, None] == some[None, :], axis=1)
    return found


def _earliest(ring: Array, entity: Array, valid: Array, most: int, k: Array) -> Array:
    """The first k valid entities by ``ring``, ties to the earlier entry: int32, (``most``,), -1 from there on."""
    place = jnp.arange(ring.shape[0], dtype=jnp.int32)

    def is_before(other: Array, at: Array, is_valid: Array) -> Array:
        return is_valid & ((other < ring) | ((other == ring) & (at < place)))

    rank = matches(is_before, ring, place, valid)
    rank = jnp.where(valid & (rank < k), rank, most)
    here = rank[None, :] == jnp.arange(most, dtype=jnp.int32)[:, None]
    return jnp.sum(jnp.where(here, entity[None, :] + 1, 0), axis=1, dtype=jnp.int32) - 1


def _first_clocks(
    crowd: Crowd, key: Stream, begin: Array, size: Array, k: Array, exclude: Array, found: Array, since: Array
) -> Array:
    """``found``, filled up to k with the first clocks of all other members that are not excluded."""
    most = found.shape[0]
    have = jnp.sum(found >= 0, dtype=jnp.int32)
    out = jnp.concatenate([exclude, found])

    def more(number: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        """Those that were found stay where there is nothing more."""
        entity, ring = state
        place = number * crowd.slots + jnp.arange(crowd.slots, dtype=jnp.int32)
        next_ = crowd.member[begin + jnp.minimum(place, size - 1)]
        word = words(key, _CLOCK, next_)[0]
        valid = jnp.concatenate([entity >= 0, (place < size) & ~_in(next_, out)])
        entity, ring = jnp.concatenate([entity, next_]), jnp.concatenate([ring, _ring(crowd, word, next_, since)])
        best = _earliest(ring, jnp.arange(entity.shape[0], dtype=jnp.int32), valid, most, k - have)
        entity = jnp.where(best >= 0, entity[best], -1)
        return entity, ring[best]

    start = jnp.full(most, -1, jnp.int32), jnp.zeros(most, jnp.float32)
    others, _ = patiently(
        ENDLESS, lambda number, _: any_lane((number * crowd.slots < size) & (k > have)), more, start, _TURNS
    )
    place = jnp.arange(most, dtype=jnp.int32)
    return jnp.where(place < have, found, jnp.where(place < k, others[jnp.maximum(place - have, 0)], -1))


_completed = rarely(_first_clocks)
