"""The source of privacy noise: keyed by the operating system, never repeatable, never copied."""

import copy
import pickle
import secrets

import numpy as np
import pytest
from scipy.special import ndtr

from ostrakon.noise import discrete_gaussian, is_private, require_rng, secure_rng
from ostrakon.validation import InvalidInput


def test_every_source_has_a_key_of_128_bits_from_the_system(monkeypatch, system_entropy):
    asked = []

    def randbits(bits):
        asked.append(bits)
        return system_entropy(bits)

    monkeypatch.setattr(secrets, "randbits", randbits)
    first, second = secure_rng().normal(size=50), secure_rng().normal(size=50)
    assert asked == [128, 128]
    assert not np.array_equal(first, second)


def test_the_key_decides_the_noise(monkeypatch):
    monkeypatch.setattr(secrets, "randbits", lambda bits: 7)
    assert np.array_equal(secure_rng().normal(size=50), secure_rng().normal(size=50))


def test_noise_is_standard_normal():
    noise = secure_rng().normal(size=400_000)
    assert abs(noise.mean()) < 0.01
    assert noise.std() == pytest.approx(1, abs=0.01)


def test_it_cannot_be_copied():
    source = secure_rng()
    for way in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="cannot be pickled"):
            way(source)


def test_only_secure_noise_is_private():
    assert is_private(secure_rng())
    assert not is_private(np.random.default_rng(0))
    source = np.random.default_rng(0)
    assert require_rng(source) is source
    for wrong in (None, 3, np.random.RandomState(0)):
        with pytest.raises(InvalidInput, match="rng must be"):
            require_rng(wrong)


@pytest.mark.parametrize("sigma", [0.5, 1.3])
def test_discrete_noise_has_the_law_of_the_discrete_gaussian(sigma):
    """20,000 draws; a rounded Gaussian, or one 3% too narrow, would be noticed."""
    draws = discrete_gaussian(20_000, sigma=sigma)
    assert draws.dtype == np.int64
    x = np.arange(-60, 61)

    def distance(scale, rounded=False):
        law = np.exp(-(x**2) / (2 * scale**2))
        if rounded:
            law = np.diff(ndtr(np.arange(-60.5, 61) / scale))
        law = law / law.sum()
        common = law > 5e-4
        found = np.array([(draws == each).sum() for each in x[common]])
        expected = law[common] * len(draws)
        return ((found - expected) ** 2 / expected).sum() / common.sum()

    assert distance(sigma) < 6
    assert distance(sigma, rounded=True) > 15 or sigma > 1
    assert distance(0.9 * sigma) > 15


def test_discrete_noise_is_wide_where_it_is_asked_to_be():
    """Beyond 32 bits, at whose ends a sampler of narrow integers would cut it off."""
    draws = discrete_gaussian(20_000, sigma=2.0**40)
    assert abs(draws.std() / 2**40 - 1) < 6 / np.sqrt(2 * len(draws))
    assert len(np.unique(draws)) == len(draws)


@pytest.mark.parametrize("sigma", [0, -1.0, float("nan"), float("inf"), 2.0**41, True, "1"])
def test_discrete_noise_needs_a_deviation(sigma):
    with pytest.raises(InvalidInput, match="sigma must be"):
        discrete_gaussian(3, sigma=sigma)
