"""Tables and images as networks read them."""

import numpy as np
import pytest

pytest.importorskip("torch")

from ostrakon.networks.inputs import as_inputs, moments, standardized
from ostrakon.validation import InvalidInput

RNG = np.random.default_rng(0)
IMAGE = RNG.normal(size=(5, 3, 8, 9)).astype(np.float32)


@pytest.mark.parametrize(
    ("given", "images", "expected"),
    [
        (np.arange(6).reshape(2, 3), False, np.arange(6).reshape(2, 3)),
        (np.array([[1, True], [2, False]], object), False, np.array([[1, 1], [2, 0]])),
        (IMAGE[:, 0], False, IMAGE[:, :1]),
        (IMAGE, False, IMAGE),
        (IMAGE.transpose(0, 2, 3, 1), False, IMAGE),
        # A square that could be read both ways has its channels last.
        (np.arange(48).reshape(1, 4, 4, 3), False, np.arange(48).reshape(1, 4, 4, 3).transpose(0, 3, 1, 2)),
        (np.arange(16).reshape(1, 16), True, np.arange(16).reshape(1, 1, 4, 4)),
        (np.arange(48).reshape(1, 48), True, np.arange(48).reshape(1, 4, 4, 3).transpose(0, 3, 1, 2)),
    ],
    ids=["table", "objects", "grey", "first", "last", "square", "flat grey", "flat colour"],
)
def test_shapes(given, images, expected):
    made = as_inputs(given, images=images)
    assert made.dtype == np.float32
    assert made.flags.c_contiguous
    np.testing.assert_array_equal(made, expected)


@pytest.mark.parametrize(
    ("given", "images", "message"),
    [
        (np.zeros(3), False, r"rows of numbers or images, got shape \(3,\)"),
        (np.zeros((0, 3)), False, r"got shape \(0, 3\)"),
        (np.zeros((2, 5, 8, 9)), False, "1, 3 or 4 channels"),
        (np.array([["a", 1]], object), False, "encode its text columns"),
        (np.array([["a"]]), False, "of <U1"),
        (np.zeros((2, 10)), True, "flat rows of 10"),
        (np.array([[1.0, np.nan]]), False, "finite"),
        (np.array([[np.inf, -np.inf]]), False, "finite"),
        (np.array([[1e39]]), False, "finite"),
    ],
)
def test_what_is_no_input_is_refused_by_name(given, images, message):
    with pytest.raises(InvalidInput, match=f"^rows must .*{message}"):
        as_inputs(given, images=images, name="rows")


def test_a_finite_sum_that_overflows_is_no_infinity():
    largest = np.full((3, 4), np.finfo(np.float32).max)
    np.testing.assert_array_equal(as_inputs(largest), largest)


@pytest.mark.parametrize("shape", [(50, 4), (50, 3, 6, 6)])
def test_standardized_rows_have_mean_zero_and_deviation_one(shape):
    x = (RNG.normal(size=shape) * 5 + 100).astype(np.float32)
    axes = (0,) if len(shape) == 2 else (0, 2, 3)
    made = standardized(x, *moments(x)).astype(np.float64)
    np.testing.assert_allclose(made.mean(axis=axes), 0, atol=1e-4)
    np.testing.assert_allclose(made.std(axis=axes), 1, rtol=1e-4)


def test_what_does_not_vary_is_not_blown_up():
    x = np.column_stack([np.full(10, 1e4), np.zeros(10), np.arange(10)]).astype(np.float32)
    mean, deviation = moments(x)
    assert deviation[:2].tolist() == [1, 1]
    assert deviation[2] == pytest.approx(np.arange(10).std())
    np.testing.assert_array_equal(standardized(x, mean, deviation)[:, :2], 0)
