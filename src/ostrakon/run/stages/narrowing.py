"""The part of the range of a quantity to which values are clipped, by a noisy histogram of them."""

from dataclasses import replace
from typing import Any

import numpy as np

from ostrakon.features.histogram import bin_edges, narrowed_range
from ostrakon.features.rowwise import row_count
from ostrakon.planning.plan import Plan
from ostrakon.run.stages.answers import Answers
from ostrakon.teachers.errors import Histogram
from ostrakon.votes import FINE_STEPS, FloatArray

HISTOGRAM = "histogram"
"""Name of the histogram: a field of `Answers`."""


def histogram_rule(plan: Plan, zero: int | None) -> Histogram:
    """Return how records add to the histogram of a plan whose mechanism has `histogram_noise`.

    zero: of the range (`Quantity.zero`).
    """
    assert plan.mechanism.histogram_noise is not None
    return Histogram(edges=bin_edges(plan.teachers, plan.mechanism.histogram_noise, zero))


def without_features(X: Any) -> FloatArray:
    """Return what the histogram needs of rows besides their targets: nothing, (rows, 1)."""
    return np.zeros((row_count(X), 1))


def narrowed(plan: Plan, answers: Answers | None, zero: int | None) -> Plan:
    """Return the plan with the part of the range that holds most values of a quantity; unchanged without a
    histogram, and where that part is the whole range.

    zero: as of `histogram_rule`.

    Guarantee: a function of the noisy histogram and of public numbers.
    """
    noise = plan.mechanism.histogram_noise
    if noise is None or answers is None or answers.histogram is None:
        return plan
    part = narrowed_range(answers.histogram, units=plan.teachers, noise=noise, zero=zero)
    return plan if part == (0, FINE_STEPS) else replace(plan, narrowed=part)
