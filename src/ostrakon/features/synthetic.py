"""Synthetic rows from noisy marginals, estimated by private-PGM (the package mbi): post-processing alone."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from joblib.externals.loky import ProcessPoolExecutor
from numpy.typing import NDArray

from ostrakon.validation import InvalidInput

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

NEEDED = "A synthetic public pool needs mbi: pip install 'ostrakon[synthetic]'."
_STEPS = 500
MOST_COLUMNS = 40
"""Of which all pairs are measured."""
MOST_CELLS = 10_000
"""Of one pair."""


def require_mbi() -> None:
    """Refuse in one sentence where the package mbi is not installed."""
    if importlib.util.find_spec("mbi") is None:
        raise InvalidInput(NEEDED)


def tables_of(sizes: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Which marginals are measured: all pairs of columns; a public rule, of the described cells alone.

    sizes: cells of every column. Pairs of more than 10,000 cells are left out, and all pairs where there are more than
    40 columns; a column that is in no pair is measured by itself.

    >>> tables_of([3, 4, 9000])
    ((0, 1), (2,))
    """
    near = itertools.combinations(range(len(sizes)), 2) if len(sizes) <= MOST_COLUMNS else ()
    pairs = [pair for pair in near if sizes[pair[0]] * sizes[pair[1]] <= MOST_CELLS]
    paired = {column for pair in pairs for column in pair}
    return (*pairs, *((column,) for column in range(len(sizes)) if column not in paired))


def synthetic_cells(
    noisy: Sequence[FloatArray],
    tables: Sequence[Sequence[int]],
    *,
    sizes: Sequence[int],
    noise: float,
    units: int,
    rows: int,
    seed: int,
) -> IntArray:
    """Rows whose marginals are near the noisy ones, as cells, (rows, columns).

    noisy: of every table of `tables` (as of `tables_of`) its cells, in records, under noise of this standard deviation.
    sizes: cells of every column. units: how many records there are, which is public. seed: of rounding and sampling.

    Of all pairs a tree is kept that joins the columns along the pairs that depend most on each other, beyond what noise
    does; a model of the tree and of the single columns, about which all of their pairs say something, is fitted.
    Guarantee: post-processing: it sees nothing private but what was released with noise.
    Errors: `InvalidInput` where mbi is not installed.
    Source: McKenna, Sheldon and Miklau 2019 (private-PGM): mirror descent, and its synthetic rows; the tree is that of
    Chow and Liu 1968, by the distance of McKenna, Miklau and Sheldon 2021 (MST).
    """
    require_mbi()
    found = {tuple(table): np.asarray(cells, np.float64) for table, cells in zip(tables, noisy, strict=True)}
    kept: list[tuple[tuple[int, ...], FloatArray, float]] = [
        (pair, found[pair], noise) for pair in tree(found, noise, units)
    ]
    kept += [((column,), *of_one_column(found, column, noise)) for column in range(len(sizes))]
    # In a process of its own: JAX starts threads, which no later fork of this one would survive, and mbi draws from
    # NumPy's global generator.
    with ProcessPoolExecutor(max_workers=1) as process:
        return process.submit(_rows, kept, list(sizes), units=units, rows=rows, seed=seed).result()


def _rows(
    kept: Sequence[tuple[tuple[int, ...], FloatArray, float]], sizes: list[int], *, units: int, rows: int, seed: int
) -> IntArray:
    """Rows of the model that is fitted to (columns, their noisy cells, standard deviation), (rows, columns)."""
    jax: Any = importlib.import_module("jax")
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_enable_compilation_cache", False)
    mbi: Any = importlib.import_module("mbi")
    np.random.seed(seed % 2**32)  # noqa: NPY002
    domain = mbi.Domain([f"c{column}" for column in range(len(sizes))], sizes)
    measured = [
        mbi.LinearMeasurement(cells.ravel(), tuple(f"c{column}" for column in table), stddev=deviation)
        for table, cells, deviation in kept
    ]
    model = mbi.estimation.MirrorDescent().estimate(domain, measured, known_total=float(units), iters=_STEPS)
    drawn = model.synthetic_data(rows).to_dict()
    return np.column_stack([np.asarray(drawn[f"c{column}"]).astype(np.int64) for column in range(len(sizes))])


def tree(noisy: Mapping[tuple[int, ...], FloatArray], noise: float, units: int) -> list[tuple[int, ...]]:
    """The pairs along which the most dependent columns are joined, without a circle.

    Dependence is the distance (L1) between a noisy table and the product of its margins, less what noise alone makes
    of it on the average; ties go to the earlier pair.
    """
    scores: dict[tuple[int, ...], float] = {}
    for pair, cells in noisy.items():
        if len(pair) == 2:
            shares = np.maximum(cells, 0) / max(float(np.maximum(cells, 0).sum()), 1.0)
            product = shares.sum(axis=1, keepdims=True) * shares.sum(axis=0, keepdims=True)
            by_noise = math.sqrt(2 / math.pi) * noise * cells.size
            scores[pair] = float(np.abs(cells - units * product).sum()) - by_noise
    joined = {column: {column} for pair in scores for column in pair}
    chosen: list[tuple[int, ...]] = []
    for pair in sorted(scores, key=lambda each: -scores[each]):
        first, second = (joined[column] for column in pair)
        if first is not second:
            chosen.append(pair)
            first |= second
            joined |= dict.fromkeys(second, first)
    return chosen


def of_one_column(noisy: Mapping[tuple[int, ...], FloatArray], column: int, noise: float) -> tuple[FloatArray, float]:
    """(cells of one column, their standard deviation): what all tables say of it, the wider ones the less."""
    said: list[FloatArray] = []
    weights: list[float] = []
    for table, cells in noisy.items():
        if column in table:
            others = tuple(at for at, each in enumerate(table) if each != column)
            said.append(cells.sum(axis=others))
            weights.append(len(said[-1]) / cells.size)
    return np.average(said, axis=0, weights=weights), noise / math.sqrt(sum(weights))
