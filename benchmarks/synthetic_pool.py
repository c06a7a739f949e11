"""No public table: rows drawn from noisy marginals beside a real public pool, on Adult, at one epsilon for everything.

    python benchmarks/synthetic_pool.py --data DIR [--table adult|clusters] [--ways real synthetic singles even]
        [--seeds 0 1 2] [--epsilons 0.5 1 2] [--shares 0.2]

DIR holds adult.data.gz and adult.test.gz. adult.data is private; adult.test is split at random (anew for each seed)
into the real public pool and the test set; "clusters" are made up, in columns that hang together. Ways: "real", the
default of `PATEClassifier` on the real pool; "synthetic", the same without it, rows drawn from noisy marginals of all
pairs, which take a share of the budget; "singles", from marginals of single columns; "even", rows drawn evenly from
the description, which is free. Columns are described below from the archive's adult.names and round numbers, and
from no row. Delta is 1e-5. Rows are written to results/synthetic_pool.csv as they come; what is there is not run again.
Noise is seeded so that it can be repeated.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning

import ostrakon
from ostrakon.data.datasets import adult
from ostrakon.features.synthetic import tables_of
from ostrakon.run import steps
from ostrakon.run.stages import pool

RESULTS = Path(__file__).parent / "results" / "synthetic_pool.csv"
FIELDS = ["table", "way", "share", "epsilon", "seed", "accuracy", "claimed", "queries", "student", "seconds"]
PAID = ("synthetic", "singles")
ROWS = 8000


def words(text: str) -> dict[str, list[str]]:
    return {"categories": text.split()}


COLUMNS = {
    "age": {"edges": [17, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 90], "whole": True},
    "workclass": words(
        "Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov Without-pay Never-worked"
    ),
    "fnlwgt": {"low": 0, "high": 1_500_000},
    "education": words(
        "Bachelors Some-college 11th HS-grad Prof-school Assoc-acdm Assoc-voc 9th 7th-8th 12th Masters 1st-4th 10th "
        "Doctorate 5th-6th Preschool"
    ),
    "education-num": {"low": 1, "high": 16, "whole": True},
    "marital-status": words(
        "Married-civ-spouse Divorced Never-married Separated Widowed Married-spouse-absent Married-AF-spouse"
    ),
    "occupation": words(
        "Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty Handlers-cleaners "
        "Machine-op-inspct Adm-clerical Farming-fishing Transport-moving Priv-house-serv Protective-serv Armed-Forces"
    ),
    "relationship": words("Wife Own-child Husband Not-in-family Other-relative Unmarried"),
    "race": words("White Asian-Pac-Islander Amer-Indian-Eskimo Other Black"),
    "sex": words("Female Male"),
    "capital-gain": {"edges": [0, 1, 2000, 4000, 6000, 8000, 10_000, 20_000, 100_000], "whole": True},
    "capital-loss": {"edges": [0, 1, 1000, 1500, 1750, 2000, 2500, 5000], "whole": True},
    "hours-per-week": {"edges": [1, 10, 20, 30, 35, 40, 41, 45, 50, 60, 80, 99], "whole": True},
    "native-country": words(
        "United-States Cambodia England Puerto-Rico Canada Germany Outlying-US(Guam-USVI-etc) India Japan Greece "
        "South China Cuba Iran Honduras Philippines Italy Poland Jamaica Vietnam Mexico Portugal Ireland "
        "France Dominican-Republic Laos Ecuador Taiwan Haiti Columbia Hungary Guatemala Nicaragua Scotland Thailand "
        "Yugoslavia El-Salvador Trinadad&Tobago Peru Hong Holand-Netherlands"
    ),
}


CLUSTERS = {f"x{number}": {"low": -12, "high": 12, "bins": 16} for number in range(12)}


@dataclass(frozen=True, eq=False)
class Made:
    """Clusters in twelve columns, five of which hang on five others; 20,000 private, 5,000 public, 5,000 test rows."""

    X: Any
    y: Any
    X_public: Any
    X_test: Any
    y_test: Any


def clusters(seed: int) -> Made:
    X, y = make_classification(
        30_000, n_features=12, n_informative=5, n_redundant=5, n_classes=3, n_clusters_per_class=3, class_sep=1.2,
        random_state=seed,
    )  # fmt: skip
    frame = pd.DataFrame(X, columns=list(CLUSTERS))
    return Made(frame[:20_000], y[:20_000], frame[20_000:25_000], frame[25_000:], y[25_000:])


def singles(sizes: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Every column by itself, in the place of `ostrakon.features.synthetic.tables_of`."""
    return tuple((column,) for column in range(len(sizes)))


def run(data, columns, way: str, share: float, epsilon: float, seed: int) -> dict[str, object]:
    started = time.perf_counter()
    domain = ostrakon.Domain.of(columns, rows=ROWS)
    pools = {"real": data.X_public, "even": domain.uniform(seed=seed)}
    rule = singles if way == "singles" else tables_of
    # What is measured is no option of a run: here alone it is another one.
    steps.tables_of = pool.tables_of = rule
    mechanism = "auto"
    if way not in pools:
        mechanism = ostrakon.SyntheticGNMax(sigma2=10.0, marginals=share, tables=len(rule(domain.sizes)))
    noise = np.random.default_rng([seed, round(100 * epsilon)])
    options = {"mechanism": mechanism, "epsilon": epsilon, "delta": 1e-5, "random_state": seed, "noise": noise}
    model = ostrakon.PATEClassifier(classes="from-private", **options).fit(
        data.X, data.y, X_public=pools.get(way, domain)
    )
    return {
        "way": way,
        "share": share,
        "epsilon": epsilon,
        "seed": seed,
        "accuracy": round(float((model.predict(data.X_test) == data.y_test).mean()), 5),
        "claimed": ostrakon.accounting.worst_case(model.mechanism_, queries=len(model.queries_), delta=1e-5).epsilon,
        "queries": len(model.queries_),
        "student": model.student_name_,
        "seconds": round(time.perf_counter() - started),
    }


def main() -> None:
    warnings.filterwarnings("ignore", category=ConvergenceWarning)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=None)
    parser.add_argument("--table", choices=["adult", "clusters"], default="adult")
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--epsilons", type=float, nargs="*", default=[1.0, 0.5, 2.0])
    parser.add_argument("--ways", nargs="*", default=["real", "synthetic"])
    parser.add_argument("--shares", type=float, nargs="*", default=[0.2])
    options = parser.parse_args()
    held = list(csv.DictReader(RESULTS.open())) if RESULTS.exists() else []
    done = {(row["table"], row["way"], float(row["share"]), float(row["epsilon"]), int(row["seed"])) for row in held}
    asked = [(way, share) for way in options.ways for share in (options.shares if way in PAID else [0.0])]
    columns = COLUMNS if options.table == "adult" else CLUSTERS
    with RESULTS.open("a", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        if not held:
            writer.writeheader()
        for seed in options.seeds:
            data = adult(options.data, random_state=seed) if options.table == "adult" else clusters(seed)
            for epsilon, (way, share) in itertools.product(options.epsilons, asked):
                if (options.table, way, share, epsilon, seed) not in done:
                    row = {"table": options.table, **run(data, columns, way, share, epsilon, seed)}
                    held.append({key: str(value) for key, value in row.items()})
                    writer.writerow(held[-1])
                    file.flush()
                    print(held[-1], flush=True)
    print("| table | way | share | epsilon | accuracy | seeds |\n|---|---|---|---|---|---|")
    for key in sorted({(row["table"], row["way"], row["share"], float(row["epsilon"])) for row in held}):
        same = [row for row in held if (row["table"], row["way"], row["share"], float(row["epsilon"])) == key]
        found = [100 * float(row["accuracy"]) for row in same]
        spread = np.std(found, ddof=1) if len(found) > 1 else 0.0
        table, way, share, epsilon = key
        print(f"| {table} | {way} | {share} | {epsilon:g} | {np.mean(found):.2f} ± {spread:.2f} | {len(found)} |")


if __name__ == "__main__":
    main()
