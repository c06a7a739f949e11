"""The public rows of a study, as the public file alone gives them."""

from __future__ import annotations

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
    """Public rows, typed. features: the columns that the file has beside the target; columns: how they are read."""

    X: pd.DataFrame
    features: tuple[str, ...]
    columns: Columns

    @classmethod
    def read(cls, path: str | os.PathLike[str], *, target: str, text: bool) -> Pool:
        """From a table; the target column may be there, and is left behind. text: whether free text is read.

        Errors: `InvalidInput` for a table that cannot be read, has no other column, or hardly any rows.
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
        """(rows, class numbers) of another public table with these columns and the target.

        Errors: `InvalidInput` for a table without one of them, or with a label that is no class.
        """
        table = open_table(path)
        absent = [name for name in (*self.features, target) if name not in table.columns]
        if absent:
            raise InvalidInput(f"The test table {path} has no column {absent[0]!r}, which the study has.")
        labels: Any = table.labels(target)
        return self.columns.apply(table.read(self.features)), label_indices(labels, classes)
