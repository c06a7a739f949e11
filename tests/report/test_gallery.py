"""The images that were asked about: those, with the labels that were released for them, and nothing else."""

import base64
import io
import re
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.image import imread

from ostrakon.report.page import SHOWN, gallery


def outcome(images, taught, classes=("left", "right")):
    return SimpleNamespace(
        statement=SimpleNamespace(protects="records"),
        images=images,
        answers=SimpleNamespace(taught=np.asarray(taught)),
        classes=classes,
        clipped=None,
        plan=SimpleNamespace(target="classes", labels=None),
    )


def test_each_stands_below_its_released_label():
    shown = gallery(outcome(np.eye(6)[None].repeat(3, axis=0), [1, -1, 0]))
    assert re.findall(r"<li><span>(.*?)</span><img", shown) == ["right", "none", "left"]
    assert "All 3 public images that were asked about, each below the label that was released for it" in shown
    (drawn,) = {base64.b64decode(image) for image in re.findall(r"base64,(.*?)\"", shown)}
    assert drawn[:8] == b"\x89PNG\r\n\x1a\n"
    np.testing.assert_array_equal(imread(io.BytesIO(drawn))[..., 0], np.eye(6))
    other = gallery(outcome(np.eye(6)[None].repeat(3, axis=0), [1, 1, 0]))
    assert other != shown
    assert gallery(outcome(np.eye(6)[None].repeat(3, axis=0), [1, -1, 0])) == shown


def test_of_many_the_first_are_shown_and_their_number_told():
    shown = gallery(outcome(np.zeros((SHOWN + 900, 4, 4)), np.zeros(SHOWN + 900, int)))
    assert f"The first {SHOWN} of 1,020 public images" in shown
    assert shown.count("<img") == shown.count("<span>left</span>") == SHOWN


@pytest.mark.parametrize("shape", [(2, 5, 8), (2, 5, 8, 1), (2, 1, 5, 8), (2, 5, 8, 3), (2, 5, 8, 4)])
def test_grey_and_coloured_images_are_shown(shape):
    images = np.random.default_rng(0).integers(0, 255, shape, dtype=np.uint8)
    assert gallery(outcome(images, [0, 1])) != gallery(outcome(255 - images, [0, 1]))


@pytest.mark.parametrize("images", [None, np.zeros((2, 3, 5, 8)), np.zeros((2, 3, 3, 5, 8))])
def test_what_cannot_be_shown_is_left_out(images):
    assert gallery(outcome(images, [0, 1])) is None


def test_strange_labels_are_words():
    shown = gallery(outcome(np.zeros((1, 4, 4)), [0], classes=("$x^2$ <script>",)))
    assert "<span>$x^2$ &lt;script&gt;</span>" in shown


def test_large_images_are_shown_smaller():
    image = np.kron(np.eye(2), np.ones((400, 300)))[None]
    (drawn,) = re.findall(r"base64,(.*?)\"", gallery(outcome(image, [0])))
    small = imread(io.BytesIO(base64.b64decode(drawn)))[..., 0]
    assert max(small.shape) <= 96
    assert small.shape[1] / small.shape[0] == pytest.approx(0.75, abs=0.02)
    assert small[:40, :30].min() == 1
    assert small[:40, -30:].max() == 0
