"""The answers of a service: on the disk before they are sent, and never changed."""

import os
import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ostrakon.data.files import private_folder, sweep, write_atomically
from ostrakon.validation import InvalidInput

FORMAT = 1
_TABLE = """\
CREATE TABLE IF NOT EXISTS answers (
    row TEXT PRIMARY KEY, label INTEGER NOT NULL, client TEXT NOT NULL, block TEXT NOT NULL
) WITHOUT ROWID"""
RESERVE_BYTES = 16 * 2**20
"""Space on the disk that only answers may use which were drawn before the disk was full."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One stored answer.

    Parameters
    ----------
    row : str
        Checksum of the row's features.
    label : int
        Class number, -1 for no answer.
    client : str
        The name of the client that asked first.
    block : str
        The reservation in the ledger that paid for it.
    """

    row: str
    label: int
    client: str
    block: str


class AnswerStore:
    """All answers of a service, in an SQLite file inside private/ and in memory.

    Parameters
    ----------
    folder : pathlib.Path
        Made if it is missing.

    Attributes
    ----------
    labels : dict of str to int
        Class number by the checksum of the row.
    rows_asked : collections.Counter
        The number of different rows that each client asked about.
    blocks : set of str
        The reservations whose answers were in the file when it was opened.

    Raises
    ------
    InvalidInput
        If the file is not a service's, or the disk does not take what is written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = private_folder(folder)
        self._file = self.folder / "answers.db"
        self._reserve = self.folder / "reserve"
        sweep(self.folder)
        try:
            # One thread at a time uses it, but not always the same one.
            self._connection = sqlite3.connect(self._file, isolation_level=None, check_same_thread=False)
            self._file.chmod(0o600)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = FULL")
            version = self._connection.execute("PRAGMA user_version").fetchone()[0]
            if version not in (0, FORMAT):
                raise InvalidInput(f"{self._file} must be of format {FORMAT}, got {version}.")
            self._connection.execute(_TABLE)
            self._connection.execute(f"PRAGMA user_version = {FORMAT}")
            rows = self._connection.execute("SELECT row, label, client, block FROM answers").fetchall()
        except sqlite3.Error as error:
            raise InvalidInput(f"{self._file} must be the answers of a labelling service ({error}).") from None
        self.labels: dict[str, int] = {row: label for row, label, _, _ in rows}
        self.rows_asked: Counter[str] = Counter(client for _, _, client, _ in rows)
        self.blocks = {block for _, _, _, block in rows}

    def require_reserve(self) -> None:
        """Reserve space on the disk (`RESERVE_BYTES`) before answers are paid for and drawn.

        Raises
        ------
        InvalidInput
            If the disk has no room for it.
        """
        if not self._reserve.exists():
            # Random bytes, which no file system compresses.
            write_atomically(self._reserve, os.urandom(RESERVE_BYTES), mode=0o600)

    def add(self, answers: Iterable[Answer]) -> None:
        """Write all of these answers or none. When this returns, they are on the disk.

        On a full disk they use the reserved space. The same answers may be written again, if it is not known whether a
        failed attempt had written them.

        Raises
        ------
        InvalidInput
            If a row has another answer already, or the disk does not take what is written.
        """
        answers = list(answers)
        try:
            try:
                self._insert(answers)
            except sqlite3.OperationalError:
                self._reserve.unlink(missing_ok=True)
                self._insert(answers)
        except sqlite3.Error as error:
            raise InvalidInput(f"{self._file} could not be written: {error}; nothing left this machine.") from None
        for answer in answers:
            self.labels[answer.row] = answer.label
            self.rows_asked[answer.client] += 1

    def _insert(self, answers: Sequence[Answer]) -> None:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany(
                "INSERT INTO answers VALUES (?, ?, ?, ?) ON CONFLICT (row) DO NOTHING",
                [(answer.row, answer.label, answer.client, answer.block) for answer in answers],
            )
            for answer in answers:
                label = self._connection.execute("SELECT label FROM answers WHERE row = ?", (answer.row,)).fetchone()
                if label != (answer.label,):
                    raise sqlite3.IntegrityError("a row has another answer already")
            self._connection.execute("COMMIT")
        except sqlite3.Error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def close(self) -> None:
        """Close the file."""
        self._connection.close()
