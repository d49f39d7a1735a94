"""What a run has retrieved: the entities, how often each came, and exclude lists drawn from them.

Every policy reports by it what it found.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxbandit.extraction.poset import Poset
from jaxbandit.extraction.problem import Outcome, Pull, View
from jaxbandit.random.draws import scale
from jaxbandit.random.stream import Stream, substream, words
from jaxbandit.xla.batch import over_lanes
from jaxbandit.xla.entries import ascending
from jaxbandit.xla.fence import once
from jaxbandit.xla.platforms import by_platform
from jaxbandit.xla.prefix import marked, nth, places

if TYPE_CHECKING:
    from jaxtyping import Bool, Int32

OVERFLOW = 1
"""A result code, else 0: a run that met more than its capacities hold, and left out what did not fit."""

ISSUE, LIST, PICK, RESAMPLE, RELIST = range(1, 6)
"""What a word of ``View.choices`` is for. ISSUE: the exclude list of a query, by its number; LIST: the lists over which
a gain is averaged, by node; PICK: a baseline's choices; RESAMPLE, RELIST: bootstrap samples and their lists, likewise.
"""


_NOBODY = -2
"""No entity's number, nor that of a free row."""


def ancestors(poset: Poset, node: Int32[Array, " ..."]) -> Int32[Array, "... A"]:
    """Returns the nodes above, themselves among them; -1 where there are no more, and for a negative node."""
    above = jnp.asarray(poset.ancestors)[jnp.maximum(node, 0)]
    return jnp.where(node[..., None] >= 0, above, -1)


def contains(span: Array, position: Array) -> Array:
    """Says whether places in the trees (attributes, ...) are at or below nodes of spans (attributes, 2, ...): bool."""
    inside = [
        (own - low).astype(jnp.uint32) < size.astype(jnp.uint32)
        for own, low, size in zip(position, span[:, 0], span[:, 1], strict=True)
    ]
    found: Array = functools.reduce(jnp.logical_and, inside)
    return found


class Retrieved(NamedTuple):
    """What a run has retrieved, asked and spent so far.

    ``entity``, ``leaf``, ``times``, of each entity in the order of retrieval: its number, where it sits (-1 in free
    rows), how often it came; ``position``: the leaf's places in the trees (see ``Tree.spans``; -1 in free rows);
    ``size``: how many they are; ``spent``: in units of the budget; ``queries``: asked; ``used``: how often each was
    asked; ``code``: see ``OVERFLOW``.

    Example:
        >>> import jax.numpy as jnp
        >>> import numpy as np
        >>> from jaxbandit import extraction, random
        >>> tree = extraction.Tree(parent=np.array([0, 0, 0]), names=("", "art", "sport"))
        >>> people = extraction.domain((tree,), np.array([[1], [1], [2]]), popularity=1.0)
        >>> problem, key = extraction.extraction(people, 10, configurations=[(5, 0), (10, 2)]), random.stream(0, 0)
        >>> instance = problem.draw(key)
        >>> view = problem.view(key, instance)
        >>> bought = extraction.Retrieved.nothing(view)
        >>> query = bought.query(view, node=jnp.int32(1), configuration=jnp.int32(0))  # five of art: it has two
        >>> bought = bought.after(view, query, problem.pull(key, instance, query))
        >>> int(bought.size), int(bought.spent) / view.units, bought.under(view, jnp.int32(2)).any().item()
        (2, 1.25, False)
    """

    entity: Int32[Array, " capacity"]
    leaf: Int32[Array, " capacity"]
    times: Int32[Array, " capacity"]
    position: Int32[Array, "attributes capacity"]
    size: Int32[Array, ""]
    spent: Int32[Array, ""]
    queries: Int32[Array, ""]
    used: Int32[Array, " configurations"]
    code: Int32[Array, ""]

    @classmethod
    def nothing(cls, view: View, rows: int | None = None) -> Retrieved:
        """Returns the record before the first query; ``rows``: room for entities, if not for all that may come."""
        rows = rows or view.room.entities
        zero, free = jnp.int32(0), jnp.full(rows, -1, jnp.int32)
        used = jnp.zeros(len(view.configurations), jnp.int32)
        position = jnp.full((np.shape(view.poset.spans)[1], rows), -1, jnp.int32)
        return cls(free, free, jnp.zeros(rows, jnp.int32), position, zero, zero, zero, used, zero)

    def ends_node(self, view: View, pull: Pull, outcome: Outcome) -> Bool[Array, ""]:
        """Says whether the answer is empty and counts, so that nothing more is expected at the node and below. It does
        not count where the node holds retrieved entities and the exclude list has all of these."""
        here = self.under(view, pull.node)
        known, covered = jnp.any(here), jnp.all(~here | jnp.any(self.entity[:, None] == pull.exclude, axis=1))
        return pull.asked & ~jnp.any(outcome.entity >= 0) & ~(known & covered)

    def under(self, view: View, node: Int32[Array, ""]) -> Bool[Array, " capacity"]:
        """Says which of the retrieved entities the node holds."""
        return contains(jnp.asarray(view.poset.spans)[node][:, :, None], self.position)

    def after(self, view: View, pull: Pull, outcome: Outcome) -> Retrieved:
        """Adds an answer, which costs what its configuration does; nothing changes where nothing was asked."""
        return add(view, self, pull, outcome)[0]

    def query(self, view: View, node: Int32[Array, ""], configuration: Int32[Array, ""]) -> Pull:
        """Returns the next query, if the budget allows it. Its exclude list is drawn from what the node holds."""
        cost = view.cost[configuration, jnp.asarray(view.poset.specificity)[node]]
        asked = cost <= view.budget - self.spent
        exclude = exclude_list(view, self, node, jnp.where(asked, view.lengths[configuration], 0))
        return Pull(node, configuration, exclude, self.queries, asked)

    def answer(self) -> dict[str, Array]:
        """Reports, in int32, the distinct ``entities``, what was ``spent`` in units, the ``queries``, how often each of
        the ``configurations`` was asked, and the result ``code``."""
        return {
            "entities": self.size,
            "spent": self.spent,
            "queries": self.queries,
            "configurations": self.used,
            "code": self.code,
        }


def _row(retrieved: Retrieved, entity: Array) -> Array:
    """1 + the row that each of some entities has, 0 where it has none: int32."""
    rows = retrieved.entity.shape[0]

    def in_blocks(held: Array, entity: Array) -> Array:
        """By blocks of the rows in use, in sums that stay apart to the end: one over so long an axis would be slow."""
        width = 32 if rows % 32 == 0 else 16
        block = next(b for b in (4 * width, width) if rows % b == 0)
        used = over_lanes(retrieved.size)

        def more(carry: tuple[Array, Array]) -> tuple[Array, Array]:
            start, found = carry
            for first in range(0, block, width):
                known = lax.dynamic_slice_in_dim(held, start + first, width)
                number = start + first + jnp.arange(1, width + 1, dtype=jnp.int32)
                found = found + jnp.where(entity[:, None] == known, number, 0)
            return start + block, found

        nothing = (jnp.int32(0), jnp.zeros((entity.shape[0], width), jnp.int32))
        return jnp.sum(lax.while_loop(lambda carry: carry[0] < used, more, nothing)[1], axis=1, dtype=jnp.int32)

    def at_once(held: Array, entity: Array) -> Array:
        number = jnp.arange(1, rows + 1, dtype=jnp.int32)
        return jnp.max(jnp.where(entity[:, None] == held, number, 0), axis=1)

    found: Array = by_platform(retrieved.entity, entity, cpu=in_blocks, default=at_once)
    return found


class News(NamedTuple):
    """An answer, entity by entity, each (k_max,): bool ``there``; int32 ``leaf``, and ``before``, how often it came."""

    there: Array
    leaf: Array
    before: Array


def add(
    view: View, retrieved: Retrieved, pull: Pull, outcome: Outcome, price: Array | None = None
) -> tuple[Retrieved, News]:
    """Adds an answer, and says what was new in it; nothing changes where nothing was asked.

    ``price``: what the query cost, where that is not what its configuration costs.
    """
    rows = retrieved.entity.shape[0]
    there = (outcome.entity >= 0) & pull.asked
    place = _row(retrieved, jnp.where(there, outcome.entity, _NOBODY))
    known = place > 0
    before = jnp.where(known, retrieved.times[jnp.maximum(place - 1, 0)], 0)
    fresh = there & ~known
    place = jnp.where(known, place - 1, retrieved.size + places(fresh))
    fits = place < rows
    place = jnp.where(there & fits, place, rows)
    asked = pull.asked.astype(jnp.int32)
    mine = jnp.arange(retrieved.used.shape[0], dtype=jnp.int32) == pull.configuration
    if price is None:
        price = view.cost[pull.configuration, jnp.asarray(view.poset.specificity)[pull.node]]
    retrieved = Retrieved(
        retrieved.entity.at[place].set(outcome.entity, mode="drop"),
        retrieved.leaf.at[place].set(outcome.leaf, mode="drop"),
        retrieved.times.at[place].add(1, mode="drop"),
        retrieved.position.at[:, place].set(jnp.asarray(view.poset.spans)[outcome.leaf, :, 0].T, mode="drop"),
        retrieved.size + jnp.sum(fresh & fits, dtype=jnp.int32),
        retrieved.spent + asked * price,
        retrieved.queries + asked,
        retrieved.used + jnp.where(mine, asked, 0),
        jnp.where(jnp.any(fresh & ~fits), OVERFLOW, retrieved.code),
    )
    return retrieved, News(there & fits, jnp.where(there, outcome.leaf, 0), before)


def exclude_lists(view: View, retrieved: Retrieved, node: Array) -> Array:
    """Draws the lists that the next query could have at some nodes: entities retrieved there, in random order.

    Entities are in the order of their words at (ISSUE, queries asked), each having its own, so that the first l are a
    uniform choice of l.

    Args:
        view, retrieved: of the run.
        node: int32 (nodes,).

    Returns:
        int32 (nodes, l_max), -1 where there is no more.
    """
    word = words(substream(view.choices, ISSUE, retrieved.queries), 0, retrieved.entity)[0]
    # The sign bit flipped, so that int32 orders them; the largest int32 is left to those that are not there.
    key = jnp.minimum((word ^ jnp.uint32(1 << 31)).astype(jnp.int32), 2**31 - 2)
    order = ascending(jnp.where(retrieved.entity >= 0, key, 2**31 - 1))
    entity, leaf = retrieved.entity[order], retrieved.leaf[order]
    held = jnp.any(node[:, None, None] == ancestors(view.poset, leaf), axis=2)

    def first(held: Array) -> Array:
        place = nth(marked(held), jnp.arange(view.l_max, dtype=jnp.int32))
        there = place < key.shape[0]
        return jnp.where(there, entity[jnp.where(there, place, 0)], -1)

    found: Array = jax.vmap(first)(held)
    return found


def exclude_list(view: View, retrieved: Retrieved, node: Array, length: Array, from_all: bool = False) -> Array:
    """Draws E of the next query: ``length`` entities retrieved at the node, uniformly, or all where there are fewer.

    int32 (l_max,), -1 where there is none; see ``exclude_lists``. ``from_all`` (static): of all entities retrieved, at
    the node or not.
    """
    if not view.l_max:
        return jnp.zeros(0, jnp.int32)

    def drawn() -> Array:
        held = retrieved.entity >= 0 if from_all else retrieved.under(view, node)
        known = marked(held)
        pairs = (view.l_max + 1) // 2
        key = substream(view.choices, ISSUE, retrieved.queries)
        key = Stream(*once(jnp.stack(key)))
        pair = words(key, 0, jnp.arange(pairs, dtype=jnp.int32))
        rank = once(jnp.stack(ranks_without_replacement(pair, view.l_max, known.total)))
        number = jnp.arange(view.l_max, dtype=jnp.int32)
        return jnp.where((number < length) & (number < known.total), retrieved.entity[nth(known, rank)], -1)

    def where_needed() -> Array:
        found: Array = lax.cond(over_lanes(length) > 0, drawn, lambda: jnp.full(view.l_max, -1, jnp.int32))
        return found

    chosen: Array = by_platform(cpu=where_needed, default=drawn)
    return chosen


def ranks_without_replacement(
    pair: tuple[Array, Array], count: int, pool: Array, once: Callable[[Array], Array] = once
) -> list[Array]:
    """Draws ``count`` of 0 ... pool - 1, in turn: int32 each, of the shape that a word has with the pool.

    (Rank i is where i was before; the last one takes the place of the one that is drawn.)

    Args:
        pair: uint32 (draws / 2, ...) each, the words of draws 0, 2, 4 ... and 1, 3, 5 ... along the first axis.
        pool: int32, broadcast with the other axes; draws beyond it are of no use.
        once: has int32 computed once, and not at each use.
    """
    number = jnp.arange(pair[0].shape[0], dtype=jnp.int32).reshape(-1, *[1] * (pair[0].ndim - 1))
    # Draws of the two words stay apart to the end (docs/xla-cpu.md).
    halves = [once(scale(word, jnp.maximum(pool - 2 * number - part, 0))) for part, word in enumerate(pair)]
    place = [halves[j % 2][j // 2] for j in range(count)]
    drawn: list[Array] = []
    moved: list[Array] = []
    for j in range(count):
        at, end = place[j], jnp.broadcast_to(jnp.maximum(pool - 1 - j, 0), place[j].shape)
        for i in range(j):
            at = jnp.where(place[i] == place[j], moved[i], at)
            end = jnp.where(place[i] == pool - 1 - j, moved[i], end)
        if at.ndim:
            at, end = once(at), once(end)
        drawn.append(at)
        moved.append(end)
    return drawn
