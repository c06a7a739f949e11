"""Answers that were given: on the disk before they leave, and then the same for ever."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ostrakon.data.files import private_folder
from ostrakon.validation import InvalidInput

FORMAT = 1
_TABLE = """\
CREATE TABLE IF NOT EXISTS answers (
    row TEXT PRIMARY KEY, label INTEGER NOT NULL, client TEXT NOT NULL, block TEXT NOT NULL
) WITHOUT ROWID"""
_ROOM = "CREATE TABLE IF NOT EXISTS room (id INTEGER PRIMARY KEY, bytes BLOB NOT NULL)"
BYTES_OF_AN_ANSWER = 512
"""No answer takes more, with its share of the index and of the write-ahead log."""


@dataclass(frozen=True, kw_only=True)
class Given:
    """One answer. row: checksum of the row's features. label: class number, -1 for no answer. block: who paid."""

    row: str
    label: int
    client: str
    block: str


class AnswerStore:
    """All answers of a service, in an SQLite file inside private/; `labels` by the row's checksum, and in memory too.

    Errors: `InvalidInput` for a file that is none of ours, and where the disk does not take what is written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = private_folder(folder)
        self._file = self.folder / "answers.db"
        try:
            # Used by one thread at a time, whichever that is.
            self._connection = sqlite3.connect(self._file, isolation_level=None, check_same_thread=False)
            self._file.chmod(0o600)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = FULL")
            version = self._connection.execute("PRAGMA user_version").fetchone()[0]
            if version not in (0, FORMAT):
                raise InvalidInput(f"{self._file} must be of format {FORMAT}, got {version}.")
            self._connection.execute(_TABLE)
            self._connection.execute(_ROOM)
            self._connection.execute(f"PRAGMA user_version = {FORMAT}")
            held = self._connection.execute("SELECT row, label, client, block FROM answers").fetchall()
        except sqlite3.Error as error:
            raise InvalidInput(f"{self._file} must be the answers of a labelling service ({error}).") from None
        self.labels: dict[str, int] = {row: label for row, label, _, _ in held}
        self.asked: Counter[str] = Counter(client for _, _, client, _ in held)
        self.blocks = {block for _, _, _, block in held}
        """Of the answers that were there; it does not grow."""

    def require_room(self, answers: int) -> None:
        """Write as many bytes as so many answers take, before they are paid for and drawn.

        Errors: `InvalidInput` where the disk does not take them.
        """
        try:
            size = BYTES_OF_AN_ANSWER * answers
            self._connection.execute("INSERT OR REPLACE INTO room VALUES (1, zeroblob(?))", (size,))
        except sqlite3.Error as error:
            raise InvalidInput(f"{self._file} could not be written: {error}; nothing was drawn.") from None

    def keep(self, given: Iterable[Given]) -> None:
        """Write answers, all or none; on the disk, and never another one for the same row, when this returns.

        The same answers may be written again, where it is not known whether a failed attempt had written them.
        """
        some = list(given)
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany(
                "INSERT INTO answers VALUES (?, ?, ?, ?) ON CONFLICT (row) DO NOTHING",
                [(x.row, x.label, x.client, x.block) for x in some],
            )
            for each in some:
                found = self._connection.execute("SELECT label FROM answers WHERE row = ?", (each.row,)).fetchone()
                if found != (each.label,):
                    raise sqlite3.IntegrityError("a row has another answer already")
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise InvalidInput(f"{self._file} could not be written: {error}; nothing left this machine.") from None
        for each in some:
            self.labels[each.row] = each.label
            self.asked[each.client] += 1

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()
