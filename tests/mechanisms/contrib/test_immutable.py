import math

import numpy as np
import pytest
from histograms import all_votes, hockey_stick, neighbouring_rows
from scipy.special import log_ndtr

from ostrakon.mechanisms.contrib.immutable import Immutable
from ostrakon.validation import InvalidInput
from ostrakon.votes import Votes


def test_the_two_histogram_example():
    """docs/mathematics.md E: c = 100, Laplace scale 10, (1, 0) against (0, 1): true 8.99, claimed 0.2."""
    mechanism = Immutable(constant=100, gamma=0.1)
    law = mechanism.log_probabilities(Votes([[1, 0], [0, 1]]))
    assert np.exp(law[:, 0]) == pytest.approx([0.999876, 0.000124], abs=5e-7)
    assert law[0, 0] - law[1, 0] == pytest.approx(8.99, abs=0.005)
    assert mechanism.claimed_epsilon(queries=1, delta=1e-5) == pytest.approx(0.2)
    for part in ("not differentially private", "0.999876", "0.000124", "8.99", "0.2 is claimed"):
        assert part in mechanism.warning
    assert mechanism.warning.count(". ") == 0


def test_no_release_may_rest_on_it():
    assert Immutable(constant=1, gamma=1).releasable is False


@pytest.mark.parametrize("mechanism", [Immutable(constant=4, gamma=0.5), Immutable(constant=4, sigma2=3.0)])
def test_two_class_epsilon_is_exact(mechanism: Immutable):
    votes = all_votes(teachers=20, classes=2)
    before, after = neighbouring_rows(votes)
    law = mechanism.log_probabilities(votes)[:, :2]
    near = np.abs(votes.counts[:, 0] - votes.counts[:, 1]) <= 4
    keep = near[before] & near[after]
    exact = mechanism.two_class_epsilon()
    found = (law[before] - law[after])[keep].max()
    assert found == pytest.approx(exact, rel=1e-10)
    if mechanism.gamma is not None:
        assert (law[before] - law[after]).max() == pytest.approx(exact, rel=1e-10)
        assert exact < mechanism.pure_dp()


def test_true_worst_case_holds_with_ties_of_three_classes():
    for mechanism in (Immutable(constant=3, gamma=0.4), Immutable(constant=3, sigma2=2.0)):
        votes = all_votes(teachers=7, classes=3)
        before, after = neighbouring_rows(votes)
        law = mechanism.log_probabilities(votes)
        if mechanism.gamma is not None:
            assert (law[before][:, :3] - law[after][:, :3]).max() <= mechanism.pure_dp()
        else:
            mu = mechanism.gaussian_dp()[1]
            assert mu == pytest.approx(math.sqrt(2) * 4 / 2)
            for e in (0.5, 2.0, 5.0):
                delta = math.exp(log_ndtr(-e / mu + mu / 2)) - math.exp(e + log_ndtr(-e / mu - mu / 2))
                assert hockey_stick(law[before], law[after], e).max() <= delta * (1 + 1e-9)


def test_claims_are_those_of_the_papers():
    laplace = Immutable(constant=1e100, gamma=1e-3)
    count, delta = 9000, 1e-5
    composed = 4 * count * 1e-6 + 2e-3 * math.sqrt(2 * count * math.log(1e5))
    assert laplace.claimed_epsilon(queries=count, delta=delta) == pytest.approx(composed)
    gaussian = Immutable(constant=1e100, sigma2=1000.0)
    orders = np.geomspace(1.0001, 1e6, 200_001)
    best = (count * orders / 1000.0**2 + math.log(1e5) / (orders - 1)).min()
    assert gaussian.claimed_epsilon(queries=count, delta=delta) == pytest.approx(best, rel=1e-6)
    assert Immutable(constant=1e100, gamma=1e-10).claimed_epsilon(queries=9000, delta=1e-5) < 1e-6


def test_the_published_constants_do_not_break_the_law():
    """c = 1e100 with noise of scale 1e10, as in Table 1."""
    mechanism = Immutable(constant=1e100, gamma=1e-10)
    votes = Votes([[1, 0], [0, 1], [3, -0], [200, 50]], teachers=250, abstentions=True)
    assert np.exp(mechanism.log_probabilities(votes)).argmax(axis=1).tolist() == [0, 1, 0, 0]
    assert mechanism.sample(votes, np.random.default_rng(0)).tolist() == [0, 1, 0, 0]
    assert mechanism.pure_dp() > 1e89
    assert "1e+90" in mechanism.warning


def test_exactly_one_noise():
    for wrong in ({}, {"gamma": 1.0, "sigma2": 1.0}):
        with pytest.raises(InvalidInput, match="gamma or sigma2"):
            Immutable(constant=1.0, **wrong)
