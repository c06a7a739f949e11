"""A fit on a table of very many columns, and its principal directions beside numpy's eigenvectors of all features.

    python benchmarks/scale_columns.py [--columns 1000 2000 5000]

3,000 private and 1,000 public rows of 0 and 1. Prints processor seconds.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import ostrakon
from ostrakon.features.moments import principal_vectors

RECORDS, PUBLIC, KEPT = 3000, 1000, 57


def seconds(job: Callable[..., Any], *given: Any, **named: Any) -> float:
    """Return the processor seconds of a call."""
    started = time.process_time()
    job(*given, **named)
    return time.process_time() - started


def main() -> None:
    """Print a line for every number of columns."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--columns", nargs="+", type=int, default=[1000, 2000, 5000])
    print("| columns | fit, s | principal directions, s | all eigenvectors, s | ratio |\n|---|---|---|---|---|")
    for columns in parser.parse_args().columns:
        rng = np.random.default_rng(0)
        X = (rng.random((RECORDS + PUBLIC, columns)) < 0.05).astype(float)
        scores = X @ (rng.normal(size=columns) * (rng.random(columns) < 0.05))
        y = (scores + rng.logistic(0, 0.3, len(X)) > np.median(scores)).astype(int)
        model = ostrakon.PATEClassifier(epsilon=1.0, classes=[0, 1], random_state=0)
        fit = seconds(model.fit, X[:RECORDS], y[:RECORDS], X_public=X[RECORDS:])
        away = X[RECORDS:] - X[RECORDS:].mean(axis=0)
        ours = seconds(principal_vectors, away, KEPT)
        plain = seconds(lambda rows: np.linalg.eigh(rows.T @ rows), away)
        print(f"| {columns:,} | {fit:.0f} | {ours:.2f} | {plain:.1f} | {plain / ours:.0f} |", flush=True)


if __name__ == "__main__":
    main()
