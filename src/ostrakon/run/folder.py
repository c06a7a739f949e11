"""The folder of a run: created, recognized, locked, and refused if it belongs to another run."""

import contextlib
import os
import shutil
import tomllib
from collections.abc import Generator
from pathlib import Path
from typing import Any, Protocol

import tomli_w
from filelock import FileLock, Timeout

from ostrakon.data.checksummed import digest_of_json
from ostrakon.data.files import cannot_write, private_folder, sweep, write_atomically
from ostrakon.data.object_store import ObjectPath
from ostrakon.run.noise_log import Marks
from ostrakon.validation import InvalidInput

FORMAT = 4

DESCRIPTION = "run.toml"

_HEADER = """\
# A run of ostrakon. The same command goes on from wherever it was stopped.
# This file and private/ stay where the private data is: fingerprints are not covered by the guarantee.
# release/ is what may leave.

"""

_PLAN_TABLES = {"asked", "settled", "date", "versions", "fingerprints"}
_REBUILDABLE = {"outside_public_range.json", "representation.joblib", "shards", "features"}
"""Contents of private/ before there are votes or teachers."""


class Receipts(Protocol):
    """Storage of a run's reservation: in run.toml, or in memory."""

    def receipt(self) -> dict[str, Any] | None:
        """Return what was stored, None at first."""
        ...

    def keep_receipt(self, receipt: dict[str, Any]) -> None:
        """Store it; it is on the disk when this returns."""
        ...


class RunFolder:
    """The folder of one run.

    path/run.toml: requested and settled options, date, versions, fingerprints, marks of drawn noise, and the
    reservation in a ledger. path/private (0700): must never leave. path/release: may be published.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.private = self.path / "private"
        self.release = self.path / "release"
        self.description = self.path / DESCRIPTION
        self._copy: ObjectPath | None = None

    @contextlib.contextmanager
    def opened(self) -> "Generator[RunFolder]":
        """Create the folder if it is missing, and lock it for this process.

        Errors: `InvalidInput` if the path is a file, a folder that is not a run of ostrakon, or in use.
        """
        new = not self.path.exists()
        self._make()
        # The system releases this lock when the process ends, however it ends.
        lock = FileLock(self.path / ".lock", timeout=0, mode=0o600)
        try:
            lock.acquire()
        except Timeout:
            raise InvalidInput(f"{self.path} is in use by another ostrakon process; wait until it is done.") from None
        except OSError as error:
            raise cannot_write(self.path / ".lock", error) from error
        try:
            sweep(self.path)
            private_folder(self.private)
            sweep(self.private)
            yield self
        except BaseException:
            self._remove_if_empty(new=new)
            raise
        finally:
            lock.release()

    def read(self) -> dict[str, Any] | None:
        """Return the content of run.toml, None before it is first written. Refuse one that ostrakon did not write."""
        if not self.description.exists():
            return None
        try:
            return read_description(self.description.read_bytes(), self.description)
        except OSError as error:
            raise InvalidInput(f"{self.description} must be a TOML file written by ostrakon ({error}).") from None

    def write(self, content: dict[str, Any]) -> None:
        """Write run.toml atomically, with a checksum of its content, and its copy, if there is one."""
        header = {"format": FORMAT, "checksum": digest_of_json(content)}
        text = _HEADER + tomli_w.dumps({"ostrakon": header, **content})
        write_atomically(self.description, text, mode=0o600)
        if self._copy is not None:
            self._copy.put(text.encode())

    def copy_to(self, target: ObjectPath) -> None:
        """Copy run.toml to `target`, now and whenever it is written."""
        self._copy = target
        self.write(self.read() or {})

    def add(self, name: str, table: dict[str, Any]) -> None:
        """Write a table into run.toml, replacing the one with that name."""
        self.write({**(self.read() or {}), name: table})

    def remove(self, name: str) -> None:
        """Remove a table from run.toml."""
        self.write({key: value for key, value in (self.read() or {}).items() if key != name})

    def receipt(self) -> dict[str, Any] | None:
        """See `Receipts`; in run.toml, which a copy without private/ still has."""
        return (self.read() or {}).get("ledger")

    def keep_receipt(self, receipt: dict[str, Any]) -> None:
        """See `Receipts`."""
        self.add("ledger", receipt)

    @property
    def identity(self) -> str:
        """A checksum of requested options, settled options and data, which identifies the files in private/."""
        content = self.read() or {}
        return digest_of_json({key: content.get(key) for key in ("asked", "settled", "fingerprints")})

    @property
    def marks(self) -> Marks:
        """The marks of drawn noise in run.toml."""
        return _DrawMarks(self)

    def refuse_other_run(self, asked: dict[str, Any], fingerprints: dict[str, str], *, begun: bool = False) -> None:
        """Refuse to continue a run that had other options or other data.

        begun: refuse only a run that has begun (see `take_over`).
        """
        content = self.read()
        if content is None or (begun and not self.has_begun(content)):
            return
        require_same_run(content, asked, fingerprints, where=self.path)

    def take_over(self, asked: dict[str, Any], fingerprints: dict[str, str]) -> None:
        """Do `refuse_other_run`, within `opened`, but remove another run that had not begun.

        A run has begun if there are votes, teachers, noise, a release or a reservation in a ledger. Before that, for
        example if its encoder failed, there is only a plan and what can be computed again from the data.
        """
        content = self.read()
        if content is None:
            return
        same = content.get("asked") == asked and fingerprints.items() <= content.get("fingerprints", {}).items()
        if not same and not self.has_begun(content):
            try:
                empty = [entry for entry in self.private.iterdir() if _is_empty(entry)]
                for path in (*(self.private / name for name in _REBUILDABLE), *empty):
                    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
                # Removed last, because a folder without it must not contain private files.
                self.description.unlink()
            except OSError as error:
                raise cannot_write(self.path, error) from error
        self.refuse_other_run(asked, fingerprints)

    def has_begun(self, content: dict[str, Any]) -> bool:
        """Return whether the run described by `content` of run.toml has left more than can be computed again."""
        entries = list(self.private.iterdir()) if self.private.is_dir() else []
        kept = {entry.name for entry in entries if not _is_empty(entry)}
        return bool(set(content) - _PLAN_TABLES or kept - _REBUILDABLE or self.release.exists())

    def _remove_if_empty(self, *, new: bool) -> None:
        """Remove an empty folder after a refused run. new: whether this process created it."""
        names = {entry.name for entry in self.path.iterdir()}
        if names <= {".lock", "private"} and _is_empty(self.private):
            self.private.rmdir()
            (self.path / ".lock").unlink(missing_ok=True)
            if new:
                self.path.rmdir()

    def _make(self) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise InvalidInput(f"The run folder must be a folder, got the file {self.path}.")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise cannot_write(self.path, error) from error
        names = {entry.name for entry in self.path.iterdir() if not entry.name.endswith(".part")}
        if "run.toml" not in names and names - {".lock", "private"}:
            raise InvalidInput(
                f"{self.path} exists and is not a run of ostrakon (it has no run.toml); choose a new folder."
            )
        private = self.path / "private"
        if "run.toml" not in names and private.is_dir() and any(private.iterdir()):
            raise InvalidInput(f"{self.path} holds private/ but no run.toml: restore it or choose a new folder.")


def read_description(content: bytes, where: Any) -> dict[str, Any]:
    """Return the content of a run.toml. Errors: `InvalidInput` if ostrakon did not write it, or it was changed."""
    try:
        described = tomllib.loads(content.decode())
    except ValueError as error:
        raise InvalidInput(f"{where} must be a TOML file written by ostrakon ({error}).") from None
    header = described.pop("ostrakon", None)
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise InvalidInput(f"{where} must be written by this version of ostrakon, format {FORMAT}.")
    if header.get("checksum") != digest_of_json(described):
        raise InvalidInput(
            f"{where} was changed after it was written: what it says of the run can no longer be relied on; restore it "
            "or start a new run in a new folder."
        )
    return described


def require_same_run(
    content: dict[str, Any], asked: dict[str, Any], fingerprints: dict[str, str], *, where: Any
) -> None:
    """Refuse a run, stored at `where`, with other options or other data. Errors: `InvalidInput`."""
    # A study in another folder would draw its noise a second time.
    other = "" if "study" in asked else " or choose another folder"
    stored_request = content.get("asked", {})
    changed_settings = [
        key for key in dict.fromkeys([*asked, *stored_request]) if asked.get(key) != stored_request.get(key)
    ]
    if changed_settings:
        differences = ", ".join(
            f"{key.replace('_', ' ')} was {_format(stored_request.get(key))}, now {_format(asked.get(key))}"
            for key in changed_settings
        )
        raise InvalidInput(f"{where} holds another run ({differences}); repeat its settings{other}.")
    changed_data = sorted(
        key for key, value in fingerprints.items() if content.get("fingerprints", {}).get(key) != value
    )
    if changed_data:
        raise InvalidInput(
            f"{where} holds a run on other data (the {' and the '.join(changed_data)} data changed); "
            f"give the same files{other}."
        )


class _DrawMarks:
    """Checksums of drawn noise in the table [drawn] of run.toml, which copies without private/ also have."""

    def __init__(self, home: RunFolder) -> None:
        self._home = home

    def get(self, name: str) -> str | None:
        return (self._home.read() or {}).get("drawn", {}).get(name)

    def __setitem__(self, name: str, checksum: str) -> None:
        marks = (self._home.read() or {}).get("drawn", {})
        self._home.add("drawn", {**marks, name: checksum})


def _is_empty(entry: Path) -> bool:
    """Return whether it is an empty folder."""
    return entry.is_dir() and not entry.is_symlink() and not any(entry.iterdir())


def _format(value: Any) -> str:
    return "not given" if value is None else repr(value)
