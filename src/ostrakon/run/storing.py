"""A store in object storage belongs to one run folder: claimed before anything private goes there."""

from __future__ import annotations

import contextlib
import secrets

from ostrakon.data.object_store import ObjectPath
from ostrakon.run.folder import RunFolder
from ostrakon.validation import InvalidInput

CLAIM = "claim.txt"


def claim(store: ObjectPath, home: RunFolder) -> None:
    """Make `store` this run folder's own, or find that it is.

    Another run folder would draw noise of its own on the same teachers' votes. The claim is a random name in run.toml,
    created in the store only where there is none (If-None-Match: *), and read before and after: storage that does not
    know that condition is safe, too, unless two start in the same instant.
    Errors: `InvalidInput` where the store is another run folder's, or this one has another store or other options.
    """
    held = (home.read() or {}).get("store", {})
    options = dict(store.options)
    if held and (held["uri"], held["options"]) != (store.uri, options):
        raise InvalidInput(
            f"{home.path} keeps its teachers at {held['uri']} with the options {held['options']}: give the same ones."
        )
    if not held:
        # Before the claim: killed after that, it finds its own.
        held = {"uri": store.uri, "options": options, "claim": secrets.token_hex(16)}
        home.add("store", held)
    mine, place = str(held["claim"]).encode(), store / CLAIM
    if _read(place) is None:
        with contextlib.suppress(FileExistsError):
            place.put(mine, create=True)
    if _read(place) != mine:
        raise InvalidInput(
            f"{store} belongs to another run folder, which alone may draw noise on its teachers' votes: bring that "
            "folder here and give it as --out, or choose another store."
        )


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
    return f"{held['uri'].split('/')[0]}//{held['uri'].split('/')[2]} ({how})"


def with_store(trust_model: str, stored: str) -> str:
    """`trust_model`, and whom an operator trusts besides whose run keeps shards and teachers at `stored`.

    >>> with_store("the operator", "")
    'the operator'
    """
    if not stored:
        return trust_model
    return (
        f"{trust_model}; private rows, teachers and their predictions were kept in object storage at {stored}: whoever "
        "runs it or can read that bucket saw them, and is trusted as the operator is"
    )
