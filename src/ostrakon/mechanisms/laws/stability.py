"""How many votes must move before the plurality changes."""

import numpy as np

from ostrakon.votes import IntArray, Votes


def distance_to_instability(votes: Votes) -> IntArray:
    """Return one less than the fewest votes whose move changes `votes.plurality`; shape (queries,), at least 0.

    `d(n) = min_j k_j - 1` over the classes j that lost, with `k_j = ceil(g_j / 2)` if j is the lower class and so wins
    a tie, else `floor(g_j / 2) + 1`; g_j is the winner's lead over j.

    Guarantee: moving one vote (also to or from "abstain") changes d by at most 1, and if it changes the plurality, d is
    0 before and after. So the plurality may be released if d is *privately* known to be above 0.
    Source: docs/mathematics.md E.

    >>> distance_to_instability(Votes([[9, 1], [6, 4], [5, 5], [4, 6]])).tolist()
    [4, 1, 0, 0]
    """
    # Keys in the order in which classes win: by votes, the lower class first. The two largest differ by gap * classes +
    # (runner-up - winner); divided and rounded up, that is the gap, or one more if the winner is the lower class and
    # wins a tie.
    keys = votes.counts * votes.classes - np.arange(votes.classes)
    first = np.partition(keys, votes.classes - 2, axis=1)[:, -2:]
    lead = -((first[:, 0] - first[:, 1]) // votes.classes)
    return (lead - 1) // 2
