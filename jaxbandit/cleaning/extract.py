"""The ambiguity extractor: from a table of claims to the ambiguity model (Cheng et al. 2010, sections 3.1 and 3.2).

A row of the table claims a value for an entity. An entity with k distinct candidate values has k - 1 false values. The
table is a CSV file or in an SQLite database; which of them is told from the file's first bytes.
"""

import csv
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxbandit.errors import BadInput

_SQLITE = b"SQLite format 3\0"


@dataclass(frozen=True)
class AmbiguityTable:
    """The entities of a table, in the order in which they first appear there.

    Attributes:
        names: what to call each entity; the parts of a composite one are joined by " / ".
        false_values: int32, shape (entities,): how many there are at each, 0 where there is no ambiguity.
        candidates: the distinct values claimed of each entity, as first written.
    """

    names: tuple[str, ...]
    false_values: NDArray[np.int32]
    candidates: tuple[tuple[str, ...], ...]


def ambiguity(
    path: str | Path,
    entity: str | Sequence[str],
    value: str | Sequence[str],
    table: str | None = None,
    *,
    delimiter: str = ",",
    normalise: str = "none",
) -> AmbiguityTable:
    """The ambiguity model of a table of claims.

    White space around a cell does not count, and a cell with nothing else in it (or NULL) is no claim. A value claimed
    twice is one candidate.

    Args:
        path: a CSV file in UTF-8 with a header, or an SQLite database.
        entity: the column, or columns together, that tell entities apart.
        value: the column of claimed values; or several, each then being an entity of its own for each row's entity,
            named "entity / column" (section 3.2's T_i a_j).
        table: the SQLite table or view; may be left out where there is only one.
        delimiter: of the CSV file.
        normalise: "casefold" for values that differ in case only to be the same, else "none".

    Raises:
        BadInput: for a file that cannot be read as such a table, for a row without an entity, and where no entity has
            a false value.
    """
    if normalise not in ("none", "casefold"):
        raise BadInput("normalise", normalise, '"none" or "casefold"')
    keys, attributes = _names("entity", entity), _names("value", value)
    found: dict[tuple[str, ...], dict[str, str]] = {}
    for line, cells in _columns(path, {"entity": keys, "value": attributes}, table, delimiter):
        key, claims = cells[: len(keys)], cells[len(keys) :]
        if not any(key):
            raise BadInput("entity", f"empty in line {line}", f"a value of {' or '.join(keys)} in each row")
        for attribute, claim in zip(attributes, claims, strict=True):
            candidates = found.setdefault((*key, attribute), {})
            if claim:
                candidates.setdefault(claim.casefold() if normalise == "casefold" else claim, claim)
    false_values = np.array([max(len(candidates) - 1, 0) for candidates in found.values()], np.int32)
    if not false_values.any():
        raise BadInput("value", ", ".join(attributes), "at least one entity with two different values")
    names = (key if len(attributes) > 1 else key[:-1] for key in found)
    return AmbiguityTable(
        tuple(map(" / ".join, names)), false_values, tuple(tuple(candidates.values()) for candidates in found.values())
    )


def read_records(
    path: str | Path,
    successes: str = "successes",
    attempts: str = "attempts",
    table: str | None = None,
    *,
    delimiter: str = ",",
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """An agent's past records, a row an entity: the numbers of successes and attempts, for ``fit_beta``.

    Args:
        path, table, delimiter: as for ``ambiguity``.
        successes, attempts: the columns.

    Returns:
        Two int64 arrays of shape (rows,).

    Raises:
        BadInput: for a file that cannot be read as such a table, and a cell that is not a whole number from 0 to
            2^31 - 1.
    """
    names = {"successes": (successes,), "attempts": (attempts,)}
    rows = []
    for line, cells in _columns(path, names, table, delimiter):
        for name, cell in zip((successes, attempts), cells, strict=True):
            if not (cell.isascii() and cell.isdigit() and len(cell) <= 10 and int(cell) < 2**31):
                raise BadInput(f"{name} in line {line}", cell or "empty", "a whole number from 0 to 2147483647")
        rows.append(tuple(map(int, cells)))
    found = np.array(rows, np.int64)
    return found[:, 0], found[:, 1]


def _names(field: str, columns: str | Sequence[str]) -> tuple[str, ...]:
    names = (columns,) if isinstance(columns, str) else tuple(columns)
    if not names or len(set(names)) < len(names):
        raise BadInput(field, list(names), "one column or more, each once")
    return names


def _columns(
    path: str | Path, wanted: Mapping[str, Sequence[str]], table: str | None, delimiter: str
) -> Iterator[tuple[int, tuple[str, ...]]]:
    """The line number and the stripped cells of the wanted columns (the values of ``wanted``, by field), row by row."""
    lines = _lines(Path(path), table, delimiter)
    _, titles = next(lines, (0, []))
    header = [str(title).strip() for title in titles]
    for name in header:
        if header.count(name) > 1:
            raise BadInput("path", str(path), f'each column once in the header, but "{name}" is there more often')
    for field, names in wanted.items():
        for name in names:
            if header and name not in header:
                raise BadInput(field, name, f"no such column; there are {', '.join(header)}")
    places = [header.index(name) for names in wanted.values() for name in names] if header else []
    line = 0
    for line, cells in lines:
        if len(cells) != len(header):
            raise BadInput("path", str(path), f"line {line} has {len(cells)} cells, the header {len(header)}")
        yield line, tuple("" if cells[place] is None else str(cells[place]).strip() for place in places)
    if not line:
        raise BadInput("path", str(path), "a table with at least one row")


def _lines(path: Path, table: str | None, delimiter: str) -> Iterator[tuple[int, Sequence[Any]]]:
    """The header and then the rows of a file, with line numbers."""
    try:
        with path.open("rb") as file:
            database = file.read(len(_SQLITE)) == _SQLITE
        yield from _sqlite_lines(path, table) if database else _csv_lines(path, table, delimiter)
    except OSError as error:
        raise BadInput("path", str(path), f"a file that can be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise BadInput("path", str(path), "a CSV file in UTF-8, or an SQLite database") from None
    except (sqlite3.Error, sqlite3.Warning) as error:
        raise BadInput("path", str(path), f"an SQLite database that can be read ({error})") from None


def _csv_lines(path: Path, table: str | None, delimiter: str) -> Iterator[tuple[int, Sequence[Any]]]:
    if table is not None:
        raise BadInput("table", table, "only for an SQLite database, and this is a CSV file")
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise BadInput("delimiter", repr(delimiter), "one character, neither a quote nor a line end")
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter=delimiter, strict=True)
        try:
            yield from ((reader.line_num, cells) for cells in reader if cells)
        except csv.Error as error:
            raise BadInput("path", str(path), f"a CSV file; line {reader.line_num}: {error}") from None


def _sqlite_lines(path: Path, table: str | None) -> Iterator[tuple[int, Sequence[Any]]]:
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
        found = database.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
        names = [name for (name,) in found if not name.startswith("sqlite_")]
        name = names[0] if table is None and len(names) == 1 else table
        if name is None or name not in names:
            raise BadInput("table", name, f"one of those in the database: {', '.join(names) or 'none'}")
        rows = database.execute('SELECT * FROM "{}"'.format(name.replace('"', '""')))
        yield 0, [title for title, *_ in rows.description]
        yield from enumerate(rows, 1)
