"""Synthetic rows from noisy marginals, estimated by private-PGM (the package mbi): post-processing alone."""

from __future__ import annotations

import contextlib
import importlib
import warnings
from collections.abc import Generator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ostrakon.validation import InvalidInput

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

NEEDED = "A synthetic public pool needs mbi: pip install 'ostrakon[synthetic]'."
_STEPS = 500


def require_mbi() -> Any:
    """The package mbi, refused in one sentence where it is not installed."""
    try:
        with warnings.catch_warnings():
            # It warns of single precision, in which nothing is computed here (`_doubles`).
            warnings.simplefilter("ignore")
            return importlib.import_module("mbi")
    except ImportError:
        raise InvalidInput(NEEDED) from None


def tables_of(columns: int) -> tuple[tuple[int, ...], ...]:
    """Which marginals are measured: every column by itself; a public rule, the same for all tables.

    >>> tables_of(3)
    ((0,), (1,), (2,))
    """
    return tuple((column,) for column in range(columns))


def synthetic_cells(
    noisy: Sequence[FloatArray],
    tables: Sequence[Sequence[int]],
    *,
    sizes: Sequence[int],
    units: int,
    rows: int,
    seed: int,
) -> IntArray:
    """Rows whose marginals are near the noisy ones, as cells, (rows, columns that some table is of).

    noisy: one table each of `tables`, in records, all with noise of one width. sizes: cells of every column. units: how
    many records there are, which is public. seed: of rounding and sampling.

    Guarantee: post-processing: it sees nothing private but what was released with noise.
    Errors: `InvalidInput` where mbi is not installed.
    Source: McKenna, Sheldon and Miklau 2019 (private-PGM), mirror descent, and its synthetic rows.
    """
    mbi = require_mbi()
    named = [tuple(f"c{column}" for column in table) for table in tables]
    columns = sorted({column for table in tables for column in table})
    with _doubles(), _seeded(seed):
        domain = mbi.Domain([f"c{column}" for column in columns], [sizes[column] for column in columns])
        measured = [
            mbi.LinearMeasurement(np.asarray(cells, np.float64).ravel(), table, stddev=1.0)
            for table, cells in zip(named, noisy, strict=True)
        ]
        model = mbi.estimation.MirrorDescent().estimate(domain, measured, known_total=float(units), iters=_STEPS)
        drawn = model.synthetic_data(rows).to_dict()
    return np.column_stack([np.asarray(drawn[f"c{column}"]).astype(np.int64) for column in columns])


@contextlib.contextmanager
def _doubles() -> Generator[None]:
    """JAX in double precision, here alone."""
    with importlib.import_module("jax").enable_x64(True):
        yield


@contextlib.contextmanager
def _seeded(seed: int) -> Generator[None]:
    """NumPy's global generator, from which mbi draws its rows, seeded here alone. No noise comes from it."""
    before = np.random.get_state()  # noqa: NPY002
    np.random.seed(seed % 2**32)  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(before)  # noqa: NPY002
