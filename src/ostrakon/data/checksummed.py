"""Files that end with their own checksum, and lists of the checksums of a folder.

A checksummed file is its payload (an .npy, a pickle, …, which ordinary readers still open), then a header that says
what it is and what it belongs to, then the SHA-256 of all that. Reading it detects a flipped bit, a missing end, a file
under another name and a file of another run. It protects against accidents, not against people who may write into the
folder.
"""

import hashlib
import io
import json
import math
import os
import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ostrakon.data.files import write_atomically
from ostrakon.data.object_store import AnyPath, ObjectPath
from ostrakon.validation import InvalidInput

_FOOTER = re.compile(rb"\nostrakon sha256 ([0-9a-f]{64}) ([0-9]{10})\n")
_LARGEST_HEADER = 2**20
_FOOTER_LENGTH = len(b"\nostrakon sha256 ") + 64 + 1 + 10 + 1


class Damaged(InvalidInput):
    """A file was changed after it was written, or is not the file that its name says."""


class Unreachable(InvalidInput):
    """Storage did not answer for a file."""


@dataclass(frozen=True)
class Checksummed:
    """The content of an intact file. belongs: the JSON value that it was written with. checksum: of the whole file."""

    belongs: Any
    payload: bytes
    checksum: str


def write_checksummed(
    path: AnyPath,
    payload: bytes | memoryview,
    *,
    what: str,
    belongs: Any = None,
    mode: int = 0o600,
    create: bool = False,
) -> str:
    """Write `payload`, whole or not at all; returns the checksum.

    what: what the file is, such as "teacher 17"; readers that expect something else refuse it. belongs: a JSON value
    that says what it was made from. mode: permissions, which object storage ignores. create: in object storage, where
    others may write too, refuse to replace a file (raises `FileExistsError`). Raises `CannotWrite` on a full disk.
    """
    header = json.dumps({"what": what, "belongs": belongs}).encode()
    checksum = _checksum(payload, header)
    footer = b"\nostrakon sha256 %s %010d\n" % (checksum.encode(), len(header))

    if isinstance(path, ObjectPath):
        path.put(b"".join((payload, header, footer)), create=create)
        return checksum

    def write(file: Any) -> None:
        for piece in (payload, header, footer):
            file.write(piece)

    write_atomically(path, write, mode=mode)
    return checksum


def read_checksummed(path: AnyPath, *, what: str, largest: int | None = None) -> Checksummed | None:
    """Return the content of a file that `write_checksummed` wrote; None where there is none.

    largest: the most bytes of payload that it may have, for a file from somebody else. Raises `Damaged` where the file
    is not whole, is not `what`, is larger, is not a regular file, or cannot be read; `Unreachable` where object storage
    does not answer.
    """
    try:
        if isinstance(path, ObjectPath):
            content = path.read_bytes()
        else:
            content = read_regular(path, largest=None if largest is None else largest + _LARGEST_HEADER)
    except FileNotFoundError:
        return None
    except OSError as error:
        problem = f"{path} cannot be read ({(error.strerror or str(error)).lower()})"
        if isinstance(path, ObjectPath):
            raise Unreachable(f"{problem}; the same command goes on once storage answers.") from error
        raise Damaged(f"{problem}.") from error
    footer = _FOOTER.fullmatch(content[-_FOOTER_LENGTH:])
    if footer is not None:
        checksum, length = footer[1].decode(), int(footer[2])
        start, end = len(content) - _FOOTER_LENGTH - length, len(content) - _FOOTER_LENGTH
        if start >= 0 and _checksum(memoryview(content)[:start], content[start:end]) == checksum:
            header = _header(content[start:end])
            if header is None:
                raise Damaged(f"{path} must say what it holds and what it belongs to, and it does not.")
            if header["what"] == what:
                return Checksummed(belongs=header["belongs"], payload=content[:start], checksum=checksum)
            raise Damaged(f"{path} must hold {what}, but it holds {header['what'][:80]}: files were mixed up.")
    raise Damaged(f"{path} is damaged: it is not as it was written.")


def find_checksummed(path: AnyPath, *, what: str) -> Checksummed | None:
    """Return `read_checksummed`, but None for a file that is not whole or not `what`, too: it can be made again."""
    try:
        return read_checksummed(path, what=what)
    except Damaged:
        return None


def read_regular(path: str | os.PathLike[str], *, largest: int | None = None) -> bytes:
    """Return the content of a regular file; pipes, devices and folders are refused without waiting for them.

    largest: the maximum size in bytes. Raises `Damaged` for anything but a regular file and for a larger one, `OSError`
    where it cannot be opened.
    """
    # Without O_NONBLOCK, opening a pipe would wait for a writer.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode):
            raise Damaged(f"{path} must be a regular file, and it is not one.")
        too_large = largest is not None and about.st_size > largest
        with os.fdopen(handle, "rb", closefd=False) as file:
            content = b"" if too_large else file.read()
    finally:
        os.close(handle)
    if too_large:
        raise Damaged(f"{path} must have at most {largest:,} bytes, and it has {about.st_size:,}.")
    return content


def npy(array: NDArray[Any]) -> memoryview:
    """Return an array as the bytes of an .npy file."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getbuffer()


def array_from(payload: bytes) -> NDArray[Any]:
    """Return the array of these .npy bytes; `ValueError` for anything else, before a claimed size is allocated."""
    file = io.BytesIO(payload)
    try:
        version = np.lib.format.read_magic(file)
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read_header(file)
        size = math.prod(shape) * dtype.itemsize
    except Exception as error:  # a header is parsed as Python, and a crafted one may raise anything
        raise ValueError("not an .npy file") from error
    if dtype.hasobject or size != len(payload) - file.tell():
        raise ValueError("not an .npy file, or a part of one")
    return np.load(io.BytesIO(payload), allow_pickle=False)


def checksums(folder: str | os.PathLike[str], *, leave_out: Iterable[str] = ()) -> dict[str, str]:
    """Return the SHA-256 of every file in a folder and its subfolders, by relative path, sorted by name."""
    root, out = Path(folder), set(leave_out)
    files = {file.relative_to(root).as_posix(): file for file in root.rglob("*") if not file.is_dir()}
    return {name: _file_checksum(files[name]) for name in sorted(files.keys() - out)}


def digest_of_json(value: Any) -> str:
    """Return the SHA-256 of a JSON value, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def sha256(content: bytes | memoryview) -> str:
    """Return SHA-256 in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def _header(text: bytes) -> dict[str, Any] | None:
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        return None
    is_complete = isinstance(header, dict) and {"what", "belongs"} <= set(header) and isinstance(header["what"], str)
    return header if is_complete and header["what"].isprintable() else None


def _file_checksum(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _checksum(payload: bytes | memoryview, header: bytes) -> str:
    digest = hashlib.sha256(payload)
    digest.update(header)
    # The length says where the payload ends, so a change to it must be detected, too.
    digest.update(b"%010d" % len(header))
    return digest.hexdigest()
