"""How many directions a correction sums: those that promise the best one, from public rows."""

import numpy as np
import pytest

from ostrakon.features.corrections import worth_correcting
from ostrakon.validation import InvalidInput


def rows_with(variances, count=4000, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(count, len(variances)))
    orthonormal = np.linalg.qr(rows - rows.mean(axis=0))[0]
    rotation = np.linalg.qr(rng.normal(size=(len(variances),) * 2))[0]
    return orthonormal * np.sqrt(count * variances) @ rotation


def explained(variances, kept, *, records, noise, rng):
    """Simulate the variance of the estimated errors, of weights with the same variance."""
    quarter, total = 0.25 / variances.sum(), np.cumsum(variances)[kept - 1]
    weights = rng.normal(scale=np.sqrt(quarter), size=(50_000, kept))
    # A row of a class adds 1 / sqrt(2) of its error, and features are divided by their length.
    slope = records * variances[:kept] / np.sqrt(2 * total)
    sums = slope * weights + rng.normal(scale=noise, size=weights.shape)
    estimate = sums * slope * quarter / (slope**2 * quarter + noise**2)
    return float((variances[:kept] * (2 * estimate * weights - estimate**2)).sum(axis=1).mean())


@pytest.mark.parametrize("decrease", [1.0, 0.97, 0.9, 0.7])
@pytest.mark.parametrize("noise", [3.0, 10.0, 40.0])
def test_no_other_number_explains_more(decrease, noise):
    variances = 5.0 * decrease ** np.arange(50)
    chosen = worth_correcting(rows_with(variances), records=2000, noise=noise)
    found = {
        kept: explained(variances, kept, records=2000, noise=noise, rng=np.random.default_rng(1))
        for kept in {1, 2, 5, 10, 20, 35, 50, chosen}
    }
    assert found[chosen] >= max(found.values()) - 0.01 * max(found.values())
    assert (chosen == 50) == (decrease == 1 or (decrease == 0.97 and noise < 40))


def test_it_depends_on_neither_units_nor_the_place_of_the_rows():
    rows = rows_with(0.9 ** np.arange(30), count=300)
    known = worth_correcting(rows, records=1000, noise=8.0)
    assert known == worth_correcting(1000 * rows + 7, records=1000, noise=8.0)
    assert known == worth_correcting(np.column_stack([rows, np.zeros((300, 3))]), records=1000, noise=8.0)
    assert worth_correcting(rows, records=10**6, noise=8.0) > known > worth_correcting(rows, records=200, noise=8.0)
    assert worth_correcting(np.ones((5, 3)), records=1000, noise=8.0) == 1


@pytest.mark.parametrize("noise", [1.0, 5.0, 20.0])
def test_directions_without_variance_are_left_out_however_sums_are_rounded(noise):
    """A processor of another kind rounds in another order, as another order of rows and columns does."""
    rng = np.random.default_rng(0)
    rows = np.hstack([np.eye(size)[rng.integers(0, size, 500)] for size in (5, 4, 3, 5, 2, 4, 5, 3, 5)])
    rows = np.hstack([rows, rows[:, :12]]).astype(np.float32)
    orders = [(rng.permutation(len(rows)), rng.permutation(rows.shape[1])) for _ in range(40)]
    chosen = {worth_correcting(rows[first][:, then], records=20_000, noise=noise) for first, then in orders}
    assert len(chosen) == 1
    assert max(chosen) <= 27


@pytest.mark.parametrize(("records", "noise"), [(0, 1.0), (True, 1.0), (10, 0.0), (10, np.nan), (10, np.inf)])
def test_refusals(records, noise):
    with pytest.raises(InvalidInput, match="must be"):
        worth_correcting(np.eye(3), records=records, noise=noise)
