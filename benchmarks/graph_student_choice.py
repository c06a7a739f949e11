"""How the graph student's rounds were chosen: on scikit-learn's digits, handwriting of other people than MNIST's.

    python benchmarks/graph_student_choice.py [--seeds 0 1 2] [--seconds 540]

1,797 digits of 8x8 pixels, enlarged to 28x28; 40, 80 or 160 representatives with their labels, of which some are wrong:
how much of the pool the graph of the representation gets right, and how much the student after every round. Beside it
the plain way: rows that count alike, the surest 80% (then 90%, 95%, ...) of them.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from skimage.transform import resize
from sklearn.datasets import load_digits

from quorate.networks.classifier import TorchClassifier
from quorate.public import learn_representation, representatives
from quorate.students.graph_model import GraphStudent, lead

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


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, nargs="*", default=(0, 1, 2))
    parser.add_argument("--seconds", type=float, default=1e9)
    given = parser.parse_args()
    until = time.monotonic() + given.seconds
    X, y = digits()
    features = learn_representation("hog", X, random_state=0).transform(X)
    for asked, wrong in CASES:
        for name, kind in (("every row by its lead", TorchClassifier), ("the surest alike", Surest)):
            right = []
            for seed in given.seeds:
                if time.monotonic() > until:
                    raise SystemExit("out of time")
                labels = answers(features, y, asked=asked, wrong=wrong, seed=seed)
                student = GraphStudent(rounds=1, random_state=seed).fit(X, labels)
                beliefs = student.graph_.beliefs_
                right.append([(beliefs.argmax(axis=1) == y).mean()])
                for number in range(ROUNDS):
                    model = kind("quick-cnn", steps=280, learning_rate=0.004, augmentation="moderate", average=0.99)
                    model.set_params(random_state=10 * seed + number)
                    if kind is Surest:
                        model.share = 1 - 0.2 / 2**number
                    model.fit(X, beliefs.argmax(axis=1), sample_weight=np.maximum(lead(beliefs), 1e-3))
                    # A class that nobody is likeliest to have would shift the columns; with these labels none is.
                    assert len(model.classes_) == 10
                    beliefs = model.predict_proba(X)
                    right[-1].append((beliefs.argmax(axis=1) == y).mean())
            means = ", ".join(f"{mean:.4f}" for mean in np.mean(right, axis=0))
            print(f"{asked} labels, {wrong} wrong, {name}: graph and rounds {means}", flush=True)


if __name__ == "__main__":
    main()
