"""Noise of released tables: sound noise passes at the stated level, and eight kinds of wrong noise do not."""

import numpy as np
import pytest
from planted import TABLES, WRONG_NOISE, quiet_table, wrong_table

from ostrakon.audit import audit
from ostrakon.audit.repeated_noise import repeated_noise_breaks
from ostrakon.audit.result import TABLE_NOISE
from ostrakon.audit.table_noise import noise_breaks, table_finding
from ostrakon.mechanisms import MECHANISMS, BoundedGNMax, MomentGNMax, QuantityGNMax

SIGMA, NUMBERS = 3.0, 20_000
SUBJECTS = [BoundedGNMax(sigma2=3.0), MomentGNMax(sigma2=3.0)]
RELEASED = {
    "noisy_counts": SUBJECTS,
    "noisy_moments": SUBJECTS[1:],
    "noisy_corrections": [
        MomentGNMax(sigma2=3.0, moments=0.25, corrections=0.5),
        QuantityGNMax(sigma2=3.0, moments=0.4, corrections=0.4),
    ],
    "noisy_errors": [QuantityGNMax(sigma2=3.0, errors=0.1)],
    "noisy_histogram": [QuantityGNMax(sigma2=3.0, moments=0.7, histogram=0.1)],
}


def drawn(seed=0, count=NUMBERS):
    return np.random.default_rng(seed).normal(0, SIGMA, count)


def test_sound_noise_is_refuted_no_more_often_than_stated():
    refuted = [noise_breaks(np.rint(drawn(seed, 2000) * 1024) / 1024, SIGMA, error=0.05) for seed in range(400)]
    # Of 400 runs at a level of at most 0.05: more than 33 have a probability below 0.002.
    assert sum(each is not None for each in refuted) <= 33


@pytest.mark.parametrize("count", [10, 30])
def test_few_numbers_are_judged_too(count):
    assert noise_breaks(drawn(3, count), SIGMA, error=1e-3) is None
    assert "standard deviation 0 where 3" in noise_breaks(np.zeros(count), SIGMA, error=1e-3)


def halves(z):
    return np.concatenate([z[: len(z) // 2]] * 2)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda z: 0 * z, "standard deviation 0 where 3 is stated"),
        (lambda z: 0.95 * z, "standard deviation"),
        (lambda z: 1.05 * z, "standard deviation"),
        (lambda z: np.where(np.arange(len(z)) % 10 == 0, 0, z), "standard deviation"),
        (lambda z: SIGMA * np.sign(z), "not Gaussian"),
        (lambda z: np.where(np.arange(len(z)) % 2, np.roll(z, 7), z), "again at a lag of 7 numbers"),
        (halves, "again at a lag of 10000 numbers"),
        (lambda z: np.where(np.arange(len(z)) == 5, np.nan, z), "NaN"),
    ],
    ids=["none", "less", "more", "gaps", "signs", "lag", "half", "nan"],
)
def test_wrong_noise_is_refuted(wrong, told):
    assert told in noise_breaks(wrong(drawn(1)), SIGMA, error=1e-4)


def test_one_cell_without_noise_and_large_counts_without_noise_are_found(monkeypatch):
    honest = BoundedGNMax.noisy_counts

    def one_cell(self, votes, rng):
        noisy = honest(self, votes, rng)
        noisy[3, 1] = votes.counts[3, 1]
        return noisy

    def large(self, votes, rng):
        return np.where(votes.counts > 100, votes.counts, honest(self, votes, rng))

    for wrong in (one_cell, large):
        with monkeypatch.context() as patched:
            patched.setattr(BoundedGNMax, "noisy_counts", wrong)
            found = table_finding(BoundedGNMax(sigma2=3.0), error=1e-4, rng=np.random.default_rng(4))
        assert "has noise of standard deviation 0 where 3 is stated" in found.detail


def test_noise_of_one_table_that_another_one_uses_again_is_found(monkeypatch):
    honest, last = MomentGNMax.noisy_counts, []

    def counts(self, votes, rng):
        noisy = honest(self, votes, rng)
        last.append(noisy - votes.counts)
        return noisy

    def moments(self, votes, rng):
        scale = self.moment_noise / self.sigma2
        return votes.counts / 1024 + np.rint(last.pop(0) * scale * 1024) / 1024

    monkeypatch.setattr(MomentGNMax, "noisy_counts", counts)
    monkeypatch.setattr(MomentGNMax, "noisy_moments", moments)
    found = table_finding(MomentGNMax(sigma2=3.0), error=1e-4, rng=np.random.default_rng(5))
    assert "all tables together: noise is used again" in found.detail


def test_every_released_table_has_rows():
    drawn_by = {name for kind in MECHANISMS.values() for name in dir(kind) if name.startswith("noisy_")}
    # `noisy_argmax` describes a law and draws nothing.
    assert drawn_by - {"noisy_argmax"} == RELEASED.keys() == TABLES.keys()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "mechanism"),
    [(table, mechanism) for table, several in RELEASED.items() for mechanism in several],
    ids=lambda value: getattr(value, "name", value),
)
@pytest.mark.parametrize("share", [0.0, 0.8])
def test_every_table_without_its_noise_or_with_less_is_found(monkeypatch, table, mechanism, share):
    rng = np.random.default_rng(2)
    assert not table_finding(mechanism, error=1e-4, rng=rng).refuted
    monkeypatch.setattr(type(mechanism), table, quiet_table(type(mechanism), table, share))
    found = audit(mechanism, delta=1e-5, samples=300, rng=rng)
    assert TABLE_NOISE in found.refuted_by
    assert "standard deviation" in next(each.detail for each in found.findings if each.test == TABLE_NOISE)


@pytest.mark.parametrize("sigma", [0.15, 3.0, 30.0])
@pytest.mark.parametrize(("draws", "cells"), [(50, 30), (300, 12), (4, 60)])
def test_sound_repeated_noise_is_refuted_no_more_often_than_stated(draws, cells, sigma):
    rng = np.random.default_rng(6)
    refuted = [
        repeated_noise_breaks(np.rint(rng.normal(0, sigma * 1024, (draws, cells))) / 1024, sigma, error=0.05)
        for _ in range(200)
    ]
    # Of 200 runs at a level of at most 0.05: more than 20 have a probability below 0.001.
    assert sum(each is not None for each in refuted) <= 20


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("wrong", WRONG_NOISE)
def test_noise_that_is_wrong_in_every_draw_is_found(monkeypatch, table, wrong):
    mechanism = RELEASED[table][-1]
    monkeypatch.setattr(type(mechanism), table, wrong_table(type(mechanism), table, wrong))
    assert table_finding(mechanism, error=1e-4, rng=np.random.default_rng(8)).refuted
