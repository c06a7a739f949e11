"""What a student sees of a row, as ONNX nodes: each representation computed as in memory, to the last digit or nearly.

A representation's features are rounded to single precision, as they are in memory; what leads to them is in doubles.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ostrakon.export.onnx_graph import OPSET, Graph, as_doubles
from ostrakon.export.onnx_images import patch_features, upright_gradients
from ostrakon.features.representation import Representation
from ostrakon.validation import InvalidInput


@dataclass(frozen=True)
class TableRows:
    """The inputs of a table: numbers, double (rows, their columns), and words, string (rows, their columns)."""

    numbers: str | None
    number_names: tuple[str, ...]
    words: str | None
    word_names: tuple[str, ...]

    def as_numbers(self) -> str:
        """Return all columns as numbers, for learners of plain numbers. Errors: `InvalidInput` where some are words."""
        if self.numbers is None or self.words is not None:
            raise InvalidInput(f"A released student must learn from features: {', '.join(self.word_names)} are words.")
        return self.numbers

    def only(self, graph: Graph, columns: Sequence[str]) -> "TableRows":
        """Return some of the columns, in the order of `columns`."""
        numbers, number_names = _select_columns(graph, self.numbers, self.number_names, columns)
        words, word_names = _select_columns(graph, self.words, self.word_names, columns)
        return TableRows(numbers=numbers, number_names=number_names, words=words, word_names=word_names)


def _select_columns(
    graph: Graph, value: str | None, names: tuple[str, ...], columns: Sequence[str]
) -> tuple[str | None, tuple[str, ...]]:
    numbers = {name: number for number, name in enumerate(names)}
    at = [numbers[name] for name in columns if name in numbers]
    if value is None or not at:
        return None, ()
    return graph.add("Gather", value, np.array(at), axis=1), tuple(names[number] for number in at)


@dataclass(frozen=True)
class ImageRows:
    """Images as input: float (rows, channels, height, width). last: whether the public ones have channels last."""

    value: str
    channels: int
    last: bool

    def grey(self, graph: Graph) -> str:
        """Their mean over colours, float (rows, height, width)."""
        parts = [graph.add("Gather", self.value, np.int64(number), axis=1) for number in range(min(3, self.channels))]
        total = parts[0]
        for part in parts[1:]:
            total = graph.add("Add", total, part)
        return total if len(parts) == 1 else graph.add("Div", total, np.float32(len(parts)))


def represented(graph: Graph, representation: Any, rows: Any) -> str:
    """Return the features that a `Representation` gives, double (rows, features)."""
    return graph.rounded(transformed(graph, _within(representation), rows))


def _within(representation: Any) -> Any:
    # A representation of a representation is the inner one.
    while isinstance(representation, Representation):
        representation = representation.transformer
    return representation


def transformed(graph: Graph, transformer: Any, rows: Any) -> str:
    """Return what a fitted transformer makes of rows: a value of doubles, or `TableRows` where it reads a table.

    Errors: `InvalidInput` for a transformer that has no counterpart here.
    """
    write = _WRITERS.get(type(transformer).__name__)
    if write is None or not type(transformer).__module__.startswith(("sklearn.", "ostrakon.")):
        raise InvalidInput(
            f"A released student must see rows through what ONNX can hold ({', '.join(_WRITERS)}), got "
            f"{type(transformer).__name__}."
        )
    return write(graph, transformer, rows)


def fills_gaps(representation: Any) -> bool:
    """Return whether a representation takes a missing number for its public median."""
    if representation is None:
        return False
    transformer = _within(representation)
    steps = [step for _, step in getattr(transformer, "steps", [])] or [transformer]
    return type(steps[0]).__name__ in ("TableFeatures", "EmbeddedFeatures", "CellFeatures")


def has_writer(transformer: Any) -> bool:
    """Return whether a representation, or an unfitted transformer with all its parts, can leave."""
    transformer = _within(transformer)
    parts = [part for _, part in getattr(transformer, "steps", getattr(transformer, "transformer_list", []))]
    known = type(transformer).__name__ in _WRITERS and type(transformer).__module__.startswith(
        ("sklearn.", "ostrakon.")
    )
    return known and all(has_writer(part) for part in parts if not isinstance(part, str))


def _pipeline(graph: Graph, pipeline: Any, rows: Any) -> Any:
    for _, step in pipeline.steps:
        rows = rows if step in (None, "passthrough") else transformed(graph, step, rows)
    return rows


def _union(graph: Graph, union: Any, rows: Any) -> str:
    if union.transformer_weights:
        raise InvalidInput("A released student's FeatureUnion must have no transformer_weights.")
    return graph.add("Concat", *(transformed(graph, part, rows) for _, part in union.transformer_list), axis=1)


def _flat(graph: Graph, transformer: Any, rows: Any) -> str:
    if isinstance(rows, TableRows):
        return rows.as_numbers()
    if isinstance(rows, ImageRows):
        rows = graph.add("Transpose", rows.value, perm=[0, 2, 3, 1]) if rows.last else rows.value
    return graph.add("Flatten", graph.cast(rows, "double"), axis=1)


def _scaled(graph: Graph, scaler: Any, rows: str) -> str:
    if scaler.with_mean and scaler.mean_ is not None:
        rows = graph.add("Sub", rows, as_doubles(scaler.mean_))
    return rows if scaler.scale_ is None else graph.add("Div", rows, as_doubles(scaler.scale_))


def _components(graph: Graph, pca: Any, rows: str) -> str:
    # In the order of scikit-learn: the mean is taken off after the product.
    components = as_doubles(pca.components_)
    rotated = graph.add("MatMul", rows, components.T)
    rotated = graph.add("Sub", rotated, as_doubles(pca.mean_).reshape(1, -1) @ components.T)
    if not pca.whiten:
        return rotated
    scale = np.sqrt(as_doubles(pca.explained_variance_))
    return graph.add("Div", rotated, np.maximum(scale, np.finfo(np.float64).eps))


def _normalized(graph: Graph, normalizer: Any, rows: str) -> str:
    if normalizer.norm != "l2":
        raise InvalidInput(f"A released student's Normalizer must have the norm l2, got {normalizer.norm!r}.")
    length = graph.add("Sqrt", graph.add("ReduceSum", graph.add("Mul", rows, rows), np.array([1]), keepdims=1))
    nothing = graph.add("Equal", length, 0.0)
    return graph.add("Div", rows, graph.add("Where", nothing, 1.0, length))


def _filled(graph: Graph, imputer: Any, rows: str) -> str:
    return graph.add("Where", graph.add("IsNaN", rows), as_doubles(imputer.statistics_), rows)


def _table(graph: Graph, table: Any, rows: TableRows | str) -> str:
    """See `ostrakon.features.tables.TableFeatures`: categories, then scaled numbers, then their public ranks."""
    if isinstance(rows, str):  # an array, whose columns are numbers without names
        rows = TableRows(numbers=rows, number_names=(), words=None, word_names=())
    parts = {name: part for name, part, _ in table.transformer_.transformers_}
    features: list[str] = []
    if rows.words is not None:
        features += _one_hot(graph, parts["onehotencoder"], rows.words)
    if rows.numbers is not None:
        scaled, ranks = parts["pipeline-1"], parts["pipeline-2"]
        scale = graph.rounded(_pipeline(graph, scaled, rows.numbers))
        features.append(graph.add("Max", graph.add("Min", scale, 8.0), -8.0))
        filled = _filled(graph, ranks.steps[0][1], rows.numbers)
        rank = graph.cast(_ranks(graph, ranks.steps[1][1], filled), "float")
        # In single numbers, as in memory.
        rank = graph.add("Sub", graph.add("Mul", rank, np.float32(2)), np.float32(1))
        features.append(graph.cast(rank, "double"))
    return graph.add("Concat", *features, axis=1)


def _embedded(graph: Graph, embedded: Any, rows: TableRows | str) -> str:
    """See `ostrakon.features.embedded.EmbeddedFeatures`: embedding by embedding, then the other columns."""
    if isinstance(rows, str):
        rows = TableRows(numbers=rows, number_names=tuple(embedded.columns_), words=None, word_names=())
    features = [transformed(graph, part, rows.only(graph, columns).as_numbers()) for columns, part in embedded.parts_]
    if embedded.table_ is not None:
        columns, part = embedded.table_
        features.append(transformed(graph, part, rows.only(graph, columns)))
    return graph.add("Concat", *features, axis=1)


def _cells(graph: Graph, features: Any, rows: TableRows) -> str:
    """See `ostrakon.features.cells.CellFeatures`: the one cell of each described column."""
    columns: list[str] = []
    for name, column in features.domain.columns.items():
        only = rows.only(graph, [name])
        if column.categories is not None:
            places = {word: code for code, word in enumerate(column.categories)}
            cell = graph.add(
                "LabelEncoder",
                graph.column(only.words or "", 0),
                keys_strings=list(places),
                values_int64s=list(places.values()),
                default_int64=len(places),
            )
        else:
            value = graph.column(only.as_numbers(), 0)
            # A range without ends inside has one cell: nothing reaches an infinite end.
            inner = as_doubles(column.edges[1:-1] or [np.inf])[None]
            reached = graph.add("GreaterOrEqual", graph.add("Unsqueeze", value, np.array([1])), inner)
            count = graph.add("ReduceSum", graph.cast(reached, "int64"), np.array([1]), keepdims=0)
            absent = graph.add("Or", graph.add("IsNaN", value), graph.add("IsInf", value))
            cell = graph.add("Where", absent, np.int64(column.cells - 1), count)
        same = graph.add("Equal", graph.add("Unsqueeze", cell, np.array([1])), np.arange(column.cells)[None])
        columns.append(graph.cast(same, "double"))
    return graph.add("Concat", *columns, axis=1)


def _one_hot(graph: Graph, encoder: Any, words: str) -> list[str]:
    features = []
    for number, places in enumerate(_places(encoder)):
        code = graph.add(
            "LabelEncoder",
            graph.column(words, number),
            keys_strings=list(places.known),
            values_int64s=list(places.known.values()),
            default_int64=places.elsewhere,
        )
        same = graph.add("Equal", graph.add("Unsqueeze", code, np.array([1])), np.arange(places.width)[None])
        features.append(graph.cast(same, "double"))
    return features


@dataclass(frozen=True)
class _Places:
    """Where the words of a column go: each known one's place among `width`, and that of all others, -1 for none."""

    known: dict[str, int]
    width: int
    elsewhere: int


def _places(encoder: Any) -> list[_Places]:
    """Of each column of a fitted encoder, which is asked itself: its own rule for rare and unknown words counts."""
    codes: list[_Places] = []
    start = 0
    columns = [list(column) for column in encoder.categories_]
    for number, categories in enumerate(columns):
        asked = [*categories, "\0 never seen"]
        table = np.array([[column[0] for column in columns]] * len(asked), object)
        table[:, number] = asked
        rare = encoder.infrequent_categories_[number]
        width = len(categories) - (0 if rare is None else len(rare) - 1)
        names = getattr(encoder, "feature_names_in_", None)
        shown = encoder.transform(table if names is None else pd.DataFrame(table, columns=names))[
            :, start : start + width
        ]
        code = [int(row.argmax()) if row.any() else -1 for row in np.asarray(shown)]
        start += width
        codes.append(_Places(dict(zip(map(str, categories), code[:-1], strict=True)), width, code[-1]))
    return codes


def _ranks(graph: Graph, transformer: Any, rows: str) -> str:
    """Write `QuantileTransformer` to a uniform distribution: the mean of a rising and a falling interpolation."""
    references = as_doubles(transformer.references_)
    ranks = []
    for number, points in enumerate(as_doubles(transformer.quantiles_).T):
        x = graph.column(rows, number)
        up = _interpolated(graph, x, points, references)
        down = _interpolated(graph, graph.add("Neg", x), -points[::-1], -references[::-1])
        rank = graph.add("Mul", graph.add("Sub", up, down), 0.5)
        rank = graph.add("Where", graph.add("Equal", x, points[-1]), 1.0, rank)
        rank = graph.add("Where", graph.add("Equal", x, points[0]), 0.0, rank)
        ranks.append(graph.add("Unsqueeze", rank, np.array([1])))
    return graph.add("Concat", *ranks, axis=1)


def _interpolated(graph: Graph, x: str, points: np.ndarray, values: np.ndarray) -> str:
    """Write `numpy.interp(x, points, values)`: flat beyond the ends, and at equal points the last one's value."""
    with np.errstate(divide="ignore", invalid="ignore"):
        slopes = np.append(np.diff(values) / np.diff(points), 0.0)
    slopes[~np.isfinite(slopes)] = 0.0
    reached = graph.add("GreaterOrEqual", graph.add("Unsqueeze", x, np.array([1])), points[None])
    count = graph.add("ReduceSum", graph.cast(reached, "int64"), np.array([1]), keepdims=0)
    at = graph.add("Max", graph.add("Sub", count, np.int64(1)), np.int64(0))
    start, value, slope = (graph.add("Gather", table, at) for table in (points, values, slopes))
    risen = graph.add("Add", graph.add("Mul", slope, graph.add("Sub", x, start)), value)
    return graph.add("Where", graph.add("Less", x, points[0]), values[0], risen)


def _dictionary(graph: Graph, features: Any, rows: ImageRows) -> str:
    size = features.shape_[1:] if len(features.shape_) == 3 and not rows.last else features.shape_[:2]
    return patch_features(graph, features, rows.value, channels=rows.channels, size=size)


def _encoded(graph: Graph, encoder: Any, rows: ImageRows) -> str:
    from ostrakon.networks.export import as_onnx

    return graph.cast(
        graph.inline(as_onnx(encoder.exported_network(), encoder.shape_, opset=OPSET), rows.value), "double"
    )


_WRITERS: dict[str, Callable[[Graph, Any, Any], Any]] = {
    "Pipeline": _pipeline,
    "FeatureUnion": _union,
    "_Flat": _flat,
    "StandardScaler": _scaled,
    "PCA": _components,
    "EvenedComponents": _components,
    "Normalizer": _normalized,
    "SimpleImputer": _filled,
    "TableFeatures": _table,
    "CellFeatures": _cells,
    "EmbeddedFeatures": _embedded,
    "DeskewHOG": lambda graph, features, rows: upright_gradients(graph, features, rows.grey(graph)),
    "PatchFeatures": _dictionary,
    "ContrastiveEncoder": _encoded,
}
