"""Do forecasts keep their word? `ostrakon plan` rehearsed on public rows, against the accuracy of the run itself.

    python benchmarks/forecast.py --data DIR [--seeds 0 1 2 3 4] [--epsilons 0.5 1 2] [--tables NAME ...] [--figure]

DIR holds tables/*.csv and adult/, split as in benchmarks/tables.py: 60% of the rows are private, 20% public, 20% for
testing, anew for each seed. `glyphs` are drawn: ten letters, 6,000 private, 800 public and 2,000 test images, with one
student that is named for both, because a choice among networks takes minutes. The forecast sees the public rows with
their labels and the number of records; the run sees the private rows, and public rows without labels. The interval is
that for an accuracy measured on as many test rows as there are. Rows are written to results/forecast.csv as they come;
what is there already is not run again. Noise is seeded so that it can be repeated.

`--others wine digits` does the same for a quantity (scores of red wines, 0 to 10) and for several labels (digits that
are even, have a loop, are above 4), by every measure that is forecast, into results/forecast_others.csv; the interval
is that of a plan.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ostrakon.data.datasets import glyphs
from ostrakon.data.labels import Labels
from ostrakon.data.quantity import Quantity
from ostrakon.forecast.interval import CONFIDENCE, Forecast
from ostrakon.forecast.offers import default_mechanisms, make_offers
from ostrakon.forecast.public_rows import PublicRows
from ostrakon.forecast.rehearsal import rehearse
from ostrakon.options.options import AUTO, Options
from ostrakon.planning.defaults import DEFAULT_MECHANISM
from ostrakon.run.inputs.private_data import Rows
from ostrakon.run.inputs.task import Task
from ostrakon.run.steps import run_steps
from ostrakon.run.storage import Storage
from ostrakon.validation import InvalidInput
from tables import RESULTS, Split, read

TABLES = ["german", "pima-indians-diabetes", "winequality-red", "digits", "glyphs", "adult"]
FIELDS = ["table", "seed", "epsilon", "records", "public", "test_rows", "realized", "accuracies", "halved"]
FIELDS += ["held", "distinct", "doublings", "majority", "not_private", "seconds"]
NAMED = {"glyphs": "svm-rbf(C=1.0)"}


def split_of(name: str, data: Path, seed: int) -> Split:
    """The rows of a task."""
    if name != "glyphs":
        return read(name, data, seed)
    drawn = glyphs(6000, 800, 2000, random_state=seed)
    parts = (drawn.X, drawn.y, drawn.X_public, drawn.y_public, drawn.X_test, drawn.y_test)
    return Split(*parts, classes=len(drawn.classes))


def realized(split: Split, offers: Any, options: Options) -> dict[float, float]:
    """The accuracy of the run itself at each epsilon, on the test rows."""
    task = Task(
        private=Rows(X=split.X, y=split.y.astype(np.int64)),
        classes=tuple(map(str, range(split.classes))),
        X_public=split.X_public,
        X_test=split.X_test,
        y_test=split.y_test,
    )
    found = {}
    for offer in offers:
        if offer.plan is not None:
            noise = np.random.default_rng([options.seed, round(100 * offer.epsilon), 17])
            done = run_steps(task, replace(options, epsilon=offer.epsilon), Storage(), rng=noise)
            found[offer.epsilon] = done.accuracy
    return found


def rows_of(name: str, split: Split, seed: int, epsilons: list[float]) -> list[dict[str, Any]]:
    """One row for each epsilon at which the plan is not refused."""
    start, records = time.perf_counter(), len(split.y)
    options = Options(seed=seed, student=NAMED.get(name, AUTO))
    labels = [str(number) for number in range(split.classes)]
    shown = PublicRows.of(split.X_public, [str(number) for number in split.y_public], classes=labels)
    sizes: dict[str, Any] = {"records": records, "pool": shown.rows, "classes": split.classes}
    images = name == "glyphs"
    mechanisms = default_mechanisms(options, classes=split.classes, images=images)[:1]
    offers = make_offers(options, epsilons=epsilons, mechanisms=mechanisms, images=images, **sizes)
    rehearsal = rehearse(shown, offers, options, records=records)
    run = realized(split, offers, options)
    seconds = f"{time.perf_counter() - start:.0f}"
    return [
        {
            "table": name,
            "seed": seed,
            "epsilon": one.epsilon,
            "records": records,
            "public": shown.rows,
            "test_rows": len(split.y_test),
            "realized": f"{run[one.epsilon]:.5f}",
            "accuracies": " ".join(f"{share:.5f}" for share in one.scores),
            "halved": " ".join(f"{share:.5f}" for share in one.halved),
            "held": one.holdout,
            "distinct": one.distinct,
            "doublings": f"{one.doublings:.3f}",
            "majority": f"{rehearsal.constant[0]:.4f}",
            "not_private": f"{rehearsal.not_private[0]:.4f}",
            "seconds": seconds,
        }
        for one in rehearsal.forecasts
    ]


OTHERS: dict[str, Quantity | Labels] = {
    "wine": Quantity(low=0, high=10),
    "digits": Labels(names=("even", "loop", "high")),
}


def other_rows(name: str, data: Path, seed: int, epsilons: list[float]) -> list[dict[str, Any]]:
    """One row for each epsilon and measure of a quantity or several labels."""
    from quantities import wine
    from several_labels import digits

    coding = OTHERS[name]
    X, y = wine(data / "tables") if isinstance(coding, Quantity) else digits(data)
    order = np.random.default_rng(seed).permutation(len(X))
    private, public, test = np.split(order, [int(0.6 * len(X)), int(0.8 * len(X))])
    shown, options = PublicRows.of(X.iloc[public], y[public], coding=coding), Options(seed=seed)
    mechanisms = default_mechanisms(options, classes=len(shown.classes), target=shown.target)[:1]
    sizes: dict[str, Any] = {"records": len(private), "pool": shown.rows, "classes": len(shown.classes)}
    offers = make_offers(options, epsilons=epsilons, mechanisms=mechanisms, **sizes, target=shown.target)
    rehearsal, rows = rehearse(shown, offers, options, records=len(private)), []
    learned = coding.steps(y[private]) if isinstance(coding, Quantity) else y[private]
    known = Rows(X=X.iloc[private], y=learned)
    parts = {"X_public": X.iloc[public], "X_test": X.iloc[test], "y_test": y[test]}
    for offer in offers:
        task = Task(private=known, classes=shown.classes, coding=coding, **parts)
        noise = np.random.default_rng([seed, round(100 * offer.epsilon), 17])
        done = run_steps(task, replace(options, epsilon=offer.epsilon), Storage(), rng=noise).measures
        for one in rehearsal.of(offer):
            (low, high), right = one.interval(), getattr(done, one.measure.lower().replace(" ", "_"))
            same = {"table": name, "seed": seed, "epsilon": offer.epsilon, "measure": one.measure}
            numbers = {"realized": right, "forecast": one.mean, "low": low, "high": high}
            rows.append(same | {key: f"{value:.4f}" for key, value in numbers.items()})
    return rows


def main_of_others(names: list[str], data: Path, seeds: list[int], epsilons: list[float]) -> None:
    """Write results/forecast_others.csv, and print the table of the README."""
    rows: list[dict[str, Any]] = []
    with (RESULTS / "forecast_others.csv").open("w", newline="") as file:
        for name in names:
            for seed in seeds:
                rows += other_rows(name, data, seed, epsilons)
                print(name, seed, flush=True)
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    groups: dict[tuple[str, float, str], list[Any]] = defaultdict(list)
    for row in rows:
        numbers = [float(row[key]) for key in ("forecast", "realized", "low", "high")]
        groups[row["table"], row["epsilon"], row["measure"]].append(numbers)
    for (table, epsilon, measure), given in groups.items():
        forecast, right, low, high = np.array(given).T
        inside = int(((low <= right) & (right <= high)).sum())
        print(
            f"| {table} | {epsilon:g} | {measure} | {forecast.mean():.3f} | {right.mean():.3f} "
            f"| {inside} of {len(given)} | {(high - low).mean() / 2:.3f} |"
        )


def forecast_of(row: dict[str, Any]) -> Forecast:
    """The forecast of a row, from what its repetitions gave."""
    return Forecast(
        epsilon=float(row["epsilon"]),
        mechanism=DEFAULT_MECHANISM,
        scores=tuple(map(float, row["accuracies"].split())),
        halved=tuple(map(float, row["halved"].split())),
        holdout=int(row["held"]),
        distinct=int(row["distinct"]),
        doublings=float(row["doublings"]),
    )


def tell(rows: list[dict[str, Any]]) -> None:
    """The table of the README: coverage and width, and how many intervals would hold without any allowance."""
    print("| table (private, public) | epsilon | seeds | forecast | realized | covered | half width |")
    print("|---|---|---|---|---|---|---|")
    groups: dict[tuple[str, float], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[row["table"], float(row["epsilon"])].append(row)
    hits, low, high = 0, 0, 0
    for (table, epsilon), held in sorted(groups.items()):
        forecasts = [forecast_of(row) for row in held]
        right = np.array([float(row["realized"]) for row in held])
        ends = np.array(
            [one.interval(test_rows=int(row["test_rows"])) for one, row in zip(forecasts, held, strict=True)]
        )
        inside = (ends[:, 0] <= right) & (right <= ends[:, 1])
        hits, low, high = hits + inside.sum(), low + (right < ends[:, 0]).sum(), high + (right > ends[:, 1]).sum()
        mean = 100 * np.mean([one.mean for one in forecasts])
        print(
            f"| {table} ({held[0]['records']}, {held[0]['public']}) | {epsilon:g} | {len(held)} | {mean:.1f} "
            f"| {100 * right.mean():.1f} | {inside.sum()} of {len(held)} | {50 * np.diff(ends).mean():.1f} |"
        )
    if rows:
        print(
            f"{hits} of {len(rows)} intervals of {CONFIDENCE:.0%} cover ({hits / len(rows):.1%}); "
            f"realized below {low}, above {high}"
        )


def figure(rows: list[dict[str, Any]]) -> None:
    """results/forecast.png: forecast against realized, a pair of bars for each table and epsilon."""
    import matplotlib.pyplot as plt

    keys = sorted({(row["table"], float(row["epsilon"])) for row in rows})
    picture, axes = plt.subplots(figsize=(9, 0.5 * len(keys) + 1.4), layout="constrained")
    for place, key in enumerate(keys):
        held = [row for row in rows if (row["table"], float(row["epsilon"])) == key]
        forecasts = [forecast_of(row) for row in held]
        ends = np.mean(
            [one.interval(test_rows=int(row["test_rows"])) for one, row in zip(forecasts, held, strict=True)], axis=0
        )
        mean = float(np.mean([one.mean for one in forecasts]))
        right = [100 * float(row["realized"]) for row in held]
        bounds = [[100 * (mean - ends[0])], [100 * (ends[1] - mean)]]
        first = place == 0
        axes.barh(place + 0.2, 100 * mean, 0.38, color="#7a9cc6", label="forecast, 95% interval" if first else None)
        axes.errorbar(100 * mean, place + 0.2, xerr=bounds, color="#1b3a5c", capsize=3, fmt="none")
        axes.barh(place - 0.2, np.mean(right), 0.38, color="#2a7f62", label="realized, each seed" if first else None)
        axes.plot(right, np.full(len(right), place - 0.2), "|", color="black", markersize=9)
    axes.set_yticks(range(len(keys)), [f"{table}, epsilon {epsilon:g}" for table, epsilon in keys])
    axes.set_xlim(0, 100)
    axes.set_xlabel("accuracy, %")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    picture.savefig(RESULTS / "forecast.png", dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default=os.environ.get("OSTRAKON_DATA"), required="OSTRAKON_DATA" not in os.environ)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2, 3, 4])
    parser.add_argument("--epsilons", type=float, nargs="*", default=[0.5, 1.0, 2.0])
    parser.add_argument("--tables", nargs="*", default=TABLES)
    parser.add_argument("--others", nargs="*", choices=list(OTHERS), help="these alone")
    parser.add_argument("--figure", action="store_true", help="only draw and tell what is there")
    given = parser.parse_args()
    if given.others:
        main_of_others(given.others, Path(given.data), given.seeds, given.epsilons)
        return
    path = RESULTS / "forecast.csv"
    rows: list[dict[str, Any]] = list(csv.DictReader(path.open(newline=""))) if path.exists() else []
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=FIELDS, lineterminator="\n")
        if not rows:
            writer.writeheader()
        for seed in [] if given.figure else given.seeds:
            for name in given.tables:
                if any((row["table"], int(row["seed"])) == (name, seed) for row in rows):
                    continue
                try:
                    found = rows_of(name, split_of(name, Path(given.data), seed), seed, given.epsilons)
                except InvalidInput as refused:
                    print(f"{name}, seed {seed}: {refused}", flush=True)
                    continue
                writer.writerows(found)
                file.flush()
                rows += [{key: str(value) for key, value in row.items()} for row in found]
                for row in found:
                    ends = forecast_of(row).interval(test_rows=row["test_rows"])
                    told = f"{name}, seed {seed}, epsilon {row['epsilon']:g}: [{ends[0]:.3f}, {ends[1]:.3f}]"
                    print(f"{told}, realized {row['realized']} ({row['seconds']} s)", flush=True)
    tell(rows)
    if rows:
        figure(rows)


if __name__ == "__main__":
    main()
