"""Files that are whole or absent: written aside, flushed to the disk, then renamed into place."""

import contextlib
import csv
import errno
import glob
import io
import json
import math
import os
import tempfile
import tomllib
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any, BinaryIO

from ostrakon.validation import InvalidInput

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
CONTINUES = "a run keeps what it finished, and the same command continues it"
"""What a user may do once the reason of a failed write is gone."""


class CannotWrite(InvalidInput):
    """A file could not be written in full; nothing half-written is left behind under its name."""


def csv_text(rows: Iterable[Iterable[Any]]) -> str:
    """Return rows as the text of a CSV file."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def private_folder(path: str | os.PathLike[str]) -> Path:
    """Return the folder `path`, created where it is missing, open to its owner alone (mode 0700).

    An existing folder keeps its mode, because others may share it (the files in it are still private).
    Raises `CannotWrite` where it cannot be made, such as on a full or read-only disk.
    """
    folder = Path(path)
    try:
        if not folder.is_dir():
            folder.mkdir(parents=True, mode=0o700, exist_ok=True)
            folder.chmod(0o700)
    except OSError as error:
        raise cannot_write(folder, error) from error
    return folder


def write_atomically(
    path: str | os.PathLike[str],
    content: bytes | str | Callable[[BinaryIO], object],
    *,
    mode: int = 0o600,
    durable: bool = True,
) -> None:
    """Write a file so that a process that is killed at any moment leaves the old file or the new one, never a part.

    content: bytes, text (written as UTF-8), or a function that writes to the open binary file.
    mode: permissions of the new file; default: readable by its owner alone.
    durable: False saves the flush of the folder; a power cut may then bring the old file back.
    Raises `CannotWrite` on a full disk or any other failure of the system; the file under `path` stays as it was.
    """
    target = Path(path)
    aside: str | None = None
    try:
        # The same folder, because a rename is atomic within one file system only.
        handle, aside = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
        with os.fdopen(handle, "wb") as file:
            if callable(content):
                content(file)
            else:
                file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(aside, mode)
        os.replace(aside, target)
        if durable:
            sync_folder(target.parent)
    except OSError as error:
        _forget(aside)
        raise cannot_write(target, error) from error
    except BaseException:
        _forget(aside)
        raise


def remove_unfinished(path: Path) -> None:
    """Remove what processes that were killed in `write_atomically` left beside a file that no process writes now."""
    for aside in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
        _forget(str(aside))


def require_writable(name: str, path: str | os.PathLike[str], *, endings: tuple[str, ...] = ()) -> None:
    """Refuse a folder, or with endings a file, that cannot be written, before anything is computed. Nothing is made.

    name: of the argument. endings: those that the name of the file may have; its folder must exist.
    Errors: `InvalidInput`.
    """
    target = Path(path).absolute()
    ancestors = target.parents[:1] if endings else (target, *target.parents)
    nearest = next((folder for folder in ancestors if os.path.lexists(folder)), target)
    is_taken = endings and (target.is_dir() or target.suffix.lower() not in endings)
    if is_taken or not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        kind = f"file ({', '.join(endings)}) in a folder" if endings else "folder"
        raise InvalidInput(f"{name} must be a {kind} that can be written, got {path}.")


def read_toml(name: str, path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the content of a TOML file that a user wrote, with or without a byte order mark. name: of the argument.

    Errors: `InvalidInput` for a file that cannot be read, or is not TOML.
    """
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InvalidInput(f"{name} must be a readable TOML file, got {path} ({reason}).") from None


def read_json(path: str | os.PathLike[str]) -> Any:
    """Return the value in a file of JSON, read so that every reader understands the same.

    Errors: `InvalidInput` for a file that cannot be read or is not JSON, a key twice in one object, a number that is
    not finite, and deep nesting.
    """

    def of_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        if len(value) < len(pairs):
            raise ValueError("a key stands twice in one object")
        return value

    def of_number(text: str) -> float:
        if not math.isfinite(number := float(text)):
            raise ValueError(f"{text[:30]} is not a finite number")
        return number

    try:
        text = Path(path).read_bytes().decode("utf-8")
        return json.loads(text, object_pairs_hook=of_pairs, parse_float=of_number, parse_constant=of_number)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
    except RecursionError:
        reason = "it is nested too deeply"
    raise InvalidInput(f"{path} must be readable JSON ({reason}).")


def write_json(path: str | os.PathLike[str], content: Any) -> None:
    """Write plain values as a file of JSON that everybody may read, as `write_atomically` does; no NaN, no infinity."""
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
    write_atomically(path, text + "\n", mode=0o644)


def sweep(folder: str | os.PathLike[str]) -> None:
    """Remove what killed writers left in a folder: the `.part` files of `write_atomically`."""
    for left in Path(folder).glob(".*.part"):
        left.unlink(missing_ok=True)


def sync_folder(folder: str | os.PathLike[str]) -> None:
    """Flush a folder's list of names to the disk: a rename survives a power cut only after this."""
    # Not every file system lets a folder be opened or flushed; the rename itself has already happened.
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def cannot_write(path: str | os.PathLike[str], error: OSError) -> CannotWrite:
    """Return the one sentence that tells a user why `path` could not be written."""
    reason = "the disk is full" if error.errno in _FULL else (error.strerror or str(error)).lower()
    return CannotWrite(f"{path} could not be written: {reason}; {CONTINUES}.")


@contextlib.contextmanager
def writing(path: str | os.PathLike[str]) -> Generator[None]:
    """Turn a failure of the system while writing `path` into `CannotWrite`."""
    try:
        yield
    except OSError as error:
        raise cannot_write(path, error) from error


def _forget(aside: str | None) -> None:
    if aside is not None:
        with contextlib.suppress(OSError):
            os.unlink(aside)
