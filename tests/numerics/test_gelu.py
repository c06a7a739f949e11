"""The activation of text encoders has the bits of SciPy's error function, value by value."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf

from ostrakon.numerics.gelu import gelu


def by_scipy(x: NDArray[np.float32]) -> NDArray[np.float32]:
    return x * np.float32(0.5) * (1 + erf(x / np.sqrt(np.float32(2))))


def test_gelu_has_the_bits_of_scipy():
    largest = int(np.float32(9).view(np.uint32))
    positive = np.arange(0, largest, 997, dtype=np.uint32).view(np.float32)  # a millionth apart, and far nearer to 0
    x = np.concatenate([positive, -positive, np.array([1e30, -1e30], np.float32)])
    assert gelu(x).tobytes() == by_scipy(x).tobytes()


def test_a_value_does_not_depend_on_its_neighbours_or_its_position():
    x = np.random.default_rng(0).normal(scale=2, size=(3, 701)).astype(np.float32)
    whole = gelu(x)
    assert whole.shape == x.shape
    assert np.stack([gelu(row) for row in x]).tobytes() == whole.tobytes()
    assert gelu(x[:, ::-1])[:, ::-1].tobytes() == whole.tobytes()
    assert gelu(np.empty((0, 5), np.float32)).shape == (0, 5)
