"""No public table: ours beside the default with public rows and DP-EBM, at one epsilon for everything.

    python benchmarks/no_public_table.py --adult DIR --tables DIR [--epsilons 1] [--splits 5] [--ways ours ...]

--adult: holds adult.data.gz and adult.test.gz. adult.data is private; adult.test is split at random into a public pool
and a test set. --tables: holds small tables without header, label last, which are split 70 to 30. Ways: "ours", columns
described and no public row; "public", the default of `PATEClassifier` on the public pool (Adult alone); "dp-ebm" and
"dp-ebm .05", interpret 0.7.8 (`pip install interpret-core==0.7.8`) by default and with a learning rate of .05. Adult's
columns are described from the archive's adult.names and round numbers. Those of the small tables are described from
their own values, rounded outward, as somebody who knows the field would; DP-EBM gets the same ranges. Delta is 1e-5.
Neighbours: ours, one record replaced; of DP-EBM they are not established. Missing values and more than two classes are
beyond DP-EBM. Rows are printed and written to results/no_public_table.csv; noise is seeded so that it can be repeated.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from sklearn.model_selection import train_test_split

import ostrakon
from ostrakon.data.datasets import adult

RESULTS = Path(__file__).parent / "results" / "no_public_table.csv"
WAYS = ("ours", "public", "dp-ebm", "dp-ebm .05")
FIELDS = ("table", "way", "epsilon", "split", "accuracy", "balanced", "auc", "seconds")
SMALL = ("breast-cancer", "german", "haberman", "ionosphere", "oil-spill", "pima-indians-diabetes", "ecoli")


def words(text: str) -> dict[str, list[str]]:
    return {"categories": text.split()}


ADULT = {
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


@dataclass(frozen=True, eq=False)
class Split:
    """One split of a table. columns: their description."""

    name: str
    number: int
    X: pd.DataFrame
    y: Any
    X_test: pd.DataFrame
    y_test: Any
    columns: dict[str, Any]
    X_public: Any = None


def splits(options: argparse.Namespace) -> Iterator[Split]:
    if options.adult is not None:
        for number in range(min(options.splits, 3)):
            data = adult(options.adult, random_state=number)
            yield Split("adult", number, data.X, data.y, data.X_test, data.y_test, ADULT, data.X_public)
    for name in SMALL if options.tables is not None else ():
        frame = pd.read_csv(
            Path(options.tables) / f"{name}.csv", header=None, na_values="?", quotechar="'", skipinitialspace=True
        )
        X, y = frame.iloc[:, :-1].rename(columns=str), frame.iloc[:, -1].astype("category").cat.codes.astype(int)
        often = y.isin(np.flatnonzero(np.bincount(y) >= 20))
        X, y = X[often].reset_index(drop=True), y[often].astype("category").cat.codes.to_numpy(int)
        columns = {column: described(X[column]) for column in X}
        for column, told in columns.items():
            kind = object if "categories" in told else float
            X[column] = X[column].astype(kind).where(X[column].notna(), None if kind is object else np.nan)
        for number in range(options.splits):
            parts = train_test_split(X, y, test_size=0.3, random_state=number, stratify=y)
            X_train, X_test = (part.reset_index(drop=True) for part in parts[:2])
            yield Split(name, number, X_train, parts[2], X_test, parts[3], columns)


def described(column: pd.Series) -> dict[str, Any]:
    """Categories, or a range with ends rounded outward to one digit of its width."""
    if not pd.api.types.is_numeric_dtype(column):
        return {"categories": sorted(map(str, column.dropna().unique()))}
    low, high, known = float(column.min()), float(column.max()), column.dropna()
    step = 10.0 ** np.floor(np.log10(high - low)) if high > low else 1.0
    low, high = float(np.floor(low / step) * step), float(np.ceil(high / step) * step)
    return {"low": low, "high": high if high > low else low + step, "whole": bool((known == known.round()).all())}


def ours(split: Split, epsilon: float, X_public: Any) -> Any:
    noise = np.random.default_rng([split.number, round(100 * epsilon)])
    options: Any = {"epsilon": epsilon, "delta": 1e-5, "random_state": split.number, "noise": noise}
    return ostrakon.PATEClassifier(classes="from-private", **options).fit(split.X, split.y, X_public=X_public)


def boosted(split: Split, epsilon: float, rate: dict[str, float]) -> Any:
    from interpret.privacy import DPExplainableBoostingClassifier

    told = list(split.columns.values())
    ends = [(one.get("low", one.get("edges", [0])[0]), one.get("high", one.get("edges", [0])[-1])) for one in told]
    bounds = {at: pair for at, (one, pair) in enumerate(zip(told, ends, strict=True)) if "categories" not in one}
    types = ["nominal" if "categories" in one else "continuous" for one in told]
    options: Any = {"feature_types": types, "privacy_bounds": bounds, "random_state": split.number, **rate}
    return DPExplainableBoostingClassifier(epsilon=epsilon, delta=1e-5, n_jobs=1, **options).fit(
        whole(split.X), split.y
    )


def whole(X: pd.DataFrame) -> pd.DataFrame:
    """Words for missing words."""
    words = [name for name in X if not pd.api.types.is_numeric_dtype(X[name])]
    return X.assign(**{name: X[name].astype(object).where(X[name].notna(), "missing") for name in words})


def run(split: Split, way: str, epsilon: float) -> dict[str, Any]:
    started = time.perf_counter()
    if way in ("ours", "public"):
        model = ours(split, epsilon, split.X_public if way == "public" else ostrakon.Domain.of(split.columns))
        X_test = split.X_test
    else:
        model = boosted(split, epsilon, {"learning_rate": 0.05} if way.endswith(".05") else {})
        X_test = whole(split.X_test)
    seconds, likely = time.perf_counter() - started, model.predict_proba(X_test)
    said = likely.argmax(axis=1)
    score = likely[:, 1] if likely.shape[1] == 2 else likely
    return {
        "accuracy": 100 * float(np.mean(said == split.y_test)),
        "balanced": 100 * float(balanced_accuracy_score(split.y_test, said)),
        "auc": 100 * float(roc_auc_score(split.y_test, score, multi_class="ovr")),
        "seconds": seconds,
    }


def possible(split: Split, way: str) -> bool:
    if way == "public":
        return split.X_public is not None
    if way == "ours":
        return True
    numbers = [name for name in split.X if pd.api.types.is_numeric_dtype(split.X[name])]
    return len(np.unique(split.y)) == 2 and not split.X[numbers].isna().to_numpy().any()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--adult")
    parser.add_argument("--tables")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--epsilons", type=float, nargs="*", default=[1.0])
    parser.add_argument("--ways", nargs="*", choices=WAYS, default=WAYS)
    options = parser.parse_args()
    peer = importlib.util.find_spec("interpret") is not None
    ways = [way for way in options.ways if peer or not way.startswith("dp-ebm")]
    found: list[dict[str, Any]] = []
    with RESULTS.open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        for split, epsilon, way in itertools.product(splits(options), options.epsilons, ways):
            if possible(split, way):
                key = {"table": split.name, "way": way, "epsilon": epsilon, "split": split.number}
                found.append({**key, **run(split, way, epsilon)})
                writer.writerow({name: f"{x:.4g}" if isinstance(x, float) else x for name, x in found[-1].items()})
                file.flush()
    table = pd.DataFrame(found).groupby(["table", "epsilon", "way"], sort=False).mean(numeric_only=True)
    print(table.drop(columns="split").round(1).to_string())


if __name__ == "__main__":
    main()
