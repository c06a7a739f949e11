"""Labels GNMax: what one teacher can move, by search over whole tables; its price by hand."""

import itertools
import math

import numpy as np
import pytest

from ostrakon.features.labels import LabelMap, is_limited
from ostrakon.features.sums import SumMap
from ostrakon.mechanisms import LabelsGNMax, QuantityGNMax
from ostrakon.teachers.per_record import collect_per_record
from ostrakon.validation import InvalidInput
from ostrakon.votes import STEPS, LabelVotes

PUBLIC = np.random.default_rng(0).normal(size=(60, 3))
FAR = np.array([[-9.0, -9.0, -9.0], [9.0, 9.0, -9.0], [0.3, -0.2, 0.1]])
SUMS = SumMap.of(PUBLIC)


def said(rows, labels, known, max_contributions=1):
    """Both tables that one teacher with these rows makes, in votes, each as a vector."""
    votes = collect_per_record(
        [(np.zeros(len(rows), int), rows, np.array(labels))],
        PUBLIC[:4],
        classes=known.labels,
        units=1,
        max_contributions=max_contributions,
        moments=known,
    )
    return votes.in_votes.ravel(), votes.moments.counts.ravel() / STEPS


@pytest.mark.parametrize(("labels", "max_labels"), [(3, 3), (5, 1), (9, 2)])
def test_no_two_records_are_farther_apart_than_the_price(labels, max_labels):
    mechanism = LabelsGNMax(sigma2=5.0, max_labels=max_labels)
    known = LabelMap(sum_map=SUMS, labels=labels, max_labels=max_labels)
    sets = [np.eye(labels, dtype=int)[list(chosen)].sum(axis=0) for size in (0, 1, max_labels, 3, labels)
            for chosen in itertools.islice(itertools.combinations(range(labels), size), 6)]  # fmt: skip
    everyone = [said(FAR[[row]], [chosen], known) for row in range(len(FAR)) for chosen in sets]
    scaled = [np.concatenate([c / mechanism.sigma2, m / mechanism.moment_noise]) for c, m in everyone]
    farthest = max(np.linalg.norm(a - b) for a, b in itertools.combinations(scaled, 2))
    assert farthest <= mechanism.run_cost(queries=4).mu
    # 2% less is refuted in the first form. In the other one, opposite sums need equal labels, whose votes are equal.
    cells = max(np.linalg.norm(a[0] - b[0]) for a, b in itertools.combinations(everyone, 2))
    sums = max(np.linalg.norm(a[1] - b[1]) for a, b in itertools.combinations(everyone, 2))
    assert 0.98 * math.sqrt(2 * max_labels) < cells <= math.sqrt(2 * max_labels)
    reached = 0.98 if max_labels == labels else 0.65
    assert reached * math.sqrt(2 * max_labels) < sums <= math.sqrt(2 * max_labels)
    removed = mechanism.under("take-out").run_cost(queries=4).mu
    assert 0.98 * removed < max(np.linalg.norm(a) for a in scaled) <= removed


@pytest.mark.parametrize("max_labels", [4, 1])
def test_users_with_several_rows_stay_within_the_price(max_labels):
    mechanism = LabelsGNMax(sigma2=5.0, max_labels=max_labels if max_labels > 1 else 1, max_contributions=2)
    labels = 4 if max_labels > 1 else 6
    known = LabelMap(sum_map=SUMS, labels=labels, max_labels=max_labels)
    rng = np.random.default_rng(0)
    everyone = [said(FAR, rng.integers(0, 2, (3, labels)), known, 2) for _ in range(40)]
    for one, other in itertools.combinations(everyone, 2):
        cells, sums = np.linalg.norm(one[0] - other[0]), np.linalg.norm(one[1] - other[1])
        assert math.hypot(cells / 5, sums / mechanism.moment_noise) <= mechanism.run_cost(queries=4).mu


def certified(mechanism, seed):
    """A mu that the release of two opposite records attains, by the spread of its noise; too large 1 time in 1000."""
    known, rng = LabelMap(sum_map=SUMS, labels=3, max_labels=3), np.random.default_rng(seed)
    of = {"classes": 3, "units": 1, "max_contributions": 1, "moments": known}
    votes = [collect_per_record([(np.zeros(1, int), FAR[:1], np.array([labels]))], PUBLIC[:4], **of)
             for labels in known.ends]  # fmt: skip
    exact = votes[0].in_votes, votes[0].moments.counts / STEPS
    moved = [np.linalg.norm(exact[0] - votes[1].in_votes), np.linalg.norm(exact[1] - votes[1].moments.counts / STEPS)]
    squares = 0.0
    for part, (draw, given, draws) in enumerate(
        [(mechanism.noisy_counts, votes[0], 6000), (mechanism.noisy_moments, votes[0].moments, 600)]
    ):
        noise = np.concatenate([np.ravel(draw(given, rng) - exact[part]) for _ in range(draws)])
        squares += (moved[part] / noise.std() * (1 - 3 / math.sqrt(2 * noise.size))) ** 2
    return math.sqrt(squares)


def test_two_percent_less_noise_or_price_is_refuted():
    mechanism = LabelsGNMax(sigma2=5.0, max_labels=3)
    price = mechanism.run_cost(queries=4).mu
    assert 0.98 * price < certified(mechanism, 0) <= price
    quieter = LabelsGNMax(sigma2=0.98 * 5.0, max_labels=3)
    assert certified(quieter, 1) > price


def test_sums_of_records_are_sums_of_what_each_adds_alone():
    rng = np.random.default_rng(1)
    rows, labels = rng.normal(size=(40, 3)), rng.integers(0, 2, (40, 9))
    for max_labels in (9, 2):
        known = LabelMap(sum_map=SUMS, labels=9, max_labels=max_labels)
        steps = known.steps(rows)
        alone = sum(known.contributions(steps[[row]], labels[[row]]) for row in range(40))
        np.testing.assert_array_equal(known.contributions(steps, labels), alone)
        np.testing.assert_allclose(
            known.sums(known.table(alone) / STEPS),
            SUMS.unrounded(rows).T @ (known.signs(labels) / STEPS),
            atol=40 * 2 / SUMS.longest,
        )


def test_the_price_by_hand():
    mechanism = LabelsGNMax(sigma2=8.0, max_contributions=2, moments=0.6, max_labels=5)
    cells, sums = 5 * 2 * 2 / 8.0**2, 5 * 2 / mechanism.moment_noise**2
    assert sums / (cells + sums) == pytest.approx(0.6, rel=1e-12)
    assert math.sqrt(cells + sums) <= mechanism.run_cost(queries=10).mu < 1.000001 * math.sqrt(cells + sums)
    one = QuantityGNMax(sigma2=8.0, max_contributions=2, moments=0.6).run_cost(queries=10).mu
    assert mechanism.run_cost(queries=10).mu == pytest.approx(math.sqrt(5) * one, rel=1e-9)


def test_which_form_has_less_noise():
    """Deviation of the noise on a label's share at one mu: sqrt(max_labels) if limited, else sqrt(labels) / 2."""
    for labels, most in itertools.product(range(2, 40), range(1, 12)):
        assert is_limited(labels, most) == (math.sqrt(most) < math.sqrt(labels) / 2)


def test_what_no_row_may_have_is_refused():
    known = LabelMap(sum_map=SUMS, labels=3, max_labels=3)
    for labels in ([[0, 2, 1]], [[0, 1]], [0]):
        with pytest.raises(InvalidInput, match="0 or 1 for each of 3 labels"):
            said(FAR[:1], labels, known)
    with pytest.raises(InvalidInput, match="sum to at most"):
        LabelVotes([[2 * STEPS + 1, 0]], teachers=1, max_contributions=1)
