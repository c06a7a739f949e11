"""A sequential lower bound on epsilon by betting: valid whenever one stops, error level by Ville's inequality."""

import numpy as np

from ostrakon.validation import InvalidInput, fraction, fraction_or_zero

_QUANTILES = (0.25, 0.5, 0.75, 0.9, 0.97)
_STAKES = np.array([0.2, 0.5, 0.9])[:, None, None]
_WARM_UP = 4
_CAPPED = 500.0
_STEP, _LARGEST = 0.05, 20.0


class Bets:
    """Scores of pairs of runs on two neighbouring data sets, and the epsilon that they certify so far.

    Parameters
    ----------
    delta : float in [0, 1)
        At which epsilon is bounded.
    error : float in (0, 1)
        Probability that the bound is ever too large.

    Raises
    ------
    InvalidInput
        For numbers out of range.

    Notes
    -----
    Guarantee: if the runs are (epsilon, delta)-DP, the probability that `bound` ever exceeds epsilon, while pairs are
    added without end, is at most `error`.

    Proof. Before a pair is seen, choose an event from the earlier pairs. By (epsilon, delta)-DP its probabilities P on
    one data set and Q on the other have P <= e^epsilon Q + delta. With indicators X and Y of the event on the two data
    sets and a stake 0 <= s <= 1, the factor 1 + s (X - e^epsilon Y - delta) / (e^epsilon + delta) is at least 0 and has
    a mean of at most 1. Products of such factors are supermartingales that start at 1, and so is a fixed mixture of
    them: of thresholds at quantiles of the earlier scores, on either side, and of stakes. By Ville's inequality the
    mixture ever reaches 1 / error, which refutes epsilon, with probability at most `error`. `bound` is above epsilon
    only if the first step of its grid at or above epsilon was refuted, and that step is a true claim.

    References
    ----------
    Ville 1939; Waudby-Smith and Ramdas 2024, "Estimating means of bounded random variables by betting".

    Examples
    --------
    >>> bets = Bets(delta=0.0, error=0.05)
    >>> for _ in range(60):
    ...     bets.add(used=1.0, unused=0.0)
    >>> 0.9 < bets.bound < 3
    True
    """

    def __init__(self, *, delta: float, error: float) -> None:
        steps = np.arange(1 + round(_LARGEST / _STEP))
        self._epsilons = steps * _STEP
        self._delta, self._error = fraction_or_zero("delta", delta), fraction("error", error)
        self._factors = np.exp(self._epsilons)[:, None]
        self._wealth = np.zeros((len(_STAKES), len(steps), 2 * len(_QUANTILES)))
        self._refuted = np.zeros(len(steps), dtype=bool)
        self._scores: list[float] = []

    @property
    def pairs(self) -> int:
        """Pairs added so far."""
        return len(self._scores) // 2

    @property
    def bound(self) -> float:
        """The largest epsilon below which all steps of 0.05 were refuted, at most 20."""
        kept = np.flatnonzero(~self._refuted)
        number = int(kept[0]) if len(kept) else len(self._refuted)
        return float(self._epsilons[number - 1]) if number else 0.0

    def add(self, *, used: float, unused: float) -> None:
        """Add the scores of one run with the record and of one without it, both finite."""
        pair = np.array([used, unused], dtype=np.float64)
        if not np.isfinite(pair).all():
            raise InvalidInput(f"scores must be finite numbers, got {used!r} and {unused!r}.")
        if self.pairs >= _WARM_UP:
            above = pair[:, None] > np.quantile(self._scores, _QUANTILES)
            one, other = np.hstack([above, ~above[::-1]])
            gains = (one - self._factors * other - self._delta) / (self._factors + self._delta)
            self._wealth += np.log1p(np.maximum(_STAKES * gains, -1) * (1 - 1e-12))
            total = np.exp(np.minimum(self._wealth, _CAPPED)).mean(axis=(0, 2))
            self._refuted |= total >= (1 + 1e-9) / self._error
        self._scores += [used, unused]
