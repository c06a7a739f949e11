"""Checksums of files that others have made."""

from __future__ import annotations

import hashlib
from pathlib import Path

from ostrakon.validation import InvalidInput


def digest_of_file(path: Path) -> str:
    """SHA-256 of a file. Errors: `InvalidInput` where it cannot be read."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {(error.strerror or str(error)).lower()}.") from error
