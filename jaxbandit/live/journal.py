"""The journal of a session: what was asked and what was answered, append-only, in SQLite or PostgreSQL.

Events have numbers without gaps, and each carries a hash of itself and of the one before, the first one of the
journal's head. Whoever writes holds the journal's lock, reads what others wrote since, and adds its own events in one
transaction: on disk once it returns. Which agent has which question until when is no event and stands in a table of its
own.
"""

import contextlib
import hashlib
import json
import os
import re
import sqlite3
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from jaxbandit.errors import BadInput

try:
    import sqlalchemy as sa
except ImportError:
    raise BadInput(
        "jaxbandit.live", "not installed", "an installation with the extra: pip install 'jaxbandit[live]'"
    ) from None

FORMAT = "1"
"""The format of the tables and of what the events hold."""
_PARTS = ("version", "write_back", "study", "label", "files")
"""Of a head, beside its format and its hash."""

_TABLES = sa.MetaData()
_HEAD = sa.Table(
    "jaxbandit_session", _TABLES, sa.Column("key", sa.String(32), primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)  # fmt: skip
_EVENT = sa.Table(
    "jaxbandit_event", _TABLES, sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("at", sa.String(32), nullable=False), sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("question", sa.Integer), sa.Column("content", sa.Text, nullable=False),
    sa.Column("chain", sa.String(64), nullable=False),
)  # fmt: skip
_LEASE = sa.Table(
    "jaxbandit_lease", _TABLES, sa.Column("question", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("agent", sa.Text, nullable=False), sa.Column("until", sa.Float, nullable=False),
    sa.Column("seconds", sa.Float),  # the first journals have no such column
)  # fmt: skip

# Made once: to put a statement together costs more than to run it.
_NEWS = sa.select(_EVENT).where(_EVENT.c.number >= sa.bindparam("last")).order_by(_EVENT.c.number)
_HASH = sa.select(_HEAD.c.value).where(_HEAD.c.key == "hash")
_LEASES, _LEASED = sa.select(_LEASE), sa.insert(_LEASE)
_RELEASED, _ADDED = sa.delete(_LEASE).where(_LEASE.c.question == sa.bindparam("released")), sa.insert(_EVENT)


class Event(NamedTuple):
    """Holds one line of the journal. ``question``: its number, if the event is about one; ``content``: JSON-ready."""

    number: int
    at: str
    kind: str
    question: int | None
    content: dict[str, Any]
    chain: str


class Lease(NamedTuple):
    """Says who has a question, until when (seconds of the Unix epoch), and for how many ``seconds`` it was given."""

    agent: str
    until: float
    seconds: float | None = None


@dataclass
class Journal:
    """Keeps a session's events at a place: a file, or a URL such as ``postgresql://user@host/database``.

    Attributes:
        place: as it is shown, without a password.
    """

    place: str
    _engine: Any
    _hash: str | None = None  # of the head
    _file: tuple[int, int] | None = None

    @classmethod
    def at(cls, place: str) -> "Journal":
        """Returns the journal at a place, where there need not be one yet.

        Raises:
            BadInput: for a URL that is none.
        """
        if "://" not in place:
            url = sa.URL.create("sqlite", database=str(Path(place).absolute()))
            engine = sa.create_engine(url, connect_args={"timeout": 30})
            sa.event.listen(engine, "connect", _durable)
            sa.event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
            return cls(place, engine)
        try:
            url = sa.make_url(place)
        except (sa.exc.ArgumentError, ValueError):  # the latter for a port that is no number
            raise BadInput("place", _shown(place), "a file, or postgresql://user@host/database") from None
        shown = _shown(url.render_as_string())
        if url.get_backend_name() != "postgresql":
            raise BadInput("place", shown, "a file, or postgresql://user@host/database")
        try:
            engine = sa.create_engine(
                url.set(drivername="postgresql+psycopg"), pool_pre_ping=True, connect_args={"connect_timeout": 10}
            )
        except ImportError:
            raise BadInput("place", shown, "a file, or: pip install 'jaxbandit[live]'") from None
        return cls(shown, engine)

    def create(self, head: Mapping[str, str]) -> None:
        """Begins the journal: makes its tables and writes its head.

        Raises:
            BadInput: where there is one.
        """
        with self._talking(), self._engine.begin() as connection:
            _TABLES.create_all(connection)
            if connection.execute(sa.select(_HEAD.c.key).limit(1)).first():
                raise BadInput("place", self.place, "a place without a journal; `live next` goes on with this one")
            whole = {"format": FORMAT, **head}
            whole["hash"] = _hashed(whole)
            connection.execute(sa.insert(_HEAD), [{"key": key, "value": value} for key, value in whole.items()])
        self._hash, self._file = whole["hash"], self._file_now()

    def head(self) -> dict[str, str]:
        """Returns the texts with which the journal was begun.

        Raises:
            BadInput: where there is none, one of another format, or one whose head was changed.
        """
        if not self.there:
            allowed = "a journal that `jaxbandit live begin` made; there is no such file, or it is empty"
            raise BadInput("place", self.place, allowed)
        with self._talking(), self._engine.connect() as connection:
            if not sa.inspect(connection).has_table(_HEAD.name):
                raise BadInput("place", self.place, "a journal that `jaxbandit live begin` made")
            found = {row.key: row.value for row in connection.execute(sa.select(_HEAD))}
            self._file = self._file_now()
            self._complete(connection)
        if found.get("format") != FORMAT:
            raise BadInput("place", self.place, f"a journal of format {FORMAT}; this one has {found.get('format')}")
        own = found.pop("hash", None)  # the first ones had none
        if set(_PARTS) - set(found) or own not in (None, _hashed(found)):
            allowed = f"an undamaged journal; its head was changed or lost: {', '.join(_PARTS)}"
            raise BadInput("place", self.place, allowed)
        self._hash = own or ""
        return found

    def _complete(self, connection: Any) -> None:
        """Adds the column that the first journals lack."""
        tables = sa.inspect(connection)
        if tables.has_table(_LEASE.name) and "seconds" not in {
            each["name"] for each in tables.get_columns(_LEASE.name)
        }:
            connection.execute(sa.text(f"ALTER TABLE {_LEASE.name} ADD COLUMN seconds FLOAT"))
            connection.commit()

    @property
    def there(self) -> bool:
        """Returns whether there is something at the place: a database, or a file that is not empty."""
        return "://" in self.place or (os.path.exists(self.place) and os.path.getsize(self.place) > 0)

    @contextlib.contextmanager
    def writing(self, after: int, chain: str) -> Iterator["Writing"]:
        """Opens a transaction that nobody else's can come between. ``after``, ``chain``: number and chain of the last
        event that the caller knows.

        Raises:
            BadInput: for a database that does not answer, for events whose hashes are not right, and where the journal
                is not the one that was opened.
        """
        self._check_file()  # or a connection would make a new one
        with self._talking(), self._engine.begin() as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(sa.select(_HEAD).where(_HEAD.c.key == "format").with_for_update())
            if not after and (chain := connection.execute(_HASH).scalar() or "") != self._hash:
                raise BadInput("place", self.place, "the journal that was opened; another one is there now")
            writing = Writing(self.place, connection, after, chain)
            yield writing
            writing.flush()
            self._check_file()

    @contextlib.contextmanager
    def reading(self) -> Iterator[Any]:
        """Opens an SQLAlchemy connection to the journal's database, for other tables there."""
        with self._talking(), self._engine.connect() as connection:
            yield connection

    def close(self) -> None:
        """Closes all connections to the journal's database. All that is acknowledged is then in the file itself, and
        its write-ahead log empty, unless another process is at work on it."""
        if (now := self._file_now()) is not None and now == self._file:
            broken = sqlite3.Error, sa.exc.SQLAlchemyError, UnicodeDecodeError
            with contextlib.suppress(*broken), contextlib.closing(self._engine.raw_connection()) as connection:
                connection.driver_connection.execute("PRAGMA busy_timeout = 1000").close()
                connection.driver_connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").close()
        self._engine.dispose()

    def _file_now(self) -> tuple[int, int] | None:
        """Returns what tells the file at the place from others; None where there is none, and for a server's."""
        try:
            found = os.stat(self._engine.url.database) if self._engine.dialect.name == "sqlite" else None
        except (OSError, ValueError):  # the latter for a NUL in its name
            return None
        return found and (found.st_dev, found.st_ino)

    def _check_file(self) -> None:
        if self._file_now() != self._file:
            allowed = "the file that was opened; it was removed or replaced meanwhile, and nothing more goes into it"
            raise BadInput("place", self.place, allowed)

    @contextlib.contextmanager
    def _talking(self) -> Iterator[None]:
        try:
            yield
        except sa.exc.DBAPIError as error:
            why = str(error.orig).strip().splitlines() or [type(error).__name__]
            raise BadInput("place", self.place, f"a database that answers ({why[0]})") from None
        except UnicodeDecodeError:  # SQLite quotes what it cannot read
            raise BadInput("place", self.place, "a database that answers (it is damaged)") from None


class Writing:
    """Collects what a transaction does, and sends it to the database at its end, in a few statements."""

    def __init__(self, place: str, connection: Any, after: int, chain: str) -> None:
        self._place, self._connection = place, connection
        self._last, self._chain = after, chain
        self._added: list[dict[str, Any]] = []
        self._leases: dict[int, Lease] | None = None
        self._before: dict[int, Lease] = {}

    @property
    def connection(self) -> Any:
        """Returns the SQLAlchemy connection, for what belongs into the same transaction."""
        return self._connection

    def news(self) -> list[Event]:
        """Returns the events that others have added since the last one that is known, which is to be there still.

        Raises:
            BadInput: where a hash is not right.
        """
        found = []
        rows = self._connection.execute(_NEWS, {"last": self._last}).all()
        if self._last and (not rows or (rows[0].number, rows[0].chain) != (self._last, self._chain)):
            raise BadInput("place", self._place, f"the journal that was opened; event {self._last} is lost in it")
        for row in rows[1:] if self._last else rows:
            own = _chained(self._chain, row.number, row.at, row.kind, row.question, row.content)
            if row.number != self._last + 1 or row.chain != own:
                raise BadInput(
                    "place", self._place, f"an undamaged journal; event {self._last + 1} was changed or lost"
                )
            self._last, self._chain = row.number, own
            found.append(Event(row.number, row.at, row.kind, row.question, json.loads(row.content), own))
        return found

    def add(self, kind: str, question: int | None, content: Mapping[str, Any]) -> Event:
        """Adds an event of a kind, with its JSON-ready content, and returns it."""
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        text = json.dumps(content, ensure_ascii=False)
        number = self._last + 1
        chain = _chained(self._chain, number, at, kind, question, text)
        row = {"number": number, "at": at, "kind": kind, "question": question, "content": text, "chain": chain}
        self._added.append(row)
        self._last, self._chain = number, chain
        return Event(number, at, kind, question, dict(content), chain)

    def leases(self) -> dict[int, Lease]:
        """Returns the leases that have not expired, by question."""
        now = time.time()
        return {number: lease for number, lease in self._all_leases().items() if lease.until > now}

    def lease(self, question: int, agent: str, seconds: float) -> Lease:
        """Gives a question to an agent for so many seconds."""
        lease = self._all_leases()[question] = Lease(agent, time.time() + seconds, seconds)
        return lease

    def release(self, question: int) -> None:
        """Ends a question's lease, if there is one."""
        self._all_leases().pop(question, None)

    @contextlib.contextmanager
    def apart(self, statements: bool) -> Iterator[None]:
        """Has what is done in here be undone where it fails, and the rest of the transaction stand. ``statements``:
        whether some go to the database in here."""
        last, chain, added = self._last, self._chain, len(self._added)
        leases = None if self._leases is None else dict(self._leases)
        try:
            with self._connection.begin_nested() if statements else contextlib.nullcontext():
                yield
        except BaseException:
            self._last, self._chain, self._leases = last, chain, leases
            self._before = {} if leases is None else self._before
            del self._added[added:]
            raise

    def flush(self) -> None:
        """Sends what was added, leased and released to the database."""
        if self._added:
            self._connection.execute(_ADDED, self._added)
        now = self._leases or {}
        if gone := [{"released": each} for each, lease in self._before.items() if now.get(each) != lease]:
            self._connection.execute(_RELEASED, gone)
        fresh = [(each, lease) for each, lease in now.items() if self._before.get(each) != lease]
        if fresh:
            self._connection.execute(_LEASED, [{"question": each, **lease._asdict()} for each, lease in fresh])

    def _all_leases(self) -> dict[int, Lease]:
        if self._leases is None:
            rows = self._connection.execute(_LEASES).all()
            self._before = {row.question: Lease(row.agent, row.until, row.seconds) for row in rows}
            # One that a clock gave which was ahead, and was set back since, begins now.
            self._leases, now = dict(self._before), time.time()
            for question, lease in self._before.items():
                if lease.seconds is not None and lease.until > now + lease.seconds:
                    self._leases[question] = lease._replace(until=now + lease.seconds)
        return self._leases


def _shown(place: str) -> str:
    """Returns a URL without its passwords: of ``user:password@``, and of ``?password=`` and the like."""
    return re.sub(r"(?i)(password=)[^&]*", r"\1***", re.sub(r"(://[^/@]*?):[^@]*@", r"\1:***@", place))


def _hashed(head: Mapping[str, str]) -> str:
    return _chained("", *sorted(head.items()))


def _chained(before: str, *parts: Any) -> str:
    return hashlib.sha256(json.dumps([before, *parts], ensure_ascii=False).encode()).hexdigest()


def _durable(connection: Any, _: Any) -> None:
    """Has SQLite lose nothing that was acknowledged, and begin transactions when SQLAlchemy says so. A database of the
    user's keeps its own way of journalling."""
    connection.isolation_level = None
    if connection.execute("PRAGMA page_count").fetchone()[0] == 0:
        connection.execute("PRAGMA journal_mode = WAL").close()
    # Beside what FULL does, the end of a rollback journal is on disk, for databases that keep one.
    connection.execute("PRAGMA synchronous = EXTRA").close()
