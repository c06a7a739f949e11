"""A dictionary of patches: each image's own features, as in the definition, in memory and in a release."""

import numpy as np
import onnxruntime
import pytest
from sklearn.decomposition import PCA

from ostrakon.export.onnx_features import ImageRows, transformed
from ostrakon.export.onnx_graph import Graph
from ostrakon.features import default_representation
from ostrakon.features.patches import EvenedComponents, PatchFeatures
from ostrakon.validation import InvalidInput


@pytest.fixture(scope="module")
def images():
    # Smooth, so that patches have something in common.
    noise = np.random.default_rng(0).random((60, 9, 9, 3))
    return (np.kron(noise, np.ones((1, 4, 4, 1)))[:, :32, :32] * 0.7 + 0.1).astype(np.float32)


@pytest.fixture(scope="module")
def fitted(images):
    return PatchFeatures(atoms=5, random_state=0).fit(images)


def plainly(fitted, image):
    """Patch by patch, quarter by quarter."""
    atoms, total = fitted.atoms_, np.zeros((2, 2, 10))
    for row in range(27):
        for column in range(27):
            patch = image[row : row + 6, column : column + 6].astype(float).ravel()
            patch = (patch - patch.mean()) / np.sqrt(patch.var() + 10 / 255**2)
            z = patch @ atoms - fitted.shift_
            for down in range(2):
                for across in range(2):
                    # The middle row and column are of both halves.
                    if (row <= 13, row >= 13)[down] and (column <= 13, column >= 13)[across]:
                        total[down, across] += np.concatenate([np.maximum(z - 1, 0), np.maximum(-z - 1, 0)])
    return np.sqrt(total / 14**2).ravel()


def test_features_are_those_of_the_definition(images, fitted):
    made = fitted.transform(images[:3])
    assert made.shape == (3, 40)
    assert made.std() > 0.01
    np.testing.assert_allclose(made, [plainly(fitted, image) for image in images[:3]], atol=1e-9)


def test_an_image_has_the_same_features_whatever_stands_beside_it(images, fitted):
    together = fitted.transform(images)
    for row in (0, 17, 59):
        assert fitted.transform(images[row : row + 1]).tobytes() == together[row : row + 1].tobytes()
    changed = images.copy()
    changed[1:] = 0
    assert fitted.transform(changed)[0].tobytes() == together[0].tobytes()


def test_images_that_come_again_are_computed_once(images, fitted, monkeypatch):
    expected, seen, one = fitted.transform(images[:3]), [], fitted._one
    monkeypatch.setattr(fitted, "_one", lambda image: seen.append(image) or one(image))
    assert (
        fitted.transform(np.resize(images[:3], (8, *images.shape[1:]))).tobytes()
        == np.resize(expected, (8, 40)).tobytes()
    )
    assert len(seen) == 3


def test_the_dictionary_is_of_unit_directions_on_whitened_patches(images):
    one, other = (PatchFeatures(atoms=5, random_state=seed).fit(images) for seed in (1, 1))
    assert one.atoms_.tobytes() == other.atoms_.tobytes()
    assert PatchFeatures(atoms=5, random_state=2).fit(images).atoms_.tobytes() != one.atoms_.tobytes()


@pytest.mark.parametrize("form", ["last", "first", "grey", "bytes", "large"])
def test_a_release_computes_the_same(form, images):
    given = {
        "last": images,
        "first": images.transpose(0, 3, 1, 2),
        "grey": images.mean(axis=3),
        "bytes": np.rint(images * 255),
        "large": np.kron(images[:, :20, :24], np.ones((1, 2, 2, 1))),
    }[form]
    features = PatchFeatures(atoms=5, random_state=0).fit(given)
    graph = Graph()
    channels = 1 if given.ndim == 3 else 3
    size = given.shape[2:] if form == "first" else given.shape[1:3]
    rows = ImageRows(value=graph.input("rows", "float", (channels, *size)), channels=channels, last=form != "first")
    graph.output("made", transformed(graph, features, rows), "double", (40,))
    session = onnxruntime.InferenceSession(graph.serialized(), providers=["CPUExecutionProvider"])
    shown = given[:, None] if form == "grey" else given if form == "first" else given.transpose(0, 3, 1, 2)
    (made,) = session.run(None, {"rows": shown[:7].astype(np.float32)})
    np.testing.assert_allclose(made, features.transform(given[:7]), rtol=1e-9, atol=1e-9)


def test_components_are_evened_by_half():
    X = np.random.default_rng(1).normal(size=(400, 5)) * [16, 9, 4, 1, 0.25]
    made = EvenedComponents(4, random_state=0).fit_transform(X)
    plain = PCA(4, random_state=0).fit(X)
    np.testing.assert_allclose(made.std(axis=0, ddof=1), plain.explained_variance_**0.25, rtol=1e-9)
    expected = plain.transform(X) / plain.explained_variance_**0.25
    np.testing.assert_allclose(made, expected, atol=1e-9)
    graph = Graph()
    rows = graph.input("rows", "double", (5,))
    fitted = EvenedComponents(4, random_state=0).fit(X)
    graph.output("made", transformed(graph, fitted, rows), "double", (4,))
    session = onnxruntime.InferenceSession(graph.serialized(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(None, {"rows": X})[0], made, atol=1e-9)


def test_colour_images_are_seen_so_by_default(images):
    assert default_representation(images) == "patches"
    assert default_representation(images.transpose(0, 3, 1, 2)) == "patches"
    assert default_representation(images.mean(axis=3)) == "hog"
    assert default_representation(images[:, :4, :4]) == "raw"


def test_what_cannot_be_is_refused(images, fitted):
    with pytest.raises(InvalidInput, match=r"must hold images of \(32, 32, 3\)"):
        fitted.transform(images[:, :30])
    with pytest.raises(InvalidInput, match="got a NaN"):
        PatchFeatures().fit(np.full((3, 8, 8, 3), np.nan))
    with pytest.raises(InvalidInput, match="atoms must be"):
        PatchFeatures(atoms=1).fit(images)
    with pytest.raises(InvalidInput, match="got none"):
        PatchFeatures().fit(images[:0])
