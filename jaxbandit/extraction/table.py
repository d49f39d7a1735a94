"""A domain from a user's table: a row an entity, a column an attribute, a cell a path such as "US/California/Oakland".

An attribute's tree is made of the paths that occur, or is given by a table of its own, a row (child, parent) a value.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from jaxbandit.errors import BadInput
from jaxbandit.extraction.poset import Domain, Tree, domain
from jaxbandit.user_tables import columns, number, title

_Path = tuple[str, ...]


def read_domain(
    path: str | Path,
    attributes: str | Sequence[str],
    *,
    entity: str | None = None,
    popularity: str | None = None,
    trees: Mapping[str, str | Path] | None = None,
    separator: str = "/",
    delimiter: str = ",",
) -> Domain:
    """Reads the domain of a table, a row of which is an entity.

    White space around cells and parts of paths does not count.

    Args:
        path: a CSV file in UTF-8 with a header, or an SQLite database of one table.
        attributes: the columns whose cells are paths from an attribute's top to a leaf of its tree.
        entity: the column of the entities' names; they are rows without names where None.
        popularity: the column of their popularities; all are 1 where None.
        trees: of some attributes, a table with the columns ``child`` and ``parent`` (empty where the child is at the
            top); a cell of such an attribute is the name of a leaf alone.
        separator: of a path's parts.
        delimiter: of CSV files.

    Raises:
        BadInput: for a file that cannot be read as such a table, an entity that is there twice or not at a leaf, a
            value that is not in its tree, a tree with a cycle or a child of two parents, a popularity that is not a
            finite number of at least 0 or is too far from the largest (see ``domain``), and values by which two nodes
            have the same name.
    """
    titles = tuple(map(title, (attributes,) if isinstance(attributes, str) else attributes))
    if not titles or len(set(titles)) < len(titles):
        raise BadInput("attributes", list(titles), "one column or more, each once")
    if not separator:
        raise BadInput("separator", repr(separator), "a text that is not empty")
    files = {title(name): file for name, file in (trees or {}).items()}
    for name in files:
        if name not in titles:
            raise BadInput("trees", name, f"one of the attributes: {', '.join(titles)}")
    given = {name: _GivenTree(name, file, delimiter) for name, file in files.items()}

    wanted = {"attributes": titles}
    wanted |= {"entity": (entity,)} if entity is not None else {}
    wanted |= {"popularity": (popularity,)} if popularity is not None else {}
    lines: list[int] = []
    paths: list[tuple[_Path, ...]] = []
    weights: list[float] = []
    names: dict[str, int] = {}
    for line, (*cells,) in columns(path, wanted, None, delimiter):
        weights.append(_weight(f"{popularity} in line {line}", cells.pop()) if popularity is not None else 1.0)
        own = tuple(
            given[name].path(f"{name} in line {line}", cell) if name in given else _split(name, line, cell, separator)
            for name, cell in zip(titles, cells, strict=False)
        )
        if entity is not None:
            called = cells[-1]
            if not called:
                raise BadInput(f"{entity} in line {line}", "empty", "the name of an entity")
            if called in names:
                same = paths[names[called]] == own
                where = f"line {lines[names[called]]} has it too" + ("" if same else ", on another leaf")
                raise BadInput(f"{entity} in line {line}", called, f"an entity once, on one leaf; {where}")
            names[called] = len(paths)
        lines.append(line)
        paths.append(own)

    built, places = [], []
    for a, name in enumerate(titles):
        tree, number = _tree(given[name].paths if name in given else [own[a] for own in paths])
        inner = set(tree.parent[1:].tolist())
        place = [number[own[a]] for own in paths]
        for row, value in enumerate(place):
            if value in inner:
                shown = separator.join(paths[row][a])
                raise BadInput(f"{name} in line {lines[row]}", shown, f"a leaf; there is more below {shown}")
        built.append(tree)
        places.append(place)
    found = domain(tuple(built), np.array(places, np.int32).T, np.array(weights), tuple(names))
    _names_differ(found, titles, separator)
    return found


def _names_differ(found: Domain, titles: tuple[str, ...], separator: str) -> None:
    """Refuses a domain with two nodes of one name, by which a live session could not tell them apart."""
    seen: dict[str, int] = {}
    for node, name in enumerate(found.node_names):
        other = seen.setdefault(name, node)
        if other != node:
            pair = found.values[[other, node]].T
            a = int(np.flatnonzero(pair[:, 0] != pair[:, 1])[0])
            paths = [separator.join(found.trees[a].path(value)) for value in pair[a].tolist()]
            shown = [f'"{path}"' if path else "the wildcard" for path in paths]
            allowed = f'values that name nodes apart, not two "{name}" (a value is "*", or has ", " or "/" in it)'
            raise BadInput(titles[a], " and ".join(shown), allowed)


def _weight(field: str, cell: str) -> float:
    value = number(cell)
    if not (np.isfinite(value) and value >= 0):
        raise BadInput(field, cell or "empty", "a finite number, at least 0")
    return value


def _split(name: str, line: int, cell: str, separator: str) -> _Path:
    parts = tuple(part.strip() for part in cell.split(separator))
    if not all(parts):
        raise BadInput(f"{name} in line {line}", cell or "empty", f'a path like "top{separator}below", no part empty')
    return parts


def _tree(paths: Sequence[_Path]) -> tuple[Tree, dict[_Path, int]]:
    """The tree of all beginnings of paths, by depth and then by first occurrence; and the number of each of them."""
    nodes = dict.fromkeys(path[:depth] for path in paths for depth in range(1, len(path) + 1))
    number: dict[_Path, int] = {(): 0}
    for node in sorted(nodes, key=len):
        number[node] = len(number)
    parent = [0, *(number[node[:-1]] for node in number if node)]
    return Tree(np.array(parent, np.int32), tuple(node[-1] if node else "" for node in number)), number


class _GivenTree:
    """A tree from rows of (child, parent): ``paths``, of all its values, and ``path`` of one of them."""

    def __init__(self, name: str, file: str | Path, delimiter: str) -> None:
        parents: dict[str, str] = {}
        field = f"trees.{name}"
        for line, (child, parent) in columns(file, {field: ("child", "parent")}, None, delimiter):
            if not child:
                raise BadInput(f"{field} in line {line}", "empty", "the name of a child")
            if parents.setdefault(child, parent) != parent:
                other = parents[child] or "the top"
                raise BadInput(f"{field} in line {line}", child, f"a child of one parent; {other} is its parent too")
        self._of: dict[str, _Path] = {"": ()}
        for value in (*parents, *parents.values()):
            climbed: dict[str, None] = {}
            while value not in self._of:
                if value in climbed:
                    raise BadInput(field, value, "a tree; this value is below itself")
                climbed[value] = None
                value = parents.get(value, "")
            for below in reversed(climbed):
                self._of[below] = (*self._of[parents.get(below, "")], below)
        self.paths = [path for path in self._of.values() if path]

    def path(self, field: str, value: str) -> _Path:
        if not value or value not in self._of:
            raise BadInput(field, value or "empty", "a value of the attribute's tree")
        return self._of[value]
