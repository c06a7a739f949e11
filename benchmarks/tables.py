"""Public tables that other benchmarks read, split into private, public and test rows.

DIR holds tables/*.csv (no header, the label last) and adult/. scikit-learn's own tables join them. Of each table 60% of
the rows are private, 20% public and unlabelled, 20% for testing, split anew for each seed; Adult keeps its private
file, and the other one is halved.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_digits, load_wine

from ostrakon.data.datasets import adult

RESULTS = Path(__file__).parent / "results"
OWN = {"breast_cancer": load_breast_cancer, "wine": load_wine, "digits": load_digits}


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
