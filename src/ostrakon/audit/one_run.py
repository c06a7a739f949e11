"""A lower bound on epsilon from one run: many canaries, each with a random label, guessed from what was released."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from ostrakon.accounting.composition.gaussian_dp import gaussian_dp_epsilon
from ostrakon.validation import InvalidInput, fraction, non_negative, whole

_SHARES = (1.0, 0.5, 0.25, 0.1, 0.05)
_ROUNDING = 1e-9
_LARGEST_MU = 64.0


def too_many_correct(mu: float, *, correct: int, guesses: int, canaries: int, error: float) -> bool:
    """Whether `correct` or more of `guesses` right guesses have a probability below `error` under mu-Gaussian DP.

    canaries: m records whose labels were set by m independent fair coins; guesses: r of them that the adversary chose
    to guess, having seen the release alone (and whatever does not depend on the coins).

    Derivation. Let C be the number of right guesses and p_c its law. Fix all coins but the i-th, and consider the
    releases on which the guess of i is b and exactly c - 1 others are right. With coin b this is "i is right and
    C = c", with the other coin "i is wrong and C = c - 1", and the two data sets differ in one record. With the
    trade-off function f and its complement g(x) = 1 - f(x), which is concave and increasing, the probability of a set
    of releases is at most g of its probability under the other coin; so is, by Jensen's inequality, the mean over i
    and all coins. A canary drawn at random is guessed and right with probability c / m where C = c, and guessed and
    wrong with (r - c) / m. Summed over c >= t:

        H_t <= g(R_{t-1}),  H_t = sum_{c >= t} p_c c / m,  R_t = sum_{c >= t} p_c (r - c) / m      for t = 1 ... r.

    Suppose P(C >= k) = tau. The mass below k that these inequalities require, level by level from t = k down, is least
    if all of tau sits at k and each p_{t-1} is the smallest with R_{t-1} >= g^{-1}(H_t). Proof by induction over the
    levels: let V(H, R) be the least mass below that is needed. It grows with H and falls with R. And mass x added at
    a level c' above t saves at most x below: it raises R by x (r - c') / m, for which y = x (r - c') / (r - t) <= x at
    level t does as well, and y raises H by less than x does, y t <= x c'. So to add more than needed at any level, or
    above, never lowers the total. If tau and that mass together exceed 1, then P(C >= k) < tau; the total grows with
    tau, by the same exchange, so one look at tau = `error` decides.

    Source: Mahloujifar, Melis and Chaudhuri 2024, "Auditing f-differential privacy in one run" (arXiv 2410.22235),
    whose recursion this is; the game is that of Steinke, Nasr and Jagielski 2023 (arXiv 2305.08846).

    >>> too_many_correct(0.5, correct=90, guesses=100, canaries=100, error=0.05)
    True
    """
    mu = non_negative("mu", mu)

    def inverse(share: float) -> float:
        return float(ndtr(ndtri(min(share, 1.0)) - mu))

    return too_many_by(inverse, correct=correct, guesses=guesses, canaries=canaries, error=error)


def too_many_by(inverse: Callable[[float], float], *, correct: int, guesses: int, canaries: int, error: float) -> bool:
    """`too_many_correct` for any trade-off function f.

    inverse: a lower bound of g^-1, from [0, 1] to [0, 1], where g(x) = 1 - f(x).
    """
    error = fraction("error", error)
    m = whole("canaries", canaries, at_least=1)
    r = whole("guesses", guesses, at_least=1, at_most=m)
    k = whole("correct", correct, at_least=0, at_most=r)
    right, wrong, total = error * k / m, error * (r - k) / m, error
    for c in range(k - 1, -1, -1):
        least = inverse(right)
        if least > wrong:
            mass = (least - wrong) * m / (r - c)
            wrong, right, total = least, right + mass * c / m, total + mass
            if total > 1 + _ROUNDING or right > 1:
                return True
    return False


def largest_refuted(refuted: Callable[[float], bool], *, furthest: float) -> float:
    """The largest parameter, to a thousandth of its size, below which `refuted` is true; 0 if it is nowhere.

    refuted: true up to some parameter and false above. furthest: where the search stops.
    """
    low, high = 0.0, 1.0
    if not refuted(0.0):
        return 0.0
    while refuted(high) and high < furthest:
        low, high = high, 2 * high
    while high - low > 1e-3 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def certified_mu(*, correct: int, guesses: int, canaries: int, confidence: float) -> float:
    """The mu of Gaussian DP that a run certifies: no release of a smaller mu is guessed so well by chance.

    Guarantee: where the run is mu-Gaussian-DP, this exceeds mu with probability at most 1 - confidence, whatever the
    guesses are based on (see `too_many_correct`). At most 64.
    """
    error = 1 - fraction("confidence", confidence)

    def refuted(mu: float) -> bool:
        return too_many_correct(mu, correct=correct, guesses=guesses, canaries=canaries, error=error)

    return largest_refuted(refuted, furthest=_LARGEST_MU)


def guesses_to_make(canaries: int, mu: float, *, confidence: float = 0.95) -> int:
    """How many of the canaries to guess, the surest ones: what certifies most where `mu` is true, by simulation.

    Chosen from public numbers before the run, so that it costs no confidence.
    """
    canaries = whole("canaries", canaries, at_least=1)
    rng = np.random.default_rng(0)  # chooses how many to guess; no noise and no guarantee comes from it
    scores = rng.normal(loc=non_negative("mu", mu) / 2, size=(20, canaries))
    order = np.argsort(-np.abs(scores), axis=1)
    right = np.cumsum(np.take_along_axis(scores > 0, order, axis=1), axis=1)
    best, most = canaries, -1.0
    for share in _SHARES:
        guesses = max(1, round(share * canaries))
        correct = int(np.median(right[:, guesses - 1]))
        bound = certified_mu(correct=correct, guesses=guesses, canaries=canaries, confidence=confidence)
        if bound > most:
            best, most = guesses, bound
    return best


@dataclass(frozen=True, kw_only=True)
class OneRunAudit:
    """What the canaries of one run say of its claim.

    claimed: epsilon at `delta` of the whole run. lower_bound: the epsilon at `delta` of `mu`-Gaussian DP, which the
    run is not below with probability `confidence`. contradiction: between the release and its noise log or the law of
    its noise, in words, None where none was found. certified: the lower bound by each
    released table that was looked at. correct: of `guesses` guessed labels, among `canaries` canaries.
    """

    mechanism: str
    claimed: float
    lower_bound: float
    confidence: float
    delta: float
    mu: float
    canaries: int
    guesses: int
    correct: int
    contradiction: str | None = None
    certified: dict[str, float] = field(default_factory=dict)

    @property
    def refuted(self) -> bool:
        """Whether the claim is below what was certified, or the release contradicts its noise log or its law.

        A sound claim is refuted with probability 1 - confidence at most.
        """
        return not self.claimed >= self.lower_bound or self.contradiction is not None

    @property
    def verdict(self) -> str:
        """One sentence."""
        summary = (
            f"{self.mechanism} claims epsilon {self.claimed:.4g} for the whole run at delta {self.delta:g}, and "
            f"{self.correct} right guesses of {self.guesses}, the surest about {self.canaries} canaries, certify "
            f"at least {self.lower_bound:.4g} with {100 * self.confidence:g}% confidence"
        )
        if len(self.certified) > 1:
            summary += f" ({', '.join(f'{what} {bound:.4g}' for what, bound in self.certified.items())})"
        if self.contradiction is not None:
            return f"The claim is refuted: {self.contradiction}. {summary[:1].upper()}{summary[1:]}."
        if self.refuted:
            return f"The claim is refuted: {summary}."
        return f"No contradiction was found: {summary}; an audit can refute a claim, never prove it."

    def as_json(self) -> dict[str, Any]:
        """{"mechanism", "claimed", "lower_bound", "confidence", ...}; a claim of no epsilon is null."""
        return {
            **asdict(self),
            "claimed": self.claimed if math.isfinite(self.claimed) else None,
            "refuted": self.refuted,
            "verdict": self.verdict,
        }


def audit_one_run(
    scores: ArrayLike,
    coins: ArrayLike,
    *,
    mechanism: str,
    claimed: float,
    delta: float,
    mu: float,
    confidence: float = 0.95,
) -> OneRunAudit:
    """Guess the surest coins from their scores and bound the run's epsilon by how many guesses are right.

    scores: of every canary, positive where the release speaks for coin 0, (canaries,); made without the coins. coins:
    0 or 1 for every canary, independent and fair, (canaries,). claimed, delta: of the run. mu: the Gaussian DP claimed,
    by which the number of guesses is chosen.

    Guarantee: as `certified_mu`. Where the run is not Gaussian-DP, the bound speaks of the Gaussian curve that it
    breaks, not of its epsilon at `delta`. Errors: `InvalidInput` for scores that are not finite or coins not 0 or 1.
    """
    seen, tossed = np.asarray(scores, dtype=np.float64), np.asarray(coins)
    if seen.ndim != 1 or not len(seen) or not np.isfinite(seen).all():
        raise InvalidInput(f"scores must be finite numbers, one for each canary, got the shape {seen.shape}.")
    if tossed.shape != seen.shape or not np.isin(tossed, (0, 1)).all():
        raise InvalidInput(f"coins must be 0 or 1, one for each of {len(seen)} canaries, got the shape {tossed.shape}.")
    guesses = guesses_to_make(len(seen), mu, confidence=confidence)
    surest = np.argsort(-np.abs(seen), kind="stable")[:guesses]
    # Where a score says nothing, coin 1 is guessed.
    correct = int(((seen[surest] <= 0) == (tossed[surest] == 1)).sum())
    certified = certified_mu(correct=correct, guesses=guesses, canaries=len(seen), confidence=confidence)
    return OneRunAudit(
        mechanism=mechanism,
        claimed=claimed,
        lower_bound=gaussian_dp_epsilon(certified, delta),
        confidence=confidence,
        delta=delta,
        mu=certified,
        canaries=len(seen),
        guesses=guesses,
        correct=correct,
    )
