"""The ladder: what each use of public data adds on MNIST, from pixels to a student of a few released labels.

    python benchmarks/mnist_ladder.py --data DIR --work DIR [--seeds 0 1 2] [--lenet FILE]

60,000 private images; test[:9000] public and unlabelled. Every step keeps what the steps before it added:
    pixels             250 kernel-ridge teachers of 240 images on pixels; 400 random queries
    + representation   the same on upright HOG features learned from public images
    + smoothing        each teacher smoothed over the public neighbour graph
    + representatives  40 medoids instead of 400 random queries
    + more teachers    2,000 teachers of 30 images instead of 250
    + one voice        60,000 teachers of one image, each speaking once (RationedGNMax)
Plain GNMax with sigma = 0.16 N of N teachers (2018's proportion) at every step; for one voice sigma = 0.16 of the mean
number of votes on a query. The student is the same at every step (labels spread over the public graph, one second), so
that steps compare; the convolutional student of the last step is in mnist_frontier.py. --lenet: a JSON file of
lenet_teachers.py, whose convolutional teachers on pixels are put beside the first step.
Noise is seeded so that it can be repeated.
"""

from __future__ import annotations

import argparse
import csv
import json
import time
from pathlib import Path

import numpy as np

from quorate.accounting.exact import exact_curve
from quorate.accounting.gaussian_dp import gaussian_dp_epsilon
from quorate.accounting.worst_case import worst_case
from quorate.data.datasets import mnist
from quorate.mechanisms import GNMax, RationedGNMax
from quorate.public import build_graph, learn_representation, representatives
from quorate.students.label_spreading import LabelSpreadingStudent
from quorate.teachers import train_teachers
from quorate.teachers.heads import HeadEnsemble
from quorate.teachers.voices import hear_voices
from quorate.votes import Votes

DELTA = 1e-5
RESULTS = Path(__file__).parent / "results"
SEEN: dict[str, object] = {}


def steps(data, features, seed: int):
    """(name, votes, queries, mechanism, mean teacher accuracy, seconds) of every step, in order."""
    public, private = features
    rng = np.random.default_rng([seed, 5])
    order = rng.permutation(len(data.y))
    random = rng.permutation(len(public))[:400]
    medoids = representatives(public, 40, random_state=seed)
    graph = build_graph(public)

    def predictions(count: int, rows, pool):
        head = HeadEnsemble(public=pool)
        teachers = train_teachers(head, rows, data.y, order % count, n_teachers=count, classes=10)
        return teachers.predict(pool)

    def step(name, said, queries, smooth, started):
        heard = graph.smooth(said, classes=10, rows=queries) if smooth else said[queries]
        votes = Votes.from_predictions(heard, classes=10)
        mean = float((said == data.y_public[:, None]).mean())
        return name, votes, queries, GNMax(sigma2=0.16 * votes.teachers), mean, time.perf_counter() - started

    pixels, pixels_private = (np.reshape(X, (len(X), -1)).astype(np.float32) for X in (data.X_public, data.X))
    started = time.perf_counter()
    yield step("pixels", predictions(250, pixels_private, pixels), random, False, started)
    started = time.perf_counter()
    said = predictions(250, private, public)
    yield step("+ representation", said, random, False, started)
    yield step("+ smoothing", said, random, True, started)
    yield step("+ representatives", said, medoids, True, started)
    started = time.perf_counter()
    yield step("+ more teachers", predictions(2000, private, public), medoids, True, started)
    started = time.perf_counter()
    everyone = [(np.arange(len(private)), private, data.y)]
    votes = hear_voices(everyone, public[medoids], classes=10, voices=len(private))
    mechanism = RationedGNMax(sigma2=0.16 * len(private) / len(medoids))
    yield "+ one voice", votes, medoids, mechanism, np.nan, time.perf_counter() - started


def measured(data, graph_student, name, votes, queries, mechanism, mean, seconds, seed) -> dict:
    """One step as the CSV has it."""
    labels = mechanism.sample(votes, np.random.default_rng([seed, 6]))
    if isinstance(mechanism, GNMax):
        true = gaussian_dp_epsilon((2 * len(queries)) ** 0.5 / mechanism.sigma2, DELTA)
        local = exact_curve(votes, mechanism).epsilon(delta=DELTA)[0]
    else:
        # A run of tied queries is charged as a whole: there is no local cost.
        true, local = worst_case(mechanism, queries=len(queries), delta=DELTA).epsilon, np.nan
    y = np.full(len(data.y_public), -1)
    y[queries] = labels
    student = graph_student.fit(SEEN["public"], y)
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
        "student_pool": round(float((student.predict(SEEN["public"]) == data.y_public).mean()), 4),
        "student_test": round(float((student.predict(SEEN["test"]) == data.y_test).mean()), 4),
        "local_epsilon": round(float(local), 3),
        "true_epsilon": round(float(true), 4),
        "seconds": round(seconds, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="*", default=(0, 1, 2))
    parser.add_argument("--lenet", type=Path)
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    data = mnist(given.data)
    kept = given.work / "ladder-features.npz"
    if not kept.exists():
        seen = learn_representation("hog", data.X_public, random_state=0)
        np.savez(
            kept, public=seen.transform(data.X_public), private=seen.transform(data.X), test=seen.transform(data.X_test)
        )
    with np.load(kept) as held:
        features = held["public"], held["private"]
        SEEN.update(public=held["public"], test=held["test"])
    rows = []
    for seed in given.seeds:
        done = given.work / f"ladder-{seed}.json"
        if not done.exists():
            student = LabelSpreadingStudent("raw", random_state=seed)
            part = []
            for name, votes, queries, mechanism, mean, seconds in steps(data, features, seed):
                part.append(measured(data, student, name, votes, queries, mechanism, mean, seconds, seed))
                print(json.dumps(part[-1]), flush=True)
            done.write_text(json.dumps(part))
        rows += json.loads(done.read_text())
    RESULTS.mkdir(exist_ok=True)
    with open(RESULTS / "mnist_ladder.csv", "w", newline="") as file:
        table = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
    columns = [
        "teacher_accuracy",
        "plurality_right",
        "consensus",
        "labels_right",
        "student_pool",
        "student_test",
        "local_epsilon",
        "true_epsilon",
    ]
    for name in dict.fromkeys(row["step"] for row in rows):
        some = [row for row in rows if row["step"] == name]
        means = [np.mean([row[column] for row in some]) for column in columns]
        print(
            f"| {name} | {some[0]['teachers']:,} | {some[0]['queries']} | "
            + " | ".join(f"{m:.4g}" for m in means)
            + " |"
        )
    if given.lenet is not None and given.lenet.exists():
        print("LeNet teachers on pixels:", given.lenet.read_text()[:2000])


if __name__ == "__main__":
    main()
