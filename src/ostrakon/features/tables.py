"""Features of tables: one-hot categories, and numbers standardized and ranked on the public rows."""

from functools import cached_property
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, QuantileTransformer, StandardScaler

from ostrakon.data.columns import days, is_number, word
from ostrakon.validation import InvalidInput


class TableFeatures(TransformerMixin, BaseEstimator):
    """A transformer from the columns of a table to numbers for distances and linear models.

    Parameters
    ----------
    rare : float, default 0.002
        Values with a smaller share of the public rows have one column together.

    Notes
    -----
    Text, category and true/false columns become one-hot columns; values that are not in public count as missing. Times
    and durations become numbers of days. Numbers have two columns, one standardized and one of public ranks in [-1, 1],
    for heavy tails such as capital gains. The public median replaces missing numbers.

    Examples
    --------
    >>> table = pd.DataFrame({"age": [20.0, 40.0, 60.0], "work": ["farm", "office", "farm"]})
    >>> TableFeatures(rare=0.1).fit_transform(table).shape
    (3, 4)
    """

    def __init__(self, rare: float = 0.002) -> None:
        self.rare = rare

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn categories, medians, scales and ranks of the columns of X."""
        table = _as_frame(X)
        self.__dict__.pop("_hot", None)  # that of an earlier fit
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
        )
        with np.errstate(over="ignore", invalid="ignore"):  # refused below
            self.transformer_.fit(self._convert(table))
        scales = self.transformer_.named_transformers_["pipeline-1"][-1].scale_ if self.numbers_ else ()
        for name, scale in zip(self.numbers_, scales, strict=True):
            if not np.isfinite(scale):
                largest = _number(table[name]).abs().max()
                raise InvalidInput(
                    f"The column {name!r} of the public rows must hold numbers whose squares are finite, got "
                    f"{largest:g}."
                )
        return self

    def transform(self, X: Any) -> NDArray[np.float32]:
        """Return the features of each row, float32 (rows, features)."""
        table = _as_frame(X)
        missing = [str(name) for name in self.columns_ if name not in table.columns]
        if missing:
            raise InvalidInput(f"X must have the columns of the public table; missing: {', '.join(missing)}.")
        fitted = self.transformer_.named_transformers_
        columns = self._one_hot(table)
        if self.numbers_:
            numbers = [_finite_numbers(table[name]) for name in self.numbers_]
            columns += _standardize(numbers, fitted["pipeline-1"]) + _rank_columns(numbers, fitted["pipeline-2"])
        # Columns are fast to compute, and contiguous rows are fast to use.
        return np.ascontiguousarray(np.array(columns, np.float32).reshape(len(columns), len(table)).T)

    def _one_hot(self, table: pd.DataFrame) -> list[NDArray[np.float32]]:
        """Return the one-hot columns; each distinct word is looked up once."""
        columns: list[NDArray[np.float32]] = []
        for name, (known, hot) in self._hot.items():
            codes, words = _factorize(table[name])
            encoded = hot[[known.get(word, len(known)) for word in words]]
            columns += list(encoded[codes].T)
        return columns

    @cached_property
    def _hot(self) -> dict[str, tuple[dict[str, int], NDArray[np.float32]]]:
        """By column of words, (row of each known word, one-hot columns); the last row is for unknown words."""
        names = [name for name in self.columns_ if name not in self.numbers_]
        if not names:
            return {}
        encoder = self.transformer_.named_transformers_["onehotencoder"]
        longest = max(map(len, encoder.categories_))
        other = max((str(word) for words in encoder.categories_ for word in words), key=len) + "?"
        padded = [np.resize(np.array([*words, other], object), longest + 1) for words in encoder.categories_]
        hot = np.asarray(encoder.transform(pd.DataFrame(dict(zip(names, padded, strict=True)))), np.float32)
        columns, at = dict[str, tuple[dict[str, int], NDArray[np.float32]]](), 0
        for name, words, rare in zip(names, encoder.categories_, encoder.infrequent_categories_, strict=True):
            width = len(words) - (0 if rare is None else len(rare) - 1)
            columns[name] = {word: row for row, word in enumerate(words)}, hot[: len(words) + 1, at : at + width]
            at += width
        return columns

    def _convert(self, table: pd.DataFrame) -> pd.DataFrame:
        # Cell by cell: the format of pandas for a column depends on all of its values.
        typed = {
            name: _number(table[name])
            if name in self.numbers_
            else table[name].astype(object).map(word, na_action="ignore").astype(object).fillna("")
            for name in self.columns_
        }
        return pd.DataFrame(typed, index=table.index)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "transformer_")


def _factorize(column: pd.Series) -> tuple[NDArray[np.intp], list[str]]:
    """Return (position of the word of each cell, distinct words); the last word is empty, for missing cells."""
    codes, unique = pd.factorize(column)
    cells = list(pd.Series(unique).astype(object))
    # Among objects, 1, 1.0 and True are one value but three words.
    if column.dtype == object and not all(type(cell) is str for cell in cells):
        codes, cells = pd.factorize(column.map(word, na_action="ignore").astype(object))
    return np.where(codes < 0, len(cells), codes), [*map(word, cells), ""]


def _finite_numbers(column: pd.Series) -> NDArray[np.float64]:
    numbers = _number(column).to_numpy(np.float64)
    if np.isinf(numbers).any():
        raise InvalidInput(f"The numbers of the column {column.name!r} must be finite or missing, got an infinity.")
    return numbers


def _standardize(numbers: list[NDArray[np.float64]], fitted: Any) -> list[NDArray[np.float32]]:
    """Return columns standardized and clipped, so that extreme private values do not dominate distances."""
    medians, (_, scaler) = fitted[0].statistics_, fitted.steps[1]
    scaled: list[NDArray[np.float32]] = []
    for cells, median, mean, scale in zip(numbers, medians, scaler.mean_, scaler.scale_, strict=True):
        with np.errstate(over="ignore"):  # an overflow is clipped
            scaled.append(np.clip(((_fill_missing(cells, median) - mean) / scale).astype(np.float32), -8, 8))
    return scaled


def _rank_columns(numbers: list[NDArray[np.float64]], fitted: Any) -> list[NDArray[np.float32]]:
    """Return columns of public ranks in [-1, 1]."""
    medians, (_, ranks) = fitted[0].statistics_, fitted.steps[1]
    return [
        2 * _rank(_fill_missing(cells, median), quantiles, ranks.references_).astype(np.float32) - 1
        for cells, median, quantiles in zip(numbers, medians, ranks.quantiles_.T, strict=True)
    ]


def _rank(cells: NDArray[np.float64], quantiles: NDArray[np.float64], shares: NDArray[np.float64]) -> Any:
    """Return the result of `QuantileTransformer` for a column by one search; shares: below each of the quantiles."""
    knots, first, counts = np.unique(quantiles, return_index=True, return_counts=True)
    low, high = shares[first], shares[first + counts - 1]
    after = np.minimum(np.arange(1, len(knots) + 1), len(knots) - 1)
    at = np.searchsorted(knots, cells, side="right") - 1
    with np.errstate(all="ignore"):  # values outside, or on a quantile, are replaced below
        slope = ((low[after] - high) / (knots[after] - knots)).take(at, mode="clip")
        below = knots.take(at, mode="clip")
        up = slope * (cells - below) + high.take(at, mode="clip")
        down = slope * (knots[after].take(at, mode="clip") - cells) - low[after].take(at, mode="clip")
        ranks = 0.5 * (up - down)
    ties = np.flatnonzero(cells == below)
    ranks[ties] = 0.5 * (low + high)[np.maximum(at[ties], 0)]
    ranks[cells >= knots[-1]] = 1
    ranks[cells <= knots[0]] = 0
    return ranks


def _fill_missing(cells: NDArray[np.float64], median: float) -> NDArray[np.float64]:
    return np.where(np.isnan(cells), median, cells)


def _as_frame(X: Any) -> pd.DataFrame:
    table = X if hasattr(X, "iloc") else pd.DataFrame(np.asarray(X))
    if table.shape[1] == 0:
        raise InvalidInput("X must have at least one column, got none.")
    # Names as text, as in a released student.
    return table.set_axis([str(name) for name in table.columns], axis=1)


def _is_number(column: Any) -> bool:
    return is_number(column) or _is_time(column) or pd.api.types.is_timedelta64_dtype(column)


def _is_time(column: Any) -> bool:
    return pd.api.types.is_datetime64_any_dtype(column)


def _number(column: pd.Series) -> pd.Series:
    if _is_time(column):
        return days(column)
    if pd.api.types.is_timedelta64_dtype(column):
        return pd.to_timedelta(column) / pd.Timedelta(days=1)
    return pd.to_numeric(column, errors="coerce").astype(float)
