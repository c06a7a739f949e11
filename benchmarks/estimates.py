"""Does the published estimate of a student's accuracy on the private data keep what its interval says?

    python benchmarks/estimates.py [--runs 500] [--data DIR --seeds 0 1 --tables adult ecoli]

Worlds, drawn anew for every run: 2,000 private and 400 public rows in the plane; students are chosen and
cross-validated as in a run, and every run draws its noise anew. "smooth": two or three classes, 40 cells. "shifted":
the same, with private rows of another law than public ones, within cells, too. "against the trend": 60 clusters on a
line; between clusters the label follows the line, within each cluster it runs against it.
Reported is in how many runs
- the lower bound holds for the released student's own agreement with the private labels,
- two standard deviations around `share`, which takes errors within cells to be at random, do,
- the student is called better than the majority class, and in how many of these it is,
- the ranges of the recall of every class hold together, and that of the balanced accuracy; and their mean ends.
"rare": two or three classes, the last of which has one row in fifty; 120 cells.
With --data: tables as in tables.py at --epsilon, the estimate beside the share of private labels that students say, and
of two objectives the ranges of the recall of every class and of the balanced accuracy beside what is true.
Noise is seeded to be repeated.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression

from ostrakon.accounting.estimates import Recall
from ostrakon.options.options import Options
from ostrakon.planning.make_plan import make_plan
from ostrakon.run.inputs.private_data import Rows
from ostrakon.run.noise_log import Log
from ostrakon.run.stages.estimates import assess
from ostrakon.run.stages.features import view_of
from ostrakon.run.stages.learning import Learning
from ostrakon.run.stages.student import answer_queries, fit_student
from ostrakon.run.stages.votes import collect, queries_of
from ostrakon.students.agreement_estimate import better_than_majority, with_private_labels
from ostrakon.students.cells import cell_of
from ostrakon.students.noisy_counts import NoisyCountStudent
from ostrakon.students.recall_estimate import ClassSizes, recalls
from ostrakon.students.selection import Candidate, Released, select
from tables import read

PRIVATE, PUBLIC = 2000, 400


def smooth(rng: np.random.Generator, classes: int) -> tuple[Any, Any]:
    """Rows in the plane whose label is the nearest of directions, with noise."""
    rows = rng.normal(size=(PRIVATE + PUBLIC, 2)).astype(np.float32)
    angles = 2 * np.pi * np.arange(classes) / classes
    scores = 2 * rows @ np.stack([np.cos(angles), np.sin(angles)]) + rng.gumbel(size=(len(rows), classes))
    return rows, scores.argmax(axis=1)


def shifted(rng: np.random.Generator, classes: int) -> tuple[Any, Any]:
    """As `smooth`, but private rows are drawn towards the right, within cells and between them."""
    draws = [smooth(rng, classes) for _ in range(4)]
    rows, y = (np.concatenate(part) for part in zip(*draws, strict=True))
    public = np.arange(PUBLIC)
    # Without replacement, with weights exp(.8 x): the law of the label, given the row, stays.
    private = PUBLIC + np.argsort(0.8 * rows[PUBLIC:, 0] + rng.gumbel(size=len(rows) - PUBLIC))[-PRIVATE:]
    order = np.concatenate([private, public])
    return rows[order], y[order]


def against_the_trend(rng: np.random.Generator, classes: int) -> tuple[Any, Any]:
    """60 clusters along a line: their mean labels follow it, and within each the label runs against it."""
    cluster = rng.integers(0, 60, PRIVATE + PUBLIC)
    within = rng.uniform(-1, 1, len(cluster))
    rows = np.stack([(cluster - 30 + 0.45 * within) / 10, 0.02 * rng.normal(size=len(cluster))], axis=1)
    share = 0.4 + 0.2 * (cluster > 30) - 0.45 * np.sign(within)
    return rows.astype(np.float32), (rng.uniform(size=len(cluster)) < np.clip(share, 0.02, 0.98)).astype(int)


def rare(rng: np.random.Generator, classes: int) -> tuple[Any, Any]:
    """The last class lies in a disc, where most rows have it; it has one row in fifty. Others as in `smooth`."""
    rows, y = smooth(rng, classes - 1) if classes > 2 else (smooth(rng, 2)[0], np.zeros(PRIVATE + PUBLIC, int))
    inside = np.square(rows - [1.2, 0.6]).sum(axis=1) < 0.09
    return rows, np.where(rng.uniform(size=len(y)) < np.where(inside, 0.7, 0.002), classes - 1, y)


WORLDS = {
    "smooth": (smooth, 40),
    "shifted": (shifted, 40),
    "against the trend": (against_the_trend, 60),
    "rare": (rare, 120),
}


def one_run(run: int, *, world: str, classes: int, sigma2: float) -> dict[str, float]:
    """What one run's interval holds."""
    draw, cells = WORLDS[world]
    rng = np.random.default_rng([run, classes, int(10 * sigma2)])
    rows, y = draw(rng, classes)
    private, labels, public = rows[:PRIVATE], y[:PRIVATE], rows[PRIVATE:]
    queries = np.arange(cells)
    counts = np.zeros((cells, classes))
    np.add.at(counts, (cell_of(private, public[:cells]), labels), 1)
    noisy = counts + rng.normal(0, sigma2, counts.shape)
    fixed: Any = {"representation": "raw", "random_state": 0}
    candidates = [
        Candidate(name=str(strength), student=NoisyCountStudent(LogisticRegression(C=strength), **fixed))
        for strength in (0.3, 3.0)
    ]
    candidates.append(Candidate(name="majority", student=NoisyCountStudent(DummyClassifier(), **fixed), fallback=True))
    selection = select(candidates, public, public, Released(queries=queries, counts=noisy, sigma2=sigma2), seed=run)
    assert selection.out_of_fold is not None
    own = float(np.mean(selection.student.predict(private) == labels))
    found = with_private_labels(selection.out_of_fold, of="student", sigma2=sigma2, votes=PRIVATE, counted="records")
    assert found is not None
    called = better_than_majority(selection.out_of_fold, sigma2=sigma2)
    exact = np.bincount(labels, minlength=classes)
    sizes = ClassSizes(sizes=exact + rng.normal(0, 2 * sigma2, classes), sigma=2 * sigma2)
    by_class = _by_class(selection, public, private, labels, sigma2=sigma2, sizes=sizes)
    return {
        "bound holds": found.low <= own,
        "share +- 2 sd holds": abs(found.share - own) <= 2 * found.sd,
        "called better": called,
        "wrongly called better": called and own <= exact.max() / PRIVATE,
        "lower bound": found.low,
        "truth": own,
        **by_class,
    }


def _by_class(selection: Any, public: Any, private: Any, labels: Any, *, sigma2: float, sizes: Any) -> dict[str, float]:
    """Whether ranges of recall hold, and the mean ends of the last class and of the balanced accuracy."""
    names = [str(label) for label in range(len(sizes.sizes))]
    counted = selection.cells.counted(selection.student.predict(public), len(names))
    given: Any = {"sigma2": sigma2, "labels": names, "counted": "records", "sizes": sizes}
    *each, mean = recalls(selection.by_class, counted, **given)
    right = selection.student.predict(private) == labels
    truth = np.array([np.mean(right[labels == label]) for label in range(len(names))])
    return {
        "recalls hold together": all(one.low <= share <= one.high for one, share in zip(each, truth, strict=True)),
        "balanced accuracy holds": mean.low <= truth.mean() <= mean.high,
        "last class from": each[-1].low,
        "is": truth[-1],
        "to": each[-1].high,
        "balanced from": mean.low,
        "balanced is": truth.mean(),
        "balanced to": mean.high,
    }


def on_table(name: str, data: Path, seed: int, epsilon: float) -> Iterator[str]:
    """The estimates of one split of a table beside what is true of its private rows."""
    split = read(name, data, seed)
    view = view_of(split.X_public, seed=seed)
    plan = make_plan(Options(epsilon=epsilon), units=len(split.y), pool=len(view.public), classes=split.classes)
    queries = queries_of(view, plan.queries, strategy="representatives", seed=seed)
    private = Rows(X=split.X, y=split.y.astype(np.int64))
    votes, _ = collect(plan, private, view, queries, Options(seed=seed))
    learning = Learning(X_public=split.X_public, view=view, seed=seed)
    noise = np.random.default_rng(seed)
    answers = answer_queries(plan, votes, queries=queries, learning=learning, log=Log(), rng=noise)
    seen, labels = np.asarray(view.transform(split.X), float), [str(label) for label in range(split.classes)]
    for objective in ("accuracy", "balanced"):
        asked = replace(learning, objective=objective)
        selection = fit_student(asked, plan, answers, queries)
        right = selection.student.predict(seen) == split.y
        recall = [float(np.mean(right[split.y == label])) for label in np.unique(split.y)]
        truth = {"student": float(np.mean(right)), None: float(np.mean(recall))}
        truth.update(zip(map(str, np.unique(split.y)), recall, strict=True))
        found, _ = assess(plan, answers, selection, asked, labels=labels, unit="record", protects="records")
        for one in found:
            of = one.label if isinstance(one, Recall) else one.of
            if of in truth:
                missed = "" if one.low <= truth[of] <= one.high else ", MISSED"
                yield (
                    f"| {name} | {seed} | {objective}, {selection.chosen.name} | {one.title} | {one.in_words()} "
                    f"| {truth[of]:.1%}{missed} |"
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--tables", nargs="+", default=["adult"])
    given = parser.parse_args()
    settings = (("smooth", 2, 5.0), ("smooth", 3, 10.0), ("against the trend", 2, 5.0), ("shifted", 2, 5.0))
    settings += (("rare", 2, 2.0), ("rare", 3, 1.0))
    for world, classes, sigma2 in settings:
        runs = [one_run(run, world=world, classes=classes, sigma2=sigma2) for run in range(given.runs)]
        means = ", ".join(f"{name} {np.mean([each[name] for each in runs]):.1%}" for name in (runs[0] if runs else ()))
        print(f"{world}, {classes} classes, sigma2 {sigma2:g}, {given.runs} runs: {means}", flush=True)
    if given.data is not None:
        print("| table | seed | student | estimated | range | of private labels |\n|---|---|---|---|---|---|")
        for name in given.tables:
            for seed in given.seeds:
                for line in on_table(name, given.data, seed, given.epsilon):
                    print(line, flush=True)


if __name__ == "__main__":
    main()
