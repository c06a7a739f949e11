"""Glyph at a size like the 2018 paper's: Table 1, Figures 4 and 5, and per-record teachers.

    python benchmarks/glyph.py --work DIR [--private 1000000] [--stages draw features ...] [--epsilons 0.1 0.5 1 2]

150 characters from all fonts of the machine; fonts of other families in the private images than in the public and test
images; classes up to five times as frequent as others; 10% of the private labels wrong (`glyphs`, split_fonts=True).
100,000 public images, of which the first 12,000 are the trained teachers' queries, and 100,000 test images. Every stage
is a process of its own, stores its result in --work and is not repeated; its time is in results/glyph_stages.csv.

    draw          the images
    features      of oriented gradients, learned from the public images (`--representation hog`)
    votes         of 5,000, 1,000, 500 and 100 teachers (the nearest of a teacher's own images, in features), stored in
                  results/teacher_votes
    table-1       LNMax, Confident-GNMax and Interactive-GNMax in two rounds: epsilon by four methods, and a student
    figure-4      noise and number of teachers, by epsilon and right labels
    figure-5      plurality votes, right and wrong, and which pass the check
    per-record    `ostrakon.run.steps.run_steps` with the defaults of `ostrakon train`, at several worst-case epsilons
    non-private   the same network on all private labels, and on the public images' true labels
    gate          the gate's epsilon for the row of Confident-GNMax

The trained students are one network (quick-cnn, 3,000 steps of 128) on the answered queries alone. Votes and labels of
generated images are public, so their data-dependent epsilons may be shown.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import joblib
import matplotlib.pyplot as plt
import numpy as np

from cifar10 import Shared
from ostrakon.accounting.data_dependent.exact import exact_curve
from ostrakon.accounting.data_independent.worst_case import worst_case_curve
from ostrakon.accounting.gate.gate import Gate
from ostrakon.accounting.published.bounds import published_curve
from ostrakon.accounting.rdp import DEFAULT_ORDERS
from ostrakon.data.datasets import glyphs
from ostrakon.features.representation import learn_representation
from ostrakon.mechanisms import NO_ANSWER, ConfidentGNMax, GNMax, InteractiveGNMax, LNMax
from ostrakon.mechanisms.base import Mechanism
from ostrakon.mechanisms.interactive_gnmax import reinforce
from ostrakon.options.options import Options
from ostrakon.papers.side_by_side import HALF_ORDERS, priced
from ostrakon.papers.teacher_votes import TeacherVotes, file_of, keep, read
from ostrakon.run.inputs.private_data import Rows
from ostrakon.run.inputs.task import Task
from ostrakon.run.steps import run_steps
from ostrakon.students.supervised import SupervisedNetwork
from ostrakon.teachers.heads import HeadEnsemble
from ostrakon.votes import PublicVotes

RESULTS = Path(__file__).parent / "results"
VOTES = RESULTS / "teacher_votes"
CLASSES, PUBLIC, TEST, QUERIES = 150, 100_000, 100_000, 12_000
SIZES = (5000, 1000, 500, 100)
DELTA = 1e-8
"""The paper's, for Glyph."""
CHECK = ConfidentGNMax(threshold=1000, sigma1=500, sigma2=100)
FIRST, SECOND = (
    ConfidentGNMax(threshold=1500, sigma1=500, sigma2=100),
    {"threshold": 1500, "sigma1": 600, "sigma2": 200},
)
LAPLACE = LNMax(gamma=0.01)
STUDENT: dict[str, Any] = {"network": "quick-cnn", "steps": 3000, "batch_size": 128, "random_state": 0}


class Drawn:
    """What the stages before kept in a folder; arrays stay on the disk until they are read."""

    def __init__(self, work: Path) -> None:
        self.work = work

    def __getattr__(self, name: str) -> Any:
        return np.load(self.work / f"{name}.npy", mmap_mode="r")

    def images(self, name: str) -> Any:
        return np.asarray(getattr(self, name))

    def labels(self, name: str) -> Any:
        return np.asarray(getattr(self, name), np.int64)


def draw(given: argparse.Namespace) -> None:
    """The images as bytes, and the labels."""
    data = glyphs(given.private, PUBLIC, TEST, n_classes=CLASSES, random_state=0, split_fonts=True)
    for name in ("X", "X_public", "X_test"):
        drawn = getattr(data, name)
        out = np.lib.format.open_memmap(given.work / f"{name}.npy", "w+", np.uint8, drawn.shape)
        for at in range(0, len(drawn), 50_000):
            out[at : at + 50_000] = np.rint(drawn[at : at + 50_000] * 255)
        out.flush()
    for name in ("y", "y_public", "y_test"):
        np.save(given.work / f"{name}.npy", getattr(data, name).astype(np.uint8))
    np.save(given.work / "classes.npy", np.array(data.classes))


def features(given: argparse.Namespace) -> None:
    """What teachers see of the images."""
    drawn = Drawn(given.work)
    seen = learn_representation("hog", drawn.images("X_public"), random_state=0)
    joblib.dump(seen, given.work / "representation.joblib")
    for name, rows in (("F_queries", drawn.X_public[:QUERIES]), ("F", drawn.X)):
        out = np.lib.format.open_memmap(given.work / f"{name}.npy", "w+", np.float32, (len(rows), seen.features))
        for at in range(0, len(rows), 20_000):
            out[at : at + 20_000] = seen.transform(np.asarray(rows[at : at + 20_000]))
        out.flush()


def votes(given: argparse.Namespace) -> None:
    """Histograms of every size of ensemble."""
    drawn = Drawn(given.work)
    asked, labels, X = np.asarray(drawn.F_queries), drawn.labels("y"), np.asarray(drawn.F)
    for teachers in SIZES:
        file = file_of(VOTES, "glyph", teachers)
        if file.exists():
            continue
        start = time.process_time()
        owner = np.random.default_rng(0).permutation(len(labels)) % teachers
        made = HeadEnsemble(kind="nearest-neighbours").train_teachers(
            X, labels, owner, n_teachers=teachers, classes=CLASSES
        )
        said = made.predict(asked)
        held = TeacherVotes(
            votes=PublicVotes.from_predictions(said, classes=CLASSES),
            labels=drawn.labels("y_public")[:QUERIES],
            about="the nearest of a teacher's own images in 128 components of oriented gradients",
        )
        keep(file, held)
        right = (held.votes.plurality == held.labels).mean()
        print(
            f"{teachers} teachers: one is right {held.accuracy:.1%}, the plurality {right:.1%}, "
            f"{held.votes.top.mean() / teachers:.1%} agree; {time.process_time() - start:.0f} processor s, "
            f"{file.stat().st_size / 2**20:.2f} MiB",
            flush=True,
        )


def ensemble(teachers: int = SIZES[0]) -> TeacherVotes:
    """The kept votes."""
    return read(file_of(VOTES, "glyph", teachers), teachers)


def taught(drawn: Drawn, rows: Any, labels: Any) -> tuple[SupervisedNetwork, float]:
    """The student of some public rows, and its accuracy on the test images."""
    student = SupervisedNetwork(**STUDENT).fit(drawn.images("X_public")[rows], labels)
    return student, tested(drawn, student)


def tested(drawn: Drawn, student: Any) -> float:
    """Accuracy on the test images."""
    said = [student.predict(np.asarray(drawn.X_test[at : at + 10_000])) for at in range(0, TEST, 10_000)]
    return float((np.concatenate(said) == drawn.labels("y_test")).mean())


def table_1(given: argparse.Namespace) -> None:
    """Epsilons and students of the paper's three rows."""
    drawn, made = Drawn(given.work), ensemble()
    rng = np.random.default_rng(2018)
    rows: list[list[Any]] = []

    def row(name: str, printed: str, answered: Any, right: Any, costs: list[Any], accuracy: float) -> None:
        rows.append([name, printed, answered, f"{right:.4f}", *costs, f"{accuracy:.4f}"])
        print(rows[-1], flush=True)

    for name, mechanism, asked, printed in (
        ("LNMax (scale 100)", LAPLACE, 4000, "4.3: 72.4%"),
        ("Confident-GNMax (T=1000, 500, 100)", CHECK, QUERIES, "2.03: 75.5%"),
    ):
        some = made.votes[:asked]
        said = mechanism.sample(some, rng)
        heard = np.flatnonzero(said != NO_ANSWER)
        told = priced(some, mechanism, printed=None, delta=DELTA, max_answers=len(heard))
        costs = [told[1], told[3], told[4], told[6]]
        right = (said[heard] == made.labels[heard]).mean()
        row(name, printed, len(heard), right, costs, taught(drawn, heard, said[heard])[1])
    half = QUERIES // 2
    one, two = made.votes[:half], made.votes[half:]
    said = FIRST.sample(one, rng)
    heard = np.flatnonzero(said != NO_ANSWER)
    student, _ = taught(drawn, heard, said[heard])
    scores = np.zeros((half, CLASSES))
    scores[:, student.classes_] = student.predict_proba(drawn.images("X_public")[half:QUERIES])
    scores /= scores.sum(axis=1, keepdims=True)
    second = InteractiveGNMax(**SECOND, scores=scores)
    corrected = second.sample(two, rng)
    answers = np.concatenate([said, reinforce(corrected, scores, confidence=0.9)])
    heard, paid = np.flatnonzero(answers != NO_ANSWER), int((said >= 0).sum() + (corrected >= 0).sum())
    parts: tuple[tuple[PublicVotes, Mechanism], ...] = ((one, FIRST), (two, second))
    bound = [published_curve(part, mechanism, HALF_ORDERS) for part, mechanism in parts]
    assert bound[0] is not None
    assert bound[1] is not None
    exact = [exact_curve(part, mechanism, DEFAULT_ORDERS) for part, mechanism in parts]
    worst = [worst_case_curve(m, DEFAULT_ORDERS, queries=half, teachers=5000, classes=CLASSES) for _, m in parts]
    costs = [
        (bound[0] + bound[1]).epsilon(delta=DELTA, conversion="mironov")[0],
        (exact[0] + exact[1]).epsilon(delta=DELTA, conversion="mironov")[0],
        (exact[0] + exact[1]).epsilon(delta=DELTA)[0],
        (worst[0] + worst[1]).epsilon(delta=DELTA)[0],
    ]
    right = (answers[heard] == made.labels[heard]).mean()
    name = f"Interactive-GNMax, two rounds ({len(heard)} labels with the student's own)"
    row(name, ".837: 73.2%", paid, right, costs, taught(drawn, heard, answers[heard])[1])
    columns = ["row", "paper (epsilon: student)", "answered", "labels right", "published bound", "exact, Mironov"]
    _write("glyph_table_1.csv", [*columns, "exact", "worst case", "student"], rows)


def figure_4(given: argparse.Namespace) -> None:
    """Right labels against the data-dependent epsilon of 4,000 queries, by noise and by number of teachers."""
    rows: list[list[Any]] = []
    panels: list[tuple[str, int, list[Mechanism]]] = [
        ("LNMax, 5,000 teachers", 5000, [LNMax(gamma=1 / scale) for scale in (40, 70, 100, 150, 250)]),
        *(
            (f"GNMax, {size:,} teachers", size, [GNMax(sigma2=share * size) for share in (0.01, 0.02, 0.04, 0.06)])
            for size in SIZES
        ),
    ]
    for name, size, mechanisms in panels:
        made = ensemble(size)
        some = made.votes[:4000]
        for mechanism in mechanisms:
            law = np.exp(mechanism.log_probabilities(some))
            right = law[np.arange(len(law)), made.labels[:4000]].mean()
            told = priced(some, mechanism, printed=None, delta=DELTA, max_answers=4000)
            rows.append([name, *mechanism.parameters().values(), told[1], told[4], told[6], f"{right:.4f}"])
            print(rows[-1], flush=True)
    _write("glyph_figure_4.csv", ["who", "noise", "published bound", "exact", "worst case", "right labels"], rows)
    figure, (left, other) = plt.subplots(1, 2, figsize=(9, 3.8), sharey=True, layout="constrained")
    for name, *_ in panels:
        mine = [row for row in rows if row[0] == name]
        for axes in [axes for axes, here in ((left, "5,000" in name), (other, name[0] == "G")) if here]:
            axes.plot([row[3] for row in mine], [100 * float(row[5]) for row in mine], marker="o", label=name)
    for axes in (left, other):
        axes.set(xscale="log", xlabel=f"exact data-dependent epsilon of 4,000 queries, delta {DELTA:g}")
        axes.legend(fontsize=8)
    left.set_ylabel("expected share of right labels, %")
    figure.savefig(RESULTS / "glyph_figure_4.png", dpi=120)


def figure_5(given: argparse.Namespace) -> None:
    """Plurality votes: right and wrong ones, and how many pass the check."""
    made = ensemble()
    top, right = made.votes.top, made.votes.plurality == made.labels
    edges = np.arange(0, 5001, 250)
    passes = 1 - np.exp(CHECK.log_probabilities(made.votes)[:, -1])
    rows = []
    for low, high in itertools.pairwise(edges):
        here = (top >= low) & (top < high)
        if here.any():
            cost = exact_curve(made.votes[np.flatnonzero(here)], GNMax(sigma2=100), [20.0]).values[0] / here.sum()
        else:
            cost = ""
        counts = [int((here & right).sum()), int((here & ~right).sum())]
        rows.append([int(low), *counts, f"{passes[here].sum():.1f}", f"{passes[here & right].sum():.1f}", cost])
    columns = ["plurality votes, at least", "right", "wrong", "expected to pass", "right of these", "cost at order 20"]
    _write("glyph_figure_5.csv", columns, rows)
    figure, axes = plt.subplots(figsize=(7, 3.8), layout="constrained")
    place = edges[:-1] + 125
    good, bad = ([row[column] for row in rows] for column in (1, 2))
    axes.bar(place, good, width=220, label="plurality right")
    axes.bar(place, bad, width=220, bottom=good, label="plurality wrong")
    axes.step(edges[:-1] + 125, [float(row[3]) for row in rows], where="mid", color="black", label="expected to pass")
    axes.set(xlabel="votes of the plurality, of 5,000", ylabel="queries")
    cost_axes = axes.twinx()
    cost_axes.plot(place, [row[5] if row[5] != "" else np.nan for row in rows], "k.", label="cost")
    cost_axes.set(yscale="log", ylabel="exact cost of a query at order 20, sigma2 = 100")
    axes.legend(fontsize=8)
    figure.savefig(RESULTS / "glyph_figure_5.png", dpi=120)


def gate(given: argparse.Namespace) -> None:
    """The gate for the row of Confident-GNMax, planned on these votes, which are public: others are planned on some."""
    made = ensemble()
    planned = Gate.plan(made.votes, CHECK, delta=DELTA)
    epsilon = planned.certificate().epsilon
    print(f"gate, Confident-GNMax: epsilon {epsilon:.3f}", flush=True)
    _write("glyph_gate.csv", ["row", "gate"], [["Confident-GNMax (T=1000, 500, 100)", f"{epsilon:.4f}"]])


def per_record(given: argparse.Namespace) -> None:
    """The default of `ostrakon train` at true epsilons."""
    drawn = Drawn(given.work)
    rows = Rows(X=drawn.images("X"), y=drawn.labels("y"))
    task = Task(
        private=rows,
        classes=tuple(map(str, np.load(given.work / "classes.npy"))),
        X_public=drawn.images("X_public"),
        X_test=drawn.images("X_test"),
        y_test=drawn.labels("y_test"),
    )
    file = RESULTS / "glyph_per_record.csv"
    before = list(csv.reader(file.open()))[1:] if file.exists() else []
    known = {line[0] for line in before if given.student in ("auto", line[5])}
    for epsilon in given.epsilons:
        if f"{epsilon:g}" in known:
            continue
        start, cpu = time.perf_counter(), time.process_time()
        options = Options(epsilon=epsilon, student=given.student, seed=0)
        done = run_steps(task, options, Shared(given.work, "view"), say=lambda stage: print(stage, flush=True))
        claimed = done.statement.guarantee
        assert claimed is not None
        before.append(
            [
                *(f"{epsilon:g}", f"{claimed.epsilon:.4f}", f"{claimed.delta:g}", done.plan.mechanism.name),
                *(done.plan.queries, done.student_name, f"{done.accuracy:.4f}"),
                *(f"{time.perf_counter() - start:.0f}", f"{time.process_time() - cpu:.0f}"),
            ]
        )
        print(before[-1], flush=True)
        columns = ["epsilon", "claimed", "delta", "mechanism", "queries", "student", "accuracy", "seconds"]
        _write(file.name, [*columns, "processor seconds"], before)


def non_private(given: argparse.Namespace) -> None:
    """What the labels would give without any noise or vote."""
    drawn = Drawn(given.work)
    truth, rows = drawn.labels("y_public"), []
    for name, count in (("true labels of 12,000 public images", QUERIES), ("true labels of all public images", PUBLIC)):
        rows.append([name, f"{taught(drawn, np.arange(count), truth[:count])[1]:.4f}"])
        print(rows[-1], flush=True)
    longer = SupervisedNetwork(**{**STUDENT, "steps": 8000})
    fitted = longer.fit(drawn.images("X"), drawn.labels("y"))
    rows.append(["labels of all private images (8,000 steps)", f"{tested(drawn, fitted):.4f}"])
    print(rows[-1], flush=True)
    _write("glyph_non_private.csv", ["learned from", "accuracy"], rows)


def _write(name: str, columns: list[str], rows: list[list[Any]]) -> None:
    with (RESULTS / name).open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(
            [columns, *([f"{cell:.4g}" if isinstance(cell, float) else cell for cell in row] for row in rows)]
        )


STAGES = {
    "draw": draw,
    "features": features,
    "votes": votes,
    "table-1": table_1,
    "figure-4": figure_4,
    "figure-5": figure_5,
    "per-record": per_record,
    "non-private": non_private,
    "gate": gate,
}


def main() -> None:
    """Run the stages that are not done, each in a process of its own, and write down what they took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--private", type=int, default=1_000_000)
    parser.add_argument("--stages", nargs="+", default=list(STAGES), choices=list(STAGES))
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0, 0.1, 0.5, 2.0])
    parser.add_argument(
        "--student", default="auto", help="of the per-record runs; auto tries several, and takes longer"
    )
    parser.add_argument("--alone", choices=list(STAGES), help=argparse.SUPPRESS)
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    if given.alone:
        STAGES[given.alone](given)
        used = resource.getrusage(resource.RUSAGE_SELF)
        print(f"STAGE {used.ru_utime + used.ru_stime:.0f} {used.ru_maxrss / 1024:.0f}", flush=True)
        return
    file = RESULTS / "glyph_stages.csv"
    for stage in given.stages:
        mark = given.work / f"{stage}.done"
        if mark.exists():
            continue
        print(f"== {stage}", flush=True)
        start, said = time.perf_counter(), ""
        command = [sys.executable, __file__, *sys.argv[1:], "--alone", stage]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for said in process.stdout:
                print(said, end="", flush=True)
        if process.returncode:
            sys.exit(f"{stage} ended with {process.returncode}.")
        _, cpu, peak = said.split()
        fresh = not file.exists()
        with file.open("a", newline="") as out:
            rows = [["stage", "private images", "seconds", "processor seconds", "peak MiB"]] * fresh
            rows.append([stage, str(given.private), f"{time.perf_counter() - start:.0f}", cpu, peak])
            csv.writer(out, lineterminator="\n").writerows(rows)
        mark.touch()


if __name__ == "__main__":
    main()
