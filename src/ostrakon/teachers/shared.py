"""Data for all workers of an engine, stored once where they can read it: tasks carry its path."""

import functools
import io
from dataclasses import dataclass
from typing import Any

import joblib

from ostrakon.data.checksummed import Damaged, read_checksummed, sha256, write_checksummed
from ostrakon.data.files import private_folder
from ostrakon.data.object_store import AnyPath, ObjectPath
from ostrakon.validation import InvalidInput

_WHAT = "data shared by workers"


@dataclass(frozen=True)
class SharedValue:
    """The path of a stored value. checksum: of the file, compared before anything in it is unpickled."""

    path: AnyPath
    checksum: str

    def get(self) -> Any:
        """Return the value; a process reads it once. Raises `InvalidInput` if the file is damaged or another one."""
        return _read(self)


def share(value: Any, folder: AnyPath) -> SharedValue:
    """Store `value` in `folder` under a name from its content: repeated runs of the same work use the same file."""
    buffer = io.BytesIO()
    joblib.dump(value, buffer)
    content = buffer.getbuffer()
    name = f"shared-{sha256(content)[:16]}.bin"
    path = folder / name if isinstance(folder, ObjectPath) else private_folder(folder) / name
    return SharedValue(path, write_checksummed(path, content, what=_WHAT))


@functools.lru_cache(maxsize=2)
def _read(value: SharedValue) -> Any:
    try:
        stored = read_checksummed(value.path, what=_WHAT)
    except Damaged as error:
        raise InvalidInput(f"{error}") from None
    if stored is None or stored.checksum != value.checksum:
        raise InvalidInput(f"{value.path} is missing or was replaced during the run; run the same command again.")
    return joblib.load(io.BytesIO(stored.payload))
