"""The files of a table: where they are, whether they changed, their checksum."""

import contextlib
import hashlib
import os
import re
from pathlib import Path
from typing import Any

from ostrakon.data.object_store import AnyPath, ObjectPath, client, is_uri, stored_path, talk
from ostrakon.validation import InvalidInput

# Unfinished files often have such a name.
_HIDDEN = re.compile(r"\.[^.]")


def parts_of(path: Path | ObjectPath) -> list[str]:
    """Return the files of a table: itself, or all Parquet files of a folder that are not hidden, in order.

    Errors: `InvalidInput` for a folder without any, and for two names of one file, whose rows would count twice.
    """
    if isinstance(path, Path) and not path.is_dir():
        return [path.as_posix()]
    if isinstance(path, ObjectPath):
        try:
            names = {part: part.removeprefix(path.uri) for part in path.below(".parquet")}
        except OSError as error:
            raise InvalidInput(f"{path} cannot be read ({error}).") from None
    else:
        names = {part.as_posix(): part.relative_to(path).as_posix() for part in _parquet_files(path)}
    parts = [part for part, name in names.items() if not any(map(_HIDDEN.match, name.split("/")))]
    if not parts:
        raise InvalidInput(f"{path} must be a Parquet file, or a folder of them; there is none.")
    if isinstance(path, Path):
        same: dict[str, str] = {}
        for part in parts:
            other = same.setdefault(os.path.realpath(part), part)
            if other != part:
                raise InvalidInput(f"{path} must have every file once, and {part} is {other} by another name.")
    return parts


def _parquet_files(folder: Path) -> list[Path]:
    return sorted(part for part in folder.rglob("*") if part.suffix.lower() == ".parquet" and part.is_file())


def file_stamps(path: Path | ObjectPath) -> tuple[tuple[str, ...], ...]:
    """Return name, size, time and inode (or ETag) of every file, which show that a table was written again."""
    if isinstance(path, ObjectPath):
        try:
            return path.stamps()
        except OSError as error:
            raise InvalidInput(f"{path} cannot be read ({error}).") from None
    stamps = list[tuple[str, ...]]()
    for part in _parquet_files(path) if path.is_dir() else [path]:
        with contextlib.suppress(FileNotFoundError):
            status = part.stat()
            stamps.append((part.as_posix(), str(status.st_size), str(status.st_mtime_ns), str(status.st_ino)))
    return tuple(stamps)


def location_of(path: AnyPath) -> Path | ObjectPath:
    if isinstance(path, ObjectPath):
        return path
    return stored_path("A table's place", str(path)) if is_uri(path) else Path(path)


def digest_of_file(path: str | os.PathLike[str], *, key: bytes = b"") -> str:
    """Return the checksum of the bytes of a file; with a key, others cannot use it to test guesses about the content.

    path: may be s3://BUCKET/KEY. Errors: `OSError`.
    """

    def digest(file: Any) -> str:
        with file:
            return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=32, key=key)).hexdigest()

    if is_uri(path):
        return talk(str(path), lambda: digest(client().open(str(path), "rb")))
    return digest(open(path, "rb"))
