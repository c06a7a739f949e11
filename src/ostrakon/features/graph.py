"""The neighbour graph of the public pool: smooth each teacher's predictions over it, spread few labels over it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.neighbors import NearestNeighbors

from ostrakon.validation import InvalidInput, fraction, whole

FloatArray = NDArray[np.float32]
IntArray = NDArray[np.int64]

EXACT_BELOW = 20_000
"""Pools up to this size get exact neighbours; larger ones approximate ones, from pynndescent."""

_BLOCK = 2**26


@dataclass(frozen=True, kw_only=True)
class PublicGraph:
    """A sparse symmetric graph of similar public examples; made by `build_graph`.

    weights: similarities in (0, 2], symmetric, no loops, CSR of shape (pool, pool).

    Guarantee: built from public data alone. Smoothing acts on each teacher's column by itself, so what a teacher says
    after it still depends on that teacher's shard and on public data alone.
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
        """Each teacher's predictions smoothed over the neighbours: random walks vote.

        predictions: class indices, (pool, teachers), -1 where a teacher abstains. classes: their number.
        rows: the public examples to answer for; None: all. strength: how likely a walk goes on, in (0, 1); steps: its
        most steps. Returns class indices (rows, teachers), -1 where no walk found a prediction; a tie goes to the
        lowest class.
        """
        given = np.asarray(predictions)
        classes = whole("classes", classes, at_least=2)
        if given.ndim != 2 or len(given) != self.size or given.dtype.kind not in "iu":
            raise InvalidInput(
                f"predictions must be integers of shape ({self.size}, teachers), got {given.shape} of {given.dtype}."
            )
        if given.size and not -1 <= given.min() <= given.max() < classes:
            raise InvalidInput(f"predictions must be from -1 to {classes - 1}, got {given.min()} to {given.max()}.")
        chosen = np.arange(self.size) if rows is None else np.asarray(rows)
        # Few rows: walk backwards from them once, then every teacher is one matrix product.
        few = len(chosen) * 20 <= self.size
        walk = self._walks(chosen, strength, steps) if few else None
        out = np.empty((len(chosen), given.shape[1]), np.int16)
        width = max(1, _BLOCK // (self.size * classes))
        for start in range(0, given.shape[1], width):
            part = given[:, start : start + width]
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
        """Class probabilities of every public example from few labels, (pool, classes).

        labels: class indices, (pool,), -1 where unlabelled; or the weight of each class at each example, (pool,
        classes), from 0 on, such as the positive part of noisy counts. strength: share of its neighbours' belief that
        an example takes over, in (0, 1). balance: scale classes to the shares that the labels have (class mass
        normalisation), which matters where one class happens to sit in a denser place. Rows that no label reaches are
        uniform.
        Source: Zhou et al. 2004 (local and global consistency); Zhu et al. 2003 (class mass).
        """
        classes = whole("classes", classes, at_least=2)
        strength, steps = fraction("strength", strength), whole("steps", steps, at_least=1)
        seeds = self._seeds(np.asarray(labels), classes)
        root = np.sqrt(np.maximum(np.asarray(self.weights.sum(axis=1)).ravel(), 1e-12))
        similar = sparse.diags(1 / root) @ self.weights @ sparse.diags(1 / root)
        belief = seeds.copy()
        for _ in range(steps):
            belief, before = strength * (similar @ belief) + (1 - strength) * seeds, belief
            if np.abs(belief - before).max() < 1e-9:
                break
        belief = belief / root[:, None]
        if balance:
            share = seeds.sum(axis=0) / seeds.sum()
            belief = belief * (share / np.maximum(belief.sum(axis=0), 1e-300))
        total = belief.sum(axis=1, keepdims=True)
        return np.where(total > 0, belief / np.where(total > 0, total, 1), 1 / classes)

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
        """The dense rows of the operator that `_walked` applies, (rows, pool)."""
        starts = sparse.csr_matrix(
            (np.ones(len(rows), np.float32), (rows, np.arange(len(rows)))), (self.size, len(rows))
        )
        strength, steps = fraction("strength", strength), whole("steps", steps, at_least=1)
        back, place, total = self._step().T.tocsr(), starts.toarray(), np.zeros((self.size, len(rows)), np.float32)
        for taken in range(steps):
            total += (1 - strength) * strength**taken * place
            place = back @ place
        return np.ascontiguousarray((total + strength**steps * place).T)


def build_graph(
    features: ArrayLike, *, neighbours: int = 10, random_state: int | None = 0, n_jobs: int | None = None
) -> PublicGraph:
    """The graph of the nearest neighbours of public examples.

    features: (pool, features), such as `Representation.transform` gives. neighbours: edges that each example starts.
    Weights fall with the squared distance, scaled by how far both ends' seventh neighbours are (Zelnik-Manor and
    Perona 2004), so dense and sparse places are linked alike; an edge wanted by both ends counts twice.
    Exact up to `EXACT_BELOW` examples, else approximate through pynndescent (an extra: `ostrakon[graph]`), seeded by
    `random_state`.
    """
    points = np.asarray(features)
    if points.ndim != 2 or points.dtype.kind not in "uifb" or not np.isfinite(points).all():
        raise InvalidInput(f"features must be finite numbers of shape (pool, features), got shape {points.shape}.")
    neighbours = whole("neighbours", neighbours, at_least=1)
    if neighbours >= len(points):
        raise InvalidInput(f"neighbours must be below the pool's {len(points)} examples, got {neighbours}.")
    points = np.ascontiguousarray(points, np.float32)
    distances, places = _neighbours(points, neighbours, random_state, n_jobs)
    scale = np.maximum(distances[:, min(6, neighbours - 1)], 1e-6 * max(float(distances.max()), 1e-12))
    closeness = np.exp(-(distances**2) / (scale[:, None] * scale[places]))
    starts = np.repeat(np.arange(len(points)), neighbours)
    # A floor keeps a lone example attached to its neighbours instead of underflowing to none.
    edges = sparse.csr_matrix(
        (np.maximum(closeness, 1e-6).ravel().astype(np.float32), (starts, places.ravel())), (len(points),) * 2
    )
    return PublicGraph(weights=(edges + edges.T).tocsr())


def _neighbours(
    points: FloatArray, neighbours: int, random_state: int | None, n_jobs: int | None
) -> tuple[NDArray[Any], NDArray[Any]]:
    if len(points) <= EXACT_BELOW:
        # Called without points, an example is not its own neighbour, even where others equal it.
        return NearestNeighbors(n_neighbors=neighbours, algorithm="brute", n_jobs=n_jobs).fit(points).kneighbors()
    return approximate_neighbours(points, neighbours, random_state=random_state, n_jobs=n_jobs)


def approximate_neighbours(
    points: FloatArray, neighbours: int, *, random_state: int | None = 0, n_jobs: int | None = None
) -> tuple[NDArray[Any], NDArray[Any]]:
    """(distances, places) of the nearest others of every row, by descent on neighbours of neighbours, both (rows, n).

    Most of them: benchmarks/README.md says how many. Source: Dong, Moses and Li 2011 (NN-descent).
    Errors: `InvalidInput` where the extra `graph` is not installed.
    """
    try:
        from pynndescent import NNDescent
    except ImportError:
        raise InvalidInput(
            f"A pool of {len(points)} examples needs approximate neighbours: pip install ostrakon[graph], "
            f"or use at most {EXACT_BELOW} examples."
        ) from None
    index = NNDescent(points, n_neighbors=neighbours + 1, random_state=random_state, n_jobs=n_jobs)
    places, distances = index.neighbor_graph
    return _without_self(np.asarray(places), np.asarray(distances), neighbours)


def _without_self(places: NDArray[Any], distances: NDArray[Any], neighbours: int) -> tuple[NDArray[Any], NDArray[Any]]:
    own = places == np.arange(len(places))[:, None]
    # Where an example is not in its own list, its farthest neighbour is dropped instead.
    own[~own.any(axis=1), -1] = True
    keep = ~own
    return distances[keep].reshape(-1, neighbours), places[keep].reshape(-1, neighbours)
