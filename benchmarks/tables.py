"""Public tables of many shapes: what the default gives at small epsilons, beside our other options and no privacy.

    python benchmarks/tables.py --data DIR [--seeds 0 1 2] [--epsilons 0.5 1 2] [--tables ecoli adult] [--figure]

DIR holds tables/*.csv (no header, the label last) and adult/. scikit-learn's own tables join them. Of each table 60% of
the rows are private, 20% public and unlabelled, 20% for testing, drawn anew for each seed; Adult keeps its private
file, and the other one is halved. Delta is the default. Ways, on the same features of the same rows:
- default: what `ostrakon train --mechanism bounded-gnmax` does, the default before `tables_default.py`;
- a student's name: the same noisy counts, with that student instead of the chosen one;
- trained teachers: the default where teachers are asked for (logistic regression, Confident-GNMax);
- no privacy: gradient boosting on the private rows; majority: their most frequent class.
Rows are written to results/tables.csv as they come; what is there already is not run again, so it can be stopped.
Noise is seeded so that it can be repeated.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier

from ostrakon.data.datasets import adult
from ostrakon.options.options import Options
from ostrakon.planning.make_plan import make_plan
from ostrakon.run.inputs.private_data import Rows
from ostrakon.run.noise_log import Log
from ostrakon.run.stages.features import view_of
from ostrakon.run.stages.learning import Learning
from ostrakon.run.stages.student import answer_queries, fit_student
from ostrakon.run.stages.votes import collect, queries_of
from ostrakon.students.selection import Released
from ostrakon.validation import InvalidInput

RESULTS = Path(__file__).parent / "results"
FIELDS = ["table", "private", "public", "classes", "seed", "epsilon", "way", "queries", "sigma", "accuracy", "note"]
OWN = {"breast_cancer": load_breast_cancer, "wine": load_wine, "digits": load_digits}
REFUSED, DEFAULT, TEACHERS, BOOSTED, MAJORITY = "refused", "default", "trained teachers", "no privacy", "majority"


@dataclass(frozen=True, eq=False)
class Split:
    """Private, public and test rows of a table, with class numbers; those of public rows are for rehearsals alone."""

    X: Any
    y: Any
    X_public: Any
    y_public: Any
    X_test: Any
    y_test: Any
    classes: int


def read(name: str, data: Path, seed: int) -> Split:
    """A table, split at random."""
    if name == "adult":
        given = adult(data / "adult", random_state=seed)
        return Split(given.X, given.y, given.X_public, given.y_public, given.X_test, given.y_test, 2)
    if name in OWN:
        X, y = OWN[name](return_X_y=True, as_frame=True)
    else:
        table = pd.read_csv(data / "tables" / f"{name}.csv", header=None, na_values="?", quotechar="'")
        X, y = table.iloc[:, :-1], table.iloc[:, -1]
        X.columns = [f"column {number}" for number in range(X.shape[1])]
    labels, numbers = np.unique(y.astype(str), return_inverse=True)
    order = np.random.default_rng([seed, 1]).permutation(len(X))
    private, public, test = np.split(order, [int(0.6 * len(X)), int(0.8 * len(X))])
    rows: Callable[[Any], Any] = lambda places: X.iloc[places].reset_index(drop=True)  # noqa: E731
    parts = [part for places in (private, public, test) for part in (rows(places), numbers[places])]
    return Split(*parts, classes=len(labels))


def runs(split: Split, seed: int, epsilons: list[float], done: set[tuple[float, str]]):
    """(epsilon, way, queries, sigma, accuracy, note) of everything that is not done."""
    if all((0.0, way) in done for way in (BOOSTED, MAJORITY)) and all((e, TEACHERS) in done for e in epsilons):
        return
    view = view_of(split.X_public, seed=seed)
    test, private = view.transform(split.X_test), Rows(X=split.X, y=split.y.astype(np.int64))

    def right(student: Any) -> float:
        return float(np.mean(student.predict(test) == split.y_test))

    if (0.0, BOOSTED) not in done:
        seen = view.transform(split.X)
        yield 0.0, BOOSTED, "", "", right(HistGradientBoostingClassifier(random_state=seed).fit(seen, split.y)), ""
        yield 0.0, MAJORITY, "", "", float(np.mean(np.bincount(split.y).argmax() == split.y_test)), ""
    sizes = {"units": len(split.y), "pool": len(view.public), "classes": split.classes}
    learning = Learning(X_public=split.X_public, view=view, seed=seed)
    for epsilon in epsilons:
        noise = np.random.default_rng([seed, round(100 * epsilon)])
        if (epsilon, TEACHERS) in done:
            continue
        try:
            plan = make_plan(Options(epsilon=epsilon, mechanism="bounded-gnmax"), **sizes)
            queries = queries_of(view, plan.queries, strategy="representatives", seed=seed)
            votes, _ = collect(plan, private, view, queries, Options(seed=seed))
            answers = answer_queries(plan, votes, queries=queries, learning=learning, log=Log(), rng=noise)
            selection = fit_student(learning, plan, answers, queries)
            sigma = plan.mechanism.parameters()["sigma2"]
            yield epsilon, DEFAULT, plan.queries, sigma, right(selection.student), selection.chosen.name
            released = Released(queries=queries, counts=answers.counts, sigma2=sigma)
            for candidate in learning.candidates(counts=True, classes=split.classes, queries=plan.queries):
                student = released.fit_student(candidate.student, view.public)
                note = f"agreement {selection.agreement[candidate.name]:.4f}"
                yield epsilon, candidate.name, plan.queries, sigma, right(student), note
        except InvalidInput as refusal:
            yield epsilon, DEFAULT, "", "", np.nan, f"{REFUSED}: {refusal}"
        try:
            plan = make_plan(Options(epsilon=epsilon, mechanism="confident-gnmax"), **sizes)
            queries = queries_of(view, plan.queries, strategy="representatives", seed=seed)
            votes, _ = collect(plan, private, view, queries, Options(seed=seed, jobs=1))
            answers = answer_queries(plan, votes, queries=queries, learning=learning, log=Log(), rng=noise)
            student = fit_student(learning, plan, answers, queries).student
            yield epsilon, TEACHERS, plan.queries, plan.mechanism.parameters()["sigma2"], right(student), ""
        except InvalidInput as refusal:
            yield epsilon, TEACHERS, "", "", np.nan, f"{REFUSED}: {refusal}"


def summary(rows: list[dict[str, Any]]) -> dict[tuple[str, float], dict[str, float]]:
    """(table, epsilon) → way → mean accuracy over seeds in %; NaN where a seed was refused."""
    found: dict[tuple[str, float], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        found[row["table"], float(row["epsilon"])][row["way"]].append(100 * float(row["accuracy"] or "nan"))
    means = {key: {way: float(np.mean(scores)) for way, scores in ways.items()} for key, ways in found.items()}
    for table, epsilon in means:
        if epsilon:
            means[table, epsilon] |= means[table, 0.0]
    return means


def best_of(ways: dict[str, float]) -> tuple[str, float]:
    """Our best option and its mean."""
    ours = {way: score for way, score in ways.items() if way not in (BOOSTED, MAJORITY) and np.isfinite(score)}
    way = max(ours, key=lambda each: ours[each])
    return way, ours[way]


def tell(rows: list[dict[str, Any]]) -> None:
    """The table of the README."""
    means = summary(rows)
    print("| table (private, classes) | epsilon | default | best of ours | trained teachers | no privacy | majority |")
    print("|---|---|---|---|---|---|---|")
    gaps: dict[float, list[float]] = defaultdict(list)
    about = {row["table"]: (row["private"], row["classes"]) for row in rows}
    for (table, epsilon), ways in means.items():
        if not epsilon or not any(np.isfinite(score) for way, score in ways.items() if way not in (BOOSTED, MAJORITY)):
            continue
        way, best = best_of(ways)
        gaps[epsilon].append(best - ways[DEFAULT])
        told = REFUSED if not np.isfinite(ways.get(TEACHERS, np.nan)) else f"{ways[TEACHERS]:.1f}"
        size = "{} ({}, {})".format(table, *about[table])
        print(
            f"| {size} | {epsilon:g} | {ways[DEFAULT]:.1f} | {best:.1f} ({way}) | {told} | {ways[BOOSTED]:.1f} "
            f"| {ways[MAJORITY]:.1f} |"
        )
    for epsilon, gap in sorted(gaps.items()):
        print(
            f"epsilon {epsilon:g}: the default is {np.mean(gap):.2f} points below the best, mean of {len(gap)} tables"
        )
    tell_options(means)


def tell_options(means: dict[tuple[str, float], dict[str, float]]) -> None:
    """The mean over tables of every option that was run on all of them: the best that anybody could always name."""
    epsilons = sorted({epsilon for _, epsilon in means if epsilon})
    found: dict[str, list[float]] = {}
    for epsilon in epsilons:
        rows = [ways for (_, own), ways in means.items() if own == epsilon and DEFAULT in ways]
        for way in (DEFAULT, *sorted(set.intersection(*(set(ways) for ways in rows)) - {DEFAULT})):
            found.setdefault(way, []).append(float(np.mean([ways[way] for ways in rows])))
    print("| option, mean over tables | " + " | ".join(f"epsilon {epsilon:g}" for epsilon in epsilons) + " |")
    print("|---" * (len(epsilons) + 1) + "|")
    for way, scores in sorted(found.items(), key=lambda item: -float(np.mean(item[1]))):
        if len(scores) == len(epsilons) and np.isfinite(scores).all():
            print(f"| {way} | " + " | ".join(f"{score:.1f}" for score in scores) + " |")


def figure(rows: list[dict[str, Any]]) -> None:
    """results/tables.png: the default at each epsilon between majority and no privacy."""
    import matplotlib.pyplot as plt

    means = summary(rows)
    tables = sorted({table for table, _ in means}, key=lambda table: means[table, 0.0][BOOSTED])
    epsilons = sorted({epsilon for _, epsilon in means if epsilon})
    picture, axes = plt.subplots(figsize=(8, 0.45 * len(tables) + 1.2), layout="constrained")
    places = np.arange(len(tables))
    bounds = np.array([[means[table, 0.0][way] for way in (MAJORITY, BOOSTED)] for table in tables])
    axes.hlines(places, bounds[:, 0], bounds[:, 1], color="0.8", linewidth=6, label="from majority to no privacy")
    for epsilon, shade in zip(epsilons, plt.get_cmap("viridis")(np.linspace(0.75, 0.1, len(epsilons))), strict=True):
        shown = [means.get((table, epsilon), {}).get(DEFAULT, np.nan) for table in tables]
        axes.plot(shown, places, "o", color=shade, label=f"default, epsilon {epsilon:g}")
        best = [best_of(means[table, epsilon])[1] if (table, epsilon) in means else np.nan for table in tables]
        axes.plot(best, places, "|", color=shade, markersize=12)
    axes.set_yticks(places, tables)
    axes.set_xlabel("test accuracy, % (bars: the best of our options at that epsilon)")
    axes.legend(loc="lower left", fontsize=8)
    picture.savefig(RESULTS / "tables.png", dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default=os.environ.get("OSTRAKON_DATA"), required="OSTRAKON_DATA" not in os.environ)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--epsilons", type=float, nargs="*", default=[0.5, 1.0, 2.0])
    parser.add_argument("--tables", nargs="*")
    parser.add_argument("--figure", action="store_true", help="only draw and tell what is there")
    given = parser.parse_args()
    data = Path(given.data)
    names = given.tables or [*sorted(path.stem for path in (data / "tables").glob("*.csv")), *OWN, "adult"]
    path = RESULTS / "tables.csv"
    rows = list(csv.DictReader(path.open(newline=""))) if path.exists() else []
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=FIELDS, lineterminator="\n")
        if not rows:
            writer.writeheader()
        for seed in [] if given.figure else given.seeds:
            for name in names:
                start = time.perf_counter()
                done = {(float(r["epsilon"]), r["way"]) for r in rows if (r["table"], int(r["seed"])) == (name, seed)}
                split = read(name, data, seed)
                about = {"table": name, "private": len(split.y), "public": len(split.X_public), "seed": seed}
                for epsilon, way, queries, sigma, score, note in runs(split, seed, given.epsilons, done):
                    if (epsilon, way) in done:
                        continue
                    row = {"epsilon": epsilon, "way": way, "queries": queries, "sigma": sigma, "note": note}
                    row = {**about, "classes": split.classes, **row, "accuracy": f"{score:.4f}"}
                    writer.writerow(row)
                    file.flush()
                    rows.append({key: str(value) for key, value in row.items()})
                    if way in (DEFAULT, TEACHERS, BOOSTED):
                        print(f"{name}, seed {seed}, epsilon {epsilon:g}: {way} {100 * score:.1f}% {note}", flush=True)
                print(f"{name}, seed {seed}: {time.perf_counter() - start:.0f} s", flush=True)
    tell(rows)
    figure(rows)


if __name__ == "__main__":
    main()
