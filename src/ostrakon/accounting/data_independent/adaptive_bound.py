"""The worst case of labels by adaptive composition: exact up to rounding for two classes, nearly so for more."""

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.special import ndtr

from ostrakon.accounting.composition.adaptive import (
    RELATIVE_ERROR,
    Family,
    Grid,
    Profile,
    compose_adaptively,
    start_profile,
)
from ostrakon.accounting.data_independent.bisection import compose_bisections
from ostrakon.accounting.data_independent.checked_labels import compose_labels
from ostrakon.accounting.data_independent.cover import charged
from ostrakon.accounting.data_independent.label_families import label_family
from ostrakon.accounting.data_independent.noisy_max import AnswerLaw, answer_law
from ostrakon.accounting.data_independent.supremum import two_class_law
from ostrakon.accounting.data_independent.three_outcomes import (
    ABSOLUTE_ERROR,
    every_nth_pair,
    three_outcomes,
    widest,
)
from ostrakon.accounting.rdp import Curve
from ostrakon.mechanisms.base import FloatArray, Mechanism, StatefulMechanism
from ostrakon.mechanisms.gnmax import GNMax
from ostrakon.validation import fraction, positive, whole
from ostrakon.votes import Votes

BASIS = "adaptive composition of labels"

_MOST_WORK = 2e9
"""The most outcomes times grid points times queries for a plan, about a second of one core."""

_COVER = 7000
"""Work of one step at a point of the grid for labels of three classes and more, in outcomes."""

_MOST_MARGINS = 1000
"""The most margins between two classes that are computed one by one."""

_MANY_TEACHERS, _PAIRS_PER_SIGMA = 400, 25
"""Of more teachers and two classes, this number of pairs is kept for each standard deviation of the noise."""

_LITTLE_WORK = 1e8
"""Below it the grid is up to three times finer."""

_SHARE = 0.006
"""The chords add at most this share of the run's variance, divided by six."""

_CLOSE = 3
"""From this effort on, covers of labels are closer."""

_DENSE = 100
"""Up to this number of queries a closer cover of labels has more margins: of more queries they take too long."""

ORDERS: FloatArray = np.concatenate([np.arange(1.25, 4, 0.25), np.geomspace(4, 400, 40)])
"""Rényi orders of the bounds around which a grid is laid."""

_COARSEST = 8.0
"""The largest factor by which the grid may be coarser."""

_LONGEST = 4.0
"""How much more than the most work a run may take whose grid would otherwise be coarser still."""


def two_class_family(mechanism: Mechanism, *, teachers: int) -> Family | None:
    """Return every pair of neighbouring votes of two classes without abstentions, from the mechanism's own outcome law.

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
    law = np.exp(two_class_law(mechanism, teachers))
    # If classes are treated alike, the exchange of n and n + 1 votes is already a pair of the list.
    mirrored = law[::-1][:, [1, 0, 2]]
    alike = np.allclose(law, mirrored, rtol=RELATIVE_ERROR / 100, atol=0)
    return Family(p=law[:-1], q=law[1:], symmetric=bool(alike))


def _labels_alone(mechanism: Mechanism) -> bool:
    """Return whether each query releases the outcome of one law alone, with noise that has a density, as the proofs
    need.
    """
    tied = isinstance(mechanism, StatefulMechanism) or mechanism.per_record or mechanism.contribution_bound is not None
    other = mechanism.releases_counts or mechanism.fixed_queries is not None or mechanism.integer_noise
    return not (tied or other or not mechanism.releasable)


def grid_for(
    *, queries: int, outcomes: float, epsilon: float, delta: float, effort: int = 1, longer: float = _LONGEST
) -> Grid | None:  # fmt: skip
    """Return a grid for the price of a run that is known to be (epsilon, delta)-DP; None if it would take too long.

    Every grid gives an upper bound. A step moves the logarithm of y by about epsilon / sqrt(2 ln(1/delta) queries), and
    the chords must blur it by much less.
    """
    delta = fraction("delta", delta)
    if not 0 < epsilon < 100:
        return None
    deviation = epsilon / math.sqrt(2 * max(-math.log(delta), 0.5))
    step = deviation * math.sqrt(_SHARE / queries)
    length = 1.15 * epsilon + 0.5 * deviation
    work = length / step * queries * outcomes
    coarser = max(
        1.0 if work > _LITTLE_WORK else max(1 / 3, math.sqrt(work / _LITTLE_WORK)), work / _MOST_WORK / effort
    )
    if coarser > _COARSEST * longer:
        return None
    coarser = min(coarser, _COARSEST)
    return Grid(step=step * coarser, count=max(8, math.ceil(length / step / coarser)))


@dataclass(frozen=True, kw_only=True, eq=False)
class Steps:
    """Adaptive steps of one kind, before the profile of what follows them.

    queries: their number. outcomes: how many stencils one of them takes at a point of the grid. compose: from the grid
    and the profile of what follows (None: nothing) to the profile from here on; None where the grid does not serve.
    family: the pairs, where their Rényi divergence may be below the known bound.
    """

    queries: int
    outcomes: float
    compose: Callable[[Grid, Profile | None], Profile | None]
    family: Family | None = None

    @classmethod
    def of(cls, family: Family, queries: int, *, slack: float = 0.0) -> Self:
        """Return steps for queries of one family."""

        def compose(grid: Grid, after: Profile | None) -> Profile | None:
            return compose_adaptively([(family, queries)], grid=grid, after=after, slack=slack)

        return cls(queries=queries, outcomes=family.p.size, compose=compose)


def gaussian_step(mu: float) -> Steps:
    """Return one step that is mu-Gaussian-DP, whatever it releases."""

    def compose(grid: Grid, after: Profile | None) -> Profile | None:
        return compose_adaptively([(gaussian_family(mu, grid), 1)], grid=grid, after=after)

    return Steps(queries=1, outcomes=0, compose=compose)


def compose_steps(steps: Sequence[Steps], grid: Grid) -> Profile | None:
    """Return the profile of these steps, first to last."""
    profile = start_profile(grid)
    for one in reversed(steps):
        after = one.compose(grid, profile)
        if after is None:
            return None
        profile = after
    return profile


@functools.lru_cache(maxsize=256)
def adaptive_profile(
    mechanism: Mechanism, *, queries: int, answers: int, teachers: int | None, classes: int | None,
    abstentions: bool, capped: bool, epsilon: float, delta: float, effort: int = 1,
) -> Profile | None:  # fmt: skip
    """Return the privacy profile of adaptively chosen queries around (epsilon, delta); None if no theorem applies.

    Parameters
    ----------
    mechanism, queries, teachers, classes, abstentions
        As for `worst_case`.
    answers : int
        The most labels that the run gives.
    capped : bool
        Whether to price checks and labels apart, so that `answers` counts; otherwise every query may be answered.
    epsilon, delta : float
        A known guarantee of the run, around which the grid is centred.
    effort : int
        How much more work than for a plan is worth a smaller bound.

    Returns
    -------
    Profile or None
        An upper bound on delta at every epsilon, for all votes and all choices of queries.

    Notes
    -----
    With a cap, checks and labels are composed apart: S^queries T^answers V_0. Source: docs/adaptive.md.
    """
    sizes: dict[str, Any] = {"queries": queries, "answers": answers, "teachers": teachers, "classes": classes}
    # A form that needs no more than the work of a plan is closer than one on the coarsest grid.
    for longer in (1.0, _LONGEST):
        for steps in adaptive_steps(mechanism, **sizes, abstentions=abstentions, capped=capped, effort=effort):
            labels, known = steps[-1], epsilon
            if labels.family is not None:
                curve = Curve(ORDERS, renyi_costs(labels.family, ORDERS, steps=labels.queries))
                known = min(known, curve.epsilon(delta=delta)[0])
            work: dict[str, Any] = {"queries": labels.queries, "outcomes": labels.outcomes, "effort": effort}
            grid = grid_for(**work, epsilon=known, delta=delta, longer=longer)
            if grid is not None:
                return compose_steps(steps, grid)
    return None


def adaptive_steps(
    mechanism: Mechanism, *, queries: int, answers: int, teachers: int | None, classes: int | None, abstentions: bool,
    capped: bool, effort: int,
) -> Iterator[list[Steps]]:  # fmt: skip
    """Yield the queries of one mechanism as steps, first to last, in every form that is known; the closest form first.

    Parameters are those of `adaptive_profile`.
    """
    if classes is None or not _labels_alone(mechanism):
        return
    size: dict[str, Any] = {"teachers": teachers, "classes": classes, "abstentions": abstentions, "effort": effort}
    comparison = mechanism.comparison(classes)
    if comparison is not None:
        yield from ([one] for one in _bisection_steps(comparison, queries=answers, **size))
        return
    if not capped:
        yield from ([one] for one in _label_steps(mechanism, queries=queries, **size))
        return
    gaussian = mechanism.gaussian_dp()
    form = mechanism.noisy_argmax(Votes([[1] + [0] * (classes - 1)]))
    if gaussian is None or form is None or form.noise != "gaussian":
        return
    checks = [gaussian_step(math.sqrt(queries) * gaussian[0])] if gaussian[0] > 0 else []
    for labels in _label_steps(GNMax(sigma2=form.scale), queries=answers, **size):
        yield [*checks, labels]


def gaussian_family(mu: float, grid: Grid) -> Family:
    """Return N(0, 1) against N(mu, 1) in cells as wide as the grid; every refinement of a cell is covered."""
    positive("mu", mu)
    cells = max(16, math.ceil(20 * mu / grid.step))
    edges = np.concatenate([[-np.inf], np.linspace(-10, 10 + mu, cells), [np.inf]])
    # The tail that is smaller is the exact one.
    p, q = (np.where(x[1:] > 0, ndtr(-x[:-1]) - ndtr(-x[1:]), np.diff(ndtr(x))) for x in (edges, edges - mu))
    ratio = mu * edges - mu * mu / 2
    slack = 1e-12 * (1 + mu * mu)
    return Family(p=p[None], q=q[None], low=ratio[None, :-1] - slack, high=ratio[None, 1:] + slack)


def _label_steps(
    mechanism: Mechanism, *, queries: int, teachers: int | None, classes: int, abstentions: bool, effort: int
) -> Iterator[Steps]:
    """Yield steps for queries, each of which may be answered."""
    if classes == 2 and teachers is not None and not abstentions:
        every = two_class_family(mechanism, teachers=teachers)
        if every is not None:
            family = _thinned(every, mechanism, teachers)
            yield Steps.of(family, queries, slack=0.0 if family is every else ABSOLUTE_ERROR)
    votes: dict[str, Any] = {"teachers": teachers, "classes": classes, "abstentions": abstentions}
    family = label_family(mechanism, **votes, close=effort >= _CLOSE)
    if family is not None:
        yield dataclasses.replace(Steps.of(family, queries), family=family)
        return
    law = answer_law(mechanism, teachers=1 if teachers is None else teachers, classes=classes)
    if law is None or law.form.noise != "gaussian" or (teachers is None and law.threshold_test is not None):
        return
    if widest(law.form.scale, teachers) > _MOST_MARGINS:
        return
    if law.threshold_test is None:
        # Without a check the top count is of no consequence.
        law = dataclasses.replace(law, teachers=1)
    yield _gaussian_labels(law, queries, teachers, abstentions=abstentions, close=effort >= _CLOSE)


def _bisection_steps(
    comparison: Mechanism, *, queries: int, teachers: int | None, classes: int, abstentions: bool, effort: int
) -> Iterator[Steps]:
    """Yield steps for queries that each bisect ordered classes: first closely, then each as the most comparisons that
    it takes.
    """
    every = (classes - 1).bit_length() * queries
    family = None if teachers is None or abstentions else two_class_family(comparison, teachers=teachers)
    if family is not None:

        def compose(grid: Grid, after: Profile | None) -> Profile | None:
            after = start_profile(grid) if after is None else after
            return compose_bisections(family, classes=classes, queries=queries, grid=grid, after=after)

        yield Steps(queries=every, outcomes=2 * family.p.size, compose=compose)
    yield from _label_steps(
        comparison, queries=every, teachers=teachers, classes=2, abstentions=abstentions, effort=effort
    )


def _gaussian_labels(law: AnswerLaw, queries: int, teachers: int | None, *, abstentions: bool, close: bool) -> Steps:
    def compose(grid: Grid, after: Profile | None) -> Profile | None:
        dense = close and queries <= _DENSE
        cover = three_outcomes(law.form.scale, teachers, abstentions=abstentions, close=close, dense=dense)
        return compose_labels(law, cover, queries=queries, grid=grid, after=after)

    return Steps(queries=queries, outcomes=_COVER, compose=compose)


def _thinned(family: Family, mechanism: Mechanism, teachers: int) -> Family:
    """Return fewer pairs where teachers are many: one vote more or less hardly matters under noise of many votes."""
    form = mechanism.noisy_argmax(Votes([[1, 0]]))
    if teachers <= _MANY_TEACHERS or form is None or form.noise != "gaussian":
        return family
    return every_nth_pair(family, max(1, int(form.scale / _PAIRS_PER_SIGMA)), form.scale) or family


def renyi_costs(family: Family, orders: FloatArray, *, steps: int) -> FloatArray:
    """Return a bound on the Rényi divergence of `steps` adaptive steps at each order, shape (orders,); inf means
    unknown.

    Guarantee: for all pairs that the family covers. Its inequalities hold for every decreasing convex function of
    Q/P, and the moment of order a is the mean of (Q/P)^(1 - a). Charged errors exceed the rounding of this sum.
    """

    def moments(p: FloatArray | None, q: FloatArray | None, a: float) -> FloatArray:
        if p is None or q is None:
            return np.zeros(1)
        return np.where(p > 0, np.exp(a * np.log(p) + (1 - a) * np.log(q)), 0.0).sum(axis=-1)

    costs = np.full(len(orders), np.inf)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        for at, a in enumerate(orders.tolist()):
            pairs = np.concatenate([moments(family.p, family.q, a), moments(family.q, family.p, a)])
            moment = max(1.0, pairs.max(initial=0.0) + moments(family.common_p, family.common_q, a).max())
            if moment < math.inf:
                costs[at] = steps * math.log(moment) / (a - 1)
    return costs


def label_costs(
    mechanism: Mechanism, orders: FloatArray, *, queries: int, teachers: int | None, classes: int | None,
    abstentions: bool,
) -> FloatArray:  # fmt: skip
    """Return the Rényi curve of labels, shape (orders,); inf where no family applies: Gaussian noise, three classes and
    more.

    Parameters and guarantee are those of `worst_case_curve`. Source: docs/adaptive.md.
    """
    family = None
    if classes == 2 and teachers is not None and not abstentions:
        exact = two_class_family(mechanism, teachers=teachers)
        family = None if exact is None else charged(exact, RELATIVE_ERROR)
    elif classes is not None and _labels_alone(mechanism):
        family = label_family(mechanism, teachers=teachers, classes=classes, abstentions=abstentions, close=True)
    return np.full(len(orders), np.inf) if family is None else renyi_costs(family, orders, steps=queries)
