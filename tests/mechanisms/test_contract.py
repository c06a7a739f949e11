"""What every mechanism promises; a mechanism passes by having a row in `cases.py`."""

import dataclasses
import math
import pickle
import re

import numpy as np
import pytest
from cases import CASES, Case, missing
from histograms import all_votes, divergences, hockey_stick, neighbouring_rows
from scipy.special import log_ndtr
from scipy.stats import chi2, gumbel_r, laplace, norm

from ostrakon.accounting.composition.run import run_epsilon
from ostrakon.mechanisms import MECHANISMS, NO_ANSWER, GNMax, Mechanism, StatefulMechanism
from ostrakon.mechanisms.base import NoisyArgmax
from ostrakon.mechanisms.contrib.permute_and_flip import PermuteAndFlip
from ostrakon.mechanisms.rdp import rdp_of_bounded_range
from ostrakon.noise import secure_rng
from ostrakon.validation import InvalidInput
from ostrakon.votes import Votes

ORDERS = np.array([1.01, 1.1, 1.5, 2.0, 3.0, 7.5, 20.0, 100.0, 1000.0])
SMALL = [(8, 2, False), (6, 3, False), (4, 4, False), (4, 2, True), (3, 3, True)]

every = pytest.mark.parametrize("case", CASES, ids=[case.label for case in CASES])
# A run of tied queries is one sample, drawn by itself.
sampled = pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            case, id=case.label, marks=[pytest.mark.slow] if issubclass(case.mechanism, StatefulMechanism) else []
        )
        for case in CASES
    ],
)


def test_every_registered_mechanism_has_a_row():
    assert missing() == set()
    assert all(MECHANISMS[case.mechanism.name] is case.mechanism for case in CASES)


def repeated(case: Case, queries: int) -> Votes:
    return case.votes(np.tile(case.counts, (queries, 1)))


def fit(case: Case, sampler: Mechanism, law: Mechanism, rng: np.random.Generator) -> float:
    """p-value of Pearson's test that `sampler`'s answers follow `law`'s probabilities."""
    if isinstance(sampler, StatefulMechanism):
        # A run is one sample: three queries, so that a refusal's redrawn noise takes part.
        votes, runs = repeated(case, 3), 150_000
        answers = np.array([sampler.sample(votes, rng) for _ in range(runs)])
    else:
        votes, runs = repeated(case, 1), 1_500_000
        many = repeated(case, runs)
        answers = case.build(many, **noise_of(case, sampler)).sample(many, rng)[:, None]
    expected = np.exp(law.log_probabilities(votes)) * runs
    p_values = []
    for query in range(votes.queries):
        seen = np.bincount(np.where(answers[:, query] < 0, votes.classes, answers[:, query]), minlength=4)
        impossible = expected[query] == 0
        assert seen[impossible].sum() == 0
        statistic = ((seen - expected[query])[~impossible] ** 2 / expected[query][~impossible]).sum()
        p_values.append(chi2.sf(statistic, (~impossible).sum() - 1))
    return min(1.0, min(p_values) * len(p_values))


def noise_of(case: Case, mechanism: Mechanism) -> dict[str, float]:
    return {name: getattr(mechanism, name) for fields in case.noise for name in fields.split()}


@sampled
def test_samples_follow_the_law_and_two_percent_more_noise_does_not(case: Case):
    rng = np.random.default_rng(20261121)
    law = case.build(repeated(case, 3 if issubclass(case.mechanism, StatefulMechanism) else 1))
    assert fit(case, law, law, rng) > 1e-3
    for fields in case.noise:
        assert fit(case, case.scaled(fields, 1.02), law, rng) < 1e-4, fields


@every
def test_probabilities_sum_to_one(case: Case):
    rng = np.random.default_rng(7)
    for classes in (2, 3, 10, 40):
        counts = rng.multinomial(100, rng.dirichlet(np.full(classes, 0.5), size=30))
        counts[0] = 0
        counts[0, -1] = 100
        counts[1] = np.bincount(np.arange(100) % classes, minlength=classes)
        votes = case.votes(counts)
        for scale in (0.01, 1.0, 100.0):
            mechanism = case.scaled(case.noise[0], scale, votes)
            law = mechanism.log_probabilities(votes)
            assert law.shape == (30, classes + 1)
            assert (law <= 0).all()
            np.testing.assert_allclose(np.exp(law).sum(axis=1), 1, rtol=0, atol=1e-12)


def small_laws(case: Case, *, teachers: int, classes: int, abstentions: bool):
    votes = all_votes(teachers=teachers, classes=classes, abstentions=abstentions)
    before, after = neighbouring_rows(votes)
    for scale in case.scales:
        mechanism = case.build(votes)
        for fields in case.noise:
            factor = scale if fields.startswith("sigma") else 1 / scale
            mechanism = dataclasses.replace(mechanism, **noise_of(case, case.scaled(fields, factor)))
        if "threshold" in case.parameters:
            # In reach of so few teachers, so that the check's both outcomes matter.
            mechanism = dataclasses.replace(mechanism, threshold=teachers / 2)
        law = mechanism.log_probabilities(votes)
        yield mechanism, law[before], law[after]


@every
@pytest.mark.parametrize(("teachers", "classes", "abstentions"), SMALL)
def test_no_neighbours_cost_more_than_claimed(case: Case, teachers: int, classes: int, abstentions: bool):
    if issubclass(case.mechanism, StatefulMechanism):
        pytest.skip("its queries share state: test_sparse_vector.py and test_bounded_gnmax.py enumerate whole runs")
    for mechanism, p, q in small_laws(case, teachers=teachers, classes=classes, abstentions=abstentions):
        claimed = mechanism.worst_case(ORDERS)
        assert claimed.shape == ORDERS.shape
        assert (divergences(p, q, ORDERS) <= claimed * (1 + 1e-9) + 1e-13).all(), mechanism
        pure = mechanism.pure_dp()
        if pure is not None:
            assert hockey_stick(p, q, pure).max() <= 1e-13
        gaussian = mechanism.gaussian_dp()
        if gaussian is not None:
            mu = math.hypot(*gaussian)
            for epsilon in (0.0, 0.1 * mu, mu, 3 * mu):
                log_delta = float(log_ndtr(-epsilon / mu + mu / 2))
                delta = math.exp(log_delta) - math.exp(epsilon + float(log_ndtr(-epsilon / mu - mu / 2)))
                assert hockey_stick(p, q, epsilon).max() <= delta * (1 + 1e-9) + 1e-13
        for delta in (1e-9, 1e-3, 0.05, 0.3, 0.6):
            tied = mechanism.run_cost(queries=1)
            whole = math.inf if tied is None else run_epsilon(tied, delta=delta)
            if whole < math.inf:
                assert hockey_stick(p, q, whole).max() <= delta * (1 + 1e-9)


def test_enumeration_finds_a_curve_that_is_too_low():
    case = next(case for case in CASES if case.mechanism is PermuteAndFlip)
    for mechanism, p, q in small_laws(case, teachers=8, classes=2, abstentions=False):
        true = divergences(p, q, ORDERS).max(axis=0)
        assert (true > rdp_of_bounded_range(ORDERS, mechanism.pure_dp())).any()
    case = next(case for case in CASES if case.mechanism is GNMax)
    found = max(
        (divergences(p, q, np.array([2.0])).max() / mechanism.worst_case(np.array([2.0]))[0])
        for mechanism, p, q in small_laws(case, teachers=8, classes=2, abstentions=False)
    )
    assert 0.6 < found <= 1


NOISES = {
    "gaussian": lambda scale: norm(scale=scale),
    "laplace": lambda scale: laplace(scale=scale),
    "gumbel": lambda scale: gumbel_r(scale=scale),
}


def law_of(form: NoisyArgmax, votes: Votes) -> np.ndarray:
    """The probabilities of every outcome that a form describes, by plain sums over the noise of the winner."""
    noise = NOISES[form.noise](form.scale)
    # Half steps around the kinks of Laplace noise, far enough for its tails.
    x, step = np.linspace(-150, 250, 400_001, retstep=True)
    chances = np.zeros((votes.queries, votes.classes + 1))
    for query, counts in enumerate(votes.counts):
        below = np.array([noise.cdf(x - count) for count in counts])
        for label, count in enumerate(counts):
            others = np.delete(below, label, axis=0).prod(axis=0)
            chances[query, label] = (noise.pdf(x - count) * others).sum() * step
    test = form.threshold_test
    if test is not None:
        scores = votes.counts - (0 if test.offsets is None else test.offsets)
        passes = NOISES[test.noise](test.scale).sf(test.threshold - scores.max(axis=1))
        chances *= passes[:, None]
        chances[:, -1] = 1 - passes
    return chances


def require_described(mechanism: Mechanism, votes: Votes) -> None:
    form = mechanism.noisy_argmax(votes)
    if form is not None:
        found = np.exp(mechanism.log_probabilities(votes))
        np.testing.assert_allclose(law_of(form, votes), found, rtol=1e-4, atol=1e-7)


@every
def test_the_form_that_prices_rest_on_has_the_outcome_law(case: Case):
    votes = case.votes(np.array([[9, 4, 3, 0], [6, 5, 3, 2], [4, 4, 4, 4], [16, 0, 0, 0]]))
    mechanism = case.build(votes)
    for width in (0.7, 3.0):
        noise = {name: width if name.startswith("sigma") else 1 / width for name in noise_of(case, mechanism)}
        threshold = {"threshold": 6.0} if "threshold" in case.parameters else {}
        require_described(dataclasses.replace(mechanism, **noise, **threshold), votes)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Wider(GNMax):
    """It describes noise that is 2% larger than its own: its exact cost would be too low."""

    def noisy_argmax(self, votes: Votes) -> NoisyArgmax:
        return NoisyArgmax(noise="gaussian", scale=1.02 * self.sigma2)


def test_a_form_of_two_percent_more_noise_is_refused():
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        require_described(Wider(sigma2=3.0), Votes([[9, 4, 3, 0]]))


@every
def test_renaming_the_classes_renames_the_answers(case: Case):
    rng = np.random.default_rng(3)
    counts = np.array([[60, 29, 11, 0], [49, 40, 6, 5], [10, 17, 40, 33], [0, 2, 97, 1]])
    if not case.ordered:
        counts = np.vstack([counts, [[25, 25, 25, 25], [40, 40, 10, 10]]])
    votes = case.votes(counts)
    for _ in range(4):
        order = np.arange(4)[::-1] if case.mechanism.ranked else rng.permutation(4)
        mechanism, renamed = case.build(votes), case.build(votes)
        if case.per_query(1, 2):
            renamed = dataclasses.replace(renamed, scores=mechanism.scores[:, order])
        moved = case.votes(votes.counts[:, order])
        np.testing.assert_allclose(
            renamed.log_probabilities(moved)[:, [*range(4), 4]],
            mechanism.log_probabilities(votes)[:, [*order, 4]],
            rtol=1e-9,
            atol=1e-12,
        )


@every
def test_refusals_are_minus_one(case: Case):
    votes = case.votes(np.tile([[60, 30, 10], [34, 33, 33]], (500, 1)))
    mechanism = case.build(votes)
    answers = mechanism.sample(votes, np.random.default_rng(5))
    assert answers.shape == (1000,)
    assert answers.dtype == np.int64
    refuses = np.exp(mechanism.log_probabilities(votes)[:, -1]) > 0
    assert set(np.unique(answers)) <= {NO_ANSWER, 0, 1, 2}
    assert (answers == NO_ANSWER).any() == refuses.any()
    assert not (answers[~refuses] == NO_ANSWER).any()


@every
def test_no_queries_no_answers(case: Case):
    votes = case.votes(np.zeros((0, 3), int), teachers=5)
    mechanism = case.build(votes)
    assert mechanism.sample(votes, np.random.default_rng(0)).shape == (0,)
    assert mechanism.log_probabilities(votes).shape == (0, 4)


@every
@pytest.mark.parametrize("wrong", [0, -1.0, math.nan, math.inf, -math.inf, True, "3", [1.0], 1 + 2j])
def test_bad_parameters_are_refused_by_name(case: Case, wrong: object):
    for name in case.parameters:
        allowed = (0, -1.0) if name in case.finite else (0,) if name in case.may_be_0 else ()
        if wrong in allowed and wrong is not True:
            case.build(**{name: wrong})
            continue
        with pytest.raises(InvalidInput, match=name) as refusal:
            case.build(**{name: wrong})
        assert re.search(r"must be .*, got ", str(refusal.value))


@every
def test_a_fractional_count_is_refused(case: Case):
    for name in case.whole:
        with pytest.raises(InvalidInput, match=name):
            case.build(**{name: 1.5})


@every
def test_it_is_a_frozen_value(case: Case):
    mechanism = case.build()
    assert mechanism == case.build()
    assert hash(mechanism) == hash(case.build())
    copy = pickle.loads(pickle.dumps(mechanism))
    assert copy == mechanism
    assert type(copy) is type(mechanism)
    for fields in case.noise:
        assert case.scaled(fields, 2.0) != mechanism
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(mechanism, next(iter(case.parameters)), 1.0)
    with pytest.raises(TypeError):
        case.mechanism(*case.parameters.values())


@every
def test_repr_and_parameters_name_every_field(case: Case):
    mechanism = case.build()
    fields = [field.name for field in dataclasses.fields(mechanism)]
    # The plan sets the number of classes over which sums are centred; an unknown one is not a parameter. Runs without
    # corrections, counts of errors, a histogram and other linear features have the parameters of before; those of a
    # quantity always state counts of errors.
    left_out = {"centred_classes": None, "corrections": 0.0, "linear": 0.2, "histogram": 0.0} | (
        {} if mechanism.name == "quantity-gnmax" else {"errors": 0.0}
    )
    known = [name for name in fields if name not in left_out or getattr(mechanism, name) != left_out[name]]
    assert sorted(mechanism.parameters()) == sorted(known)
    for name in known:
        assert f"{name}=" in repr(mechanism)
    for name, value in case.parameters.items():
        assert mechanism.parameters()[name] == value
    if not case.per_query(1, 2):
        assert eval(repr(mechanism), {case.mechanism.__name__: case.mechanism}) == mechanism


@every
def test_noise_comes_from_the_given_source_only(case: Case, monkeypatch: pytest.MonkeyPatch):
    votes = repeated(case, 20)
    mechanism = case.build(votes)

    def runs(rng: np.random.Generator) -> np.ndarray:
        return np.array([mechanism.sample(votes, rng) for _ in range(20)])

    first, same, other = runs(np.random.default_rng(1)), np.random.default_rng(1), np.random.default_rng(2)

    def forbidden(*_args: object, **_kwargs: object):
        raise AssertionError("a second source of noise")

    for name in ("default_rng", "normal", "laplace", "gumbel", "exponential", "random", "uniform", "choice"):
        monkeypatch.setattr(np.random, name, forbidden)
    assert np.array_equal(runs(same), first)
    assert not np.array_equal(runs(other), first)
    assert not np.array_equal(runs(secure_rng()), runs(secure_rng()))


@every
@pytest.mark.parametrize("source", [None, 3, np.random.RandomState(0), np.random])
def test_noise_has_no_default_source(case: Case, source: object):
    votes = repeated(case, 2)
    with pytest.raises(InvalidInput, match="rng must be"):
        case.build(votes).sample(votes, source)
