"""Teachers on disk: a few in a file, saved when they are done, verified when read, private to their owner."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib
import numpy as np

from ostrakon.data.checksummed import (
    Checksummed,
    Damaged,
    Unreachable,
    array_from,
    digest_of_json,
    npy,
    read_checksummed,
    write_checksummed,
)
from ostrakon.data.files import private_folder, sweep
from ostrakon.data.object_store import AnyPath, ObjectPath
from ostrakon.validation import InvalidInput


class TeacherStore:
    """A private folder of trained teachers, a file for a few of them, that a killed run resumes from.

    path: the folder (such as my-run/private/teachers), created with mode 0700; files have mode 0600; or a folder in
    object storage, whose owner says who may read it.

    Teachers are kept in pieces (see `ostrakon.data.sharding.pieces`), each by its number: thousands of teachers are no
    thousands of files. A file (see `ostrakon.data.checksummed`) is a pickled list of models with the fingerprint of the
    rows and settings that they were trained on, or an array of their predictions with the fingerprint of the queries
    and of those models. One that is damaged, or another piece's, counts as absent. Pickles run code when they are read:
    a store is as private as the data it was trained on, and must be read only by those who own it.
    """

    def __init__(self, path: AnyPath) -> None:
        self._specification = ""
        if isinstance(path, ObjectPath):
            self.path = path
            return
        self.path = private_folder(path)
        for folder in (self.path, *self.path.glob("predictions-*")):
            sweep(folder)

    def __repr__(self) -> str:
        return f"TeacherStore({str(self.path)!r})"

    def open(self, specification: dict[str, Any]) -> None:
        """Tie the folder to what is being trained; refuse it where it holds teachers of something else.

        specification: what every teacher shares (estimator, parameters, seed, classes, number of teachers).
        """
        asked = json.loads(json.dumps(specification, sort_keys=True, default=repr))
        self._specification = digest_of_json(asked)
        file = self.path / "specification.json"
        held = _whole(file, "specification of the teachers")
        if held is None:
            # Every teacher carries its fingerprint: those of another one are refused without this file, too.
            text = json.dumps(asked, sort_keys=True, indent=1).encode()
            write_checksummed(file, text, what="specification of the teachers")
            return
        before = json.loads(held.payload)
        if before != asked:
            different = ", ".join(sorted(key for key in {*before, *asked} if before.get(key) != asked.get(key)))
            raise InvalidInput(
                f"{self.path} holds teachers of another run (different: {different}); "
                "choose another folder or repeat that run's settings."
            )

    def file(self, piece: int) -> Path | ObjectPath:
        """Where the models of a piece are or will be."""
        return self.path / f"teachers-{piece:05d}.bin"

    def save(self, piece: int, models: list[Any], *, fingerprint: str) -> KeptPiece:
        """Write the models of a piece, all of them or nothing. Raises `CannotWrite` on a full disk."""
        buffer = io.BytesIO()
        joblib.dump(models, buffer)
        checksum = write_checksummed(
            self.file(piece), buffer.getbuffer(), what=_models(piece), belongs=self._trained_on(fingerprint)
        )
        return KeptPiece(store=self, piece=piece, checksum=checksum)

    def find(self, piece: int, *, fingerprint: str) -> KeptPiece | None:
        """The models of a piece where they are there and whole, else None.

        Raises `InvalidInput` where they are, but were trained on something else than what `fingerprint` describes.
        """
        held = _whole(self.file(piece), _models(piece))
        if held is None:
            return None
        if held.belongs != self._trained_on(fingerprint):
            raise InvalidInput(
                f"{self.file(piece)} was trained on other rows or with other settings than the ones given now; "
                "choose another folder or give the data of that run."
            )
        return KeptPiece(store=self, piece=piece, checksum=held.checksum)

    def predictions_file(self, piece: int, queries: str) -> Path | ObjectPath:
        """Where the predictions of a piece on the queries with fingerprint `queries` are or will be."""
        return self.path / f"predictions-{queries[:16]}" / f"teachers-{piece:05d}.bin"

    def _trained_on(self, fingerprint: str) -> dict[str, str]:
        return {"rows": fingerprint, "specification": self._specification}


@dataclass(frozen=True, kw_only=True)
class KeptPiece:
    """The teachers of a piece as they were when they were trained or found; whatever else lies there is refused.

    checksum: of their file, which is compared before anything in it is unpickled.
    """

    store: TeacherStore
    piece: int
    checksum: str

    def models(self) -> list[Any]:
        """The teachers. Raises `InvalidInput` where they are missing, damaged or not those."""
        held = _whole(self.store.file(self.piece), _models(self.piece))
        if held is None or held.checksum != self.checksum:
            what = "is missing or damaged" if held is None else "was exchanged while the run went on"
            raise InvalidInput(f"{self.store.file(self.piece)} {what}; the same command trains it again.")
        return joblib.load(io.BytesIO(held.payload))

    def predictions(self, queries: str) -> np.ndarray[Any, Any] | None:
        """What they said, (teachers of the piece, queries), or None where it is not kept, or of other teachers."""
        held = _whole(self.store.predictions_file(self.piece, queries), _predictions(self.piece))
        if held is None or held.belongs != self._belongs(queries):
            return None
        return array_from(held.payload)

    def keep_predictions(self, queries: str, values: np.ndarray[Any, Any]) -> None:
        """Keep what they said, so that a killed collection goes on where it was."""
        file = self.store.predictions_file(self.piece, queries)
        if isinstance(file, Path):
            private_folder(file.parent)
        write_checksummed(file, npy(values), what=_predictions(self.piece), belongs=self._belongs(queries))

    def _belongs(self, queries: str) -> dict[str, str]:
        return {"queries": queries, "teachers": self.checksum}


def _models(piece: int) -> str:
    return f"teachers, piece {piece}"


def _predictions(piece: int) -> str:
    return f"predictions of the teachers of piece {piece}"


def _whole(path: Path | ObjectPath, what: str) -> Checksummed | None:
    """The content of a whole file; None where it is absent, damaged or another piece's: it is made again.

    Raises `InvalidInput` where storage does not answer: whether there is a file is then unknown.
    """
    try:
        return read_checksummed(path, what=what)
    except Unreachable:
        raise
    except Damaged:
        return None
