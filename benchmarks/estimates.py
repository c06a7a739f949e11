"""Does the published estimate of a student's agreement with the private labels keep what its interval says?

    python benchmarks/estimates.py [--runs 500] [--data DIR --seeds 0 1]

Made worlds, drawn anew for every run: 2,000 private and 400 public rows of two or three classes in the plane, 40 cells;
students are chosen and cross-validated as in a run, and every run draws its noise anew. Reported is in how many runs
- the 95% interval holds the agreement by cell, with the number of records known and with it unknown (Fieller),
- the range from its lower end to `at_most` holds the released student's own agreement with the private labels,
- an interval of 0.8 of the noise (a planted error) holds the agreement by cell.
With --data: Adult at epsilon 1, the estimate beside the accuracy on the test rows. Noise is seeded to be repeated.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression

from ostrakon.data.datasets import adult
from ostrakon.options.options import Options
from ostrakon.planning.make_plan import make_plan
from ostrakon.run.inputs.private_data import Rows
from ostrakon.run.noise_log import MemoryLog
from ostrakon.run.stages.features import view_of
from ostrakon.run.stages.learning import Learning
from ostrakon.run.stages.student import answer_queries, fit_student
from ostrakon.run.stages.votes import collect, queries_of
from ostrakon.students.agreement_estimate import with_private_labels
from ostrakon.students.cells import cell_of
from ostrakon.students.noisy_counts import NoisyCountStudent
from ostrakon.students.selection import Candidate, Released, select

PRIVATE, PUBLIC, CELLS = 2000, 400, 40


def covered(run: int, *, classes: int, sigma2: float) -> dict[str, bool]:
    """What one run's intervals hold."""
    rng = np.random.default_rng([run, classes, int(10 * sigma2)])
    rows = rng.normal(size=(PRIVATE + PUBLIC, 2)).astype(np.float32)
    angles = 2 * np.pi * np.arange(classes) / classes
    scores = 2 * rows @ np.stack([np.cos(angles), np.sin(angles)]) + rng.gumbel(size=(len(rows), classes))
    private, labels, public = rows[:PRIVATE], scores[:PRIVATE].argmax(axis=1), rows[PRIVATE:]
    queries = np.arange(CELLS)
    counts = np.zeros((CELLS, classes))
    np.add.at(counts, (cell_of(private, public[:CELLS]), labels), 1)
    noisy = counts + rng.normal(0, sigma2, counts.shape)
    made: Any = {"representation": "raw", "random_state": 0}
    candidates = [
        Candidate(name=str(strength), student=NoisyCountStudent(LogisticRegression(C=strength), **made))
        for strength in (0.3, 3.0)
    ]
    candidates.append(Candidate(name="majority", student=NoisyCountStudent(DummyClassifier(), **made), fallback=True))
    selection = select(candidates, public, public, Released(queries=queries, counts=noisy, sigma2=sigma2), seed=run)
    held = selection.held
    assert held is not None
    place = [int(np.flatnonzero((noisy == row).all(axis=1))[0]) for row in held.counts]
    truth = float((held.shares * counts[place]).sum()) / PRIVATE
    own = float(np.mean(selection.student.predict(private) == labels))

    def estimate(votes: int | None, noise: float) -> Any:
        return with_private_labels(held, of="student", sigma2=noise, votes=votes, counted="records")

    known, unknown, planted = estimate(PRIVATE, sigma2), estimate(None, sigma2), estimate(PRIVATE, 0.8 * sigma2)
    return {
        "n known": known.low <= truth <= known.high,
        "n unknown": unknown.low <= truth <= unknown.high,
        "range, own agreement": known.low <= own <= known.at_most,
        "0.8 of the noise": planted.low <= truth <= planted.high,
    }


def on_adult(data: Path, seed: int) -> str:
    """The estimate of one halving of Adult beside the measured accuracy."""
    given = adult(data / "adult", random_state=seed)
    view = view_of(given.X_public, seed=seed)
    plan = make_plan(Options(epsilon=1.0), units=len(given.y), pool=len(view.public), classes=2)
    queries = queries_of(view, plan.queries, strategy="representatives", seed=seed)
    votes, _ = collect(plan, Rows(X=given.X, y=given.y.astype(np.int64)), view, queries, Options(seed=seed))
    learning = Learning(X_public=given.X_public, view=view, seed=seed)
    noise = np.random.default_rng(seed)
    answers = answer_queries(plan, votes, queries=queries, learning=learning, log=MemoryLog(), rng=noise)
    selection = fit_student(learning, plan, answers, queries)
    assert selection.held is not None
    sigma2 = plan.mechanism.parameters()["sigma2"]
    told = []
    for of in ("student", "majority"):
        found = with_private_labels(selection.held, of=of, sigma2=sigma2, votes=plan.teachers, counted="records")
        told.append("no estimate" if found is None else found.in_words())
    right = float(np.mean(selection.student.predict(view.transform(given.X_test)) == given.y_test))
    return f"| {seed} | {selection.chosen.name} | {told[0]} | {told[1]} | {right:.1%} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    given = parser.parse_args()
    for classes, sigma2 in ((2, 5.0), (3, 10.0)) if given.runs else ():
        held: Counter[str] = Counter()
        for run in range(given.runs):
            held.update({name: int(each) for name, each in covered(run, classes=classes, sigma2=sigma2).items()})
        told = ", ".join(f"{name} {count / given.runs:.1%}" for name, count in held.items())
        print(f"{classes} classes, sigma2 {sigma2:g}, {given.runs} runs: {told}", flush=True)
    if given.data is not None:
        print("| seed | student | estimated agreement | majority | test rows |\n|---|---|---|---|---|")
        for seed in given.seeds:
            print(on_adult(given.data, seed), flush=True)


if __name__ == "__main__":
    main()
