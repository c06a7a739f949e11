"""The images that were asked about: those, with the labels that were released for them, and nothing else."""

from types import SimpleNamespace

import numpy as np
import pytest

from ostrakon.report.gallery import SHOWN, gallery


def outcome(images, taught, classes=("left", "right")):
    return SimpleNamespace(
        statement=SimpleNamespace(protects="records"),
        images=images,
        answers=SimpleNamespace(taught=np.asarray(taught)),
        classes=classes,
    )


def test_each_stands_below_its_released_label():
    shown = gallery(outcome(np.eye(6)[None].repeat(3, axis=0), [1, -1, 0]))
    assert shown.image[:8] == b"\x89PNG\r\n\x1a\n"
    assert shown.told == "All 3 public images that were asked about, each below its released label: right, none, left."
    other = gallery(outcome(np.eye(6)[None].repeat(3, axis=0), [1, 1, 0]))
    assert other.image != shown.image
    assert gallery(outcome(np.eye(6)[None].repeat(3, axis=0), [1, -1, 0])).image == shown.image


def test_of_many_the_first_are_shown_and_their_number_told():
    shown = gallery(outcome(np.zeros((SHOWN + 900, 4, 4)), np.zeros(SHOWN + 900, int)))
    assert shown.told.startswith(f"The first {SHOWN} of 1,020 public images")
    assert shown.told.count("left") == SHOWN


@pytest.mark.parametrize("shape", [(2, 5, 8), (2, 5, 8, 1), (2, 1, 5, 8), (2, 5, 8, 3), (2, 5, 8, 4)])
def test_grey_and_coloured_images_are_shown(shape):
    images = np.random.default_rng(0).integers(0, 255, shape, dtype=np.uint8)
    assert gallery(outcome(images, [0, 1])).image != gallery(outcome(255 - images, [0, 1])).image


@pytest.mark.parametrize("images", [None, np.zeros((2, 3, 5, 8)), np.zeros((2, 3, 3, 5, 8))])
def test_what_cannot_be_shown_is_left_out(images):
    assert gallery(outcome(images, [0, 1])) is None


def test_strange_labels_are_words():
    assert gallery(outcome(np.zeros((1, 4, 4)), [0], classes=("$x^2$ " * 9,))).image
