"""account() with a gate planned on public votes."""

import numpy as np
import pytest

from ostrakon.accounting.account import account
from ostrakon.accounting.gate.gate import Gate
from ostrakon.accounting.gate.simulated_votes import simulate_votes
from ostrakon.mechanisms import GNMax
from ostrakon.mechanisms.contrib.propose_test_release import ProposeTestRelease
from ostrakon.validation import InvalidInput
from ostrakon.votes import Votes

MODEL = simulate_votes(np.random.default_rng(1), queries=20, teachers=120, classes=2, plurality=0.9)
VOTES = Votes(simulate_votes(np.random.default_rng(2), queries=20, teachers=120, classes=2, plurality=0.9).counts)
MECHANISM = GNMax(sigma2=12)


@pytest.mark.slow
def test_gate_and_estimate_join_where_public_votes_are_given() -> None:
    cost = account(VOTES, MECHANISM, delta=1e-5, public_votes=MODEL, rng=np.random.default_rng(0))
    assert cost.gated == Gate.plan(MODEL, MECHANISM, delta=1e-5).certificate()
    assert cost.pass_probability == 0.95
    assert cost.sanitized is not None
    assert 0 < cost.sanitized.mean < cost.sanitized.upper


@pytest.mark.slow
def test_neither_without_them() -> None:
    cost = account(VOTES, MECHANISM, delta=1e-5)
    assert cost.gated is None
    assert cost.sanitized is None
    cost = account(VOTES, MECHANISM, delta=1e-5, public_votes=MODEL)
    assert cost.gated is not None
    assert cost.sanitized is None
    cost = account(VOTES, ProposeTestRelease(threshold=3, sigma1=1.0), delta=0.1, public_votes=MODEL)
    assert cost.gated is None


@pytest.mark.slow
def test_private_or_misshapen_votes_to_plan_on_are_refused() -> None:
    with pytest.raises(InvalidInput, match="PublicVotes"):
        account(VOTES, MECHANISM, delta=1e-5, public_votes=VOTES)
    with pytest.raises(InvalidInput, match="votes must have"):
        account(VOTES, MECHANISM, delta=1e-5, public_votes=MODEL[:10])
