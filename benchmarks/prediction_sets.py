"""Sets of labels: how often they hold the right label, how large they are, and where they fail.

    python benchmarks/prediction_sets.py --data DIR [--worlds adult within text] [--seeds 0 1 2]

Every run is `PATEClassifier` as it comes, with seeded noise, so that it can be repeated; delta is the default. Sets are
measured on test rows that neither side saw. DIR holds tables/*.csv, adult/, mnist/ and text/. Worlds:
- tables, Adult and images (MNIST, oriented gradients), text: real ones, split at random, so that public rows are alike;
- noise: 15% of all labels are drawn anew; rare: one class of 1%;
- within: the label depends on what varies within cells, and the student sees it; against: a trend between cells is
  reversed within each; apart: besides, public rows lie in the middle of clusters and private ones around it;
- shift, shift within: public rows of another law; the second one differs within cells, too;
Lines are written to results/prediction_sets.csv as they come; what is there is not run again.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ostrakon import PATEClassifier
from ostrakon.data.datasets import mnist
from tables import Split, read

RESULTS = Path(__file__).parent / "results" / "prediction_sets.csv"
COLUMNS = [
    *("world", "private", "classes", "seed", "epsilon", "student", "accuracy", "coverage", "covered", "size"),
    *("rarest_covered", "seconds"),
]
ROWS = 12_000
TABLES = ("pima-indians-diabetes", "winequality-red", "adult")


def blobs(seed: int, rows: int, *, spread: float = 1.0, at: float = 0.0) -> tuple[Any, Any]:
    """Rows of eight features and three classes that depend on four of them."""
    rng = np.random.default_rng([seed, rows, round(10 * spread), round(10 * at)])
    X = rng.normal(at, spread, (rows, 8))
    scores = np.column_stack([X[:, 0] + X[:, 1] * X[:, 2], X[:, 1] - X[:, 3], -X[:, 0]])
    return X, (scores + rng.gumbel(size=scores.shape) * 0.5).argmax(axis=1)


def halves(X: Any, y: Any) -> Split:
    """60% private rows, 20% public ones and 20% tests."""
    private, public, test = np.split(np.arange(len(X)), [int(0.6 * len(X)), int(0.8 * len(X))])
    parts = [part for places in (private, public, test) for part in (X[places], y[places])]
    return Split(*parts, classes=int(y.max()) + 1)


def noise(seed: int, data: Path) -> Split:
    X, y = blobs(seed, ROWS)
    rng = np.random.default_rng([seed, 1])
    return halves(X, np.where(rng.random(len(y)) < 0.15, rng.integers(0, 3, len(y)), y))


def rare(seed: int, data: Path) -> Split:
    X, _ = blobs(seed, ROWS)
    rng = np.random.default_rng([seed, 2])
    scores = X[:, 0] + X[:, 1] + rng.normal(0, 0.7, len(X))
    return halves(X, (scores > np.quantile(scores, 0.99)).astype(np.int64))


def within(seed: int, data: Path) -> Split:
    """Clusters far apart; the label is the side of its cluster on which a row lies."""
    rng = np.random.default_rng([seed, 3])
    centres = 6 * rng.normal(size=(40, 4))
    own = rng.integers(0, 40, ROWS)
    away = rng.normal(size=(ROWS, 4))
    return halves(centres[own] + away, (away[:, 0] + 0.2 * rng.normal(size=ROWS) > 0).astype(np.int64))


def against(seed: int, data: Path) -> Split:
    """Clusters far apart; their labels rise with a feature from cluster to cluster, and fall with it within each."""
    rng = np.random.default_rng([seed, 4])
    centres, trend = 8 * rng.normal(size=(40, 3)), rng.normal(size=40)
    own = rng.integers(0, 40, ROWS)
    away = rng.normal(size=ROWS)
    X = np.column_stack([centres[own] + rng.normal(0, 0.1, (ROWS, 3)), trend[own] + away])
    chance = 1 / (1 + np.exp(-3 * trend[own] + 3 * away))
    return halves(X, (rng.random(ROWS) < chance).astype(np.int64))


def apart(seed: int, data: Path) -> Split:
    """As `against`, and public rows lie in the middle of their clusters, where private ones rarely are."""
    split = against(seed, data)
    rng = np.random.default_rng([seed, 7])
    same = np.random.default_rng([seed, 4])
    middle, trend = 8 * same.normal(size=(40, 3)), same.normal(size=40)
    own = rng.integers(0, 40, len(split.X_public))
    noisy = rng.normal(0, 0.1, (len(own), 4))
    public = np.column_stack([middle[own], trend[own]]) + noisy
    return Split(split.X, split.y, public, split.y_public, split.X_test, split.y_test, 2)


def shift(seed: int, data: Path) -> Split:
    split = halves(*blobs(seed, ROWS))
    other, _ = blobs(seed, len(split.X_public), spread=1.3, at=0.5)
    return Split(split.X, split.y, other, split.y_public, split.X_test, split.y_test, 3)


def shift_within(seed: int, data: Path) -> Split:
    """Public rows keep to the side of the border where the student is sure."""
    X, y = blobs(seed, 2 * ROWS)
    split = halves(X[:ROWS], y[:ROWS])
    easy = np.abs(X[ROWS:, 0]) + np.abs(X[ROWS:, 1]) > 2
    chosen = np.flatnonzero(easy)[: len(split.X_public)]
    return Split(split.X, split.y, X[ROWS:][chosen], y[ROWS:][chosen], split.X_test, split.y_test, 3)


def images(seed: int, data: Path) -> Split:
    given = mnist(data / "mnist")
    rng = np.random.default_rng([seed, 5])
    private, public = rng.permutation(len(given.X))[:20_000], rng.permutation(len(given.X_public))[:3000]
    parts = given.X[private], given.y[private], given.X_public[public], given.y_public[public]
    return Split(*parts, given.X_test, given.y_test, 10)


def text(seed: int, data: Path) -> Split:
    """Sentences of films, good or bad."""
    parts = (
        pd.read_csv(data / "text" / f"sst2-{part}.tsv", sep="\t", header=None, quoting=3) for part in ("train", "test")
    )
    train, test = ((part[[0]].set_axis(["text"], axis=1), part[1].to_numpy(np.int64)) for part in parts)
    order = np.random.default_rng([seed, 6]).permutation(len(train[0]))
    public, private = np.split(order, [len(order) // 3])
    chosen = [part for at in (private, public) for part in (train[0].iloc[at].reset_index(drop=True), train[1][at])]
    return Split(*chosen, *test, classes=2)


def table(name: str) -> Callable[[int, Path], Split]:
    return lambda seed, data: read(name, data, seed)


WORLDS: dict[str, Callable[[int, Path], Split]] = {
    **{name: table(name) for name in TABLES},
    "text": text,
    "images": images,
    "noise": noise,
    "rare": rare,
    "within": within,
    "against": against,
    "apart": apart,
    "shift": shift,
    "shift within": shift_within,
}


def lines_of(world: str, split: Split, seed: int, epsilon: float) -> list[dict[str, Any]]:
    """One line for each coverage."""
    start = time.process_time()
    drawn = np.random.default_rng([seed, round(100 * epsilon)])
    model = PATEClassifier(classes=range(split.classes), epsilon=epsilon, random_state=seed, noise=drawn)
    model.fit(split.X, split.y, X_public=split.X_public)
    seconds = time.process_time() - start
    right, sets = np.asarray(split.y_test), model.released_.sets
    rarest = np.bincount(split.y, minlength=split.classes).argmin()
    lines: list[dict[str, Any]] = []
    for coverage in sets.thresholds if sets is not None else ():
        given = model.predict_sets(split.X_test, coverage)
        covered = np.array([label in labels for labels, label in zip(given, right, strict=True)])
        lines.append(
            {
                "world": world,
                "private": len(split.y),
                "classes": split.classes,
                "seed": seed,
                "epsilon": epsilon,
                "student": model.student_name_,
                "coverage": coverage,
                "accuracy": round(float(model.score(split.X_test, right)), 4),
                "covered": round(float(covered.mean()), 4),
                "size": round(float(np.mean([len(labels) for labels in given])), 3),
                "rarest_covered": round(float(covered[right == rarest].mean()), 4),
                "seconds": round(seconds, 1),
            }
        )
    return lines


def summary(lines: list[dict[str, Any]]) -> None:
    """The table of the README: means over seeds, and how many of all runs cover less than they say."""
    found: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for line in lines:
        found[line["world"], line["epsilon"]].append(line)
    print("| world | epsilon | accuracy | covered at 0.8 (labels) | at 0.9 | at 0.95 | runs below |")
    print("|---|---|---|---|---|---|---|")
    for (world, epsilon), rows in found.items():
        cells = []
        for coverage in ("0.8", "0.9", "0.95"):
            own = [row for row in rows if str(row["coverage"]) == coverage]
            covered, size = (np.mean([float(row[name]) for row in own]) for name in ("covered", "size"))
            cells.append(f"{100 * covered:.1f} ({size:.2f})")
        accuracy = 100 * np.mean([float(row["accuracy"]) for row in rows])
        below = sum(float(row["covered"]) < float(row["coverage"]) for row in rows)
        print(f"| {world} | {epsilon} | {accuracy:.1f} | {' | '.join(cells)} | {below} of {len(rows)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--worlds", nargs="+", choices=list(WORLDS), default=list(WORLDS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.5, 1.0, 2.0])
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    lines: list[dict[str, Any]] = []
    if RESULTS.exists():
        with open(RESULTS, newline="") as file:
            lines = list(csv.DictReader(file))
    known = {(line["world"], int(line["seed"]), float(line["epsilon"])) for line in lines}
    for world in given.worlds:
        for seed in given.seeds:
            asked = [epsilon for epsilon in given.epsilons if (world, seed, epsilon) not in known]
            split = WORLDS[world](seed, given.data) if asked else None
            for epsilon in asked:
                lines += lines_of(world, split, seed, epsilon)
                with open(RESULTS, "w", newline="") as file:
                    writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
                    writer.writeheader()
                    writer.writerows(lines)
                print(world, seed, epsilon, flush=True)
    summary(lines)


if __name__ == "__main__":
    main()
