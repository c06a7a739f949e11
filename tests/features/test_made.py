"""Encoders of the operator's own code: each row alone, in evaluation mode, and what does not fit is refused."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA

from ostrakon.features import learn_representation
from ostrakon.features.made import MadeEncoder
from ostrakon.features.representation import require_known, require_shared
from ostrakon.validation import InvalidInput

PICTURES = np.random.default_rng(0).random((30, 8, 8, 3)).astype(np.float32)
HERE = f"torch:{__name__}:"


def module():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    nn = torch.nn
    return nn.Sequential(nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.Dropout(0.5), nn.AdaptiveAvgPool2d(2), nn.Flatten())


def function():
    return lambda row: np.asarray(row, np.float64).reshape(len(row), -1)[:, :5] * 2


def remembers():
    seen = []
    return lambda row: (seen.append(1), [[float(len(seen)), 1.0]])[1]


def transformer():
    return PCA(2)


def nothing():
    return None


def fails():
    raise RuntimeError("no weights")


def narrow():
    return lambda row: [1.0]


def infinite():
    return lambda row: [np.inf, 1.0]


def fails_on_some():
    def encoder(row):
        if row.flat[0] == 9:
            raise ValueError("the value 9")
        return [row.flat[0], np.nan if row.flat[0] == 8 else 1.0][: 1 if row.flat[0] == 7 else 2]

    return encoder


constant = 3


def test_a_module_is_in_evaluation_mode_and_each_row_alone():
    torch = pytest.importorskip("torch")
    encoder = MadeEncoder(f"{HERE}module").fit(PICTURES)
    made = encoder.transform(PICTURES)
    with torch.no_grad():
        wanted = module().eval()(torch.from_numpy(PICTURES.transpose(0, 3, 1, 2).copy())).numpy()
    np.testing.assert_allclose(made, wanted, atol=1e-5)
    learned = learn_representation(f"{HERE}module", PICTURES[:20])
    threads = torch.get_num_threads()
    together = learned.transform(PICTURES)
    assert learned.transform(PICTURES[::-1])[::-1].tobytes() == together.tobytes()
    try:
        torch.set_num_threads(2)
        alone = b"".join(learned.transform(PICTURES[at : at + 1]).tobytes() for at in range(len(PICTURES)))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    assert alone == together.tobytes()
    assert pickle.loads(pickle.dumps(encoder)).transform(PICTURES).equals(made)
    assert "SHA-256 of its weights" in encoder.in_words()
    assert encoder.in_words().endswith("trained on: unknown")


def test_a_function_gets_rows_as_they_are():
    table = pd.DataFrame(np.random.default_rng(1).normal(size=(12, 6)))
    encoder = MadeEncoder(f"{HERE}function").fit(table)
    np.testing.assert_allclose(encoder.transform(table), 2 * table.to_numpy()[:, :5], rtol=1e-6)
    assert "no checksum" in encoder.in_words("nothing")


def test_a_transformer_learns_from_public_rows():
    rows = np.random.default_rng(2).normal(size=(30, 4))
    learned = learn_representation(f"{HERE}transformer", rows)
    assert learned.encoder is None
    np.testing.assert_allclose(learned.transform(rows), PCA(2).fit(rows).transform(rows), atol=1e-5)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("remembers", "the same features every time"),
        ("nothing", "must make a module, a function or a transformer, got None"),
        ("fails", "failed: RuntimeError: no weights"),
        ("narrow", "2 features or more, got 1"),
        ("infinite", "finite features"),
    ],
)
def test_what_does_not_encode_is_refused(name, told):
    with pytest.raises(InvalidInput, match=told):
        learn_representation(HERE + name, PICTURES)


def test_a_private_row_that_does_not_encode_does_not_stop_a_run():
    public = np.arange(6.0).reshape(-1, 1)
    learned = learn_representation(f"{HERE}fails_on_some", public)
    features = learned.transform(np.array([[7.0], [8.0], [9.0], [3.0]]), private=True)
    assert np.isfinite(features).all()
    assert features[0].tolist() == features[2].tolist()  # missing, as if it had the public medians
    assert features[3].tolist() == learned.transform(public[3:4])[0].tolist()
    with pytest.raises(InvalidInput, match="failed: ValueError"):
        learn_representation(f"{HERE}fails_on_some", public + 4)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("torch:", "must be torch:MODULE:FACTORY"),
        ("torch:module", "must be torch:MODULE:FACTORY"),
        ("torch:a b:c", "must be torch:MODULE:FACTORY"),
        ("torch:absent_module:factory", "cannot be imported: ModuleNotFoundError"),
        (f"{HERE}absent", "cannot be imported: AttributeError"),
        (f"{HERE}constant", "must be a function, got int"),
    ],
)
def test_what_cannot_be_is_refused_early(name, told):
    with pytest.raises(InvalidInput, match=told):
        require_known(name)


@pytest.mark.parametrize("name", [f"{HERE}function", "torch:os:abort", "onnx:model.onnx"])
def test_another_owner_chooses_no_code(name, monkeypatch):
    monkeypatch.setattr("importlib.import_module", lambda name: pytest.fail("imported"))
    with pytest.raises(InvalidInput, match="one that every owner has"):
        require_shared(name)
    require_shared("hog")
