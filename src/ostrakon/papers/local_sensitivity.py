"""How far the published cost of a label can move with one vote: Algorithms 3 and 4 of the 2018 paper, for GNMax."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr as log_ndtr_of_array
from scipy.special import ndtri_exp

from ostrakon.accounting.published.pate_2018 import beta, log_q0, require_order
from ostrakon.mechanisms.base import FloatArray
from ostrakon.numerics.compiled import compiled
from ostrakon.numerics.normal import log_ndtr
from ostrakon.validation import InvalidInput, positive, settle, whole
from ostrakon.votes import IntArray, Votes

_MOST_TEACHERS = 10_000_000
"""A table has an entry per possible gap."""


@dataclass(frozen=True, kw_only=True)
class LabelSensitivity:
    """Algorithm 3 for GNMax at one order: how far a query's cost beta(q) can move with one vote, from q alone.

    sigma: GNMax's noise, in votes. order: the Rényi order. classes: number of classes.
    log_q0: above it the data-independent cost applies; log_q1 = ln B_L(q0); plateau: the sensitivity between them.
    Source: pate-2018, Appendix B.1.
    """

    sigma: float
    order: float
    classes: int
    log_q0: float = field(init=False)
    log_q1: float = field(init=False)
    plateau: float = field(init=False)

    def __post_init__(self) -> None:
        settle(self, sigma=positive, order=lambda _, order: require_order(order))
        others = math.log(whole("classes", self.classes, at_least=2) - 1)
        # B_L maps q to (m-1) Phi(x - sqrt(2)/sigma), x = Phi^-1(q / (m-1)); its inverse B_U adds sqrt(2)/sigma.
        q0 = log_q0(sigma=self.sigma, order=self.order)
        shift = math.sqrt(2) / self.sigma
        q1, q2 = others + log_ndtr_of_array(ndtri_exp(q0 - others) - shift * np.array([1, 2]))
        at_q1, at_q2 = _betas.interpreted(np.array([q1, q2]), self.sigma, self.order)
        # Just above q0 the cost is the data-independent one, whether or not Theorem 6 meets it there.
        plateau = max(self.order / self.sigma**2 - at_q1, at_q1 - at_q2)
        for name, value in (("log_q0", q0), ("log_q1", q1), ("plateau", plateau)):
            object.__setattr__(self, name, float(value))

    def __call__(self, log_q: FloatArray) -> FloatArray:
        """Return the sensitivity at each ln q, shape (any,)."""
        x = ndtri_exp(np.minimum(log_q - math.log(self.classes - 1), -1e-300))
        algorithm_3 = _algorithm_3.worth(2e-5 * len(log_q))
        inner = algorithm_3(log_q, x, self.sigma, self.order, self.log_q0, self.classes)
        return np.where((log_q >= self.log_q1) & (log_q <= self.log_q0), self.plateau, inner)

    def check_conditions(self, *, teachers: int) -> None:
        """Refuse, naming the order, where conditions C5 or C6 fail on a grid of every q that `teachers` can reach.

        C5: beta(q) does not decrease up to q0 <= 1/2, and q0 is reached. C6: beta(B_U(q)) - beta(q) does not decrease
        up to B_L(q0). The grid has sixteen points per application of B_U, evenly in Phi^-1(q / (m-1)), where one vote
        is a step of sqrt(2)/sigma. A numeric check, as the paper's: not a proof between the grid's points.
        Source: pate-2018, Appendix B.2 and B.4.2.
        """
        teachers = whole("teachers", teachers, at_least=1)
        where = f"at order {self.order:g} (sigma {self.sigma:g}, {self.classes} classes, {teachers} teachers)"
        refused = "Smooth sensitivity is not defined {}: {}. Choose another order or more noise."
        x0 = float(ndtri_exp(self.log_q0 - math.log(self.classes - 1)))
        shift = math.sqrt(2) / self.sigma
        furthest = -teachers / (math.sqrt(2) * self.sigma) - shift
        if not self.log_q0 <= math.log(0.5):
            raise InvalidInput(refused.format(where, "condition C5 fails, q0 is above 1/2"))
        if not furthest + shift < x0:
            raise InvalidInput(refused.format(where, "even unanimous teachers are charged the data-independent cost"))
        per_vote = 16
        steps = math.ceil((x0 - furthest) / shift * per_vote)
        x = x0 - (shift / per_vote) * np.arange(steps, -1, -1)
        log_q = np.minimum(math.log(self.classes - 1) + log_ndtr_of_array(x), self.log_q0)
        costs = _betas.worth(5e-6 * len(log_q))(log_q, self.sigma, self.order)
        independent = self.order / self.sigma**2
        # At q0 itself the data-independent cost takes over.
        costs[-1] = independent
        noise = 1e-12 * costs[1:] + 1e-300
        if not (np.diff(costs) >= -noise).all() or not (costs[:-1] < independent).all():
            raise InvalidInput(refused.format(where, "condition C5 fails, the cost does not grow with q up to q0"))
        growth = costs[per_vote:] - costs[:-per_vote]
        if not (np.diff(growth) >= -noise[per_vote:]).all():
            raise InvalidInput(refused.format(where, "condition C6 fails, the cost's growth with q slows below q0"))


def label_sensitivities(
    votes: Votes, *, sigma2: float, order: float, distances: int | None = None, check: bool = True
) -> FloatArray:
    """Algorithm 4 for GNMax: the largest local sensitivity within d votes, shape (queries, distances).

    sigma2: GNMax's noise. order: the Rényi order. distances: how many of d = 0, 1, 2, ..; default: the teachers.
    check: whether conditions C5 and C6 are checked; without it the algorithm runs as the published code does.
    Private. Errors: `InvalidInput` where C5 or C6 fails, or where teachers abstain.
    Source: pate-2018, Algorithms 3 and 4.
    """
    law = LabelSensitivity(sigma=sigma2, order=order, classes=votes.classes)
    rows = sorted_histograms(votes, law, check)
    distances = votes.teachers if distances is None else whole("distances", distances, at_least=1)
    unique, inverse = distinct(rows)
    return at_distances(unique, law, np.arange(distances))[inverse]


def sorted_histograms(votes: Votes, law: LabelSensitivity, check: bool) -> IntArray:
    if votes.abstentions and votes.abstained.any():
        raise InvalidInput("Smooth sensitivity is not defined for votes with abstentions: every teacher must vote.")
    whole("teachers", votes.teachers, at_most=_MOST_TEACHERS)
    if check:
        law.check_conditions(teachers=votes.teachers)
    return -np.sort(-votes.counts, axis=1)


def distinct(rows: IntArray) -> tuple[IntArray, NDArray[np.intp]]:
    unique, inverse = np.unique(rows, axis=0, return_inverse=True)
    return unique, inverse.reshape(-1)


def at_distances(rows: IntArray, law: LabelSensitivity, distances: IntArray) -> FloatArray:
    """Algorithm 4 for histograms sorted downward, at each distance by itself; (rows, distances)."""
    teachers = int(rows[0].sum()) if len(rows) else 0
    log_tail = log_ndtr_of_array(-np.arange(teachers + 1) / (math.sqrt(2) * law.sigma))
    run = _log_q_at_distances.worth(3e-7 * rows.size * len(distances))
    log_q = run(rows, distances, log_tail, np.exp(log_tail), law.log_q0, law.log_q1)
    result = np.full(log_q.shape, law.plateau)
    short = log_q < 0
    result[short] = law(log_q[short])
    return result


@compiled
def _betas(log_q: FloatArray, sigma: float, order: float) -> FloatArray:
    result = np.empty(len(log_q))
    for i in range(len(log_q)):
        result[i] = beta(float(log_q[i]), sigma, order)
    return result


@compiled
def _algorithm_3(log_q: FloatArray, x: FloatArray, sigma: float, order: float, q0: float, classes: int) -> FloatArray:
    """Return max(beta(B_U(q)) - beta(q), beta(q) - beta(B_L(q))) from ln q and x = Phi^-1(q / (classes - 1))."""
    independent = order / sigma**2
    shift = math.sqrt(2) / sigma
    others = math.log(classes - 1)
    result = np.empty(len(log_q))
    for i in range(len(log_q)):
        this, at = float(log_q[i]), float(x[i])
        here = independent if this >= q0 else beta(this, sigma, order)
        upper = others + log_ndtr(at + shift)
        above = independent if upper >= q0 else beta(upper, sigma, order)
        lower = others + log_ndtr(at - shift)
        below = independent if lower >= q0 else beta(lower, sigma, order)
        result[i] = max(above - here, here - below)
    return result


@compiled
def _log_q_at_distances(
    rows: IntArray, distances: IntArray, log_tail: FloatArray, tail: FloatArray, q0: float, q1: float
) -> FloatArray:
    """Return ln q of Algorithm 4's histogram at each distance; 1 where the path is at its plateau by then.

    rows: sorted downward. log_tail[g], tail[g]: ln Phi and Phi of minus a gap of g votes, in noise units.
    Towards larger q the top gives one vote a step to the second; towards smaller q it takes one from the currently
    second highest: after d steps the highest others are level. ln q moves one way along a path, so its value at d
    tells whether the path has entered [q1, q0] before.
    """
    queries, classes = rows.shape
    most = math.log1p(-1 / classes)
    result = np.ones((queries, len(distances)))
    v = np.empty(classes, dtype=np.int64)
    for i in range(queries):
        start = _log_q_of_sorted(rows[i], log_tail, tail, most)
        if q1 <= start <= q0:
            continue
        others = rows[i, 1:].sum()
        lead = rows[i, 0] - rows[i, 1]
        for k in range(len(distances)):
            d = distances[k]
            if start < q1:
                if lead < 2 * d:
                    continue
                v[:] = rows[i]
                v[0] -= d
                v[1] += d
            else:
                if d > others:
                    continue
                v[:] = rows[i]
                v[0] += d
                _level(v, d)
            log_q = _log_q_of_sorted(v, log_tail, tail, most)
            if (start < q1 and log_q < q1) or (start > q0 and log_q > q0):
                result[i, k] = log_q
    return result


@compiled
def _level(v: IntArray, d: int) -> None:
    """Take d votes from v[1:], one at a time from the currently highest; v stays sorted."""
    classes = len(v)
    kept = 0
    for width in range(1, classes):
        kept += v[width]
        floor = v[width + 1] if width + 1 < classes else 0
        if kept - width * floor >= d:
            low, rest = divmod(kept - d, width)
            for j in range(1, width + 1):
                v[j] = low + 1 if j <= rest else low
            return


@compiled
def _log_q_of_sorted(v: IntArray, log_tail: FloatArray, tail: FloatArray, most: float) -> float:
    """Return ln q of Proposition 7 from a table; v[1] is the runner-up."""
    classes, top = len(v), int(v[0])
    lead = float(log_tail[top - int(v[1])])
    total = 0.0
    if lead > -600:
        for j in range(1, classes):
            other = int(v[j])
            if other == 0:
                total += (classes - j) * float(tail[top])
                break
            total += float(tail[top - other])
        return min(math.log(total), most)
    # The tails underflow: the others are summed relative to the runner-up.
    for j in range(1, classes):
        total += math.exp(float(log_tail[top - int(v[j])]) - lead)
    return min(lead + math.log(total), most)
