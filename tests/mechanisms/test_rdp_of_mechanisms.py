import numpy as np
import pytest
from histograms import divergences

from ostrakon.mechanisms import ExponentialMechanism
from ostrakon.mechanisms.rdp import rdp_of_bounded_range, rdp_of_pure_dp
from ostrakon.validation import InvalidInput
from ostrakon.votes import Votes

ORDERS = np.array([1.01, 1.5, 2.0, 5.0, 18.0, 64.0, 1000.0])


@pytest.mark.parametrize("epsilon", [1e-6, 0.01, 0.3, 1.0, 4.0, 30.0, 800.0])
def test_it_is_the_largest_two_point_law(epsilon: float):
    t = np.linspace(0, epsilon, 20001)[1:-1]
    # P puts p on the log-ratio t and 1 - p on t - epsilon; Q must then sum to 1.
    log_p = np.log(np.expm1(t - epsilon) / np.expm1(-epsilon))
    log_1p = np.log(np.expm1(-t) / np.expm1(-epsilon)) + t - epsilon
    laws_p = np.column_stack([log_p, log_1p])
    laws_q = np.column_stack([log_p - t, log_1p - t + epsilon])
    found = divergences(laws_p, laws_q, ORDERS).max(axis=0)
    bound = rdp_of_bounded_range(ORDERS, epsilon)
    assert (found <= bound + 1e-11).all()
    assert (bound <= np.minimum(ORDERS * epsilon**2 / 8, epsilon) * (1 + 1e-15)).all()
    if epsilon >= 0.01:
        np.testing.assert_allclose(found, bound, rtol=2e-3)
        assert (bound < rdp_of_pure_dp(ORDERS, epsilon)).all()


def test_many_teachers_of_two_classes_attain_it():
    """So no smaller data-independent curve exists for the exponential mechanism."""
    ones = np.arange(1, 4000)
    votes = Votes(np.column_stack([ones, 4000 - ones]))
    mechanism = ExponentialMechanism(epsilon_per_query=0.02)
    law = mechanism.log_probabilities(votes)
    found = np.maximum(
        divergences(law[1:], law[:-1], ORDERS).max(axis=0), divergences(law[:-1], law[1:], ORDERS).max(axis=0)
    )
    np.testing.assert_allclose(found, mechanism.worst_case(ORDERS), rtol=2e-3)


@pytest.mark.parametrize("epsilon", [0, -1.0, np.nan, np.inf, True])
def test_bad_epsilon_is_refused(epsilon: float):
    with pytest.raises(InvalidInput, match="epsilon"):
        rdp_of_bounded_range(ORDERS, epsilon)
