"""The outcome laws under Gaussian and Laplace noise, and the samplers, against independent references."""

import copy
import pickle

import law_oracle as oracle
import mpmath as mp
import numpy as np
import pytest
from scipy.stats import chi2

from ostrakon.accounting.data_dependent.exact import data_dependent_costs
from ostrakon.mechanisms import ConfidentGNMax, GNMax, InteractiveGNMax, LNMax, Mechanism
from ostrakon.mechanisms.interactive_gnmax import reinforce
from ostrakon.mechanisms.laws.gaussian import gaussian_argmax_log_probabilities
from ostrakon.mechanisms.laws.laplace import laplace_argmax_log_probabilities
from ostrakon.mechanisms.rdp import rdp_of_pure_dp
from ostrakon.numerics.normal import inverse_mills, log_ndtr
from ostrakon.validation import InvalidInput
from ostrakon.votes import Votes

LAWS = [
    (gaussian_argmax_log_probabilities, oracle.gaussian_law),
    (laplace_argmax_log_probabilities, oracle.laplace_law),
]


def test_the_normal_distribution_in_log_space():
    for t in [*np.linspace(-40, 8, 97), -12.0, np.nextafter(-12, 0), -1e3, -1e5]:
        with mp.workdps(60):
            below = mp.erfc(-mp.mpf(t) / mp.sqrt(2)) / 2
            assert log_ndtr(t) == pytest.approx(float(mp.log(below)), rel=4e-15)
            assert inverse_mills(t) == pytest.approx(float(mp.npdf(mp.mpf(t)) / below), rel=2e-14)


@pytest.mark.parametrize(("law", "slow"), LAWS)
@pytest.mark.parametrize(
    "counts",
    [
        (5, 5),
        (40, 3),
        (30, 29, 28, 13),
        (10,) * 12,
        (60, 60, 0, 0, 0),
        (300, 200, 0),
        (900, 20, 18),
        tuple(range(0, 60, 5)),
    ],
)
def test_laws_to_ten_digits_and_far_below_1e_300(law, slow, counts):
    found = law(np.array([counts], float), 7.0)[0]
    if slow is oracle.gaussian_law and max(counts) == 900:
        assert found[1] < -2000
    for value, true in zip(found, slow(counts, 7), strict=True):
        with mp.workdps(50):
            exact = mp.log(true)
            # 1e-10 of the probability where it is a double, of its logarithm below.
            assert abs(mp.mpf(value) - exact) <= mp.mpf(10) ** -12 * max(1, -exact / 1000)


@pytest.mark.slow
@pytest.mark.parametrize(("law", "slow"), LAWS)
def test_laws_of_many_sizes(law, slow):
    rng = np.random.default_rng(8)
    for classes in (2, 10, 150, 1000):
        for scale in (1e-3, 0.05, 1.0, 40.0, 1e4):
            scores = rng.multinomial(5000, rng.dirichlet(np.full(classes, 0.3)), size=2) + rng.normal(size=(2, classes))
            log_p = law(scores, scale)
            assert (log_p <= 0).all()
            np.testing.assert_allclose(np.exp(log_p).sum(axis=1), 1, rtol=0, atol=1e-12)
            order = np.argsort(scores, axis=1)
            assert (np.diff(np.take_along_axis(log_p, order, axis=1), axis=1) >= -1e-12).all()
    tied = law(np.zeros((1, 1000)), 1.0)
    np.testing.assert_allclose(tied, -np.log(1000), rtol=1e-13)


def test_a_gap_beyond_the_resolution_of_floats_is_refused():
    near = gaussian_argmax_log_probabilities([[1e8, 0.0]], 1.0)
    assert near[0, 1] == pytest.approx(-(1e16) / 4 - np.log(1e8 * np.sqrt(np.pi)), rel=1e-12)
    for gap in (1.1e8, 1e12, 1e140):
        with pytest.raises(InvalidInput, match="sigma must be at least a hundred-millionth of the distance"):
            gaussian_argmax_log_probabilities([[gap, 0.0]], 1.0)


@pytest.mark.parametrize(("law", "slow"), LAWS)
def test_what_laws_refuse(law, slow):
    for scores in ([1.0, 2.0], [[np.nan, 1.0]], [[np.inf, 1.0]], np.zeros((2, 0))):
        with pytest.raises(InvalidInput, match="scores"):
            law(scores, 1.0)
    for scale in (0, -1, np.nan, np.inf, True, "3"):
        with pytest.raises(InvalidInput):
            law([[1.0, 2.0]], scale)
    assert law(np.zeros((0, 3)), 1.0).shape == (0, 3)


SAMPLED: list[tuple[Mechanism, list[Mechanism]]] = [
    (LNMax(gamma=0.05), [LNMax(gamma=0.05 * 1.02)]),
    (GNMax(sigma2=20), [GNMax(sigma2=20 * 1.02)]),
    (
        ConfidentGNMax(threshold=75, sigma1=20, sigma2=20),
        [
            ConfidentGNMax(threshold=75, sigma1=20.4, sigma2=20),
            ConfidentGNMax(threshold=75, sigma1=20, sigma2=20.4),
        ],
    ),
]


def chi_square(mechanism: Mechanism, law: Mechanism, *, samples: int, seed: int, scores=None) -> float:
    """p-value that `samples` answers follow `law` on one histogram."""
    rng = np.random.default_rng(seed)
    row = [60, 30, 10]
    seen = np.zeros(4)
    for _ in range(10):
        votes = Votes(np.tile(row, (samples // 10, 1)))
        seen += np.bincount(mechanism.sample(votes, rng) % 4, minlength=4)
    expected = np.exp(law.log_probabilities(Votes([row]))[0]) * samples
    kept = expected > 0
    assert seen[~kept].sum() == 0
    return float(chi2.sf(((seen - expected)[kept] ** 2 / expected[kept]).sum(), kept.sum() - 1))


@pytest.mark.slow
@pytest.mark.parametrize(("mechanism", "wrong"), SAMPLED, ids=lambda case: getattr(case, "name", ""))
def test_ten_million_samples_follow_the_law(mechanism, wrong):
    assert chi_square(mechanism, mechanism, samples=10_000_000, seed=11) > 1e-3
    for other in wrong:
        assert chi_square(other, mechanism, samples=10_000_000, seed=12) < 1e-9


@pytest.mark.slow
def test_ten_million_samples_of_interactive_gnmax():
    p = np.array([[0.625, 0.25, 0.125]])

    def build(rows: int, sigma1: float = 6.0) -> InteractiveGNMax:
        return InteractiveGNMax(threshold=9, sigma1=sigma1, sigma2=20, scores=np.tile(p, (rows, 1)))

    law = build(1)
    assert chi_square(build(1_000_000), law, samples=10_000_000, seed=13) > 1e-3
    assert chi_square(build(1_000_000, sigma1=6.12), law, samples=10_000_000, seed=14) < 1e-9


def test_interactive_gnmax_holds_its_scores_safely():
    scores = np.array([[0.5, 0.5], [0.25, 0.75]])
    mechanism = InteractiveGNMax(threshold=5, sigma1=6, sigma2=7, scores=scores)
    scores[0, 0] = 0.9
    assert mechanism.scores[0, 0] == 0.5
    with pytest.raises(ValueError, match="read-only"):
        mechanism.scores[0, 0] = 1
    for twin in (pickle.loads(pickle.dumps(mechanism)), copy.deepcopy(mechanism)):
        assert twin == mechanism
        assert hash(twin) == hash(mechanism)
        assert not twin.scores.flags.writeable
    other = InteractiveGNMax(threshold=5, sigma1=6, sigma2=7, scores=[[0.5, 0.5], [0.75, 0.25]])
    assert other != mechanism
    assert repr(other) != repr(mechanism)
    assert "0.75" not in repr(mechanism)
    votes = Votes([[8, 2], [5, 5]])
    np.testing.assert_array_equal(
        mechanism.for_queries(np.array([1])).log_probabilities(votes[[1]])[0], mechanism.log_probabilities(votes)[1]
    )


@pytest.mark.parametrize(
    "scores",
    [
        [[0.5, 0.6]],
        [[1.5, -0.5]],
        [[np.nan, 1.0]],
        [[0.5, 0.5], [1.0]],
        [0.5, 0.5],
        [["a", "b"]],
        [[1.0]],
        [[True, False]],
    ],
)
def test_interactive_gnmax_refuses_other_scores(scores):
    with pytest.raises(InvalidInput, match="scores"):
        InteractiveGNMax(threshold=5, sigma1=6, sigma2=7, scores=scores)


def test_interactive_gnmax_refuses_votes_of_another_shape():
    mechanism = InteractiveGNMax(threshold=5, sigma1=6, sigma2=7, scores=[[0.5, 0.5]])
    rng = np.random.default_rng(0)
    for votes in (Votes([[3, 2], [3, 2]]), Votes([[3, 2, 0]])):
        for call in (
            mechanism.log_probabilities,
            mechanism.require_votes,
            lambda v: mechanism.sample(v, rng),
            lambda v: data_dependent_costs(v, mechanism),
        ):
            with pytest.raises(InvalidInput, match="scores"):
                call(votes)


def test_the_check_of_interactive_gnmax_changes_by_at_most_one():
    rng = np.random.default_rng(6)
    counts = rng.multinomial(50, rng.dirichlet(np.ones(4), size=200))
    scores = rng.dirichlet(np.ones(4), size=200)
    mechanism = InteractiveGNMax(threshold=0, sigma1=1, sigma2=1, scores=scores)
    before = mechanism.check_scores(Votes(counts)).max(axis=1)
    largest = 0.0
    for a in range(4):
        for b in range(4):
            possible = counts[:, a] > 0
            moved = counts.copy()
            moved[possible, a] -= 1
            moved[possible, b] += 1
            change = np.abs(mechanism.check_scores(Votes(moved)).max(axis=1) - before)
            largest = max(largest, float(change.max()))
    assert 1 - 1e-12 <= largest <= 1 + 1e-12


def test_reinforcement_is_algorithm_2():
    answers = np.array([-1, -1, 1, -1])
    scores = [[0.9, 0.1], [0.5, 0.5], [0.9, 0.1], [0.2, 0.8]]
    assert reinforce(answers, scores, confidence=0.8).tolist() == [0, -1, 1, -1]
    assert reinforce(answers, scores, confidence=0.75).tolist() == [0, -1, 1, 1]
    assert answers.tolist() == [-1, -1, 1, -1]
    with pytest.raises(InvalidInput, match="confidence"):
        reinforce(answers, scores, confidence=1.0)
    with pytest.raises(InvalidInput, match="answers"):
        reinforce(answers[:2], scores, confidence=0.5)


@pytest.mark.parametrize("epsilon", [1e-8, 1e-3, 0.1, 1.0, 5.0, 80.0])
def test_rdp_of_pure_dp_is_randomized_response(epsilon: float):
    orders = np.array([1.0001, 1.01, 2.0, 10.0, 1000.0])
    for found, a in zip(rdp_of_pure_dp(orders, epsilon), orders, strict=True):
        with mp.workdps(80):
            e, a = mp.mpf(epsilon), mp.mpf(a)
            formula = mp.log((mp.sinh(a * e) - mp.sinh((a - 1) * e)) / mp.sinh(e)) / (a - 1)
            p = 1 / (1 + mp.exp(e))
            response = mp.log(p**a * (1 - p) ** (1 - a) + (1 - p) ** a * p ** (1 - a)) / (a - 1)
            assert abs(formula / response - 1) < mp.mpf(10) ** -40
        assert found == pytest.approx(float(formula), rel=2e-12)


def test_rdp_of_pure_dp_at_its_ends():
    assert rdp_of_pure_dp([2.0, 1e6], 0.0).tolist() == [0, 0]
    assert rdp_of_pure_dp([1e12], 3.0)[0] == pytest.approx(3, rel=1e-9)
    assert rdp_of_pure_dp([1e12], 1e6)[0] <= 1e6
    for orders in ([1.0], [0.5], [np.nan], [np.inf]):
        with pytest.raises(InvalidInput, match="orders"):
            rdp_of_pure_dp(orders, 1.0)
    for epsilon in (-1, np.nan, np.inf, True):
        with pytest.raises(InvalidInput, match="epsilon"):
            rdp_of_pure_dp([2.0], epsilon)
