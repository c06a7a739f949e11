"""Made-up quantities, many of them nearly linear in their features, beside linear gradient descent.

    python benchmarks/made_quantities.py [--kinds linear12 energy] [--epsilons 1] [--seeds 0 1]
        [--mechanisms auto "quantity-gnmax(linear=0.2, corrections=0.3)"]

R2 of `PATERegressor` by mechanism, and of one setting of DP gradient descent on the same features (see quantities.py),
both for one record replaced, on 2,000 test rows; a third as many public as private rows, at most 1,000. The shares of
linear features and of corrections were chosen on all of these kinds but the last four, which were looked at, too.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import make_friedman1, make_friedman2, make_friedman3

from ostrakon import PATERegressor
from quantities import DELTA, descent, measured

TESTS, MOST_PUBLIC = 2000, 1000
Made = tuple[pd.DataFrame, Any]


def linear(columns: int, noise: float) -> Callable[[int, np.random.Generator], Made]:
    """A linear function of normal columns."""

    def made(rows: int, rng: np.random.Generator) -> Made:
        X, weights = rng.normal(size=(rows, columns)), np.random.default_rng(columns).normal(size=columns)
        scores = X @ weights / np.linalg.norm(weights)
        return table(X), 50 + 10 * scores + 10 * noise * rng.normal(size=rows)

    return made


def mixed(rows: int, rng: np.random.Generator) -> Made:
    """Numbers and categories, one product of both."""
    X, kinds = rng.normal(size=(rows, 10)), rng.integers(0, 4, (rows, 3))
    y = 40 + 4 * X[:, 0] - 3 * X[:, 1] + 2 * np.abs(X[:, 2]) + 3 * np.array([0, 1, -1, 2])[kinds[:, 0]]
    y += 2 * X[:, 3] * (kinds[:, 1] == 1) + 4 * rng.normal(size=rows)
    return pd.concat([table(X), table(np.array(list("abcd"))[kinds], "kind")], axis=1), y


def curved(rows: int, rng: np.random.Generator) -> Made:
    """Waves, squares and a product."""
    X = rng.uniform(-1, 1, (rows, 8))
    y = 30 + 8 * np.sin(3 * X[:, 0]) + 6 * X[:, 1] ** 2 + 5 * X[:, 2] * X[:, 3] + 4 * X[:, 4]
    return table(X), y + 3 * rng.normal(size=rows)


def added(rows: int, rng: np.random.Generator) -> Made:
    """A sum of functions of skewed columns."""
    X = rng.lognormal(0, 0.6, (rows, 12))
    y = 20 + 6 * np.log(X[:, 0]) + 5 * np.sqrt(X[:, 1]) + 3 * (X[:, 2] > 1) + 2 * X[:, 3] - X[:, 4]
    return table(X), y + 3 * rng.normal(size=rows)


def friedman(make: Any, noise: float) -> Callable[[int, np.random.Generator], Made]:
    """A function of Friedman, from scikit-learn."""

    def made(rows: int, rng: np.random.Generator) -> Made:
        X, y = make(rows, noise=noise, random_state=int(rng.integers(2**31)))
        return table(X), y

    return made


def pressure(rows: int, rng: np.random.Generator) -> Made:
    """Blood pressure."""
    age, weight, salt = rng.integers(18, 90, rows), rng.normal(26, 4.5, rows), rng.normal(9, 3, rows)
    sport, drug = rng.integers(0, 8, rows), rng.choice(["none", "one", "two"], rows, p=[0.7, 0.2, 0.1])
    y = 100 + 0.42 * age + 0.7 * (weight - 26) + 0.6 * salt - sport - 8 * (drug != "none") + rng.normal(0, 9, rows)
    return pd.DataFrame({"age": age, "weight": weight, "salt": salt, "sport": sport, "drug": drug}), y


def years(rows: int, rng: np.random.Generator) -> Made:
    """Years in which houses were built."""
    walls, windows = rng.integers(0, 4, rows), rng.normal(size=rows)
    y = 1985 + 9 * np.array([-1, 0, 0.6, 1.4])[walls] + 8 * windows + rng.normal(0, 6, rows)
    columns = {"walls": np.array(list("bwcs"))[walls], "windows": 1.5 - 0.4 * windows + rng.normal(0, 0.1, rows)}
    return pd.DataFrame({**columns, "rooms": rng.integers(1, 8, rows), "distance": rng.exponential(5, rows)}), y


def energy(rows: int, rng: np.random.Generator) -> Made:
    """Energy that houses use, a product of several columns."""
    area, year = np.clip(rng.lognormal(4.8, 0.35, rows), 40, 500), rng.integers(1900, 2024, rows)
    X = {"area": area, "year": year, "persons": rng.integers(1, 7, rows), "insulation": rng.integers(0, 16, rows)}
    X |= {"cold": rng.normal(3000, 230, rows), "car": rng.random(rows) < 0.12, "pool": rng.random(rows) < 0.05}
    X |= {"heat": rng.choice(["gas", "oil", "pump"], rows), "windows": rng.integers(1, 4, rows)}
    y = area * (2024 - year) ** 0.35 * 7 * (1 - 0.02 * X["insulation"]) * X["cold"] / 3000
    y = y / (1 + 2 * (X["heat"] == "pump")) + 700 * X["persons"] + 2200 * X["car"] + 2500 * X["pool"]
    return pd.DataFrame(X).astype({"car": int, "pool": int}), y + rng.normal(0, 1200, rows)


def waits(rows: int, rng: np.random.Generator) -> Made:
    """Days of waiting."""
    urgency, ward = rng.integers(1, 5, rows), rng.choice(list("abcdef"), rows)
    age, month = rng.integers(1, 95, rows), rng.integers(1, 13, rows)
    y = 20 * urgency + 12 * (ward == "b") - 10 * (ward == "c") + 0.2 * age + 5 * np.sin(month)
    y = y + rng.gamma(2, 12, rows)
    return pd.DataFrame({"urgency": urgency, "ward": ward, "age": age, "month": month}), y


def table(rows: Any, name: str = "column") -> pd.DataFrame:
    """A table with numbered columns."""
    return pd.DataFrame(rows).add_prefix(f"{name} ")


KINDS: dict[str, tuple[Callable[[int, np.random.Generator], Made], tuple[int, ...], tuple[float, float]]] = {
    "linear5": (linear(5, 1.0), (1500,), (0, 100)),
    "linear12": (linear(12, 0.7), (1500, 6000), (0, 100)),
    "linear20": (linear(20, 0.5), (3000,), (0, 100)),
    "mixed": (mixed, (2000, 10_000), (0, 80)),
    "curved": (curved, (1500, 6000), (0, 60)),
    "added": (added, (1500, 6000), (0, 60)),
    "friedman1": (friedman(make_friedman1, 1.0), (1000, 4000, 12_000), (0, 30)),
    "friedman2": (friedman(make_friedman2, 100.0), (4000,), (0, 2000)),
    "friedman3": (friedman(make_friedman3, 0.1), (4000,), (0, 2)),
    "pressure": (pressure, (4000,), (80, 200)),
    "years": (years, (3000,), (1950, 2030)),
    "energy": (energy, (2000, 8000), (0, 15_000)),
    "waits": (waits, (3000,), (0, 200)),
}
"""Kinds, numbers of private rows, and public ranges."""


def main() -> None:
    """Print a line for each kind, number of private rows and epsilon: means over seeds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--mechanisms", nargs="+", default=["auto"])
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    for epsilon in given.epsilons:
        means = list[Any]()
        for name in given.kinds:
            make, sizes, ends = KINDS[name]
            for records in sizes:
                found = list[list[float]]()
                for seed in given.seeds:
                    public = records + min(records // 3, MOST_PUBLIC)
                    X, y = make(public + TESTS, np.random.default_rng([seed, records]))
                    parts = X[:records], y[:records], X[records:public], X[public:], y[public:]
                    options: Any = {"range": ends, "epsilon": epsilon, "delta": DELTA, "random_state": seed}
                    said = [descent(parts, ends, epsilon, seed)[0]]
                    for mechanism in given.mechanisms:
                        model = PATERegressor(mechanism=mechanism, allow_shared_rows=True, **options)
                        said.append(model.fit(parts[0], parts[1], X_public=parts[2]).predict(parts[3]))
                    found.append([measured(one, parts[4])[0] for one in said])
                means.append(np.mean(found, axis=0))
                numbers = ", ".join(f"{value:.3f}" for value in means[-1])
                print(f"{name}, {records}, {epsilon:g}, descent and {given.mechanisms}: {numbers}", flush=True)
        print(f"mean, {epsilon:g}: {', '.join(f'{value:.3f}' for value in np.mean(means, axis=0))}", flush=True)


if __name__ == "__main__":
    main()
