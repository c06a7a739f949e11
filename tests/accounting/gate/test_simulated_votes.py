"""Simulated votes have the consensus they were asked for."""

import math

import numpy as np
import pytest

from ostrakon.accounting.gate.simulated_votes import simulate_votes
from ostrakon.validation import InvalidInput
from ostrakon.votes import PublicVotes


@pytest.mark.parametrize(("plurality", "dispersion"), [(0.7, 0.08), (0.9, 0.2), (0.95, 0.02)])
def test_consensus_is_the_one_asked_for(plurality: float, dispersion: float) -> None:
    votes = simulate_votes(
        np.random.default_rng(1), queries=20000, teachers=250, classes=10, plurality=plurality, dispersion=dispersion
    )
    assert isinstance(votes, PublicVotes)
    share = votes.counts[:, 0] / 250
    assert share.mean() == pytest.approx(plurality, abs=0.005)
    own = plurality * (1 - plurality) / 250
    assert share.var() == pytest.approx(own + dispersion * (plurality * (1 - plurality) - own), rel=0.05)


def test_same_draws_same_votes() -> None:
    first, second = (simulate_votes(np.random.default_rng(2), queries=5, teachers=50, classes=3) for _ in range(2))
    assert first == second


@pytest.mark.parametrize("name", ["plurality", "dispersion"])
@pytest.mark.parametrize("bad", [0.0, 1.0, -0.1, math.nan, True, "0.5"])
def test_bad_models_are_refused(name: str, bad: object) -> None:
    with pytest.raises(InvalidInput, match=name):
        simulate_votes(np.random.default_rng(0), queries=5, teachers=50, classes=3, **{name: bad})
