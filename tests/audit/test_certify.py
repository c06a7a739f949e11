import numpy as np
import pytest
from scipy.stats import binom

from ostrakon.audit.certify import certified_epsilon, clopper_pearson
from ostrakon.validation import InvalidInput


@pytest.mark.parametrize("samples", [10, 1000])
def test_intervals_solve_the_binomial_equations(samples: int):
    hits = np.array([0, 1, samples // 3, samples - 1, samples])
    lower, upper = clopper_pearson(hits, samples=samples, error=0.025)
    np.testing.assert_allclose(binom.sf(hits[1:] - 1, samples, lower[1:]), 0.025, rtol=1e-9)
    np.testing.assert_allclose(binom.cdf(hits[:-1], samples, upper[:-1]), 0.025, rtol=1e-9)
    assert lower[0] == 0
    assert upper[-1] == 1


@pytest.mark.parametrize("p", [0.001, 0.2, 0.5, 0.99])
def test_bounds_fail_no_more_often_than_stated(p: float):
    """Exactly, by enumeration of all counts."""
    hits = np.arange(501)
    lower, upper = clopper_pearson(hits, samples=500, error=0.025)
    weight = binom.pmf(hits, 500, p)
    assert weight[lower > p].sum() <= 0.025
    assert weight[upper < p].sum() <= 0.025


@pytest.mark.parametrize(("p", "q", "delta"), [(0.6, 0.3, 0.0), (0.05, 0.01, 0.01), (0.5, 0.5, 0.0), (0.9, 0.1, 0.2)])
def test_false_alarms_over_all_outcomes_stay_at_the_stated_level(p: float, q: float, delta: float):
    """Exactly: the chance that the bound exceeds the true epsilon of this event, over all pairs of counts."""
    samples, confidence = 300, 0.95
    hits = np.arange(samples + 1)
    bound = certified_epsilon(hits[:, None], hits[None, :], samples=samples, delta=delta, confidence=confidence)
    true = max(0.0, np.log(max(p - delta, 1e-300) / q))
    joint = binom.pmf(hits, samples, p)[:, None] * binom.pmf(hits, samples, q)[None, :]
    alarms = joint[bound > true].sum()
    assert alarms <= 1 - confidence
    # And it has power: half of the true epsilon is exceeded most of the time where the event is frequent.
    if (p, q) == (0.6, 0.3):
        assert joint[bound > true / 2].sum() > 0.75


def test_hopeless_counts_certify_nothing():
    assert certified_epsilon(0, 0, samples=100, delta=0.1, confidence=0.95) == 0
    assert certified_epsilon(5, 100, samples=100, delta=0.5, confidence=0.95) == 0


def test_bad_input_is_refused():
    with pytest.raises(InvalidInput, match="hits"):
        clopper_pearson(11, samples=10, error=0.1)
    with pytest.raises(InvalidInput, match="confidence"):
        certified_epsilon(1, 1, samples=10, delta=0.1, confidence=1.0)
    with pytest.raises(InvalidInput, match="delta"):
        certified_epsilon(1, 1, samples=10, delta=-0.1, confidence=0.9)
    with pytest.raises(InvalidInput, match="samples"):
        certified_epsilon(1, 1, samples=0, delta=0.1, confidence=0.9)
