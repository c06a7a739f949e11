"""Teachers on disk: each saved when it is done, verified when it is read, private to their owner."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

import joblib
import numpy as np

from ostrakon.data.checksummed import (
    Checksummed,
    Damaged,
    array_from,
    checksum_of,
    digest_of_json,
    npy,
    read_checksummed,
    write_checksummed,
)
from ostrakon.data.files import private_folder, sweep
from ostrakon.validation import InvalidInput


class TeacherStore:
    """A private folder of trained teachers, one file each, that a killed run resumes from.

    path: the folder (such as my-run/private/teachers), created with mode 0700; files have mode 0600.

    A file (see `ostrakon.data.checksummed`) is a pickled model with the fingerprint of rows and settings that
    it was trained on, or an array of predictions with the fingerprint of the queries and of the teacher. One that is
    damaged, or another teacher's, counts as absent. Pickles run code when they are read: a store is as private as the
    data it was trained on, and must be read only by those who own it.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = private_folder(path)
        self._specification = ""
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

    def file(self, index: int) -> Path:
        """Where teacher `index` is or will be."""
        return self.path / f"teacher-{index:05d}.bin"

    def save(self, index: int, model: Any, *, fingerprint: str) -> None:
        """Write a teacher, all of it or nothing. Raises `CannotWrite` on a full disk."""
        buffer = io.BytesIO()
        joblib.dump(model, buffer)
        write_checksummed(
            self.file(index), buffer.getbuffer(), what=f"teacher {index}", belongs=self._trained_on(fingerprint)
        )

    def load(self, index: int) -> Any:
        """The model of teacher `index`. Raises `InvalidInput` where it is missing or damaged."""
        held = _whole(self.file(index), f"teacher {index}")
        if held is None:
            raise InvalidInput(f"{self.file(index)} is missing or damaged; the same command trains it again.")
        return joblib.load(io.BytesIO(held.payload))

    def has(self, index: int, *, fingerprint: str) -> bool:
        """Whether teacher `index` is there and whole.

        Raises `InvalidInput` where it is, but was trained on something else than what `fingerprint` describes.
        """
        held = _whole(self.file(index), f"teacher {index}")
        if held is not None and held.belongs != self._trained_on(fingerprint):
            raise InvalidInput(
                f"{self.file(index)} was trained on other rows or with other settings than the ones given now; "
                "choose another folder or give the data of that run."
            )
        return held is not None

    def predictions_file(self, index: int, queries: str) -> Path:
        """Where the predictions of teacher `index` on the queries with fingerprint `queries` are or will be."""
        return self.path / f"predictions-{queries[:16]}" / f"teacher-{index:05d}.bin"

    def load_predictions(self, index: int, queries: str) -> np.ndarray[Any, Any] | None:
        """The kept predictions, or None where there are none or they are damaged."""
        held = _whole(self.predictions_file(index, queries), f"predictions of teacher {index}")
        if held is None or held.belongs["queries"] != queries:
            return None
        # Where the teacher itself is gone, its predictions still are what it said.
        if checksum_of(self.file(index)) not in (None, held.belongs["teacher"]):
            return None
        return array_from(held.payload)

    def save_predictions(self, index: int, queries: str, values: np.ndarray[Any, Any]) -> None:
        """Keep one teacher's predictions, so that a killed collection goes on where it was."""
        file = self.predictions_file(index, queries)
        private_folder(file.parent)
        belongs = {"queries": queries, "teacher": checksum_of(self.file(index))}
        write_checksummed(file, npy(values), what=f"predictions of teacher {index}", belongs=belongs)

    def _trained_on(self, fingerprint: str) -> dict[str, str]:
        return {"rows": fingerprint, "specification": self._specification}


def _whole(path: Path, what: str) -> Checksummed | None:
    """The content of a whole file; None where it is absent, damaged or another teacher's: it is made again."""
    try:
        return read_checksummed(path, what=what)
    except Damaged:
        return None
