"""The poset of an extraction domain (Rekatsinas, Deshpande and Parameswaran 2019): the product of attribute trees.

Only nodes that hold an entity are there. They are numbered from 0, the root, by depth (summed over the attributes) and
then by the attributes' tree nodes, so that a node comes after all above it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike
from numpy.typing import NDArray

from jaxbandit.errors import BadInput
from jaxbandit.pytree import pytree

if TYPE_CHECKING:
    from jaxtyping import Bool, Float64, Int32, Int64

_KEYS = 1 << 62
_LARGEST, _RATIO = 1e300, 1e-30
"""Popularities are added up in float64, and their ratios are rates of clocks in float32: see ``answers.py``."""


@dataclass(frozen=True)
class Tree:
    """An attribute's values, as a tree below the wildcard.

    ``parent``: of each node; node 0 is the wildcard, its own parent, and a parent has a smaller number than its
    children. ``names``: of the nodes, the wildcard's is "".

    Example:
        >>> import numpy as np
        >>> from jaxbandit import extraction
        >>> tree = extraction.Tree(parent=np.array([0, 0, 0]), names=("all", "art", "sport"))
        >>> tree.names
        ('all', 'art', 'sport')
    """

    parent: Int32[NDArray[np.int32], " n"]
    names: tuple[str, ...]

    def path(self, node: int) -> list[str]:
        """Lists the names from the top down to a node; the wildcard has none."""
        path: list[str] = []
        while node:
            path.append(self.names[node])
            node = int(self.parent[node])
        return path[::-1]

    def above(self) -> Int32[NDArray[np.int32], "n levels"]:
        """Returns each node, its parent, and so on to the root; -1 after that."""
        columns = [np.arange(len(self.parent), dtype=np.int32)]
        while (columns[-1] > 0).any():
            last = columns[-1]
            columns.append(np.where(last > 0, self.parent[last], -1).astype(np.int32))
        return np.stack(columns, axis=1)

    def spans(self) -> Int32[NDArray[np.int32], "n 2"]:
        """Returns each node's place in a preorder, and how many nodes are at it and below.

        A node is below another if its place is among those that begin at the other's.
        """
        size = np.ones(len(self.parent), np.int32)
        for node in range(len(size) - 1, 0, -1):
            size[self.parent[node]] += size[node]
        place, free = np.zeros_like(size), np.ones_like(size)
        for node in range(1, len(size)):
            place[node] = free[self.parent[node]]
            free[self.parent[node]] += size[node]
            free[node] = place[node] + 1
        return np.stack([place, size], axis=1)


@pytree
@dataclass(frozen=True)
class Poset:
    """What an algorithm knows of the domain, all of whose nodes hold an entity.

    ``specificity``: how many attributes a node fixes; ``ancestors``: the node and all above it, ascending, -1 where
    there are no more; ``child_start`` and ``child``: the direct descendants of node v are
    ``child[child_start[v]:child_start[v + 1]]``, by attribute and then by tree node; ``leaves``: the nodes without
    descendants, ascending; ``spans``: see ``Tree.spans``: a node is below another if it is in each attribute.

    Example:
        >>> import jax.numpy as jnp
        >>> import numpy as np
        >>> from jaxbandit import extraction
        >>> tree = extraction.Tree(parent=np.array([0, 0, 0]), names=("", "art", "sport"))
        >>> poset = extraction.domain((tree,), np.array([[1], [1], [2]]), popularity=1.0).poset
        >>> poset.ancestors.tolist(), poset.leaves.tolist()
        ([[0, -1], [0, 1], [0, 2]], [1, 2])
        >>> poset.is_child(jnp.int32(0)).tolist()  # of the root
        [False, True, True]
    """

    specificity: Int32[ArrayLike, " nodes"]
    ancestors: Int32[ArrayLike, "nodes A"]
    child_start: Int32[ArrayLike, " nodes+1"]
    child: Int32[ArrayLike, " M"]
    leaves: Int32[ArrayLike, " L"]
    spans: Int32[ArrayLike, "nodes attributes 2"]

    def is_child(self, node: Int32[Array, ""]) -> Bool[Array, " nodes"]:
        """Says which nodes are direct descendants of ``node``."""
        start, child = jnp.asarray(self.child_start), jnp.asarray(self.child)
        place = jnp.arange(child.shape[0], dtype=jnp.int32)
        here = (place >= start[node]) & (place < start[node + 1])
        return jnp.zeros(start.shape[0] - 1, bool).at[child].max(here)

    def is_above(self, node: Int32[Array, " some"]) -> Bool[Array, " nodes"]:
        """Says which nodes are above any of some, or among them; ``node``: -1 where there is none."""
        above = jnp.where((node >= 0)[:, None], jnp.asarray(self.ancestors)[node], -1)
        nodes = np.shape(self.specificity)[0]
        return jnp.zeros(nodes, bool).at[jnp.where(above >= 0, above, nodes)].set(True, mode="drop")

    def is_below(self, some: Bool[Array, " nodes"]) -> Bool[Array, " nodes"]:
        """Says which nodes are below any of ``some``, or among them."""
        above = jnp.asarray(self.ancestors)
        return jnp.any((above >= 0) & some[above], axis=1)


@dataclass(frozen=True)
class Domain:
    """Entities at the leaves of a poset, on the host.

    ``trees``: of each attribute; ``poset``: with NumPy arrays; ``values``: a node's tree nodes; ``leaf``: the node at
    which an entity sits; ``popularity``: at least 0; ``names``: of the entities, empty where they have none.

    Example:
        >>> import numpy as np
        >>> from jaxbandit import extraction
        >>> tree = extraction.Tree(parent=np.array([0, 0, 0]), names=("", "art", "sport"))
        >>> people = extraction.domain((tree,), np.array([[1], [1], [2]]), popularity=1.0, names=("Ada", "Bo", "Cy"))
        >>> start, entity = people.members()
        >>> {people.name(node): [people.names[i] for i in entity[start[node] : start[node + 1]]] for node in range(3)}
        {'*': ['Ada', 'Bo', 'Cy'], 'art': ['Ada', 'Bo'], 'sport': ['Cy']}
    """

    trees: tuple[Tree, ...]
    poset: Poset
    values: Int32[NDArray[np.int32], "nodes attributes"]
    leaf: Int32[NDArray[np.int32], " entities"]
    popularity: Float64[NDArray[np.float64], " entities"]
    names: tuple[str, ...] = ()

    @cached_property
    def node_names(self) -> list[str]:
        """Writes each node as text: the path of each attribute, "*" for the wildcard."""
        paths = [["/".join(tree.path(node)) or "*" for node in range(len(tree.parent))] for tree in self.trees]
        return [", ".join(path[value] for path, value in zip(paths, of, strict=True)) for of in self.values.tolist()]

    def name(self, node: int) -> str:
        """Returns the text of a node: see ``node_names``."""
        return self.node_names[node]

    def members(self) -> tuple[Int64[NDArray[np.int64], " nodes+1"], Int32[NDArray[np.int32], " held"]]:
        """Lists start and entity: node v holds ``entity[start[v]:start[v + 1]]``, ascending."""
        above = np.asarray(self.poset.ancestors)[self.leaf]
        held = above >= 0
        entity = np.broadcast_to(np.arange(len(self.leaf), dtype=np.int32)[:, None], above.shape)[held]
        node = above[held]
        start = np.zeros(len(self.values) + 1, np.int64)
        np.cumsum(np.bincount(node, minlength=len(self.values)), out=start[1:])
        return start, entity[np.argsort(node, kind="stable")]


def domain(
    trees: tuple[Tree, ...], places: NDArray[np.integer], popularity: ArrayLike, names: tuple[str, ...] = ()
) -> Domain:
    """Makes the domain of entities that sit at given leaves of the trees.

    Args:
        trees: of the attributes, one at least.
        places: integer, (entities, attributes): the tree node of each entity, a leaf of each tree.
        popularity: one number for all entities, or one each: at most 1e300, and 0 or at least 1e-30 of the largest.
        names: of the entities, or none.

    Raises:
        BadInput: for trees, places, popularities or names that are not so.

    Example:
        >>> import numpy as np
        >>> from jaxbandit import extraction
        >>> tree = extraction.Tree(parent=np.array([0, 0, 0]), names=("all", "art", "sport"))
        >>> people = extraction.domain((tree,), np.array([[1], [1], [2]]), popularity=[3.0, 1.0, 2.0])
        >>> len(people.leaf)
        3
    """
    trees = tuple(replace(tree, parent=np.asarray(tree.parent)) for tree in trees)
    places = _checked_places(trees, np.asarray(places))
    weight = _checked_popularity(popularity, len(places))
    if names and len(names) != len(places):
        raise BadInput("names", f"{len(names)} names", f"{len(places)}, a name for each entity, or none at all")
    sizes = [len(tree.parent) for tree in trees]
    if np.prod([float(size) for size in sizes]) >= _KEYS:
        raise BadInput("trees", " x ".join(map(str, sizes)), "a product of the trees' sizes below 2^62")
    radix = np.array([np.prod(sizes[a + 1 :], dtype=np.int64) for a in range(len(sizes))], np.int64)
    above = [tree.above() for tree in trees]

    def climbed(values: NDArray[np.integer]) -> NDArray[np.int64]:
        """The keys of all nodes above those of ``values``, themselves among them; -1 where a path is over."""
        keys = np.zeros((len(values), 1), np.int64)
        for a, paths in enumerate(above):
            path = paths[values[:, a]].astype(np.int64)[:, None, :]
            some = np.where((keys[:, :, None] >= 0) & (path >= 0), keys[:, :, None] + path * radix[a], -1)
            keys = some.reshape(len(values), -1)
        return keys

    sites, site_of = np.unique(places @ radix, return_inverse=True)
    keys = np.unique(climbed(_digits(sites, radix, sizes)))
    keys = keys[keys >= 0]
    values = _digits(keys, radix, sizes)
    depth = sum((paths[values[:, a]] > 0).sum(axis=1) for a, paths in enumerate(above))
    order = np.lexsort((keys, depth))
    place = np.empty(len(keys), np.int32)
    place[order] = np.arange(len(keys), dtype=np.int32)

    def numbers_of(wanted: NDArray[np.int64]) -> NDArray[np.int32]:
        found: NDArray[np.int32] = np.where(wanted >= 0, place[np.searchsorted(keys, wanted)], -1).astype(np.int32)
        return found

    values = values[order]
    ancestors = numbers_of(climbed(values))
    ancestors = np.sort(np.where(ancestors < 0, len(keys), ancestors), axis=1)
    ancestors = np.where(ancestors == len(keys), -1, ancestors).astype(np.int32)
    child_start, child = _children(trees, values, keys[order], radix, numbers_of)
    poset = Poset(
        specificity=(values > 0).sum(axis=1).astype(np.int32),
        ancestors=ancestors,
        child_start=child_start,
        child=child,
        leaves=np.flatnonzero(np.diff(child_start) == 0).astype(np.int32),
        spans=np.stack([tree.spans()[values[:, a]] for a, tree in enumerate(trees)], axis=1),
    )
    return Domain(trees, poset, values, numbers_of(sites)[site_of], weight, names)


def _checked_places(trees: tuple[Tree, ...], places: NDArray[np.generic]) -> NDArray[np.int64]:
    """The places, where they are leaves of trees; else raises BadInput."""
    if not trees or places.ndim != 2 or places.shape[1] != len(trees) or not len(places):
        raise BadInput("places", f"shape {places.shape}", "(entities, attributes), at least one of each")
    for a, tree in enumerate(trees):
        parent = tree.parent
        if parent.dtype.kind not in "iu" or parent.ndim != 1 or not len(parent):
            raise BadInput(f"trees[{a}].parent", parent.tolist(), "whole numbers, one for each node")
        if parent[0] != 0 or (parent[1:] >= np.arange(1, len(parent))).any() or (parent < 0).any():
            raise BadInput(f"trees[{a}]", "its parents", "parents with smaller numbers than their children")
        if len(tree.names) != len(parent):
            raise BadInput(f"trees[{a}].names", f"{len(tree.names)} names", f"{len(parent)}, one for each node")
    if places.dtype.kind not in "iuf":
        raise BadInput("places", f"values of type {places.dtype}", "whole numbers")
    number = places.astype(np.float64)
    for entity in np.flatnonzero((number != np.floor(number)).any(axis=1))[:1]:
        raise BadInput(f"places[{entity}]", places[entity].tolist(), "whole numbers, a leaf of each tree")
    for a, tree in enumerate(trees):
        inner = np.isin(number[:, a], tree.parent[1:]) | (number[:, a] < 0) | (number[:, a] >= len(tree.parent))
        for entity in np.flatnonzero(inner)[:1]:
            raise BadInput(f"places[{entity}]", places[entity].tolist(), "a leaf of each tree")
    return places.astype(np.int64)


def _checked_popularity(popularity: ArrayLike, entities: int) -> NDArray[np.float64]:
    """The popularity of each entity, where all can be drawn by; else raises BadInput."""
    given = np.asarray(popularity, np.float64)
    if given.shape not in ((), (1,), (entities,)):
        raise BadInput("popularity", f"shape {given.shape}", f"one number for all, or {entities}, one for each entity")
    weight = np.broadcast_to(given, entities).copy()
    for entity in np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))[:1]:
        raise BadInput(f"popularity[{entity}]", float(weight[entity]), "a finite number, at least 0")
    if not weight.any():
        raise BadInput("popularity", 0, "above 0 of one entity at least, as one of popularity 0 is in no answer")
    least, most = weight[weight > 0].min(), weight.max()
    if most > _LARGEST or least < _RATIO * most:
        shown, ratio = f"from {least:g} to {most:g}", f"{_RATIO:g}"
        raise BadInput("popularity", shown, f"at most {_LARGEST:g}, and each 0 or at least {ratio} of the largest")
    return weight


def _digits(keys: NDArray[np.int64], radix: NDArray[np.int64], sizes: list[int]) -> NDArray[np.int32]:
    return np.stack([(keys // r % size).astype(np.int32) for r, size in zip(radix, sizes, strict=True)], axis=1)


def _children(
    trees: tuple[Tree, ...], values: NDArray[np.int32], keys: NDArray[np.int64], radix: NDArray[np.int64],
    numbers_of: Callable[[NDArray[np.int64]], NDArray[np.int32]],
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:  # fmt: skip
    """The direct descendants as ``Poset`` has them."""
    parents, children, ranks = [], [], []
    for a, tree in enumerate(trees):
        below = np.flatnonzero(values[:, a] > 0)
        value = values[below, a].astype(np.int64)
        parents.append(numbers_of(keys[below] - (value - tree.parent[value]) * radix[a]))
        children.append(below)
        ranks.append(value)
    attribute = np.repeat(np.arange(len(trees)), [len(some) for some in parents])
    parent, child, rank = (np.concatenate(some) for some in (parents, children, ranks))
    start = np.zeros(len(values) + 1, np.int32)
    np.cumsum(np.bincount(parent, minlength=len(values)), out=start[1:])
    return start, child[np.lexsort((rank, attribute, parent))].astype(np.int32)
