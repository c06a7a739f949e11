"""The law of rows from noisy counts of cells: drawn along a tree of pairs, then weighted to agree with all pairs."""

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
from scipy.optimize import minimize

from ostrakon.votes import FloatArray, IntArray

Pair = tuple[int, int]

ROWS = 6000
"""Number of rows that represent the law."""
SHRINKAGE = 0.03
"""Penalty of the weights, in parts of the variance of the noise; chosen on Adult and eight small tables."""
_GROUPS = (0.0, 0.5, 0.75, 0.9, 0.97, 1.0)
"""Quantiles of the expected counts between which cells are shrunk alike."""
_LEAST = 0.02
"""A cell of a pair keeps this part of what independence expects there."""
_ROUNDS = 20


def law_of_rows(
    columns: Sequence[FloatArray], pairs: Mapping[Pair, FloatArray], *, noise: float, records: float, seed: int
) -> tuple[IntArray, FloatArray]:
    """Return rows with weights whose law is near noisy counts.

    Parameters
    ----------
    columns : sequence of arrays
        For each column, the noisy number of records in each of its cells.
    pairs : mapping of (int, int) to array
        For pairs of columns, the noisy number of records in each cell of both.
    noise : float
        Standard deviation of the noise on a cell of a pair, in records.
    records : float
        Number of records, perhaps noisy; above 0.
    seed : int
        Seed of the rows.

    Returns
    -------
    tuple of (int array of shape (rows, columns), float array of shape (rows,))
        Cells of rows, and their weights, which sum to 1.

    Notes
    -----
    Rows are drawn along a tree that joins the columns that depend most on each other (Chow and Liu 1968). Their weights
    maximize the entropy, less a penalty for the distance from the noisy counts of all pairs, in standard deviations of
    the noise: the dual problem is convex and smooth.

    Guarantee: a function of noisy counts alone, so it costs no privacy.
    """
    known = [on_simplex(cells, records) for cells in columns]
    shrunk = {pair: _shrunk(cells, known[pair[0]], known[pair[1]], noise) for pair, cells in pairs.items()}
    rows = _sample_rows(known, shrunk, tree(pairs, known, noise), np.random.default_rng(seed))
    if not pairs:
        return rows, np.full(len(rows), 1 / len(rows))
    return rows, _weights(rows, pairs, noise=noise, records=records)


def on_simplex(cells: FloatArray, total: float) -> FloatArray:
    """Return the nearest counts (least squares) that are not negative and sum to `total`; none is quite 0.

    >>> on_simplex(np.array([3.0, -1.0, 1.0]), 4.0).round(3).tolist()
    [3.0, 0.0, 1.0]
    """
    ordered = np.sort(cells)[::-1]
    excess = (np.cumsum(ordered) - total) / np.arange(1, len(cells) + 1)
    kept = np.maximum(cells - excess[np.flatnonzero(ordered > excess)[-1]], 1e-6 * total / len(cells))
    return kept * (total / kept.sum())


def tree(pairs: Mapping[Pair, FloatArray], known: Sequence[FloatArray], noise: float) -> list[Pair]:
    """Return the pairs along which the most dependent columns are joined, without a circle.

    Dependence is the distance (L1) between a noisy table and the product of its margins, less what noise alone makes of
    it on average; columns that show none are not joined. Ties go to the earlier pair.
    """
    scores: dict[Pair, float] = {}
    for pair, cells in pairs.items():
        product = np.outer(known[pair[0]], known[pair[1]]) / known[pair[0]].sum()
        scores[pair] = float(np.abs(cells - product).sum()) - math.sqrt(2 / math.pi) * noise * cells.size
    part = list(range(len(known)))
    chosen: list[Pair] = []
    for pair in sorted(scores, key=lambda item: -scores[item]):
        first, second = part[pair[0]], part[pair[1]]
        if first != second and scores[pair] > 0:
            chosen.append(pair)
            part = [first if item == second else item for item in part]
    return chosen


def _shrunk(cells: FloatArray, rows: FloatArray, columns: FloatArray, noise: float) -> FloatArray:
    """Return a noisy table, shrunk towards the product of its margins where noise explains the difference."""
    product = np.outer(rows, columns) / rows.sum()
    difference, weight = cells - product, np.zeros_like(product)
    ends = np.quantile(product, _GROUPS)
    for low, high in itertools.pairwise(ends):
        alike = (product >= low) & (product <= high)
        signal = max(float(np.square(difference[alike]).mean()) - noise**2, 0.0) if alike.any() else 0.0
        weight[alike] = signal / (signal + noise**2)
    table = np.maximum(product + weight * difference, _LEAST * product)
    for _ in range(_ROUNDS):
        table *= (rows / table.sum(axis=1))[:, None]
        table *= columns / table.sum(axis=0)
    return table


def _sample_rows(
    known: Sequence[FloatArray], shrunk: Mapping[Pair, FloatArray], joined: Sequence[Pair], rng: np.random.Generator
) -> IntArray:
    """Return `ROWS` rows drawn along the tree, (rows, columns)."""
    rows = np.full((ROWS, len(known)), -1, np.int64)
    neighbours: dict[int, list[int]] = {column: [] for column in range(len(known))}
    for first, second in joined:
        neighbours[first].append(second)
        neighbours[second].append(first)
    for root in range(len(known)):
        if rows[0, root] >= 0:
            continue
        rows[:, root] = _cells(known[root], ROWS, rng)
        open_columns = [root]
        while open_columns:
            column = open_columns.pop()
            for other in (item for item in neighbours[column] if rows[0, item] < 0):
                table = shrunk[column, other] if (column, other) in shrunk else shrunk[other, column].T
                for cell in range(len(table)):
                    at = np.flatnonzero(rows[:, column] == cell)
                    rows[at, other] = _cells(table[cell], len(at), rng)
                open_columns.append(other)
    return rows


def _cells(counts: FloatArray, rows: int, rng: np.random.Generator) -> IntArray:
    """Return `rows` cells in these proportions, as nearly as whole numbers allow, in random order."""
    if not rows:
        return np.empty(0, np.int64)
    at = rng.permutation((np.arange(rows) + rng.random()) / rows)
    return np.minimum(np.searchsorted(np.cumsum(counts) / counts.sum(), at), len(counts) - 1)


def _weights(rows: IntArray, pairs: Mapping[Pair, FloatArray], *, noise: float, records: float) -> FloatArray:
    """Return the weights of rows, (rows,)."""
    codes, targets, first = list[IntArray](), list[FloatArray](), 0
    for (first_column, other), cells in pairs.items():
        codes.append(first + rows[:, first_column] * cells.shape[1] + rows[:, other])
        targets.append(cells.ravel())
        first += cells.size
    positions, target = np.column_stack(codes), np.concatenate(targets)
    flat, penalty = positions.ravel(), SHRINKAGE * noise**2

    def dual(theta: FloatArray) -> tuple[float, FloatArray]:
        weight, level = _normalized(theta[positions].sum(axis=1))
        sums = np.bincount(flat, np.repeat(records * weight, positions.shape[1]), minlength=first)
        value = records * level - theta @ target + penalty / 2 * (theta @ theta)
        return float(value), sums - target + penalty * theta

    result = minimize(dual, np.zeros(first), jac=True, method="L-BFGS-B", options={"maxiter": 100})
    return _normalized(result.x[positions].sum(axis=1))[0]


def _normalized(scores: FloatArray) -> tuple[FloatArray, float]:
    """Return (weights in proportion to exp(scores), the logarithm of the sum of exp(scores))."""
    most = float(scores.max())
    weights = np.exp(scores - most)
    return weights / weights.sum(), most + math.log(float(weights.sum()))
