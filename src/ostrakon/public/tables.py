"""Features of tables: categories one-hot, numbers standardized on the public rows, heavy tails by rank."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, QuantileTransformer, StandardScaler

from ostrakon.data.columns import days, word
from ostrakon.validation import InvalidInput


class TableFeatures(TransformerMixin, BaseEstimator):
    """A table's columns as numbers that distances and linear heads can use.

    Text, category and true/false columns become one-hot columns (rare values, below `rare` of the public rows, share
    one; values never seen in public count as missing). Moments and durations are numbers of days. Numbers are
    standardized, and given a second time as their public rank in [-1, 1], so that a heavy tail (capital gains) neither
    dominates nor is lost. Missing numbers take the public median.

    rare: share of the public rows below which a category is merged with others. Output: float32 (rows, features).

    >>> table = pd.DataFrame({"age": [20.0, 40.0, 60.0], "work": ["farm", "office", "farm"]})
    >>> TableFeatures(rare=0.1).fit_transform(table).shape
    (3, 4)
    """

    def __init__(self, rare: float = 0.002) -> None:
        self.rare = rare

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn categories, medians, scales and ranks of the columns of X."""
        table = _frame(X)
        self.columns_ = list(table.columns)
        self.numbers_ = [name for name in table if _is_number(table[name])]
        words = [name for name in self.columns_ if name not in self.numbers_]
        quantiles = min(len(table), 1000)
        ranks = make_pipeline(
            SimpleImputer(strategy="median", keep_empty_features=True),
            QuantileTransformer(n_quantiles=quantiles, subsample=100_000, random_state=0),
        )
        scaled = make_pipeline(SimpleImputer(strategy="median", keep_empty_features=True), StandardScaler())
        one_hot = OneHotEncoder(min_frequency=self.rare, handle_unknown="infrequent_if_exist", sparse_output=False)
        self.transformer_ = make_column_transformer(
            (one_hot, words), (scaled, self.numbers_), (ranks, self.numbers_), sparse_threshold=0
        ).fit(self._typed(table))
        return self

    def transform(self, X: Any) -> NDArray[np.float32]:
        """Features of every row, float32 (rows, features)."""
        table = _frame(X)
        missing = [str(name) for name in self.columns_ if name not in table.columns]
        if missing:
            raise InvalidInput(f"X must have the columns of the public table; missing: {', '.join(missing)}.")
        with np.errstate(over="ignore"):  # what single numbers cannot hold is clipped below
            made = np.asarray(self.transformer_.transform(self._typed(table[self.columns_])), np.float32)
        wide = len(self.numbers_)
        if wide:
            # Outliers beyond anything public would otherwise rule every distance.
            np.clip(made[:, -2 * wide : -wide], -8, 8, out=made[:, -2 * wide : -wide])
            made[:, -wide:] = 2 * made[:, -wide:] - 1
        return made

    def _typed(self, table: pd.DataFrame) -> pd.DataFrame:
        # Cell by cell: pandas would write, and read, one column of moments or numbers by all that it holds.
        typed = {
            name: _number(table[name])
            if name in self.numbers_
            else table[name].astype(object).map(word, na_action="ignore").astype(object).fillna("")
            for name in self.columns_
        }
        return pd.DataFrame(typed, index=table.index)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "transformer_")


def _frame(X: Any) -> pd.DataFrame:
    table = X if hasattr(X, "iloc") else pd.DataFrame(np.asarray(X))
    if table.shape[1] == 0:
        raise InvalidInput("X must have at least one column, got none.")
    # By their names as text, as a released student finds them.
    return table.set_axis([str(name) for name in table.columns], axis=1)


def _is_number(column: Any) -> bool:
    number = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
    return number or _is_moment(column) or pd.api.types.is_timedelta64_dtype(column)


def _is_moment(column: Any) -> bool:
    return pd.api.types.is_datetime64_any_dtype(column)


def _number(column: pd.Series) -> pd.Series:
    if _is_moment(column):
        return days(column)
    if pd.api.types.is_timedelta64_dtype(column):
        return pd.to_timedelta(column) / pd.Timedelta(days=1)
    return pd.to_numeric(column, errors="coerce").astype(float)
