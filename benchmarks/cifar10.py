"""CIFAR-10 at small epsilons: accuracy by encoder, from 50,000 private and 9,000 public images.

    python benchmarks/cifar10.py --work DIR [--data DIR] [--encoders patches photos hog contrastive]
        [--epsilons 0.1 0.5 1 2] [--seeds 0 1 2] [--picture-only]

Encoders: patches (the default for colour images: a dictionary learned from the 9,000 public images), hog and
contrastive (also from the public images; contrastive needs PyTorch), photos (EfficientNet-Lite2, trained on ImageNet).
Each run is one `ostrakon.run.steps.run_steps` with the settings of `ostrakon train` and cryptographic noise. --work
stores representations and features; finished lines of the CSV are not computed again. The seed chooses which 1,000 of
the 10,000 test images are test rows. all_public: logistic regression on the true labels of the 9,000 public images, on
the same features.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import joblib
import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ostrakon.data.datasets import cifar10
from ostrakon.features import Representation
from ostrakon.features.frozen import FrozenEncoder
from ostrakon.options.options import Options
from ostrakon.run.inputs.private_data import Rows
from ostrakon.run.inputs.task import Task
from ostrakon.run.stages.votes import CachedTransform
from ostrakon.run.steps import run_steps
from ostrakon.run.storage import Storage
from ostrakon.teachers.one_teacher import fingerprint_of

RESULTS = Path(__file__).parent / "results" / "cifar10.csv"
COLUMNS = [
    *("encoder", "epsilon", "claimed", "delta", "seed", "mechanism", "queries", "student"),
    *("accuracy", "test_rows", "all_public", "seconds", "cpu_seconds"),
]
DELTA = 1e-5
LABELS = {
    "photos": "photos (EfficientNet-Lite2, ImageNet)",
    "patches": "patches (9,000 public images only; default)",
    "contrastive": "contrastive (9,000 public images only)",
    "hog": "oriented gradients",
}


class Remembered(Representation):
    """A representation that keeps what it makes of rows in a folder."""

    def __init__(self, inner: Representation, kept: CachedTransform) -> None:
        super().__init__(inner.transformer, features=inner.features, encoder=inner.encoder)
        self.kept = kept

    def transform(self, X: Any, *, private: bool = False) -> Any:
        return self.kept(X)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "kept": self.kept}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.kept = state.pop("kept")
        super().__setstate__(state)


class Shared(Storage):
    """A run in memory whose representation, and what it makes of the private images, are kept for other epsilons."""

    def __init__(self, folder: Path, name: str) -> None:
        super().__init__()
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"{name}.joblib"

    def view(self, make: Any) -> Any:
        if not self.path.exists():
            start = time.perf_counter()
            joblib.dump(make(), self.path.with_suffix(".part"))
            self.path.with_suffix(".part").rename(self.path)
            print(f"representation: {time.perf_counter() - start:.0f} s", flush=True)
        made = joblib.load(self.path)
        inner = made.representation
        kept = CachedTransform(
            transform=inner.transform, folder=self.path.with_suffix(""), view_digest=fingerprint_of(made.public)
        )
        return replace(made, representation=Remembered(inner, kept))


def all_public(view: Any, y_public: Any, X_test: Any, y_test: Any) -> float:
    """What the labels of the public images would give, by logistic regression on the same features."""
    rows = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300))
    found = GridSearchCV(rows, {"logisticregression__C": [1e-3, 1e-2, 1e-1]}, cv=3).fit(view.public, y_public)
    return float(found.score(view.transform(X_test), y_test))


def remember_encodings(work: Path) -> None:
    """Let every frozen encoder of this process encode an image once, whatever the seed, and keep it in `work`."""
    file, encode = work / "photos-encoded.joblib", FrozenEncoder._encode_rows
    known: dict[bytes, Any] = joblib.load(file) if file.exists() else {}

    def encoded(self: Any, rows: Any) -> Any:
        marks = [hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in rows]
        fresh = {mark: row for mark, row in zip(marks, rows, strict=True) if mark not in known}
        if fresh:
            known.update(zip(fresh, encode(self, np.stack(list(fresh.values()))), strict=True))
            joblib.dump(known, file)
        return np.stack([known[mark] for mark in marks])

    FrozenEncoder._encode_rows = encoded


def run(
    encoder: str, epsilon: float, seed: int, held: Any, work: Path, known: dict[tuple[str, int], float]
) -> list[Any]:
    """One line of the CSV."""
    X, X_public, X_test = held.X, held.X_public, held.X_test
    private = Rows(X=X, y=held.y)
    task = Task(private=private, classes=held.classes, X_public=X_public, X_test=X_test, y_test=held.y_test)
    options = Options(epsilon=epsilon, delta=DELTA, representation=encoder, seed=seed)
    place = Shared(work, f"{encoder}-{seed}")
    start, cpu = time.perf_counter(), time.process_time()
    done = run_steps(task, options, place, say=lambda stage: print(stage, flush=True))
    taken = [f"{time.perf_counter() - start:.0f}", f"{time.process_time() - cpu:.0f}"]
    guarantee = done.statement.guarantee
    assert guarantee is not None
    if (encoder, seed) not in known:
        known[encoder, seed] = all_public(place.view(lambda: None), held.y_public, X_test, held.y_test)
    line = [encoder, f"{epsilon:g}", f"{guarantee.epsilon:.4f}", f"{guarantee.delta:g}", seed]
    line += [done.plan.mechanism.name, done.plan.queries, done.student_name]
    return [*line, f"{done.accuracy:.4f}", len(X_test), f"{known[encoder, seed]:.4f}", *taken]


def draw(lines: list[dict[str, str]]) -> None:
    """Accuracy against epsilon: the mean of the seeds, and its range."""
    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    for encoder, label in LABELS.items():
        mine = [line for line in lines if line["encoder"] == encoder]
        if not mine:
            continue
        epsilons = sorted({float(line["epsilon"]) for line in mine})
        found = [[float(line["accuracy"]) for line in mine if float(line["epsilon"]) == one] for one in epsilons]
        (curve,) = axes.plot(epsilons, [100 * np.mean(each) for each in found], marker="o", label=label)
        low, high = ([100 * end(each) for each in found] for end in (min, max))
        axes.fill_between(epsilons, low, high, color=curve.get_color(), alpha=0.2)
        ceiling = 100 * np.mean([float(line["all_public"]) for line in mine])
        axes.axhline(ceiling, color=curve.get_color(), linestyle=":", linewidth=1)
    axes.set(xscale="log", xlabel="true (worst-case) epsilon, delta 1e-5", ylabel="accuracy on 1,000 test images, %")
    axes.set_xticks([0.1, 0.5, 1, 2], ["0.1", "0.5", "1", "2"])
    axes.set_title("CIFAR-10, 50,000 private images; dotted: the 9,000 public images' true labels", fontsize=9)
    axes.legend(fontsize=8)
    figure.savefig(RESULTS.with_suffix(".png"), dpi=120)


def main() -> None:
    """Make the lines that are missing, and the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--data", type=Path)
    parser.add_argument(
        "--encoders", nargs="+", default=["patches", "photos", "hog", "contrastive"], choices=list(LABELS)
    )
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.1, 0.5, 1.0, 2.0])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--picture-only", action="store_true")
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    remember_encodings(given.work)
    lines = list(csv.DictReader(RESULTS.open())) if RESULTS.exists() else []
    made = {(line["encoder"], line["epsilon"], line["seed"]) for line in lines}
    known = {(line["encoder"], int(line["seed"])): float(line["all_public"]) for line in lines}
    for seed in [] if given.picture_only else given.seeds:
        held = cifar10(given.data, random_state=seed)
        for encoder in given.encoders:
            for epsilon in given.epsilons:
                if (encoder, f"{epsilon:g}", str(seed)) in made:
                    continue
                line = run(encoder, epsilon, seed, held, given.work, known)
                fresh = not RESULTS.exists()
                with RESULTS.open("a", newline="") as file:
                    csv.writer(file, lineterminator="\n").writerows([COLUMNS] * fresh + [line])
                print(dict(zip(COLUMNS, line, strict=True)), flush=True)
    draw(list(csv.DictReader(RESULTS.open())))


if __name__ == "__main__":
    main()
