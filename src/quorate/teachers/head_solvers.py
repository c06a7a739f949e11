"""The linear algebra of heads: each kind solves, and asks, a batch of padded shards at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from quorate.checks import InvalidInput

FloatArray = NDArray[np.float32]
HeadKind = Literal["kernel-ridge", "ridge", "logistic", "nearest-neighbours", "nearest-centroid"]

_NEWTON_STEPS = 25


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Shards of several teachers, padded to one length, and what was learned from them.

    X: (teachers, rows, features), zeros where padded; y: (teachers, rows), -1 where padded; sizes: rows of each.
    learned: arrays whose first axis is the teacher.
    """

    X: FloatArray
    y: NDArray[np.int64]
    sizes: NDArray[np.int64]
    classes: int
    learned: dict[str, FloatArray]

    @property
    def weight(self) -> int:
        """Numbers that one query costs in memory."""
        return len(self.sizes) * max(self.X.shape[1] if self.X.size else 1, self.classes)

    @property
    def targets(self) -> NDArray[np.float64]:
        """One-hot labels, (teachers, rows, classes), zero where padded."""
        return (self.y[:, :, None] == np.arange(self.classes)).astype(np.float64)


def solver(kind: str) -> tuple[Callable[[Any, Batch], Batch], Callable[[Any, Batch, FloatArray], FloatArray]]:
    """(solve, ask) of a kind of head: ask gives scores (teachers, queries, classes)."""
    kinds = {
        "kernel-ridge": (_solve_kernel_ridge, _ask_kernel_ridge),
        "ridge": (_solve_ridge, _ask_linear),
        "logistic": (_solve_logistic, _ask_linear),
        "nearest-neighbours": (lambda head, batch: batch, _ask_neighbours),
        "nearest-centroid": (_solve_centroid, _ask_linear),
    }
    if kind not in kinds:
        raise InvalidInput(f"kind must be one of {', '.join(kinds)}, got {kind!r}.")
    return kinds[kind]


def _solve_kernel_ridge(head: Any, batch: Batch) -> Batch:
    X = batch.X.astype(np.float64)
    squares = (X**2).sum(axis=2)
    gram = np.exp((2 * X @ X.transpose(0, 2, 1) - squares[:, :, None] - squares[:, None, :]) / head.width)
    held = batch.y >= 0
    gram *= held[:, :, None] & held[:, None, :]
    gram += head.penalty * np.eye(X.shape[1])
    return replace(batch, learned={"alpha": np.linalg.solve(gram, batch.targets).astype(np.float32)})


def _ask_kernel_ridge(head: Any, batch: Batch, queries: FloatArray) -> FloatArray:
    teachers, rows, features = batch.X.shape
    flat = batch.X.reshape(-1, features)
    near = queries @ flat.T
    near *= np.float32(2 / head.width)
    near -= (np.square(flat).sum(axis=1) / np.float32(head.width))[None, :]
    near -= (np.square(queries).sum(axis=1) / np.float32(head.width))[:, None]
    np.exp(near, out=near)
    # Padded rows have alpha = 0 and so add nothing.
    return np.matmul(near.reshape(len(queries), teachers, rows).transpose(1, 0, 2), batch.learned["alpha"])


def _solve_ridge(head: Any, batch: Batch) -> Batch:
    """Ridge on one-hot targets around each shard's own means, in the smaller of its two forms."""
    X, held, mean = _centred(batch)
    targets = batch.targets
    shares = targets.sum(axis=1) / np.maximum(batch.sizes, 1)[:, None]
    gaps = (targets - shares[:, None, :]) * held[:, :, None]
    rows, features = X.shape[1:]
    if rows <= features:
        system = X @ X.transpose(0, 2, 1) + head.penalty * np.eye(rows)
        weights = X.transpose(0, 2, 1) @ np.linalg.solve(system, gaps)
    else:
        system = X.transpose(0, 2, 1) @ X + head.penalty * np.eye(features)
        weights = np.linalg.solve(system, X.transpose(0, 2, 1) @ gaps)
    offset = shares - np.einsum("tf,tfc->tc", mean, weights)
    return _linear(batch, weights, offset)


def _solve_logistic(head: Any, batch: Batch) -> Batch:
    """Each class against the rest by Newton's method; two classes need one problem. The offset is not penalised."""
    teachers, rows, features = batch.X.shape
    X = np.concatenate([batch.X, np.ones((teachers, rows, 1), np.float32)], axis=2).astype(np.float64)
    held = (batch.y >= 0).astype(np.float64)
    problems = [1] if batch.classes == 2 else list(range(batch.classes))
    solved = [_newton(X, (batch.y == k).astype(np.float64), held, head.penalty) for k in problems]
    if batch.classes == 2:
        solved = [-solved[0], solved[0]]
    stacked = np.stack(solved, axis=2)
    return _linear(batch, stacked[:, :features], stacked[:, features])


def _newton(X: Any, wanted: Any, held: Any, penalty: float) -> Any:
    """Weights (teachers, features + 1) of ridge-penalised logistic regressions, one per teacher.

    A class that a shard lacks, or has alone, would push its offset to infinity: a thousandth of the penalty on the
    offset keeps it finite and moves the others by far less than their own spread.
    """
    teachers, _, width = X.shape
    ridge = np.full(width, penalty)
    ridge[-1] = 1e-3 * penalty
    w = np.zeros((teachers, width))

    def loss(w: Any) -> Any:
        z = np.einsum("trf,tf->tr", X, w)
        return (held * (np.logaddexp(0, z) - wanted * z)).sum(axis=1) + 0.5 * (ridge * w**2).sum(axis=1)

    before = loss(w)
    for _ in range(_NEWTON_STEPS):
        p = expit(np.einsum("trf,tf->tr", X, w))
        gradient = np.einsum("trf,tr->tf", X, held * (p - wanted)) + ridge * w
        # Each teacher stops by its own gradient: nobody's rows decide how far another goes.
        open_ = np.abs(gradient).max(axis=1, initial=0) >= 1e-6
        if not open_.any():
            break
        curved = X * (held * p * (1 - p))[:, :, None]
        hessian = X.transpose(0, 2, 1) @ curved + np.eye(width) * ridge
        step = np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0]
        size = np.where(open_, 1.0, 0.0)[:, None]
        for _ in range(30):
            after = loss(w - size * step)
            worse = after > before + 1e-12
            if not worse.any():
                break
            size[worse] /= 2
        w, before = w - size * step, loss(w - size * step)
    return w


def _solve_centroid(head: Any, batch: Batch) -> Batch:
    """The mean of each class as a linear score: -|x - mean|^2 up to |x|^2; a class without rows is never chosen."""
    counts = batch.targets.sum(axis=1)
    means = np.einsum("trf,trc->tfc", batch.X, batch.targets) / np.maximum(counts, 1)[:, None, :]
    offset = np.where(counts > 0, -(means**2).sum(axis=1), -1e30)
    return _linear(batch, 2 * means, offset)


def _linear(batch: Batch, weights: Any, offset: Any) -> Batch:
    learned = {"weights": weights.astype(np.float32), "offset": offset.astype(np.float32)}
    # Linear heads need their rows no longer.
    return replace(batch, X=batch.X[:, :0].copy(), y=batch.y[:, :0].copy(), learned=learned)


def _ask_linear(head: Any, batch: Batch, queries: FloatArray) -> FloatArray:
    return queries[None] @ batch.learned["weights"] + batch.learned["offset"][:, None, :]


def _ask_neighbours(head: Any, batch: Batch, queries: FloatArray) -> FloatArray:
    teachers, rows, features = batch.X.shape
    flat = batch.X.reshape(-1, features)
    distance = np.square(flat).sum(axis=1)[None, :] - 2 * queries @ flat.T
    distance = distance.reshape(len(queries), teachers, rows).transpose(1, 0, 2)
    distance = np.where(batch.y[:, None, :] >= 0, distance, np.inf)
    count = min(head.neighbours, rows)
    nearest = np.argsort(distance, axis=2, kind="stable")[:, :, :count]
    labels = np.take_along_axis(np.broadcast_to(batch.y[:, None, :], distance.shape), nearest, axis=2)
    # A nearer neighbour breaks ties; padded rows have the label -1 and count for nothing.
    votes = 1 - 1e-3 * np.arange(count) / count
    scores = np.stack([((labels == k) * votes).sum(axis=2) for k in range(batch.classes)], axis=2)
    return scores.astype(np.float32)


def _centred(batch: Batch) -> tuple[Any, Any, Any]:
    held = (batch.y >= 0).astype(np.float64)
    mean = batch.X.sum(axis=1, dtype=np.float64) / np.maximum(batch.sizes, 1)[:, None]
    return (batch.X - mean[:, None, :]) * held[:, :, None], held, mean
