"""Where a ledger is: the URLs that are allowed, and the files beside an SQLite ledger."""

import json
import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from filelock import FileLock

from ostrakon.data.checksummed import read_regular
from ostrakon.data.files import remove_unfinished, write_atomically
from ostrakon.data.object_store import is_uri
from ostrakon.ledger.chain import Tampered, hashes_equal, seal
from ostrakon.validation import InvalidInput, quote

_LARGEST_HEAD = 65_536
_UNREADABLE = (InvalidInput, OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError)
_ALLOWED = "sqlite:///FILE or postgresql://HOST/DATABASE, without a password"


def require_url(name: str, value: Any) -> str:
    """Check the URL of a ledger and return it, with an absolute path for SQLite.

    Parameters
    ----------
    name : str
        The parameter, for the message.
    value : str
        ``sqlite:///FILE`` or ``postgresql://HOST/DATABASE``. A password is refused, because run.toml keeps the URL:
        PostgreSQL reads PGPASSWORD or ~/.pgpass.

    Raises
    ------
    InvalidInput
        For anything else. The message never repeats a password.

    Examples
    --------
    >>> require_url("ledger", "postgresql://db.example/budget")
    'postgresql://db.example/budget'
    """
    try:
        parts = urlsplit(value) if isinstance(value, str) else None
        _ = parts is not None and parts.port  # raises unless the port is a number
        names = [] if parts is None else [name for name, _ in parse_qsl(parts.query, keep_blank_values=True)]
        password = "password" in (name.strip().lower() for name in names) or (parts is not None and parts.password)
    except ValueError:
        parts, password = None, False
    if parts is None or "\0" in value or parts.scheme not in ("sqlite", "postgresql") or password:
        given = "one with a password" if password else quote(value)
        raise InvalidInput(f"{name} must be {_ALLOWED}, got {given}.")
    if parts.scheme == "postgresql":
        return value
    file = re.fullmatch(r"sqlite:///([^?#]+)", value)
    if file is None or file[1] == ":memory:":
        raise InvalidInput(f"{name} must be {_ALLOWED}, got {quote(value)}.")
    return f"sqlite:///{Path(file[1]).resolve()}"


def default_url(data: str | os.PathLike[str]) -> str:
    """Return the ledger of data for which none is named: budget.db in their folder.

    Raises
    ------
    InvalidInput
        If the data are in object storage.

    Examples
    --------
    >>> default_url("/data/patients.csv")
    'sqlite:////data/budget.db'
    """
    if is_uri(os.fspath(data)):
        raise InvalidInput("ledger must be named, sqlite:////FOLDER/budget.db: data in object storage have no folder.")
    return require_url("ledger", f"sqlite:///{Path(data).resolve().parent / 'budget.db'}")


def sqlite_file(url: str) -> Path | None:
    """Return the file of an SQLite ledger; None for a server."""
    return Path(unquote(url.removeprefix("sqlite:///"))) if url.startswith("sqlite:///") else None


class Head:
    """The newest entry that was seen of an SQLite ledger, in a file beside it. A restored database lacks that entry.

    The file carries a keyed hash: without the ledger's key, only a head that was written before can replace it. It is
    written after the entry itself. If the process is killed in between, the head is behind by that entry; if the power
    fails, it may be behind by those of the last seconds. Neither refuses anything.

    Parameters
    ----------
    database : pathlib.Path
        The SQLite file.
    """

    def __init__(self, database: Path) -> None:
        self.path = database.with_name(f"{database.name}.head")
        self._lock = FileLock(f"{self.path}.lock", mode=0o600)

    def read(self, key: bytes) -> tuple[str, int, str]:
        """Return (identity, sequence, hash).

        Raises
        ------
        Tampered
            If the file is missing or damaged, or was changed without the key.
        """
        try:
            content = self._content()
            head = str(content["identity"]), int(content["sequence"]), str(content["hash"])
            sealed = content["seal"]
        except _UNREADABLE:
            raise Tampered(
                f"{self.path} must be beside its ledger, and it is gone or damaged: without it, a ledger that was "
                "restored from an older copy would pass for the newest; restore it."
            ) from None
        if not hashes_equal(seal(key, "seen", *head), sealed):
            raise Tampered(
                f"{self.path} was changed, or belongs to another key: restore it, and charge nothing until then."
            )
        return head

    def claimed(self) -> int | None:
        """Return the sequence that the file names, which is not verified; None if it names none."""
        try:
            return int(self._content()["sequence"])
        except _UNREADABLE:
            return None

    def _content(self) -> Any:
        # A pipe under this name must not stop every run without a word.
        return json.loads(read_regular(self.path, largest=_LARGEST_HEAD))

    def write(self, key: bytes, identity: str, sequence: int, seen: str, *, durable: bool = True) -> None:
        """Note that this entry was seen, even if a later one was; call it under a lock. durable: as of
        `write_atomically`.
        """
        remove_unfinished(self.path)
        content = {"identity": identity, "sequence": sequence, "hash": seen}
        sealed = seal(key, "seen", identity, sequence, seen)
        write_atomically(self.path, json.dumps({**content, "seal": sealed}) + "\n", mode=0o600, durable=durable)

    def advance(self, key: bytes, identity: str, sequence: int, seen: str) -> None:
        """Note that this entry was seen, unless a later one was.

        Raises
        ------
        Tampered
            If the file of the lock is not a file that can be locked.
        """
        try:
            self._lock.acquire()
        except OSError as error:
            raise Tampered(
                f"{self._lock.lock_file} must be a file that can be locked, and it is not ({error.strerror}): remove "
                "it; what was reserved is found again."
            ) from None
        try:
            if self.read(key)[1] < sequence:
                self.write(key, identity, sequence, seen, durable=False)
        finally:
            self._lock.release()
