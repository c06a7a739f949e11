"""Classifiers as ONNX in doubles, by skl2onnx and by this package: rows that get another class than in memory.

pip install skl2onnx==1.20.0   # in an environment of its own
python benchmarks/onnx_writers.py
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
from skl2onnx import to_onnx
from skl2onnx.common.data_types import DoubleTensorType
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

from ostrakon.export.onnx_graph import Graph
from ostrakon.export.onnx_models import classified

FEATURES, CLASSES = 12, 3
MODELS = [
    *(LogisticRegression(max_iter=500), RidgeClassifier(), LinearSVC(), SGDClassifier(random_state=0), SVC()),
    *(LinearDiscriminantAnalysis(), GaussianNB(), MLPClassifier(max_iter=50, random_state=0), DummyClassifier()),
    *(DecisionTreeClassifier(random_state=0), RandomForestClassifier(random_state=0)),
    *(ExtraTreesClassifier(random_state=0), GradientBoostingClassifier(n_estimators=30, random_state=0)),
    HistGradientBoostingClassifier(max_iter=30, random_state=0),
]


def by_skl2onnx(model: Any) -> bytes:
    """The classifier without its map from classes to probabilities, where it has one."""
    form: dict[str, Any] = {"initial_types": [("X", DoubleTensorType([None, FEATURES]))]}
    form["target_opset"] = {"": 18, "ai.onnx.ml": 3}
    options = None if isinstance(model, LinearSVC | RidgeClassifier) else {id(model): {"zipmap": False}}
    return to_onnx(model, **form, options=options).SerializeToString()


def by_ostrakon(model: Any) -> bytes:
    """The same by `ostrakon.export`."""
    graph = Graph()
    graph.input("X", "double", (FEATURES,))
    label, likely = classified(graph, model, "X")
    graph.output("label", label, "int64", ())
    graph.output("likely", likely, "double", (CLASSES,))
    return graph.serialized()


def main() -> None:
    rng = np.random.default_rng(0)
    # On a grid, so that features lie on thresholds; in single precision, as a representation gives them.
    X, T = (np.round(4 * rng.normal(size=(rows, FEATURES))).astype(np.float32) / 4 for rows in (3000, 4000))
    y = (X @ rng.normal(size=(FEATURES, CLASSES)) + rng.normal(size=(len(X), CLASSES))).argmax(axis=1)
    for model in MODELS:
        model.fit(X, y)
        said = [type(model).__name__]
        for write in (by_skl2onnx, by_ostrakon):
            try:
                session = onnxruntime.InferenceSession(write(model), providers=["CPUExecutionProvider"])
                label, *likely = session.run(None, {"X": T.astype(np.float64)})
            except Exception as error:  # either library raises its own kinds
                said.append(f"refused ({str(error).splitlines()[0][:60]})")
                continue
            other = int((label != model.predict(T)).sum())
            known = hasattr(model, "predict_proba")
            said.append(f"{other} rows, {np.abs(likely[0] - model.predict_proba(T)).max() if known else 0:.1e}")
        print("; ".join(said), flush=True)


if __name__ == "__main__":
    main()
