"""Pictures are those of Pillow: the same sizes, the same filter, the same colours."""

import numpy as np
import pytest
from PIL import Image

from ostrakon.features.pixels import as_colours, brightest_of, resized
from ostrakon.validation import InvalidInput


@pytest.mark.parametrize(("shape", "wanted"), [((32, 32), (96, 96)), ((37, 20), (96, 64)), ((200, 150), (33, 96))])
def test_it_is_resized_as_pillow_does(shape, wanted):
    # In floats Pillow's filter is the same, and does not round.
    picture = 0.3 + 0.4 * np.random.default_rng(0).random((*shape, 3))
    by_pillow = [
        np.asarray(Image.fromarray(picture[..., at].astype(np.float32)).resize(wanted[::-1], Image.Resampling.BICUBIC))
        for at in range(3)
    ]
    np.testing.assert_allclose(resized(picture, *wanted), np.clip(np.stack(by_pillow, axis=2), 0, 1), atol=2e-6)


def test_what_overshoots_is_cut_off():
    edge = np.zeros((8, 8, 1))
    edge[:, 4:] = 1
    made = resized(edge, 32, 32)
    assert made.min() == 0
    assert made.max() == 1


def test_every_form_of_a_picture_is_the_same_picture():
    whole = np.random.default_rng(1).integers(0, 256, (2, 9, 7, 3), dtype=np.uint8)
    wanted = whole.astype(np.float32) / np.float32(255)
    alpha = np.concatenate([whole, np.full((2, 9, 7, 1), 255, np.uint8)], axis=3)
    forms = [(whole, 1.0), (whole.transpose(0, 3, 1, 2), 1.0), (alpha, 1.0), (whole.astype(np.float64), 255.0)]
    for form, brightest in forms:
        np.testing.assert_array_equal(as_colours(form, brightest=brightest), wanted)
    grey = whole[..., 0]
    for form in (grey, grey[..., None], grey[:, None]):
        np.testing.assert_array_equal(as_colours(form), np.repeat(wanted[..., :1], 3, axis=3))


def test_the_scale_is_told_from_public_values():
    assert brightest_of(np.full((1, 4, 4), 0.99)) == 1
    assert brightest_of(np.full((1, 4, 4), 1.01)) == 255


@pytest.mark.parametrize(
    ("pictures", "told"),
    [
        (np.zeros((3, 5)), r"shape \(pictures, height, width\).*got \(3, 5\)"),
        (np.zeros((3, 5, 5, 2)), r"got \(3, 5, 5, 2\)"),
        (np.zeros((3, 0, 5)), r"got \(3, 0, 5\)"),
        (np.array([[["a"]]]), "of <U1"),
        (np.full((1, 4, 4), np.nan), "finite numbers"),
    ],
)
def test_what_is_no_picture_is_refused(pictures, told):
    with pytest.raises(InvalidInput, match=told):
        as_colours(pictures)


@pytest.mark.parametrize("value", [-0.5, 256.0])
def test_another_scale_is_refused(value):
    with pytest.raises(InvalidInput, match="from 0 to 1 or from 0 to 255"):
        brightest_of(np.full((1, 4, 4), value))
