"""Tables that users give: CSV files, or tables of an SQLite database, told apart by the file's first bytes."""

import csv
import math
import sqlite3
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from jaxbandit.errors import BadInput
from jaxbandit.words import counted

_SQLITE = b"SQLite format 3\0"


def number(cell: str) -> float:
    """Returns the number that a text stands for in the way of CSV and JSON; NaN where it is none."""
    try:
        return float(cell) if cell.isascii() and "_" not in cell else math.nan
    except ValueError:
        return math.nan


def whole_cells(names: Sequence[str], cells: Sequence[str], line: int) -> tuple[int, ...]:
    """Returns the cells of a row as whole numbers. Programs that sum up a column with empty cells write 1.0 for 1.

    Raises:
        BadInput: for a cell that is not a whole number from 0 to 2^31 - 1.
    """
    digits = [cell.removesuffix(".0") for cell in cells]
    for name, shown, cell in zip(names, cells, digits, strict=True):
        if not (cell.isascii() and cell.isdigit() and len(cell) <= 10 and int(cell) < 2**31):
            raise BadInput(f"{name} in line {line}", shown or "empty", "a whole number from 0 to 2147483647")
    return tuple(map(int, digits))


def other_delimiter(names: Sequence[str]) -> str:
    """Returns what to do where the names of a table's columns are one that others seem to separate; else nothing."""
    found = next((mark for mark in ";\t|" if len(names) == 1 and mark in names[0]), None)
    return f"its cells seem to be separated by {found!r}: write it with commas" if found else ""


def header(path: str | Path, table: str | None = None) -> tuple[str, ...]:
    """Returns the names of a table's columns; see ``columns``.

    Raises:
        BadInput: for a file that cannot be read as such a table.
    """
    _, titles = next(_lines(Path(path), table, ","), (0, ()))
    return tuple(map(title, titles))


def title(given: Any) -> str:
    """Returns the text by which a column or a cell is known, stripped: a letter with its accent is one character there,
    whether it was written as one or as two, which look the same."""
    return unicodedata.normalize("NFC", str(given).strip())


def columns(
    path: str | Path, wanted: Mapping[str, Sequence[str]], table: str | None = None, delimiter: str = ","
) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yields the line number and the cells of the wanted columns, row by row, as ``title`` has them.

    Args:
        path: a CSV file in UTF-8 with a header, or an SQLite database.
        wanted: the names of columns, changed as those of the header are (``title``), by the field that an error is to
            name.
        table: the SQLite table or view; may be left out where there is only one.
        delimiter: of the CSV file.

    Raises:
        BadInput: for a file that cannot be read as such a table, and one without a row.
    """
    wanted = {field: list(map(title, names)) for field, names in wanted.items()}
    lines = _lines(Path(path), table, delimiter)
    _, titles = next(lines, (0, []))
    header = list(map(title, titles))
    for name in header:
        if header.count(name) > 1:
            raise BadInput("path", str(path), f'each column once in the header, but "{name}" is there more often')
    for field, names in wanted.items():
        for name in names:
            if header and name not in header:
                other = other_delimiter(header)
                raise BadInput(field, name, f"no such column; there are {', '.join(header)}" + (other and f"; {other}"))
    places = [header.index(name) for names in wanted.values() for name in names] if header else []
    line = 0
    for line, cells in lines:
        if len(cells) != len(header):
            has = counted(len(cells), "cell", "cells")
            raise BadInput("path", str(path), f"line {line} has {has}, the header {len(header)}")
        yield line, tuple("" if cells[place] is None else title(cells[place]) for place in places)
    if not line:
        raise BadInput("path", str(path), "a table with at least one row")


def _lines(path: Path, table: str | None, delimiter: str) -> Iterator[tuple[int, Sequence[Any]]]:
    """Yields the header and then the rows of a file, with line numbers."""
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
            given = "missing" if name is None else name
            raise BadInput("table", given, f"one of those in the database: {', '.join(names) or 'none'}")
        rows = database.execute('SELECT * FROM "{}"'.format(name.replace('"', '""')))
        yield 0, [name for name, *_ in rows.description]
        yield from enumerate(rows, 1)
