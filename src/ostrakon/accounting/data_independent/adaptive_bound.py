"""The worst case of labels by adaptive composition: exact up to rounding for two classes, nearly so for more."""

from __future__ import annotations

import math

import numpy as np

from ostrakon.accounting.composition.adaptive import RELATIVE_ERROR, Family, Grid, Profile, compose_adaptively
from ostrakon.accounting.data_independent.checked_labels import compose_labels
from ostrakon.accounting.data_independent.noisy_max import answer_law
from ostrakon.accounting.data_independent.three_outcomes import three_outcomes
from ostrakon.mechanisms.base import Mechanism, StatefulMechanism
from ostrakon.validation import fraction, whole
from ostrakon.votes import Votes

BASIS = "adaptive composition of labels"

_MOST_WORK = 2e10
"""The most outcomes times grid points times queries, about five seconds of one core."""

_COVER = 7000
"""Outcomes of the pairs that cover all labels of three classes and more."""

_MOST_MARGINS = 600
"""The most margins between two classes that are computed one by one."""

_LITTLE_WORK = 1e9
"""Below it the grid is up to three times finer."""

_SHARE = 0.006
"""The chords add at most this share of the run's variance, divided by six."""

_COARSEST = 8.0
"""The largest factor by which the grid may be coarser."""


def two_class_family(mechanism: Mechanism, *, teachers: int) -> Family | None:
    """Every pair of neighbouring votes of two classes without abstentions, from the mechanism's own outcome law.

    Parameters
    ----------
    mechanism : Mechanism
        Must release labels alone: the result is None if noisy counts are released too, if queries share state or if
        parameters differ by query.
    teachers : int
        At least 1.

    Returns
    -------
    Family or None
        `teachers` pairs: n and n + 1 votes for the first class. The exchange of classes is the exchange of the pairs.
    """
    teachers = whole("teachers", teachers, at_least=1)
    if not _labels_alone(mechanism):
        return None
    first = np.arange(teachers + 1)
    law = np.exp(mechanism.log_probabilities(Votes(np.column_stack([first, teachers - first]))))
    # If classes are treated alike, the exchange of n and n + 1 votes is already a pair of the list.
    mirrored = law[::-1][:, [1, 0, 2]]
    alike = np.allclose(law, mirrored, rtol=RELATIVE_ERROR / 100, atol=0)
    return Family(p=law[:-1], q=law[1:], symmetric=bool(alike))


def _labels_alone(mechanism: Mechanism) -> bool:
    """Whether one query releases nothing but the outcome of its law, the same law for every query."""
    tied = isinstance(mechanism, StatefulMechanism) or mechanism.per_record or mechanism.contribution_bound is not None
    return not (tied or mechanism.releases_counts or mechanism.fixed_queries is not None or not mechanism.releasable)


def grid_for(*, queries: int, outcomes: int, epsilon: float, delta: float) -> Grid | None:
    """A grid for the price of a run that is known to be (epsilon, delta)-DP; None if it would take too long.

    Every grid gives an upper bound. A step moves the logarithm of y by about epsilon / sqrt(2 ln(1/delta) queries), and
    the chords must blur it by much less.
    """
    delta = fraction("delta", delta)
    if not 0 < epsilon < 100:
        return None
    deviation = epsilon / math.sqrt(2 * max(math.log(1 / delta), 0.5))
    step = deviation * math.sqrt(_SHARE / queries)
    length = 1.15 * epsilon + 0.5 * deviation
    work = length / step * queries * outcomes
    coarser = max(1.0 if work > _LITTLE_WORK else max(1 / 3, math.sqrt(work / _LITTLE_WORK)), work / _MOST_WORK)
    if coarser > _COARSEST:
        return None
    return Grid(step=step * coarser, count=max(8, math.ceil(length / step / coarser)))


def adaptive_profile(
    mechanism: Mechanism, *, queries: int, teachers: int | None, classes: int | None, abstentions: bool,
    epsilon: float, delta: float,
) -> Profile | None:  # fmt: skip
    """The privacy profile of adaptively chosen queries around (epsilon, delta); None if no theorem applies.

    Parameters
    ----------
    mechanism, queries, teachers, classes, abstentions
        As for `worst_case`. A cap on answers is ignored: every query may be answered.
    epsilon, delta : float
        A known guarantee of the run, around which the grid is centred.

    Returns
    -------
    Profile or None
        An upper bound on delta at every epsilon, for all votes and all choices of queries.
    """
    if teachers is None or classes is None or abstentions or not _labels_alone(mechanism):
        return None
    if classes > 2:
        return _many_classes(mechanism, queries, teachers, classes, epsilon, delta)
    grid = grid_for(queries=queries, outcomes=6 * teachers, epsilon=epsilon, delta=delta)
    family = None if grid is None else two_class_family(mechanism, teachers=teachers)
    if grid is None or family is None:
        return None
    return compose_adaptively([(family, queries)], grid=grid)


def _many_classes(
    mechanism: Mechanism, queries: int, teachers: int, classes: int, epsilon: float, delta: float
) -> Profile | None:
    law = answer_law(mechanism, teachers=teachers, classes=classes)
    if law is None or law.form.noise != "gaussian" or min(teachers, law.form.scale * 13) > _MOST_MARGINS:
        return None
    grid = grid_for(queries=queries, outcomes=_COVER, epsilon=epsilon, delta=delta)
    if grid is None:
        return None
    return compose_labels(law, three_outcomes(law.form.scale, teachers), queries=queries, grid=grid)
