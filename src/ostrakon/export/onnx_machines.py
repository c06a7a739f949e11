"""Support vector machines as ONNX nodes, in doubles."""

from __future__ import annotations

from typing import Any

import numpy as np

from ostrakon.export.onnx_graph import Graph, as_doubles
from ostrakon.export.onnx_scores import AXIS, Answer, best, one_hot, softmax
from ostrakon.validation import InvalidInput


def squared_distances(graph: Graph, rows: str, points: Any) -> str:
    """(rows, points), as `ostrakon.students.label_spreading.squared_distances` takes them."""
    points = as_doubles(points)
    own = graph.add("ReduceSum", graph.add("Mul", rows, rows), AXIS, keepdims=1)
    size = graph.add("Add", own, np.square(points).sum(axis=1)[None])
    distances = graph.add("Sub", size, graph.add("Mul", graph.add("MatMul", rows, points.T), 2.0))
    close = graph.add("LessOrEqual", distances, graph.add("Mul", size, 1e-12))
    return graph.add("Where", close, 0.0, distances)


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


def machine(graph: Graph, model: Any, rows: str) -> Answer:
    """`SVC`: the class that wins most pairs. Errors: `InvalidInput` for `break_ties`, or a kernel of one's own."""
    if model.break_ties:
        raise InvalidInput("A released SVC must have break_ties=False.")
    classes = len(model.classes_)
    scores = _vectors(graph, model, rows)
    votes = _votes(graph, scores, classes)
    label = best(graph, votes)
    if classes > 2 and model.decision_function_shape != "ovr":
        return label, one_hot(graph, label, classes)
    return label, softmax(graph, _values(graph, scores, votes, classes))


def margins(graph: Graph, model: Any, rows: str) -> str:
    """A support vector machine's decision values for each class, (rows, classes), as "ovr" shapes them."""
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
