"""Classifiers that are a formula of the features, as ONNX nodes, in doubles: linear ones, Bayes, networks, SVMs."""

from typing import Any

import numpy as np

from ostrakon.export.onnx_graph import AXIS, Answer, Graph, as_doubles, best, logistic, on_every_row, one_hot, softmax
from ostrakon.features.moments import MomentMap
from ostrakon.validation import InvalidInput


def linear(graph: Graph, model: Any, rows: str) -> Answer:
    """Return a weight for each feature and class; probabilities, or the softmax of its decision values."""
    weights = np.atleast_2d(as_doubles(model.coef_))
    scores = graph.add("Add", graph.add("MatMul", rows, weights.T), as_doubles(model.intercept_))
    if len(weights) == 1:
        label, likely = logistic(graph, scores)
        if not hasattr(model, "predict_proba"):
            likely = logistic(graph, graph.add("Mul", scores, 2.0))[1]
        elif getattr(model, "loss", None) == "modified_huber":
            second = _cut(graph, scores)
            likely = graph.add("Concat", graph.add("Sub", 1.0, second), second, axis=1)
        return label, likely
    return best(graph, scores), _of_scores(graph, model, scores)


def _of_scores(graph: Graph, model: Any, scores: str) -> str:
    """Return probabilities of more than two classes, as scikit-learn computes them: each alone, or all together."""
    if not hasattr(model, "predict_proba"):
        return softmax(graph, scores)
    if getattr(model, "loss", None) == "modified_huber":
        alone = _cut(graph, scores)
        total = graph.add("ReduceSum", alone, AXIS, keepdims=1)
        alone = graph.add("Where", graph.add("Equal", total, 0.0), 1.0, alone)
    elif getattr(model, "loss", None) == "log_loss" or getattr(model, "solver", None) == "liblinear":
        alone = graph.add("Sigmoid", scores)
    else:
        return softmax(graph, scores)
    return graph.add("Div", alone, graph.add("ReduceSum", alone, AXIS, keepdims=1))


def _cut(graph: Graph, scores: str) -> str:
    """Scores from -1 to 1 as probabilities."""
    cut = graph.add("Min", graph.add("Max", scores, -1.0), 1.0)
    return graph.add("Div", graph.add("Add", cut, 1.0), 2.0)


def moments(graph: Graph, model: Any, rows: str) -> Answer:
    """Write `MomentLogistic`: the softmax of a linear function of directions."""
    scores = of_directions(graph, model.directions_, model.coef_, rows)
    return best(graph, scores), softmax(graph, scores)


def of_directions(graph: Graph, known: MomentMap, coef: Any, rows: str) -> str:
    """Return a weight for each direction of a `MomentMap` and class: (rows, classes)."""
    away = graph.add("Sub", rows, as_doubles(known.centre)[None])
    if known.axes is not None:
        away = graph.add("MatMul", away, as_doubles(known.axes))
    squares = graph.add("ReduceSum", graph.add("Mul", away, away), AXIS, keepdims=1)
    cut = graph.add("Div", away, graph.add("Max", graph.add("Sqrt", squares), float(known.radius)))
    constant, weights, near = np.split(as_doubles(coef), [1, 1 + known.linear])
    scores = graph.add("MatMul", cut, weights * known.longest)
    scores = graph.add("Add", scores, constant * known.constant)
    if known.centres is not None:
        scores = graph.add("Add", scores, graph.add("MatMul", _nearness(graph, known, rows), near * known.nearest))
    return scores


def _nearness(graph: Graph, known: MomentMap, rows: str) -> str:
    """Return the nearness of rows to the centres of a map, (rows, centres)."""
    centres = as_doubles(known.centres)
    lengths = graph.add("ReduceSum", graph.add("Mul", rows, rows), AXIS, keepdims=1)
    squares = graph.add("Add", lengths, np.square(centres).sum(axis=1)[None])
    squares = graph.add("Sub", squares, graph.add("MatMul", rows, 2 * np.ascontiguousarray(centres.T)))
    squares = graph.add("Max", squares, 0.0)
    closer = graph.add("Sub", graph.add("ReduceMin", squares, AXIS, keepdims=1), squares)
    bells = graph.add("Exp", graph.add("Div", closer, 2 * known.width))
    together = graph.add("ReduceSum", graph.add("Mul", bells, bells), AXIS, keepdims=1)
    return graph.add("Div", bells, graph.add("Sqrt", together))


def gaussian_bayes(graph: Graph, model: Any, rows: str) -> Answer:
    """Write `GaussianNB`."""
    said = []
    for number, (mean, variance) in enumerate(zip(as_doubles(model.theta_), as_doubles(model.var_), strict=True)):
        away = graph.add("Sub", rows, mean)
        squares = graph.add("ReduceSum", graph.add("Div", graph.add("Mul", away, away), variance), AXIS, keepdims=1)
        # Each in the precision of the model, as scikit-learn takes it, and their sum in doubles.
        prior, spread = np.log(model.class_prior_[number]), np.sum(np.log(2.0 * np.pi * model.var_[number]))
        constant = float(prior) - float(0.5 * spread)
        said.append(graph.add("Sub", np.float64(constant), graph.add("Mul", squares, 0.5)))
    scores = graph.add("Concat", *said, axis=1)
    return best(graph, scores), softmax(graph, scores)


def dense_network(graph: Graph, model: Any, rows: str) -> Answer:
    """Write `MLPClassifier`."""
    shapes = {"relu": "Relu", "tanh": "Tanh", "logistic": "Sigmoid", "identity": "Identity"}
    for number, (weights, shift) in enumerate(zip(model.coefs_, model.intercepts_, strict=True)):
        rows = graph.add("Add", graph.add("MatMul", rows, as_doubles(weights)), as_doubles(shift))
        if number < len(model.coefs_) - 1:
            rows = graph.add(shapes[model.activation], rows)
    if model.out_activation_ == "logistic":
        return logistic(graph, rows)
    return best(graph, rows), softmax(graph, rows)


def majority(graph: Graph, model: Any, rows: str) -> Answer:
    """Write `DummyClassifier`: the same answer for every row. Errors: `InvalidInput` for a strategy that draws."""
    if model.strategy not in ("prior", "most_frequent"):
        raise InvalidInput(f"A DummyClassifier that leaves must have the strategy 'prior', got {model.strategy!r}.")
    prior = as_doubles(np.asarray(model.class_prior_)[None])
    likely = prior if model.strategy == "prior" else (np.arange(prior.shape[1])[None] == prior.argmax()).astype(float)
    label = best(graph, on_every_row(graph, rows, prior))
    return label, on_every_row(graph, rows, likely)


def quantity(graph: Graph, model: Any, rows: str) -> Answer:
    """Write `QuantityRidge`: a weight for each feature of a `SumMap`, as a share of the range."""
    share = graph.add("Div", graph.add("Add", scores(graph, model, model.coef_[:, None], rows), 1.0), 2.0)
    share = graph.add("Squeeze", graph.add("Min", graph.add("Max", share, 0.0), 1.0), AXIS)
    return share, share


def label_ridge(graph: Graph, model: Any, rows: str) -> Answer:
    """Write `LabelRidge`: 0 or 1 for every label, and its probability."""
    scaled = graph.add("Mul", scores(graph, model, model.coef_, rows), as_doubles(model.slopes_)[None])
    likely = graph.add("Sigmoid", graph.add("Add", scaled, as_doubles(model.shifts_)[None]))
    return reached(graph, likely, model.thresholds_), likely


def reached(graph: Graph, likely: str, thresholds: Any) -> str:
    """0 or 1 for every label, by the threshold of its probability."""
    return graph.add("Cast", graph.add("GreaterOrEqual", likely, as_doubles(thresholds)[None]), to=7)


def scores(graph: Graph, model: Any, coefficients: Any, rows: str) -> str:
    """Linear models of the features of a `SumMap`, (features, targets)."""
    directions = model.directions_
    weights = directions.weights_by_part(coefficients)
    away = graph.add("Sub", rows, as_doubles(directions.centre)[None])
    squares = graph.add("ReduceSum", graph.add("Mul", away, away), AXIS, keepdims=1)
    cut = graph.add("Div", away, graph.add("Max", graph.add("Sqrt", squares), float(directions.radius)))
    total = graph.add("Add", graph.add("MatMul", cut, weights.linear), as_doubles(weights.constant)[None])
    if len(directions.ranked):
        cells = graph.add("Unsqueeze", graph.add("Gather", rows, directions.ranked, axis=1), np.array([2]))
        low, width = directions.intervals
        passed = graph.add("Div", graph.add("Sub", cells, low.T[None]), width.T[None])
        passed = graph.add("Min", graph.add("Max", passed, 0.0), 1.0)
        rank = graph.add("ReduceMean", passed, np.array([2]), keepdims=0)
        for number, of_wave in enumerate(weights.ranks, 1):
            wave = graph.add("Cos", graph.add("Mul", rank, float(np.pi * number)))
            total = graph.add("Add", total, graph.add("MatMul", wave, of_wave))
    turned = graph.add("MatMul", away, as_doubles(directions.waves))
    for shape, of_waves in (("Cos", weights.cosines), ("Sin", weights.sines)):
        total = graph.add("Add", total, graph.add("MatMul", graph.add(shape, turned), of_waves))
    return total


def squared_distances(graph: Graph, rows: str, points: Any) -> str:
    """Return (rows, points), as `ostrakon.students.label_spreading.squared_distances` takes them."""
    points = as_doubles(points)
    own = graph.add("ReduceSum", graph.add("Mul", rows, rows), AXIS, keepdims=1)
    size = graph.add("Add", own, np.square(points).sum(axis=1)[None])
    distances = graph.add("Sub", size, graph.add("Mul", graph.add("MatMul", rows, points.T), 2.0))
    close = graph.add("LessOrEqual", distances, graph.add("Mul", size, 1e-12))
    return graph.add("Where", close, 0.0, distances)


def _vectors(graph: Graph, model: Any, rows: str) -> str:
    """Return the scores of a support vector machine for each pair of classes, above 0 for the first, (rows, pairs)."""
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
    """Return how many pairs each class wins, (rows, classes)."""
    pairs = [(first, second) for first in range(classes) for second in range(first + 1, classes)]
    wins, losses = np.zeros((len(pairs), classes)), np.zeros((len(pairs), classes))
    for number, (first, second) in enumerate(pairs):
        wins[number, first] = losses[number, second] = 1
    won = graph.cast(graph.add("Greater", scores, 0.0), "double")
    return graph.add("Add", graph.add("MatMul", won, wins), graph.add("MatMul", graph.add("Sub", 1.0, won), losses))


def machine(graph: Graph, model: Any, rows: str) -> Answer:
    """Write `SVC`: the class that wins most pairs. Errors: `InvalidInput` for a kernel of one's own."""
    classes = len(model.classes_)
    scores = _vectors(graph, model, rows)
    votes = _votes(graph, scores, classes)
    label = best(graph, votes)
    if classes > 2 and model.decision_function_shape != "ovr":
        return label, one_hot(graph, label, classes)
    return label, softmax(graph, _values(graph, scores, votes, classes))


def margins(graph: Graph, model: Any, rows: str) -> str:
    """Return a support vector machine's decision values for each class, (rows, classes), as "ovr" shapes them."""
    scores, classes = _vectors(graph, model, rows), len(model.classes_)
    return _values(graph, scores, _votes(graph, scores, classes), classes)


def _values(graph: Graph, scores: str, votes: str, classes: int) -> str:
    if classes == 2:
        return graph.add("Concat", scores, graph.add("Neg", scores), axis=1)
    pairs = [(first, second) for first in range(classes) for second in range(first + 1, classes)]
    signs = np.zeros((len(pairs), classes))
    for number, (first, second) in enumerate(pairs):
        signs[number, first], signs[number, second] = 1, -1
    sure = graph.add("MatMul", scores, signs)
    least = graph.add("Mul", graph.add("Add", graph.add("Abs", sure), 1.0), 3.0)
    return graph.add("Add", votes, graph.add("Div", sure, least))
