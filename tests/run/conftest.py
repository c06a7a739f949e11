"""A small task that trains in a second."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from ostrakon.run.inputs.private_data import Rows
from ostrakon.run.inputs.task import Task


@pytest.fixture(scope="session")
def task() -> Task:
    """Three blobs: 600 private rows, 120 public, 200 for testing."""
    X, y = make_blobs(920, centers=[[0, 0], [6, 0], [0, 6]], random_state=0)
    y = y.astype(np.int64)
    return Task(
        private=Rows(X=X[:600], y=y[:600]),
        classes=("left", "right", "top"),
        X_public=X[600:720],
        X_test=X[720:],
        y_test=y[720:],
        fingerprints={"private": "p", "public": "q"},
    )
