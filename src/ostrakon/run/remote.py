"""A store in object storage belongs to one run, which claims it before private data are sent."""

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
    """Copy the description of a run from `store`, so that a new folder, on any machine, continues it.

    The noise log is in the store, where each draw is written once: all folders of the run give the same answers.
    Entries that both have stay as in this folder.
    Errors: `InvalidInput` if the store's run had other options or other data, or if this folder has begun without a
    store or with that of another run.
    """
    target, stored = store / DESCRIPTION, home.read()
    content = _read(target)
    begun = stored is not None and home.has_begun(stored)
    if stored is not None and begun and "store" not in stored:
        raise InvalidInput(f"{home.path} keeps its votes and noise itself: give --store at the first call, or never.")
    if content is None:
        return
    remote = read_description(content, target)
    local_store = (stored or {}).get("store", {})
    # Before its claim, a run sends nothing.
    owner = local_store["claim"] if local_store.get("claimed") else remote.get("store", {}).get("claim")
    if owner is None or owner != remote.get("store", {}).get("claim"):
        raise InvalidInput(_OTHERS.format(store=store))
    require_same_run(remote, asked, fingerprints, where=store)
    local = (stored or {}) if local_store.get("claimed") else {}
    merged = {**remote, **local}
    merged["store"] = {**remote["store"], **local.get("store", {}), "claimed": True}
    if marks := {**remote.get("drawn", {}), **local.get("drawn", {})}:
        merged["drawn"] = marks
    if engines := {name for copy in (remote, local) for name in copy.get("engines", {}).get("saw_private_rows", ())}:
        merged["engines"] = {"saw_private_rows": sorted(engines)}
    if stored is None or "store" not in stored:
        logging.getLogger("ostrakon").warning("Going on with the run that %s holds.", store)
    if merged != stored:
        home.write(merged)


_OTHERS = "{store} belongs to another run: give that run's settings and data to go on with it, or choose another store."


def claim(store: ObjectPath, home: RunFolder) -> None:
    """Claim `store` for this run, or check its claim; from then on a copy of run.toml is stored there.

    The claim is a random name in run.toml, created in the store only if there is none (If-None-Match: *) and the store
    is empty, and read before and after: storage without that condition is also safe unless two runs start in the same
    instant.
    Errors: `InvalidInput` if the store belongs to another run, is not empty without a claim, has lost its claim or does
    not answer, or if this folder has another store or other options.
    """
    stored = require_same(store, home)
    first = stored is None
    if stored is None:
        # Stored before the claim: a run that is killed after that recognizes it.
        stored = {"uri": store.uri, "options": dict(store.options), "endpoint": _endpoint(store)}
        stored["claim"] = secrets.token_hex(16)
        home.add("store", stored)
    token, target = str(stored["claim"]).encode(), store / CLAIM
    try:
        if not _is_claimed(store, stored):
            with contextlib.suppress(FileExistsError):
                target.put(token, create=True)
    except CannotWrite:
        # The claim may have been written although no answer arrived, so this folder keeps it.
        raise
    except (InvalidInput, OSError):
        if first:
            # Nothing was sent, so another store may be given.
            home.remove("store")
        raise
    if _read(target) != token:
        if first:
            home.remove("store")
        raise InvalidInput(_OTHERS.format(store=store))
    if not stored.get("claimed"):
        home.add("store", {**stored, "claimed": True})
    home.copy_to(store / DESCRIPTION)


class StoredMarks:
    """Marks of draws (`ostrakon.run.noise_log.Marks`), in a folder and as objects in its store.

    Several folders may continue one run, and each writes its own copy of run.toml there; all keep all marks.
    """

    def __init__(self, marks: Marks, store: ObjectPath) -> None:
        self._marks, self._folder = marks, store / "marks"

    def get(self, name: str) -> str | None:
        """Return the checksum of a draw from this folder, else from the store."""
        mark = self._marks.get(name)
        if mark is not None:
            return mark
        stored = _read(self._folder / name)
        return None if stored is None else stored.decode(errors="replace")

    def __setitem__(self, name: str, checksum: str) -> None:
        """Store it in the store and in this folder."""
        with contextlib.suppress(FileExistsError):
            (self._folder / name).put(checksum.encode(), create=True)
        self._marks[name] = checksum


def require_same(store: ObjectPath, home: RunFolder) -> dict[str, Any] | None:
    """Return the entry of the store in run.toml, None without one. Errors: `InvalidInput` for another store."""
    stored = (home.read() or {}).get("store")
    if stored is None:
        return None
    if (stored["uri"], stored["options"]) != (store.uri, dict(store.options)):
        raise InvalidInput(
            f"{home.path} keeps its votes at {stored['uri']} with the options {stored['options']}: give the same ones."
        )
    if stored["endpoint"] != (current := _endpoint(store)):
        raise InvalidInput(f"{home.path} keeps its votes at the endpoint {stored['endpoint']}, got {current}.")
    return stored


def _is_claimed(store: ObjectPath, stored: dict[str, Any]) -> bool:
    """Return whether there is a claim. Errors: `InvalidInput` if there is none and none can be created."""
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
    """Refuse a store inside the folder of the private table, or around it: each would be read as part of the other.

    private: the path of that table. Errors: `InvalidInput`.
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
    """Return how this run stores private data in object storage, in words; empty if it does not."""
    stored = (home.read() or {}).get("store")
    if not stored:
        return ""
    encryption = stored["options"].get("ServerSideEncryption")
    return "no encryption option given" if encryption is None else f"with the encryption option {encryption}"
