"""Made-up tables of many columns that depend little on each other, with nearly linear classes, beside descent.

    python benchmarks/many_columns.py [--seeds 0 1] [--epsilons 0.5 1 4]

The default beside one setting of DP gradient descent on the same features, both for one record replaced, and beside
the same descent without noise. The directions of the correction were chosen on the first three kinds (and on tables of
KEEL), so only the others are evidence.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from arena import FIXED, REPLACED, Contest, descent, mu_of, ours
from ostrakon.planning.defaults import default_delta

WITHOUT_NOISE = 1e9


def _labels(scores: Any, spread: float, rng: np.random.Generator) -> Any:
    """Two classes of equal size, logistic in the scores."""
    noisy = (scores - scores.mean()) / scores.std() + rng.logistic(0, spread, len(scores))
    return (noisy > np.median(noisy)).astype(int)


def counts(rng: np.random.Generator) -> tuple[Any, Any, int]:
    """60 columns of counts, a third of which matter."""
    X = rng.poisson(rng.gamma(0.3, 2, (6000, 60)))
    return X, _labels(np.log1p(X) @ (rng.normal(size=60) * (rng.random(60) < 0.3)), 0.2, rng), 3500


def binary(rng: np.random.Generator) -> tuple[Any, Any, int]:
    """40 columns of 0 and 1, eight of which matter."""
    X = rng.integers(0, 2, (4000, 40))
    return X, (X[:, :8].sum(axis=1) + rng.normal(size=4000) > 4).astype(int), 1500


def normal(rng: np.random.Generator) -> tuple[Any, Any, int]:
    """50 normal columns."""
    X = rng.normal(size=(5000, 50))
    return X, _labels(X @ rng.normal(size=50), 0.4, rng), 2000


def words(rng: np.random.Generator) -> tuple[Any, Any, int]:
    """Counts of 120 words in texts of eight topics."""
    topics, mixture = rng.dirichlet(np.full(120, 0.3), 8), rng.dirichlet(np.full(8, 0.6), 6000)
    X = rng.poisson(25 * mixture @ topics)
    return X, _labels(np.sqrt(X) @ rng.normal(size=120), 0.3, rng), 3600


def survey(rng: np.random.Generator) -> tuple[Any, Any, int]:
    """25 questions with four answers."""
    said, weights = rng.integers(0, 4, (5000, 25)), rng.normal(size=(25, 4))
    return np.array(list("abcd"))[said], _labels(weights[np.arange(25), said].sum(axis=1), 0.3, rng), 2400


def genes(rng: np.random.Generator) -> tuple[Any, Any, int]:
    """80 columns of 0, 1 and 2, all of which matter a little."""
    X = rng.binomial(2, rng.uniform(0.1, 0.5, 80), (5000, 80))
    return X, _labels(X @ rng.normal(size=80), 0.35, rng), 3000


def sensors(rng: np.random.Generator) -> tuple[Any, Any, int]:
    """64 neighbouring sensors, in three classes."""
    X = rng.normal(size=(6000, 64))
    for column in range(1, 64):
        X[:, column] = 0.8 * X[:, column - 1] + 0.6 * X[:, column]
    scores = X @ rng.normal(size=64) + np.abs(X[:, [10, 40]]).sum(axis=1)
    noisy = (scores - np.median(scores)) / scores.std() + rng.normal(0, 0.4, 6000)
    return X, np.digitize(noisy, [-0.5, 0.5]), 3300


def scales(rng: np.random.Generator) -> tuple[Any, Any, int]:
    """45 columns of different scales, and one product."""
    X = rng.normal(size=(5000, 45)) * rng.lognormal(0, 1, 45)
    scores = X / X.std(axis=0) @ rng.normal(size=45)
    return X, _labels(scores / scores.std() + 0.5 * (X[:, 0] * X[:, 1] > 0), 0.3, rng), 2700


KINDS: tuple[Callable[[np.random.Generator], tuple[Any, Any, int]], ...] = (
    counts, binary, normal, words, survey, genes, sensors, scales,
)  # fmt: skip


def contest_of(kind: Callable[[np.random.Generator], tuple[Any, Any, int]], seed: int) -> Contest:
    """A third as many public as private rows; the rest are test rows, at most 2,000."""
    X, y, private = kind(np.random.default_rng([seed, *kind.__name__.encode()]))
    table, public = pd.DataFrame(X).add_prefix("column "), private + private // 3
    parts = [table[:private], table[private:public], table[public : public + 2000]]
    X, X_public, X_test = (part.reset_index(drop=True) for part in parts)
    return Contest(X=X, y=y[:private], X_public=X_public, X_test=X_test, y_test=y[public : public + 2000],
                   classes=int(y.max()) + 1)  # fmt: skip


def right(held: Contest, epsilon: float, seed: int) -> list[float]:
    """Accuracy in % of the default, of descent, and of descent without noise."""
    delta = default_delta(len(held.y))
    likely, _ = ours(held, epsilon, REPLACED, delta, seed)
    X, X_test, _ = held.seen(seed)
    found = [likely.argmax(axis=1)]
    for mu in (mu_of(epsilon, delta), WITHOUT_NOISE):
        weights = descent(X, held.y, held.classes, mu, REPLACED, FIXED, np.random.default_rng([seed, 4]))
        found.append((np.column_stack([X_test, np.ones(len(X_test))]) @ weights).argmax(axis=1))
    return [100 * float(np.mean(one == held.y_test)) for one in found]


def main() -> None:
    """Print a line for each kind and epsilon."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.5, 1.0, 4.0])
    given = parser.parse_args()
    print("| kind | private | epsilon | ostrakon | gradient descent | without noise |\n|---|---|---|---|---|---|")
    for kind in KINDS:
        for epsilon in given.epsilons:
            contests = [contest_of(kind, seed) for seed in given.seeds]
            found = [right(held, epsilon, seed) for held, seed in zip(contests, given.seeds, strict=True)]
            mean = " | ".join(f"{value:.1f}" for value in np.mean(found, axis=0))
            print(f"| {kind.__name__} | {len(contests[0].y)} | {epsilon:g} | {mean} |", flush=True)


if __name__ == "__main__":
    main()
