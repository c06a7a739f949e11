"""Features of rows with embeddings: directions from the public mean, beside a table's other columns."""

from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

from ostrakon.data.embeddings import groups
from ostrakon.features.tables import TableFeatures
from ostrakon.validation import InvalidInput


class EmbeddedFeatures(TransformerMixin, BaseEstimator):
    """Embeddings and the other columns, each as a direction from its public mean, so that all have equal weight.

    An embedding is the columns name.0, name.1, … of a frame; without such columns all numbers of the frame or the
    array are one. Other columns of a frame go through `TableFeatures` together. Output: float64 (rows, features).

    >>> table = pd.DataFrame({"note.0": [1.0, 0.0, 0.0], "note.1": [0.0, 1.0, 0.0], "age": [20.0, 30.0, 40.0]})
    >>> EmbeddedFeatures().fit_transform(table).shape
    (3, 4)
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn means, and what `TableFeatures` learns of the other columns, from X."""
        table = _frame(X)
        self.columns_ = list(table.columns)
        embeddings = list(groups(self.columns_).values())
        if not embeddings:
            embeddings = [[name for name in self.columns_ if pd.api.types.is_numeric_dtype(table[name])]]
        if not embeddings[0]:
            raise InvalidInput("The representation embeddings needs columns of numbers, got none.")
        within = {name for columns in embeddings for name in columns}
        others = [name for name in self.columns_ if name not in within]
        self.parts_ = [
            (
                columns,
                _directions(SimpleImputer(strategy="median", keep_empty_features=True)).fit(_numbers(table, columns)),
            )
            for columns in embeddings
        ]
        self.table_ = (others, _directions(TableFeatures()).fit(table[others])) if others else None
        return self

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Return features of every row, float64 (rows, features)."""
        table = _frame(X)
        absent = [name for name in self.columns_ if name not in table.columns]
        if absent or (not hasattr(X, "iloc") and table.shape[1] != len(self.columns_)):
            raise InvalidInput(
                f"X must have the {len(self.columns_)} columns of the public rows, got {table.shape[1]} columns."
            )
        parts = [part.transform(_numbers(table, columns)) for columns, part in self.parts_]
        if self.table_ is not None:
            others, part = self.table_
            parts.append(part.transform(table[others]))
        return np.concatenate(parts, axis=1, dtype=np.float64)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "parts_")


def _directions(first: Any) -> Any:
    return make_pipeline(first, StandardScaler(with_std=False), Normalizer())


def _frame(X: Any) -> pd.DataFrame:
    table = X if hasattr(X, "iloc") else pd.DataFrame(np.asarray(X).reshape(len(X), -1))
    return table.set_axis([str(name) for name in table.columns], axis=1)


def _numbers(table: pd.DataFrame, columns: list[str]) -> NDArray[np.float64]:
    return table[columns].to_numpy(np.float64, na_value=np.nan)
