"""The sanitized estimate: what it shows, and what its noise hides."""

import math
from pathlib import Path

import numpy as np
import pytest

import ostrakon.accounting.gate.sanitizer as sanitizer_module
from ostrakon.accounting.data_dependent.exact import data_dependent_costs
from ostrakon.accounting.gate.sanitizer import GRID, Sanitizer
from ostrakon.accounting.gate.score import consensus
from ostrakon.accounting.rdp import Curve
from ostrakon.mechanisms import ConfidentGNMax
from ostrakon.mechanisms.base import Mechanism
from ostrakon.validation import InvalidInput
from ostrakon.votes import PublicVotes, Votes

CONFIDENT = ConfidentGNMax(threshold=70, sigma1=40, sigma2=14)


def agreeing() -> PublicVotes:
    rng = np.random.default_rng(0)
    share = rng.beta(20, 1.5, size=40)
    return PublicVotes(rng.multinomial(100, np.column_stack([share, *[(1 - share) / 3] * 3])))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "mechanism", "queries", "mean", "sd", "upper"),
    [
        ("mnist", ConfidentGNMax(threshold=200, sigma1=150, sigma2=40), 640, 1.29, 0.10, 1.74),
        ("adult", ConfidentGNMax(threshold=300, sigma1=200, sigma2=40), 1500, 1.06, 0.08, 1.48),
    ],
)
def test_published_votes_at_least_as_good_as_the_specification(
    data_dir: Path, name: str, mechanism: Mechanism, queries: int, mean: float, sd: float, upper: float
) -> None:
    votes = PublicVotes(np.load(data_dir / "votes" / f"{name}_250_teachers.npy")[:queries])
    found = Sanitizer.plan(votes, mechanism, delta=1e-5).expected(votes)
    assert found.mean <= 1.005 * mean
    assert found.sd <= sd
    assert found.upper <= 1.01 * upper


@pytest.mark.slow
def test_upper_covers_the_local_cost_and_all_numbers_lie_on_the_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    votes = agreeing()
    # The exact score of the same votes is computed once, and its noise drawn a hundred times.
    scores: dict[str, float] = {}

    def consensus_once(votes: Votes, mechanism: Mechanism, **asked: float) -> float:
        key = repr((votes.counts.tobytes(), mechanism, asked))
        return scores[key] if key in scores else scores.setdefault(key, consensus(votes, mechanism, **asked))

    monkeypatch.setattr(sanitizer_module, "consensus", consensus_once)
    sanitizer = Sanitizer(mechanism=CONFIDENT, order=10.0, kappa=0.06, s=4.0, delta=1e-5, confidence=0.9)
    local = Curve(np.array([10.0]), data_dependent_costs(votes, CONFIDENT, [10.0]).sum(axis=0)).epsilon(delta=1e-5)[0]
    rng = np.random.default_rng(4)
    drawn = [sanitizer.publish(votes, rng) for _ in range(100)]
    assert sum(d.upper >= local for d in drawn) >= 85
    for d in drawn:
        for value in (d.mean, d.sd, d.upper):
            assert value / GRID == pytest.approx(round(value / GRID), abs=1e-6)
    spread = np.std([d.mean for d in drawn])
    assert spread == pytest.approx(sanitizer.expected(votes).sd, rel=0.25)


def test_the_estimate_includes_its_own_price() -> None:
    votes = agreeing()
    noisier = Sanitizer(mechanism=CONFIDENT, order=10.0, kappa=0.06, s=1.0, delta=1e-5)
    quiet = Sanitizer(mechanism=CONFIDENT, order=10.0, kappa=0.06, s=10.0, delta=1e-5)
    difference = noisier.expected(votes).mean - quiet.expected(votes).mean
    assert difference == pytest.approx(10 / 2 - 10 / 200, abs=2 * GRID)


def test_plain_votes_are_refused_by_type() -> None:
    with pytest.raises(InvalidInput, match="PublicVotes"):
        Sanitizer.plan(Votes(agreeing().counts), CONFIDENT, delta=1e-5)


@pytest.mark.parametrize("name", ["order", "kappa", "s", "delta", "confidence"])
@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, True, "1"])
def test_bad_parameters_are_refused(name: str, bad: object) -> None:
    good = {"order": 10.0, "kappa": 0.06, "s": 4.0, "delta": 1e-5, "confidence": 0.9}
    with pytest.raises(InvalidInput, match=name):
        Sanitizer(mechanism=CONFIDENT, **{**good, name: bad})
