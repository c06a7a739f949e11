"""The chain of a ledger: every entry carries a keyed hash of itself and of the entry before."""

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
    """One entry as it is stored.

    Parameters
    ----------
    sequence : int
        From 1, without gaps.
    content : str
        JSON.
    hash : str
        Keyed hash of all entries up to this one.
    """

    sequence: int
    content: str
    hash: str

    @cached_property
    def fields(self) -> dict[str, Any]:
        """The content as plain values."""
        return json.loads(self.content)


class Tampered(InvalidInput):
    """A ledger was changed or cut, or is older than what was seen of it before."""


def first_hash(key: bytes, identity: str) -> str:
    """Return the hash that the first entry follows. The ledger's identity keeps entries out of other ledgers."""
    return _keyed(key, f"ostrakon ledger 2 {identity}")


def next_link(key: bytes, previous: str, sequence: int, content: Mapping[str, Any]) -> Link:
    """Return the link after the one whose hash is `previous`."""
    text = json.dumps(content, sort_keys=True, allow_nan=False)
    return Link(sequence, text, _hash(key, previous, sequence, text))


def verify_chain(key: bytes, last: str, links: Iterable[Link], *, first: int = 1, where: str) -> str:
    """Verify a chain and return its last hash.

    Parameters
    ----------
    key : bytes
        The ledger's key.
    last : str
        Hash of the entry before the first link.
    links : iterable of Link
    first : int
        Sequence of the first link.
    where : str
        The ledger, for the message.

    Raises
    ------
    Tampered
        With the first entry that is not as it was written.
    """
    for sequence, link in enumerate(links, start=first):
        expected = _hash(key, last, sequence, link.content)
        if link.sequence != sequence or not hashes_equal(expected, link.hash):
            raise Tampered(
                f"{where} is not as it was written, from entry {sequence} on: an entry was changed, removed or put in; "
                "restore it, and charge nothing to it until then."
            )
        last = link.hash
    return last


def seal(key: bytes, purpose: str, *parts: object) -> str:
    """Return a keyed hash of what was seen of a ledger ("seen"), or of what all entries add up to ("state")."""
    return _keyed(key, json.dumps([f"ostrakon {purpose} 2", *parts]))


def older_copy(where: str, sequence: int, by: str) -> Tampered:
    """Return the error that a ledger lacks an entry that `by` has seen."""
    return Tampered(
        f"{where} no longer holds entry {sequence}, which {by} has seen: it was restored from an older copy, and "
        "what was spent since then is missing; restore the newest copy, and charge nothing to it until then."
    )


def hashes_equal(expected: str, stored: Any) -> bool:
    """Return whether a stored hash is the expected one."""
    # A file of JSON may hold half of a character's code.
    return isinstance(stored, str) and hmac.compare_digest(expected.encode(), stored.encode("utf-8", "surrogatepass"))


def _hash(key: bytes, previous: str, sequence: int, text: str) -> str:
    return _keyed(key, f"{previous} {sequence} {text}")


def _keyed(key: bytes, text: str) -> str:
    return hmac.digest(key, text.encode(), hashlib.sha256).hex()
