"""Several labels of a row at one epsilon: one `PATEClassifier` for all, and simpler methods.

    python benchmarks/several_labels.py --data DATA [--sets made5 adult] [--methods ours teachers none]

DATA has the folder adult. 60% of the rows are private, 20% public (without labels), 20% tests; one record replaced,
except with `teachers`. Methods:
- ours: one release for all labels; unlimited: the same with all labels counted, where ours counts only those of a row;
- teachers: 100 trained teachers; neighbours: one record added or removed, a weaker guarantee;
- each: one `PATEClassifier` for each label, at the epsilon whose mu is 1/sqrt(labels) of the whole one;
- sets: one `PATEClassifier` whose classes are all sets of labels;
- gradient: gradient descent on logistic regression for each label, full batches, clipped and noisy, one setting;
- none: logistic regression without privacy.
With more than 8 labels, `each` fits the first 8, and all measures are of these.
"""

from __future__ import annotations

import argparse
import gzip
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.special import expit
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_digits, make_multilabel_classification
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from ostrakon import PATEClassifier
from ostrakon.accounting.composition.gaussian_dp import gaussian_dp_epsilon
from ostrakon.mechanisms import LabelsGNMax
from ostrakon.students.measures import measures_of_labels

DELTA, MOST = 1e-5, 8
ROUNDS, RATE = 50, 2.0
"""Steps and rate of `gradient`, chosen before any run."""


def made(labels: int, of_each: int) -> Callable[[Path], tuple[Any, Any]]:
    """scikit-learn's rows with several labels."""

    def rows(data: Path) -> tuple[Any, Any]:
        X, Y = make_multilabel_classification(20_000, n_features=20, n_classes=labels, n_labels=of_each, random_state=0)
        return pd.DataFrame(X, columns=[f"x{at}" for at in range(20)]), Y

    return rows


def adult(data: Path) -> tuple[Any, Any]:
    """Adult: income, sex and marriage, from the other columns."""
    first = ["age", "work", "fnlwgt", "education", "years", "marital", "job", "relationship", "race", "sex"]
    names = [*first, "gain", "loss", "hours", "country", "income"]
    with gzip.open(data / "adult" / "adult.data.gz", "rt") as file:
        table = pd.read_csv(file, names=names, skipinitialspace=True)
    Y = np.column_stack([table["income"] == ">50K", table["sex"] == "Male", table["marital"].str.startswith("Married")])
    return table.drop(columns=["income", "sex", "marital", "relationship", "fnlwgt"]), Y.astype(int)


def digits(data: Path) -> tuple[Any, Any]:
    """scikit-learn's 1,797 digits: even, with a loop, above 4."""
    X, y = load_digits(return_X_y=True)
    return pd.DataFrame(X).add_prefix("p"), np.column_stack([y % 2 == 0, np.isin(y, (0, 6, 8, 9)), y > 4]).astype(int)


def linear(kind: str) -> Callable[[Path], tuple[Any, Any]]:
    """5,000 rows of 40 columns of 0 and 1 or 60 of counts, and four labels that are logistic in them."""

    def rows(data: Path) -> tuple[Any, Any]:
        rng = np.random.default_rng(5)
        X = rng.integers(0, 2, (5000, 40)) if kind == "binary" else rng.poisson(rng.gamma(0.3, 2, (5000, 60)))
        scores = np.log1p(X) @ rng.normal(size=(X.shape[1], 4))
        scores = (scores - scores.mean(axis=0)) / scores.std(axis=0)
        Y = scores + rng.logistic(0, 0.3, scores.shape) > np.array([0, 0.5, 1, -0.3])
        return pd.DataFrame(X).add_prefix("x"), Y.astype(int)

    return rows


SETS: dict[str, tuple[Callable[[Path], tuple[Any, Any]], int | None]] = {
    "made5": (made(5, 2), None),
    "made20": (made(20, 3), 4),
    "made60": (made(60, 3), 4),
    "adult": (adult, None),
    "digits": (digits, None),
    "binary": (linear("binary"), None),
    "counts": (linear("counts"), None),
}
"""Tables, and the `max_labels` that is stated for them."""


def encoded(X: Any, public: Any) -> Any:
    """Rows as numbers, by what is public."""
    words = [name for name in X if not pd.api.types.is_numeric_dtype(X[name])]
    coder = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), words), remainder=StandardScaler()
    )
    return make_pipeline(coder).fit(public).transform(X)


def part_of(epsilon: float, labels: int) -> float:
    """The epsilon of one of `labels` releases that are together within `epsilon`, by Gaussian DP."""
    mu = brentq(lambda mu: gaussian_dp_epsilon(mu, DELTA) - epsilon, 1e-3, 10)
    return gaussian_dp_epsilon(mu / labels**0.5, DELTA)


@dataclass(frozen=True, kw_only=True)
class Split:
    """Rows of one table: private ones, public ones and tests, with labels; how many of these most rows have."""

    private: Any
    Y: Any
    public: Any
    test: Any
    right: Any
    most: int | None


def split(X: Any, Y: Any, most: int | None, seed: int) -> Split:
    """60% private, 20% public, 20% tests."""
    order = np.random.default_rng(seed).permutation(len(X))
    a, b, c = np.split(order, [int(0.6 * len(X)), int(0.8 * len(X))])
    return Split(private=X.iloc[a], Y=Y[a], public=X.iloc[b], test=X.iloc[c], right=Y[c], most=most)


def ours(parts: Split, epsilon: float, seed: int, *, student: str = "auto") -> tuple[Any, Any]:
    """(probabilities, 0 and 1) of one release for all labels."""
    mechanism = "auto" if parts.most is None else LabelsGNMax(sigma2=10, max_labels=parts.most)
    model = PATEClassifier(epsilon=epsilon, delta=DELTA, classes=list(range(parts.Y.shape[1])), random_state=seed,
                           mechanism=mechanism, student=student, allow_shared_rows=True)  # fmt: skip
    model.fit(parts.private, parts.Y, X_public=parts.public)
    return model.predict_proba(parts.test), model.predict(parts.test)


def named(parts: Split, epsilon: float, seed: int) -> tuple[Any, Any]:
    """`ours`, with boosted trees as the student."""
    return ours(parts, epsilon, seed, student="hist-gradient-boosting")


def unlimited(parts: Split, epsilon: float, seed: int) -> tuple[Any, Any]:
    """`ours`, with a vote for or against every label."""
    return ours(replace(parts, most=parts.Y.shape[1]), epsilon, seed)


def teachers(parts: Split, epsilon: float, seed: int) -> tuple[Any, Any]:
    """The same of 100 trained teachers, whose epsilon is for one record added or removed."""
    model = PATEClassifier(epsilon=epsilon, delta=DELTA, classes=list(range(parts.Y.shape[1])), random_state=seed,
                           n_teachers=100, allow_shared_rows=True)  # fmt: skip
    model.fit(parts.private, parts.Y, X_public=parts.public)
    return model.predict_proba(parts.test), model.predict(parts.test)


def each(parts: Split, epsilon: float, seed: int) -> tuple[Any, Any]:
    """The same of a release for each label."""
    labels = parts.Y.shape[1]
    likely, said = np.zeros((2, len(parts.test), labels))
    for at in range(min(labels, MOST)):
        model = PATEClassifier(epsilon=part_of(epsilon, labels), delta=DELTA, classes=[0, 1], random_state=seed,
                               allow_shared_rows=True)  # fmt: skip
        model.fit(parts.private, parts.Y[:, at], X_public=parts.public)
        likely[:, at], said[:, at] = model.predict_proba(parts.test)[:, 1], model.predict(parts.test)
    return likely, said


def sets(parts: Split, epsilon: float, seed: int) -> tuple[Any, Any]:
    """The same of one release whose classes are sets of labels."""
    labels = parts.Y.shape[1]
    powers = 2 ** np.arange(labels)
    model = PATEClassifier(epsilon=epsilon, delta=DELTA, classes=list(range(2**labels)), random_state=seed,
                           allow_shared_rows=True)  # fmt: skip
    model.fit(parts.private, parts.Y @ powers, X_public=parts.public)
    has = np.arange(2**labels)[:, None] // powers % 2
    return model.predict_proba(parts.test) @ has, has[model.predict(parts.test)]


def gradient(parts: Split, epsilon: float, seed: int) -> tuple[Any, Any]:
    """The same of noisy gradient descent for each label."""
    private, test = (add_one(encoded(rows, parts.public)) for rows in (parts.private, parts.test))
    labels, rng = parts.Y.shape[1], np.random.default_rng(seed)
    mu = brentq(lambda mu: gaussian_dp_epsilon(mu, DELTA) - epsilon, 1e-3, 10) / labels**0.5
    likely = np.zeros((len(test), labels))
    lengths = np.linalg.norm(private, axis=1)
    for at in range(labels):
        weights, total = np.zeros(private.shape[1]), np.zeros(private.shape[1])
        for step in range(ROUNDS):
            wrong = expit(private @ weights) - parts.Y[:, at]
            clipped = private * (wrong * np.minimum(1, 1 / np.maximum(np.abs(wrong) * lengths, 1e-9)))[:, None]
            noise = rng.normal(scale=2 * ROUNDS**0.5 / mu, size=len(weights))
            weights = weights - RATE * (clipped.sum(axis=0) + noise) / len(private)
            total += weights if step >= ROUNDS // 2 else 0
        likely[:, at] = expit(test @ (total / (ROUNDS - ROUNDS // 2)))
    return likely, (likely >= 0.5).astype(int)


def none(parts: Split, epsilon: float, seed: int) -> tuple[Any, Any]:
    """The same of logistic regression without privacy."""
    private, test = (encoded(rows, parts.public) for rows in (parts.private, parts.test))
    columns = [
        LogisticRegression(max_iter=300).fit(private, parts.Y[:, at]).predict_proba(test)[:, 1]
        for at in range(parts.Y.shape[1])
    ]
    likely = np.stack(columns, axis=1)
    return likely, (likely >= 0.5).astype(int)


def add_one(rows: Any) -> Any:
    """Rows with a constant."""
    return np.column_stack([rows, np.ones(len(rows))])


METHODS = {one.__name__: one for one in (ours, named, unlimited, teachers, each, sets, gradient, none)}


def main() -> None:
    """Print a line for each table, epsilon and method: means over seeds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.5, 1.0, 2.0])
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    print("table, epsilon, method, AUC, macro F1, micro F1, log loss, all labels right, Hamming loss, seconds")
    for name in given.sets:
        read, most = SETS[name]
        X, Y = read(given.data)
        tables = [split(X, Y, most, seed) for seed in given.seeds]
        for method in given.methods:
            if (method == "sets" and Y.shape[1] > 5) or (method == "unlimited" and most is None):
                continue
            for epsilon in given.epsilons if method != "none" else [0]:
                found = []
                for parts, seed in zip(tables, given.seeds, strict=True):
                    began = time.process_time()
                    likely, said = (part[:, :MOST] for part in METHODS[method](parts, epsilon, seed))
                    seconds = time.process_time() - began
                    one = measures_of_labels(likely, said.astype(int), parts.right[:, :MOST], range(likely.shape[1]))
                    losses = one.log_loss, one.subset_accuracy, one.hamming_loss
                    found.append((one.auc, one.macro_f1, one.micro_f1, *losses, seconds))
                numbers = ", ".join(f"{value:.3f}" for value in np.mean(found, axis=0))
                print(f"{name}, {epsilon:g}, {method}, {numbers}", flush=True)


if __name__ == "__main__":
    main()
