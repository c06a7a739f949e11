"""How `adult.py` chose its teacher, number of queries and student: on simulated labels of public rows.

    python benchmarks/adult_choice.py --data DIR [--worlds 6] [--epsilon 1.0]

The public half of adult.test gives rows, without their labels. In each simulated world, a random function of a row
(linear, an average of random trees, or the sum of both) gives the probability of the second class, which has 24% in
total; the best possible accuracy is 86% (both are known of Adult from the literature). 32,561 rows from one half of the
pool, with simulated labels, replace the private data. The score of every combination is the student's expected accuracy
on rows that neither teachers nor student saw, minus the best possible.
"""

from __future__ import annotations

import argparse
import contextlib
import warnings
from itertools import product

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.special import expit
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.exceptions import ConvergenceWarning

from ostrakon.accounting.calibration.noise import calibrate
from ostrakon.data.datasets import adult
from ostrakon.data.partition import random_partition
from ostrakon.estimators.choices import make_student, make_teacher
from ostrakon.features.queries import representatives
from ostrakon.features.tables import TableFeatures
from ostrakon.mechanisms import GNMax
from ostrakon.teachers import collect_votes, train_teachers
from ostrakon.validation import InvalidInput

TEACHERS, DELTA = 250, 1e-5
KINDS = ("linear", "trees", "both")
TEACHER_CHOICES = (
    *(f"head:logistic(penalty={penalty})" for penalty in (10.0, 1.0, 0.1, 0.01)),
    "head:ridge(penalty=1.0)",
)
QUERY_CHOICES = (50, 100, 200, 400, 800)
STUDENT_CHOICES = ("logistic(C=10.0)", "logistic", "logistic(C=0.1)")


def world(pool: pd.DataFrame, seed: int):
    """(private X, y, public X, test X, chances of the test rows) of a simulated population."""
    rng = np.random.default_rng(seed)
    private, public, test = np.split(rng.permutation(len(pool)), [len(pool) // 2, 3 * len(pool) // 4])
    features = TableFeatures().fit(pool.iloc[public])
    X = features.transform(pool).astype(float)
    linear = X @ (rng.normal(size=X.shape[1]) * rng.random(X.shape[1]) ** 2)
    few = TableFeatures().fit_transform(pool.iloc[:, rng.choice(pool.shape[1], 8, replace=False)])
    noise = rng.normal(size=len(pool)) + 2 * np.tanh(few @ rng.normal(size=few.shape[1]))
    trees = ExtraTreesRegressor(30, min_samples_leaf=20, max_features=0.5, random_state=seed).fit(few, noise)
    scores = [_standard(linear), _standard(trees.predict(few))]
    score = _standard((scores[0], scores[1], scores[0] + scores[1])[seed % 3])

    def chances(steepness: float) -> np.ndarray:
        shift = brentq(lambda shift: expit(steepness * score + shift).mean() - 0.24, -60, 60)
        return expit(steepness * score + shift)

    best = brentq(lambda steepness: np.maximum(p := chances(steepness), 1 - p).mean() - 0.86, 0.05, 30)
    chance = chances(best)
    rows = rng.choice(private, 32_561)
    y = (rng.random(len(rows)) < chance[rows]).astype(np.int64)
    return X[rows], y, X[public], X[test], chance[test]


def _standard(values: np.ndarray) -> np.ndarray:
    return (values - values.mean()) / values.std()


def expected_accuracy(predicted: np.ndarray, chance: np.ndarray) -> float:
    return float(np.where(predicted == 1, chance, 1 - chance).mean())


def main() -> None:
    warnings.filterwarnings("ignore", category=ConvergenceWarning)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=None)
    parser.add_argument("--worlds", type=int, default=6)
    parser.add_argument("--epsilon", type=float, default=1.0)
    options = parser.parse_args()
    pool = adult(options.data).X_public
    noises = {}
    for queries in QUERY_CHOICES:
        with contextlib.suppress(InvalidInput):  # more noise than there are teachers
            noises[queries] = calibrate(
                GNMax(sigma2=40.0), epsilon=options.epsilon, queries=queries, delta=DELTA, teachers=TEACHERS
            )
    found = []
    for seed in range(options.worlds):
        X, y, X_public, X_test, chance = world(pool, seed)
        best = expected_accuracy(chance > 0.5, chance)
        order = representatives(X_public, max(QUERY_CHOICES), random_state=seed)
        for teacher in TEACHER_CHOICES:
            split = random_partition(len(y), TEACHERS, seed=seed)
            teachers = train_teachers(make_teacher(teacher), X, y, split, n_teachers=TEACHERS, classes=2, n_jobs=1)
            votes = collect_votes(teachers, X_public[order])
            for queries, student in product(noises, STUDENT_CHOICES):
                labels = np.full(len(X_public), -1)
                labels[order[:queries]] = noises[queries].sample(
                    votes[:queries], np.random.default_rng([seed, queries])
                )
                learned = make_student(student, seed=seed).fit(X_public, labels)
                score = expected_accuracy(learned.predict(X_test), chance) - best
                found.append((KINDS[seed % 3], teacher, queries, student, 100 * score))
        print(f"world {seed} ({KINDS[seed % 3]}) done", flush=True)
    table = pd.DataFrame(found, columns=["world", "teacher", "queries", "student", "score"])
    print(table.groupby(["teacher", "queries", "student"]).score.mean().unstack("student").round(2).to_string())
    ranked = table.groupby(["teacher", "queries", "student"]).score.agg(["mean", "min"]).sort_values("mean")
    print(ranked.tail(12).round(2).to_string())


if __name__ == "__main__":
    main()
