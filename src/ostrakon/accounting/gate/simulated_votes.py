"""Simulated votes: public substitutes on which parameters of a release may be chosen."""

import numpy as np

from ostrakon.noise import require_rng
from ostrakon.validation import fraction, whole
from ostrakon.votes import PublicVotes

_RIVALS = 0.3
"""Dirichlet concentration of the votes that do not go to the winner: mostly one or two rivals share them."""


def simulate_votes(
    rng: np.random.Generator,
    *,
    queries: int,
    teachers: int,
    classes: int,
    plurality: float = 0.85,
    dispersion: float = 0.15,
) -> PublicVotes:
    """Draw votes from a public model of consensus. They read no private record, so a release may be planned on them.

    Parameters
    ----------
    rng : numpy.random.Generator
        Any generator: this is not privacy noise.
    queries, teachers, classes : int
        The shape of the votes.
    plurality : float in (0, 1)
        Mean share of teachers that agree with the winner.
    dispersion : float in [0, 1]
        How much that share differs between queries, as the correlation of two teachers' agreement. Published votes of
        250 teachers have 0.08 (MNIST, plurality 0.71) and 0.21 (Adult, 0.91).

    Returns
    -------
    PublicVotes

    Notes
    -----
    The winner's share of a query is Beta with that mean and correlation, the rest is Dirichlet, and teachers vote
    independently given both. A run whose real votes agree less refuses more often than planned, and has the same
    guarantee.

    Examples
    --------
    >>> simulate_votes(np.random.default_rng(0), queries=3, teachers=250, classes=10)
    PublicVotes(queries=3, classes=10, teachers=250)
    """
    rng = require_rng(rng)
    queries, teachers = whole("queries", queries, at_least=1), whole("teachers", teachers, at_least=1)
    classes = whole("classes", classes, at_least=2)
    mean, correlation = fraction("plurality", plurality), fraction("dispersion", dispersion)
    total = (1 - correlation) / correlation
    winner = rng.beta(mean * total, (1 - mean) * total, size=queries)
    rest = rng.dirichlet(np.full(classes - 1, _RIVALS), size=queries) * (1 - winner)[:, None]
    share = np.column_stack([winner, rest])
    return PublicVotes(rng.multinomial(teachers, share / share.sum(axis=1, keepdims=True)), teachers=teachers)
