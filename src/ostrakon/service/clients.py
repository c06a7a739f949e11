"""The clients of a labelling service and what each may ask: a file that holds no token."""

import hashlib
import logging
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import tomli_w
from filelock import FileLock

from ostrakon.data.files import read_toml, write_atomically
from ostrakon.validation import InvalidInput, quote, settle, whole

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,62}[A-Za-z0-9])?")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_HEADER = (
    "# Clients of a labelling service, made by ostrakon. A token is known by its SHA-256 alone: it is shown once.\n\n"
)


def _name(name: str, value: Any) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise InvalidInput(f"{name} of a client must be up to 64 letters, digits and inner -_., got {quote(value)}.")
    return value


def _digest(name: str, value: Any) -> str:
    if not isinstance(value, str) or not _DIGEST.fullmatch(value):
        raise InvalidInput(f"{name} of a client must be the SHA-256 of its token, 64 digits, got {quote(value)}.")
    return value


@dataclass(frozen=True, kw_only=True)
class Client:
    """One client.

    Parameters
    ----------
    name : str
        Up to 64 letters, digits and inner ``-_.``.
    token : str
        SHA-256 of its token, 64 hexadecimal digits.
    answers : int, at least 0
        The number of different rows that it may ask about in all. A client with 0 may read ``/metrics`` instead.
    requests_per_second : int, at least 1
        Requests of any kind.

    Raises
    ------
    InvalidInput
        If a value is not allowed.
    """

    name: str
    token: str
    answers: int
    requests_per_second: int

    def __post_init__(self) -> None:
        settle(self, name=_name, token=_digest, answers=whole, requests_per_second=partial(whole, at_least=1))


def token_digest(token: str) -> str:
    """Return what the file of clients holds instead of a token: its SHA-256."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def read_clients(path: str | os.PathLike[str]) -> dict[str, Client]:
    """Read the clients of a TOML file: tables ``[[client]]`` with the fields of `Client`.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    dict of str to Client
        By the digest of each token.

    Raises
    ------
    InvalidInput
        If the file cannot be read, has other keys or no client, or if two clients share a name or a token.
    """
    content = read_toml("clients", path)
    tables = content.get("client")
    if not isinstance(tables, list) or not tables or set(content) != {"client"}:
        raise InvalidInput(f"{path} must hold tables [[client]], and nothing else; `ostrakon service client` adds one.")
    clients = [_client_from(table, path) for table in tables]
    for field in ("name", "token"):
        values = [getattr(client, field) for client in clients]
        repeated = next((value for value in values if values.count(value) > 1), None)
        if repeated is not None:
            raise InvalidInput(f"Clients in {path} must differ in {field}, got {repeated!r} twice.")
    return {client.token: client for client in clients}


class ClientFile:
    """The clients of a TOML file, read again when the file changes, so that a removed token is refused at once.

    Raises
    ------
    InvalidInput
        As of `read_clients`, for the first reading alone.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._stamp = self._file_stamp()
        self._clients: dict[str, Client] | None = read_clients(path)

    def read(self) -> Mapping[str, Client] | None:
        """Return the clients by the digest of their tokens, as the file is now; None if it cannot be read."""
        if (stamp := self._file_stamp()) != self._stamp:
            self._stamp = stamp
            try:
                self._clients = read_clients(self._path)
            except InvalidInput as error:
                logging.getLogger(__name__).error("Nobody is admitted: %s", error)
                self._clients = None
        return self._clients

    def _file_stamp(self) -> tuple[int, int, int, int] | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino


def add_client(path: str | os.PathLike[str], name: str, *, answers: int, requests_per_second: int = 20) -> str:
    """Add a client to the file, which is made if it is missing.

    Parameters
    ----------
    path : str or path-like
    name, answers, requests_per_second
        As of `Client`.

    Returns
    -------
    str
        The client's token, which is stored nowhere.

    Raises
    ------
    InvalidInput
        As of `read_clients`, and if the name is taken.
    """
    token = secrets.token_urlsafe(32)
    client = Client(name=name, token=token_digest(token), answers=answers, requests_per_second=requests_per_second)
    with FileLock(f"{os.fspath(path)}.lock", mode=0o600):
        clients = list(read_clients(path).values()) if Path(path).exists() else []
        if any(other.name == name for other in clients):
            raise InvalidInput(f"name must be a new client's, and {path} has {name!r} already.")
        text = tomli_w.dumps({"client": [asdict(one) for one in [*clients, client]]})
        write_atomically(path, _HEADER + text, mode=0o600)
    return token


def _client_from(table: Any, path: Any) -> Client:
    fields = set(Client.__dataclass_fields__)
    if not isinstance(table, Mapping) or set(table) != fields:
        raise InvalidInput(f"Every client in {path} must have {', '.join(sorted(fields))}, got {quote(table)}.")
    return Client(**table)
