"""The source of privacy noise: keyed by the operating system, never repeatable, never copied."""

import copy
import pickle
import secrets

import numpy as np
import pytest

from ostrakon.noise import is_private, require_rng, secure_rng
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
