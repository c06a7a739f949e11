"""Adaptive composition of Gaussian labels of three or more classes, with or without a check of the top count.

Let a vote move from class i to class j, d = n_i - n_j >= 1 (else exchange i with j and the data sets), M the top count
and N the number of teachers, all of whom vote. The first case: i holds the top count alone, d >= 2 M - N, and M falls
by one with the vote if d >= 2. The second: another class holds it on both sides, and eta = (Y - n_i) / sigma is at
least (2 M - N) / sigma + Z, Y the largest noisy count of the others and Z normal. Proof: docs/adaptive.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from ostrakon.accounting.composition.adaptive import (
    Grid,
    Profile,
    Stencils,
    extend,
    left_of,
    start_profile,
    two_points,
)
from ostrakon.accounting.data_independent.noisy_max import AnswerLaw
from ostrakon.accounting.data_independent.three_outcomes import ABSOLUTE_ERROR, ThreeOutcomes
from ostrakon.mechanisms.base import FloatArray
from ostrakon.numerics.compiled import compiled
from ostrakon.votes import IntArray

_BLOCK = 1024
_SCALE = 2.0**100
"""Factor of all values: with it the products of a step stay far above the smallest number of single precision."""

_UNDERFLOW = 2.0**-140
"""Added to every value of a step: more than what products below the smallest number of single precision add up to."""

_MOST_ROUNDING = 0.01
"""The largest share of delta by which single precision, which is twice as fast, may raise a profile."""

_FLOORS: FloatArray = np.concatenate([[-np.inf], np.arange(-2.0, 6.01, 0.5)])
"""Lower ends of the classes of eta that the second case distinguishes; their number is a multiple of three."""

_TOPS_A_BLOCK = 8
"""Neighbouring top counts that are priced together in the second case."""

_Floats = NDArray[np.floating[Any]]
"""Floats of the precision of the computation."""

_Parts = tuple[IntArray, IntArray, _Floats, _Floats, _Floats]
"""near, far, and their weights, as of `Stencils`; constants times `_SCALE`."""


def compose_labels(
    law: AnswerLaw, cover: ThreeOutcomes, *, queries: int, grid: Grid, after: Profile | None = None
) -> Profile | None:
    """Return the privacy profile of adaptively chosen queries; None where the check is too steep for the grid.

    after: the profile of what follows them, on the same grid.
    """
    groups = np.unique(cover.d)
    of_margin, of_eta = np.searchsorted(groups, cover.d), np.searchsorted(_FLOORS, cover.reach, side="right") - 1
    own = np.maximum(1 - cover.share.sum(axis=1), 0)[:, None]
    p, q = np.vstack([cover.p, cover.q]) * np.tile(own, (2, 1)), np.vstack([cover.q, cover.p]) * np.tile(own, (2, 1))
    width = cover.common_p.shape[1]
    p, q = (np.pad(x, ((0, 2), (0, width - 3))) for x in (p, q))
    p[-2:], q[-2:] = cover.common_p, cover.common_q
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.log(q) - np.log(p)
    labels = two_points(p, q, ratio, ratio, grid)
    check = _Check.of(law, groups, grid)
    if check.stencils.reach > grid.count:
        return None
    kind, rounding = _precision(queries, outcomes=width)
    values = _run(
        start_profile(grid).values if after is None else after.values,
        grid.step,
        queries,
        _in_precision(labels, kind),
        labels.reach,
        np.tile(cover.share, (2, 1)).astype(kind),
        np.tile(of_margin, 2),
        np.tile(of_eta, 2),
        len(groups),
        len(_FLOORS),
        check.where,
        _in_precision(check.stencils, kind),
        check.stencils.reach,
        check.still.astype(kind),
        check.still_weights.astype(kind),
        1 + rounding,
        ABSOLUTE_ERROR * (1 + np.exp((grid.count + check.stencils.reach) * grid.step)) + _UNDERFLOW,
    )
    return Profile(grid=grid, values=np.where(values >= 0, values, np.inf))


def _precision(queries: int, *, outcomes: int) -> tuple[type[np.floating[Any]], float]:
    """Return the type of floats for this number of steps, and what a step adds to its value: more than its relative
    rounding.

    A term of a step is rounded at most `outcomes` + 35 times: as a weight and as a value, in products, and in the sums
    over the common outcomes (`outcomes` + 2), a pair's own (5), the classes of eta (18) and the check (4).
    """
    roundings = outcomes + len(_FLOORS) + 24
    single, double = (roundings * float(np.finfo(kind).eps) / 2 + 1e-12 for kind in (np.float32, np.float64))
    return (np.float32, single) if queries * single <= _MOST_ROUNDING else (np.float64, double)


def _in_precision(stencils: Stencils, kind: type[np.floating[Any]]) -> _Parts:
    weights = stencils.near_weight.astype(kind), stencils.far_weight.astype(kind)
    return stencils.near, stencils.far, *weights, (stencils.constant * _SCALE).astype(kind)


@dataclass(frozen=True, eq=False)
class _Check:
    """The effect of the check in every case.

    stencils: of the first case, "refused" and "answered"; where: 2 group + direction of each. still: (refused,
    answered) if the check reveals nothing, the first with any label; the others mix classes of eta by still_weights.
    """

    where: IntArray
    stencils: Stencils
    still: FloatArray
    still_weights: FloatArray

    @classmethod
    def of(cls, law: AnswerLaw, groups: IntArray, grid: Grid) -> _Check:
        answer, refuse = (np.exp(x) for x in law.log_answered())
        n = law.teachers
        top = np.arange(1, n + 1)
        least = np.maximum(2, 2 * top - n)
        index = np.maximum(np.searchsorted(groups, least, side="right") - 1, 0)
        p = np.stack([refuse[top], answer[top]], axis=-1)
        q = np.stack([refuse[top - 1], answer[top - 1]], axis=-1)
        p, q = np.vstack([p, q]), np.vstack([q, p])
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.log(q) - np.log(p)
        stencils = two_points(p, q, ratio, ratio, grid)
        still, weights = [(refuse[(n + 1) // 2], answer[(n + 1) // 2])], [np.zeros(len(_FLOORS))]
        for low in range((n + 1) // 2 + 1, n + 1, _TOPS_A_BLOCK):
            high = min(low + _TOPS_A_BLOCK - 1, n)
            still.append((refuse[high], answer[high]))
            weights.append(_eta_shares((2 * low - n) / law.form.scale))
        return cls(np.concatenate([2 * index, 2 * index + 1]), stencils, np.array(still), np.array(weights))


def _eta_shares(shift: float) -> FloatArray:
    """Return the share of shift + Z in every class of eta, Z normal; rounded toward the lower classes."""
    below = ndtr(np.append(_FLOORS[1:], np.inf) - shift)
    return np.diff(below, prepend=0.0)


@compiled
def _run(
    values: FloatArray,
    h: float,
    steps: int,
    labels: _Parts,
    label_reach: int,
    share: _Floats,
    of_margin: IntArray,
    of_eta: IntArray,
    margins: int,
    floors: int,
    where: IntArray,
    rows: _Parts,
    side: int,
    still: _Floats,
    still_weights: _Floats,
    factor: float,
    slack: float,
) -> FloatArray:
    """Return `steps` steps before `values`; weights and constants (times `_SCALE`) have the precision of the
    computation.
    """
    near, far, near_weight, far_weight, constant = labels
    row_near, row_far, row_near_weight, row_far_weight, row_constant = rows
    kind = share.dtype
    count = len(values) - 1
    reach = label_reach + 2 * side
    middle = count + reach
    size = count + 1 + 2 * side
    pairs = len(share)
    exact, outside, values = np.empty(2 * middle + 1), left_of(h, middle + 1), values.copy()
    wide, common, new = np.empty(2 * middle + 1, kind), np.empty((2, size), kind), np.empty(count + 1, kind)
    best, floor, mixed = np.empty((2 * margins, size), kind), np.empty((floors, size), kind), np.empty_like(new)
    for _ in range(steps):
        extend(values, values, outside, exact)
        for i in range(len(wide)):
            wide[i] = exact[i] * _SCALE
        best[:] = 0.0
        floor[:] = 0.0
        for start in range(0, size, _BLOCK):
            n, at = min(_BLOCK, size - start), middle - side + start
            for r in range(pairs, pairs + 2):
                sum_ = common[r - pairs, start : start + n]
                sum_[:] = constant[r]
                for o in range(near.shape[1]):
                    a, b = near_weight[r, o], far_weight[r, o]
                    left, right = wide[at + near[r, o] : at + near[r, o] + n], wide[at + far[r, o] : at + far[r, o] + n]
                    for i in range(n):
                        sum_[i] += a * left[i] + b * right[i]
            for r in range(pairs):
                # The pairs with the vote moved come first, then their exchange.
                direction = 0 if 2 * r < pairs else 1
                one = best[2 * of_margin[r] + direction, start : start + n]
                two = floor[of_eta[r], start : start + n]
                first, second = common[0, start : start + n], common[1, start : start + n]
                plain, near_share, far_share = constant[r], share[r, 0], share[r, 1]
                a, b, c = near_weight[r, 0], near_weight[r, 1], near_weight[r, 2]
                d, e, f = far_weight[r, 0], far_weight[r, 1], far_weight[r, 2]
                u, v, w = wide[at + near[r, 0] :], wide[at + near[r, 1] :], wide[at + near[r, 2] :]
                x, y, z = wide[at + far[r, 0] :], wide[at + far[r, 1] :], wide[at + far[r, 2] :]
                for i in range(n):
                    value = plain + near_share * first[i] + far_share * second[i]
                    value += a * u[i] + d * x[i]
                    value += b * v[i] + e * y[i]
                    value += c * w[i] + f * z[i]
                    one[i] = max(one[i], value)
                    two[i] = max(two[i], value)
        for g in range(margins - 2, -1, -1):
            best[2 * g] = np.maximum(best[2 * g], best[2 * g + 2])
            best[2 * g + 1] = np.maximum(best[2 * g + 1], best[2 * g + 3])
        for g in range(floors - 2, -1, -1):
            floor[g] = np.maximum(floor[g], floor[g + 1])
        for j in range(count + 1):
            label = max(best[0, side + j], best[1, side + j])
            new[j] = still[0, 0] * wide[middle + j] + still[0, 1] * label
        for s in range(1, len(still)):
            mixed[:] = 0.0
            for g in range(0, floors, 3):
                low, mid, high = floor[g, side:], floor[g + 1, side:], floor[g + 2, side:]
                a, b, c = still_weights[s, g], still_weights[s, g + 1], still_weights[s, g + 2]
                if a + b + c > 0:
                    for j in range(count + 1):
                        mixed[j] += a * low[j] + b * mid[j] + c * high[j]
            here, a, b = wide[middle:], still[s, 0], still[s, 1]
            for j in range(count + 1):
                new[j] = max(new[j], a * here[j] + b * mixed[j])
        for r in range(len(where)):
            label = best[where[r]]
            a, b, c, d = row_near_weight[r, 0], row_far_weight[r, 0], row_near_weight[r, 1], row_far_weight[r, 1]
            left, right = wide[middle + row_near[r, 0] :], wide[middle + row_far[r, 0] :]
            low, high = label[side + row_near[r, 1] :], label[side + row_far[r, 1] :]
            for j in range(count + 1):
                new[j] = max(new[j], row_constant[r] + a * left[j] + b * right[j] + c * low[j] + d * high[j])
        for j in range(count + 1):
            values[j] = min(1.0, new[j] / _SCALE * factor + slack)
    return values
