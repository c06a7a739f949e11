"""Adaptive composition of Gaussian labels of three or more classes, with or without a check of the top count.

Let a vote move from class i to class j, d = n_i - n_j >= 1 (else exchange i with j and the data sets), M the top count
and N the number of teachers, all of whom vote. The first case: i holds the top count alone, d >= 2 M - N, and M falls
by one with the vote if d >= 2. The second: another class holds it on both sides, and eta = (Y - n_i) / sigma is at
least (2 M - N) / sigma + Z, Y the largest noisy count of the others and Z normal. Proof: docs/adaptive.md.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from ostrakon.accounting.composition.adaptive import Grid, Profile, extend, left_of, start_profile, two_points
from ostrakon.accounting.data_independent.noisy_max import AnswerLaw
from ostrakon.accounting.data_independent.three_outcomes import ABSOLUTE_ERROR, ThreeOutcomes
from ostrakon.mechanisms.base import FloatArray
from ostrakon.numerics.compiled import compiled
from ostrakon.votes import IntArray

_BLOCK = 256
_FLOORS: FloatArray = np.concatenate([[-np.inf], np.arange(-2.0, 6.01, 0.5)])
"""Lower ends of the classes of eta that the second case distinguishes."""

_TOPS_A_BLOCK = 8
"""Neighbouring top counts that are priced together in the second case."""


def compose_labels(
    law: AnswerLaw, cover: ThreeOutcomes, *, queries: int, grid: Grid, after: Profile | None = None
) -> Profile | None:
    """The privacy profile of adaptively chosen queries; None where the check is too steep for the grid.

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
    if check.reach > grid.count:
        return None
    values = _run(
        start_profile(grid).values if after is None else after.values,
        grid.step,
        queries,
        labels.parts(),
        np.tile(cover.share, (2, 1)),
        np.tile(of_margin, 2),
        np.tile(of_eta, 2),
        len(groups),
        len(_FLOORS),
        check.rows,
        check.reach,
        check.still,
        check.still_weights,
        ABSOLUTE_ERROR * (1 + np.exp((grid.count + check.reach) * grid.step)),
    )
    return Profile(grid=grid, values=np.where(values >= 0, values, np.inf))


class _Check:
    """The effect of the check in every case, as stencils.

    rows: of the first case, (index, near, far, near weight, far weight) of "refused" and of "answered", and constants;
    index = 2 group + direction. still: (refused, answered) if the check reveals nothing, the first with any label; the
    others mix classes of eta by still_weights.
    """

    def __init__(
        self, rows: tuple[IntArray, IntArray, IntArray, FloatArray, FloatArray, FloatArray], reach: int,
        still: FloatArray, still_weights: FloatArray,
    ) -> None:  # fmt: skip
        self.rows, self.reach, self.still, self.still_weights = rows, reach, still, still_weights

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
        parts = two_points(p, q, ratio, ratio, grid)
        where = np.concatenate([2 * index, 2 * index + 1])
        rows = (where, parts.near, parts.far, parts.near_weight, parts.far_weight, parts.constant)
        still, weights = [(refuse[(n + 1) // 2], answer[(n + 1) // 2])], [np.zeros(len(_FLOORS))]
        for low in range((n + 1) // 2 + 1, n + 1, _TOPS_A_BLOCK):
            high = min(low + _TOPS_A_BLOCK - 1, n)
            still.append((refuse[high], answer[high]))
            weights.append(_eta_shares((2 * low - n) / law.form.scale))
        return cls(rows, parts.reach, np.array(still), np.array(weights))


def _eta_shares(shift: float) -> FloatArray:
    """The share of shift + Z in every class of eta, Z normal; rounded toward the lower classes."""
    below = ndtr(np.append(_FLOORS[1:], np.inf) - shift)
    return np.diff(below, prepend=0.0)


@compiled
def _run(
    values: FloatArray,
    h: float,
    steps: int,
    labels: tuple[IntArray, IntArray, FloatArray, FloatArray, FloatArray, int],
    share: FloatArray,
    of_margin: IntArray,
    of_eta: IntArray,
    margins: int,
    floors: int,
    rows: tuple[IntArray, IntArray, IntArray, FloatArray, FloatArray, FloatArray],
    side: int,
    still: FloatArray,
    still_weights: FloatArray,
    slack: float,
) -> FloatArray:
    near, far, near_weight, far_weight, constant, label_reach = labels
    where, row_near, row_far, row_near_weight, row_far_weight, row_constant = rows
    count = len(values) - 1
    reach = label_reach + 2 * side
    middle = count + reach
    size = count + 1 + 2 * side
    pairs = len(share)
    wide, common = np.empty(2 * middle + 1), np.empty((2, size))
    best, floor, mixed = np.empty((2 * margins, size)), np.empty((floors, size)), np.empty(count + 1)
    values, outside = values.copy(), left_of(h, middle + 1)
    for _ in range(steps):
        extend(values, values, outside, wide)
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
            values[j] = still[0, 0] * wide[middle + j] + still[0, 1] * label
        for s in range(1, len(still)):
            mixed[:] = 0.0
            for g in range(floors):
                weight = still_weights[s, g]
                if weight > 0:
                    for j in range(count + 1):
                        mixed[j] += weight * floor[g, side + j]
            for j in range(count + 1):
                values[j] = max(values[j], still[s, 0] * wide[middle + j] + still[s, 1] * mixed[j])
        for r in range(len(where)):
            label = best[where[r]]
            a, b, c, d = row_near_weight[r, 0], row_far_weight[r, 0], row_near_weight[r, 1], row_far_weight[r, 1]
            left, right = wide[middle + row_near[r, 0] :], wide[middle + row_far[r, 0] :]
            low, high = label[side + row_near[r, 1] :], label[side + row_far[r, 1] :]
            for j in range(count + 1):
                values[j] = max(values[j], row_constant[r] + a * left[j] + b * right[j] + c * low[j] + d * high[j])
        for j in range(count + 1):
            values[j] = min(1.0, values[j] * (1.0 + 1e-12) + slack)
    return values
