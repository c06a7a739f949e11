"""What each use of public data adds on MNIST, from the papers' pixels to a student of noisy counts.

    python benchmarks/mnist_ladder.py --data DIR --work DIR [--seeds 0 1 2]

60,000 private images; test[:9000] public, without labels. Every step keeps the steps before it:
    pixels             250 LeNet teachers of 240 images on pixels (20 epochs); 400 random queries
    + representation   250 kernel-ridge teachers on upright HOG features that are learned from public images
    + smoothing        each teacher smoothed over the public neighbour graph
    + representatives  40 representative queries instead of 400 random ones
    + more teachers    2,000 teachers of 30 images instead of 250
    + per-record       60,000 teachers of one image, each voting once (BoundedGNMax); the student learns from counts
    + encoder          a contrastive encoder of the public images beside the HOG features
    + networks         the graph student's networks after label spreading
Plain GNMax with sigma = 0.16 N for N teachers (as in the 2018 paper); per-record teachers at an epsilon of 0.1, with
the number of queries of `ostrakon train`. Up to the last step, the student is label spreading over the public graph of
HOG features (one second), so that steps compare. Worst-case epsilons are from
`ostrakon.accounting.data_independent.worst_case`. Every step is stored in --work. Noise is seeded.
"""

from __future__ import annotations

import argparse
import csv
import json
import time
from pathlib import Path

import joblib
import numpy as np

from ostrakon.accounting.calibration.noise import calibrate
from ostrakon.accounting.data_dependent.exact import exact_curve
from ostrakon.accounting.data_independent.worst_case import worst_case
from ostrakon.data.datasets import mnist
from ostrakon.features import build_graph, learn_representation, representatives
from ostrakon.mechanisms import BoundedGNMax, GNMax
from ostrakon.planning.defaults import default_per_record_queries
from ostrakon.students.graph_model import GraphStudent
from ostrakon.students.label_spreading import LabelSpreadingStudent
from ostrakon.teachers import train_teachers
from ostrakon.teachers.heads import HeadEnsemble
from ostrakon.teachers.per_record import collect_per_record
from ostrakon.teachers.torch_ensemble import TorchEnsemble
from ostrakon.votes import Votes

DELTA, EPSILON = 1e-5, 0.1
RESULTS = Path(__file__).parent / "results"
COLUMNS = (
    *("teacher_accuracy", "plurality_right", "consensus", "labels_right", "student_pool", "student_test"),
    *("data_dependent_epsilon", "true_epsilon"),
)


def features(work: Path, data, name: str) -> dict[str, np.ndarray]:
    """Features of all images, and where the representation is kept."""
    path = work / f"{name}.npz"
    if not path.exists():
        seen = learn_representation(name, data.X_public, random_state=0)
        joblib.dump(seen, work / f"{name}.joblib")
        images = {"public": data.X_public, "private": data.X, "test": data.X_test}
        np.savez(path, **{part: seen.transform(X) for part, X in images.items()})
    with np.load(path) as held:
        return dict(held)


def steps(data, work: Path, seed: int):
    """(name, votes, queries, mechanism, mean teacher accuracy, features, seconds) of every step, in order."""
    seen = features(work, data, "hog")
    public, private = seen["public"], seen["private"]
    rng = np.random.default_rng([seed, 5])
    order = rng.permutation(len(data.y))
    random = rng.permutation(len(public))[:400]
    medoids = representatives(public, 40, random_state=seed)
    graph = build_graph(public)

    def predictions(estimator, count: int, rows, pool):
        made = train_teachers(estimator, rows, data.y, order % count, n_teachers=count, classes=10, n_jobs=-1)
        return made.predict(pool)

    def step(name, said, queries, smooth, started):
        smoothed = graph.smooth(said, classes=10, rows=queries) if smooth else said[queries]
        votes = Votes.from_predictions(smoothed, classes=10)
        mean = float((said == data.y_public[:, None]).mean())
        return name, votes, queries, GNMax(sigma2=0.16 * votes.teachers), mean, seen, time.perf_counter() - started

    def per_record_votes(name, beheld, started):
        pool = len(data.X_public)
        mechanism = calibrate(BoundedGNMax(sigma2=10), epsilon=EPSILON, delta=DELTA, queries=pool)
        asked = default_per_record_queries(mechanism, units=len(data.y), pool=pool, classes=10)
        queries = representatives(beheld["public"], asked, random_state=seed)
        everyone = [(np.arange(len(data.y)), beheld["private"], data.y)]
        votes = collect_per_record(everyone, beheld["public"][queries], classes=10, units=len(data.y))
        return name, votes, queries, mechanism, np.nan, beheld, time.perf_counter() - started

    started = time.perf_counter()
    said = predictions(TorchEnsemble("lenet", epochs=20), 250, data.X, data.X_public)
    yield step("pixels", said, random, False, started)
    started = time.perf_counter()
    said = predictions(HeadEnsemble(public=public), 250, private, public)
    yield step("+ representation", said, random, False, started)
    yield step("+ smoothing", said, random, True, started)
    yield step("+ representatives", said, medoids, True, started)
    started = time.perf_counter()
    yield step(
        "+ more teachers", predictions(HeadEnsemble(public=public), 2000, private, public), medoids, True, started
    )
    yield per_record_votes("+ per-record", seen, time.perf_counter())
    both = features(work, data, "hog+contrastive")
    made = per_record_votes("+ encoder", both, time.perf_counter())
    yield made
    yield ("+ networks", *made[1:])


def measured(data, work: Path, name, votes, queries, mechanism, mean, seen, seconds, seed) -> dict:
    """One step as the CSV has it."""
    rng = np.random.default_rng([seed, 6])
    started = time.perf_counter()
    student = LabelSpreadingStudent("raw", random_state=seed)
    public, test = seen["public"], seen["test"]
    if name == "+ networks":
        student = GraphStudent(representation=joblib.load(work / "hog+contrastive.joblib"), random_state=seed)
        public, test = data.X_public, data.X_test
    if isinstance(mechanism, BoundedGNMax):
        counts = mechanism.noisy_counts(votes, rng)
        labels = counts.argmax(axis=1)
        student.fit_counts(public, queries, counts, sigma2=mechanism.sigma2)
        local = np.nan  # a run of stateful queries is charged as a whole
    else:
        labels = mechanism.sample(votes, rng)
        y = np.full(len(data.y_public), -1)
        y[queries] = labels
        student.fit(public, y)
        local = exact_curve(votes, mechanism).epsilon(delta=DELTA)[0]
    true = worst_case(mechanism, queries=len(queries), delta=DELTA, teachers=votes.teachers, classes=10).epsilon
    return {
        "step": name,
        "seed": seed,
        "queries": len(queries),
        "teachers": votes.teachers,
        "sigma": round(mechanism.sigma2, 1),
        "teacher_accuracy": round(mean, 4),
        "plurality_right": round(float((votes.plurality == data.y_public[queries]).mean()), 4),
        "consensus": round(float((votes.top / np.maximum(votes.counts.sum(axis=1), 1)).mean()), 4),
        "labels_right": round(float((labels == data.y_public[queries]).mean()), 4),
        "student_pool": round(float((student.predict(public) == data.y_public).mean()), 4),
        "student_test": round(float((student.predict(test) == data.y_test).mean()), 4),
        "data_dependent_epsilon": round(float(local), 3),
        "true_epsilon": round(float(true), 4),
        "seconds": round(seconds + time.perf_counter() - started, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="*", default=(0, 1, 2))
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    data = mnist(given.data)
    rows = []
    for seed in given.seeds:
        done = given.work / f"ladder-{seed}.json"
        if not done.exists():
            part = []
            for each in steps(data, given.work, seed):
                part.append(measured(data, given.work, *each, seed))
                print(json.dumps(part[-1]), flush=True)
            done.write_text(json.dumps(part))
        rows += json.loads(done.read_text())
    RESULTS.mkdir(exist_ok=True)
    with open(RESULTS / "mnist_ladder.csv", "w", newline="") as file:
        table = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
    for name in dict.fromkeys(row["step"] for row in rows):
        some = [row for row in rows if row["step"] == name]
        means = " | ".join(f"{np.mean([row[column] for row in some]):.4g}" for column in COLUMNS)
        print(f"| {name} | {some[0]['teachers']:,} | {some[0]['queries']} | {means} |")


if __name__ == "__main__":
    main()
