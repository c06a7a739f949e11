"""Trees, forests and boosting as ONNX nodes, in doubles.

Sums over trees are taken in the order of scikit-learn, so that forests agree even where two classes tie.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import numpy_helper

from ostrakon.export.onnx_graph import AXIS, Answer, Graph, as_doubles, best, logistic, on_every_row, softmax, zeros
from ostrakon.validation import InvalidInput


def _leaves(graph: Graph, trees: list[dict[str, NDArray[Any]]], rows: str) -> str:
    """Return the leaf that each row reaches in every tree, as its number among the nodes of all trees, (rows, trees).

    trees: each feature, threshold (left where at most that), left, right (-1 in a leaf), numbered within the tree; and
    where missing numbers go left, if the trees know them.
    """
    names = ("nodes_featureids", "nodes_truenodeids", "nodes_falsenodeids", "nodes_trueleafs", "nodes_falseleafs")
    attributes: dict[str, Any] = {name: [] for name in (*names, "tree_roots", "leaf_targetids", "missing")}
    splits: list[float] = []
    leaf_numbers: list[float] = []
    start = 0

    def leaf(tree: int, node: int) -> int:
        attributes["leaf_targetids"].append(tree)
        leaf_numbers.append(float(start + node))
        return len(leaf_numbers) - 1

    for number, tree in enumerate(trees):
        inner = np.flatnonzero(tree["left"] >= 0)
        base = len(splits)
        numbers = {int(node): base + at for at, node in enumerate(inner)}
        attributes["tree_roots"].append(base)
        if not len(inner):
            # A tree of one leaf: both ways lead to it.
            only = leaf(number, 0)
            for name, value in zip(names, (0, only, only, 1, 1), strict=True):
                attributes[name].append(value)
            attributes["missing"].append(0)
            splits.append(0.0)
        for node in inner:
            attributes["missing"].append(int("missing" in tree and tree["missing"][node]))
            attributes["nodes_featureids"].append(int(tree["feature"][node]))
            splits.append(float(tree["threshold"][node]))
            for side, ids, leafs in (
                ("left", "nodes_truenodeids", "nodes_trueleafs"),
                ("right", "nodes_falsenodeids", "nodes_falseleafs"),
            ):
                child = int(tree[side][node])
                attributes[leafs].append(int(child not in numbers))
                attributes[ids].append(numbers[child] if child in numbers else leaf(number, child))
        start += len(tree["left"])
    attributes["nodes_missing_value_tracks_true"] = attributes.pop("missing")
    reached = graph.add(
        "TreeEnsemble",
        rows,
        n_targets=len(trees),
        aggregate_function=1,
        post_transform=0,
        nodes_splits=numpy_helper.from_array(np.array(splits, np.float64), "splits"),
        nodes_modes=numpy_helper.from_array(np.zeros(len(splits), np.uint8), "modes"),
        leaf_weights=numpy_helper.from_array(np.array(leaf_numbers, np.float64), "leaves"),
        **attributes,
    )
    return graph.cast(reached, "int64")


def _summed(graph: Graph, trees: list[Any], values: NDArray[np.float64], rows: str, start: str, per_step: int) -> str:
    """Return `start` plus every tree's value, one tree after the other. values: (all nodes, outputs). each: trees a
    step.

    Where a step has several trees, they give an output each.
    """
    reached = graph.add("Gather", values, _leaves(graph, trees, rows), axis=0)
    total = start
    for number in range(0, len(trees), per_step):
        step = [graph.add("Gather", reached, np.int64(number + k), axis=1) for k in range(per_step)]
        total = graph.add("Add", total, step[0] if per_step == 1 else graph.add("Concat", *step, axis=1))
    return total


def _described(tree: Any) -> dict[str, NDArray[Any]]:
    # Rows are single numbers to scikit-learn's trees, thresholds doubles.
    return {
        "feature": tree.feature,
        "threshold": tree.threshold,
        "left": np.asarray(tree.children_left),
        "right": np.asarray(tree.children_right),
    }


def forest(graph: Graph, model: Any, rows: str) -> Answer:
    """Return a tree, or the mean of the probabilities of several."""
    trees = [model] if hasattr(model, "tree_") else list(model.estimators_)
    described = [_described(tree.tree_) for tree in trees]
    values = np.concatenate([as_doubles(tree.tree_.value)[:, 0] for tree in trees])
    rows = graph.rounded(rows)
    total = _summed(graph, described, values, rows, zeros(graph, rows, values.shape[1]), 1)
    likely = graph.add("Div", total, float(len(trees)))
    return best(graph, likely), likely


def gradient_boosting(graph: Graph, model: Any, rows: str) -> Answer:
    """Write `GradientBoostingClassifier`: a start and the trees of every stage, one for each class."""
    rows = graph.rounded(rows)
    trees = [tree.tree_ for stage in model.estimators_ for tree in stage]
    values = np.concatenate([model.learning_rate * as_doubles(tree.value)[:, 0] for tree in trees])
    start = as_doubles(model._raw_predict_init(np.zeros((1, model.n_features_in_), np.float32)))
    per_step = model.estimators_.shape[1]
    scores = _summed(
        graph, [_described(tree) for tree in trees], values, rows, on_every_row(graph, rows, start), per_step
    )
    if per_step > 1:
        return best(graph, scores), softmax(graph, scores)
    # At 0 this one says the second class.
    label = graph.cast(graph.add("Squeeze", graph.add("GreaterOrEqual", scores, 0.0), AXIS), "int64")
    return label, logistic(graph, scores)[1]


def histogram_boosting(graph: Graph, model: Any, rows: str) -> Answer:
    """Write `HistGradientBoostingClassifier` of numbers. Errors: `InvalidInput` for categorical features."""
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
    start = on_every_row(graph, rows, as_doubles(model._baseline_prediction).reshape(1, -1))
    per_step = len(model._predictors[0])
    scores = _summed(graph, trees, np.concatenate(values), rows, start, per_step)
    return logistic(graph, scores) if per_step == 1 else (best(graph, scores), softmax(graph, scores))
