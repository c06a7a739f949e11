"""Students of photographs beside each other, on the same released numbers; and whether asking in two rounds pays.

    python benchmarks/photo_students.py --work DIR [--data ZIP] [--encoder photos] [--epsilons 0.5 1] [--seeds 0 1 2]
        [--pixels STEPS]

CIFAR-10, 50,000 private and 9,000 public images, of which 1,280 are asked about by `moment-gnmax`. --work: as in
benchmarks/cifar10.py, which must have made the features there (run it for the seeds and the encoder first). Every draw
of noise is one release; all students of an epsilon and a seed learn from the same one. on_public: accuracy on the 9,000
public images, whose true labels no student sees; nine times as many as are tested on.

moments, boosting, moments:boosting, logistic, extra-trees, label-spreading: as `ostrakon train` knows
them. network: one hidden layer on the frozen features, on the rows of every cell by the cell's counts. moments:network:
both. distilled: the network on what moments:boosting believes of all public rows. fixmatch: on the frozen features, the
surest tenth of what moments:boosting believes as labels, the rest without. --pixels: FixMatch and a residual network
on the images themselves (shifted, mirrored, warped, of other contrast, blanked in part), so many steps, taught the same
labels; it sees colours and edges that the features may not hold. two rounds: a third of the price (of mu
squared) buys a first release; what moments believes of every public row is then added to its features, so that rows
near to each other are more alike, and the rest buys counts and sums on cells chosen in that space.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from cifar10 import remember_encodings
from ostrakon.accounting.calibration.noise import calibrate
from ostrakon.data.datasets import cifar10
from ostrakon.features import choose_queries
from ostrakon.features.moments import MomentMap, worth_their_noise
from ostrakon.mechanisms.moment_gnmax import MomentGNMax
from ostrakon.networks.classifier import TorchClassifier
from ostrakon.noise import secure_rng
from ostrakon.run.stages.votes import CachedTransform
from ostrakon.students.boosting import MOST_BINS, Boosting
from ostrakon.students.candidates import ROUNDS, trees
from ostrakon.students.fixmatch import FixMatch
from ostrakon.students.label_spreading import LabelSpreadingStudent
from ostrakon.students.moment_students import MomentLogistic, MomentVote, ReleasedMoments
from ostrakon.students.noisy_counts import NoisyCountStudent, examples_for
from ostrakon.students.selection import Released
from ostrakon.teachers.one_teacher import fingerprint_of
from ostrakon.teachers.per_record import collect_per_record

RESULTS = Path(__file__).parent / "results" / "photo_students.csv"
COLUMNS = ("encoder", "epsilon", "seed", "student", "accuracy", "on_public", "seconds")
DELTA, QUERIES, CLASSES = 1e-5, 1280, 10
FIRST = 1 / 3
"""Share of the price (of mu squared) of the first of two rounds."""


class Features:
    """What an encoder makes of the private, public and test images of one seed, kept by benchmarks/cifar10.py."""

    def __init__(self, encoder: str, seed: int, held: Any, work: Path) -> None:
        view = joblib.load(work / f"{encoder}-{seed}.joblib")
        own = view.representation
        kept = CachedTransform(
            transform=own.transform, folder=work / f"{encoder}-{seed}", view_digest=fingerprint_of(view.public)
        )
        self.public = np.asarray(view.public, np.float32)
        self.private = np.asarray(kept(held.X), np.float32)
        self.test = np.asarray(kept(held.X_test), np.float32)
        self.images, self.images_test = held.X_public, held.X_test
        self.y, self.y_test, self.y_public = held.y.astype(np.int64), held.y_test, held.y_public


def release(public: Any, private: Any, y: Any, mechanism: MomentGNMax, *, seed: int) -> Released:
    """One draw: noisy counts of the cells about chosen public rows, and noisy sums of features."""
    queries = choose_queries("representatives", pool=len(public), budget=QUERIES, features=public, random_state=seed)
    assert mechanism.moment_noise is not None
    directions = MomentMap.of(public, most=worth_their_noise(len(private), mechanism.moment_noise))
    blocks = [(np.arange(len(private)), private, y)]
    votes = collect_per_record(
        blocks, public[queries], classes=CLASSES, units=len(private), moments=directions, progress=False
    )
    assert votes.moments is not None
    rng = secure_rng()
    counts, sums = mechanism.noisy_counts(votes, rng), mechanism.noisy_moments(votes.moments, rng)
    moments = ReleasedMoments(sums=sums, sigma=mechanism.moment_noise, records=len(private), directions=directions)
    return Released(queries=np.asarray(queries, np.int64), counts=counts, sigma2=mechanism.sigma2, moments=moments)


def on_counts(estimator: Any, *, rounds: int = 0) -> NoisyCountStudent:
    """A student of noisy counts."""
    return NoisyCountStudent(
        estimator, representation="raw", examples=examples_for(estimator), rounds=rounds, random_state=0
    )


def network() -> Any:
    """One hidden layer on standardized features."""
    return TorchClassifier("mlp", steps=1500, batch_size=256, learning_rate=1e-3, random_state=0)


def students(public: Any, released: Released) -> dict[str, Any]:
    """Every student of the list, fitted on one release."""
    boosting = Boosting(max_iter=40, max_leaf_nodes=15, min_samples_leaf=10, max_bins=MOST_BINS)
    boosted = on_counts(boosting, rounds=ROUNDS)
    found: dict[str, Any] = {
        "moments": MomentLogistic(),
        "boosting": boosted,
        "moments:boosting": MomentVote(boosted),
        "logistic": on_counts(LogisticRegression(C=0.3, max_iter=1000)),
        "moments:logistic": MomentVote(on_counts(LogisticRegression(C=0.3, max_iter=1000))),
        "extra-trees": on_counts(trees(120, counts=True)),
        "moments:extra-trees": MomentVote(on_counts(trees(120, counts=True))),
        "label-spreading": LabelSpreadingStudent("raw", random_state=0),
        "network": on_counts(network()),
        "moments:network": MomentVote(on_counts(network())),
    }
    return {name: (lambda student=student: released.fit_student(student, public)) for name, student in found.items()}


def distilled(public: Any, teacher: Any) -> Any:
    """The network on what a student believes of every public row."""
    belief = teacher.predict_proba(public)
    row, label = np.nonzero(belief > 0.01)
    return network().fit(public[row], label, sample_weight=belief[row, label])


def fixmatch(public: Any, teacher: Any) -> Any:
    """FixMatch on frozen features; the surest tenth of what a student believes is labelled."""
    labels = surest(teacher.predict_proba(public), share=1 / 10)
    return FixMatch("mlp", steps=1500, threshold=0.8, random_state=0).fit(public, labels)


def fixmatch_on_pixels(data: Features, teacher: Any, *, steps: int) -> tuple[float, float]:
    """Accuracy (test, public) of FixMatch on images, taught the surest third of what a student believes."""
    labels = surest(teacher.predict_proba(data.public), share=1 / 3)
    made = FixMatch("resnet", steps=steps, threshold=0.9, mirror=True, random_state=0).fit(data.images, labels)
    sides = (data.images_test, data.y_test), (data.images, data.y_public)
    test, public = (float((made.predict(images) == true).mean()) for images, true in sides)
    return test, public


def surest(belief: Any, *, share: float) -> Any:
    """Of every class the rows that are believed to have it most, `share` of all rows together; -1 elsewhere."""
    labels = np.full(len(belief), -1)
    for label in range(CLASSES):
        own = np.flatnonzero(belief.argmax(axis=1) == label)
        labels[own[np.argsort(-belief[own, label])][: int(len(belief) * share / CLASSES)]] = label
    return labels


def in_two_rounds(data: Features, whole: MomentGNMax, *, seed: int) -> tuple[float, float]:
    """Accuracy (test, public) of the default student on a representation refined by a first release, at one price."""
    first = MomentGNMax(sigma2=whole.sigma2 / np.sqrt(FIRST))
    second = MomentGNMax(sigma2=whole.sigma2 / np.sqrt(1 - FIRST))
    begun = release(data.public, data.private, data.y, first, seed=seed)
    linear = MomentLogistic().fit_moments(data.public, begun)
    # Scores of the classes beside the features, as wide as these are together.
    scores = np.log(linear.predict_proba(data.public) + 1e-3)
    wide = float(np.sqrt(data.public.var(axis=0).sum() / scores.var(axis=0).sum()))

    def refined(rows: Any) -> Any:
        return np.column_stack([rows, wide * np.log(linear.predict_proba(rows) + 1e-3)]).astype(np.float32)

    public = refined(data.public)
    ended = release(public, refined(data.private), data.y, second, seed=seed)
    boosting = Boosting(max_iter=40, max_leaf_nodes=15, min_samples_leaf=10, max_bins=MOST_BINS)
    last = MomentVote(on_counts(boosting, rounds=ROUNDS)).fit_moments(public, ended)

    def right(rows: Any, labels: Any) -> float:
        # The first round's answers count as much as they cost.
        old, new = linear.predict_proba(rows), last.predict_proba(refined(rows))
        said = FIRST * np.log(old + 1e-9) + (1 - FIRST) * np.log(new + 1e-9)
        return float((said.argmax(axis=1) == labels).mean())

    return right(data.test, data.y_test), right(data.public, data.y_public)


def lines_of(
    data: Features, mechanism: MomentGNMax, *, seed: int, pixels: int
) -> dict[str, tuple[float, float, float]]:
    """(accuracy on test images, on public ones, processor seconds) of every student, on one release."""
    found: dict[str, tuple[float, float, float]] = {}

    def note(name: str, make: Callable[[], Any]) -> Any:
        start = time.process_time()
        made = make()
        if not isinstance(made, tuple):
            sides = (data.test, data.y_test), (data.public, data.y_public)
            right = tuple(float((made.predict(rows) == labels).mean()) for rows, labels in sides)
        else:
            right = made
        found[name] = right[0], right[1], time.process_time() - start
        print(f"{name} {seed}: {right[0]:.4f} {right[1]:.4f}", flush=True)
        return made

    released = release(data.public, data.private, data.y, mechanism, seed=seed)
    fitted = {name: note(name, make) for name, make in students(data.public, released).items()}
    default = fitted["moments:boosting"]
    note("distilled", lambda: distilled(data.public, default))
    note("fixmatch", lambda: fixmatch(data.public, default))
    if pixels:
        note("fixmatch on pixels", lambda: fixmatch_on_pixels(data, fitted["moments"], steps=pixels))
    note("two rounds", lambda: in_two_rounds(data, mechanism, seed=seed))
    ceiling = make_pipeline(StandardScaler(), LogisticRegression(C=1e-2, max_iter=300))
    note("all private labels", lambda: ceiling.fit(data.private, data.y))
    return found


def main() -> None:
    """Make the lines that are missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--encoder", default="photos", choices=["photos", "patches"])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.5, 1.0])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--pixels", type=int, default=0)
    given = parser.parse_args()
    remember_encodings(given.work)
    lines = list(csv.DictReader(RESULTS.open())) if RESULTS.exists() else []
    known = {(line["encoder"], line["epsilon"], line["seed"]) for line in lines}
    for seed in given.seeds:
        wanted = [epsilon for epsilon in given.epsilons if (given.encoder, f"{epsilon:g}", str(seed)) not in known]
        if not wanted:
            continue
        data = Features(given.encoder, seed, cifar10(given.data, random_state=seed), given.work)
        for epsilon in wanted:
            mechanism = calibrate(
                MomentGNMax(sigma2=100), epsilon=epsilon, delta=DELTA, queries=QUERIES, teachers=len(data.private)
            )
            assert isinstance(mechanism, MomentGNMax)
            for name, (right, public, seconds) in lines_of(data, mechanism, seed=seed, pixels=given.pixels).items():
                line = (given.encoder, f"{epsilon:g}", str(seed), name, f"{right:.4f}", f"{public:.4f}")
                lines.append(dict(zip(COLUMNS, (*line, f"{seconds:.1f}"), strict=True)))
            with RESULTS.open("w", newline="") as file:
                writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
                writer.writeheader()
                writer.writerows(lines)


if __name__ == "__main__":
    main()
