"""Accuracy and recalls from noisy counts of right predictions: intervals that cover, and not with another noise."""

import itertools

import numpy as np
import pytest

from ostrakon.students.right_counts import RightCounts
from ostrakon.teachers.errors import RightAndWrong
from ostrakon.validation import InvalidInput
from ostrakon.votes import STEPS

SIGMA, RUNS = 20.0, 4000
# Exact right and wrong predictions by class: even and uneven classes, tiny ones, none right, all right, many classes.
WORLDS = {
    "two even classes": [[400, 100], [350, 150]],
    "two uneven classes": [[900, 20], [10, 70]],
    "all right": [[600, 0], [300, 0]],
    "none right": [[0, 500], [0, 400]],
    "always one class": [[700, 0], [0, 200]],
    "a tiny class": [[500, 100], [300, 60], [3, 9]],
    "an empty class": [[500, 100], [300, 60], [0, 0]],
    "ten classes": [[90 + 9 * at, 100 - 9 * at] for at in range(10)],
    "twenty uneven classes": [[20 * at, 400 - 20 * at] for at in range(20)],
    "twenty nearly empty classes": [[0, 10]] * 20,
    "twenty small classes": [[3, 137]] * 20,
    "one count for all": [[700, 300]],
}


def counts(world, sigma=SIGMA, stated=None, seed=0):
    exact = np.array(WORLDS[world], float)
    rng = np.random.default_rng(seed)
    for _ in range(RUNS):
        noisy = exact + rng.normal(0, sigma, exact.shape)
        yield RightCounts(noisy=noisy, sigma=stated or sigma, units=int(exact.sum()), counted="records")


def inside(ranges, truth):
    return np.mean([one.low - 1e-12 <= truth <= one.high + 1e-12 for one in ranges])


@pytest.mark.parametrize("world", WORLDS)
def test_intervals_of_the_accuracy_cover_exactly_and_other_noise_is_rejected(world):
    exact = np.array(WORLDS[world], float)
    truth = exact[:, 0].sum() / exact.sum()
    found = [one.accuracy() for one in counts(world)]
    # One standard error of 4,000 runs is 0.35 points.
    sides = 2 if 0 < truth < 1 else 1  # at the ends only one side can miss
    assert inside(found, truth) == pytest.approx(1 - 0.025 * sides, abs=0.012)
    assert inside([one.accuracy() for one in counts(world, stated=0.8 * SIGMA)], truth) < 1 - 0.045 * sides
    assert inside([one.accuracy() for one in counts(world, stated=1.25 * SIGMA)], truth) > 1 - 0.014 * sides
    if 0.1 < truth < 0.9:
        shares = [one.share for one in found]
        assert np.mean(shares) == pytest.approx(truth, abs=4 * found[0].sd / RUNS**0.5)
        assert np.std(shares) == pytest.approx(found[0].sd, rel=0.06)
        assert found[0].sd == pytest.approx(SIGMA * (len(exact) / 2) ** 0.5 / exact.sum())


@pytest.mark.parametrize("world", [name for name, rows in WORLDS.items() if len(rows) > 1])
def test_the_largest_class_and_all_recalls_are_covered(world):
    exact = np.array(WORLDS[world], float)
    sizes = exact.sum(axis=1)
    names = [str(number) for number in range(len(exact))]
    found = list(counts(world, seed=1))
    assert inside([one.majority() for one in found], sizes.max() / sizes.sum()) > 0.94
    present = sizes > 0
    recalls = [one.recalls(names) for one in found]
    truths = exact[present, 0] / sizes[present]
    together = [
        all(
            each.low - 1e-12 <= truth <= each.high + 1e-12
            for each, truth in zip(np.array(of[:-1], object)[present], truths, strict=True)
        )
        for of in recalls
    ]
    assert np.mean(together) > 0.94
    if present.all():
        assert inside([of[-1] for of in recalls], truths.mean()) > 0.94
    narrow = [one.recalls(names)[0] for one in counts(world, stated=0.6 * SIGMA, seed=1)]
    assert np.mean([each.high - each.low for each in narrow]) < np.mean([of[0].high - of[0].low for of in recalls])


def test_recalls_of_too_little_noise_are_rejected():
    exact = np.array(WORLDS["two even classes"], float)
    truths = exact[:, 0] / exact.sum(axis=1)

    def covered(stated):
        found = [one.recalls(["a", "b"]) for one in counts("two even classes", stated=stated, seed=2)]
        single = np.mean([all(r.low <= t <= r.high for r, t in zip(of, truths, strict=False)) for of in found])
        return single, inside([of[-1] for of in found], truths.mean())

    # Bonferroni for two independent classes is nearly exact, and so is the range of their mean.
    assert covered(SIGMA) == pytest.approx((0.951, 0.95), abs=0.015)
    assert max(covered(0.8 * SIGMA)) < 0.92


def test_a_student_no_better_than_a_constant_is_seldom_called_better():
    """Right as often as the most frequent class, by itself or beside another one that is as frequent."""
    for rows in ([[500, 0], [0, 400]], [[300, 200], [200, 300]], [[300, 200], [200, 300], [0, 500]]):
        exact, rng = np.array(rows, float), np.random.default_rng(3)
        called = [
            RightCounts(
                noisy=exact + rng.normal(0, SIGMA, exact.shape),
                sigma=SIGMA,
                units=int(exact.sum()),
                counted="records",
            ).better_than_majority()
            for _ in range(RUNS)
        ]
        assert np.mean(called) < 0.06
    better = [one.better_than_majority() for one in counts("two even classes")]
    assert np.mean(better) > 0.99


def test_the_test_of_one_constant_has_its_level():
    assert np.mean([one.better_than_majority() for one in counts("always one class")]) == pytest.approx(0.05, abs=0.012)


def test_one_count_for_all_classes_has_no_other_ranges():
    one = next(counts("one count for all"))
    assert one.majority() is None
    assert one.gain() is None
    assert not one.better_than_majority()
    assert one.recalls(["a", "b"]) == ()


def test_recalls_of_a_student_that_knows_one_class_are_exact():
    one = next(counts("two even classes"))
    found = one.recalls(["a", "b"], known=[1])
    assert [(each.label, each.low, each.high) for each in found] == [("a", 0, 0), ("b", 1, 1), (None, 0.5, 0.5)]
    assert found[-1].in_words() == "exactly 50.0%"
    assert one.recalls(["a", "b"], known=[0, 1]) == one.recalls(["a", "b"])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"noisy": np.zeros((2, 3))}, r"noisy must be finite counts of shape \(classes, 2\), got shape \(2, 3\)"),
        ({"noisy": np.full((2, 2), np.nan)}, "noisy must be finite counts"),
        ({"sigma": 0.0}, "sigma"),
        ({"units": 0}, "units"),
    ],
)
def test_wrong_counts_are_refused(given, message):
    with pytest.raises(InvalidInput, match=message):
        RightCounts(**{"noisy": np.ones((2, 2)), "sigma": 1.0, "units": 5, "counted": "records", **given})


@pytest.mark.parametrize("by_class", [True, False])
def test_no_two_units_are_farther_apart_than_two_counts_of_one_vote(by_class):
    """All users with one to three rows of three classes, right or wrong."""
    rule = RightAndWrong(classes=3, by_class=by_class)
    rows = list(itertools.product(range(3), range(3)))
    said = []
    for size in (1, 2, 3):
        for chosen in itertools.combinations_with_replacement(rows, size):
            predicted, labels = np.array(chosen).T
            said.append(rule.contributions_of((np.zeros(size, int), predicted[:, None], labels)).counts)
    said = np.unique(np.stack(said).reshape(len(said), -1), axis=0)
    assert (said >= 0).all()
    assert (said.sum(axis=1) == STEPS).all()
    assert max(np.linalg.norm(one - other) for one, other in itertools.combinations(said, 2)) == STEPS * 2**0.5
    assert np.linalg.norm(said, axis=1).max() == STEPS


def test_counts_by_hand():
    block = (np.array([0, 1, 2, 2]), np.array([[0.0], [1], [2], [1]]), np.array([0, 0, 2, 2]))
    by_class = RightAndWrong(classes=3, by_class=True).contributions_of(block).counts
    assert by_class.tolist() == [[STEPS, STEPS], [0, 0], [STEPS // 2, STEPS // 2]]
    together = RightAndWrong(classes=3, by_class=False).contributions_of(block).counts
    assert together.tolist() == [[STEPS + STEPS // 2, STEPS + STEPS // 2]]


def test_the_votes_of_users_with_rows_of_many_classes_are_not_moved_to_the_last_class_by_rounding():
    """Rounding down and giving the rest to the last bin took a fifth of the recall of the last of 20 classes."""
    rng, users, rows, classes = np.random.default_rng(0), 400, 300, 20
    labels = rng.integers(0, classes, users * rows)
    right = rng.random(len(labels)) < 0.8
    predicted = np.where(right, labels, (labels + 1) % classes)[:, None]
    block = (np.repeat(np.arange(users), rows), predicted, labels)
    counted = RightAndWrong(classes=classes, by_class=True).contributions_of(block).counts / STEPS / users
    exact = [[np.mean(right & (labels == one)), np.mean(~right & (labels == one))] for one in range(classes)]
    np.testing.assert_allclose(counted, exact, atol=0.1 / STEPS)


@pytest.mark.parametrize("label", [3, -1])
def test_what_is_not_a_class_is_refused(label):
    with pytest.raises(InvalidInput, match="must be numbers below 3"):
        RightAndWrong(classes=3, by_class=True).contributions_of((np.zeros(1, int), np.array([[0.0]]), [label]))


@pytest.mark.parametrize("said", [np.nan, np.inf])
def test_a_student_that_says_nothing_of_a_record_is_wrong_and_stops_no_run(said):
    block = (np.zeros(1, int), np.array([[said]]), [1])
    assert RightAndWrong(classes=2, by_class=True).contributions_of(block).counts.tolist() == [[0, 0], [0, STEPS]]
