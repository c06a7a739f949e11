"""Accuracy if only labels are protected, by worst-case epsilon of one label.

    python benchmarks/label_privacy.py --work DIR [--data DIR] [--sets mnist adult] [--representation hog]
        [--epsilons 0.1 0.5 1] [--seeds 0] [--student graph] [--features DIR]

mnist: the 60,000 training images are public, their labels are not; tested on all 10,000 test images. adult: 32,561
rows and both halves of the test file, 16,281. features: any data set with features: DIR holds train.npy, test.npy
(rows, features), train_labels.npy and test_labels.npy (whole numbers).
Each run is one `ostrakon.run.steps.run_steps` with cryptographic noise. --work stores representations, and finished
lines of the CSV are not computed again, so the script may be stopped and restarted.

Settings are those of `ostrakon train`, except the representation and the student of images, which are named because
trying all students would take hours. No label of a test set was used.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import time
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd

from ostrakon.data.datasets import adult, mnist
from ostrakon.data.embeddings import as_columns
from ostrakon.options.options import Options
from ostrakon.run.inputs.private_data import Rows
from ostrakon.run.inputs.task import Task, protection_fields
from ostrakon.run.steps import run_steps
from ostrakon.run.storage import Storage

RESULTS = Path(__file__).parent / "results" / "label_privacy.csv"
COLUMNS = [
    *("set", "representation", "student", "epsilon", "claimed", "delta", "seed", "queries", "sigma2"),
    *("accuracy", "test_rows", "seconds", "cpu_seconds"),
]
DELTA = 1e-5


class Shared(Storage):
    """A run in memory whose representation is kept in a folder, for other epsilons on the same data."""

    def __init__(self, folder: Path, name: str) -> None:
        super().__init__()
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / f"{hashlib.sha256(name.encode()).hexdigest()[:16]}.joblib"

    def view(self, make: Any) -> Any:
        if not self._path.exists():
            start = time.perf_counter()
            joblib.dump(make(), self._path.with_suffix(".part"))
            self._path.with_suffix(".part").rename(self._path)
            print(f"representation: {time.perf_counter() - start:.0f} s", flush=True)
        return joblib.load(self._path)


def task_of(name: str, data: Path | None, features: Path | None) -> Task:
    """All labelled rows of a set, their labels protected, and its test rows."""
    if name == "features":
        assert features is not None, "--features must be given"
        X, X_test, y, y_test = (
            np.load(features / f"{part}.npy") for part in ("train", "test", "train_labels", "test_labels")
        )
        X, X_test, classes = as_columns("X", X), as_columns("X", X_test), tuple(map(str, np.unique(y)))
    elif name == "mnist":
        held = mnist(None if data is None else data / "mnist")
        X, y, classes = held.X, held.y, held.classes
        X_test = np.concatenate([held.X_public, held.X_test])
        y_test = np.concatenate([held.y_public, held.y_test])
    else:
        held = adult(None if data is None else data / "adult")
        X, y, classes = held.X, held.y, held.classes
        X_test = pd.concat([held.X_public, held.X_test], ignore_index=True)
        y_test = np.concatenate([held.y_public, held.y_test])
    private = Rows(X=X, y=y.astype(np.int64), protects="labels")
    of_labels = protection_fields("labels")
    return Task(private=private, classes=classes, X_public=X, X_test=X_test, y_test=y_test, **of_labels)


def main() -> None:
    """Make the lines that are missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--features", type=Path)
    parser.add_argument("--sets", nargs="+", default=["mnist"], choices=["mnist", "adult", "features"])
    parser.add_argument("--called", help="What the set of --features is called in the CSV.", default="features")
    parser.add_argument("--representation", default="hog")
    parser.add_argument("--student", default="graph")
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.1, 0.5, 1.0])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    given = parser.parse_args()
    known = list(csv.DictReader(RESULTS.open())) if RESULTS.exists() else []
    keys = {tuple(line[key] for key in ("set", "representation", "student", "epsilon", "seed")) for line in known}
    for name in given.sets:
        task = task_of(name, given.data, given.features)
        called = given.called if name == "features" else name
        for seed in given.seeds:
            for epsilon in given.epsilons:
                key = (called, given.representation, given.student, f"{epsilon:g}", str(seed))
                if key in keys:
                    continue
                options = Options(
                    epsilon=epsilon,
                    delta=DELTA,
                    representation=given.representation,
                    student=given.student,
                    seed=seed,
                    jobs=1,
                )
                place = Shared(given.work, f"{called} {given.representation} {seed}")
                start, cpu = time.perf_counter(), time.process_time()
                done = run_steps(task, options, place, say=lambda stage: print(stage, flush=True))
                guarantee = done.statement.guarantee
                assert guarantee is not None
                assert done.statement.protects == "labels"
                noise = done.plan.mechanism.parameters()["sigma2"]
                taken = [f"{time.perf_counter() - start:.0f}", f"{time.process_time() - cpu:.0f}"]
                numbers = [f"{epsilon:g}", f"{guarantee.epsilon:.4f}", f"{guarantee.delta:g}", seed, done.plan.queries]
                line = [called, given.representation, given.student, *numbers, f"{noise:.4g}"]
                line += [f"{done.accuracy:.4f}", done.test_rows, *taken]
                fresh = not RESULTS.exists()
                with RESULTS.open("a", newline="") as file:
                    csv.writer(file, lineterminator="\n").writerows([COLUMNS] * fresh + [line])
                print(dict(zip(COLUMNS, line, strict=True)), flush=True)


if __name__ == "__main__":
    main()
