"""Agreement with held-out released answers, and whether it beats the most frequent class."""

import numpy as np
import pytest

from ostrakon.students.agreement_estimate import (
    HeldOut,
    better_than_majority_of_answers,
    gained,
    with_released_answers,
)
from ostrakon.validation import InvalidInput


def test_the_best_of_several_guessers_is_bounded_as_the_best_of_several():
    rng = np.random.default_rng(0)

    def above(students):
        """How often the low end of the best of seven that toss coins is above one half."""
        times = 0
        for _ in range(400):
            answers = np.eye(2)[rng.integers(2, size=80)]
            guesses = [np.eye(2, dtype=int)[rng.integers(2, size=80)] for _ in range(7)]
            best = max(guesses, key=lambda guess: (guess * answers).sum())
            found = HeldOut(counts=answers, predicted=best, frequent=0, complete=True, students=students)
            times += with_released_answers(found, of="student").low > 0.5
        return times / 400

    assert above(7) < 0.05
    assert above(1) > 0.1


def test_released_answers_are_counted():
    answers = np.eye(2)[[0] * 30 + [1] * 20]

    def told(labels):
        return HeldOut(counts=answers, predicted=np.eye(2, dtype=int)[labels], frequent=0, complete=True)

    found = told([0] * 28 + [1] * 22)
    student, majority = (with_released_answers(found, of=of) for of in ("student", "majority"))
    assert (student.share, majority.share) == (0.96, 0.6)
    assert student.against == "held-out released answers"
    assert 0.86 < student.low < 0.96 < student.high < 0.99  # Wilson's
    assert better_than_majority_of_answers(found)
    assert not better_than_majority_of_answers(told([0] * 50))


def test_the_gain_over_the_majority_has_the_noise_that_it_states():
    exact, rng = np.array([[30.0, 10.0], [5.0, 25.0], [20.0, 10.0]]), np.random.default_rng(0)
    rows = np.array([[8, 0], [1, 7], [6, 2]])
    found = []
    for _ in range(2000):
        noisy = exact + rng.normal(0, 2.0, exact.shape)
        found.append(gained(HeldOut(counts=noisy, predicted=rows, frequent=0, complete=True), 2.0))
    gains, noises = np.array(found).T
    # In the second cell 7 of 8 rows, in the third 2 of 8, are given the second class.
    assert gains.mean() == pytest.approx((7 / 8 * 20 + 2 / 8 * -10) / 100, abs=0.002)
    assert gains.std() == pytest.approx(noises.mean(), rel=0.12)  # the number of votes is noisy, too


def test_every_cell_must_have_rows():
    with pytest.raises(InvalidInput, match="rows of each cell"):
        HeldOut(counts=np.ones((4, 3)), predicted=np.zeros((4, 3), int), frequent=0, complete=True)
    with pytest.raises(InvalidInput, match="rows of each cell"):
        HeldOut(counts=np.ones((4, 3)), predicted=np.ones((3, 3), int), frequent=0, complete=True)
