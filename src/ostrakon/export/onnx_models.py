"""Classifiers as ONNX nodes, in doubles: for equal features the same class as in memory.

skl2onnx (1.20) writes logistic regression, GaussianNB and MLPClassifier alike, but of doubles no ridge, LinearSVC, SVC,
tree or boosting, and its random forests answer 23 of 4,000 rows differently where features lie on thresholds.
"""

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.ensemble import VotingClassifier
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC

from ostrakon.export import onnx_features
from ostrakon.export.onnx_features import ImageRows, TableRows, represented, transformed
from ostrakon.export.onnx_formulas import (
    dense_network,
    gaussian_bayes,
    label_ridge,
    linear,
    machine,
    majority,
    margins,
    moments,
    of_directions,
    quantity,
    reached,
    squared_distances,
)
from ostrakon.export.onnx_graph import AXIS, OPSET, Answer, Graph, as_doubles, best, one_hot, softmax
from ostrakon.export.onnx_trees import forest, gradient_boosting, histogram_boosting
from ostrakon.students import process_student
from ostrakon.students.calibration import HALF, LEAST
from ostrakon.students.corrected_student import LEAST as LEAST_CORRECTED
from ostrakon.students.share_student import is_high
from ostrakon.validation import InvalidInput


def classified(graph: Graph, model: Any, rows: Any) -> Answer:
    """Return what a fitted classifier answers, of features or (students that make their own) of rows.

    Errors: `InvalidInput` for a classifier that has no counterpart here.
    """
    write = _writer(model)
    if write is None:
        raise InvalidInput(
            f"A released student must be one that ONNX can hold in doubles ({', '.join(_WRITERS)}), got "
            f"{type(model).__name__}."
        )
    if isinstance(rows, TableRows) and write not in _OF_ROWS:
        rows = rows.as_numbers()
    return write(graph, model, rows)


def names() -> tuple[str, ...]:
    """Return the classifiers that can leave."""
    return tuple(_WRITERS)


def has_writer(model: Any) -> bool:
    """Return whether a classifier, or what it is made of, can leave; of one not yet fitted, too.

    Errors: `InvalidInput` for a support vector machine with fitted probabilities, or that breaks ties.
    """
    if isinstance(model, SVC) and (model.probability is True or model.break_ties):
        raise InvalidInput("A released SVC must have probability=False and break_ties=False.")
    # A classifier that writes itself need not be one of scikit-learn's.
    parameters = model.get_params(deep=False) if hasattr(model, "get_params") else {}
    # Some have no `predict` before they are fitted.
    inner = [part for part in parameters.values() if hasattr(part, "predict") or isinstance(part, ClassifierMixin)]
    if isinstance(model, VotingClassifier):
        if model.voting != "soft":
            return False
        inner = [member for _, member in model.estimators if member != "drop"]
    if isinstance(model, Pipeline):
        *before, (_, last) = model.steps
        if not all(step in (None, "passthrough") or onnx_features.has_writer(step) for _, step in before):
            return False
        inner = [last]
    return _writer(model) is not None and all(has_writer(one) for one in inner)


def _writer(model: Any) -> Callable[[Graph, Any, Any], Answer] | None:
    if callable(getattr(model, "write_onnx", None)):
        return lambda graph, model, rows: model.write_onnx(graph, rows)  # a classifier from elsewhere writes itself
    known = type(model).__module__.startswith(("sklearn.", "ostrakon."))
    return _WRITERS.get(type(model).__name__) if known else None


def _pipeline(graph: Graph, model: Any, rows: Any) -> Answer:
    for _, step in model.steps[:-1]:
        rows = rows if step in (None, "passthrough") else transformed(graph, step, rows)
    return classified(graph, model.steps[-1][1], rows)


def _inner(graph: Graph, model: Any, rows: Any) -> Answer:
    """Return a student around one classifier, or one that knows a single class."""
    if model.estimator_ is None:
        return _only(graph, rows)
    label, likely = classified(graph, model.estimator_, rows)
    return label, likely


def _voting(graph: Graph, model: Any, rows: Any) -> Answer:
    """Write `VotingClassifier`: the mean of its members' probabilities. Errors: `InvalidInput` unless they vote
    softly.
    """
    if model.voting != "soft":
        raise InvalidInput(f"A released VotingClassifier must have voting='soft', got {model.voting!r}.")
    weights = np.ones(len(model.estimators_)) if model.weights is None else as_doubles(model._weights_not_none)
    said = [
        graph.add("Mul", classified(graph, member, rows)[1], float(weight))
        for member, weight in zip(model.estimators_, weights, strict=True)
    ]
    total = reduce(lambda sum_, one: graph.add("Add", sum_, one), said)
    likely = graph.add("Div", total, float(weights.sum()))
    return best(graph, likely), likely


def _moment_vote(graph: Graph, model: Any, rows: Any) -> Answer:
    likely = moments(graph, model.linear_, rows)[1]
    if model.other_ is not None:
        likely = graph.add("Div", graph.add("Add", likely, _other(graph, model, rows)), 2.0)
    return best(graph, likely), likely


def _other(graph: Graph, model: Any, rows: Any) -> str:
    """Return probabilities of all classes by the other student of a mean."""
    return graph.add("MatMul", classified(graph, model.other_, rows)[1], _selector(model.other_, model))


def _selector(part: Any, model: Any) -> np.ndarray:
    """Return a matrix that gives columns for the classes of a part their places among all classes."""
    return np.eye(len(model.classes_))[np.asarray(part.classes_, np.int64)]


def _share(graph: Graph, model: Any, rows: Any) -> Answer:
    share = graph.add("Squeeze", _likely(graph, model.classifier, rows), AXIS)
    return share, share


def _by_label(graph: Graph, model: Any, rows: Any) -> Answer:
    likely = graph.add("Concat", *(_likely(graph, student, rows) for student in model.students), axis=1)
    return reached(graph, likely, model.thresholds), likely


def _likely(graph: Graph, classifier: Any, rows: Any) -> str:
    """Return the probability of the second of two classes, (rows, 1)."""
    return graph.add("MatMul", classified(graph, classifier, rows)[1], is_high(classifier)[:, None])


def _calibrated(graph: Graph, model: Any, rows: Any) -> Answer:
    label, likely = classified(graph, model.student, rows)
    scores = graph.add("Div", graph.add("Log", graph.add("Max", likely, LEAST)), float(model.temperature))
    scores = graph.add("Add", scores, as_doubles(model.offsets)[None])
    likely = softmax(graph, scores)
    if model.ordered:
        reached = graph.add("GreaterOrEqual", graph.add("CumSum", likely, np.int64(1)), HALF)
        return best(graph, graph.cast(reached, "double")), likely
    if model.weights is None:
        return label, likely
    return best(graph, graph.add("Add", scores, np.log(as_doubles(model.weights))[None])), likely


def _corrected(graph: Graph, model: Any, rows: Any) -> Answer:
    # Classes that the student does not know have 0 here, and the least probability after this.
    likely = graph.add("MatMul", classified(graph, model.student, rows)[1], _selector(model.student, model))
    scores = graph.add("Log", graph.add("Max", likely, LEAST_CORRECTED))
    scores = graph.add("Add", scores, of_directions(graph, model.directions, model.coef_, rows))
    likely = softmax(graph, scores)
    return best(graph, likely), likely


def _only(graph: Graph, rows: Any) -> Answer:
    value: Any = rows
    if isinstance(rows, ImageRows):
        value = rows.value
    elif isinstance(rows, TableRows):
        value = rows.numbers or rows.words
    count = graph.add("Slice", graph.add("Shape", value), np.array([0]), AXIS)
    label = graph.add("Expand", np.int64(0), count)
    return label, graph.add("Unsqueeze", graph.add("Add", graph.cast(label, "double"), 1.0), AXIS)


def _counts(graph: Graph, model: Any, rows: Any) -> Answer:
    if model.estimator_ is None:
        return _inner(graph, model, rows)
    label, likely = _inner(graph, model, represented(graph, model.representation_, rows))
    if not hasattr(model.estimator_, "predict_proba"):
        likely = one_hot(graph, label, len(model.classes_))
    return label, likely


def _spreading(graph: Graph, model: Any, rows: Any) -> Answer:
    weight = _neighbour_weights(graph, model, represented(graph, model.representation_, rows))
    said = graph.add("MatMul", weight, as_doubles(model.beliefs_))
    likely = graph.add("Div", said, graph.add("ReduceSum", said, AXIS, keepdims=1))
    return best(graph, likely), likely


def _neighbour_weights(graph: Graph, model: Any, features: str) -> str:
    """Compute `ostrakon.students.label_spreading.neighbour_weights` of the model's pool: (rows, pool)."""
    distances = squared_distances(graph, features, model.pool_)
    near = min(model.neighbours, len(model.pool_))
    nearest = graph.add("TopK", distances, np.array([near]), outputs=2, axis=1, largest=0, sorted=1)
    last = graph.add("Slice", nearest, np.array([near - 1]), np.array([near]), AXIS)
    near_enough = graph.add("LessOrEqual", distances, graph.add("Mul", last, 1 + 1e-9))
    scale = graph.add("Max", last, 1e-24)
    weight = graph.add("Max", graph.add("Exp", graph.add("Neg", graph.add("Div", distances, scale))), 1e-6)
    return graph.add("Where", near_enough, weight, 0.0)


def _process(graph: Graph, model: Any, rows: Any) -> Answer:
    weight = _neighbour_weights(graph, model, rows)
    smooth = graph.add("MatMul", weight, as_doubles(model.beliefs_))
    smooth = graph.add("Div", smooth, graph.add("ReduceSum", weight, AXIS, keepdims=1))
    line = of_directions(graph, model.linear_.directions_, model.coef_, rows)
    values = graph.add("Max", graph.add("Add", line, smooth), process_student.LEAST)
    values = graph.add("Pow", values, process_student.POWER)
    values = graph.add("Div", values, graph.add("ReduceSum", values, AXIS, keepdims=1))
    likely, parts = graph.add("Add", values, moments(graph, model.linear_, rows)[1]), 2.0
    if model.other_ is not None:
        likely, parts = graph.add("Add", likely, _other(graph, model, rows)), 3.0
    likely = graph.add("Div", likely, parts)
    return best(graph, likely), likely


def _graph_student(graph: Graph, model: Any, rows: Any) -> Answer:
    if not model.models_:
        return _spreading(graph, model.graph_, rows)
    logs = []
    for member in model.models_:
        likely = classified(graph, member, rows)[1]
        logs.append(graph.add("Unsqueeze", graph.add("Log", graph.add("Max", likely, 1e-30)), np.array([0])))
    mean = graph.add("ReduceMean", graph.add("Concat", *logs, axis=0), np.array([0]), keepdims=0)
    return best(graph, mean), softmax(graph, mean)


def _kernel(graph: Graph, model: Any, rows: Any) -> Answer:
    scaler, vectors = (step for _, step in model.machine_.steps)
    features = transformed(graph, scaler, represented(graph, model.representation_, rows))
    scores = margins(graph, vectors, features)
    return best(graph, scores), softmax(graph, scores)


def _torch(graph: Graph, model: Any, rows: Any) -> Answer:
    from ostrakon.networks.export import as_onnx

    # Networks compute in single numbers, here as in memory.
    value = rows.value if isinstance(rows, ImageRows) else graph.cast(rows, "float")
    likely = graph.cast(graph.inline(as_onnx(model.exported_network(), model.shape_, opset=OPSET), value), "double")
    return best(graph, likely), likely


_LINEAR = ("LogisticRegression", "RidgeClassifier", "LinearSVC", "SGDClassifier", "LinearDiscriminantAnalysis")
_FORESTS = ("DecisionTreeClassifier", "ExtraTreeClassifier", "RandomForestClassifier", "ExtraTreesClassifier")
_NETWORKS = ("SupervisedNetwork", "SelfTrainingNetwork", "VirtualAdversarial", "SemiSupervisedGAN", "FixMatch")

_WRITERS: dict[str, Callable[[Graph, Any, Any], Answer]] = {
    **dict.fromkeys(_LINEAR, linear),
    "GaussianNB": gaussian_bayes,
    "DummyClassifier": majority,
    "MLPClassifier": dense_network,
    "SVC": machine,
    **dict.fromkeys(_FORESTS, forest),
    "GradientBoostingClassifier": gradient_boosting,
    **dict.fromkeys(("HistGradientBoostingClassifier", "Boosting"), histogram_boosting),
    "Pipeline": _pipeline,
    "SelfTrainingClassifier": _inner,
    "SklearnStudent": _inner,
    "SelfTrainingStudent": _inner,
    "VotingClassifier": _voting,
    "LabelRidge": label_ridge,
    "StudentByLabel": _by_label,
    "QuantityRidge": quantity,
    "ShareStudent": _share,
    "MomentLogistic": moments,
    "AdditiveLogistic": linear,
    "MomentVote": _moment_vote,
    "CalibratedStudent": _calibrated,
    "CorrectedStudent": _corrected,
    "NoisyCountStudent": _counts,
    "LabelSpreadingStudent": _spreading,
    "GaussianProcessStudent": _process,
    "GraphStudent": _graph_student,
    "KernelOnFeatures": _kernel,
    **dict.fromkeys((*_NETWORKS, "TorchClassifier"), _torch),
}

# Those that make features of rows themselves, or hand rows on.
_OF_ROWS = (_pipeline, _inner, _share, _by_label, _calibrated, _counts, _spreading, _graph_student, _kernel)
