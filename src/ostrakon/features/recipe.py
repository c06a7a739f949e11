"""How a recipient computes the features of a frozen encoder, and the checksums of files that it needs."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from ostrakon.validation import InvalidInput


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Lines of Python that turn `rows` into `X`, the input of the released student.

    rows: an array or a data frame in the form of the public rows. needs: requirements for pip.
    files: names of files that must be in the current folder, and of modules that Python must find.
    """

    needs: tuple[str, ...]
    lines: tuple[str, ...]
    files: tuple[str, ...] = ()


def digest_of_file(path: Path) -> str:
    """Return the SHA-256 of a file. Errors: `InvalidInput` where it cannot be read."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {(error.strerror or str(error)).lower()}.") from error
