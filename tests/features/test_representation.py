"""A representation learns from public rows alone, and looks at one row at a time."""

import pickle
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from ostrakon.features import Representation, default_representation, learn_representation
from ostrakon.validation import InvalidInput

RNG = np.random.default_rng(0)


class Recorder(TransformerMixin, BaseEstimator):
    """Remembers every row that reaches fit."""

    seen: ClassVar[list] = []

    def fit(self, X, y=None):
        self.mean_ = X.mean(axis=0)
        Recorder.seen.append(X.copy())
        return self

    def transform(self, X):
        return X - self.mean_


class BatchScaler(TransformerMixin, BaseEstimator):
    """Looks at the rows beside each row, as batch norm in training mode does."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X - X.mean(axis=0)


def test_private_rows_never_reach_fit_and_the_users_object_stays_unfitted():
    Recorder.seen = []
    public, private = RNG.normal(size=(40, 3)), RNG.normal(5, 1, size=(30, 3))
    transformer = Recorder()
    representation = learn_representation(transformer, public)
    features = representation.transform(private)
    assert len(Recorder.seen) == 1
    assert np.array_equal(Recorder.seen[0], public)
    assert not hasattr(transformer, "mean_")
    assert not hasattr(representation, "fit")
    np.testing.assert_allclose(features, private - public.mean(axis=0), rtol=1e-5, atol=1e-5)


def test_a_row_s_features_do_not_depend_on_the_rows_beside_it():
    with pytest.raises(InvalidInput, match="every row on its own"):
        learn_representation(BatchScaler(), RNG.normal(size=(40, 3)))


def test_scikit_learn_s_transformers_give_their_own_values():
    public, private = RNG.normal(size=(60, 5)), RNG.normal(size=(7, 5))
    ours = learn_representation(PCA(3), public, random_state=1).transform(private)
    np.testing.assert_allclose(ours, PCA(3, random_state=1).fit(public).transform(private), rtol=1e-4, atol=1e-5)
    assert ours.dtype == np.float32


def test_random_state_reaches_what_is_seedable():
    public = RNG.normal(size=(50, 20))
    a, b = (
        learn_representation(PCA(2, svd_solver="randomized"), public, random_state=s).transform(public) for s in (3, 3)
    )
    assert np.array_equal(a, b)


def test_a_frozen_network_is_used_in_evaluation_mode():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(16, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.5)
    )
    net.train()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    images = RNG.normal(size=(70, 4, 4)).astype(np.float32)
    representation = learn_representation(net, images)
    first, again = representation.transform(images), representation.transform(images)
    assert np.array_equal(first, again)
    assert net.training
    assert all(torch.equal(value, net.state_dict()[name]) for name, value in before.items())
    net.eval()
    with torch.no_grad():
        np.testing.assert_allclose(first, net(torch.from_numpy(images)).numpy(), rtol=1e-5, atol=1e-6)


def test_any_function_is_a_backbone():
    representation = learn_representation(lambda X: np.asarray(X) ** 2, RNG.normal(size=(10, 2)))
    assert representation.transform(np.array([[3.0, -2.0]])).tolist() == [[9.0, 4.0]]


def test_a_learned_representation_is_accepted_as_it_is():
    first = learn_representation("pca", RNG.normal(size=(40, 6)))
    again = learn_representation(first, RNG.normal(size=(40, 6)))
    row = RNG.normal(size=(1, 6))
    assert np.array_equal(first.transform(row), again.transform(row))


@pytest.mark.parametrize(
    ("X", "name"),
    [
        (np.zeros((3, 28, 28)), "hog"),
        (np.zeros((3, 28, 28, 3)), "patches"),
        (np.zeros((3, 9)), "table"),
        (sparse.csr_matrix(np.zeros((3, 9))), "raw"),
        (np.zeros((3, 4, 4)), "raw"),
        (pd.DataFrame({"a": ["x", "y"]}), "table"),
    ],
)
def test_auto_goes_by_the_shape_of_the_data(X, name):
    assert default_representation(X) == name


def test_it_can_be_pickled():
    representation = learn_representation("pca", RNG.normal(size=(40, 6)))
    row = RNG.normal(size=(2, 6))
    assert np.array_equal(pickle.loads(pickle.dumps(representation)).transform(row), representation.transform(row))
    assert isinstance(representation, Representation)


@pytest.mark.parametrize(
    ("transformer", "message"),
    [
        ("wavelets", "representation must be auto"),
        (StandardScaler, "got the class"),
        (7, "representation must be a transformer"),
        (lambda X: np.full((len(X), 2), np.nan), "finite features"),
        (lambda X: np.zeros((1, 2)), "one row of numbers for each"),
        (lambda X: np.array([["a"]] * len(X)), "one row of numbers"),
    ],
)
def test_what_cannot_transform_is_refused(transformer, message):
    with pytest.raises(InvalidInput, match=message):
        learn_representation(transformer, np.ones((20, 3)) * np.arange(20)[:, None])


def test_other_widths_and_nan_are_refused_at_transform():
    representation = learn_representation(lambda X: np.asarray(X), np.ones((5, 3)))
    with pytest.raises(InvalidInput, match="3 features"):
        representation.transform(np.ones((5, 2)))
    with pytest.raises(InvalidInput, match="finite"):
        representation.transform(np.full((1, 3), np.inf))


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(
    ("name", "shape"),
    [("table", (4,)), ("raw", (4,)), ("pca", (4,)), ("embeddings", (4,)), ("hog", (8, 8)), ("patches", (8, 8, 3))],
)
def test_a_finite_private_row_has_finite_features_and_changes_no_other_one(name, shape, kind):
    rng = np.random.default_rng(3)
    public, usual = (rng.random((rows, *shape)).astype(kind) for rows in (60, 12))
    strange = usual.copy()
    most = np.finfo(kind).max
    for row, value in ((1, most), (4, -most), (7, kind(min(3e38, float(most))))):
        strange[row] = value
        strange[row + 1].flat[::2] = value
    given = [(public, usual, strange)]
    if len(shape) == 1:
        given.append(tuple(pd.DataFrame(rows, columns=list("abcd")).assign(e=1) for rows in given[0]))
    for public, usual, strange in given:
        learned = learn_representation(name, public, random_state=0)
        features = learned.transform(strange, private=True)
        assert np.isfinite(features).all()
        kept = [0, 3, 6, 9, 10, 11]
        assert features[kept].tobytes() == learned.transform(usual, private=True)[kept].tobytes()
        assert learned.transform(public, private=True).tobytes() == learned.transform(public).tobytes()


def test_a_function_that_gives_a_private_row_no_finite_features_does_not_stop_a_run():
    with np.errstate(divide="ignore"):
        learned = learn_representation(lambda X: 1 / np.asarray(X), np.ones((5, 2)))
        features = learned.transform(np.array([[0.0, -0.0], [2.0, np.nan]]), private=True)
    most = np.finfo(np.float32).max
    assert features.tolist() == [[most, -most], [0.5, 0.0]]


def test_an_encoder_beside_gradients_gives_each_the_same_say():
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    from sklearn.pipeline import FeatureUnion

    from ostrakon.features.contrastive import ContrastiveEncoder
    from ostrakon.features.representation import beside_gradients

    images = RNG.normal(size=(80, 12, 12)).clip(0).astype(np.float32)
    union = beside_gradients(ContrastiveEncoder(width=4, epochs=1, random_state=0))
    assert isinstance(union, FeatureUnion)
    seen = learn_representation(union, images, random_state=0)
    features = seen.transform(images)
    parts = [part.transform(images) for _, part in seen.transformer.transformer_list]
    assert len(parts) == 2
    for part in parts:
        np.testing.assert_allclose(np.linalg.norm(part, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(np.hstack(parts), features, atol=1e-5)


@pytest.mark.parametrize("name", ["hog", "pca"])
def test_the_last_digits_of_a_row_s_features_are_its_own(name):
    rng = np.random.default_rng(3)
    images = rng.normal(size=(1000, 16, 16)).clip(0).astype(np.float32)
    seen = learn_representation(name, images[:300], random_state=0)
    features = seen.transform(images)
    order = rng.permutation(1000)
    assert np.array_equal(seen.transform(images[order]), features[order])
    for rows in (1, 5, 37, 768, 769):
        assert np.array_equal(seen.transform(images[:rows]), features[:rows])
    assert seen.transform(images[:0]).shape == (0, seen.features)


def placed(X):
    """A sum in single precision whose order goes by the row's place, as linear algebra's may."""
    terms = np.asarray(X, np.float32) * np.linspace(-1, 2, np.shape(X)[1], dtype=np.float32)
    sums = [np.cumsum(row if place % 3 else row[::-1], dtype=np.float32)[-1] for place, row in enumerate(terms)]
    return np.array(sums, np.float32)[:, None]


def test_where_a_row_s_place_has_a_say_rows_go_through_one_by_one():
    X = np.random.default_rng(4).normal(size=(40, 50))
    seen = learn_representation(placed, X)
    assert not np.array_equal(placed(X[1:]), placed(X)[1:])
    for made in (seen, pickle.loads(pickle.dumps(seen))):
        assert np.array_equal(made.transform(X[1:]), made.transform(X)[1:])
