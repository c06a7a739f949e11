"""The encoder learns from public images what labels would need many of, and from nothing else."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier

pytest.importorskip("torch")

from ostrakon.features.contrastive import ContrastiveEncoder, contrast
from ostrakon.networks.backend import torch
from ostrakon.validation import InvalidInput


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X.reshape(-1, 8, 8).astype(np.float32), y


@pytest.fixture(scope="module")
def learned(digits):
    return ContrastiveEncoder(width=12, epochs=25, batch_size=128, random_state=0).fit(digits[0][:1200])


def three_shot_accuracy(features, y):
    rng = np.random.default_rng(0)
    found = []
    for _ in range(20):
        few = np.concatenate([rng.choice(np.flatnonzero(y[:1200] == k), 3, replace=False) for k in range(10)])
        nearest = KNeighborsClassifier(1).fit(features[few], y[few])
        found.append((nearest.predict(features[1200:]) == y[1200:]).mean())
    return np.mean(found)


def test_the_loss_is_the_cross_entropy_of_finding_the_partner():
    rng = np.random.default_rng(0)
    codes = rng.normal(size=(6, 4))
    unit = codes / np.linalg.norm(codes, axis=1, keepdims=True)
    terms = []
    for i in range(6):
        partner = (i + 3) % 6
        others = [np.exp(unit[i] @ unit[j] / 0.5) for j in range(6) if j != i]
        terms.append(-np.log(np.exp(unit[i] @ unit[partner] / 0.5) / sum(others)))
    assert contrast(torch.from_numpy(codes), 0.5).item() == pytest.approx(np.mean(terms), rel=1e-12)


@pytest.mark.slow
def test_few_labels_go_further_on_learned_features(digits, learned):
    X, y = digits
    features = learned.transform(X)
    assert features.shape == (len(X), 12 * 16)
    assert features.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(features, axis=1), 1, atol=1e-5)
    untrained = ContrastiveEncoder(width=12, epochs=1, batch_size=1200, learning_rate=1e-9, random_state=0).fit(
        X[:1200]
    )
    pixels, start, now = (three_shot_accuracy(f, y) for f in (X.reshape(-1, 64), untrained.transform(X), features))
    assert now > pixels + 0.03
    assert now > start + 0.05


@pytest.mark.slow
def test_labels_are_never_looked_at_and_the_seed_decides(digits):
    X, y = digits
    small = ContrastiveEncoder(width=4, epochs=1, random_state=3)
    one = clone(small).fit(X[:300], y[:300]).transform(X)
    np.testing.assert_array_equal(one, clone(small).fit(X[:300], -y[:300]).transform(X))
    before = torch.random.get_rng_state()
    np.testing.assert_array_equal(one, clone(small).fit(X[:300]).transform(X))
    assert torch.equal(before, torch.random.get_rng_state())
    other = clone(small).set_params(random_state=4).fit(X[:300]).transform(X)
    assert not np.allclose(one, other)


@pytest.mark.slow
def test_a_row_s_features_are_its_own(digits, learned):
    X, _ = digits
    np.testing.assert_allclose(learned.transform(X[:1]), learned.transform(X[:50])[:1], atol=1e-5)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(learned)).transform(X[:9]), learned.transform(X[:9]))


@pytest.mark.parametrize("layout", ["channels last", "channels first", "flat rows"])
def test_colour_images_in_any_layout(layout):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(40, 12, 12, 3))
    given = {"channels last": X, "channels first": X.transpose(0, 3, 1, 2), "flat rows": X.reshape(40, -1)}[layout]
    made = ContrastiveEncoder(width=2, epochs=1, random_state=0).fit(given).transform(given)
    np.testing.assert_array_equal(made, ContrastiveEncoder(width=2, epochs=1, random_state=0).fit(X).transform(X))


def test_an_augmentation_of_ones_own(digits):
    seen = []

    def shifted(x, draw):
        seen.append(x.shape)
        return x + 0.1 * torch.randn(x.shape, generator=draw, device=x.device)

    ContrastiveEncoder(width=2, epochs=1, batch_size=50, augmentation=shifted).fit(digits[0][:100])
    assert seen == [(50, 1, 8, 8)] * 4


@pytest.mark.parametrize(
    ("settings", "X", "message"),
    [
        ({"temperature": 0}, None, "temperature"),
        ({"epochs": 1.5}, None, "epochs"),
        ({"width": 0}, None, "width"),
        ({"augmentation": "strange"}, None, "augmentation"),
        ({}, np.zeros((10, 5)), "flat rows"),
        ({}, np.zeros((10, 4, 4)), "8x8"),
        ({}, np.zeros((2, 8, 8)), "at least 4"),
        ({}, np.full((10, 8, 8), np.nan), "finite"),
        ({}, np.array([["a"] * 64] * 9), "numbers"),
    ],
)
def test_refusals(digits, settings, X, message):
    with pytest.raises(InvalidInput, match=message):
        ContrastiveEncoder(**settings).fit(digits[0][:50] if X is None else X)


@pytest.mark.slow
def test_rows_of_another_size_are_refused(learned):
    with pytest.raises(InvalidInput, match="as in fit"):
        learned.transform(np.zeros((3, 9, 9)))
