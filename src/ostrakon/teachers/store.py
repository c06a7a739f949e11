"""Teachers on disk: each saved when it is done, verified when it is read, private to their owner."""

from __future__ import annotations

import hashlib
import io
import json
import os
from pathlib import Path
from typing import Any

import joblib
import numpy as np

from ostrakon.data.files import private_folder, sweep, write_atomically
from ostrakon.validation import InvalidInput

_MAGIC = b"ostrakon teacher 1\n"


class TeacherStore:
    """A private folder of trained teachers, one file each, that a killed run resumes from.

    path: the folder (such as my-run/private/teachers), created with mode 0700; files have mode 0600.

    A file is a line of JSON (the fingerprint of what the teacher was trained on, the checksum of the rest) and
    the pickled model. A file that is damaged counts as absent. Pickles run code when they are read: a store is
    as private as the data it was trained on, and must be read only by those who own it.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = private_folder(path)
        for folder in (self.path, *self.path.glob("predictions-*")):
            sweep(folder)

    def __repr__(self) -> str:
        return f"TeacherStore({str(self.path)!r})"

    def open(self, specification: dict[str, Any]) -> None:
        """Tie the folder to what is being trained; refuse it where it holds teachers of something else.

        specification: what every teacher shares (estimator, parameters, seed, classes, number of teachers).
        """
        text = json.dumps(specification, sort_keys=True, indent=1, default=repr)
        file = self.path / "specification.json"
        if not file.exists():
            write_atomically(file, text)
            return
        asked = json.loads(text)
        try:
            held = json.loads(file.read_text())
        except (OSError, ValueError) as error:
            raise InvalidInput(f"The specification {file} cannot be read; choose another folder.") from error
        if held != asked:
            different = ", ".join(sorted(key for key in {*held, *asked} if held.get(key) != asked.get(key)))
            raise InvalidInput(
                f"{self.path} holds teachers of another run (different: {different}); "
                "choose another folder or repeat that run's settings."
            )

    def file(self, index: int) -> Path:
        """Where teacher `index` is or will be."""
        return self.path / f"teacher-{index:05d}.bin"

    def save(self, index: int, model: Any, *, fingerprint: str) -> None:
        """Write a teacher, all of it or nothing. Raises `CannotWrite` on a full disk."""
        buffer = io.BytesIO()
        joblib.dump(model, buffer)
        _write(self.file(index), buffer.getbuffer(), fingerprint)

    def load(self, index: int) -> Any:
        """The model of teacher `index`. Raises `InvalidInput` where it is missing or damaged."""
        held = _read(self.file(index))
        if held is None:
            raise InvalidInput(f"{self.file(index)} is missing or damaged; the same command trains it again.")
        return joblib.load(io.BytesIO(held[1]))

    def has(self, index: int, *, fingerprint: str) -> bool:
        """Whether teacher `index` is there and whole.

        Raises `InvalidInput` where it is, but was trained on something else than what `fingerprint` describes.
        """
        held = _read(self.file(index))
        if held is not None and held[0] != fingerprint:
            raise InvalidInput(
                f"{self.file(index)} was trained on other rows than the ones given now; "
                "choose another folder or give the data of that run."
            )
        return held is not None

    def predictions_file(self, index: int, queries: str) -> Path:
        """Where the predictions of teacher `index` on the queries with fingerprint `queries` are or will be."""
        return self.path / f"predictions-{queries[:16]}" / f"teacher-{index:05d}.bin"

    def load_predictions(self, index: int, queries: str) -> np.ndarray[Any, Any] | None:
        """The kept predictions, or None where there are none or they are damaged."""
        held = _read(self.predictions_file(index, queries))
        if held is None or held[0] != queries:
            return None
        return np.load(io.BytesIO(held[1]), allow_pickle=False)

    def save_predictions(self, index: int, queries: str, values: np.ndarray[Any, Any]) -> None:
        """Keep one teacher's predictions, so that a killed collection goes on where it was."""
        file = self.predictions_file(index, queries)
        private_folder(file.parent)
        buffer = io.BytesIO()
        np.save(buffer, values, allow_pickle=False)
        _write(file, buffer.getbuffer(), queries)


def _write(path: Path, payload: memoryview, fingerprint: str) -> None:
    header = {"fingerprint": fingerprint, "checksum": _checksum(payload)}

    def write(file: Any) -> None:
        file.write(_MAGIC + json.dumps(header).encode() + b"\n")
        file.write(payload)

    write_atomically(path, write)


def _read(path: Path) -> tuple[str, bytes] | None:
    """Fingerprint and payload of a whole file; None where it is absent, of another form, or damaged."""
    try:
        with open(path, "rb") as file:
            if file.readline() != _MAGIC:
                return None
            header = json.loads(file.readline())
            payload = file.read()
        fingerprint, checksum = str(header["fingerprint"]), header["checksum"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return (fingerprint, payload) if _checksum(payload) == checksum else None


def _checksum(payload: bytes | memoryview) -> str:
    return hashlib.blake2b(payload, digest_size=32).hexdigest()
