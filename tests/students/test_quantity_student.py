"""Ridge regression from noisy sums: it finds a curve where the noise is low, and does no harm where it is high."""

import numpy as np
import pytest

from ostrakon.features.sums import SumMap, quantity_steps
from ostrakon.students.moment_students import ReleasedMoments
from ostrakon.students.quantity_student import QuantityRidge
from ostrakon.students.selection import Released
from ostrakon.teachers.per_record import nearest
from ostrakon.validation import InvalidInput
from ostrakon.votes import STEPS

RNG = np.random.default_rng(5)
PRIVATE, PUBLIC, TEST = (RNG.uniform(-1, 1, size=(rows, 3)).astype(np.float32) for rows in (4000, 400, 500))
QUERIES = np.arange(30)


def curve(X):
    return 0.5 + 0.3 * X[:, 0] + 0.15 * np.sin(3 * X[:, 1])


def released(noise, seed=0, quantity=curve):
    """What a run with this noise releases."""
    rng, sums = np.random.default_rng(seed), SumMap.of(PUBLIC)
    quantity = np.rint(quantity(PRIVATE) * STEPS).astype(np.int64)
    table = sums.table(quantity_steps(sums.steps(PRIVATE), quantity).sum(axis=0)) / STEPS
    cells, counts = nearest(PRIVATE, PUBLIC[QUERIES]), np.zeros((len(QUERIES), 2))
    np.add.at(counts, cells, np.stack([1 - quantity / STEPS, quantity / STEPS], axis=1))
    moments = ReleasedMoments(
        sums=table + rng.normal(size=table.shape) * noise, sigma=noise, records=len(PRIVATE), directions=sums
    )
    counts = counts + rng.normal(size=counts.shape) * 2 * noise
    return Released(queries=QUERIES, counts=counts, sigma2=2 * noise, moments=moments)


def r2(student, quantity=curve):
    right = quantity(TEST)
    return 1 - np.square(student.predict(TEST) - right).sum() / np.square(right - right.mean()).sum()


def test_it_finds_a_curve():
    student = QuantityRidge().fit_moments(PUBLIC, released(2.0))
    assert r2(student) > 0.95
    assert r2(QuantityRidge().fit_moments(PUBLIC, released(20.0))) > 0.8


@pytest.mark.parametrize(("share", "least"), [(0.3, 0.87), (0.1, 0.5), (0.03, -0.75)])
def test_a_range_far_wider_than_the_quantity(share, least):
    """Neither chance differences of features and cells nor rounding must look as if features explained the quantity."""

    def low(X):
        return share * curve(X)

    found = [r2(QuantityRidge().fit_moments(PUBLIC, released(2.0, seed, quantity=low)), low) for seed in range(2)]
    assert min(found) > least


def test_noise_above_every_sum_gives_the_middle_of_the_range():
    for seed in range(3):
        estimates = QuantityRidge().fit_moments(PUBLIC, released(4000.0, seed)).predict(TEST)
        assert np.abs(estimates.mean() - 0.5) < 0.35
        assert np.isfinite(estimates).all()


@pytest.mark.slow
def test_under_much_noise_it_is_nearly_the_mean():
    assert np.mean([r2(QuantityRidge().fit_moments(PUBLIC, released(400.0, seed))) for seed in range(5)]) > -0.5
    said = QuantityRidge().fit_moments(PUBLIC, released(4000.0)).predict(TEST)
    assert (said >= 0).all()
    assert (said <= 1).all()


def test_it_learns_from_sums_of_a_quantity_alone():
    with pytest.raises(InvalidInput, match="noisy sums of quantity-gnmax"):
        QuantityRidge().fit(PUBLIC, np.zeros(len(PUBLIC)))
    with pytest.raises(InvalidInput, match="noisy sums of quantity-gnmax"):
        QuantityRidge().fit_moments(PUBLIC, Released(queries=QUERIES, counts=np.ones((30, 2)), sigma2=1.0))
