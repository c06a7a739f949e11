"""The neighbour graph: exact and approximate alike, smoothing by teacher, spreading of few labels."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import make_blobs, make_moons
from sklearn.semi_supervised import LabelSpreading

from ostrakon.features import PublicGraph, build_graph
from ostrakon.features import graph as module
from ostrakon.validation import InvalidInput


def test_the_graph_is_symmetric_without_loops_and_every_row_has_its_neighbours():
    points = np.random.default_rng(0).normal(size=(200, 5))
    weights = build_graph(points, neighbours=6).weights
    assert abs(weights - weights.T).max() == 0
    assert weights.diagonal().max() == 0
    assert weights.getnnz(axis=1).min() >= 6
    distance = np.linalg.norm(points[:, None] - points[None], axis=2)
    np.fill_diagonal(distance, np.inf)
    nearest = np.argsort(distance, axis=1)[:, :6]
    dense = weights.toarray()
    assert all((dense[i, nearest[i]] > 0).all() for i in range(200))


def test_copies_of_one_point_do_not_break_it():
    weights = build_graph(np.repeat(np.eye(3), 10, axis=0), neighbours=4).weights
    assert np.isfinite(weights.data).all()
    assert weights.getnnz(axis=1).min() >= 4


@pytest.mark.slow
def test_the_approximate_graph_is_close_to_the_exact_one(monkeypatch):
    pytest.importorskip("pynndescent")
    points, _ = make_blobs(600, centers=6, n_features=8, random_state=0)
    exact = build_graph(points, neighbours=8).weights > 0
    monkeypatch.setattr(module, "EXACT_BELOW", 100)
    near = build_graph(points, neighbours=8, random_state=0).weights > 0
    again = build_graph(points, neighbours=8, random_state=0).weights > 0
    assert (near != again).nnz == 0
    assert near.multiply(exact).nnz > 0.95 * exact.nnz


def walked(graph, predictions, classes, strength, steps):
    """The definition, teacher by teacher, on dense matrices."""
    step = graph.weights.toarray() / graph.weights.toarray().sum(axis=1, keepdims=True)
    out = np.empty_like(predictions)
    for t in range(predictions.shape[1]):
        own = (predictions[:, [t]] == np.arange(classes)).astype(float)
        smoothed = own
        for _ in range(steps):
            smoothed = strength * step @ smoothed + (1 - strength) * own
        out[:, t] = np.where(smoothed.max(axis=1) > 0, np.round(smoothed, 5).argmax(axis=1), -1)
    return out


@pytest.mark.parametrize("rows", [None, np.array([3, 77, 5])])
def test_smoothing_is_random_walks_of_one_teacher_at_a_time(rows, monkeypatch):
    rng = np.random.default_rng(1)
    graph = build_graph(rng.normal(size=(120, 3)), neighbours=5)
    predictions = rng.integers(-1, 4, size=(120, 7))
    expected = walked(graph, predictions, 4, 0.8, 6)
    monkeypatch.setattr(module, "_BLOCK", 2 * 120 * 4)
    got = graph.smooth(predictions, classes=4, rows=rows, strength=0.8, steps=6)
    assert np.array_equal(got, expected if rows is None else expected[rows])


def test_one_teacher_s_smoothed_votes_ignore_the_other_teachers():
    rng = np.random.default_rng(2)
    graph = build_graph(rng.normal(size=(90, 3)), neighbours=5)
    predictions = rng.integers(0, 3, size=(90, 6))
    changed = predictions.copy()
    changed[:, 2] = rng.integers(0, 3, size=90)
    a, b = (graph.smooth(p, classes=3) for p in (predictions, changed))
    others = [0, 1, 3, 4, 5]
    assert np.array_equal(a[:, others], b[:, others])
    assert not np.array_equal(a[:, 2], b[:, 2])


def test_smoothing_makes_weak_teachers_better():
    points, truth = make_blobs(500, centers=4, n_features=4, cluster_std=1.5, random_state=3)
    rng = np.random.default_rng(3)
    wrong = rng.random((500, 20)) < 0.35
    predictions = np.where(wrong, rng.integers(0, 4, (500, 20)), truth[:, None])
    smoothed = build_graph(points).smooth(predictions, classes=4)
    assert (predictions == truth[:, None]).mean() < 0.8
    assert (smoothed == truth[:, None]).mean() > 0.97


def test_a_teacher_that_abstains_everywhere_stays_silent():
    graph = build_graph(np.random.default_rng(4).normal(size=(50, 2)))
    assert (graph.smooth(np.full((50, 1), -1), classes=2) == -1).all()


def test_spreading_solves_the_moons_from_one_label_each():
    points, truth = make_moons(400, noise=0.06, random_state=0)
    labels = np.full(400, -1)
    for k in (0, 1):
        labels[np.flatnonzero(truth == k)[0]] = k
    beliefs = build_graph(points).spread(labels, classes=2, strength=0.99)
    assert (beliefs.argmax(axis=1) == truth).mean() > 0.99
    np.testing.assert_allclose(beliefs.sum(axis=1), 1)


def test_spreading_without_balance_is_scikit_learn_s():
    points, truth = make_blobs(150, centers=3, random_state=5)
    labels = np.where(np.arange(150) % 10 == 0, truth, -1)
    graph = build_graph(points, neighbours=7)
    # scikit-learn takes the kernel as a function of the points; ours is the graph itself.
    peer = LabelSpreading(kernel=lambda a, b: graph.weights.toarray(), alpha=0.8, max_iter=500, tol=1e-12)
    peer.fit(points, labels)
    ours = graph.spread(labels, classes=3, strength=0.8, balance=False)
    # Ours divides by the root of the degree, a factor common to a row, before rows are normalised: the same beliefs.
    np.testing.assert_allclose(ours, peer.label_distributions_, atol=1e-6)


def test_balance_keeps_a_dense_class_from_flooding():
    rng = np.random.default_rng(6)
    points = np.concatenate([rng.normal(0, 0.3, (400, 2)), rng.normal((1.4, 0), 0.3, (100, 2))])
    labels = np.full(500, -1)
    labels[[5, 50, 60, 70]] = 0
    labels[450] = 1
    graph = build_graph(points)
    found = graph.spread(labels, classes=2, strength=0.99).sum(axis=0) / 500
    assert abs(found[1] - 0.2) < 0.05


def test_an_example_that_no_label_reaches_is_uniform():
    apart = sparse.block_diag([np.ones((2, 2)) - np.eye(2)] * 2).tocsr()
    beliefs = PublicGraph(weights=apart).spread(np.array([1, -1, -1, -1]), classes=2)
    assert beliefs.tolist() == [[0, 1], [0, 1], [0.5, 0.5], [0.5, 0.5]]


def test_wrong_input_is_refused():
    graph = build_graph(np.random.default_rng(7).normal(size=(30, 2)))
    for wrong in (np.zeros((29, 3), int), np.zeros((30, 3)), np.full((30, 1), 5)):
        with pytest.raises(InvalidInput):
            graph.smooth(wrong, classes=3)
    for wrong in (np.zeros(29, int), np.full(30, 3), np.zeros(30)):
        with pytest.raises(InvalidInput):
            graph.spread(wrong, classes=3)
    with pytest.raises(InvalidInput):
        graph.smooth(np.zeros((30, 1), int), classes=2, strength=1.0)
    with pytest.raises(InvalidInput):
        build_graph(np.full((30, 2), np.nan))
    with pytest.raises(InvalidInput):
        build_graph(np.zeros((5, 2)), neighbours=5)


def test_the_size_of_a_count_is_spread_as_labels_are():
    graph = build_graph(np.random.default_rng(0).normal(size=(60, 2)))
    labels = np.full(60, -1)
    labels[:6] = [0, 1, 2, 0, 1, 2]
    strong = 7.0 * (labels[:, None] == np.arange(3))
    np.testing.assert_allclose(graph.spread(strong, classes=3), graph.spread(labels, classes=3), atol=1e-12)
    for wrong in (-strong, np.full((60, 3), np.nan), np.zeros((60, 3)), strong[:, :2], strong[:-1]):
        with pytest.raises(InvalidInput, match="labels must be"):
            graph.spread(wrong, classes=3)
