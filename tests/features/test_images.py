"""Upright strokes and oriented gradients."""

import numpy as np
import pytest
from skimage.feature import hog

from ostrakon.features import learn_representation
from ostrakon.features.images import DeskewHOG, as_grey_images, deskew
from ostrakon.validation import InvalidInput


def bar(slant, side=28):
    """A soft bar through the middle that leans by `slant` columns per row."""
    rows, columns = np.mgrid[:side, :side]
    centre = (side - 1) / 2
    inside = np.abs(rows - centre) < side * 0.35
    ink = inside * np.exp(-(((columns - centre - slant * (rows - centre)) / 1.5) ** 2))
    # Faint tails would be amplified by the normalization of oriented gradients.
    return np.where(ink > 0.02, ink, 0)


def slant_of(image):
    rows, columns = np.mgrid[: image.shape[0], : image.shape[1]]
    mass = image / image.sum()
    dy, dx = rows - (mass * rows).sum(), columns - (mass * columns).sum()
    return (mass * dx * dy).sum() / (mass * dy * dy).sum()


@pytest.mark.parametrize("slant", [-0.6, -0.2, 0.0, 0.3, 0.7])
def test_a_leaning_bar_stands_upright(slant):
    assert abs(slant_of(bar(slant)) - slant) < 0.02
    upright = deskew(bar(slant)[None])[0]
    assert abs(slant_of(upright)) < 0.02
    assert upright.sum() == pytest.approx(bar(slant).sum(), rel=0.01)


def test_an_upright_bar_and_an_empty_image_stay_as_they_are():
    np.testing.assert_allclose(deskew(bar(0.0)[None])[0], bar(0.0), atol=1e-5)
    assert np.array_equal(deskew(np.zeros((1, 9, 9)))[0], np.zeros((9, 9)))


def test_each_image_is_changed_by_itself_alone():
    images = np.stack([bar(0.5), bar(-0.3), bar(0.1)])
    np.testing.assert_allclose(deskew(images)[1], deskew(images[1:2])[0], atol=1e-5)


@pytest.mark.parametrize(
    ("shape", "cells", "orientations"), [((28, 28), 7, 9), ((17, 23), 5, 9), ((12, 12), 4, 7), ((32, 20), 3, 8)]
)
def test_features_are_scikit_image_s_to_the_last_bit(shape, cells, orientations):
    # Rounded, so that many gradients are equal, none, or at the border of two orientations.
    images = np.random.default_rng(0).random((300, *shape)).astype(np.float32).round(1)
    ours = DeskewHOG(cells=cells, orientations=orientations, upright=False).fit_transform(images)
    options = {"orientations": orientations, "pixels_per_cell": tuple(side // cells for side in shape)}
    theirs = [hog(image, cells_per_block=(2, 2), **options) for image in images]
    assert np.array_equal(ours, np.array(theirs, np.float32))


def test_upright_brings_slanted_copies_together():
    a, b = bar(0.0)[None], bar(0.5)[None]
    apart = np.linalg.norm(DeskewHOG(upright=False).fit_transform(a) - DeskewHOG(upright=False).fit_transform(b))
    close = np.linalg.norm(DeskewHOG().fit_transform(a) - DeskewHOG().fit_transform(b))
    assert close < 0.5 * apart


def test_shapes_of_images():
    assert as_grey_images(np.zeros((2, 64))).shape == (2, 8, 8)
    assert as_grey_images(np.zeros((2, 1, 8, 9))).shape == (2, 8, 9)
    colour = np.zeros((2, 8, 9, 3))
    colour[..., 1] = 3
    assert as_grey_images(colour).mean() == 1
    for wrong in (np.zeros((2, 63)), np.zeros(4), np.zeros((2, 5, 8, 9)), np.array([["a"]])):
        with pytest.raises(InvalidInput):
            as_grey_images(wrong)


def test_another_size_than_in_public_is_refused():
    with pytest.raises(InvalidInput, match=r"\(28, 28\)"):
        DeskewHOG().fit(bar(0.0)[None]).transform(np.zeros((1, 20, 20)))


def test_bright_and_coloured_images_keep_their_features_in_any_company():
    rng = np.random.default_rng(0)
    ink = rng.random((40, 28, 28)) * (rng.random((40, 28, 28)) > 0.8)
    coloured = np.stack([ink, 1 - ink, ink**2], axis=-1).astype(np.float32)
    for images in (coloured, 100 + ink.astype(np.float32)):
        together = DeskewHOG().fit_transform(images)
        alone = np.concatenate([DeskewHOG().fit_transform(image[None]) for image in images])
        np.testing.assert_allclose(together, alone, atol=1e-6)
        assert len(learn_representation("hog", images).transform(images)) == 40
