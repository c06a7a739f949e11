"""Label costs by ln q, tabulated for kernels that look up millions of them; rounded upward."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.interpolate import PchipInterpolator

from ostrakon.accounting.data_independent.noisy_max import AnswerLaw
from ostrakon.mechanisms.base import FloatArray

LOWEST = -28.0
STEP = 0.001
_COARSE = 20
_INTERPOLATION = 1e-6


@dataclass(frozen=True, kw_only=True)
class LikelyOutcomeTable:
    """log_grown[i] = (a-1) cost at `ln q = LOWEST + i STEP`, shape (I,), non-decreasing; the last entry is q = 1.

    Guarantee: (a-1) times the cost at q is at most `log_grown[ceil((ln q - LOWEST) / STEP)]`, first entry below. The
    true cost grows by far more over one step than the interpolation error, and where it is flat that error is added.
    """

    order: float
    log_grown: FloatArray


def likely_outcome_table(law: AnswerLaw, order: float) -> LikelyOutcomeTable:
    """The table of one mechanism at one order."""
    count = round(-LOWEST / STEP)
    fine = np.arange(count + 1) * STEP + LOWEST
    fine[-1] = 0.0
    orders = np.array([order])
    if law.form.noise != "gaussian":
        cost = law.likely_outcome_rdp(np.exp(fine), orders)[0]
    else:
        # Each beta* is an optimum over splits: found on every twentieth point, smooth in between.
        coarse = np.append(fine[:-1:_COARSE], 0.0)
        known = law.likely_outcome_rdp(np.exp(coarse), orders)[0]
        cost = np.exp(PchipInterpolator(coarse, np.log(known))(fine)) * (1 + _INTERPOLATION)
    return LikelyOutcomeTable(order=order, log_grown=(order - 1) * np.maximum.accumulate(cost))
