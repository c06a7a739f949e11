"""Private rows that are in the public data with changed numbers: rounded, scaled by column, with little noise, flipped.

A public row that was made from a private one lies far nearer to it than to the next private row. Independent rows in d
dimensions have a ratio of these two distances below t with probability t^d where the density is locally constant,
whatever the density of either table. How often private rows themselves have so small a ratio, each without itself, is
measured beside it: this covers values that repeat.

The check is on the trusted side, and nothing of it enters a release.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from ostrakon.data.columns import is_number
from ostrakon.data.images_on_disk import block_size, blocks_of
from ostrakon.validation import InvalidInput
from ostrakon.votes import FloatArray

_Nearest = tuple[FloatArray, NDArray[np.int64]]
"""Distances to the three nearest private rows, and their numbers, both (rows, 3)."""
_Compared = tuple[str, _Nearest, Callable[[], _Nearest], Callable[[], float]]
"""How public rows were changed, what is nearest to some of them and to some private rows, and the share of rows that
are near by chance."""

MOST_PRIVATE = 100_000
"""Private rows that are compared; of a larger table a random part, in which fewer copies are found."""
_RATIO = 0.3
_FEWEST, _MOST = 20, 400
"""Rows that are looked up: fewer than the first are not compared."""
_SHARE, _SURE = 0.25, 4.0
"""Share of public rows beyond chance, and standard deviations beside it, from which on rows are refused."""
_ROUNDS = 6
_STRETCH = 1.5
_SIDE = 8
_CATEGORIES = 30
_EQUAL = 0.01
"""Private rows that a row is expected to be equal to, from which on some should be equal to each other."""
_COLUMNS = 40
_THINNEST = 1e-100


def refuse_changed_rows(private: Any, public: Any, *, allow: str = "--allow-shared-rows") -> None:
    """Refuse public rows that are private ones with changed numbers.

    Parameters
    ----------
    private, public : DataFrame, or array of shape (rows, columns) or pictures (rows, height, width[, channels])
        Typed rows of the same columns, without the target, or pictures of the same shape.
    allow : str
        The option that allows them, as the user writes it.

    Raises
    ------
    InvalidInput
        If clearly more public rows are too near to a private one than private rows are to each other.
    """
    if min(len(private), len(public)) < _FEWEST:
        return
    if np.ndim(private) == 2 and len(private) > MOST_PRIVATE:
        some = np.sort(np.random.default_rng(2).permutation(len(private))[:MOST_PRIVATE])
        private = private.iloc[some] if hasattr(private, "iloc") else np.asarray(private)[some]
    some = _some(private, public)
    compared = _of_pictures if np.ndim(private) > 2 else _of_columns
    for how, of_public, of_private, chance in compared(private, public, *some):
        near = _near(of_public, of_private, chance, rows=len(some[0]))
        if near:
            raise InvalidInput(
                f"{near:,} of {len(some[1]):,} public rows that were compared are private rows {how}: each is far "
                "nearer to one private row than to any other. The guarantee does not protect people whose rows are "
                f"public. Remove these rows from the public data, or give {allow} if the two tables are known to share "
                "rows."
            )


def _some(private: Any, public: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the numbers of the private and of the public rows that are looked up."""
    rng = np.random.default_rng(0)
    of_public = rng.permutation(len(public))[:_MOST]
    return rng.permutation(len(private))[:_MOST], of_public


def _near(of_public: _Nearest, of_private: Callable[[], _Nearest], chance: Callable[[], float], *, rows: int) -> int:
    """Return the number of public rows that are copies; 0 if there are not more than chance explains.

    chance: a share of rows that is near by chance, asked for where that of private rows near to others leaves a doubt.
    rows: number of private rows that are looked up.
    """
    copied, compared = _private_rows_near(*of_public), len(of_public[0])
    beyond = copied / compared - _SHARE - _SURE * math.sqrt(0.25 * (1 / compared + 1 / rows))
    if beyond <= 0:
        return 0
    distances, nearest = of_private()
    by_chance = _private_rows_near(distances[:, 1:], nearest[:, 1:]) / rows
    return copied if beyond > by_chance and beyond > chance() else 0


def _private_rows_near(distances: FloatArray, nearest: NDArray[np.int64]) -> int:
    """Return the number of private rows to which a row is far nearer than to any other. Many rows near to one count
    once.
    """
    return len(np.unique(nearest[distances[:, 0] < _RATIO * distances[:, 1], 0]))


def _of_columns(private: Any, public: Any, own: NDArray[np.int64], some: NDArray[np.int64]) -> list[_Compared]:
    """Compare rows on a common scale: as they are, and with each public column fitted to the private one."""
    here, there = _columns(private, public)
    if here is None or there is None or _lack_repeats(here):
        return []
    (numbers, words), (shown, same) = here, there
    centre, width = numbers.mean(axis=0), numbers.std(axis=0)
    plain = np.hstack([(numbers - centre) / width, words])
    aligned = np.hstack([_fitted(plain, _standardised(shown), same), same])
    parts = (slice(0, None, 2), slice(1, None, 2)), (slice(len(plain) // 2), slice(len(plain) // 2, None))

    def chance() -> float:
        return max(_fits_by_chance(plain, one, other, numbers.shape[1]) for one, other in parts)

    changes: list[tuple[str, FloatArray, Callable[[], float]]] = [
        ("with slightly changed numbers", np.hstack([(shown - centre) / width, same]), float),
        ("with numbers on another scale", aligned, chance),
    ]
    if not np.isfinite(plain).all():
        return []
    index: Any = NearestNeighbors(n_neighbors=3).fit(plain)
    return [
        (how, index.kneighbors(rows[some]), partial(index.kneighbors, plain[own]), chance)
        for how, rows, chance in changes
        if np.isfinite(rows).all()
    ]


def _lack_repeats(rows: tuple[FloatArray, FloatArray]) -> bool:
    """Return whether no two rows are equal although their few values make that likely: they cannot show what chance
    does.
    """
    columns = np.hstack(rows)
    agree = [np.square(np.unique(column, return_counts=True)[1] / len(column)).sum() for column in columns.T]
    likely = math.log(len(columns)) + np.log(agree).sum() > math.log(_EQUAL)
    return bool(likely) and len(np.unique(columns, axis=0)) == len(columns)


def _standardised(columns: FloatArray) -> FloatArray:
    return (columns - columns.mean(axis=0)) / columns.std(axis=0)


def _fits_by_chance(private: FloatArray, one: slice, other: slice, columns: int) -> float:
    """Return the share of one part of private rows near rows of another part after a fit: regular series fit
    themselves.
    """
    half, rest = private[one], private[other]
    if (rest[:, :columns].std(axis=0) == 0).any():
        return 0.0
    aligned = _fitted(half, _standardised(rest[:, :columns]), rest[:, columns:])
    sample = np.hstack([aligned, rest[:, columns:]])[np.random.default_rng(0).permutation(len(rest))[:_MOST]]
    nearest = NearestNeighbors(n_neighbors=2).fit(half)
    return _private_rows_near(*nearest.kneighbors(sample)) / len(sample)


def _fitted(private: FloatArray, public: FloatArray, words: FloatArray) -> FloatArray:
    """Return public columns with the scales and shifts that bring rows near to private ones; another half of the rows
    fits.
    """
    rng = np.random.default_rng(1)
    index = NearestNeighbors(n_neighbors=2).fit(private)
    rows = rng.permutation(len(public))[: 2 * _MOST]
    columns = public.shape[1]
    scale, shift = np.ones(columns), np.zeros(columns)
    for _ in range(_ROUNDS):
        distances, nearest = index.kneighbors(np.hstack([public[rows] * scale + shift, words[rows]]))
        ratio = distances[:, 0] / np.maximum(distances[:, 1], 1e-12)
        best = np.argsort(ratio, kind="stable")[: max(len(rows) // 3, _FEWEST // 2)]
        ours, theirs = public[rows[best]], private[nearest[best, 0], :columns]
        spread = ours.var(axis=0)
        slope = ((ours - ours.mean(axis=0)) * (theirs - theirs.mean(axis=0))).mean(axis=0) / np.maximum(spread, 1e-12)
        slope = np.where(spread > 0, np.clip(slope, 1 / _STRETCH, _STRETCH), 1.0)
        scale, shift = slope, theirs.mean(axis=0) - slope * ours.mean(axis=0)
    return public * scale + shift


def _columns(private: Any, public: Any) -> tuple[Any, Any]:
    """Return (numbers, categories as 0 and 1) of both tables; (None, None) without a number that varies in both."""
    here, there = (rows if hasattr(rows, "iloc") else pd.DataFrame(np.asarray(rows)) for rows in (private, public))
    if len(here.columns) != len(there.columns):
        return None, None
    if set(here.columns) != set(there.columns):
        here = here.set_axis(there.columns, axis=1)
    numbers, words = list[list[FloatArray]](), list[list[FloatArray]]()
    for name in there.columns:
        ours, theirs = here[name], there[name]
        if is_number(ours) and is_number(theirs):
            both = [_fill_missing(column) for column in (ours, theirs)]
            if all(values is not None and values.std() > _THINNEST for values in both):
                numbers.append(both)  # pyright: ignore[reportArgumentType]
        elif theirs.nunique() <= _CATEGORIES:
            texts = [column.astype(str) for column in (ours, theirs)]
            words += [[0.5 * (cells == word).to_numpy(np.float64) for cells in texts] for word in texts[1].unique()]
    if not numbers:
        return None, None
    numbers = numbers[:: -(-len(numbers) // _COLUMNS)]
    return tuple(
        (
            np.column_stack([both[side] for both in numbers]),
            np.column_stack([np.empty((len(rows), 0)), *(both[side] for both in words)]),
        )
        for side, rows in enumerate((here, there))
    )  # pyright: ignore[reportReturnType]


def _fill_missing(column: pd.Series) -> FloatArray | None:
    """Return the numbers of a column, its mean where one is missing; None if most are."""
    values = column.to_numpy(np.float64, na_value=np.nan)
    finite = np.isfinite(values) & (np.abs(values) < 1e100)
    if 2 * finite.sum() <= len(values):
        return None
    return np.where(finite, values, values[finite].mean())


def _of_pictures(private: Any, public: Any, own: NDArray[np.int64], some: NDArray[np.int64]) -> list[_Compared]:
    """Compare pictures in memory that does not grow with their number."""
    if private.shape[1:] != public.shape[1:] or private.ndim > 4 or min(private.shape[1:3]) < _SIDE // 2:
        return []
    queries = np.concatenate([_reduced(public, some), _reduced(public, some, flipped=True), _reduced(private, own)])
    if not np.isfinite(queries).all():
        return []
    distances: FloatArray = np.empty((len(queries), 0))
    nearest, start = np.empty((len(queries), 0), np.int64), 0
    for pictures in blocks_of(private):
        rows = _in_grey(pictures)
        if not np.isfinite(rows).all():
            return []
        further, numbers = NearestNeighbors(n_neighbors=min(3, len(rows))).fit(rows).kneighbors(queries)
        distances, nearest = np.hstack([distances, further]), np.hstack([nearest, numbers + start])
        first = distances.argsort(axis=1, kind="stable")[:, :3]
        distances = np.take_along_axis(distances, first, axis=1)
        nearest = np.take_along_axis(nearest, first, axis=1)
        start += len(rows)
    parts = np.cumsum([len(some), len(some)])
    plain, flipped, private_ones = zip(np.split(distances, parts), np.split(nearest, parts), strict=True)
    changes: list[tuple[str, _Nearest]] = [
        ("with slightly changed pixels", plain),
        ("flipped from left to right", flipped),
    ]
    return [(how, rows, lambda: private_ones, float) for how, rows in changes]


def _reduced(images: Any, numbers: NDArray[np.int64], *, flipped: bool = False) -> FloatArray:
    """Return some of the pictures, as `_in_grey` does."""
    size = block_size(images)
    parts = (images[numbers[at : at + size]] for at in range(0, len(numbers), size))
    return np.concatenate([_in_grey(pictures, flipped=flipped) for pictures in parts])


def _in_grey(pictures: Any, *, flipped: bool = False) -> FloatArray:
    """Return pictures in grey with at most 8 x 8 pixels, each the mean of its part, (pictures, pixels)."""
    grey = np.asarray(pictures, np.float64)
    if grey.ndim == 4:
        grey = grey.mean(axis=1 if grey.shape[1] in (1, 3, 4) and grey.shape[3] not in (1, 3, 4) else 3)
    grey = grey[:, :, ::-1] if flipped else grey
    for axis in (1, 2):
        edges = np.unique(np.linspace(0, grey.shape[axis], _SIDE + 1).astype(int))
        sizes = np.diff(edges).reshape([-1 if at == axis else 1 for at in range(3)])
        with np.errstate(over="ignore"):  # no warning tells that a private picture is very bright
            grey = np.add.reduceat(grey, edges[:-1], axis=axis) / sizes
    return grey.reshape(len(grey), -1)
