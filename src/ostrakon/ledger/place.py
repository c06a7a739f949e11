"""Where a ledger is: the URLs that it may have, and the files beside an SQLite one."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from filelock import FileLock

from ostrakon.data.files import write_atomically
from ostrakon.data.object_store import is_uri
from ostrakon.ledger.chain import Tampered, equal, seal
from ostrakon.validation import InvalidInput, shown

_ALLOWED = "sqlite:///FILE or postgresql://HOST/DATABASE, without a password"


def require_url(name: str, value: Any) -> str:
    """The URL of a ledger, an SQLite file's path made absolute, so that it is the same from every folder.

    A password is refused, since run.toml keeps the URL: PostgreSQL reads PGPASSWORD or ~/.pgpass.

    >>> require_url("ledger", "postgresql://db.example/budget")
    'postgresql://db.example/budget'
    """
    try:
        parts = urlsplit(value) if isinstance(value, str) else None
        _ = parts is not None and parts.port  # a port that is no number raises
        password = parts is not None and (parts.password or _names_password(parts.query))
    except ValueError:
        parts, password = None, False
    if parts is None or "\0" in value or parts.scheme not in ("sqlite", "postgresql") or password:
        # A password must not come back in a message.
        told = "one with a password" if password else shown(value)
        raise InvalidInput(f"{name} must be {_ALLOWED}, got {told}.")
    if parts.scheme == "postgresql":
        return value
    found = re.fullmatch(r"sqlite:///([^?#]+)", value)
    if found is None or found[1] == ":memory:":
        raise InvalidInput(f"{name} must be {_ALLOWED}, got {shown(value)}.")
    return f"sqlite:///{Path(found[1]).resolve()}"


def beside(data: str | os.PathLike[str]) -> str:
    """The ledger of data on the disk where none is named: budget.db in the folder in which they lie.

    >>> beside("/data/patients.csv")
    'sqlite:////data/budget.db'
    """
    if is_uri(os.fspath(data)):
        raise InvalidInput("ledger must be named, sqlite:////FOLDER/budget.db: data in object storage have no folder.")
    return require_url("ledger", f"sqlite:///{Path(data).resolve().parent / 'budget.db'}")


def _names_password(query: str) -> bool:
    return any(name.strip().lower() == "password" for name, _ in parse_qsl(query, keep_blank_values=True))


def sqlite_file(url: str) -> Path | None:
    """The file of an SQLite ledger; None for a server."""
    return Path(unquote(url.removeprefix("sqlite:///"))) if url.startswith("sqlite:///") else None


class Head:
    """The newest entry that was seen of an SQLite ledger, in a file beside it, which a restored copy does not have.

    It carries a keyed hash: without the ledger's key, only a head that was written before can be put in its place.
    It only ever grows. Written after the entry itself: killed in between, it is one behind, which proves less and
    refuses nothing.
    """

    def __init__(self, database: Path) -> None:
        self.path = database.with_name(f"{database.name}.head")
        self._lock = FileLock(f"{self.path}.lock", mode=0o600)

    def read(self, key: bytes) -> tuple[str, int, str]:
        """(identity, sequence, hash). Errors: `Tampered` where it is gone, damaged or was changed without the key."""
        try:
            held = json.loads(self.path.read_text(encoding="utf-8"))
            seen = str(held["identity"]), int(held["sequence"]), str(held["hash"])
            sealed = held["seal"]
        except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
            raise Tampered(
                f"{self.path} must be beside its ledger, and it is gone or damaged: without it, a ledger that was "
                "restored from an older copy would pass for the newest; restore it."
            ) from None
        if not equal(seal(key, "seen", *seen), sealed):
            raise Tampered(
                f"{self.path} was changed, or belongs to another key: restore it, and charge nothing until then."
            )
        return seen

    def claimed(self) -> int | None:
        """The sequence that it names, without a key to verify it by; None where it names none."""
        try:
            return int(json.loads(self.path.read_text(encoding="utf-8"))["sequence"])
        except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return None

    def write(self, key: bytes, identity: str, sequence: int, seen: str) -> None:
        """Note that this entry was seen, whatever was seen before."""
        content = {"identity": identity, "sequence": sequence, "hash": seen}
        sealed = seal(key, "seen", identity, sequence, seen)
        write_atomically(self.path, json.dumps({**content, "seal": sealed}) + "\n", mode=0o600)

    def advance(self, key: bytes, identity: str, sequence: int, seen: str) -> None:
        """Note that this entry was seen, unless a later one was."""
        with self._lock:
            if self.read(key)[1] < sequence:
                self.write(key, identity, sequence, seen)
