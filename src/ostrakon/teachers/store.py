"""Teachers on disk: several per file, saved when they are finished, verified when read, private to their owner."""

import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib
import numpy as np

from ostrakon.data.checksummed import array_from, digest_of_json, find_checksummed, npy, write_checksummed
from ostrakon.data.files import private_folder, sweep
from ostrakon.data.object_store import AnyPath, ObjectPath
from ostrakon.validation import InvalidInput


class TeacherStore:
    """A private folder of trained teachers, several per file, from which an interrupted run continues.

    Parameters
    ----------
    path : pathlib.Path or ObjectPath
        The folder (such as my-run/private/teachers), created with mode 0700; files have mode 0600. Or a folder in
        object storage, whose owner decides who may read it.

    Notes
    -----
    Teachers are stored in pieces (see `ostrakon.data.sharding.pieces`), so that thousands of teachers need few files. A
    file (see `ostrakon.data.checksummed`) is a pickled list of models with the fingerprint of their rows and settings,
    or an array of their predictions with the fingerprint of the queries and of the models. A file that is damaged, or
    belongs to another piece, counts as absent. Pickles run code when they are read: a store is as private as the data
    it was trained on, and only its owner may read it.
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
        """Bind the folder to these settings; refuse a folder with teachers of other settings.

        specification: the common settings (estimator, parameters, seed, classes, number of teachers).
        """
        settings = json.loads(json.dumps(specification, sort_keys=True, default=repr))
        self._specification = digest_of_json(settings)
        file = self.path / "specification.json"
        stored = find_checksummed(file, what="specification of the teachers")
        if stored is None:
            # Every teacher has its fingerprint, so teachers of other settings are refused without this file, too.
            text = json.dumps(settings, sort_keys=True, indent=1).encode()
            write_checksummed(file, text, what="specification of the teachers")
            return
        stored_settings = json.loads(stored.payload)
        if stored_settings != settings:
            differences = ", ".join(
                sorted(key for key in {*stored_settings, *settings} if stored_settings.get(key) != settings.get(key))
            )
            raise InvalidInput(
                f"{self.path} holds teachers of another run (different: {differences}); "
                "choose another folder or repeat that run's settings."
            )

    def file(self, piece: int) -> Path | ObjectPath:
        """Return the path of the models of a piece."""
        return self.path / f"teachers-{piece:05d}.bin"

    def save(self, piece: int, models: list[Any], *, fingerprint: str) -> "KeptPiece":
        """Write the models of a piece atomically. Raises `CannotWrite` on a full disk."""
        buffer = io.BytesIO()
        joblib.dump(models, buffer)
        checksum = write_checksummed(
            self.file(piece), buffer.getbuffer(), what=_models(piece), belongs=self._trained_on(fingerprint)
        )
        return KeptPiece(store=self, piece=piece, checksum=checksum)

    def find(self, piece: int, *, fingerprint: str) -> "KeptPiece | None":
        """Return the models of a piece if they are there and intact, else None.

        Raises `InvalidInput` if they were trained on other rows or settings than `fingerprint` describes.
        """
        stored = find_checksummed(self.file(piece), what=_models(piece))
        if stored is None:
            return None
        if stored.belongs != self._trained_on(fingerprint):
            raise InvalidInput(
                f"{self.file(piece)} was trained on other rows or with other settings than the ones given now; "
                "choose another folder or give the data of that run."
            )
        return KeptPiece(store=self, piece=piece, checksum=stored.checksum)

    def predictions_file(self, piece: int, queries: str) -> Path | ObjectPath:
        """Return the path of the predictions of a piece for the queries with fingerprint `queries`."""
        return self.path / f"predictions-{queries[:16]}" / f"teachers-{piece:05d}.bin"

    def _trained_on(self, fingerprint: str) -> dict[str, str]:
        return {"rows": fingerprint, "specification": self._specification}


@dataclass(frozen=True, kw_only=True)
class KeptPiece:
    """The stored teachers of a piece; a file with another checksum is refused before anything is unpickled."""

    store: TeacherStore
    piece: int
    checksum: str

    def models(self) -> list[Any]:
        """Return the teachers. Raises `InvalidInput` if they are missing, damaged or replaced."""
        stored = find_checksummed(self.store.file(self.piece), what=_models(self.piece))
        if stored is None or stored.checksum != self.checksum:
            reason = "is missing or damaged" if stored is None else "was replaced during the run"
            raise InvalidInput(f"{self.store.file(self.piece)} {reason}; the same command trains it again.")
        return joblib.load(io.BytesIO(stored.payload))

    def predictions(self, queries: str) -> np.ndarray[Any, Any] | None:
        """Their predictions, (teachers of the piece, queries); None if absent, or from other teachers."""
        stored = find_checksummed(self.store.predictions_file(self.piece, queries), what=_predictions(self.piece))
        if stored is None or stored.belongs != self._belongs(queries):
            return None
        return array_from(stored.payload)

    def keep_predictions(self, queries: str, values: np.ndarray[Any, Any]) -> None:
        """Store their predictions, so that an interrupted collection can continue."""
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
