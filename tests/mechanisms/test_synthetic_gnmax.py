"""Synthetic GNMax: its price composed by hand, the width of its noise, what a teacher can move, refusals."""

import itertools
import math

import numpy as np
import pytest

from ostrakon.accounting.composition.gaussian_dp import gaussian_dp_epsilon
from ostrakon.accounting.data_independent.worst_case import worst_case
from ostrakon.ledger.cost import cost_of
from ostrakon.mechanisms import MomentGNMax, SyntheticGNMax
from ostrakon.teachers.marginals import collect_marginals
from ostrakon.validation import InvalidInput
from ostrakon.votes import STEPS, Marginals

SIZES, TABLES = (2, 3, 2), ((0,), (1, 2))


def made(**changed):
    return SyntheticGNMax(
        **{"sigma2": 8.0, "max_contributions": 2, "moments": 0.6, "marginals": 0.3, "tables": 7} | changed
    )


def test_the_price_by_hand():
    mechanism = made()
    counts, sums = 2 * 2 / 8.0**2, 2 / mechanism.moment_noise**2
    marginals = 2 * 7 / mechanism.marginal_noise**2
    assert sums / (counts + sums) == pytest.approx(0.6, rel=1e-12)
    assert marginals / (counts + sums + marginals) == pytest.approx(0.3, rel=1e-12)
    mu = math.sqrt(counts + sums + marginals)
    assert mu <= mechanism.run_cost(queries=10).mu == pytest.approx(mu, rel=1e-11)
    assert mechanism.run_cost(queries=1).mu == pytest.approx(math.sqrt(2 / 8.0**2 + sums + marginals), rel=1e-11)
    assert mechanism.absence_cost(queries=10).mu == pytest.approx(mu / math.sqrt(2), rel=1e-11)
    found = worst_case(mechanism, queries=10, delta=1e-5).epsilon
    assert found == pytest.approx(gaussian_dp_epsilon(mu, 1e-5), rel=1e-8)
    # A price that is too small by a fiftieth would not pass, nor one that left the marginals out.
    assert found > gaussian_dp_epsilon(0.99 * mu, 1e-5) > 0.98 * found
    assert (
        found
        > 1.15 * worst_case(MomentGNMax(sigma2=8.0, max_contributions=2, moments=0.6), queries=10, delta=1e-5).epsilon
    )
    assert mu <= cost_of(mechanism, queries=10).mu == pytest.approx(mu, rel=1e-11)


def test_without_sums_the_rest_goes_to_the_counts():
    mechanism = made(moments=0)
    assert mechanism.moment_noise is None
    counts, marginals = 2 * 2 / 8.0**2, 2 * 7 / mechanism.marginal_noise**2
    assert marginals / (counts + marginals) == pytest.approx(0.3, rel=1e-12)
    assert mechanism.run_cost(queries=10).mu == pytest.approx(math.sqrt(counts + marginals), rel=1e-11)


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_no_two_teachers_move_the_marginals_farther_than_the_price(rows):
    """All tables of up to three rows of one user in a tiny domain, against each other."""
    cells = list(itertools.product(*map(range, SIZES)))
    said = {
        tuple(
            collect_marginals(
                [(np.zeros(rows, int), chosen, np.zeros(rows, int))],
                TABLES,
                sizes=SIZES,
                units=1,
            ).counts[:, 0]
        )
        for chosen in itertools.combinations_with_replacement(cells, rows)
    }
    tables = np.array(sorted(said)) / STEPS
    mechanism = made(tables=len(TABLES))
    price = math.sqrt(2 * len(TABLES)) / mechanism.marginal_noise
    farthest = max(np.linalg.norm(a - tables, axis=1).max() for a in tables) / mechanism.marginal_noise
    assert farthest <= price * (1 + 1e-12)
    # Attained: no smaller price would do; and nobody is longer than what an absent one costs.
    assert farthest == pytest.approx(price, rel=1e-12)
    assert np.linalg.norm(tables, axis=1).max() == pytest.approx(math.sqrt(len(TABLES)), rel=1e-12)
    whole = mechanism.run_cost(queries=5).mu ** 2
    assert farthest**2 / whole == pytest.approx(mechanism.marginals, rel=1e-9)


def test_the_noise_is_as_wide_as_it_is_paid_for():
    mechanism = made(tables=1)
    zeros = Marginals(np.zeros((60_000, 1), np.int64), teachers=5, tables=1)
    drawn = mechanism.noisy_marginals(zeros, np.random.default_rng(1))
    assert drawn.dtype == np.int64
    # Five standard errors of 60,000 draws: noise of 0.98 of that width would fail.
    assert drawn.std() / STEPS == pytest.approx(mechanism.marginal_noise, rel=5 / math.sqrt(2 * drawn.size))
    shifted = Marginals(np.full((60_000, 1), 7), teachers=5, tables=1)
    np.testing.assert_array_equal(mechanism.noisy_marginals(shifted, np.random.default_rng(1)) - drawn, 7)


def test_marginals_of_more_tables_than_were_paid_for_are_refused():
    two = Marginals(np.zeros((6, 1), np.int64), teachers=5, tables=2)
    with pytest.raises(InvalidInput, match="marginals must be of 7 tables, as was paid for, got 2"):
        made().noisy_marginals(two, np.random.default_rng(0))


@pytest.mark.parametrize("share", [1.0, -0.5, float("nan"), float("inf"), True, "half"])
def test_shares_out_of_range_are_refused(share):
    for name in ("moments", "marginals"):
        with pytest.raises(InvalidInput, match=f"{name} must be"):
            made(**{name: share})
    with pytest.raises(InvalidInput, match="marginals must be a number strictly between 0 and 1"):
        made(marginals=0.0)


@pytest.mark.parametrize("tables", [0, -1, 1.5, True, None])
def test_a_run_without_tables_is_refused(tables):
    with pytest.raises(InvalidInput, match="tables must be"):
        made(tables=tables)
