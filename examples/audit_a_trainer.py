"""Auditing a trainer of your own or of another library: canaries in one run, and repeated runs until a claim falls.

    python examples/audit_a_trainer.py

Logistic regression by noisy gradient descent, once as it should be and once with a common bug: it clips the sum of the
gradients instead of each record's gradient, so one record can move the model more than the noise hides.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from ostrakon.accounting.composition.gaussian_dp import gaussian_dp_epsilon
from ostrakon.audit import audit_training

STEPS, SIGMA, DELTA = 20, 10.0, 1e-5
EPSILON = gaussian_dp_epsilon(math.sqrt(STEPS) / SIGMA, DELTA)
Array = NDArray[np.float64]


def trainer(rng: np.random.Generator, *, clip_each: bool) -> Callable[[Array, Array], Array]:
    """Gradient descent with clipped gradients and Gaussian noise; for one record more or less, it claims EPSILON."""

    def train(X: Array, y: Array) -> Array:
        weights = np.zeros(X.shape[1])
        for _ in range(STEPS):
            gradients = (expit(X @ weights) - y)[:, None] * X
            limit = 1.0 if clip_each else float(len(X))
            shown = gradients if clip_each else gradients.sum(axis=0, keepdims=True)
            shown = shown / np.maximum(np.linalg.norm(shown, axis=1, keepdims=True) / limit, 1)
            weights -= 0.01 * (shown.sum(axis=0) + SIGMA * rng.normal(size=weights.shape))
        return weights

    return train


def score(weights: Array, X: Array, y: Array) -> Array:
    return (2 * y - 1) * (X @ weights)


def main() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 10)), rng.integers(2, size=200).astype(float)
    canary = (np.full((1, 10), 10.0), np.ones(1))
    for name, clip_each in (("every gradient clipped", True), ("only the sum clipped", False)):
        found = audit_training(
            trainer(np.random.default_rng(1), clip_each=clip_each),
            (X, y),
            claimed=(EPSILON, DELTA),
            neighbours="add-remove",
            rng=rng,
            canaries=canary,
            score=score,
            runs=800,
        )
        print(f"{name}: {found.verdict}")
        assert found.refuted != clip_each


if __name__ == "__main__":
    main()
