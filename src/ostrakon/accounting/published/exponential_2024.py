"""The 2024 paper's data-dependent bound for the exponential mechanism: eq. 13 to 16."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from ostrakon.accounting.published.pate_2017 import rdp_pure_eps
from ostrakon.accounting.published.pate_2018 import require_histograms
from ostrakon.mechanisms.base import FloatArray
from ostrakon.validation import positive


def log_q_exponential(counts: ArrayLike, *, epsilon: float) -> FloatArray:
    """Natural log of the probability that the exponential mechanism misses the plurality, exact, shape (queries,).

    counts: finite reals, shape (queries, classes). epsilon: of one query.
    Source: exponential-screening-2024, eq. 13.

    >>> round(float(np.exp(log_q_exponential([[60, 60]], epsilon=0.1))[0]), 9)
    0.5
    """
    scores = np.sort(require_histograms(counts), axis=1) * (positive("epsilon", epsilon) / 2)
    # Without the last, which is the plurality: a difference from 1 would lose the small probabilities.
    return np.asarray(logsumexp(scores[:, :-1], axis=1)) - np.asarray(logsumexp(scores, axis=1))


def rdp_exponential(counts: ArrayLike, *, epsilon: float, orders: ArrayLike) -> FloatArray:
    """The paper's cost of every answer, shape (queries, orders): Theorem 3 of 2017 at the q of eq. 13.

    Its data-independent part is eq. 15, order * epsilon^2 / 2: four times what bounded range allows.
    Guarantee: bounds the divergence from these votes to any neighbour's; depends on the votes, so it is none.
    Source: exponential-screening-2024, eq. 14 to 16.
    """
    return rdp_pure_eps(log_q_exponential(counts, epsilon=epsilon), epsilon=epsilon, orders=orders)
