"""The ambiguity extractor: from a table of claims to the ambiguity model (Cheng et al. 2010, sections 3.1 and 3.2).

A row of the table claims a value for an entity. An entity with k distinct candidate values has k - 1 false values. The
table is a CSV file or in an SQLite database; which of them is told from the file's first bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from jaxbandit.errors import BadInput
from jaxbandit.user_tables import columns, whole_cells

if TYPE_CHECKING:
    from jaxtyping import Int32


@dataclass(frozen=True)
class AmbiguityTable:
    """The entities of a table, in the order in which they first appear there.

    Attributes:
        names: what to call each entity; the parts of a composite one are joined by " / ".
        false_values: how many there are at each, 0 where there is no ambiguity.
        candidates: the distinct values claimed of each entity, as first written.
        columns: the column that each entity's values stand in.
        rows: of the table.
        empty: cells in which a claim could stand and none does.

    Example:
        >>> import numpy as np
        >>> from jaxbandit import cleaning
        >>> claims, of = (("7:10", "7:15"), ("8:00",)), ("time", "time")
        >>> table = cleaning.AmbiguityTable(("a", "b"), np.array([1, 0], np.int32), claims, of, rows=3, empty=0)
        >>> {name: values for name, values in zip(table.names, table.candidates) if len(values) > 1}
        {'a': ('7:10', '7:15')}
        >>> cleaning.of_table(budget=10, false_values=table.false_values, sc_pdf=cleaning.Uniform()).counts.tolist()
        [1]
    """

    names: tuple[str, ...]
    false_values: Int32[NDArray[np.int32], " entities"]
    candidates: tuple[tuple[str, ...], ...]
    columns: tuple[str, ...]
    rows: int
    empty: int


def ambiguity(
    path: str | Path,
    entity: str | Sequence[str],
    value: str | Sequence[str],
    table: str | None = None,
    *,
    delimiter: str = ",",
    normalise: str = "none",
) -> AmbiguityTable:
    r"""Reads a table of claims and returns its ambiguity model: the entities, and the false values of each.

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

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from jaxbandit import cleaning
        >>> file = Path(tempfile.mkdtemp()) / "table.csv"
        >>> _ = file.write_text("flight,time\na,7:10\na,7:15\nb,8:00\n")
        >>> table = cleaning.ambiguity(file, "flight", "time")
        >>> table.false_values.tolist()
        [1, 0]
    """
    if normalise not in ("none", "casefold"):
        raise BadInput("normalise", normalise, '"none" or "casefold"')
    keys, attributes = _names("entity", entity), _names("value", value)
    found: dict[tuple[str, ...], dict[str, str]] = {}
    rows = empty = 0
    for line, cells in columns(path, {"entity": keys, "value": attributes}, table, delimiter):
        key, claims = cells[: len(keys)], cells[len(keys) :]
        if not any(key):
            raise BadInput("entity", f"empty in line {line}", f"a value of {' or '.join(keys)} in each row")
        rows, empty = rows + 1, empty + claims.count("")
        for attribute, claim in zip(attributes, claims, strict=True):
            candidates = found.setdefault((*key, attribute), {})
            if claim:
                candidates.setdefault(claim.casefold() if normalise == "casefold" else claim, claim)
    false_values = np.array([max(len(candidates) - 1, 0) for candidates in found.values()], np.int32)
    if not false_values.any():
        raise BadInput("value", ", ".join(attributes), "at least one entity with two different values")
    names = (key if len(attributes) > 1 else key[:-1] for key in found)
    return AmbiguityTable(
        tuple(map(" / ".join, names)), false_values, tuple(tuple(candidates.values()) for candidates in found.values()),
        tuple(key[-1] for key in found), rows, empty,
    )  # fmt: skip


def read_records(
    path: str | Path,
    successes: str = "successes",
    attempts: str = "attempts",
    table: str | None = None,
    *,
    delimiter: str = ",",
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    r"""Reads an agent's past records, a row an entity: the numbers of successes and attempts, for ``fit_beta``.

    Args:
        path, table, delimiter: as for ``ambiguity``.
        successes, attempts: the columns.

    Returns:
        Two int64 arrays of shape (rows,).

    Raises:
        BadInput: for a file that cannot be read as such a table, a cell that is not a whole number from 0 to 2^31 - 1,
            and a row of more successes than attempts.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from jaxbandit import cleaning
        >>> file = Path(tempfile.mkdtemp()) / "table.csv"
        >>> _ = file.write_text("successes,attempts\n1,3\n4,5\n")
        >>> successes, attempts = cleaning.read_records(file)
        >>> successes.tolist(), attempts.tolist()
        ([1, 4], [3, 5])
    """
    wanted = {"successes": (successes,), "attempts": (attempts,)}
    rows = columns(path, wanted, table, delimiter)
    found = []
    for line, cells in rows:
        won, made = whole_cells((successes, attempts), cells, line)
        if won > made:
            raise BadInput(
                f"{successes} in line {line}", won, f"at most the {made} {attempts} there ({Path(path).name})"
            )
        found.append((won, made))
    numbers = np.array(found, np.int64)
    return numbers[:, 0], numbers[:, 1]


def _names(field: str, columns: str | Sequence[str]) -> tuple[str, ...]:
    names = tuple([columns] if isinstance(columns, str) or not isinstance(columns, Iterable) else columns)
    if not names or not all(isinstance(name, str) for name in names) or len({*names}) < len(names):
        raise BadInput(field, list(names), "one column or more, each once")
    return names
