"""The linear algebra of heads: every teacher is solved and evaluated separately, in arrays of its own shape.

The rounding of linear algebra depends on the shape of an array, on the position of a row in it, on its memory address
and on the number of threads. So no array has rows of two teachers, every array in a product starts at a cache line, and
callers set one thread: the bits of a teacher depend on its own rows and on public numbers alone.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg.lapack import dposv
from scipy.special import expit

from ostrakon.validation import InvalidInput
from ostrakon.votes import FloatArray, IntArray

Learned = dict[str, NDArray[Any]]
HeadKind = Literal["kernel-ridge", "ridge", "logistic", "nearest-neighbours", "nearest-centroid"]

GRID = 2.0**-30
"""Scores are rounded to multiples of this public number before the largest is chosen."""

_LINE = 64
_BLOCK = 2**17
_NEWTON_STEPS = 25


class Queries:
    """Features of public queries in the form that all heads use.

    lifted: (queries, features + 2 and padding), every row followed by 1 and minus its square, so that a score, a
    distance and the exponent of a kernel are one product. unit: the largest square, a public scale for distances.
    """

    def __init__(self, features: ArrayLike) -> None:
        self.lifted = _lifted(np.asarray(features, np.float64))
        self.features = np.asarray(features).shape[1]
        self.unit = float(-self.lifted[:, self.features + 1].min(initial=0)) or 1.0

    def __len__(self) -> int:
        return len(self.lifted)


@dataclass(frozen=True, kw_only=True)
class Head:
    """One teacher: numbers of rows and features, the classes of its rows, and the learned arrays."""

    rows: int
    features: int
    has_class: NDArray[np.bool_]
    learned: Learned


def solve(parameters: Any, X: ArrayLike, y: IntArray, *, classes: int) -> Head:
    """Learn one head from the rows of one teacher; parameters: a `HeadEnsemble` with a fixed width."""
    rows = _aligned(X)
    learn = _kind(parameters.kind)[0]
    with np.errstate(all="ignore"):
        learned = learn(parameters, rows, y, classes) if len(y) else {}
    return Head(rows=len(y), features=rows.shape[1], has_class=np.bincount(y, minlength=classes) > 0, learned=learned)


def scores(parameters: Any, head: Head, queries: Queries) -> FloatArray:
    """Return scores on the public grid, (queries, classes); -inf for NaN, and for classes without rows of the
    teacher."""
    out = np.empty((len(queries), len(head.has_class)))
    score_block = _kind(parameters.kind)[1]
    # The size of a block of queries depends on the rows of this teacher alone.
    block = max(_LINE, _BLOCK // max(head.rows, len(head.has_class)))
    with np.errstate(all="ignore"):
        for start in range(0, len(queries), block):
            some = queries.lifted[start : start + block]
            out[start : start + block] = score_block(parameters, head, some, queries.unit)
        out = np.rint(out / GRID) * GRID
    out[np.isnan(out)] = -np.inf
    out[:, ~head.has_class] = -np.inf
    return out


def predictions(parameters: Any, head: Head, queries: Queries) -> IntArray:
    """Return the class with the largest score, the lowest one in a tie; -1 for a teacher without rows."""
    if not head.rows:
        return np.full(len(queries), -1, np.int64)
    best = scores(parameters, head, queries).argmax(axis=1)
    # If every score is -inf, argmax may return a class without rows.
    return np.where(head.has_class[best], best, head.has_class.argmax())


def require_kind(kind: str) -> None:
    """Raises `InvalidInput` for an unknown kind of head."""
    _kind(kind)


def _kind(kind: str) -> tuple[Callable[..., Learned], Callable[..., FloatArray]]:
    """Return the functions that learn and score a kind of head."""
    kinds: dict[str, Any] = {
        "kernel-ridge": (_learn_kernel_ridge, _score_kernel_ridge),
        "ridge": (_learn_ridge, _score_linear),
        "logistic": (_learn_logistic, _score_linear),
        "nearest-neighbours": (_learn_neighbours, _score_neighbours),
        "nearest-centroid": (_learn_centroid, _score_centroid),
    }
    if kind not in kinds:
        raise InvalidInput(f"kind must be one of {', '.join(kinds)}, got {kind!r}.")
    return kinds[kind]


def _learn_kernel_ridge(parameters: Any, X: FloatArray, y: IntArray, classes: int) -> Learned:
    gram = _kernel(_lifted(X), X, parameters.width)
    gram[np.diag_indices(len(gram))] = 1 + parameters.penalty
    # The features were given in single precision.
    return {"X": X.astype(np.float32), "alpha": _solve_system(gram, _one_hot(y, classes))}


def _score_kernel_ridge(parameters: Any, head: Head, some: FloatArray, unit: float) -> FloatArray:
    near = _kernel(some, _aligned(head.learned["X"]), parameters.width)
    return _product(near, head.learned["alpha"])


def _kernel(some: FloatArray, X: FloatArray, width: float) -> FloatArray:
    """Return exp(-|q - x|^2 / width) of lifted q and of x, (queries, rows)."""
    features = X.shape[1]
    rows = _zeros(len(X), some.shape[1])
    rows[:, :features] = X * (2 / width)
    rows[:, features] = -np.square(X).sum(axis=1) / width
    rows[:, features + 1] = 1 / width
    exponents = _product(some, rows.T)
    # Rounding can make the distance of large, close rows negative.
    np.minimum(exponents, 0, out=exponents)
    return np.exp(exponents, out=exponents)


def _learn_ridge(parameters: Any, X: FloatArray, y: IntArray, classes: int) -> Learned:
    """Ridge regression on centred one-hot targets, in the smaller of its two forms."""
    targets = _one_hot(y, classes)
    mean, shares = X.mean(axis=0), targets.mean(axis=0)
    centred, gaps = _aligned(X - mean), _aligned(targets - shares)
    if len(X) <= X.shape[1]:
        weights = _product(
            centred.T, _solve_system(_with_ridge(_product(centred, centred.T), parameters.penalty), gaps)
        )
    else:
        weights = _solve_system(
            _with_ridge(_product(centred.T, centred), parameters.penalty), _product(centred.T, gaps)
        )
    return _linear(weights, shares - _product(_aligned(mean[None]), weights)[0])


def _learn_logistic(parameters: Any, X: FloatArray, y: IntArray, classes: int) -> Learned:
    """Fit each class against the rest by Newton's method; two classes need one problem. The offset is not penalised."""
    extended = _zeros(len(X), X.shape[1] + 1)
    extended[:, :-1], extended[:, -1] = X, 1
    problems = [1] if classes == 2 else list(range(classes))
    weights = [_newton(extended, (y == k).astype(np.float64), parameters.penalty) for k in problems]
    if classes == 2:
        weights = [-weights[0], weights[0]]
    stacked = np.stack(weights, axis=1)
    return _linear(stacked[:-1], stacked[-1])


def _newton(X: FloatArray, targets: FloatArray, penalty: float) -> FloatArray:
    """Weights (features + 1,) of a ridge-penalised logistic regression.

    Without a penalty, the offset of a class with no rows, or with all rows, would be infinite: a thousandth of the
    penalty keeps it finite and changes the other weights very little.
    """
    ridge = np.full(X.shape[1], penalty)
    ridge[-1] = 1e-3 * penalty
    w = np.zeros(X.shape[1])

    def loss(w: FloatArray) -> float:
        z = _times(X, w)
        return float((np.logaddexp(0, z) - targets * z).sum() + 0.5 * (ridge * w**2).sum())

    current = loss(w)
    for _ in range(_NEWTON_STEPS):
        p = expit(_times(X, w))
        gradient = _times(X.T, p - targets) + ridge * w
        if not np.abs(gradient).max() >= 1e-6:
            break
        hessian = _product(X.T, _aligned(X * (p * (1 - p))[:, None]))
        step = _solve_system(_with_ridge(hessian, ridge), gradient[:, None])[:, 0]
        size = 1.0
        for _ in range(30):
            next_loss = loss(w - size * step)
            if next_loss <= current + 1e-12:
                break
            size /= 2
        else:
            break
        w, current = w - size * step, next_loss
    return w


def _learn_centroid(parameters: Any, X: FloatArray, y: IntArray, classes: int) -> Learned:
    """Return the mean of each class as a linear score: -|x - mean|^2 up to |x|^2."""
    targets = _one_hot(y, classes)
    means = _product(X.T, targets) / np.maximum(targets.sum(axis=0), 1)
    return _linear(2 * means, -(means**2).sum(axis=0))


def _linear(weights: FloatArray, offset: FloatArray) -> Learned:
    """Return weights (features + 2 and padding, classes) for lifted queries."""
    lifted = _zeros(_width(len(weights)), weights.shape[1])
    lifted[: len(weights)], lifted[len(weights)] = weights, offset
    return {"weights": lifted}


def _score_linear(parameters: Any, head: Head, some: FloatArray, unit: float) -> FloatArray:
    return _product(some, _aligned(head.learned["weights"]))


def _score_centroid(parameters: Any, head: Head, some: FloatArray, unit: float) -> FloatArray:
    # Differences of squared distances have the scale of the features, so the grid is relative to the queries.
    return _score_linear(parameters, head, some, unit) / unit


def _learn_neighbours(parameters: Any, X: FloatArray, y: IntArray, classes: int) -> Learned:
    # Sorted by class: among rows at equal distances, the lowest class is nearest.
    order = np.argsort(y, kind="stable")
    return {"X": X[order].astype(np.float32), "y": y[order]}


def _score_neighbours(parameters: Any, head: Head, some: FloatArray, unit: float) -> FloatArray:
    X, y = _aligned(head.learned["X"]), head.learned["y"]
    features = X.shape[1]
    own = _zeros(len(X), some.shape[1])
    own[:, :features], own[:, features], own[:, features + 1] = -2 * X, np.square(X).sum(axis=1), -1
    distance = np.rint(_product(some, own.T) / unit / GRID)
    count = min(parameters.neighbours, len(X))
    one = count == 1
    near = distance.argmin(axis=1)[:, None] if one else np.argsort(distance, axis=1, kind="stable")[:, :count]
    # A nearer neighbour breaks ties.
    weight = 1 - 1e-3 * np.arange(count) / count
    labels = y[near]
    return np.stack([((labels == k) * weight).sum(axis=1) for k in range(len(head.has_class))], axis=1)


def _one_hot(y: IntArray, classes: int) -> FloatArray:
    return _aligned(y[:, None] == np.arange(classes))


def _with_ridge(system: FloatArray, penalty: Any) -> FloatArray:
    system[np.diag_indices(len(system))] += penalty
    return system


def _solve_system(system: FloatArray, targets: FloatArray) -> FloatArray:
    """Solve a symmetric positive system in place; by least squares if singular, 0 if that fails."""
    diagonal = system.diagonal().copy()
    _, solution, failed = dposv(system.T, _aligned(targets.T).T, lower=0, overwrite_a=1, overwrite_b=1)
    if not failed and np.isfinite(solution).all():
        return solution
    upper = np.triu(system, 1)
    try:
        solution = np.linalg.lstsq(upper + upper.T + np.diag(diagonal), targets, rcond=None)[0]
    except np.linalg.LinAlgError:
        solution = np.zeros(targets.shape)
    return np.where(np.isfinite(solution), solution, 0)


def _lifted(X: FloatArray) -> FloatArray:
    lifted = _zeros(len(X), _width(X.shape[1]))
    lifted[:, : X.shape[1]], lifted[:, X.shape[1]], lifted[:, X.shape[1] + 1] = X, 1, -np.square(X).sum(axis=1)
    return lifted


def _width(features: int) -> int:
    """Return the number of columns of lifted rows, padded so that every row starts at a cache line."""
    return -(-(features + 2) // 8) * 8


def _zeros(*shape: int) -> FloatArray:
    """Zeros that start at a cache line."""
    size = 8 * math.prod(shape)
    buffer = np.zeros(size + _LINE, np.uint8)
    start = -buffer.__array_interface__["data"][0] % _LINE
    return buffer[start : start + size].view(np.float64).reshape(shape)


def _aligned(X: ArrayLike) -> FloatArray:
    """Return a copy in double precision that starts at a cache line."""
    copy = _zeros(*np.shape(X))
    copy[...] = X
    return copy


def _product(left: FloatArray, right: FloatArray) -> FloatArray:
    return np.matmul(left, right, out=_zeros(left.shape[0], right.shape[1]))


def _times(left: FloatArray, right: FloatArray) -> FloatArray:
    return _product(left, _aligned(right[:, None]))[:, 0]
