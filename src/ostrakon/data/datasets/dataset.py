"""A data set that is ready for PATE: private rows with labels, a public pool, and a test set."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Dataset:
    """Rows in three parts, ready for PATE.

    Parameters
    ----------
    name : str
    X, y : array, shapes (rows, ...) and (rows,)
        The private part and its class indices.
    X_public : array
        The public pool, to be used unlabelled.
    y_public : array of int, shape (public rows,)
        Labels of the public pool, for measuring how right the released answers are, never for training.
    X_test, y_test : array
        Labelled rows to measure a student on.
    classes : tuple of str
        What the indices stand for.
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
