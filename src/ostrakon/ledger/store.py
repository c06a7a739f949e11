"""The entries of a ledger in a database: one after the other, never changed, and only one writer at a time."""

from __future__ import annotations

import secrets
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ostrakon.data.files import sync_folder, write_atomically
from ostrakon.ledger.chain import Tampered, beginning, equal
from ostrakon.ledger.engine import engine_of, may_be_tried_again, reason_of
from ostrakon.ledger.place import Head, require_url, sqlite_file
from ostrakon.ledger.state import State
from ostrakon.ledger.turn import ENTRIES, LEDGER, TABLES, Last, Turn, seal_of
from ostrakon.validation import InvalidInput

try:
    import sqlalchemy as sql
    from sqlalchemy import exc
except ImportError as missing:
    raise InvalidInput("A ledger needs SQLAlchemy, which is not installed: pip install ostrakon[ledger].") from missing

FORMAT = 2
_ADVISORY = 0x6F737472616B6F6E


class Interrupted(InvalidInput):
    """The database gave up a turn that may be tried again: its transaction, or the connection, was broken off."""


class Store:
    """The database of a ledger.

    Every turn is one transaction that no other overlaps: BEGIN IMMEDIATE on SQLite, a row locked by SELECT … FOR UPDATE
    on PostgreSQL. That row holds what all entries add up to, under a keyed hash with the last entry's: a turn rests on
    it, and reads the whole chain only where it needs the entries themselves.
    The key of hashes and fingerprints is beside an SQLite file (FILE.key), and in the database of a server.
    """

    def __init__(self, url: str) -> None:
        self.url = require_url("ledger", url)
        self._file = sqlite_file(self.url)
        self._engine = engine_of(self.url)

    @contextmanager
    def turn(self, *, create: bool = False) -> Generator[Turn]:
        """Hold the ledger: what is added is written when the block ends, and forgotten where it raises.

        create: make the ledger where there is none. Errors: `InvalidInput` where there is none or it cannot be read or
        written (`Interrupted` where another try may do better), `Tampered` where it is not as it was written.
        """
        if self._file is not None and not create and not self._file.exists():
            raise InvalidInput(f"There is no ledger at {self.url}.")
        head = None if self._file is None else Head(self._file)
        try:
            with self._engine.begin() as connection:
                turn = self._opened(connection, create=create, head=head)
                if head is not None:
                    turn.require_head(head)
                yield turn
                turn.finish()
        except exc.SQLAlchemyError as error:
            told = Interrupted if may_be_tried_again(error) else InvalidInput
            raise told(f"The ledger {self.url} could not be used: {reason_of(error)}.") from error
        if head is not None:
            head.advance(turn.key, turn.identity, *turn.last)

    def _opened(self, connection: sql.Connection, *, create: bool, head: Head | None) -> Turn:
        """A turn of the ledger, which is made where it may be."""
        if self._file is None and create:
            # CREATE TABLE IF NOT EXISTS is not safe against itself.
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
        there = (0, beginning(key, row.identity)) if newest is None else (newest.sequence, newest.hash)
        if not equal(seal_of(key, row.identity, last, row.state), row.seal) or there != last:
            raise Tampered(
                f"{self.url} is not as it was written: what it says was spent does not belong to its last entry or to "
                "its key; restore it, and charge nothing to it until then."
            )
        state = State.of_text(row.state)
        return Turn(connection, where=self.url, identity=row.identity, key=key, last=last, state=state)

    def _row(self, connection: sql.Connection) -> Any:
        """The ledger's row, whatever columns its format has, locked until the turn ends; None where it is gone."""
        every = sql.select(sql.text("*")).select_from(LEDGER).with_for_update()
        try:
            return connection.execute(every).one_or_none()
        except (exc.OperationalError, exc.ProgrammingError) as error:
            if "no such table" in str(error.orig) or getattr(error.orig, "sqlstate", None) == "42P01":
                raise InvalidInput(f"There is no ledger at {self.url}.") from None
            raise

    def _make(self, connection: sql.Connection, head: Head | None) -> None:
        identity, key = secrets.token_hex(16), secrets.token_bytes(32)
        last, state = (0, beginning(key, identity)), State().as_text()
        if head is not None and self._key_file is not None:
            _make_files(head, self._key_file, self.url, identity=identity, key=key, last=last)
        held = {"format": FORMAT, "identity": identity, "key": key.hex() if self._key_file is None else None}
        sealed = seal_of(key, identity, last, state)
        now = {"sequence": last[0], "hash": last[1], "state": state, "seal": sealed}
        connection.execute(sql.insert(LEDGER).values({**held, **now}))

    @property
    def _key_file(self) -> Path | None:
        return None if self._file is None else self._file.with_name(f"{self._file.name}.key")


def _make_files(head: Head, beside: Path, where: str, *, identity: str, key: bytes, last: Last) -> None:
    """Write the head and the key of a new ledger, before its database is there.

    The head comes first, of no entry: killed anywhere in between, there is never a key without a head, and the next
    one starts again.
    """
    if beside.exists():
        if not head.path.exists():
            raise Tampered(f"{beside} is of a ledger that is gone from {where}; restore it, or choose another.")
        if head.read(_key_from(beside, None))[1] > 0:
            raise Tampered(f"{head.path} has seen entries that {where} does not hold; restore the ledger.")
        # Of one that was killed here.
        beside.unlink()
        sync_folder(beside.parent)
    elif head.path.exists() and head.claimed() != 0:
        raise Tampered(f"{head.path} has seen entries that {where} does not hold; restore the ledger.")
    head.write(key, identity, *last)
    write_atomically(beside, key.hex() + "\n", mode=0o600)


def _key_from(beside: Path | None, held: str | None) -> bytes:
    try:
        return bytes.fromhex(held or "" if beside is None else beside.read_text(encoding="utf-8").strip())
    except (OSError, ValueError):
        raise Tampered(f"{beside} must be beside its ledger, and it is gone or damaged; restore it.") from None
