"""Levels of consent beside one budget for all, and beside leaving people out.

    python benchmarks/consent.py --adult DIR [--repetitions 0 1 2] [--tables digits]

DIR holds adult.data.gz and adult.test.gz. A third of the records, at random, allows each of the epsilons 0.5, 1 and 2
(delta 1e-5, one record replaced). Each of these respects what every person allows:
- consent: all records, each at its own epsilon;
- lowest: all records at 0.5;
- at least 1: the two thirds that allow 1, at 1;
- 2 alone: the third that allows 2, at 2;
"2 for all" is what would be possible if everybody allowed 2. Adult: adult.data is private, half of adult.test public,
half tests. Of scikit-learn's tables 50% of the rows are private, 30% public and 20% tests. Noise is seeded. Results are
appended to results/consent.csv.
"""

from __future__ import annotations

import argparse
import csv
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import train_test_split

import ostrakon
from ostrakon.data.datasets import adult

ALLOWED = {"low": 0.5, "middle": 1.0, "high": 2.0}
RESULTS = Path(__file__).parent / "results" / "consent.csv"


def tables(folder: Path) -> dict[str, Any]:
    def of_sklearn(load: Any) -> Any:
        def split(seed: int) -> tuple[Any, ...]:
            X, y = load(return_X_y=True)
            X, rest, y, other = train_test_split(X, y, test_size=0.5, random_state=seed, stratify=y)
            U, T, _, t = train_test_split(rest, other, test_size=0.4, random_state=seed)
            return X, y, U, T, t

        return split

    def of_adult(seed: int) -> tuple[Any, ...]:
        data = adult(folder)
        rest = np.random.default_rng(seed).permutation(len(data.y_test))
        U, T = rest[: len(rest) // 2], rest[len(rest) // 2 :]
        return data.X, data.y, data.X_test.iloc[U], data.X_test.iloc[T], data.y_test[T]

    return {"adult": of_adult, "digits": of_sklearn(load_digits), "breast cancer": of_sklearn(load_breast_cancer)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--adult", type=Path, required=True)
    parser.add_argument("--repetitions", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--tables", nargs="*", default=["adult", "digits", "breast cancer"])
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    new = not RESULTS.exists()
    with RESULTS.open("a", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        if new:
            out.writerow(["table", "way", "repetition", "accuracy"])
        for name, split in tables(given.adult).items():
            if name not in given.tables:
                continue
            for repetition in given.repetitions:
                X, y, U, T, t = split(repetition)
                level = np.random.default_rng(repetition).choice(list(ALLOWED), size=len(y))
                allowed = np.array([ALLOWED[one] for one in level])
                ways: dict[str, tuple[Any, dict[str, Any]]] = {
                    "consent": (allowed > 0, {"consent": ALLOWED}),
                    "lowest": (allowed > 0, {"epsilon": 0.5}),
                    "at least 1": (allowed >= 1, {"epsilon": 1.0}),
                    "2 alone": (allowed >= 2, {"epsilon": 2.0}),
                    "2 for all": (allowed > 0, {"epsilon": 2.0}),
                }
                for way, (kept, options) in ways.items():
                    rows = np.flatnonzero(kept)
                    own = X.iloc[rows].reset_index(drop=True) if hasattr(X, "iloc") else X[rows]
                    model = ostrakon.PATEClassifier(
                        classes=np.unique(y).tolist(),
                        delta=1e-5,
                        random_state=repetition,
                        allow_shared_rows=True,
                        noise=np.random.default_rng(1000 + repetition),
                        **options,
                    )
                    more = {"consent": level[rows]} if way == "consent" else {}
                    score = float(np.mean(model.fit(own, y[rows], U, **more).predict(T) == t))
                    out.writerow([name, way, repetition, f"{score:.4f}"])
                    file.flush()
                    print(name, way, repetition, f"{score:.4f}", file=sys.stderr)


if __name__ == "__main__":
    main()
