"""Votes on cells: what is counted, of records and of users; what one of them can move; refusals."""

import itertools
import math

import numpy as np
import pytest

from ostrakon.accounting.composition.gaussian_dp import gaussian_dp_epsilon
from ostrakon.accounting.data_independent.worst_case import worst_case
from ostrakon.features.cells import PairMap
from ostrakon.mechanisms import MomentGNMax
from ostrakon.teachers.cells import collect_cells
from ostrakon.validation import InvalidInput
from ostrakon.votes import STEPS

SIZES, CLASSES = (2, 3, 2), 2
PAIRS = PairMap(sizes=SIZES, pairs=((0, 1), (0, 2), (1, 2)), classes=CLASSES)
ROWS = list(itertools.product(*map(range, SIZES), range(CLASSES)))
"""All rows: three cells and a class."""


def votes_of(rows, owners=None, *, units=None, pairs=PAIRS):
    table = np.array(rows).reshape(-1, 4)
    whose = np.arange(len(table)) if owners is None else np.array(owners)
    block = (whose, table[:, :3], table[:, 3])
    return collect_cells(
        [block], sizes=SIZES, classes=CLASSES, units=len(set(whose)) if units is None else units, pairs=pairs
    )


def joined(votes):
    """Everything that is released, in votes."""
    return np.concatenate([votes.counts.ravel(), votes.moments.counts.ravel() / STEPS])


@pytest.mark.slow
def test_records_are_counted_in_one_cell_of_each_column_and_pair():
    votes = votes_of([(0, 1, 0, 1), (1, 1, 1, 0), (0, 1, 1, 1)])
    assert votes.counts.tolist() == [[0, 2], [1, 0], [0, 0], [1, 2], [0, 0], [0, 1], [1, 1]]
    assert votes.max_contributions == 3
    first, second, third = PAIRS.counts(votes.moments.counts / STEPS)
    np.testing.assert_allclose(first, [[0, 2, 0], [0, 1, 0]])
    np.testing.assert_allclose(second, [[1, 1], [0, 1]])
    np.testing.assert_allclose(third, [[0, 0], [1, 2], [0, 0]])


def test_blocks_add_up():
    parts = [
        (np.arange(3) + 3 * at, np.array([(0, at, 1), (1, 2, 0), (1, at, at)]), np.array([0, 1, at])) for at in (0, 1)
    ]
    apart = collect_cells(parts, sizes=SIZES, classes=CLASSES, units=6, pairs=PAIRS)
    together = tuple(np.concatenate(each) for each in zip(*parts, strict=True))
    assert apart == collect_cells([together], sizes=SIZES, classes=CLASSES, units=6, pairs=PAIRS)


def test_without_pairs_there_are_no_moments():
    assert votes_of([(0, 1, 0, 1)], pairs=None).moments is None


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_no_two_units_move_the_tables_farther_than_the_price(rows):
    """All users of up to three rows (of one row: all records), each against each other and against nobody."""
    some = ROWS if rows < 3 else ROWS[::3]
    users = itertools.combinations_with_replacement(some, rows)
    said = np.unique([joined(votes_of(each, [0] * rows)) for each in users], axis=0)
    mechanism = MomentGNMax(sigma2=8.0, max_contributions=len(SIZES), moments=0.3)
    cells = sum(SIZES) * CLASSES
    scaled = said.copy()
    scaled[:, :cells] /= mechanism.sigma2
    scaled[:, cells:] /= mechanism.moment_noise
    farthest = max(float(np.linalg.norm(one - scaled, axis=1).max()) for one in scaled)
    price = mechanism.run_cost(queries=sum(SIZES)).mu
    assert farthest <= price
    # Attained up to the rounding of steps: a price that is smaller by one percent would be wrong.
    assert farthest > 0.995 * price
    longest = float(np.linalg.norm(scaled, axis=1).max())
    absence = mechanism.under("take-out").run_cost(queries=sum(SIZES)).mu
    assert 0.995 * absence < longest <= absence
    # Whole numbers: one record moves one vote to the last bit.
    assert set(said[:, :cells].ravel()) <= {0.0, 1.0}
    assert (np.square(said[:, cells:] * STEPS).sum(axis=1) <= STEPS**2).all()


@pytest.mark.parametrize("pairs", [1, 2, 91, 780, 1000])
def test_a_contribution_to_pairs_stays_within_one_vote_and_near_it(pairs):
    unit = PairMap(sizes=(2, 2), pairs=((0, 1),) * pairs, classes=2).unit
    assert unit**2 * pairs <= STEPS**2 < (unit + 1) ** 2 * pairs


def test_the_price_by_hand():
    mechanism = MomentGNMax(sigma2=30.0, max_contributions=14, moments=0.3)
    mu = math.sqrt(2 * 14 / 30.0**2 + 2 / mechanism.moment_noise**2)
    found = worst_case(mechanism, queries=196, delta=1e-5).epsilon
    assert found == pytest.approx(gaussian_dp_epsilon(mu, 1e-5), rel=1e-8)
    # A price that is too small by two percent would not pass, nor one that leaves the pairs out.
    assert gaussian_dp_epsilon(0.98 * mu, 1e-5) < 0.985 * found
    assert gaussian_dp_epsilon(math.sqrt(2 * 14) / 30.0, 1e-5) < 0.85 * found


def test_users_say_what_most_of_their_rows_say():
    # Most rows in cell 1 of the first column; of these most in class 1; ties go to the first.
    votes = votes_of([(1, 0, 0, 1), (1, 1, 0, 1), (1, 2, 1, 0), (0, 2, 1, 0)], [7, 7, 7, 7])
    assert votes.counts[:2].tolist() == [[0, 0], [0, 1]]
    assert votes.counts[2:5].tolist() == [[0, 0], [0, 0], [1, 0]]
    assert votes.counts[5:].tolist() == [[0, 1], [0, 0]], "two rows each: the earlier cell, and there class 1"
    assert votes.counts.sum() == 3
    assert votes.moments.counts.sum() == 3 * PAIRS.unit


def test_what_is_not_a_cell_or_a_class_is_refused():
    for row in ((2, 0, 0, 0), (0, 3, 0, 0), (0, -1, 0, 0)):
        with pytest.raises(InvalidInput, match="blocks must be cells of 3 columns below their sizes"):
            votes_of([row])
    with pytest.raises(InvalidInput, match="class numbers of the private rows must be 0 to 1"):
        votes_of([(0, 0, 0, 2)])
    with pytest.raises(InvalidInput, match="units must be at least the number of those that voted, 2, got 1"):
        votes_of([(0, 0, 0, 0), (0, 0, 0, 1)], units=1)
    with pytest.raises(InvalidInput, match="blocks must be cells of 3 columns"):
        collect_cells([(np.zeros(1), np.zeros((1, 2)), np.zeros(1))], sizes=SIZES, classes=2, units=1, pairs=None)
