"""Slots for the nodes that entered, with what a lane of CRUX knows of each.

A lane cannot have rows for all nodes of a large domain, so a node gets a slot when it enters. A table of the lane's has
each node's slot, two bytes a node, and is believed if the slot names the node. Frequency counts have columns, whose
sizes are the lane's: an entity that came more often than there are columns takes one that is empty.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxbandit.extraction.estimators import Past
from jaxbandit.extraction.fast.tables import FREE
from jaxbandit.extraction.poset import Poset
from jaxbandit.extraction.problem import Pull, View
from jaxbandit.extraction.retrieved import OVERFLOW, News, Retrieved, contains
from jaxbandit.xla.batch import any_lane, over_lanes
from jaxbandit.xla.packed import over_rows
from jaxbandit.xla.pairs import matches
from jaxbandit.xla.prefix import marked, nth, places

PART = 256
"""Slots of a lane that are gone through at a time."""
_CHILDREN, _HELD = 64, 64
"""At a time: children of all lanes' nodes that get slots, and their entities."""


class State(NamedTuple):
    """What a lane keeps, by S slots for nodes, C configurations, V columns of frequency counts, on N nodes.

    ``retrieved``; ``sizes``: int32 (V,), the i of each column f_i; ``node``, ``specificity``: int32 (S,), of each
    slot, the first ``filled`` of which are in use (a small domain has slots for all nodes from the beginning, so that
    none has to be made); ``slot_of``: integers (N,), the slot of each node, if ``node`` says that it is there; None
    where slots are nodes; ``parents``: int32 (P, S), the nodes right above; ``entered``, ``grown``: bool (S,), whether
    the node entered, and whether its children did; ``f``: int32 (S, V); ``distinct``: int32 (S,), how many entities of
    the node were retrieved, and ``n``: how many answers these were; ``times_asked``: int32 (C, S), n_q; ``gain``:
    float32 (C, S); ``variance``: likewise, (C, 0) without a bootstrap; ``active``: bool (C, S); ``ended``: bool (S,),
    whether the node gave an empty answer that counts; ``pruned``: bool (S,), whether it or a node above it did;
    ``due``: bool (S,), whether its sample changed since its estimates were made, as none of its queries is active;
    ``past``: float32 (S, pairs), of ``new-regr``; ``pairs``: int32 (S,), how many there were.
    """

    retrieved: Retrieved
    sizes: Array
    node: Array
    specificity: Array
    slot_of: Array | None
    parents: Array
    filled: Array
    entered: Array
    grown: Array
    f: Array
    distinct: Array
    n: Array
    times_asked: Array
    gain: Array
    variance: Array
    active: Array
    ended: Array
    pruned: Array
    due: Array
    past: Past
    pairs: Array


@dataclass(frozen=True)
class Layout:
    """Sizes of a lane's arrays: ``rows`` for entities retrieved, ``slots`` and ``columns``; ``all_nodes``: the number
    of nodes if slots are nodes, else 0; ``widest``: the most children of a node; ``grow``: whether nodes enter."""

    rows: int
    slots: int
    columns: int
    all_nodes: int
    widest: int
    grow: bool

    @property
    def width(self) -> int:
        """Returns how many slots are gone through at a time."""
        return min(self.slots, PART)

    def begin(self, view: View, parents: Array, pairs: int, unseen: Array, with_variance: bool) -> State:
        """Returns the state where the root alone has entered; ``parents``: int32 (N, P); ``unseen``: float32 (C,)."""
        s, c, v = self.slots, len(view.configurations), self.columns
        place = jnp.arange(s, dtype=jnp.int32)
        first = place == 0
        node = jnp.where(place < self.all_nodes, place, jnp.where(first, 0, FREE))
        own = jnp.maximum(node, 0)
        there, none = node >= 0, jnp.zeros(s, bool)
        slot_type = jnp.int16 if s < 2**15 else jnp.int32
        return State(
            retrieved=Retrieved.nothing(view, self.rows),
            sizes=jnp.arange(1, v + 1, dtype=jnp.int32),
            node=node,
            specificity=jnp.asarray(view.poset.specificity, jnp.int32)[own],
            slot_of=None if self.all_nodes or not self.grow else jnp.zeros(parents.shape[0], slot_type),
            parents=jnp.where(there, parents[own].T, FREE),
            filled=jnp.sum(there, dtype=jnp.int32),
            entered=first,
            grown=none,
            f=jnp.zeros((s, v), jnp.int32),
            distinct=jnp.zeros(s, jnp.int32),
            n=jnp.zeros(s, jnp.int32),
            times_asked=jnp.zeros((c, s), jnp.int32),
            gain=jnp.broadcast_to(unseen[:, None], (c, s)),
            variance=jnp.zeros((c, s if with_variance else 0), jnp.float32),
            active=jnp.broadcast_to(first, (c, s)),
            ended=none,
            pruned=none,
            due=none,
            past=Past(*[jnp.zeros((s, pairs), jnp.float32)] * 2),
            pairs=jnp.zeros(s, jnp.int32),
        )

    def slots_of(self, state: State, node: Array) -> Array:
        """Returns each node's slot, int32, as ``node``: beyond all where it has none or there is no node (-1)."""
        if state.slot_of is None:
            return jnp.where((node >= 0) & (node < max(self.all_nodes, 1)), node, self.slots)
        slot = state.slot_of[jnp.maximum(node, 0)].astype(jnp.int32)
        return jnp.where((node >= 0) & (state.node[slot] == node), slot, self.slots)

    def over_slots(self, state: State, function: Callable[[Any, State, Array], Any], start: Any) -> Any:
        """Folds ``function`` over all slots in use, part by part, from ``start`` on.

        The function takes what was made so far, the state of some slots, and the number of the first of them.
        """
        width = self.width
        if width == self.slots:
            return function(start, state, jnp.int32(0))
        ends = ["node", "specificity", "entered", "distinct", "n", "times_asked", "gain", "active", "pruned"]
        if state.variance.shape[1]:
            ends.append("variance")

        def more(carry: tuple[Array, Any]) -> tuple[Array, Any]:
            begin, made = carry
            part: dict[str, Any] = {
                name: lax.dynamic_slice_in_dim(getattr(state, name), begin, width, -1) for name in ends
            }
            return begin + width, function(made, state._replace(**part), begin)

        used = over_lanes(state.filled)
        return lax.while_loop(lambda carry: carry[0] < used, more, (jnp.int32(0), start))[1]


def with_children(
    layout: Layout, view: View, parents: Array, state: State, pull: Pull, own: Array, stale: Array
) -> tuple[State, Array]:
    """Gives slots to the children of the node asked, whose slot is its ``own``, and marks those of them that hold
    entities retrieved before as stale."""
    assert state.slot_of is not None
    # ``own`` was read from the table of slots. As this reads by it, the table is written after, and is not copied.
    grows = pull.asked & ~state.grown[own]
    start = jnp.asarray(view.poset.child_start)
    begin, end = start[pull.node], start[pull.node + 1]
    rank = jnp.arange(layout.widest, dtype=jnp.int32)
    slot_of, node, specificity, above, filled = over_rows(
        _new_slots, _CHILDREN, grows & (rank < end - begin),
        [state.slot_of, state.node, state.specificity, state.parents, state.filled],
        begin, (jax.tree.map(jnp.asarray, view.poset), parents),
    )  # fmt: skip
    held = grows & state.retrieved.under(view, pull.node)
    read = (slot_of, node, state.filled, state.sizes, state.retrieved.leaf, state.retrieved.times)
    counted = [state.f, state.distinct, state.n, stale]
    f, distinct, n, stale = over_rows(_counted, _HELD, held, counted, read, jnp.asarray(view.poset.ancestors))
    code = jnp.where(filled > layout.slots, OVERFLOW, state.retrieved.code)
    return state._replace(
        retrieved=state.retrieved._replace(code=code), node=node, slot_of=slot_of, specificity=specificity,
        parents=above, filled=jnp.minimum(filled, layout.slots), f=f, distinct=distinct, n=n,
    ), stale  # fmt: skip


def _new_slots(
    arrays: list[Array], lane: Array, rank: Array, there: Array, begin: Array, shared: tuple[Poset, Array]
) -> list[Array]:
    """Gives slots to children that have none. ``over_rows`` says what it takes and returns; ``rank``: of a child among
    those of its parent; ``begin``: for each lane, where its node's children begin; ``shared``: the poset, and the
    parents of all nodes."""
    slot_of, known, specificity, parents, filled = arrays
    poset, above = shared
    nodes, slots = slot_of.shape[1], known.shape[1]
    node = jnp.asarray(poset.child)[begin[lane] + rank]
    new = there & (known[lane, slot_of[lane, node].astype(jnp.int32)] != node)
    # Of the lane's entries in this block, the first one.
    first = jnp.maximum(jnp.arange(new.shape[0], dtype=jnp.int32) - rank, 0)
    earlier = places(new)
    slot = jnp.where(new, filled[lane] + earlier - earlier[first], slots)
    return [
        slot_of.at[lane, jnp.where(slot < slots, node, nodes)].set(slot.astype(slot_of.dtype), mode="drop"),
        known.at[lane, slot].set(node, mode="drop"),
        specificity.at[lane, slot].set(jnp.asarray(poset.specificity)[node], mode="drop"),
        parents.at[lane, :, slot].set(above[node], mode="drop"),
        filled.at[lane].add(new.astype(jnp.int32)),
    ]


def _counted(
    arrays: list[Array], lane: Array, row: Array, there: Array, read: tuple[Any, ...], ancestors: Array
) -> list[Array]:
    """Counts entities that were retrieved before in the slots that are new, and marks these slots as stale.
    ``over_rows`` says what it takes and returns; ``row``: of an entity in its lane's list."""
    f, distinct, n, stale = arrays
    slot_of, known, earlier, sizes, leaf, times = read
    node = ancestors[leaf[lane, row]]
    lane = jnp.broadcast_to(lane[:, None], node.shape)
    slot = slot_of[lane, jnp.maximum(node, 0)].astype(jnp.int32)
    new = there[:, None] & (node >= 0) & (slot >= earlier[lane]) & (known[lane, slot] == node)
    slot = jnp.where(new, slot, known.shape[1])
    same = sizes[lane[:, 0]] == times[lane[:, 0], row][:, None]
    column = jnp.where(jnp.any(same, axis=1), jnp.argmax(same, axis=1), sizes.shape[1])
    return [
        f.at[lane, slot, jnp.broadcast_to(column[:, None], node.shape)].add(1, mode="drop"),
        distinct.at[lane, slot].add(1, mode="drop"),
        n.at[lane, slot].add(jnp.broadcast_to(times[lane[:, 0], row][:, None], node.shape), mode="drop"),
        stale.at[lane, slot].set(True, mode="drop"),
    ]


def moves(state: State, news: News) -> tuple[Array, Array, Array]:
    """Returns the columns' sizes (int32, (V,)), and for each entity of the answer the column that gains one by it and
    the one that loses one (int32, (k_max,), beyond all where there is none).

    A size that has no column takes an empty one, from the end: the root, slot 0, holds all entities, so what is empty
    there is empty everywhere. Columns of 1 and 2 stay, as estimators read f_1 and f_2.
    """
    now = news.before + 1
    there = news.there[:, None]
    has = (state.sizes == now[:, None]) & there
    free = (state.f[0] == 0) & ~jnp.any(has, axis=0) & (state.sizes > 2)
    missing = news.there & ~jnp.any(has, axis=1)
    place = jnp.arange(now.shape[0], dtype=jnp.int32)
    before = matches(lambda other, at, misses: misses & (other == now) & (at < place), now, place, missing)
    first = missing & (before == 0)
    rank = places(first)
    v = jnp.arange(free.shape[0], dtype=jnp.int32)
    after = places(free[::-1])[::-1]
    takes = free & (after == rank[:, None]) & first[:, None]
    taken = jnp.sum(jnp.where(takes, now[:, None], 0), axis=0, dtype=jnp.int32)
    sizes = jnp.where(taken > 0, taken, state.sizes)

    def column(size: Array, some: Array) -> Array:
        return jnp.min(jnp.where((sizes == size[:, None]) & some[:, None], v, v.shape[0]), axis=1)

    return sizes, column(now, news.there), column(news.before, news.there & (news.before > 0))


def with_pruned(view: View, state: State, here: Array, ends: Array) -> State:
    """Prunes what is at and below the node in the slot ``here`` (bool (S,)), if the answer ``ends`` it."""
    spans = jnp.asarray(view.poset.spans)
    ended = state.ended | (here & ends)

    def pruned(ended: Array) -> Array:
        known = marked(ended)
        position = jnp.where(state.node >= 0, spans[jnp.maximum(state.node, 0), :, 0].T, -1)

        def below(carry: tuple[Array, Array]) -> tuple[Array, Array]:
            number, pruned = carry
            node = state.node[jnp.minimum(nth(known, number), ended.shape[0] - 1)]
            span = spans[jnp.maximum(node, 0)][:, :, None]
            return number + 1, pruned | ((number < known.total) & contains(span, position))

        many = over_lanes(known.total)
        return lax.while_loop(lambda carry: carry[0] < many, below, (jnp.int32(0), state.pruned))[1]

    any_ = any_lane(jnp.any(ended))
    return state._replace(ended=ended, pruned=lax.cond(any_, pruned, lambda _: state.pruned, ended))


def parents_of(poset: Poset) -> np.ndarray:
    """Returns the nodes right above each node, (N, P), ``FREE`` where there are no more."""
    start, child = np.asarray(poset.child_start), np.asarray(poset.child)
    parent = np.repeat(np.arange(len(start) - 1), np.diff(start))
    order = np.argsort(child, kind="stable")
    child, parent = child[order], parent[order]
    rank = np.arange(len(child)) - np.searchsorted(child, child)
    found = np.full((len(start) - 1, int(rank.max(initial=0)) + 1), FREE, np.int32)
    found[child, rank] = parent
    return found
