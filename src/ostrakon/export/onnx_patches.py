"""A dictionary of patches as ONNX nodes; see `ostrakon.features.patches`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ostrakon.export.onnx_graph import Graph, as_doubles
from ostrakon.features.patches import CONTRAST, SIDE, THRESHOLD, places, quarters
from ostrakon.features.pixels import resizing

_LAST = np.array([2])


def patch_features(graph: Graph, features: Any, images: str, *, channels: int, size: tuple[int, int]) -> str:
    """The features of `PatchFeatures`, doubles (rows, features), from images, float (rows, channels, height, width)."""
    add = graph.add
    picture = _resized(graph, _coloured(graph, images, channels, features.brightest_), size)
    scaled = add("Gather", picture, places(), axis=1)
    values = float(places().shape[1])
    scaled = add("Sub", scaled, add("Div", add("ReduceSum", scaled, _LAST, keepdims=1), values))
    variance = add("Div", add("ReduceSum", add("Mul", scaled, scaled), _LAST, keepdims=1), values)
    scaled = add("Div", scaled, add("Sqrt", add("Add", variance, CONTRAST)))
    likeness = add("Sub", add("MatMul", scaled, as_doubles(features.atoms_)), as_doubles(features.shift_))
    both = [add("Max", add("Sub", side, THRESHOLD), 0.0) for side in (likeness, add("Neg", likeness))]
    return add("Flatten", add("Sqrt", add("MatMul", quarters(), add("Concat", *both, axis=2))), axis=1)


def _coloured(graph: Graph, images: str, channels: int, brightest: float) -> str:
    """Three colours between 0 and 1, doubles (rows, height, width, 3)."""
    chosen = np.arange(3) if channels >= 3 else np.zeros(3, np.int64)
    colours = graph.add("Gather", images, chosen, axis=1)
    colours = graph.add("Div", colours, np.float32(brightest))
    colours = graph.add("Max", graph.add("Min", colours, np.float32(1)), np.float32(0))
    return graph.cast(graph.add("Transpose", colours, perm=[0, 2, 3, 1]), "double")


def _resized(graph: Graph, picture: str, size: tuple[int, int]) -> str:
    """32 by 32 pixels, flat: doubles (rows, values)."""
    height, width = size
    add = graph.add
    down = add("MatMul", resizing(height, SIDE), add("Reshape", picture, np.array([-1, height, width * 3])))
    across = add("MatMul", resizing(width, SIDE), add("Reshape", down, np.array([-1, SIDE, width, 3])))
    return add("Flatten", add("Max", add("Min", across, 1.0), 0.0), axis=1)
