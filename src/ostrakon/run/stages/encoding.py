"""Features of private rows, kept on the disk where a frozen encoder makes them: a stopped run does not encode again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ostrakon.data.checksummed import Damaged, array_from, digest_of_json, npy, read_checksummed, write_checksummed
from ostrakon.data.files import private_folder
from ostrakon.features.rowwise import row_count, take_rows
from ostrakon.run.stages.features import View
from ostrakon.teachers.one_teacher import fingerprint_of

_AT_A_TIME = 512
_FEATURES = "features"


def transform_of(view: View, folder: Path | None) -> Callable[[Any], Any]:
    """`view`'s features of private rows; where a frozen encoder makes them, they are kept in `folder` (None: nowhere).

    Guarantee: as `Representation.transform`; what is read back is what was written, or it is made again.
    """
    encoder = view.representation.encoder
    if folder is None or encoder is None or not encoder.frozen:
        return view.representation.transform
    return Kept(transform=view.representation.transform, folder=folder, seen=fingerprint_of(view.public))


@dataclass(frozen=True, kw_only=True)
class Kept:
    """A function of rows whose answers are kept, some hundred rows a file, under a checksum of the rows.

    transform: the function. folder: private. seen: tells it from others, whose answers are not taken for its own.
    """

    transform: Callable[[Any], Any]
    folder: Path
    seen: str

    def __call__(self, X: Any) -> Any:
        """`transform` of X."""
        rows = row_count(X)
        places = (np.arange(at, min(at + _AT_A_TIME, rows)) for at in range(0, rows, _AT_A_TIME))
        features = [self._some(take_rows(X, here)) for here in places]
        return np.concatenate(features) if features else self.transform(X)

    def _some(self, X: Any) -> Any:
        belongs = {"rows": fingerprint_of(X), "features": self.seen}
        path = private_folder(self.folder) / f"{digest_of_json(belongs)}.npy"
        try:
            stored = read_checksummed(path, what=_FEATURES)
        except Damaged:
            stored = None
        if stored is not None and stored.belongs == belongs:
            return array_from(stored.payload)
        features = self.transform(X)
        write_checksummed(path, npy(features), what=_FEATURES, belongs=belongs)
        return features
