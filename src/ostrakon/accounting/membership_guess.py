"""What a guarantee means to an attacker: how often a guess at whether a record was used can be right."""

from __future__ import annotations

import math
from collections.abc import Iterable

from scipy.special import expit

from ostrakon.validation import InvalidInput, finite, fraction, non_negative


def membership_guess(guarantees: Iterable[tuple[float, float]], *, prior: float = 0.5) -> float:
    """The largest share of right guesses at whether one record was used, whoever guesses and whatever else they know.

    guarantees: pairs (epsilon, delta) that all hold for the same release; the one that says most decides. Pairs of a
    large delta usually do: a delta of 0.1 is no guarantee to publish, and true all the same. prior: how probable the
    record is before the release is seen, in (0, 1).

    Guarantee: for every test with rates (false positives, true positives) that an (epsilon, delta)-DP release allows,
    prior * TPR + (1 - prior) * (1 - FPR) is at most the number returned; it is attained by one of them when a single
    pair is given. Never below max(prior, 1 - prior): what is guessed without any release.
    Errors: `InvalidInput` without a pair, for an epsilon that is not finite or below 0, a delta outside [0, 1], a
    prior outside (0, 1).
    Source: the trade-off curve of (epsilon, delta)-DP at its corners, Kairouz, Oh and Viswanath 2015, Theorem 2.1;
    Dong, Roth and Su 2019, Proposition 2.4.

    >>> round(membership_guess([(2.0, 0.0)]), 3)
    0.881
    """
    prior = fraction("prior", prior)
    pairs = list(guarantees)
    if not pairs:
        raise InvalidInput("guarantees must hold at least one pair (epsilon, delta), got none.")
    return min(_of_one(non_negative("epsilon", epsilon), _delta(delta), prior) for epsilon, delta in pairs)


def _of_one(epsilon: float, delta: float, prior: float) -> float:
    # The corners of the region of tests: in the middle both errors are as probable, at the ends one is impossible.
    middle = float(expit(epsilon)) + delta * float(expit(-epsilon))
    never_wrongly_in = prior * delta + (1 - prior)
    never_wrongly_out = prior + (1 - prior) * delta
    # Each corner took a few roundings of half an ulp.
    return min(1.0, max(middle, never_wrongly_in, never_wrongly_out) * (1 + 8 * math.ulp(1.0)))


def _delta(value: float) -> float:
    delta = finite("delta", value)
    if not 0 <= delta <= 1:
        raise InvalidInput(f"delta must lie between 0 and 1, got {value!r}.")
    return delta
