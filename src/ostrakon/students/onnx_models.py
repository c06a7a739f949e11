"""Classifiers as ONNX nodes, in doubles: for equal features the same class as in memory.

Sums over trees are taken in the order of scikit-learn, so that forests agree even where two classes tie.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import numpy_helper

from ostrakon.students.onnx_features import ImageRows, TableRows, represented, transformed
from ostrakon.students.onnx_graph import OPSET, Graph, as_doubles
from ostrakon.validation import InvalidInput

Answer = tuple[str, str]
"""(positions in `classes_`, int64 (rows,); probabilities, double (rows, classes))."""

_AXIS = np.array([1])


def classified(graph: Graph, model: Any, rows: Any) -> Answer:
    """What a fitted classifier answers, of features or (students that make their own) of rows.

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
    """The classifiers that can leave."""
    return tuple(_WRITERS)


def has_writer(model: Any) -> bool:
    """Whether a classifier, or what it is made of, can leave; of one not yet fitted, too."""
    inner = [getattr(model, name) for name in ("estimator", "model") if getattr(model, name, None) is not None]
    steps = getattr(model, "steps", None)
    if steps is not None:
        inner = [steps[-1][1]]
    return _writer(model) is not None and all(has_writer(each) for each in inner if hasattr(each, "fit"))


def _writer(model: Any) -> Callable[[Graph, Any, Any], Answer] | None:
    if callable(getattr(model, "write_onnx", None)):
        return lambda graph, model, rows: model.write_onnx(graph, rows)  # a classifier from elsewhere writes itself
    known = type(model).__module__.startswith(("sklearn.", "ostrakon."))
    return _WRITERS.get(type(model).__name__) if known else None


# --- scores to answers


def _best(graph: Graph, scores: str) -> str:
    return graph.add("ArgMax", scores, axis=1, keepdims=0)


def _one_hot(graph: Graph, place: str, classes: int) -> str:
    return graph.cast(graph.add("Equal", graph.add("Unsqueeze", place, _AXIS), np.arange(classes)[None]), "double")


def _two(graph: Graph, score: str) -> Answer:
    """Of one score (rows, 1) for the second of two classes, by the logistic function."""
    likely = graph.add("Div", 1.0, graph.add("Add", graph.add("Exp", graph.add("Neg", score)), 1.0))
    place = graph.cast(graph.add("Squeeze", graph.add("Greater", score, 0.0), _AXIS), "int64")
    return place, graph.add("Concat", graph.add("Sub", 1.0, likely), likely, axis=1)


def _softmax(graph: Graph, scores: str) -> str:
    return graph.add("Softmax", scores, axis=1)


# --- scikit-learn's classifiers


def _linear(graph: Graph, model: Any, rows: str) -> Answer:
    weights = np.atleast_2d(as_doubles(model.coef_))
    scores = graph.add("Add", graph.add("MatMul", rows, weights.T), as_doubles(model.intercept_))
    if len(weights) == 1:
        place, likely = _two(graph, scores)
    else:
        place, likely = _best(graph, scores), _softmax(graph, scores)
    if not hasattr(model, "predict_proba"):
        return place, _one_hot(graph, place, len(model.classes_))
    return place, likely


def _bayes(graph: Graph, model: Any, rows: str) -> Answer:
    said = []
    for number, (mean, variance) in enumerate(zip(as_doubles(model.theta_), as_doubles(model.var_), strict=True)):
        away = graph.add("Sub", rows, mean)
        squares = graph.add("ReduceSum", graph.add("Div", graph.add("Mul", away, away), variance), _AXIS, keepdims=1)
        # Each in the precision of the model, as scikit-learn takes it, and their sum in doubles.
        prior, spread = np.log(model.class_prior_[number]), np.sum(np.log(2.0 * np.pi * model.var_[number]))
        constant = float(prior) - float(0.5 * spread)
        said.append(graph.add("Sub", np.float64(constant), graph.add("Mul", squares, 0.5)))
    scores = graph.add("Concat", *said, axis=1)
    return _best(graph, scores), _softmax(graph, scores)


def _network(graph: Graph, model: Any, rows: str) -> Answer:
    shapes = {"relu": "Relu", "tanh": "Tanh", "logistic": "Sigmoid", "identity": "Identity"}
    for number, (weights, shift) in enumerate(zip(model.coefs_, model.intercepts_, strict=True)):
        rows = graph.add("Add", graph.add("MatMul", rows, as_doubles(weights)), as_doubles(shift))
        if number < len(model.coefs_) - 1:
            rows = graph.add(shapes[model.activation], rows)
    if model.out_activation_ == "logistic":
        return _two(graph, rows)
    return _best(graph, rows), _softmax(graph, rows)


def squared_distances(graph: Graph, rows: str, points: Any) -> str:
    """(rows, points), as `ostrakon.students.label_spreading.squared_distances` takes them."""
    points = as_doubles(points)
    own = graph.add("ReduceSum", graph.add("Mul", rows, rows), _AXIS, keepdims=1)
    size = graph.add("Add", own, np.square(points).sum(axis=1)[None])
    made = graph.add("Sub", size, graph.add("Mul", graph.add("MatMul", rows, points.T), 2.0))
    close = graph.add("LessOrEqual", made, graph.add("Mul", size, 1e-12))
    return graph.add("Where", close, 0.0, made)


def _vectors(graph: Graph, model: Any, rows: str) -> str:
    """The scores of a support vector machine for each pair of classes, above 0 for the first, (rows, pairs)."""
    vectors = as_doubles(model.support_vectors_)
    gamma, shift = float(model._gamma), float(model.coef0)
    if model.kernel == "rbf":
        kernel = graph.add("Exp", graph.add("Mul", squared_distances(graph, rows, vectors), -gamma))
    elif model.kernel in ("linear", "poly", "sigmoid"):
        kernel = graph.add("MatMul", rows, vectors.T)
        if model.kernel != "linear":
            kernel = graph.add("Add", graph.add("Mul", kernel, gamma), shift)
            kernel = (
                graph.add("Tanh", kernel)
                if model.kernel == "sigmoid"
                else graph.add("Pow", kernel, float(model.degree))
            )
    else:
        raise InvalidInput(f"A released SVC must have the kernel rbf, linear, poly or sigmoid, got {model.kernel!r}.")
    classes = len(model.classes_)
    ends = np.cumsum(model._n_support)
    owner = np.searchsorted(ends, np.arange(len(vectors)), side="right")
    weights = []
    for first in range(classes):
        for second in range(first + 1, classes):
            pair = np.zeros(len(vectors))
            pair[owner == first] = model._dual_coef_[second - 1, owner == first]
            pair[owner == second] = model._dual_coef_[first, owner == second]
            weights.append(pair)
    return graph.add("Add", graph.add("MatMul", kernel, np.array(weights).T), as_doubles(model._intercept_))


def _votes(graph: Graph, scores: str, classes: int) -> str:
    """How many pairs each class wins, (rows, classes)."""
    pairs = [(first, second) for first in range(classes) for second in range(first + 1, classes)]
    wins, losses = np.zeros((len(pairs), classes)), np.zeros((len(pairs), classes))
    for number, (first, second) in enumerate(pairs):
        wins[number, first] = losses[number, second] = 1
    won = graph.cast(graph.add("Greater", scores, 0.0), "double")
    return graph.add("Add", graph.add("MatMul", won, wins), graph.add("MatMul", graph.add("Sub", 1.0, won), losses))


def _machine(graph: Graph, model: Any, rows: str) -> Answer:
    if model.break_ties:
        raise InvalidInput("A released SVC must have break_ties=False.")
    classes = len(model.classes_)
    place = _best(graph, _votes(graph, _vectors(graph, model, rows), classes))
    return place, _one_hot(graph, place, classes)


def margins(graph: Graph, model: Any, rows: str) -> str:
    """A support vector machine's decision values for each class, (rows, classes), as "ovr" shapes them."""
    classes = len(model.classes_)
    scores = _vectors(graph, model, rows)
    if classes == 2:
        return graph.add("Concat", scores, graph.add("Neg", scores), axis=1)
    pairs = [(first, second) for first in range(classes) for second in range(first + 1, classes)]
    signs = np.zeros((len(pairs), classes))
    for number, (first, second) in enumerate(pairs):
        signs[number, first], signs[number, second] = 1, -1
    sure = graph.add("MatMul", scores, signs)
    least = graph.add("Mul", graph.add("Add", graph.add("Abs", sure), 1.0), 3.0)
    return graph.add("Add", _votes(graph, scores, classes), graph.add("Div", sure, least))


# --- trees


def _leaves(graph: Graph, trees: list[dict[str, NDArray[Any]]], rows: str) -> str:
    """The leaf that each row reaches in every tree, as its number among the nodes of all trees, (rows, trees).

    trees: each feature, threshold (left where at most that), left, right (-1 in a leaf), numbered within the tree; and
    where missing numbers go left, if the trees know them.
    """
    names = ("nodes_featureids", "nodes_truenodeids", "nodes_falsenodeids", "nodes_trueleafs", "nodes_falseleafs")
    held: dict[str, list[int]] = {name: [] for name in (*names, "tree_roots", "leaf_targetids", "missing")}
    splits: list[float] = []
    leaf_numbers: list[float] = []
    start = 0

    def leaf(tree: int, node: int) -> int:
        held["leaf_targetids"].append(tree)
        leaf_numbers.append(float(start + node))
        return len(leaf_numbers) - 1

    for number, tree in enumerate(trees):
        inner = np.flatnonzero(tree["left"] >= 0)
        base = len(splits)
        place = {int(node): base + at for at, node in enumerate(inner)}
        held["tree_roots"].append(base)
        if not len(inner):
            # A tree of one leaf: both ways lead to it.
            only = leaf(number, 0)
            for name, value in zip(names, (0, only, only, 1, 1), strict=True):
                held[name].append(value)
            held["missing"].append(0)
            splits.append(0.0)
        for node in inner:
            held["missing"].append(int("missing" in tree and tree["missing"][node]))
            held["nodes_featureids"].append(int(tree["feature"][node]))
            splits.append(float(tree["threshold"][node]))
            for side, ids, leafs in (
                ("left", "nodes_truenodeids", "nodes_trueleafs"),
                ("right", "nodes_falsenodeids", "nodes_falseleafs"),
            ):
                child = int(tree[side][node])
                held[leafs].append(int(child not in place))
                held[ids].append(place[child] if child in place else leaf(number, child))
        start += len(tree["left"])
    held["nodes_missing_value_tracks_true"] = held.pop("missing")
    reached = graph.add(
        "TreeEnsemble",
        rows,
        n_targets=len(trees),
        aggregate_function=1,
        post_transform=0,
        nodes_splits=numpy_helper.from_array(np.array(splits, np.float64), "splits"),
        nodes_modes=numpy_helper.from_array(np.zeros(len(splits), np.uint8), "modes"),
        leaf_weights=numpy_helper.from_array(np.array(leaf_numbers, np.float64), "leaves"),
        **held,
    )
    return graph.cast(reached, "int64")


def _summed(graph: Graph, trees: list[Any], values: NDArray[np.float64], rows: str, start: str, each: int) -> str:
    """`start` plus every tree's value, one tree after the other. values: (all nodes, outputs). each: trees a step.

    Where a step has several trees, they give an output each.
    """
    reached = graph.add("Gather", values, _leaves(graph, trees, rows), axis=0)
    total = start
    for number in range(0, len(trees), each):
        step = [graph.add("Gather", reached, np.int64(number + k), axis=1) for k in range(each)]
        total = graph.add("Add", total, step[0] if each == 1 else graph.add("Concat", *step, axis=1))
    return total


def _described(tree: Any) -> dict[str, NDArray[Any]]:
    # Rows are single numbers to scikit-learn's trees, thresholds doubles.
    return {
        "feature": tree.feature,
        "threshold": tree.threshold,
        "left": np.asarray(tree.children_left),
        "right": np.asarray(tree.children_right),
    }


def _zeros(graph: Graph, rows: str, outputs: int) -> str:
    first = graph.add("Slice", rows, np.array([0]), np.array([1]), _AXIS)
    return graph.add("Mul", graph.add("Sub", first, first), np.zeros((1, outputs)))


def _forest(graph: Graph, model: Any, rows: str) -> Answer:
    trees = [model] if hasattr(model, "tree_") else list(model.estimators_)
    described = [_described(tree.tree_) for tree in trees]
    values = np.concatenate([as_doubles(tree.tree_.value)[:, 0] for tree in trees])
    rows = graph.rounded(rows)
    total = _summed(graph, described, values, rows, _zeros(graph, rows, values.shape[1]), 1)
    likely = graph.add("Div", total, float(len(trees)))
    return _best(graph, likely), likely


def _stages(graph: Graph, model: Any, rows: str) -> Answer:
    rows = graph.rounded(rows)
    trees = [tree.tree_ for stage in model.estimators_ for tree in stage]
    values = np.concatenate([model.learning_rate * as_doubles(tree.value)[:, 0] for tree in trees])
    start = as_doubles(model._raw_predict_init(np.zeros((1, model.n_features_in_), np.float32)))
    each = model.estimators_.shape[1]
    scores = _summed(graph, [_described(tree) for tree in trees], values, rows, _spread(graph, rows, start), each)
    if each > 1:
        return _best(graph, scores), _softmax(graph, scores)
    # At 0 this one says the second class.
    place = graph.cast(graph.add("Squeeze", graph.add("GreaterOrEqual", scores, 0.0), _AXIS), "int64")
    return place, _two(graph, scores)[1]


def _boosting(graph: Graph, model: Any, rows: str) -> Answer:
    if model.is_categorical_ is not None and np.any(model.is_categorical_):
        raise InvalidInput("A released HistGradientBoostingClassifier must have no categorical_features.")
    trees, values = [], []
    for predictor in (predictor for stage in model._predictors for predictor in stage):
        nodes = predictor.nodes
        leaf = nodes["is_leaf"].astype(bool)
        trees.append(
            {
                "feature": nodes["feature_idx"],
                "threshold": nodes["num_threshold"],
                "left": np.where(leaf, -1, nodes["left"].astype(np.int64)),
                "right": np.where(leaf, -1, nodes["right"].astype(np.int64)),
                "missing": nodes["missing_go_to_left"],
            }
        )
        values.append(as_doubles(nodes["value"])[:, None])
    start = _spread(graph, rows, as_doubles(model._baseline_prediction).reshape(1, -1))
    each = len(model._predictors[0])
    scores = _summed(graph, trees, np.concatenate(values), rows, start, each)
    return _two(graph, scores) if each == 1 else (_best(graph, scores), _softmax(graph, scores))


def _spread(graph: Graph, rows: str, start: NDArray[np.float64]) -> str:
    return graph.add("Add", _zeros(graph, rows, start.shape[1]), start)


def _majority(graph: Graph, model: Any, rows: str) -> Answer:
    if model.strategy not in ("prior", "most_frequent"):
        raise InvalidInput(f"A DummyClassifier that leaves must have the strategy 'prior', got {model.strategy!r}.")
    prior = as_doubles(np.asarray(model.class_prior_)[None])
    likely = prior if model.strategy == "prior" else (np.arange(prior.shape[1])[None] == prior.argmax()).astype(float)
    place = _best(graph, _spread(graph, rows, prior))
    return place, _spread(graph, rows, likely)


# --- parts and wholes


def _pipeline(graph: Graph, model: Any, rows: Any) -> Answer:
    for _, step in model.steps[:-1]:
        rows = rows if step in (None, "passthrough") else transformed(graph, step, rows)
    return classified(graph, model.steps[-1][1], rows)


def _inner(graph: Graph, model: Any, rows: Any) -> Answer:
    """A student around one classifier, or one that knows a single class."""
    if model.estimator_ is None:
        return _only(graph, rows)
    place, likely = classified(graph, model.estimator_, rows)
    return place, likely


def _only(graph: Graph, rows: Any) -> Answer:
    value: Any = rows if isinstance(rows, str) else rows.value if isinstance(rows, ImageRows) else None
    if value is None:
        value = rows.numbers or rows.words
    count = graph.add("Slice", graph.add("Shape", value), np.array([0]), _AXIS)
    place = graph.add("Expand", np.int64(0), count)
    return place, graph.add("Unsqueeze", graph.add("Add", graph.cast(place, "double"), 1.0), _AXIS)


def _counts(graph: Graph, model: Any, rows: Any) -> Answer:
    return _inner(graph, model, rows if model.estimator_ is None else represented(graph, model.representation_, rows))


def _spreading(graph: Graph, model: Any, rows: Any) -> Answer:
    features = represented(graph, model.representation_, rows)
    distances = squared_distances(graph, features, model.pool_)
    near = min(model.neighbours, len(model.pool_))
    nearest = graph.add("TopK", distances, np.array([near]), outputs=2, axis=1, largest=0, sorted=1)
    last = graph.add("Slice", nearest, np.array([near - 1]), np.array([near]), _AXIS)
    held = graph.add("LessOrEqual", distances, graph.add("Mul", last, 1 + 1e-9))
    scale = graph.add("Max", last, 1e-24)
    weight = graph.add("Max", graph.add("Exp", graph.add("Neg", graph.add("Div", distances, scale))), 1e-6)
    weight = graph.add("Where", held, weight, 0.0)
    said = graph.add("MatMul", weight, as_doubles(model.beliefs_))
    likely = graph.add("Div", said, graph.add("ReduceSum", said, _AXIS, keepdims=1))
    return _best(graph, likely), likely


def _graph_student(graph: Graph, model: Any, rows: Any) -> Answer:
    if not model.models_:
        return _spreading(graph, model.graph_, rows)
    logs = []
    for each in model.models_:
        likely = classified(graph, each, rows)[1]
        logs.append(graph.add("Unsqueeze", graph.add("Log", graph.add("Max", likely, 1e-30)), np.array([0])))
    held = graph.add("ReduceMean", graph.add("Concat", *logs, axis=0), np.array([0]), keepdims=0)
    return _best(graph, held), _softmax(graph, held)


def _kernel(graph: Graph, model: Any, rows: Any) -> Answer:
    scaler, machine = (step for _, step in model.machine_.steps)
    features = transformed(graph, scaler, represented(graph, model.representation_, rows))
    scores = margins(graph, machine, features)
    return _best(graph, scores), _softmax(graph, scores)


def _torch(graph: Graph, model: Any, rows: Any) -> Answer:
    from ostrakon.networks.export import as_onnx

    # Networks compute in single numbers, here as in memory.
    value = rows.value if isinstance(rows, ImageRows) else graph.cast(rows, "float")
    likely = graph.cast(graph.inline(as_onnx(model.exported_network(), model.shape_, opset=OPSET), value), "double")
    return _best(graph, likely), likely


_LINEAR = ("LogisticRegression", "RidgeClassifier", "LinearSVC", "SGDClassifier", "LinearDiscriminantAnalysis")
_FORESTS = ("DecisionTreeClassifier", "ExtraTreeClassifier", "RandomForestClassifier", "ExtraTreesClassifier")
_NETWORKS = ("SupervisedNetwork", "SelfTrainingNetwork", "VirtualAdversarial", "SemiSupervisedGAN", "FixMatch")

_WRITERS: dict[str, Callable[[Graph, Any, Any], Answer]] = {
    **dict.fromkeys(_LINEAR, _linear),
    "GaussianNB": _bayes,
    "DummyClassifier": _majority,
    "MLPClassifier": _network,
    "SVC": _machine,
    **dict.fromkeys(_FORESTS, _forest),
    "GradientBoostingClassifier": _stages,
    "HistGradientBoostingClassifier": _boosting,
    "Pipeline": _pipeline,
    "SelfTrainingClassifier": _inner,
    "SklearnStudent": _inner,
    "SelfTrainingStudent": _inner,
    "NoisyCountStudent": _counts,
    "LabelSpreadingStudent": _spreading,
    "GraphStudent": _graph_student,
    "KernelOnFeatures": _kernel,
    **dict.fromkeys((*_NETWORKS, "TorchClassifier"), _torch),
}

# Those that make features of rows themselves, or hand rows on.
_OF_ROWS = (_pipeline, _inner, _counts, _spreading, _graph_student, _kernel)
