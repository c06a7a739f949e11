"""How the graph student's settings were chosen: on glyphs, images drawn from fonts, whose labels are public.

    python benchmarks/mnist_choice.py [--seed 0]

3,000 public glyphs of ten letters, 80 representatives with their right labels: first how far labels spread (neighbours,
strength), then what the network learns from (share of surest rows to start with, augmentation, rounds).
"""

from __future__ import annotations

import argparse

import numpy as np

from quorate.data.datasets import glyphs
from quorate.networks.classifier import TorchClassifier
from quorate.public import build_graph, learn_representation, representatives
from quorate.students.graph_model import GraphStudent


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    seed = parser.parse_args().seed
    data = glyphs(10, 3000, 2000, wrong_labels=0, imbalance=2.0, random_state=seed)
    X, y = data.X_public, data.y_public
    features = learn_representation("hog", X, random_state=0).transform(X)
    queries = representatives(features, 80, random_state=0)
    labels = np.full(len(X), -1)
    labels[queries] = y[queries]
    for neighbours in (5, 10, 20):
        graph = build_graph(features, neighbours=neighbours)
        for strength in (0.8, 0.9, 0.95, 0.99):
            right = (graph.spread(labels, classes=10, strength=strength).argmax(axis=1) == y).mean()
            print(f"spread: neighbours {neighbours}, strength {strength}: {right:.4f} of the pool right", flush=True)
    for keep, augmentation, rounds, steps in (
        (0.95, "moderate", 4, 470),
        (0.9, "moderate", 4, 470),
        (0.8, "moderate", 4, 470),
        (0.9, "weak", 4, 470),
        (0.9, "strong", 3, 470),
        (0.9, "moderate", 2, 940),
    ):
        network = TorchClassifier(
            "quick-cnn", steps=steps, learning_rate=0.004, augmentation=augmentation, average=0.99
        )
        student = GraphStudent(network, keep=keep, rounds=rounds, random_state=0).fit(X, labels)
        pool, test = (student.predict(X) == y).mean(), (student.predict(data.X_test) == data.y_test).mean()
        print(f"keep {keep}, {augmentation}, {rounds} rounds of {steps}: pool {pool:.4f}, test {test:.4f}", flush=True)


if __name__ == "__main__":
    main()
