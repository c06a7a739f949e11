"""The epsilon of a whole run whose queries depend on each other: its checks, and the failures that delta pays for."""

import math

from ostrakon.accounting.composition.gaussian_dp import gaussian_dp_epsilon
from ostrakon.accounting.composition.pure_dp import pure_dp_epsilon
from ostrakon.accounting.composition.sum_of_discrete_gaussians import sum_of_discrete_gaussians_epsilon
from ostrakon.mechanisms.base import RunCost
from ostrakon.numerics.rounding import product_above
from ostrakon.validation import fraction


def run_epsilon(cost: RunCost, *, delta: float) -> float:
    """Return the smallest epsilon at which the run is (epsilon, delta)-DP; inf if its failures alone exceed delta.

    Parameters
    ----------
    cost : RunCost
        Of the whole run, from a mechanism's `run_cost`.
    delta : float in (0, 1)
        For everything, failures included.

    Returns
    -------
    float
        Epsilon, rounded upward.

    Raises
    ------
    InvalidInput
        For a delta outside (0, 1).

    Notes
    -----
    Guarantee: a failure is an event that is equally likely on both sides and has probability f. Without a failure the
    run is a function of its checks: (e, delta - f)-DP checks make an (e, delta)-DP run.

    References
    ----------
    Dwork and Roth 2014, section 7.2 (propose-test-release); docs/mathematics.md E; the compositions of `gaussian_dp`,
    `sum_of_discrete_gaussians` and `pure_dp`.

    Examples
    --------
    >>> run_epsilon(RunCost(epsilon=0.5, checks=2, failure=1e-6), delta=1e-6)
    1.0
    >>> run_epsilon(RunCost(mu=1.0, failure=1e-4), delta=1e-6)
    inf
    """
    remaining = fraction("delta", delta) - cost.failure
    if not remaining >= 0:
        return math.inf
    if cost.mu is not None:
        return gaussian_dp_epsilon(cost.mu, remaining) if remaining > 0 else math.inf
    if cost.shares is not None:
        return sum_of_discrete_gaussians_epsilon(cost.shares, delta=remaining) if remaining > 0 else math.inf
    if cost.epsilon is None:
        return math.inf
    if remaining == 0:
        # Without a delta, the epsilons of pure checks add.
        return product_above(cost.checks, cost.epsilon)
    return pure_dp_epsilon(cost.epsilon, queries=cost.checks, delta=remaining)
