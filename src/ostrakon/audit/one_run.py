"""A lower bound on epsilon from one run: an adversary guesses the random labels of many canaries from the release."""

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
_MAX_MU = 64.0


def refutes_mu(mu: float, *, correct: int, guesses: int, canaries: int, error: float) -> bool:
    """Return whether `correct` or more right guesses have a probability below `error` under mu-Gaussian DP.

    Parameters
    ----------
    mu : float
        At least 0.
    correct : int
        Right guesses, from 0 to `guesses`.
    guesses : int
        Canaries that the adversary chose to guess, given the release and anything that does not depend on the coins;
        from 1 to `canaries`.
    canaries : int
        Records whose labels independent fair coins decided, at least 1.
    error : float
        In (0, 1).

    Returns
    -------
    bool

    Raises
    ------
    InvalidInput
        For numbers outside of these ranges.

    Notes
    -----
    Let m be the number of canaries and r the number of guesses.

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

    References
    ----------
    Mahloujifar, Melis and Chaudhuri 2024, "Auditing f-differential privacy in one run" (arXiv 2410.22235), for the
    recursion; Steinke, Nasr and Jagielski 2023 (arXiv 2305.08846) for the game.

    Examples
    --------
    >>> refutes_mu(0.5, correct=90, guesses=100, canaries=100, error=0.05)
    True
    """
    mu = non_negative("mu", mu)

    def inverse(share: float) -> float:
        return float(ndtr(ndtri(min(share, 1.0)) - mu))

    return refutes_trade_off(inverse, correct=correct, guesses=guesses, canaries=canaries, error=error)


def refutes_trade_off(
    inverse: Callable[[float], float], *, correct: int, guesses: int, canaries: int, error: float
) -> bool:
    """Return whether `correct` or more right guesses have a probability below `error` under a trade-off function f.

    Parameters
    ----------
    inverse : callable
        From a probability to a lower bound of g^-1, where g(x) = 1 - f(x).
    correct, guesses, canaries, error
        As for `refutes_mu`.

    Returns
    -------
    bool

    Raises
    ------
    InvalidInput
        As `refutes_mu`.

    Notes
    -----
    The derivation is that of `refutes_mu`, which this function decides for the Gaussian trade-off function.
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


def largest_refuted_parameter(refuted: Callable[[float], bool], *, limit: float) -> float:
    """Return the largest parameter for which `refuted` is true, to a thousandth of its size.

    Parameters
    ----------
    refuted : callable
        From a number of at least 0 to bool: true up to some parameter and false above it.
    limit : float
        The search goes no further than the first power of two that is at least this.

    Returns
    -------
    float
        A parameter at which `refuted` is true; 0 if it is true nowhere.

    Examples
    --------
    >>> round(largest_refuted_parameter(lambda mu: mu < 0.5, limit=64), 2)
    0.5
    """
    low, high = 0.0, 1.0
    if not refuted(0.0):
        return 0.0
    while refuted(high) and high < limit:
        low, high = high, 2 * high
    while high - low > 1e-3 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def certified_mu(*, correct: int, guesses: int, canaries: int, confidence: float) -> float:
    """Return a lower bound on the mu of Gaussian DP of a run.

    Parameters
    ----------
    correct, guesses, canaries
        As for `refutes_mu`.
    confidence : float
        In (0, 1).

    Returns
    -------
    float
        From 0 to 64.

    Raises
    ------
    InvalidInput
        As `refutes_mu`.

    Notes
    -----
    Guarantee: for a mu-Gaussian-DP run the bound exceeds mu with probability at most 1 - confidence, for any way of
    guessing (see `refutes_mu`).

    Examples
    --------
    >>> round(certified_mu(correct=90, guesses=100, canaries=100, confidence=0.95), 2)
    0.84
    """
    error = 1 - fraction("confidence", confidence)

    def refuted(mu: float) -> bool:
        return refutes_mu(mu, correct=correct, guesses=guesses, canaries=canaries, error=error)

    return largest_refuted_parameter(refuted, limit=_MAX_MU)


def best_number_of_guesses(canaries: int, mu: float, *, confidence: float = 0.95) -> int:
    """Return the number of canaries to guess that certifies most for a run with `mu`, by simulation.

    Parameters
    ----------
    canaries : int
        At least 1.
    mu : float
        Gaussian DP of the run as it claims it, at least 0.
    confidence : float, default 0.95
        In (0, 1).

    Returns
    -------
    int
        From 1 to `canaries`.

    Raises
    ------
    InvalidInput
        For numbers outside of these ranges.

    Notes
    -----
    The result depends on public numbers alone, so it costs no confidence. The simulation has a fixed seed.
    """
    canaries = whole("canaries", canaries, at_least=1)
    rng = np.random.default_rng(0)  # for the simulation only
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
    """The result of an audit of one run by canaries.

    Parameters
    ----------
    mechanism : str
        Name of the mechanism.
    claimed : float
        Epsilon of the whole run at `delta`.
    lower_bound : float
        The true epsilon, that of `mu`-Gaussian DP at `delta`, is at least this with probability `confidence`.
    confidence, delta : float
        In (0, 1).
    mu : float
        The certified lower bound on the mu of Gaussian DP.
    canaries, guesses, correct : int
        Numbers of canaries, of guesses and of right guesses.
    contradiction : str, optional
        Between the release and its noise log, or the law of its noise.
    certified : dict of float
        The lower bound by each audited table.
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
        """Whether the audit refutes the claim; it refutes a true claim with probability at most 1 - confidence."""
        return not self.claimed >= self.lower_bound or self.contradiction is not None

    @property
    def verdict(self) -> str:
        """One sentence."""
        summary = (
            f"{self.mechanism} claims epsilon {self.claimed:.4g} for the whole run at delta {self.delta:g}, and "
            f"of {self.canaries} made-up records (canaries), each in one of two forms by the toss of a coin, the "
            f"{self.guesses} that the release shows most clearly were guessed right {self.correct} times, which "
            f"certifies an epsilon of at least {self.lower_bound:.4g} with {100 * self.confidence:g}% confidence"
        )
        if len(self.certified) > 1:
            summary += f" ({', '.join(f'{what} {bound:.4g}' for what, bound in self.certified.items())})"
        if self.contradiction is not None:
            return f"The claim is refuted: {self.contradiction}. {summary[:1].upper()}{summary[1:]}."
        if self.refuted:
            return f"The claim is refuted: {summary}."
        return f"No contradiction was found: {summary}; an audit can refute a claim, never prove it."

    def as_json(self) -> dict[str, Any]:
        """Return plain values for JSON; an infinite claim is null."""
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
    """Guess the coins of the surest canaries from their scores, and bound the run's epsilon by the right guesses.

    Parameters
    ----------
    scores : array-like of float, shape (canaries,)
        Evidence for coin 0 of each canary in the release, computed without the coins. Above 0 the guess is 0, else 1.
    coins : array-like of {0, 1}, shape (canaries,)
        Fair and independent.
    mechanism : str
        Its name, for the result.
    claimed : float
        Epsilon that the run claims at `delta`.
    delta : float
        In (0, 1).
    mu : float
        The claimed Gaussian DP, at least 0, by which the number of guesses is chosen.
    confidence : float, default 0.95
        In (0, 1).

    Returns
    -------
    OneRunAudit

    Raises
    ------
    InvalidInput
        For scores that are not finite, coins that are not 0 or 1, and numbers outside of these ranges.

    Notes
    -----
    Guarantee: that of `certified_mu`. If the run is not Gaussian-DP, the bound concerns the refuted Gaussian curve,
    not its epsilon at `delta`.

    References
    ----------
    As `refutes_mu`.

    Examples
    --------
    >>> coins = np.tile([0, 1], 50)
    >>> scores = np.where(coins == 0, 2.0, -2.0)  # a release that shows every coin
    >>> audit_one_run(scores, coins, mechanism="gnmax", claimed=1.0, delta=1e-5, mu=0.3).refuted
    True
    """
    evidence, labels = np.asarray(scores, dtype=np.float64), np.asarray(coins)
    if evidence.ndim != 1 or not len(evidence) or not np.isfinite(evidence).all():
        raise InvalidInput(f"scores must be finite numbers, one for each canary, got the shape {evidence.shape}.")
    if labels.shape != evidence.shape or not np.isin(labels, (0, 1)).all():
        raise InvalidInput(
            f"coins must be 0 or 1, one for each of {len(evidence)} canaries, got the shape {labels.shape}."
        )
    guesses = best_number_of_guesses(len(evidence), mu, confidence=confidence)
    surest = np.argsort(-np.abs(evidence), kind="stable")[:guesses]
    # A score of 0 is a guess of coin 1.
    correct = int(((evidence[surest] <= 0) == (labels[surest] == 1)).sum())
    certified = certified_mu(correct=correct, guesses=guesses, canaries=len(evidence), confidence=confidence)
    return OneRunAudit(
        mechanism=mechanism,
        claimed=claimed,
        lower_bound=gaussian_dp_epsilon(certified, delta),
        confidence=confidence,
        delta=delta,
        mu=certified,
        canaries=len(evidence),
        guesses=guesses,
        correct=correct,
    )
