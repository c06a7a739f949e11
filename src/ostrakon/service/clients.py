"""Who may ask a labelling service, and how much: a file of clients, in which no token stands."""

from __future__ import annotations

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
from ostrakon.validation import InvalidInput, settle, shown, whole

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,62}[A-Za-z0-9])?")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_HEADER = (
    "# Clients of a labelling service, made by ostrakon. A token is known by its SHA-256 alone: it is shown once.\n\n"
)


def _name(name: str, value: Any) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise InvalidInput(f"{name} of a client must be up to 64 letters, digits and inner -_., got {shown(value)}.")
    return value


def _digest(name: str, value: Any) -> str:
    if not isinstance(value, str) or not _DIGEST.fullmatch(value):
        raise InvalidInput(f"{name} of a client must be the SHA-256 of its token, 64 digits, got {shown(value)}.")
    return value


@dataclass(frozen=True, kw_only=True)
class Client:
    """One client. token: SHA-256 of its token. answers: so many different rows may it put to the teachers, ever;
    requests_per_second: of any kind.

    Errors: `InvalidInput` for a name that is no word, a digest that is none, numbers that are not whole or below 1.
    """

    name: str
    token: str
    answers: int
    requests_per_second: int

    def __post_init__(self) -> None:
        some = partial(whole, at_least=1)
        settle(self, name=_name, token=_digest, answers=some, requests_per_second=some)


def digest_of(token: str) -> str:
    """What the file of clients holds in place of a token."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def read_clients(path: str | os.PathLike[str]) -> dict[str, Client]:
    """The clients of a TOML file, by the digest of their tokens: tables [[client]] as `Client` has fields.

    Errors: `InvalidInput` for a file that cannot be read, other keys, two clients of one name or token, none at all.
    """
    content = read_toml("clients", path)
    held = content.get("client")
    if not isinstance(held, list) or not held or set(content) != {"client"}:
        raise InvalidInput(f"{path} must hold tables [[client]], and nothing else; `ostrakon client` adds one.")
    clients = [_client(each, path) for each in held]
    for name in ("name", "token"):
        values = [getattr(each, name) for each in clients]
        twice = next((value for value in values if values.count(value) > 1), None)
        if twice is not None:
            raise InvalidInput(f"Clients in {path} must differ in {name}, got {twice!r} twice.")
    return {each.token: each for each in clients}


class ClientFile:
    """The clients of a TOML file, read again when the file changes: a token that is taken out is refused at once.

    Errors at the start as `read_clients`; later, a file that cannot be read admits nobody (`readable`).
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._stamp = self._now()
        self._clients: dict[str, Client] | None = read_clients(path)

    def readable(self) -> bool:
        """Whether the file, as it is now, could be read."""
        if (stamp := self._now()) != self._stamp:
            self._stamp = stamp
            try:
                self._clients = read_clients(self._path)
            except InvalidInput as error:
                logging.getLogger(__name__).error("Nobody is admitted: %s", error)
                self._clients = None
        return self._clients is not None

    def by_token(self) -> Mapping[str, Client]:
        """The clients by the digest of their tokens."""
        return self._clients or {}

    def _now(self) -> tuple[int, int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino


def add_client(path: str | os.PathLike[str], name: str, *, answers: int, requests_per_second: int = 20) -> str:
    """Add a client to the file, made where it is missing, and return its token, which is kept nowhere.

    Errors: `InvalidInput` as `read_clients`, and for a name that is there.
    """
    token = secrets.token_urlsafe(32)
    made = Client(name=name, token=digest_of(token), answers=answers, requests_per_second=requests_per_second)
    with FileLock(f"{os.fspath(path)}.lock", mode=0o600):
        held = list(read_clients(path).values()) if Path(path).exists() else []
        if any(each.name == name for each in held):
            raise InvalidInput(f"name must be a new client's, and {path} has {name!r} already.")
        text = tomli_w.dumps({"client": [asdict(each) for each in [*held, made]]})
        write_atomically(path, _HEADER + text, mode=0o600)
    return token


def _client(held: Any, path: Any) -> Client:
    wanted = set(Client.__dataclass_fields__)
    if not isinstance(held, Mapping) or set(held) != wanted:
        raise InvalidInput(f"Every client in {path} must have {', '.join(sorted(wanted))}, got {shown(held)}.")
    return Client(**held)
