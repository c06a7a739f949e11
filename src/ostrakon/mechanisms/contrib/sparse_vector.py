"""Sparse vector: exact pluralities; only refusals cost."""

import math
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Annotated, ClassVar

import numpy as np

from ostrakon.mechanisms.base import NO_ANSWER, FloatArray, Parameter, RunCost, StabilityThreshold, StatefulMechanism
from ostrakon.mechanisms.laws.laplace import laplace_log_above
from ostrakon.mechanisms.laws.stability import distance_to_instability
from ostrakon.mechanisms.registry import register
from ostrakon.noise import require_rng
from ostrakon.validation import scale, whole
from ostrakon.votes import IntArray, Votes


@register
@dataclass(frozen=True, kw_only=True)
class SparseVector(StatefulMechanism):
    """Exact answers while d + Lap(2/epsilon2) > threshold + rho, refusals otherwise; ends after `refusals` of them.

    Parameters
    ----------
    threshold : float
        w, in moved votes; above 0. rho ~ Lap(1/epsilon1) is drawn again after every refusal; d is the distance to
        instability.
    refusals : int
        T, the number of refusals that end the run; at least 1. Every later query has no answer.
    epsilon1 : float
        Pure epsilon of the noisy threshold; above 0.
    epsilon2 : float
        Pure epsilon of the noisy distances; above 0.

    Raises
    ------
    InvalidInput
        If a number is not finite and above 0, or refusals is not an integer of at least 1.

    Notes
    -----
    One call of `sample` is one whole run: rho and T tie its queries together. Asking again is a new run with a new
    cost.

    Guarantee: one run of k queries is (T (epsilon1 + epsilon2), delta_w)-DP with
    `delta_w = min_x [T e^{-epsilon1 x} / 2 + k e^{-epsilon2 (w - x) / 2} / 2]`, whatever the number of answers.

    Proof: between refusals, shifting rho by 1 makes every answer of the other data set at least as likely (epsilon1),
    and shifting the noise of the refusal by 2 its refusal (epsilon2). Answers reveal the plurality too, which is the
    same for neighbours unless d = 0 at both; answering one such query has probability at most delta_w.

    References
    ----------
    Dwork and Roth 2014, section 3.6; Lyu, Su and Li 2017 (noise 2/epsilon2); docs/mathematics.md E (ii).

    Examples
    --------
    >>> mechanism = SparseVector(threshold=40, refusals=1, epsilon1=0.5, epsilon2=0.5)
    >>> mechanism.run_cost(queries=10).failure <= 1e-2
    True
    """

    name: ClassVar[str] = "sparse-vector"

    threshold: StabilityThreshold
    refusals: Annotated[
        int, Parameter(help="Number of refusals after which queries get no answer.", check=partial(whole, at_least=1))
    ]
    epsilon1: Annotated[float, Parameter(help="Pure epsilon of the noisy threshold.", check=scale)]
    epsilon2: Annotated[float, Parameter(help="Pure epsilon of the noisy distances.", check=scale)]

    def sample(self, votes: Votes, rng: np.random.Generator) -> IntArray:
        rng = require_rng(rng)
        rho = rng.laplace(scale=1 / self.epsilon1, size=self.refusals)
        level = distance_to_instability(votes) + rng.laplace(scale=2 / self.epsilon2, size=votes.queries)
        answers = votes.plurality
        start = 0
        for bar in self.threshold + rho:
            below = (level[start:] <= bar).nonzero()[0]
            if not len(below):
                return answers
            start += int(below[0])
            answers[start] = NO_ANSWER
            start += 1
        answers[start:] = NO_ANSWER
        return answers

    def log_probabilities(self, votes: Votes) -> FloatArray:
        """Return the law of each query's outcome *within this batch, in this order*, averaged over the others.

        Shape (queries, classes + 1). The outcomes are dependent: their product is not the law of a run, so costs are
        never computed from them. Accurate to about 1e-12.
        """
        distance = distance_to_instability(votes)
        nodes, weights = _laplace_rule(
            scale=1 / self.epsilon1,
            kinks=np.unique(distance).astype(np.float64) - self.threshold,
            smooth=2 / self.epsilon2,
        )
        # mass[t] over rho: t refusals so far. One step per query, in their order.
        mass = np.zeros((self.refusals, len(nodes)))
        mass[0] = weights
        result = np.full((votes.queries, votes.classes + 1), -np.inf)
        for query, (d, winner) in enumerate(zip(distance, votes.plurality, strict=True)):
            passed, refused = laplace_log_above(d - self.threshold - nodes, 2 / self.epsilon2)
            answered = mass * np.exp(passed)
            lost = (mass * np.exp(refused)).sum(axis=1)
            total = float(answered.sum())
            with np.errstate(divide="ignore"):
                result[query, winner] = np.log(min(total, 1.0))
                result[query, -1] = np.log(max(1.0 - total, 0.0))
            mass = answered
            mass[1:] += lost[:-1, None] * weights
        return result

    def worst_case(self, orders: FloatArray) -> FloatArray:
        # One query has no cost of its own: `run_cost` prices the run as a whole.
        return np.full(np.shape(orders), np.inf)

    def failure(self, *, queries: int) -> float:
        """Return delta_w: an upper bound on the delta that a run of `queries` queries spends on answers to unstable
        ones.
        """
        k = whole("queries", queries)
        if k == 0:
            return 0.0
        w, e1, e2, refusals = self.threshold, self.epsilon1, self.epsilon2, self.refusals

        def log_bound(x: float) -> float:
            return float(np.logaddexp(math.log(refusals / 2) - e1 * x, math.log(k / 2) - e2 * (w - x) / 2))

        # Any x gives a bound, so the minimizer's tolerance cannot make it too small.
        from scipy.optimize import minimize_scalar

        minimum = minimize_scalar(log_bound, bounds=(0, w), method="bounded", options={"xatol": 1e-9 * w})
        return min(1.0, math.exp(min(log_bound(float(minimum.x)), log_bound(w))) * (1 + 1e-12))

    def run_cost(self, *, queries: int) -> RunCost:
        k = whole("queries", queries, at_least=1)
        # A run of k queries has at most k refusals, even if it allows more.
        checks = min(self.refusals, k)
        return RunCost(epsilon=self.epsilon1 + self.epsilon2, checks=checks, failure=self.failure(queries=k))


def _laplace_rule(*, scale: float, kinks: FloatArray, smooth: float) -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights of the mean over Lap(scale) of functions analytic between `kinks` at the length
    `smooth`.
    """
    end = 40 * scale
    inner = kinks[(kinks > -end) & (kinks < end)]
    edges = np.unique(np.concatenate([[-end, 0.0, end], inner]))
    longest = 2 * min(scale, smooth)
    pieces = [
        np.linspace(low, high, max(1, math.ceil((high - low) / longest)) + 1)[:-1] for low, high in pairwise(edges)
    ]
    cuts = np.append(np.concatenate(pieces), end)
    x, w = np.polynomial.legendre.leggauss(16)
    half = np.diff(cuts)[:, None] / 2
    nodes = (cuts[:-1, None] + half * (x + 1)).ravel()
    weights = (half * w).ravel() * np.exp(-np.abs(nodes) / scale) / (2 * scale)
    return nodes, weights / weights.sum()
