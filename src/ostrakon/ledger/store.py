"""The entries of a ledger in a database: one after the other, never changed, and only one writer at a time."""

import contextlib
import os
import secrets
from collections.abc import Generator
from pathlib import Path
from typing import Any

from ostrakon.data.checksummed import read_regular
from ostrakon.data.files import remove_unfinished, sync_folder, write_atomically
from ostrakon.ledger.chain import Tampered, first_hash, hashes_equal
from ostrakon.ledger.location import Head, require_url, sqlite_file
from ostrakon.ledger.state import State
from ostrakon.ledger.turn import ENTRIES, LEDGER, TABLES, Last, Turn, seal_of
from ostrakon.validation import InvalidInput

try:
    import sqlalchemy as sql
    from sqlalchemy import event, exc
    from sqlalchemy.pool import NullPool
except ImportError as missing:
    raise InvalidInput("A ledger needs SQLAlchemy, which is not installed: pip install '.[ledger]'.") from missing

FORMAT = 2
PATIENCE = 120
"""Seconds for which a writer waits for its turn."""
_ADVISORY = 0x6F737472616B6F6E
_RETRYABLE = {"40001", "40P01", "57P01", "57P02", "57P03", "08000", "08003", "08006"}
"""Codes of PostgreSQL: serialization failure, deadlock, shutdown, crash, start, lost connection."""


class Interrupted(InvalidInput):
    """The database ended a transaction or a connection; the same call may be tried again."""


class Store:
    """The database of a ledger.

    Every turn is one transaction, and no two overlap: BEGIN IMMEDIATE on SQLite, a row locked by SELECT … FOR UPDATE
    on PostgreSQL. That row stores what all entries add up to, under a keyed hash together with the last entry's. A turn
    relies on it, and reads the whole chain only if it needs the entries themselves. The key of hashes and fingerprints
    is beside an SQLite file (FILE.key), and in the database of a server.

    Parameters
    ----------
    url : str
        As of `ostrakon.ledger.location.require_url`.
    """

    def __init__(self, url: str) -> None:
        self.url = require_url("ledger", url)
        self._file = sqlite_file(self.url)
        self._engine = make_engine(self.url)

    def __reduce__(self) -> "tuple[type[Store], tuple[str]]":
        # A fitted estimator with a ledger is pickled; a connection is not.
        return Store, (self.url,)

    @contextlib.contextmanager
    def turn(self, *, create: bool = False) -> Generator[Turn]:
        """Lock the ledger. What is added is written when the block ends, and dropped if the block raises.

        Parameters
        ----------
        create : bool
            Make the ledger if it is missing.

        Raises
        ------
        InvalidInput
            If the ledger is missing, or cannot be read or written.
        Interrupted
            If another try may succeed.
        Tampered
            If it is not as it was written.
        """
        if self._file is not None and not create and not self._file.exists():
            raise InvalidInput(f"There is no ledger at {self.url}. --budget creates one.")
        head = None if self._file is None else Head(self._file)
        if self._file is not None and create:
            # SQLite would let everybody read it. A file that is there is never opened here: to close it ends its locks.
            with contextlib.suppress(OSError):
                os.close(os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        try:
            with self._engine.begin() as connection:
                turn = self._open(connection, create=create, head=head)
                if head is not None:
                    turn.require_head(head)
                yield turn
                turn.finish()
        except exc.SQLAlchemyError as error:
            if "decode" in str(getattr(error, "orig", "")):
                raise Tampered(
                    f"{self.url} is not as it was written: it holds text that cannot be read; restore it."
                ) from None
            kind = Interrupted if _is_retryable(error) else InvalidInput
            raise kind(f"The ledger {self.url} could not be used: {_reason(error)}.") from error
        if head is not None:
            head.advance(turn.key, turn.identity, *turn.last)

    def _open(self, connection: sql.Connection, *, create: bool, head: Head | None) -> Turn:
        """Start a turn; make the ledger first if it is missing and `create` allows that."""
        if self._file is None and create:
            # Two CREATE TABLE IF NOT EXISTS at the same time can fail.
            connection.execute(sql.text("SELECT pg_advisory_xact_lock(:name)"), {"name": _ADVISORY})
        known = not create or sql.inspect(connection).has_table(LEDGER.name)
        if not known:
            TABLES.create_all(connection)
        row = self._row(connection)
        if row is None:
            if known and connection.execute(sql.select(ENTRIES.c.sequence)).first() is not None:
                raise Tampered(f"{self.url} is not as it was written: its first row is gone; restore it.")
            self._make(connection, head)
            row = self._row(connection)
        if row is None or row.format != FORMAT:
            raise InvalidInput(
                f"The ledger {self.url} must be of format {FORMAT}, got {None if row is None else row.format}."
            )
        key, last = _key_from(self._key_file, row.key), (row.sequence, row.hash)
        newest = connection.execute(sql.select(ENTRIES).order_by(ENTRIES.c.sequence.desc()).limit(1)).one_or_none()
        stored = (0, first_hash(key, row.identity)) if newest is None else (newest.sequence, newest.hash)
        # A column of SQLite holds values of any type.
        plain = isinstance(row.sequence, int) and all(
            isinstance(one, str) for one in (row.identity, row.hash, row.state)
        )
        if not plain or not hashes_equal(seal_of(key, row.identity, last, row.state), row.seal) or stored != last:
            raise Tampered(
                f"{self.url} is not as it was written: its total of what was spent does not belong to its last entry "
                "or to its key; restore it, and charge nothing to it until then."
            )
        state = State.of_text(row.state)
        return Turn(connection, where=self.url, identity=row.identity, key=key, last=last, state=state)

    def _row(self, connection: sql.Connection) -> Any:
        """Return the ledger's row with all columns of its format, locked until the turn ends; None if it is gone."""
        every = sql.select(sql.text("*")).select_from(LEDGER).with_for_update()
        try:
            rows = connection.execute(every).all()
        except (exc.OperationalError, exc.ProgrammingError) as error:
            if "no such table" in str(error.orig) or getattr(error.orig, "sqlstate", None) == "42P01":
                raise InvalidInput(f"There is no ledger at {self.url}. --budget creates one.") from None
            raise
        if len(rows) > 1:
            raise Tampered(f"{self.url} is not as it was written: it has {len(rows)} first rows; restore it.")
        return rows[0] if rows else None

    def _make(self, connection: sql.Connection, head: Head | None) -> None:
        identity, key = secrets.token_hex(16), secrets.token_bytes(32)
        last, state = (0, first_hash(key, identity)), State().as_text()
        if head is not None and self._key_file is not None:
            _make_files(head, self._key_file, self.url, identity=identity, key=key, last=last)
        fixed = {"format": FORMAT, "identity": identity, "key": key.hex() if self._key_file is None else None}
        sealed = seal_of(key, identity, last, state)
        now = {"sequence": last[0], "hash": last[1], "state": state, "seal": sealed}
        connection.execute(sql.insert(LEDGER).values({**fixed, **now}))

    @property
    def _key_file(self) -> Path | None:
        return None if self._file is None else self._file.with_name(f"{self._file.name}.key")


def _make_files(head: Head, beside: Path, where: str, *, identity: str, key: bytes, last: Last) -> None:
    """Write head and key of a new ledger before its database: the head first, so that no key is without a head."""
    if beside.exists():
        if not head.path.exists():
            raise Tampered(f"{beside} is of a ledger that is gone from {where}; restore it, or choose another.")
        if head.read(_key_from(beside, None))[1] > 0:
            raise Tampered(f"{head.path} has seen entries that {where} does not hold; restore the ledger.")
        # Of a process that was killed here.
        beside.unlink()
        sync_folder(beside.parent)
    elif head.path.exists() and head.claimed() != 0:
        raise Tampered(f"{head.path} has seen entries that {where} does not hold; restore the ledger.")
    head.write(key, identity, *last)
    remove_unfinished(beside)
    write_atomically(beside, key.hex() + "\n", mode=0o600)


def _key_from(beside: Path | None, stored: str | None) -> bytes:
    try:
        return bytes.fromhex(stored or "" if beside is None else read_regular(beside, largest=1024).decode().strip())
    except (InvalidInput, OSError, ValueError):
        where = (
            "The key of a ledger must be in its database" if beside is None else f"{beside} must be beside its ledger"
        )
        raise Tampered(f"{where}, and it is gone or damaged; restore it.") from None


def _is_retryable(error: exc.SQLAlchemyError) -> bool:
    """Return whether the transaction may be tried again; even after a commit, every call finds what it has written
    before.
    """
    if not isinstance(error, exc.DBAPIError):
        return False
    return error.connection_invalidated or getattr(error.orig, "sqlstate", None) in _RETRYABLE


def _reason(error: exc.SQLAlchemyError) -> str:
    text = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
    return "the disk is full" if "full" in text or "disk I/O" in text else text.rstrip(".")


def make_engine(url: str) -> sql.Engine:
    """Return the engine of a ledger's database, whose transactions one writer at a time can have."""
    return _sqlite_engine(url) if url.startswith("sqlite") else _postgresql_engine(url)


def _postgresql_engine(url: str) -> sql.Engine:
    try:
        engine = sql.create_engine(
            url.replace("postgresql://", "postgresql+psycopg://", 1),
            poolclass=NullPool,
            connect_args={"connect_timeout": PATIENCE},
            # Not the server's default: after the row is locked, entries must be read as they are then.
            isolation_level="READ COMMITTED",
        )
    except ImportError as missing:
        raise InvalidInput(
            "A ledger on PostgreSQL needs psycopg, which is not installed: pip install '.[postgresql]'."
        ) from missing

    @event.listens_for(engine, "begin")
    def set_limits(connection: sql.Connection) -> None:
        # A writer that stops loses its turn; what was committed is on the disk.
        connection.exec_driver_sql(
            f"SELECT set_config('lock_timeout', '{PATIENCE}s', true), "
            f"set_config('idle_in_transaction_session_timeout', '{PATIENCE}s', true), "
            "CASE WHEN current_setting('synchronous_commit') = 'off' "
            "THEN set_config('synchronous_commit', 'on', true) END"
        )

    del set_limits
    return engine


def _sqlite_engine(url: str) -> sql.Engine:
    engine = sql.create_engine(url, poolclass=NullPool, connect_args={"timeout": PATIENCE})

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _: Any) -> None:
        # Python's driver would begin the transaction too late, after what was read may have changed.
        connection.isolation_level = None
        # Five flushes a transaction: the journal, its folder, its header, the database, the journal's end. The journal
        # stays and is overwritten, which is faster than making and removing it. If the power fails before the last
        # flush, the journal undoes the transaction, and its caller has not gone on.
        connection.execute("PRAGMA journal_mode = PERSIST")
        connection.execute("PRAGMA synchronous = FULL")

    @event.listens_for(engine, "begin")
    def begin(connection: sql.Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    del prepare, begin
    return engine
