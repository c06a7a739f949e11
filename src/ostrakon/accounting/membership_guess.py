"""What a guarantee means for an attacker: how often a guess at a record's membership can be right."""

import math
from collections.abc import Iterable

from scipy.special import expit

from ostrakon.validation import InvalidInput, finite, fraction, non_negative


def membership_guess(guarantees: Iterable[tuple[float, float]], *, prior: float = 0.5) -> float:
    """Return the largest share of right guesses at whether one record was used, for every attacker.

    Parameters
    ----------
    guarantees : iterable of (epsilon, delta)
        Pairs that all hold for the same release; the strongest decides. A pair with a delta of 0.1 counts, too.
    prior : float in (0, 1), default 0.5
        The probability that the record was used, before the release is seen.

    Returns
    -------
    float
        From max(prior, 1 - prior), which needs no release, to 1.

    Raises
    ------
    InvalidInput
        Without a pair, for an epsilon that is not finite or below 0, a delta outside [0, 1], or a prior outside (0, 1).

    Notes
    -----
    Guarantee: for every test with rates (false positives, true positives) that an (epsilon, delta)-DP release allows,
    prior * TPR + (1 - prior) * (1 - FPR) is at most the returned number. One test attains it if a single pair is given.

    References
    ----------
    The trade-off curve of (epsilon, delta)-DP at its corners, Kairouz, Oh and Viswanath 2015, Theorem 2.1; Dong, Roth
    and Su 2019, Proposition 2.4.

    Examples
    --------
    >>> round(membership_guess([(2.0, 0.0)]), 3)
    0.881
    """
    prior = fraction("prior", prior)
    pairs = list(guarantees)
    if not pairs:
        raise InvalidInput("guarantees must hold at least one pair (epsilon, delta), got none.")
    return min(_of_one(non_negative("epsilon", epsilon), _delta(delta), prior) for epsilon, delta in pairs)


def _of_one(epsilon: float, delta: float, prior: float) -> float:
    # The corners of the region of tests: in the middle both errors are equally likely, at the ends one is impossible.
    middle = float(expit(epsilon)) + delta * float(expit(-epsilon))
    never_wrongly_in = prior * delta + (1 - prior)
    never_wrongly_out = prior + (1 - prior) * delta
    # Each corner has a few roundings of half an ulp.
    return min(1.0, max(middle, never_wrongly_in, never_wrongly_out) * (1 + 8 * math.ulp(1.0)))


def _delta(value: float) -> float:
    delta = finite("delta", value)
    if not 0 <= delta <= 1:
        raise InvalidInput(f"delta must lie between 0 and 1, got {value!r}.")
    return delta
