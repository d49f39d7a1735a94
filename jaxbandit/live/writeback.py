"""Values that are decided go to a user's table, in the transaction of the answer that decided them.

The table stands in the journal's own database, as a transaction has one. What was there before is kept in the journal,
so that it can be put back.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from jaxbandit.errors import BadInput
from jaxbandit.live.case import Case
from jaxbandit.user_tables import title

_JSON = str | int | float | None
"""What the journal has as it is. Other values, as dates of PostgreSQL, are kept as the text that the database reads."""


class WriteBack:
    """Writes into the table ``name``, whose rows are told apart by its primary key, or in SQLite by their rowid. An
    entity's rows are those that name it at that moment, as one of the names that were there at first."""

    def __init__(self, connection: Any, name: str, case: Case) -> None:
        problem = case.table["problem"]
        if problem["kind"] != "cleaning/table":
            raise BadInput("write_back", name, "a session that cleans a table")
        self._name = name
        self._same = case.same
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
        self._key = self._key_of(connection)
        self._named = [self._columns[title(key)] for key in keys]
        self._names: dict[tuple[str, str], list[Sequence[Any]]] = {}
        for row in connection.execute(sa.select(*self._named).distinct()):
            parts = list(map(_text, row))
            for column in values:
                entity = " / ".join([*parts, column] if len(values) > 1 else parts)
                self._names.setdefault((entity, column), []).append(tuple(row))

    def _key_of(self, connection: Any) -> list[Any]:
        """Returns the columns that tell rows apart. In SQLite a primary key may have NULL, and a column hide rowid."""
        key: list[Any] = list(self._table.primary_key.columns)
        without = sa.select(sa.literal(1)).where(sa.or_(sa.false(), *(each.is_(None) for each in key))).limit(1)
        if key and connection.execute(without.select_from(self._table)).first() is None:
            return key
        rowids = [each for each in ("rowid", "_rowid_", "oid") if each not in map(str.lower, self._columns)]
        view = self._name in sa.inspect(connection).get_view_names()
        if view or connection.dialect.name != "sqlite" or not rowids:
            raise BadInput("write_back", self._name, "a table with a primary key")
        return [sa.literal_column(rowids[0])]

    def _cells(self, connection: Any, entity: str, column: str, value: str | None = None) -> list[tuple[Any, Any]]:
        """Returns the key of each row that names the entity now, and what it has in the column; those alone that have
        ``value`` there, where it is given."""
        cell, found = self._columns[title(column)], []
        for name in self._names.get((entity, column), []):
            here = [self._at(self._named, name), *([] if value is None else [self._at([cell], [value])])]
            found += [(row[:-1], row[-1]) for row in connection.execute(sa.select(*self._key, cell).where(*here))]
        return found

    def write(self, connection: Any, entity: str, column: str, value: str, claimed: Sequence[str]) -> dict[str, Any]:
        """Puts an entity's value into each of its cells that claims another one.

        Returns:
            For ``restore``: ``column`` and ``value``; ``before``, of each cell that changed, the key of its row and
            what was there; ``rows``, the keys of all rows of the entity.

        Raises:
            BadInput: where no row of the entity is there, where a cell has a value that was not claimed when the
                session began or bytes, and where the table takes another one alone. The transaction is then to be
                undone as far as this call.
        """
        cells = self._cells(connection, entity, column)
        if not cells and (entity, column) in self._names:  # else the problem was read from elsewhere
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
                before.append(_kept((*key, there)))
        return {"column": column, "value": value, "before": before, "rows": [_kept(key) for key, _ in cells]}

    def restore(self, connection: Any, entity: str, written: Mapping[str, Any]) -> None:
        """Puts back the cells of an entity that ``write`` has changed, as they were.

        Raises:
            BadInput: where a row of the entity is not there any more, also as SQLite has given rows without a primary
                key other numbers, or where a cell has another value now.
        """
        column, value = written["column"], written["value"]
        there = {tuple(_kept(key)): key for key, _ in self._cells(connection, entity, column, value)}
        rows = {tuple(_kept(key)) for key, _ in self._cells(connection, entity, column)}
        if not rows.issuperset(map(tuple, written.get("rows", ()))):  # which older journals do not have
            raise BadInput("write_back", self._name, f"as the answer left it: a row of {entity} is not where it was")
        for *key, was in written["before"]:
            if tuple(key) not in there:
                left = f"as the answer left it: of {entity}, the row whose {column} was {was} does not have {value} now"
                raise BadInput("write_back", self._name, left)
            self._put(connection, there[tuple(key)], column, was)

    def _put(self, connection: Any, key: Sequence[Any], column: str, value: Any) -> None:
        try:
            cell = self._columns[title(column)]
            connection.execute(sa.update(self._table).where(self._at(self._key, key)).values({cell: value}))
        except (sa.exc.StatementError, ValueError) as error:
            lost = getattr(error, "connection_invalidated", False)
            if lost or isinstance(error, sa.exc.OperationalError | sa.exc.InterfaceError):
                raise  # the database does not answer
            why = str(getattr(error, "orig", error)).strip().splitlines() or [type(error).__name__]
            raise BadInput("write_back", self._name, f"a table that takes {value} in {column} ({why[0]})") from None

    def _at(self, columns: Sequence[Any], values: Sequence[Any]) -> Any:
        """Returns the condition that columns have such values, each as the database has it."""
        given = [sa.bindparam(None, value, sa.types.NullType(), unique=True) for value in values]
        equal = zip(columns, given, values, strict=True)
        return sa.and_(*(column.is_(None) if value is None else column == bound for column, bound, value in equal))


def _as_stored(_: Any, __: Any, column: dict[str, Any]) -> None:
    """Has a column's cells be read and written as the database has them, as ``user_tables`` reads them: by its type,
    SQLAlchemy would make 7.0000000000 of a 7 that SQLite keeps in a NUMERIC column."""
    column["type"] = sa.types.NullType()


def _kept(cells: Sequence[Any]) -> list[Any]:
    """Returns cells as the journal has them."""
    return [each if isinstance(each, _JSON) else str(each) for each in cells]


def _text(cell: Any) -> str:
    """Returns a cell as ``user_tables`` reads it."""
    return "" if cell is None else title(cell)
