"""What all workers of an engine are told, put once where they can read it: tasks carry its address."""

from __future__ import annotations

import functools
import io
from dataclasses import dataclass
from typing import Any

import joblib

from ostrakon.data.checksummed import Damaged, read_checksummed, sha256, write_checksummed
from ostrakon.data.files import private_folder
from ostrakon.data.object_store import AnyPath, ObjectPath
from ostrakon.validation import InvalidInput

_WHAT = "what workers are told"


@dataclass(frozen=True)
class Placed:
    """Where something lies. checksum: of the file, which is compared before anything in it is unpickled."""

    path: AnyPath
    checksum: str

    def get(self) -> Any:
        """It, as it was put there; a process reads it once. Raises `InvalidInput` where it is damaged or another."""
        return _read(self)


def place(value: Any, folder: AnyPath) -> Placed:
    """Put `value` into `folder`, under a name of its content: several runs of the same work find the same file."""
    buffer = io.BytesIO()
    joblib.dump(value, buffer)
    content = buffer.getbuffer()
    name = f"told-{sha256(content)[:16]}.bin"
    path = folder / name if isinstance(folder, ObjectPath) else private_folder(folder) / name
    return Placed(path, write_checksummed(path, content, what=_WHAT))


@functools.lru_cache(maxsize=2)
def _read(placed: Placed) -> Any:
    try:
        held = read_checksummed(placed.path, what=_WHAT)
    except Damaged as error:
        raise InvalidInput(f"{error}") from None
    if held is None or held.checksum != placed.checksum:
        raise InvalidInput(
            f"{placed.path} is missing or was exchanged while the run went on; the same command goes on."
        )
    return joblib.load(io.BytesIO(held.payload))
