"""MNIST split over five owners at an epsilon of 0.2: accuracy of the study's student and of one run on all rows.

    python benchmarks/owners_mnist.py --data DIR [--owners 5] [--epsilon 0.2] [--seed 0]

DIR holds MNIST. 60,000 private images, each of one person, are split over the owners by a hash of their number;
test[:9000] is the public pool and test[9000:] the test set. A study needs tables: an image is one column with 64
principal components of its histograms of oriented gradients, fitted on the pool. Delta is 1e-6.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.decomposition import PCA

from ostrakon.data.datasets import mnist
from ostrakon.features import learn_representation
from owners import HEAD, by_owners, one_run, write_tables


class Features:
    """MNIST as `owners.write_tables` takes a data set: one column that holds the features of an image."""

    def __init__(self, data: Any, *, seed: int) -> None:
        hog = learn_representation("hog", data.X_public, random_state=seed)
        pool = np.asarray(hog.transform(data.X_public))
        components = PCA(64, random_state=seed).fit(pool)
        self.X, self.X_public, self.X_test = (
            self._frame(components.transform(np.asarray(hog.transform(images))))
            for images in (data.X, data.X_public, data.X_test)
        )
        self.y, self.y_test, self.classes = data.y, data.y_test, [str(label) for label in data.classes]

    @staticmethod
    def _frame(features: Any) -> pd.DataFrame:
        return pd.DataFrame({f"hog.{at}": column for at, column in enumerate(features.astype(np.float32).T)})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=None)
    parser.add_argument("--owners", type=int, default=5)
    parser.add_argument("--epsilon", type=float, default=0.2)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    data = Features(mnist(options.data), seed=options.seed)
    asked: dict[str, Any] = {"epsilon": options.epsilon, "seed": options.seed, "teacher": None}
    print(f"epsilon {options.epsilon:g}\n{HEAD}", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        tables = write_tables(data, folder, owners=options.owners, skewed=False)
        print(one_run(folder, **asked), flush=True)
        for exchange, colluders in (("trusted", None), ("secure-sum", 0), ("secure-sum", 2), ("files", None)):
            print(by_owners(folder, tables, exchange, colluders=colluders, **asked), flush=True)


if __name__ == "__main__":
    main()
