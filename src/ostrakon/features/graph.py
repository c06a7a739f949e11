"""The neighbour graph of the public pool, over which predictions of teachers are smoothed and few labels spread."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.neighbors import NearestNeighbors

from ostrakon.validation import InvalidInput, fraction, whole
from ostrakon.votes import IntArray

FloatArray = NDArray[np.float32]

EXACT_BELOW = 20_000
"""Pools up to this size get exact neighbours; larger ones approximate neighbours, from pynndescent."""

_BLOCK = 2**26


@dataclass(frozen=True, kw_only=True)
class PublicGraph:
    """A sparse symmetric graph of similar public examples; made by `build_graph`.

    Parameters
    ----------
    weights : CSR matrix of shape (pool, pool)
        Similarities in (0, 2], symmetric, without loops.

    Notes
    -----
    Guarantee: built from public data alone. Smoothing treats the column of every teacher separately, so the smoothed
    predictions of a teacher depend on its shard and on public data alone.
    """

    weights: Any

    @property
    def size(self) -> int:
        """Number of public examples."""
        return int(self.weights.shape[0])

    def smooth(
        self,
        predictions: ArrayLike,
        *,
        classes: int,
        rows: ArrayLike | None = None,
        strength: float = 0.9,
        steps: int = 15,
    ) -> NDArray[np.int16]:
        """Smooth the predictions of every teacher over the neighbours, by random walks that vote.

        Parameters
        ----------
        predictions : int array of shape (pool, teachers)
            Class indices, -1 where a teacher abstains.
        classes : int
            Number of classes, at least 2.
        rows : int array, optional
            Public examples to predict. Default: all.
        strength : float in (0, 1)
            Probability that a walk continues.
        steps : int
            Maximum length of a walk, at least 1.

        Returns
        -------
        int16 array of shape (rows, teachers)
            Class indices, -1 where no walk reached a prediction; a tie goes to the lowest class.

        Raises
        ------
        InvalidInput
            For arguments of other shapes, types or ranges.
        """
        values = np.asarray(predictions)
        classes = whole("classes", classes, at_least=2)
        if values.ndim != 2 or len(values) != self.size or values.dtype.kind not in "iu":
            raise InvalidInput(
                f"predictions must be integers of shape ({self.size}, teachers), got {values.shape} of {values.dtype}."
            )
        if values.size and not -1 <= values.min() <= values.max() < classes:
            raise InvalidInput(f"predictions must be from -1 to {classes - 1}, got {values.min()} to {values.max()}.")
        chosen = np.arange(self.size) if rows is None else np.asarray(rows)
        # Few rows: walk backwards from them once, then every teacher is one matrix product.
        few = len(chosen) * 20 <= self.size
        walk = self._walks(chosen, strength, steps) if few else None
        out = np.empty((len(chosen), values.shape[1]), np.int16)
        width = max(1, _BLOCK // (self.size * classes))
        for start in range(0, values.shape[1], width):
            part = values[:, start : start + width]
            seeds = (part[:, :, None] == np.arange(classes)).astype(np.float32).reshape(self.size, -1)
            spread = walk @ seeds if walk is not None else self._walked(seeds, strength, steps)[chosen]
            spread = spread.reshape(len(chosen), -1, classes)
            # Rounding must not break ties by chance.
            winner = np.round(spread, 5).argmax(axis=2)
            out[:, start : start + width] = np.where(spread.max(axis=2) > 0, winner, -1)
        return out

    def spread(
        self, labels: ArrayLike, *, classes: int, strength: float = 0.9, steps: int = 200, balance: bool = True
    ) -> NDArray[np.float64]:
        """Return class probabilities of every public example from few labels.

        Parameters
        ----------
        labels : array of shape (pool,) or (pool, classes)
            Class indices, -1 where unlabelled; or weights of the classes, at least 0, such as the positive part of
            noisy counts.
        classes : int
            Number of classes, at least 2.
        strength : float in (0, 1)
            Weight of the neighbours' probabilities against an example's own label.
        steps : int
            Maximum number of iterations, at least 1.
        balance : bool
            Whether to scale the classes to their shares among the labels (class mass normalisation), which matters
            where one class is in a denser region.

        Returns
        -------
        float64 array of shape (pool, classes)
            Probabilities; uniform for examples that no label reaches.

        Raises
        ------
        InvalidInput
            For arguments of other shapes, types or ranges.

        References
        ----------
        Zhou et al. 2004 (local and global consistency); Zhu et al. 2003 (class mass).
        """
        classes = whole("classes", classes, at_least=2)
        strength, steps = fraction("strength", strength), whole("steps", steps, at_least=1)
        seeds = self._seeds(np.asarray(labels), classes)
        root = np.sqrt(np.maximum(np.asarray(self.weights.sum(axis=1)).ravel(), 1e-12))
        similar = sparse.diags(1 / root) @ self.weights @ sparse.diags(1 / root)
        proba = seeds.copy()
        for _ in range(steps):
            proba, previous = strength * (similar @ proba) + (1 - strength) * seeds, proba
            if np.abs(proba - previous).max() < 1e-9:
                break
        proba = proba / root[:, None]
        if balance:
            share = seeds.sum(axis=0) / seeds.sum()
            proba = proba * (share / np.maximum(proba.sum(axis=0), 1e-300))
        total = proba.sum(axis=1, keepdims=True)
        return np.where(total > 0, proba / np.where(total > 0, total, 1), 1 / classes)

    def _seeds(self, labels: NDArray[Any], classes: int) -> NDArray[np.float64]:
        if labels.shape == (self.size, classes) and labels.dtype.kind == "f":
            if not (np.isfinite(labels).all() and (labels >= 0).all() and labels.sum() > 0):
                raise InvalidInput(
                    "labels must be finite numbers from 0, not all 0, where they are weights of classes."
                )
            # The largest weight is 1, as a label is: the iteration stops at an absolute step.
            return labels.astype(np.float64) / labels.max()
        known = labels
        if known.shape != (self.size,) or known.dtype.kind not in "iu" or known.max() >= classes or known.min() < -1:
            raise InvalidInput(f"labels must be {self.size} integers from -1 to {classes - 1}.")
        return (known[:, None] == np.arange(classes)).astype(np.float64)

    def _step(self) -> Any:
        degree = np.maximum(np.asarray(self.weights.sum(axis=1)).ravel(), 1e-12)
        return (sparse.diags(1 / degree) @ self.weights).astype(np.float32).tocsr()

    def _walked(self, seeds: FloatArray, strength: float, steps: int) -> FloatArray:
        strength, steps = fraction("strength", strength), whole("steps", steps, at_least=1)
        step, spread = self._step(), seeds
        for _ in range(steps):
            spread = strength * (step @ spread) + (1 - strength) * seeds
        return spread

    def _walks(self, rows: IntArray, strength: float, steps: int) -> FloatArray:
        """Return the dense rows of the operator that `_walked` applies, (rows, pool)."""
        starts = sparse.csr_matrix(
            (np.ones(len(rows), np.float32), (rows, np.arange(len(rows)))), (self.size, len(rows))
        )
        strength, steps = fraction("strength", strength), whole("steps", steps, at_least=1)
        back, reached, total = self._step().T.tocsr(), starts.toarray(), np.zeros((self.size, len(rows)), np.float32)
        for taken in range(steps):
            total += (1 - strength) * strength**taken * reached
            reached = back @ reached
        return np.ascontiguousarray((total + strength**steps * reached).T)


def build_graph(features: ArrayLike, *, neighbours: int = 10, random_state: int | None = 0) -> PublicGraph:
    """Return the graph of the nearest neighbours of public examples.

    Parameters
    ----------
    features : float array of shape (pool, features)
        Such as `Representation.transform` gives.
    neighbours : int
        Number of nearest neighbours of every example, from 1 to pool - 1.
    random_state : int, optional
        Seed of the approximate search.

    Returns
    -------
    PublicGraph
        The weights fall with the squared distance, divided by the distances of both ends to their seventh neighbours,
        so that dense and sparse regions are connected in the same way; an edge that both ends have counts twice.

    Raises
    ------
    InvalidInput
        For features that are not finite, and for as many neighbours as examples.

    Notes
    -----
    Exact up to `EXACT_BELOW` examples, else approximate with pynndescent (the extra `ostrakon[graph]`).

    References
    ----------
    Zelnik-Manor and Perona 2004.
    """
    points = np.asarray(features)
    if points.ndim != 2 or points.dtype.kind not in "uifb" or not np.isfinite(points).all():
        raise InvalidInput(f"features must be finite numbers of shape (pool, features), got shape {points.shape}.")
    neighbours = whole("neighbours", neighbours, at_least=1)
    if neighbours >= len(points):
        raise InvalidInput(f"neighbours must be below the pool's {len(points)} examples, got {neighbours}.")
    points = np.ascontiguousarray(points, np.float32)
    distances, positions = _neighbours(points, neighbours, random_state)
    scale = np.maximum(distances[:, min(6, neighbours - 1)], 1e-6 * max(float(distances.max()), 1e-12))
    closeness = np.exp(-(distances**2) / (scale[:, None] * scale[positions]))
    starts = np.repeat(np.arange(len(points)), neighbours)
    # A floor keeps a lone example attached to its neighbours instead of underflowing to none.
    edges = sparse.csr_matrix(
        (np.maximum(closeness, 1e-6).ravel().astype(np.float32), (starts, positions.ravel())), (len(points),) * 2
    )
    return PublicGraph(weights=(edges + edges.T).tocsr())


def _neighbours(points: FloatArray, neighbours: int, random_state: int | None) -> tuple[NDArray[Any], NDArray[Any]]:
    if len(points) <= EXACT_BELOW:
        # Called without points, an example is not its own neighbour, even where others equal it.
        return NearestNeighbors(n_neighbors=neighbours, algorithm="brute").fit(points).kneighbors()
    return approximate_neighbours(points, neighbours, random_state=random_state)


def approximate_neighbours(
    points: FloatArray, neighbours: int, *, random_state: int | None = 0
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return distances and positions of approximate nearest neighbours of each row, both (rows, neighbours).

    Parameters
    ----------
    points : float array of shape (rows, features)
        Rows.
    neighbours : int
        Number of neighbours.
    random_state
        Of pynndescent.

    Returns
    -------
    tuple of arrays
        (distances, positions).

    Raises
    ------
    InvalidInput
        If the extra `graph` is not installed.

    Notes
    -----
    benchmarks/README.md has the share of true neighbours among them.

    References
    ----------
    Dong, Moses and Li 2011 (NN-descent).
    """
    try:
        from pynndescent import NNDescent
    except ImportError:
        raise InvalidInput(
            f"A pool of {len(points)} examples needs approximate neighbours: pip install '.[graph]', "
            f"or use at most {EXACT_BELOW} examples."
        ) from None
    index = NNDescent(points, n_neighbors=neighbours + 1, random_state=random_state)
    positions, distances = index.neighbor_graph
    return _without_self(np.asarray(positions), np.asarray(distances), neighbours)


def _without_self(
    positions: NDArray[Any], distances: NDArray[Any], neighbours: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    itself = positions == np.arange(len(positions))[:, None]
    # Where an example is not in its own list, its farthest neighbour is dropped instead.
    itself[~itself.any(axis=1), -1] = True
    keep = ~itself
    return distances[keep].reshape(-1, neighbours), positions[keep].reshape(-1, neighbours)
