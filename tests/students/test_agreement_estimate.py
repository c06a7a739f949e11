"""The estimated agreement with the private labels: unbiased, with intervals that cover, and not by being wide."""

from __future__ import annotations

import numpy as np
import pytest

from ostrakon.students.agreement_estimate import (
    HeldOut,
    better_than_majority,
    better_than_majority_of_answers,
    with_private_labels,
    with_released_answers,
)
from ostrakon.validation import InvalidInput

CELLS, CLASSES, SIGMA, RUNS = 30, 3, 6.0, 1500
RNG = np.random.default_rng(0)
COUNTS = RNG.multinomial(40, [0.6, 0.3, 0.1], CELLS).astype(float)
VOTES = int(COUNTS.sum())
PURE = np.eye(CLASSES)[COUNTS.argmax(axis=1)]
MIXED = RNG.dirichlet([6, 2, 1], CELLS)
FIRST = np.eye(CLASSES)[np.zeros(CELLS, int)]


def held(counts, shares, *, complete=True, sizes=10_000):
    return HeldOut(
        counts=counts, shares=shares, majority=FIRST, sizes=np.full(len(counts), sizes), complete=complete
    )  # fmt: skip


def estimates(shares, *, votes, sigma2=SIGMA, runs=RUNS, sizes=10_000):
    rng = np.random.default_rng(1)
    return [
        with_private_labels(
            held(COUNTS + rng.normal(0, SIGMA, COUNTS.shape), shares, sizes=sizes),
            of="student",
            sigma2=sigma2,
            votes=votes,
            counted="records",
        )
        for _ in range(runs)
    ]


@pytest.mark.parametrize("votes", [VOTES, None], ids=["known", "unknown"])
def test_intervals_cover_and_a_wrong_noise_does_not(votes):
    truth = float((PURE * COUNTS).sum()) / VOTES

    def covered(sigma2):
        return np.mean([each.low <= truth <= each.high for each in estimates(PURE, votes=votes, sigma2=sigma2)])

    # Of 1,500 runs one standard error is 0.6 points.
    assert covered(SIGMA) == pytest.approx(0.95, abs=0.015)
    assert covered(0.8 * SIGMA) < 0.91
    assert covered(1.25 * SIGMA) > 0.97


@pytest.mark.parametrize("shares", [PURE, MIXED], ids=["pure", "mixed"])
def test_the_estimate_is_unbiased_and_its_sd_is_the_one_it_has(shares):
    truth = float((shares * COUNTS).sum()) / VOTES
    found = estimates(shares, votes=VOTES)
    share = np.array([each.share for each in found])
    assert share.mean() == pytest.approx(truth, abs=4 * share.std() / RUNS**0.5)
    # Beside the noise: the rows of mixed cells are draws, 10,000 public ones of each and 40 private ones.
    within = (shares * COUNTS**2).sum(axis=1) - (shares * COUNTS).sum(axis=1) ** 2
    drawn = within.sum() * (1 / 10_000 + CELLS / VOTES) / VOTES**2
    assert np.mean([each.sd**2 for each in found]) == pytest.approx(share.var() + drawn, rel=0.08)
    if shares is PURE:
        # A known number of records is worth a factor of sqrt(1 - 1 / classes).
        assert found[0].sd == pytest.approx(SIGMA * (CELLS * (1 - 1 / CLASSES)) ** 0.5 / VOTES)
        assert np.mean([each.sd for each in estimates(shares, votes=None)]) > found[0].sd


def test_few_public_rows_of_a_mixed_cell_widen_it():
    wide, narrow = (estimates(MIXED, votes=VOTES, sizes=sizes, runs=20) for sizes in (5, 10_000))
    assert np.mean([each.sd for each in wide]) > 1.2 * np.mean([each.sd for each in narrow])
    pure = estimates(PURE, votes=VOTES, sizes=2, runs=1)[0]
    assert pure.sd == pytest.approx(SIGMA * (CELLS * (1 - 1 / CLASSES)) ** 0.5 / VOTES)


def test_the_range_holds_whatever_happens_within_cells():
    """Records of a cell, paired with what is said of them as well as can be, and blindly."""
    rng = np.random.default_rng(2)
    said = (MIXED * 40).round()
    said[:, 0] += 40 - said.sum(axis=1)
    shares = said / 40
    best = float(np.minimum(said, COUNTS).sum()) / VOTES
    blind = float((shares * COUNTS).sum()) / VOTES
    assert best > blind + 0.1
    inside = []
    for _ in range(400):
        noisy = held(COUNTS + rng.normal(0, SIGMA, COUNTS.shape), shares)
        found = with_private_labels(noisy, of="student", sigma2=SIGMA, votes=VOTES, counted="records")
        inside.append(found.low <= blind and best <= found.at_most)
    assert np.mean(inside) > 0.95
    pure = estimates(PURE, votes=VOTES, runs=1)[0]
    assert pure.at_most == pytest.approx(pure.high)  # where a student says one class of a cell, nothing is hidden


def test_a_student_as_good_as_the_majority_is_seldom_called_better():
    rng = np.random.default_rng(3)
    level = np.tile([20.0, 20.0, 0.0], (CELLS, 1))
    alike = np.eye(CLASSES)[np.arange(CELLS) % 2]
    said = [
        better_than_majority(held(level + rng.normal(0, SIGMA, level.shape), alike), sigma2=SIGMA) for _ in range(RUNS)
    ]
    assert np.mean(said) == pytest.approx(0.05, abs=0.02)
    other = np.tile([10.0, 30.0, 0.0], (CELLS, 1))
    assert better_than_majority(held(other, np.eye(CLASSES)[np.ones(CELLS, int)]), sigma2=SIGMA)


def test_released_answers_are_counted():
    answers = np.eye(2)[[0] * 30 + [1] * 20]
    told = HeldOut(
        counts=answers,
        shares=np.eye(2)[[0] * 28 + [1] * 22],
        majority=np.eye(2)[[0] * 50],
        sizes=np.ones(50, int),
        complete=True,
    )
    student, majority = (with_released_answers(told, of=of) for of in ("student", "majority"))
    assert (student.share, majority.share) == (0.96, 0.6)
    assert student.against == "held-out released answers"
    assert 0.86 < student.low < 0.96 < student.high < 0.99  # Wilson's
    assert student.at_most is None
    assert better_than_majority_of_answers(told)
    level = HeldOut(counts=answers, shares=told.majority, majority=told.majority, sizes=told.sizes, complete=True)
    assert not better_than_majority_of_answers(level)


def test_noise_that_drowns_everything_gives_no_estimate():
    nothing = held(np.full(COUNTS.shape, -1.0), PURE, complete=False)
    assert with_private_labels(nothing, of="student", sigma2=5.0, votes=None, counted="votes") is None


@pytest.mark.parametrize("sigma2", [0.0, -1.0, float("nan"), True])
def test_noise_must_be_positive(sigma2):
    with pytest.raises(InvalidInput, match="sigma2"):
        with_private_labels(held(COUNTS, PURE), of="student", sigma2=sigma2, votes=VOTES, counted="records")


def test_shares_must_be_shares():
    with pytest.raises(InvalidInput, match="rows of sum 1"):
        held(COUNTS, 2 * PURE)
