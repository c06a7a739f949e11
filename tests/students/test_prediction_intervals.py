"""Intervals of a quantity from noisy counts of errors: the stated coverage holds for any law of errors."""

import inspect

import numpy as np
import pytest
from scipy import stats

import ostrakon.students.prediction_intervals as intervals
from ostrakon.data.quantity import Quantity
from ostrakon.students.prediction_intervals import edges_of, half_widths_of
from ostrakon.teachers.errors import ErrorSizes, error_steps
from ostrakon.validation import InvalidInput
from ostrakon.votes import FINE_STEPS, STEPS

DRAWS = 300
MOST = stats.binom.ppf(0.9999, DRAWS, 0.05)
"""Failures that a procedure with 5% of failures exceeds once in 10,000 tests."""


def _at_edges(units, noise, shares):
    """Errors just below some edges, with these probabilities from the smallest one on."""
    edges = edges_of(units, noise)
    return lambda rng, n: rng.choice(0.99 * edges[-len(shares) - 1 : -1], n, p=shares)


WORLDS = {
    "heteroscedastic": (4000, 25.0, lambda rng, n: np.abs(rng.normal(size=n)) * rng.choice([0.01, 0.2], n)),
    "heavy tails": (4000, 25.0, lambda rng, n: np.abs(rng.standard_t(1.2, size=n)) * 0.03),
    "skewed": (4000, 25.0, lambda rng, n: rng.lognormal(-3, 1, size=n)),
    "few records": (250, 15.0, lambda rng, n: np.abs(rng.normal(size=n)) * 0.05),
    "constants": (4000, 25.0, lambda rng, n: np.full(n, 0.3)),
    "two values": (4000, 25.0, lambda rng, n: np.where(rng.random(n) < 0.1, 1.0, 0.001)),
    "at edges": (4000, 25.0, _at_edges(4000, 25.0, [0.75, 0.1, 0.08, 0.07])),
}


def drawn(world, seed):
    """(half-widths by coverage, of several noisy counts; what share of new errors is within a half-width)."""
    units, noise, law = WORLDS[world]
    rng, edges = np.random.default_rng(seed), edges_of(units, noise)
    many = np.sort(np.minimum(law(rng, 400_000), 1))
    found = []
    for _ in range(DRAWS):
        errors = np.minimum(law(rng, units), 1)
        exact = np.bincount(np.searchsorted(edges, errors), minlength=len(edges))
        found.append(half_widths_of(exact + rng.normal(0, noise, len(edges)), units=units, noise=noise))
    return found, lambda width: np.searchsorted(many, width, side="right") / len(many)


def failures(found, covered, *, scale=1.0):
    return {at: sum(covered(scale * one[at]) < at - 0.002 for one in found) for at in intervals.COVERAGES}


@pytest.mark.parametrize("world", WORLDS)
def test_the_stated_coverage_holds_for_new_errors_of_any_law(world):
    assert max(failures(*drawn(world, 1)).values()) <= MOST


def test_intervals_that_are_three_percent_too_narrow_are_rejected():
    found, covered = drawn("at edges", 2)
    assert max(failures(found, covered).values()) <= MOST
    assert min(failures(found, covered, scale=0.97).values()) > MOST


def test_half_widths_without_an_allowance_for_the_noise_are_rejected(monkeypatch):
    """At an edge whose coverage is just below the stated one, each draw is a chance to fail."""
    noise, units = 25.0, 4000
    monkeypatch.setitem(WORLDS, "edge", (units, noise, _at_edges(units, noise, [0.897, 0.103])))
    assert 0 < failures(*drawn("edge", 3))[0.9] <= MOST
    monkeypatch.setattr(intervals, "CONFIDENCE", 0.5)
    assert failures(*drawn("edge", 3))[0.9] > MOST


@pytest.mark.parametrize(
    ("units", "noise", "allowance"),
    [(400, 0.5, "coverage * (1 - coverage) / units"), (4000, 100.0, "variance + coverage")],
)
def test_half_widths_without_one_of_both_allowances_are_rejected(units, noise, allowance, monkeypatch):
    """In one world records are few and the noise is small; in the other the noise decides."""
    monkeypatch.setitem(WORLDS, "edge", (units, noise, _at_edges(units, noise, [0.897, 0.103])))
    assert failures(*drawn("edge", 4))[0.9] <= MOST
    without = inspect.getsource(half_widths_of).replace(allowance, f"0 * {allowance}")
    places = dict(vars(intervals))
    exec(without, places)
    monkeypatch.setitem(globals(), "half_widths_of", places["half_widths_of"])
    assert failures(*drawn("edge", 4))[0.9] > MOST


def test_many_records_without_noise_give_the_quantile_rounded_up_to_an_edge():
    units, noise = 10**6, 1e-6
    edges = edges_of(units, noise)
    errors = np.abs(np.random.default_rng(0).normal(0, 0.05, units))
    exact = np.bincount(np.searchsorted(edges, errors), minlength=len(edges))
    for coverage, width in half_widths_of(exact, units=units, noise=noise).items():
        right = 0.05 * stats.norm.ppf(0.5 + coverage / 2)
        assert right <= width <= right * 1.07


def test_nothing_is_stated_where_noise_hides_all():
    assert half_widths_of(np.zeros(len(edges_of(20, 500.0))), units=20, noise=500.0) == {0.8: 1, 0.9: 1, 0.95: 1}


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid")
def test_counts_whose_sum_is_not_finite_show_nothing():
    edges = edges_of(1500, 20.0)
    assert set(half_widths_of(np.full(len(edges), 1e308), units=1500, noise=20.0).values()) == {1.0}


ROWS = [[0.0], [0.004], [0.3], [1.0]]


def said(rows, quantities, edges):
    block = np.zeros(len(rows), int), np.array(rows), np.array(quantities)
    return ErrorSizes(edges=edges).contributions_of(block).counts.ravel() / STEPS


def test_the_whole_range_is_not_put_down_to_noise_alone():
    """Of 10,000 records 15% are as wrong as possible, and no noise is there to hide it."""
    units, noise = 10_000, 9.0
    counts = np.zeros(len(edges_of(units, noise)))
    counts[[0, -1]] = 8500, 1500
    found = half_widths_of(counts, units=units, noise=noise)
    assert found[0.8] < 0.1
    words = intervals.PredictionIntervals(half_widths=found, of="").widths_in_words(Quantity(low=0, high=1))
    assert words.endswith("the whole range at 0.9, the whole range at 0.95 (large errors, few data or much noise)")


def test_one_record_or_user_moves_two_counts_by_one_at_most():
    edges = edges_of(1000, 20.0)
    everyone = [said([row], [at], edges) for row in ROWS for at in (0, 300, FINE_STEPS)]
    everyone += [said(ROWS, at, edges) for at in ([0, 0, 0, 0], [FINE_STEPS] * 4, [0, 7, FINE_STEPS // 3, 9])]
    assert all(one.sum() == 1 and (one >= 0).all() for one in everyone)
    farthest = max(np.linalg.norm(one - other) for one in everyone for other in everyone)
    assert farthest == np.sqrt(2)
    assert max(np.linalg.norm(one) for one in everyone) == 1


def test_users_split_one_vote_whose_sums_are_rounded():
    whole = error_steps(np.array([3, 1, 1, 1, 0, 2]), np.array([2, 0, 0, 1, 4, 4]), 4, n_bins=5).ravel()
    assert whole.tolist() == [683, STEPS - 683, STEPS, 0, 2 * STEPS]


def test_an_error_at_an_edge_is_within_it():
    edges = edges_of(1000, 20.0)
    at = int(np.flatnonzero(edges == 0.25)[0])
    assert said([[0.25]], [0], edges)[at] == 1
    assert said([[np.nextafter(0.25, 1)]], [0], edges)[at + 1] == 1


def test_another_quantity_is_refused():
    with pytest.raises(InvalidInput, match="whole steps from 0 to 1073741824"):
        said([[0.5]], [FINE_STEPS + 1], edges_of(1000, 20.0))


@pytest.mark.parametrize("estimate", [np.nan, np.inf, -np.inf])
def test_an_estimate_that_is_not_finite_has_the_largest_error_and_stops_no_run(estimate):
    assert said([[estimate]], [0], edges_of(1000, 20.0)).tolist()[-1] == 1
