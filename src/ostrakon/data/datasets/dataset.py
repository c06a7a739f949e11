"""A data set that is ready for PATE: private rows with labels, a public pool, and a test set."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Dataset:
    """Rows in three parts.

    X, y: the private part, (rows, ...) and class indices (rows,). X_public: the public pool, to be used unlabelled.
    X_test, y_test: labelled rows to measure a student on. classes: what the indices stand for.
    y_public: labels of the public pool, for measuring how right the released answers are, never for training.
    """

    name: str
    X: Any
    y: NDArray[np.int64]
    X_public: Any
    y_public: NDArray[np.int64]
    X_test: Any
    y_test: NDArray[np.int64]
    classes: tuple[str, ...]

    def __repr__(self) -> str:
        sizes = f"private={len(self.y)}, public={len(self.y_public)}, test={len(self.y_test)}"
        return f"Dataset({self.name}: {sizes}, classes={len(self.classes)})"
