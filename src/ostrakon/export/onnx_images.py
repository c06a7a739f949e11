"""Upright strokes, histograms of oriented gradients and dictionaries of patches as ONNX nodes.

See `ostrakon.features.images` and `ostrakon.features.patches`.
"""

from typing import Any

import numpy as np

from ostrakon.export.onnx_graph import Graph, as_doubles
from ostrakon.features.patches import CONTRAST, SIDE, THRESHOLD, places, quarters
from ostrakon.features.pixels import resizing

_F = np.float32


def upright_gradients(graph: Graph, features: Any, images: str) -> str:
    """Return what `DeskewHOG` makes of grey images, float (rows, height, width): doubles (rows, features)."""
    height, width = features.shape_
    if features.upright:
        images = _deskewed(graph, images, height, width)
    cells = tuple(max(2, size // features.cells) for size in (height, width))
    return _histograms(graph, images, (height, width), cells, features.orientations)


def _deskewed(graph: Graph, images: str, height: int, width: int) -> str:
    add = graph.add
    rows, columns = np.arange(height, dtype=np.float64), np.arange(width, dtype=np.float64)
    grey = graph.cast(images, "double")
    by_row = add("ReduceSum", grey, np.array([2]), keepdims=0)
    by_column = add("ReduceSum", grey, np.array([1]), keepdims=0)
    mass = add("Max", add("ReduceSum", by_row, np.array([1]), keepdims=0), 1e-12)
    row_mean, column_mean = (
        add("Div", add("MatMul", sums, places), mass) for sums, places in ((by_row, rows), (by_column, columns))
    )
    squares = add("Div", add("MatMul", by_row, rows**2), mass)
    variance = add("Sub", squares, add("Mul", row_mean, row_mean))
    both = add("Div", add("MatMul", add("MatMul", grey, columns), rows), mass)
    covariance = add("Sub", both, add("Mul", row_mean, column_mean))
    slant = add("Div", covariance, add("Max", variance, 1e-3))
    slant = add("Where", add("Greater", variance, 1e-3), slant, 0.0)
    slant = graph.cast(add("Max", add("Min", slant, 1.0), -1.0), "float")
    upward = graph.cast(add("Sub", rows[None], add("Unsqueeze", row_mean, np.array([1]))), "float")
    shift = add("Mul", add("Unsqueeze", slant, np.array([1])), upward)
    source = add("Add", columns.astype(_F)[None, None], add("Unsqueeze", shift, np.array([2])))
    left = add("Floor", source)
    part = add("Sub", source, left)
    padded = add("Pad", images, np.array([0, 0, 1, 0, 0, 1]), _F(0), mode="constant")
    pixel = graph.cast(left, "int64")
    first, second = (add("GatherElements", padded, _clipped(graph, pixel, more, width + 1), axis=2) for more in (1, 2))
    return add("Add", add("Mul", add("Sub", _F(1), part), first), add("Mul", part, second))


def _clipped(graph: Graph, pixel: str, more: int, most: int) -> str:
    neighbour = graph.add("Add", pixel, np.int64(more))
    return graph.add("Max", graph.add("Min", neighbour, np.int64(most)), np.int64(0))


def _histograms(graph: Graph, images: str, shape: tuple[int, int], cell: tuple[int, ...], orientations: int) -> str:
    """Compute `skimage.feature.hog` with 2 x 2 cells a block and L2-Hys; a cell's sum is rounded after every pixel."""
    add = graph.add
    (height, width), (cell_height, cell_width) = shape, cell
    up, left = height // cell_height, width // cell_width
    down = graph.cast(_difference(graph, images, 1, height), "double")
    across = graph.cast(_difference(graph, images, 2, width), "double")
    strength = add("Sqrt", add("Add", add("Mul", down, down), add("Mul", across, across)))
    here = _directions(graph, down, across, orientations)
    ones = add("Mul", add("Unsqueeze", strength, np.array([3])), here)
    # Pixels beyond the last whole cell belong to none.
    ones = add("Slice", ones, np.array([0, 0]), np.array([up * cell_height, left * cell_width]), np.array([1, 2]))
    ones = add("Reshape", ones, np.array([-1, up, cell_height, left, cell_width, orientations]))
    pixels = cell_height * cell_width
    ones = add("Transpose", ones, perm=[2, 4, 0, 1, 3, 5])
    ones = add("Reshape", ones, np.array([pixels, -1, up, left, orientations]))
    # The sum of one pixel is that pixel, rounded.
    total = graph.rounded(add("Gather", ones, np.int64(0), axis=0))
    for pixel in range(1, pixels):
        total = graph.rounded(add("Add", total, add("Gather", ones, np.int64(pixel), axis=0)))
    cells = graph.cast(add("Div", graph.cast(total, "float"), _F(pixels)), "double")
    blocks = [
        add("Unsqueeze", _part(graph, cells, (y, x), (up - 1, left - 1)), np.array([3])) for y in (0, 1) for x in (0, 1)
    ]
    block = _normalized(graph, add("Concat", *blocks, axis=3))
    block = _normalized(graph, add("Min", block, 0.2))
    return add("Flatten", graph.rounded(block), axis=1)


def _difference(graph: Graph, images: str, axis: int, size: int) -> str:
    """Return the next pixel less the one before, 0 at both edges."""
    axes = np.array([axis])
    after = graph.add("Slice", images, np.array([2]), np.array([size]), axes)
    before = graph.add("Slice", images, np.array([0]), np.array([size - 2]), axes)
    edges = np.zeros(6, np.int64)
    edges[[axis, axis + 3]] = 1
    return graph.add("Pad", graph.add("Sub", after, before), edges, _F(0), mode="constant")


def _directions(graph: Graph, down: str, across: str, orientations: int) -> str:
    """1 where a gradient's angle, in [0, 180) degrees, lies in an orientation's range: (rows, height, width, ranges).

    By the sides of the ranges' borders instead of the angle, for which ONNX has no doubles.
    """
    add = graph.add
    level = add("And", add("Equal", down, 0.0), add("Less", across, 0.0))
    turned = add("Where", add("Or", add("Less", down, 0.0), level), -1.0, 1.0)
    borders = np.pi * np.arange(1, orientations) / orientations
    # Rounded, so that borders at 45 and 90 degrees are exact.
    cosine, sine = np.round(np.cos(borders), 15), np.round(np.sin(borders), 15)
    y, x = (add("Unsqueeze", add("Mul", gradient, turned), np.array([3])) for gradient in (down, across))
    beyond = add("GreaterOrEqual", add("Sub", add("Mul", y, cosine), add("Mul", x, sine)), 0.0)
    border = add("ReduceSum", graph.cast(beyond, "int64"), np.array([3]), keepdims=1)
    return graph.cast(add("Equal", border, np.arange(orientations)), "double")


def _part(graph: Graph, cells: str, start: tuple[int, int], size: tuple[int, int]) -> str:
    end = np.array([start[0] + size[0], start[1] + size[1]])
    return graph.add("Slice", cells, np.array(start), end, np.array([1, 2]))


def _normalized(graph: Graph, blocks: str) -> str:
    squares = graph.add("ReduceSum", graph.add("Mul", blocks, blocks), np.array([3, 4]), keepdims=1)
    return graph.add("Div", blocks, graph.add("Sqrt", graph.add("Add", squares, 1e-5**2)))


def patch_features(graph: Graph, features: Any, images: str, *, channels: int, size: tuple[int, int]) -> str:
    """Return the features of `PatchFeatures`, doubles (rows, features), from images, float (rows, channels, height,
    width).
    """
    add = graph.add
    picture = _resized(graph, _coloured(graph, images, channels, features.brightest_), size)
    scaled = add("Gather", picture, places(), axis=1)
    values = float(places().shape[1])
    scaled = add("Sub", scaled, add("Div", add("ReduceSum", scaled, np.array([2]), keepdims=1), values))
    variance = add("Div", add("ReduceSum", add("Mul", scaled, scaled), np.array([2]), keepdims=1), values)
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
