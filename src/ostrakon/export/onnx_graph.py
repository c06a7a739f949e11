"""An ONNX graph, written node by node: standard operators only, doubles unless a value says otherwise."""

from typing import Any

import numpy as np
import onnx
from numpy.typing import ArrayLike, NDArray
from onnx import TensorProto, helper, numpy_helper

OPSET = 18
"""Of the standard operators; trees are those of `ai.onnx.ml` 5."""

_ML = "ai.onnx.ml"
_TYPES = {"double": TensorProto.DOUBLE, "float": TensorProto.FLOAT, "int64": TensorProto.INT64}
_TYPES["string"] = TensorProto.STRING


class Graph:
    """Nodes in the order they are added. Values are named by number: equal calls give equal bytes."""

    def __init__(self) -> None:
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []
        self._names = 0

    def input(self, name: str, kind: str, shape: tuple[int, ...]) -> str:
        """Return an input of rows, each of `shape`. kind: double, float, int64 or string."""
        self._inputs.append(helper.make_tensor_value_info(name, _TYPES[kind], ["rows", *shape]))
        return name

    def output(self, name: str, value: str, kind: str, shape: tuple[int, ...]) -> None:
        """Give `value` out under a name of its own."""
        self._nodes.append(helper.make_node("Identity", [value], [name]))
        self._outputs.append(helper.make_tensor_value_info(name, _TYPES[kind], ["rows", *shape]))

    def constant(self, values: ArrayLike) -> str:
        """Return a constant of the type of `values`; whole numbers as int64."""
        array = np.asarray(values)
        if array.dtype.kind in "iub":
            array = array.astype(np.int64)
        name = self._fresh()
        typed = array.astype(object) if array.dtype.kind in "US" else np.ascontiguousarray(array)
        self._constants.append(numpy_helper.from_array(typed.reshape(array.shape), name))
        return name

    def add(self, kind: str, *inputs: str | ArrayLike, outputs: int = 1, **attributes: Any) -> str:
        """Return the first output of a new node. Inputs that are not names become constants."""
        names = [value if isinstance(value, str) else self.constant(value) for value in inputs]
        fresh = [self._fresh() for _ in range(outputs)]
        domain = _ML if kind in ("LabelEncoder", "TreeEnsemble") else ""
        self._nodes.append(helper.make_node(kind, names, fresh, domain=domain, **attributes))
        return fresh[0]

    def cast(self, value: str, kind: str) -> str:
        """Return `value` as double, float, int64 or string."""
        return self.add("Cast", value, to=_TYPES[kind])

    def rounded(self, value: str) -> str:
        """Return `value` rounded to single precision, as a double: what a representation gives, and learners read."""
        return self.cast(self.cast(value, "float"), "double")

    def column(self, value: str, number: int) -> str:
        """Return a column of a table, (rows,)."""
        return self.add("Gather", value, np.int64(number), axis=1)

    def inline(self, model: Any, value: str) -> str:
        """Return the one output of another model of one input, put in here."""
        inner = model.graph
        renamed = {inner.input[0].name: value, "": ""}
        for constant in inner.initializer:
            renamed[constant.name] = self._fresh()
            copy = onnx.TensorProto()
            copy.CopyFrom(constant)
            copy.name = renamed[constant.name]
            self._constants.append(copy)
        for node in inner.node:
            for name in node.output:
                renamed[name] = self._fresh()
            copy = onnx.NodeProto()
            copy.CopyFrom(node)
            del copy.input[:], copy.output[:]
            copy.input.extend(renamed[name] for name in node.input)
            copy.output.extend(renamed[name] for name in node.output)
            copy.ClearField("name")
            copy.ClearField("doc_string")
            self._nodes.append(copy)
        return renamed[inner.output[0].name]

    def serialized(self) -> bytes:
        """Return the checked model. Nothing in it tells when, where or by whom it was made."""
        graph = helper.make_graph(self._nodes, "student", self._inputs, self._outputs, self._constants)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(_ML, 5)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10, producer_name="")
        onnx.checker.check_model(model)
        return model.SerializeToString(deterministic=True)

    def _fresh(self) -> str:
        self._names += 1
        return f"v{self._names}"


def as_doubles(array: Any) -> NDArray[np.float64]:
    """Return an array of fitted numbers as doubles; exact for single ones."""
    return np.asarray(array, np.float64)


Answer = tuple[str, str]
"""(positions in `classes_`, int64 (rows,); probabilities, double (rows, classes))."""

AXIS = np.array([1])


def best(graph: Graph, scores: str) -> str:
    """Return the position of each row's largest score, the first of equal ones, (rows,)."""
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
    """Return the probabilities of scores that are logarithms of odds, (rows, classes)."""
    return graph.add("Softmax", scores, axis=1)


def zeros(graph: Graph, rows: str, outputs: int) -> str:
    """Zeros, (rows, outputs)."""
    first = graph.add("Slice", rows, np.array([0]), np.array([1]), AXIS)
    return graph.add("Mul", graph.add("Sub", first, first), np.zeros((1, outputs)))


def on_every_row(graph: Graph, rows: str, start: NDArray[np.float64]) -> str:
    """Return the numbers `start`, (1, outputs), for every row."""
    return graph.add("Add", zeros(graph, rows, start.shape[1]), start)
