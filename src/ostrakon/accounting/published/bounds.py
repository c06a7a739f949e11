"""The papers' data-dependent bounds for a whole run, to reproduce their tables. Not guarantees, and private.

LNMax is bounded as in 2017, the Gaussian mechanisms as in 2018. The exact data-dependent cost
(`ostrakon.accounting.data_dependent.exact`) is smaller and needs no theorem.
"""

from functools import singledispatch

import numpy as np
from numpy.typing import ArrayLike

from ostrakon.accounting.published.exponential_2024 import rdp_exponential
from ostrakon.accounting.published.pate_2017 import log_q_laplace, rdp_pure_eps
from ostrakon.accounting.published.pate_2018 import (
    log_pr_answered,
    log_q_gaussian,
    rdp_gaussian,
    rdp_threshold,
)
from ostrakon.accounting.rdp import Curve, require_orders
from ostrakon.mechanisms import (
    ConfidentGNMax,
    ExponentialMechanism,
    GNMax,
    InteractiveGNMax,
    LNMax,
)
from ostrakon.mechanisms.base import FloatArray, Mechanism
from ostrakon.mechanisms.contrib.screened_exponential import ScreenedExponential
from ostrakon.votes import Votes


def published_curve(votes: Votes, mechanism: Mechanism, orders: ArrayLike) -> Curve | None:
    """Return what the papers charge a run: the sum of their data-dependent bounds over queries; None if they have none.

    Parameters
    ----------
    votes : Votes
    mechanism : Mechanism
    orders : array-like of floats above 1, increasing

    Returns
    -------
    Curve or None

    Raises
    ------
    InvalidInput
        For orders out of range.

    Notes
    -----
    Guarantee: none; it depends on the votes. For GNMax and LNMax it bounds the divergence from these votes to any
    neighbour's. For Confident- and Interactive-GNMax it follows the published code: the *expected* cost, `cost of the
    check + P[answered] * cost of the label`. That is not an RDP bound: the Rényi divergence of a mixture exceeds the
    mean (P = .05, label cost .5, order 20: expected .025, exact .342).

    References
    ----------
    pate-2017, Theorem 3; pate-2018, Theorem 6 and Table 1.

    Examples
    --------
    >>> from ostrakon.mechanisms import GNMax
    >>> votes = Votes([[240, 10], [130, 120]])
    >>> curve = published_curve(votes, GNMax(sigma2=40), [10.0])
    >>> bool(curve.values[0] < 2 * 10 / 40**2)
    True
    """
    orders = require_orders(orders)
    costs = published_costs(mechanism, votes, orders)
    return None if costs is None else Curve(orders, costs.sum(axis=0))


@singledispatch
def published_costs(mechanism: Mechanism, votes: Votes, orders: FloatArray) -> FloatArray | None:
    """Return the papers' cost of every query.

    Parameters
    ----------
    mechanism : Mechanism
    votes : Votes
    orders : array of float, shape (K,)
        Above 1.

    Returns
    -------
    array of float, shape (queries, K), or None
        Nats; None for mechanisms without a published bound.

    Notes
    -----
    Guarantee: none, as for `published_curve`.
    """
    return None


@published_costs.register
def _(mechanism: LNMax, votes: Votes, orders: FloatArray) -> FloatArray | None:
    log_q = log_q_laplace(votes.counts, scale=1 / mechanism.gamma)
    return rdp_pure_eps(log_q, epsilon=2 * mechanism.gamma, orders=orders)


@published_costs.register
def _(mechanism: GNMax, votes: Votes, orders: FloatArray) -> FloatArray | None:
    return rdp_gaussian(log_q_gaussian(votes.counts, sigma=mechanism.sigma2), sigma=mechanism.sigma2, orders=orders)


@published_costs.register
def _(mechanism: ConfidentGNMax, votes: Votes, orders: FloatArray) -> FloatArray | None:
    return _checked_then_labelled(votes.counts.astype(np.float64), votes, mechanism, orders)


@published_costs.register
def _(mechanism: InteractiveGNMax, votes: Votes, orders: FloatArray) -> FloatArray | None:
    return _checked_then_labelled(mechanism.check_scores(votes), votes, mechanism, orders)


@published_costs.register
def _(mechanism: ExponentialMechanism, votes: Votes, orders: FloatArray) -> FloatArray | None:
    return rdp_exponential(votes.counts, epsilon=mechanism.epsilon_per_query, orders=orders)


@published_costs.register
def _(mechanism: ScreenedExponential, votes: Votes, orders: FloatArray) -> FloatArray | None:
    # The paper's figures charge the labels alone and treat the check as post-processing, which it is not. With its own
    # 2/sigma1 for every check, screening would cost more than no screening.
    label = rdp_exponential(votes.counts, epsilon=mechanism.epsilon_per_query, orders=orders)
    refused = np.exp(mechanism.log_probabilities(votes)[:, -1])
    return (1 - refused)[:, None] * label


def _checked_then_labelled(
    scores: FloatArray, votes: Votes, mechanism: ConfidentGNMax | InteractiveGNMax, orders: FloatArray
) -> FloatArray:
    threshold, sigma1, sigma2 = mechanism.threshold, mechanism.sigma1, mechanism.sigma2
    check = rdp_threshold(scores, threshold=threshold, sigma1=sigma1, orders=orders)
    label = rdp_gaussian(log_q_gaussian(votes.counts, sigma=sigma2), sigma=sigma2, orders=orders)
    answered = np.exp(log_pr_answered(scores, threshold=threshold, sigma1=sigma1))
    return check + answered[:, None] * label
