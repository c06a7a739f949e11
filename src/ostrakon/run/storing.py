"""A store in object storage belongs to one run folder: claimed before anything private goes there."""

from __future__ import annotations

import contextlib
import secrets
from typing import Any

from ostrakon.data.object_store import ObjectPath, endpoint
from ostrakon.run.folder import RunFolder
from ostrakon.validation import InvalidInput

CLAIM = "claim.txt"


def claim(store: ObjectPath, home: RunFolder) -> None:
    """Make `store` this run folder's own, or find that it is.

    Another run folder would draw noise of its own on the same teachers' votes. The claim is a random name in run.toml,
    created in the store only where there is none (If-None-Match: *) and the store is empty, and read before and after:
    storage that does not know that condition is safe, too, unless two start in the same instant.
    Errors: `InvalidInput` where the store is another run folder's, holds anything without a claim, has lost the claim
    that it had, or does not answer, or this folder has another store or other options.
    """
    held = require_same(store, home)
    first = held is None
    if held is None:
        # Before the claim: killed after that, it finds its own.
        held = {"uri": store.uri, "options": dict(store.options), "endpoint": _endpoint(store)}
        held["claim"] = secrets.token_hex(16)
        home.add("store", held)
    try:
        _put_or_find(store, held)
    except (InvalidInput, OSError):
        if first:
            # Nothing went there: another store may be given.
            home.remove("store")
        raise
    if not held.get("claimed"):
        home.add("store", {**held, "claimed": True})


def require_same(store: ObjectPath, home: RunFolder) -> dict[str, Any] | None:
    """What run.toml says of its store, None where nothing. Errors: `InvalidInput` where that is another one."""
    held = (home.read() or {}).get("store")
    if held is None:
        return None
    if (held["uri"], held["options"]) != (store.uri, dict(store.options)):
        raise InvalidInput(
            f"{home.path} keeps its teachers at {held['uri']} with the options {held['options']}: give the same ones."
        )
    if held["endpoint"] != (now := _endpoint(store)):
        raise InvalidInput(f"{home.path} keeps its teachers at the endpoint {held['endpoint']}, got {now}.")
    return held


def _put_or_find(store: ObjectPath, held: dict[str, Any]) -> None:
    mine, place = str(held["claim"]).encode(), store / CLAIM
    found = _read(place)
    if found is None and held.get("claimed"):
        raise InvalidInput(
            f"{place} is gone: {store} was emptied, or is not the storage that this run began with; restore it, or "
            "start a new run in a new folder."
        )
    if found is None:
        try:
            others = store.below("")
        except OSError as error:
            raise InvalidInput(f"{store} could not be listed ({error}); no row was sent there.") from None
        if others:
            raise InvalidInput(
                f"{store} must be empty at first, and holds {len(others)} objects: choose another folder."
            )
        with contextlib.suppress(FileExistsError):
            place.put(mine, create=True)
    if _read(place) != mine:
        raise InvalidInput(
            f"{store} belongs to another run folder, which alone may draw noise on its teachers' votes: bring that "
            "folder here and give it as --out, or choose another store."
        )


def require_apart(store: ObjectPath, private: Any) -> None:
    """Refuse a store within the folder of the private table, or around it: each would be read as part of the other.

    private: where that table is. Errors: `InvalidInput`.
    """
    if not isinstance(private, ObjectPath):
        return
    inner, outer = sorted((f"{store.uri}/", f"{private.uri}/"), key=len, reverse=True)
    if inner.startswith(outer):
        raise InvalidInput(f"store must be apart from the private table at {private}, got {store}.")


def _endpoint(store: ObjectPath) -> str:
    try:
        return endpoint()
    except OSError as error:
        raise InvalidInput(f"{store} is not reached ({error}); no row was sent there.") from None


def _read(place: ObjectPath) -> bytes | None:
    try:
        return place.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidInput(f"{place} could not be read ({error}); no row was sent there.") from None


def stored_at(home: RunFolder) -> str:
    """Where the run of this folder keeps private rows in object storage, and how; empty where nowhere."""
    held = (home.read() or {}).get("store")
    if not held:
        return ""
    encryption = held["options"].get("ServerSideEncryption")
    how = "no encryption option given" if encryption is None else f"encryption {encryption} asked of it"
    bucket = "/".join(held["uri"].split("/")[:3])
    return f"{bucket} of {held['endpoint']} ({how})"


def with_private_table(trust_model: str, private: Any) -> str:
    """`trust_model`, and whom an operator trusts besides whose private table lies at `private`, in object storage.

    >>> with_private_table("the operator", "patients.csv")
    'the operator'
    """
    if not isinstance(private, ObjectPath):
        return trust_model
    bucket = "/".join(private.uri.split("/")[:3])
    return (
        f"{trust_model}; the private table lies in object storage at {bucket}: whoever runs it or can read that bucket "
        "sees it, and is trusted as the operator is"
    )


def with_store(trust_model: str, stored: str) -> str:
    """`trust_model`, and whom an operator trusts besides whose run keeps shards and teachers at `stored`.

    >>> with_store("the operator", "")
    'the operator'
    """
    if not stored:
        return trust_model
    return (
        f"{trust_model}; private rows, teachers and their predictions were kept in object storage at {stored}: whoever "
        "runs it or can read that bucket saw them, whoever can write there could change them, and both are trusted as "
        "the operator is"
    )
