import math

import numpy as np
import pytest

from ostrakon.accounting.data_independent.worst_case import worst_case
from ostrakon.audit import LAW_CLAIM, SAMPLES_CLAIM, audit
from ostrakon.audit.events import outcome_shares, stopped_statistic, until_last_answer
from ostrakon.mechanisms import (
    BoundedGNMax,
    ConfidentGNMax,
    ExponentialMechanism,
    GNMax,
    LNMax,
    Mechanism,
)
from ostrakon.mechanisms.contrib.immutable import Immutable
from ostrakon.mechanisms.contrib.permute_and_flip import PermuteAndFlip
from ostrakon.mechanisms.contrib.propose_test_release import ProposeTestRelease
from ostrakon.mechanisms.contrib.screened_exponential import ScreenedExponential
from ostrakon.mechanisms.contrib.sparse_vector import SparseVector
from ostrakon.validation import InvalidInput
from ostrakon.votes import Votes


def rng(seed: int = 20261121) -> np.random.Generator:
    return np.random.default_rng(seed)


def sampling(mechanism: Mechanism):
    """A user's function that happens to be this mechanism."""

    def sampler(votes: Votes, source: np.random.Generator) -> np.ndarray:
        return mechanism.sample(votes, source)

    return sampler


SOUND = [
    LNMax(gamma=0.05),
    GNMax(sigma2=2.0),
    ConfidentGNMax(threshold=60, sigma1=10.0, sigma2=5.0),
    ExponentialMechanism(epsilon_per_query=0.5),
    ScreenedExponential(threshold=60, sigma1=5.0, epsilon_per_query=0.3),
    PermuteAndFlip(epsilon_per_query=0.5),
    ProposeTestRelease.for_delta(epsilon_per_query=1.0, delta_per_query=1e-6),
]


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", SOUND, ids=lambda mechanism: mechanism.name)
@pytest.mark.parametrize("queries", [1, 8])
def test_sound_mechanisms_are_not_accused_and_not_underrated(mechanism: Mechanism, queries: int):
    found = audit(mechanism, delta=1e-5, queries=queries, teachers=100, samples=20_000 // queries, rng=rng())
    assert not found.refuted
    assert found.claimed > found.lower_bound
    sizes = {"queries": queries, "delta": 1e-5, "teachers": 100, "classes": 3}
    assert found.claimed == worst_case(mechanism, **sizes, adaptive=True).epsilon


def test_sparse_vector_is_run_whole():
    mechanism = SparseVector(threshold=8.0, refusals=1, epsilon1=1.0, epsilon2=1.0)
    delta = 1.01 * mechanism.failure(queries=3)
    found = audit(mechanism, delta=delta, queries=3, samples=3_000, teachers=30, classes=2, rng=rng())
    assert not found.refuted
    assert math.isfinite(found.claimed)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", [Immutable(constant=100, gamma=0.1), Immutable(constant=100, sigma2=30.0)])
def test_the_claim_of_the_immutable_mechanism_is_refuted(mechanism: Immutable):
    found = audit(mechanism, delta=1e-5, queries=1, samples=20_000, rng=rng())
    assert found.refuted
    assert found.refuted_by == (SAMPLES_CLAIM, LAW_CLAIM)
    assert found.claimed == mechanism.claimed_epsilon(queries=1, delta=1e-5)
    assert found.lower_bound > 3 * found.claimed
    assert found.lower_bound < mechanism.two_class_epsilon()
    assert "refuted" in found.verdict


def test_a_price_for_removed_votes_is_audited_at_its_price_for_replaced_ones():
    """Neighbouring votes differ in a vote, which costs more than a vote less: a sound mechanism must not be accused."""
    settings = {"delta": 1e-5, "queries": 4, "samples": 2_000, "rng": np.random.default_rng(5)}
    removed = BoundedGNMax(sigma2=1.0, neighbours="removed")
    found = audit(removed, **settings)
    assert not found.refuted
    assert found.claimed == worst_case(removed.under("replace"), queries=4, delta=1e-5).epsilon


@pytest.mark.slow
@pytest.mark.parametrize("sigma", [40.0, 2.8])
def test_a_gaussian_a_fifth_too_small_is_caught(sigma: float):
    honest, small = GNMax(sigma2=sigma), GNMax(sigma2=0.8 * sigma)
    settings = {"like": honest, "delta": 0.01, "samples": 50_000, "classes": 2, "queries": 4, "independent": True}
    assert audit(sampling(small), rng=rng(), **settings).refuted
    assert not audit(sampling(honest), rng=rng(), **settings).refuted


@pytest.mark.slow
def test_laplace_of_half_the_scale_is_caught():
    settings = {"like": LNMax(gamma=0.05), "delta": 1e-5, "samples": 20_000, "queries": 1, "independent": True}
    assert audit(sampling(LNMax(gamma=0.1)), rng=rng(), **settings).refuted
    assert not audit(sampling(LNMax(gamma=0.05)), rng=rng(), **settings).refuted


@pytest.mark.slow
def test_a_check_that_forgets_its_noise_is_caught():
    honest = ConfidentGNMax(threshold=66.5, sigma1=40.0, sigma2=20.0)

    def forgetful(votes: Votes, source: np.random.Generator) -> np.ndarray:
        labels = GNMax(sigma2=20.0).sample(votes, source)
        return np.where(votes.top >= 66.5, labels, -1)

    found = audit(
        forgetful, like=honest, delta=1e-5, queries=1, teachers=100, samples=20_000, independent=True, rng=rng()
    )
    assert found.refuted
    assert found.lower_bound > 5
    assert {max(side) for side in found.neighbours} == {66, 67}


@pytest.mark.slow
def test_false_alarms_of_whole_audits_stay_at_the_stated_level():
    """60 audits of a mechanism whose claim is exactly its epsilon at these neighbours: the hardest sound claim."""
    pair = Votes([[11, 9]]), Votes([[10, 10]])
    mechanism, delta = ExponentialMechanism(epsilon_per_query=0.8), 0.02
    p, q = (np.exp(mechanism.log_probabilities(votes)[0, :2]) for votes in pair)
    exact = max(np.log((p[0] - delta) / q[0]), np.log((q[1] - delta) / p[1]))
    source = rng()
    results = [
        audit(
            mechanism,
            neighbours=pair,
            claimed=float(exact),
            delta=delta,
            samples=1_000,
            confidence=0.9,
            rng=source,
            independent=True,
        )
        for _ in range(60)
    ]
    alarms = sum(found.refuted for found in results)
    # Each of the two bounds is good for half of the 10%; 60 audits scatter by 2.3 about that.
    assert alarms <= 6 + 2 * 2.3
    # And a claim of half of it is refuted most of the time.
    assert np.mean([found.lower_bound > exact / 4 for found in results]) > 0.5


def test_a_users_own_sampler_with_its_own_neighbours():
    pair = Votes([[3, 0], [2, 1]]), Votes([[2, 1], [2, 1]])

    def copier(votes: Votes, source: np.random.Generator) -> np.ndarray:
        return np.where(votes.counts[:, 0] == 3, 0, 1)

    found = audit(copier, neighbours=pair, claimed=1.0, delta=1e-5, samples=2_000, rng=rng())
    assert found.refuted
    assert found.queries == 2
    assert found.mechanism == "copier"


@pytest.mark.slow
def test_the_same_source_finds_the_same():
    settings = {"delta": 1e-5, "samples": 5_000}
    first, second = (audit(LNMax(gamma=0.2), rng=rng(5), **settings) for _ in range(2))
    assert first == second


def test_bad_input_is_refused_by_name():
    mechanism = LNMax(gamma=0.1)
    for name, wrong in [
        ("delta", 0.0),
        ("delta", math.nan),
        ("confidence", 1.0),
        ("samples", 10),
        ("samples", 1e5),
        ("queries", 0),
        ("teachers", 1),
        ("classes", 1),
        ("claimed", -1.0),
        ("claimed", math.nan),
        ("rng", None),
    ]:
        with pytest.raises(InvalidInput, match=name):
            audit(mechanism, **{"delta": 1e-5, "rng": rng(), "samples": 200, name: wrong})
    with pytest.raises(InvalidInput, match="claimed must be given"):
        audit(sampling(mechanism), delta=1e-5, rng=rng())
    with pytest.raises(InvalidInput, match="one integer per query"):
        audit(lambda votes, source: np.zeros(7, int), claimed=1.0, delta=1e-5, samples=200, rng=rng())
    with pytest.raises(InvalidInput, match="class below 3"):
        audit(lambda votes, source: np.full(1, 5), claimed=1.0, delta=1e-5, samples=200, rng=rng())
    with pytest.raises(InvalidInput, match="one vote moved"):
        audit(mechanism, neighbours=(Votes([[4, 0]]), Votes([[2, 2]])), delta=1e-5, rng=rng())


def test_json_has_the_four_named_fields():
    found = audit(LNMax(gamma=0.1), delta=1e-5, samples=500, rng=rng())
    assert set(found.as_json()) >= {"mechanism", "claimed", "lower_bound", "confidence"}


def test_behind_a_run_s_last_answer_nothing_is_told():
    answers = np.array([[0, -1, 1, -1], [-1, -1, -1, -1], [1, 1, 1, 0]])
    assert until_last_answer(answers).tolist() == [[True, True, True, False], [False] * 4, [True] * 4]
    table = np.arange(12.0).reshape(4, 3)
    # One column a label, the last for no answer.
    assert stopped_statistic(table)(answers).tolist() == [0 + 5 + 7, 0, 1 + 4 + 7 + 9]
    shares = outcome_shares(answers, np.zeros(4, np.int64), 3, until_last_answer(answers))
    # Of the 7 queries that were asked: two times 0, four times 1, once nothing; half a count more for each.
    assert shares[0] == pytest.approx(np.array([2.5, 4.5, 1.5]) / 8.5)
