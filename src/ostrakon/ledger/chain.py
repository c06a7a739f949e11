"""The chain of a ledger: every entry carries a keyed hash of itself and of the one before."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ostrakon.validation import InvalidInput


@dataclass(frozen=True)
class Link:
    """One entry as it is stored. sequence: from 1, without gaps. content: JSON text. hash: of all up to here."""

    sequence: int
    content: str
    hash: str

    @property
    def fields(self) -> dict[str, Any]:
        """What the content says."""
        return json.loads(self.content)


class Tampered(InvalidInput):
    """A ledger is not as it was written: changed, cut, or older than what was seen of it before."""


def beginning(key: bytes, identity: str) -> str:
    """What the first entry is chained to. identity: of the ledger, so that no entry fits into another one."""
    return _keyed(key, f"ostrakon ledger 1 {identity}")


def following(key: bytes, previous: str, sequence: int, content: Mapping[str, Any]) -> Link:
    """The link after the one whose hash is `previous`."""
    text = json.dumps(content, sort_keys=True, allow_nan=False)
    return Link(sequence, text, _hash(key, previous, sequence, text))


def require_whole(key: bytes, identity: str, links: Sequence[Link], *, where: str) -> str:
    """The last hash of a chain without a flaw; else `Tampered`, which names the first entry that is not as written."""
    last = beginning(key, identity)
    for expected, link in enumerate(links, start=1):
        right = _hash(key, last, expected, link.content)
        if link.sequence != expected or not _equal(right, link.hash):
            raise Tampered(
                f"{where} is not as it was written, from entry {expected} on: an entry was changed, removed or put in; "
                "restore it, and charge nothing to it until then."
            )
        last = link.hash
    return last


def require_seen(links: Sequence[Link], *, sequence: int, seen: str, start: str, where: str, by: str) -> None:
    """`Tampered` unless the chain still holds the entry that `by` has seen before."""
    held = start if sequence == 0 else links[sequence - 1].hash if 0 < sequence <= len(links) else None
    if held is None or not _equal(held, seen):
        raise Tampered(
            f"{where} no longer holds entry {sequence}, which {by} has seen: it was restored from an older copy, and "
            "what was spent since then is missing; restore the newest copy, and charge nothing to it until then."
        )


def _equal(right: str, held: Any) -> bool:
    return isinstance(held, str) and hmac.compare_digest(right.encode(), held.encode())


def _hash(key: bytes, previous: str, sequence: int, text: str) -> str:
    return _keyed(key, f"{previous} {sequence} {text}")


def _keyed(key: bytes, text: str) -> str:
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
