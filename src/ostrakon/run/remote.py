"""A store in object storage belongs to one run: claimed before anything private goes there, and found again from it."""

import contextlib
import logging
import secrets
from typing import Any

from ostrakon.data.files import CannotWrite
from ostrakon.data.object_store import ObjectPath, endpoint
from ostrakon.run.folder import DESCRIPTION, RunFolder, read_description, require_same_run
from ostrakon.run.noise_log import Marks
from ostrakon.validation import InvalidInput

CLAIM = "claim.txt"


def adopt(store: ObjectPath, home: RunFolder, asked: dict[str, Any], fingerprints: dict[str, str]) -> None:
    """Bring here what `store` knows of its run, so that a new folder, on any machine, goes on with it.

    The noise log is in the store, where a draw is put only once: all folders of the run give the same answers. What
    both know, this folder keeps as it knows it.
    Errors: `InvalidInput` where the store's run was asked for something else or had other data, where this folder has
    begun without a store, or with another run's.
    """
    target, stored = store / DESCRIPTION, home.read()
    content = _read(target)
    begun = stored is not None and home.has_begun(stored)
    if stored is not None and begun and "store" not in stored:
        raise InvalidInput(f"{home.path} keeps its votes and noise itself: give --store at the first call, or never.")
    if content is None:
        return
    there = read_description(content, target)
    own = (stored or {}).get("store", {})
    # Nothing of a run went anywhere before it had its claim.
    known = own["claim"] if own.get("claimed") else there.get("store", {}).get("claim")
    if known is None or known != there.get("store", {}).get("claim"):
        raise InvalidInput(_OTHERS.format(store=store))
    require_same_run(there, asked, fingerprints, where=store)
    here = (stored or {}) if own.get("claimed") else {}
    merged = {**there, **here}
    merged["store"] = {**there["store"], **here.get("store", {}), "claimed": True}
    if drawn := {**there.get("drawn", {}), **here.get("drawn", {})}:
        merged["drawn"] = drawn
    if saw := {name for copy in (there, here) for name in copy.get("engines", {}).get("saw_private_rows", ())}:
        merged["engines"] = {"saw_private_rows": sorted(saw)}
    if stored is None or "store" not in stored:
        logging.getLogger("ostrakon").warning("Going on with the run that %s holds.", store)
    if merged != stored:
        home.write(merged)


_OTHERS = "{store} belongs to another run: give that run's settings and data to go on with it, or choose another store."


def claim(store: ObjectPath, home: RunFolder) -> None:
    """Make `store` this run's own, or find that it is; from then on run.toml has its copy there.

    The claim is a random name in run.toml, created in the store only where there is none (If-None-Match: *) and the
    store is empty, and read before and after: storage that does not know that condition is safe, too, unless two start
    in the same instant.
    Errors: `InvalidInput` where the store is another run's, holds anything without a claim, has lost the claim that it
    had, or does not answer, or this folder has another store or other options.
    """
    stored = require_same(store, home)
    first = stored is None
    if stored is None:
        # Before the claim: killed after that, it finds its own.
        stored = {"uri": store.uri, "options": dict(store.options), "endpoint": _endpoint(store)}
        stored["claim"] = secrets.token_hex(16)
        home.add("store", stored)
    mine, target = str(stored["claim"]).encode(), store / CLAIM
    try:
        if not _is_claimed(store, stored):
            with contextlib.suppress(FileExistsError):
                target.put(mine, create=True)
    except CannotWrite:
        # The claim may be there all the same, its answer lost: this folder remembers it.
        raise
    except (InvalidInput, OSError):
        if first:
            # Nothing went there: another store may be given.
            home.remove("store")
        raise
    if _read(target) != mine:
        if first:
            home.remove("store")
        raise InvalidInput(_OTHERS.format(store=store))
    if not stored.get("claimed"):
        home.add("store", {**stored, "claimed": True})
    home.copy_to(store / DESCRIPTION)


class StoredMarks:
    """Marks of what was drawn (`ostrakon.run.noise_log.Marks`): those of a folder, and an object each in its store.

    Several folders go on with one run, and each writes its own copy of run.toml there: none forgets another's marks.
    """

    def __init__(self, marks: Marks, store: ObjectPath) -> None:
        self._marks, self._folder = marks, store / "marks"

    def get(self, name: str) -> str | None:
        """The checksum of what was drawn, as this folder knows it, else as the store does."""
        mark = self._marks.get(name)
        if mark is not None:
            return mark
        stored = _read(self._folder / name)
        return None if stored is None else stored.decode(errors="replace")

    def __setitem__(self, name: str, checksum: str) -> None:
        """Note it in the store, where it stays, and here."""
        with contextlib.suppress(FileExistsError):
            (self._folder / name).put(checksum.encode(), create=True)
        self._marks[name] = checksum


def require_same(store: ObjectPath, home: RunFolder) -> dict[str, Any] | None:
    """What run.toml says of its store, None where nothing. Errors: `InvalidInput` where that is another one."""
    stored = (home.read() or {}).get("store")
    if stored is None:
        return None
    if (stored["uri"], stored["options"]) != (store.uri, dict(store.options)):
        raise InvalidInput(
            f"{home.path} keeps its votes at {stored['uri']} with the options {stored['options']}: give the same ones."
        )
    if stored["endpoint"] != (now := _endpoint(store)):
        raise InvalidInput(f"{home.path} keeps its votes at the endpoint {stored['endpoint']}, got {now}.")
    return stored


def _is_claimed(store: ObjectPath, stored: dict[str, Any]) -> bool:
    """Whether there is a claim. Errors: `InvalidInput` where there is none, and one cannot be put."""
    if _read(store / CLAIM) is not None:
        return True
    if stored.get("claimed"):
        raise InvalidInput(
            f"{store / CLAIM} is gone: {store} was emptied, or is not the storage that this run began with; restore "
            "it, or start a new run in a new folder."
        )
    try:
        others = store.below("")
    except OSError as error:
        raise InvalidInput(f"{store} could not be listed ({error}); no row was sent there.") from None
    if others:
        raise InvalidInput(f"{store} must be empty at first, and holds {len(others)} objects: choose another folder.")
    return False


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


def _read(target: ObjectPath) -> bytes | None:
    try:
        return target.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidInput(f"{target} could not be read ({error}); no row was sent there.") from None


def stored_at(home: RunFolder) -> str:
    """How the run of this folder keeps what is private in object storage; empty where it does not."""
    stored = (home.read() or {}).get("store")
    if not stored:
        return ""
    encryption = stored["options"].get("ServerSideEncryption")
    return "no encryption option given" if encryption is None else f"with the encryption option {encryption}"
