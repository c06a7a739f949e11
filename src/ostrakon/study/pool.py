"""The public rows of a study, as the public file alone gives them."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ostrakon.data.classes import label_indices
from ostrakon.data.columns import Columns
from ostrakon.data.sources import open_table
from ostrakon.data.task import FEWEST_PUBLIC_ROWS
from ostrakon.validation import InvalidInput


@dataclass(frozen=True, kw_only=True, eq=False)
class Pool:
    """Public rows with types.

    Parameters
    ----------
    X : pandas.DataFrame
    features : tuple of str
        The columns of the file besides the target.
    columns : Columns
        How they are read.
    """

    X: pd.DataFrame
    features: tuple[str, ...]
    columns: Columns

    @classmethod
    def read(cls, path: str | os.PathLike[str], *, target: str, text: bool) -> "Pool":
        """Read a table. A target column is left out.

        Parameters
        ----------
        path : str or path-like
        target : str
        text : bool
            Whether to read columns of free text.

        Raises
        ------
        InvalidInput
            If the table cannot be read, or has no other column or too few rows.
        """
        table = open_table(path)
        features = tuple(name for name in table.columns if name != target)
        if not features:
            raise InvalidInput(f"The public table {path} has no column to learn from beside {target!r}.")
        if table.rows() < FEWEST_PUBLIC_ROWS:
            raise InvalidInput(
                f"The public table {path} has {table.rows()} rows; at least {FEWEST_PUBLIC_ROWS} are needed to ask "
                "about."
            )
        frame = table.read(features)
        columns = Columns.of(frame, text=text)
        if not columns.kept:
            raise InvalidInput(f"The public table {path} has no column that can be learned from.")
        return cls(X=columns.apply(frame), features=features, columns=columns)

    def labelled(
        self, path: str | os.PathLike[str], *, target: str, classes: Sequence[str]
    ) -> tuple[pd.DataFrame, NDArray[np.int64]]:
        """Read another public table with these columns and the target.

        Returns
        -------
        tuple of (pandas.DataFrame, numpy.ndarray)
            Rows and class numbers.

        Raises
        ------
        InvalidInput
            If the table lacks a column or has a label that is not a class.
        """
        table = open_table(path)
        absent = [name for name in (*self.features, target) if name not in table.columns]
        if absent:
            raise InvalidInput(f"The test table {path} has no column {absent[0]!r}, which the study has.")
        labels: Any = table.labels(target)
        return self.columns.apply(table.read(self.features)), label_indices(labels, classes)
