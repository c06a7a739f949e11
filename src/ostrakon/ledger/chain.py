"""The chain of a ledger: every entry carries a keyed hash of itself and of the one before."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ostrakon.validation import InvalidInput


@dataclass(frozen=True)
class Link:
    """One entry as it is stored. sequence: from 1, without gaps. content: JSON text. hash: of all up to here."""

    sequence: int
    content: str
    hash: str

    @cached_property
    def fields(self) -> dict[str, Any]:
        """What the content says."""
        return json.loads(self.content)


class Tampered(InvalidInput):
    """A ledger is not as it was written: changed, cut, or older than what was seen of it before."""


def beginning(key: bytes, identity: str) -> str:
    """What the first entry is chained to. identity: of the ledger, so that no entry fits into another one."""
    return _keyed(key, f"ostrakon ledger 2 {identity}")


def following(key: bytes, previous: str, sequence: int, content: Mapping[str, Any]) -> Link:
    """The link after the one whose hash is `previous`."""
    text = json.dumps(content, sort_keys=True, allow_nan=False)
    return Link(sequence, text, _hash(key, previous, sequence, text))


def require_whole(key: bytes, last: str, links: Iterable[Link], *, first: int = 1, where: str) -> str:
    """The last hash of a chain without a flaw; else `Tampered`, which names the first entry that is not as written.

    last: the hash of the entry before `first`, from which on `links` are.
    """
    for expected, link in enumerate(links, start=first):
        right = _hash(key, last, expected, link.content)
        if link.sequence != expected or not equal(right, link.hash):
            raise Tampered(
                f"{where} is not as it was written, from entry {expected} on: an entry was changed, removed or put in; "
                "restore it, and charge nothing to it until then."
            )
        last = link.hash
    return last


def seal(key: bytes, what: str, *parts: object) -> str:
    """A keyed hash of a head: of what was seen, or of what all entries add up to."""
    return _keyed(key, json.dumps([f"ostrakon {what} 2", *parts]))


def older(where: str, sequence: int, by: str) -> Tampered:
    """That a ledger lacks an entry that `by` has seen."""
    return Tampered(
        f"{where} no longer holds entry {sequence}, which {by} has seen: it was restored from an older copy, and "
        "what was spent since then is missing; restore the newest copy, and charge nothing to it until then."
    )


def equal(right: str, held: Any) -> bool:
    """Whether a stored hash is the right one."""
    return isinstance(held, str) and hmac.compare_digest(right.encode(), held.encode())


def _hash(key: bytes, previous: str, sequence: int, text: str) -> str:
    return _keyed(key, f"{previous} {sequence} {text}")


def _keyed(key: bytes, text: str) -> str:
    return hmac.digest(key, text.encode(), hashlib.sha256).hex()
