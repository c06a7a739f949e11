"""The entries of a ledger in a database: one after the other, never changed, and only one writer at a time."""

from __future__ import annotations

import secrets
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ostrakon.data.files import write_atomically
from ostrakon.ledger.chain import Link, Tampered, beginning, following, require_seen, require_whole
from ostrakon.ledger.place import Head, require_url, sqlite_file
from ostrakon.validation import InvalidInput

try:
    import sqlalchemy as sql
    from sqlalchemy import event, exc
    from sqlalchemy.pool import NullPool
except ImportError as missing:
    raise InvalidInput("A ledger needs SQLAlchemy, which is not installed: pip install ostrakon[ledger].") from missing

FORMAT = 1
PATIENCE = 120
"""Seconds that a writer waits for its turn."""

_ADVISORY = 0x6F737472616B6F6E
_TABLES = sql.MetaData()
_LEDGER = sql.Table(
    "ostrakon_ledger",
    _TABLES,
    sql.Column("format", sql.Integer, primary_key=True, autoincrement=False),
    sql.Column("identity", sql.Text, nullable=False),
    sql.Column("key", sql.Text),
)
_ENTRIES = sql.Table(
    "ostrakon_entries",
    _TABLES,
    sql.Column("sequence", sql.BigInteger().with_variant(sql.Integer, "sqlite"), primary_key=True, autoincrement=False),
    sql.Column("content", sql.Text, nullable=False),
    sql.Column("hash", sql.Text, nullable=False),
)


class Turn:
    """One writer's turn: all entries as they are, whole and the newest, and the one way to add to them."""

    def __init__(self, connection: sql.Connection, key: bytes, links: list[Link], last: str, start: str) -> None:
        self._connection = connection
        self._last = last
        self._start = start
        self.key = key
        self.links = links

    @property
    def head(self) -> tuple[int, str]:
        """(sequence, hash) of the last entry."""
        return len(self.links), self._last

    def append(self, content: dict[str, Any]) -> Link:
        """Add an entry; on the disk when the turn is over."""
        link = following(self.key, self._last, len(self.links) + 1, content)
        row = {"sequence": link.sequence, "content": link.content, "hash": link.hash}
        self._connection.execute(sql.insert(_ENTRIES).values(row))
        stored = sql.select(_ENTRIES).where(_ENTRIES.c.sequence == link.sequence)
        held = self._connection.execute(stored).one_or_none()
        if held is None or (held.content, held.hash) != (link.content, link.hash):
            raise Tampered("The ledger's database does not keep what is written to it: something in it was changed.")
        self.links.append(link)
        self._last = link.hash
        return link

    def require_seen(self, sequence: int, seen: str, *, where: str, by: str) -> None:
        """See `ostrakon.ledger.chain.require_seen`."""
        require_seen(self.links, sequence=sequence, seen=seen, start=self._start, where=where, by=by)


class Store:
    """The database of a ledger.

    Every turn is one transaction that no other overlaps: BEGIN IMMEDIATE on SQLite, a row locked by SELECT … FOR UPDATE
    on PostgreSQL. It reads and verifies the whole chain, so what it decides rests on all that was ever spent.
    The key of hashes and fingerprints is beside an SQLite file (FILE.key), and in the database of a server.
    """

    def __init__(self, url: str) -> None:
        self.url = require_url("ledger", url)
        self._file = sqlite_file(self.url)
        self._engine = _engine(self.url)

    @contextmanager
    def turn(self, *, create: bool = False) -> Generator[Turn]:
        """Hold the ledger: what is added is written when the block ends, and forgotten where it raises.

        create: make the ledger where there is none. Errors: `InvalidInput` where there is none or it cannot be read or
        written, `Tampered` where it is not as it was written.
        """
        if self._file is not None and not create and not self._file.exists():
            raise InvalidInput(f"There is no ledger at {self.url}.")
        head = None if self._file is None else Head(self._file)
        try:
            with self._engine.begin() as connection:
                identity, key = self._opened(connection, create=create, head=head)
                rows = connection.execute(sql.select(_ENTRIES).order_by(_ENTRIES.c.sequence)).all()
                links = [Link(row.sequence, row.content, row.hash) for row in rows]
                last, start = require_whole(key, identity, links, where=self.url), beginning(key, identity)
                turn = Turn(connection, key, links, last, start)
                if head is not None:
                    turn.require_seen(*head.read(), where=self.url, by=str(head.path))
                yield turn
        except exc.SQLAlchemyError as error:
            raise InvalidInput(f"The ledger {self.url} could not be used: {_reason(error)}.") from error
        if head is not None:
            head.advance(*turn.head)

    def _opened(self, connection: sql.Connection, *, create: bool, head: Head | None) -> tuple[str, bytes]:
        """(identity, key) of the ledger, which is made where it may be."""
        if self._file is None and create:
            # CREATE TABLE IF NOT EXISTS is not safe against itself.
            connection.execute(sql.text("SELECT pg_advisory_xact_lock(:name)"), {"name": _ADVISORY})
        known = sql.inspect(connection).has_table(_LEDGER.name)
        if not known and not create:
            raise InvalidInput(f"There is no ledger at {self.url}.")
        if not known:
            _TABLES.create_all(connection)
        row = connection.execute(sql.select(_LEDGER).with_for_update()).one_or_none()
        if row is None:
            if known and connection.execute(sql.select(_ENTRIES)).first() is not None:
                raise Tampered(f"{self.url} is not as it was written: its first row is gone; restore it.")
            return self._made(connection, head)
        if row.format != FORMAT:
            raise InvalidInput(f"The ledger {self.url} must be of format {FORMAT}, got {row.format}.")
        return row.identity, _key_from(self._key_file, row.key)

    def _made(self, connection: sql.Connection, head: Head | None) -> tuple[str, bytes]:
        identity, key = secrets.token_hex(16), secrets.token_bytes(32)
        beside = self._key_file
        if beside is not None and head is not None:
            if head.path.exists() and head.read()[0] > 0:
                raise Tampered(f"{head.path} has seen entries that {self.url} does not hold; restore the ledger.")
            if beside.exists() and not head.path.exists():
                raise Tampered(f"{beside} is of a ledger that is gone from {self.url}; restore it, or choose another.")
            # Before the database is there: killed in between, the next one starts again.
            write_atomically(beside, key.hex() + "\n", mode=0o600)
            head.path.unlink(missing_ok=True)
            head.advance(0, beginning(key, identity))
        held = {"format": FORMAT, "identity": identity, "key": key.hex() if beside is None else None}
        connection.execute(sql.insert(_LEDGER).values(held))
        return identity, key

    @property
    def _key_file(self) -> Path | None:
        return None if self._file is None else self._file.with_name(f"{self._file.name}.key")


def _key_from(beside: Path | None, held: str | None) -> bytes:
    try:
        return bytes.fromhex(held or "" if beside is None else beside.read_text().strip())
    except (OSError, ValueError):
        raise Tampered(f"{beside} must be beside its ledger, and it is gone or damaged; restore it.") from None


def _engine(url: str) -> sql.Engine:
    if not url.startswith("sqlite"):
        try:
            return sql.create_engine(
                url.replace("postgresql://", "postgresql+psycopg://", 1),
                poolclass=NullPool,
                connect_args={"connect_timeout": PATIENCE},
            )
        except ImportError as missing:
            raise InvalidInput(
                "A ledger on PostgreSQL needs psycopg, which is not installed: pip install ostrakon[postgresql]."
            ) from missing
    engine = sql.create_engine(url, poolclass=NullPool, connect_args={"timeout": PATIENCE})

    @event.listens_for(engine, "connect")
    def connected(connection: Any, _: Any) -> None:
        # Python's driver would begin late, after what was read is no longer so.
        connection.isolation_level = None
        connection.execute("PRAGMA synchronous = EXTRA")

    @event.listens_for(engine, "begin")
    def begun(connection: sql.Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    del connected, begun
    return engine


def _reason(error: exc.SQLAlchemyError) -> str:
    text = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
    return "the disk is full" if "full" in text or "disk I/O" in text else text.rstrip(".")
