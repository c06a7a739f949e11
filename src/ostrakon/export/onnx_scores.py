"""From scores to a class and its probabilities, as ONNX nodes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ostrakon.export.onnx_graph import Graph

Answer = tuple[str, str]
"""(positions in `classes_`, int64 (rows,); probabilities, double (rows, classes))."""

AXIS = np.array([1])


def best(graph: Graph, scores: str) -> str:
    """The position of each row's largest score, the first of equal ones, (rows,)."""
    return graph.add("ArgMax", scores, axis=1, keepdims=0)


def one_hot(graph: Graph, label: str, classes: int) -> str:
    """1 at each row's position and 0 elsewhere, (rows, classes)."""
    return graph.cast(graph.add("Equal", graph.add("Unsqueeze", label, AXIS), np.arange(classes)[None]), "double")


def logistic(graph: Graph, score: str) -> Answer:
    """Of one score (rows, 1) for the second of two classes, by the logistic function."""
    likely = graph.add("Div", 1.0, graph.add("Add", graph.add("Exp", graph.add("Neg", score)), 1.0))
    label = graph.cast(graph.add("Squeeze", graph.add("Greater", score, 0.0), AXIS), "int64")
    return label, graph.add("Concat", graph.add("Sub", 1.0, likely), likely, axis=1)


def softmax(graph: Graph, scores: str) -> str:
    """The probabilities of scores that are logarithms of odds, (rows, classes)."""
    return graph.add("Softmax", scores, axis=1)


def zeros(graph: Graph, rows: str, outputs: int) -> str:
    """Zeros, (rows, outputs)."""
    first = graph.add("Slice", rows, np.array([0]), np.array([1]), AXIS)
    return graph.add("Mul", graph.add("Sub", first, first), np.zeros((1, outputs)))


def on_every_row(graph: Graph, rows: str, start: NDArray[np.float64]) -> str:
    """The numbers `start`, (1, outputs), for every row."""
    return graph.add("Add", zeros(graph, rows, start.shape[1]), start)
