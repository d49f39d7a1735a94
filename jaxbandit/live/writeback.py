"""Values that are decided go to a user's table, in the transaction of the answer that decided them.

The table stands in the journal's own database, as a transaction has one. What was there before is kept in the journal,
so that it can be put back.
"""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from jaxbandit.errors import BadInput
from jaxbandit.live.case import Case
from jaxbandit.user_tables import title

_JSON = str | int | float | None
"""What the journal has as it is. Other values, as dates of PostgreSQL, are kept as the text that the database reads."""


class WriteBack:
    """Writes into the table ``name``, whose rows are told apart by its primary key, or in SQLite by their rowid."""

    def __init__(self, connection: Any, name: str, case: Case) -> None:
        problem = case.table["problem"]
        if problem["kind"] != "cleaning/table":
            raise BadInput("write_back", name, "a session that cleans a table")
        self._name = name
        self._same = str.casefold if problem.get("normalise") == "casefold" else str
        try:
            self._table = sa.Table(
                name, sa.MetaData(), autoload_with=connection, listeners=[("column_reflect", _as_stored)]
            )
        except sa.exc.NoSuchTableError:
            raise BadInput("write_back", name, "a table in the database of the journal") from None
        keys, values = (
            [problem[part]] if isinstance(problem[part], str) else list(problem[part]) for part in ("entity", "value")
        )
        self._columns = {title(each.name): each for each in self._table.c}
        for column in (*keys, *values):
            if title(column) not in self._columns:
                raise BadInput("write_back", name, f"a table with the column {column}")
        self._key: list[Any] = list(self._table.primary_key.columns)
        if not self._key:
            if connection.dialect.name != "sqlite":
                raise BadInput("write_back", name, "a table with a primary key")
            self._key = [sa.literal_column("rowid")]
        self._rows: dict[tuple[str, str], list[list[Any]]] = {}
        width = len(self._key)
        for row in connection.execute(sa.select(*self._key, *(self._columns[title(key)] for key in keys))):
            parts = list(map(_text, row[width:]))
            for column in values:
                entity = " / ".join([*parts, column] if len(values) > 1 else parts)
                self._rows.setdefault((entity, column), []).append(list(row[:width]))

    def write(self, connection: Any, entity: str, column: str, value: str, claimed: Sequence[str]) -> list[list[Any]]:
        """Puts an entity's value into each of its cells that claims another one.

        Returns:
            Of each cell that changed, the key of its row and what was there, for ``restore``.

        Raises:
            BadInput: where no row of the entity is there, where a cell has a value that was not claimed when the
                session began or bytes, and where the table takes another one alone. The transaction is then to be
                undone as far as this call.
        """
        keys = self._rows.get((entity, column), [])  # none, where the problem was read from elsewhere
        cells = [
            (key, there)
            for key in keys
            for (there,) in connection.execute(sa.select(self._columns[title(column)]).where(self._at(key)))
        ]
        if keys and not cells:
            raise BadInput("write_back", self._name, f"as it was when the session began: no row of {entity} is there")
        before: list[list[Any]] = []
        for key, there in cells:
            text = _text(there)
            if text and self._same(text) not in map(self._same, (*claimed, value)):
                was = f"as it was when the session began: {entity}, {column} has {text}, which nobody claimed"
                raise BadInput("write_back", self._name, was)
            if text and text != value:
                if any(isinstance(each, bytes) for each in (*key, there)):
                    raise BadInput("write_back", self._name, f"a table without bytes, as a row of {entity} has")
                self._put(connection, key, column, value)
                before.append([each if isinstance(each, _JSON) else str(each) for each in (*key, there)])
        return before

    def restore(self, connection: Any, column: str, before: Sequence[Sequence[Any]]) -> None:
        """Puts back the cells that ``write`` replaced, as they were."""
        for *key, there in before:
            self._put(connection, key, column, there)

    def _put(self, connection: Any, key: Sequence[Any], column: str, value: Any) -> None:
        try:
            cell = self._columns[title(column)]
            connection.execute(sa.update(self._table).where(self._at(key)).values({cell: value}))
        except (sa.exc.StatementError, ValueError) as error:
            lost = getattr(error, "connection_invalidated", False)
            if lost or isinstance(error, sa.exc.OperationalError | sa.exc.InterfaceError):
                raise  # the database does not answer
            why = str(getattr(error, "orig", error)).strip().splitlines() or [type(error).__name__]
            raise BadInput("write_back", self._name, f"a table that takes {value} in {column} ({why[0]})") from None

    def _at(self, key: Sequence[Any]) -> Any:
        given = (sa.bindparam(None, value, sa.types.NullType(), unique=True) for value in key)
        return sa.and_(*(column == value for column, value in zip(self._key, given, strict=True)))


def _as_stored(_: Any, __: Any, column: dict[str, Any]) -> None:
    """Has a column's cells be read and written as the database has them, as ``user_tables`` reads them: by its type,
    SQLAlchemy would make 7.0000000000 of a 7 that SQLite keeps in a NUMERIC column."""
    column["type"] = sa.types.NullType()


def _text(cell: Any) -> str:
    """Returns a cell as ``user_tables`` reads it."""
    return "" if cell is None else title(cell)
