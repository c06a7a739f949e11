"""How the graph student's settings were chosen: on scikit-learn's digits, handwriting of other people than MNIST's.

    python benchmarks/graph_student_choice.py [--seeds 0 1 2] [--seconds 540]

1,797 digits of 8x8 pixels, enlarged to 28x28; 40, 80 or 160 representatives with their labels, of which some are wrong.
For each share to start from and number of rounds: how much of the pool the graph of the representation gets right, and
how much the student does. The last rows are the plain way: no new graph, a network that learns from its own beliefs.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from skimage.transform import resize
from sklearn.base import clone
from sklearn.datasets import load_digits

from quorate.networks.classifier import TorchClassifier
from quorate.public import learn_representation, representatives
from quorate.students.graph_model import GraphStudent

CASES = ((40, 0), (40, 1), (80, 0), (80, 3), (160, 12))
SETTINGS = ((0.6, 2), (0.8, 2), (0.8, 1), (0.6, 3))


class Plain(TorchClassifier):
    """A network that keeps what it sees to itself."""

    @property
    def features(self):
        raise AttributeError("not shown")


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
    plain = Plain("quick-cnn", steps=280, learning_rate=0.004, augmentation="moderate", average=0.99)
    for keep, rounds, model in (*((k, r, None) for k, r in SETTINGS), (0.8, 4, plain)):
        means = []
        for asked, wrong in CASES:
            spread, right = [], []
            for seed in given.seeds:
                if time.monotonic() > until:
                    raise SystemExit("out of time")
                labels = answers(features, y, asked=asked, wrong=wrong, seed=seed)
                student = GraphStudent(
                    None if model is None else clone(model), keep=keep, rounds=rounds, random_state=seed
                ).fit(X, labels)
                spread.append((student.graph_.beliefs_.argmax(axis=1) == y).mean())
                right.append((student.predict(X) == y).mean())
            means.append(np.mean(right))
            name = "no new graph" if model is not None else "a new graph each round"
            print(
                f"keep {keep}, {rounds} rounds, {name}; {asked} labels, {wrong} wrong: "
                f"graph {np.mean(spread):.4f}, student {means[-1]:.4f} ({min(right):.4f} to {max(right):.4f})",
                flush=True,
            )
        print(f"keep {keep}, {rounds} rounds: mean {np.mean(means):.4f}", flush=True)


if __name__ == "__main__":
    main()
