"""How the graph student was chosen: on scikit-learn's digits, handwriting of other people than MNIST's.

    python benchmarks/graph_student_choice.py [--seeds 0 1 2] [--seconds 540]

1,797 digits of 8x8 pixels, enlarged to 28x28. Three questions:
- which rows a model learns from: every row, weighted by its margin, or the surest 80% (then 90%, 95%, ...) alike;
- which models predict: the last, or the average of all but the first;
- what is spread with per-record teachers: the positive part of the noisy counts, or only the largest count.
For the first two, 40, 80 or 160 queries have labels, some of them wrong. For the third, half of the digits are
per-record teachers and the other half the pool, with five, two or one times more votes than noise per query.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from skimage.transform import resize
from sklearn.datasets import load_digits

from ostrakon.features import build_graph, learn_representation, representatives
from ostrakon.networks.classifier import TorchClassifier
from ostrakon.students.graph_model import GraphStudent, lead
from ostrakon.teachers.per_record import collect_per_record

CASES = ((40, 0), (40, 1), (80, 0), (80, 3), (160, 12))
ROUNDS = 5


class Surest(TorchClassifier):
    """The plain way: the surest rows count alike, the others not at all."""

    share = 0.8

    def fit(self, X, y, sample_weight=None):
        rows = np.argsort(-sample_weight, kind="stable")[: round(self.share * len(y))]
        return super().fit(X[np.sort(rows)], y[np.sort(rows)])


def digits() -> tuple[np.ndarray, np.ndarray]:
    """(images, classes): digits enlarged to MNIST's format."""
    data = load_digits()
    large = np.stack([resize(image / 16, (20, 20), order=1, anti_aliasing=False) for image in data.images])
    return np.pad(large, ((0, 0), (4, 4), (4, 4))).astype(np.float32), data.target


def answers(features: np.ndarray, y: np.ndarray, *, asked: int, wrong: int, seed: int) -> np.ndarray:
    """Labels of the representatives, -1 elsewhere, `wrong` of them changed at random."""
    rng = np.random.default_rng(seed)
    queries = representatives(features, asked, random_state=seed)
    labels = np.full(len(y), -1)
    labels[queries] = y[queries]
    changed = rng.choice(queries, wrong, replace=False)
    labels[changed] = (labels[changed] + rng.integers(1, 10, wrong)) % 10
    return labels


def rounds_of(kind: type[TorchClassifier], X, beliefs, seed: int) -> list[np.ndarray]:
    """What the models of every round believe."""
    found = []
    for number in range(ROUNDS):
        model = kind("quick-cnn", steps=280, learning_rate=0.004, augmentation="moderate", average=0.99)
        model.set_params(random_state=10 * seed + number)
        if kind is Surest:
            model.share = 1 - 0.2 / 2**number
        model.fit(X, beliefs.argmax(axis=1), sample_weight=np.maximum(lead(beliefs), 1e-3))
        # A class that nobody is likeliest to have would shift the columns; with these labels none is.
        assert len(model.classes_) == 10
        beliefs = model.predict_proba(X)
        found.append(beliefs)
    return found


def rows_and_models(X, y, features, seeds, until: float) -> None:
    """The first two questions."""
    for asked, wrong in CASES:
        for name, kind in (("every row by its lead", TorchClassifier), ("the surest alike", Surest)):
            right = []
            for seed in seeds:
                if time.monotonic() > until:
                    raise SystemExit("out of time")
                labels = answers(features, y, asked=asked, wrong=wrong, seed=seed)
                graph = GraphStudent(rounds=1, random_state=seed).fit(X, labels).graph_.beliefs_
                found = rounds_of(kind, X, graph, seed)
                together = np.mean(np.log(np.maximum(found[1:], 1e-30)), axis=0)
                right.append([(each.argmax(axis=1) == y).mean() for each in (graph, *found, together)])
            *means, together = np.mean(right, axis=0)
            told = ", ".join(f"{mean:.4f}" for mean in means)
            print(
                f"{asked} labels, {wrong} wrong, {name}: graph and rounds {told}; all but the first {together:.4f}",
                flush=True,
            )


def per_record_votes(X, y, features, seeds) -> None:
    """The third question."""
    for times in (5, 2, 1):
        for asked in (40, 80, 160):
            right = []
            for seed in seeds:
                private, pool = np.array_split(np.random.default_rng(seed).permutation(len(y)), 2)
                queries = representatives(features[pool], asked, random_state=seed)
                everyone = [(np.arange(len(private)), features[private], y[private])]
                counts = collect_per_record(everyone, features[pool][queries], classes=10, units=len(private)).counts
                sigma = len(private) / (times * asked)
                noisy = counts + np.random.default_rng([seed, asked]).normal(0, sigma, counts.shape)
                graph = build_graph(features[pool])
                hard = np.full(len(pool), -1)
                hard[queries] = noisy.argmax(axis=1)
                positive = np.zeros((len(pool), 10))
                positive[queries] = np.maximum(noisy, 0)
                right.append(
                    [(graph.spread(each, classes=10).argmax(axis=1) == y[pool]).mean() for each in (hard, positive)]
                )
            largest, positive = np.mean(right, axis=0)
            print(
                f"{asked} queries with counts of {times} times their noise: largest alone {largest:.4f}, "
                f"positive part {positive:.4f}",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, nargs="*", default=(0, 1, 2))
    parser.add_argument("--seconds", type=float, default=1e9)
    given = parser.parse_args()
    X, y = digits()
    features = learn_representation("hog", X, random_state=0).transform(X)
    per_record_votes(X, y, features, range(10))
    rows_and_models(X, y, features, given.seeds, time.monotonic() + given.seconds)


if __name__ == "__main__":
    main()
