"""Sets of labels: thresholds from made-up counts whose truth is known, and noise that they must allow for."""

import numpy as np
import pytest

from ostrakon.students.prediction_sets import (
    COVERAGES,
    PredictionSets,
    UntaughtRows,
    in_sets,
    thresholds_of,
)

CELLS, CLASSES, MEMBERS = 200, 3, 5


def rows_of(rng, *, sigma2, records=20_000, overconfident=1.0):
    """Cells with shares of their own; students know them, up to their confidence."""
    scores = rng.normal(0, 2, (CELLS, CLASSES))
    shares = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    counts = rng.multinomial(records, (shares / CELLS).ravel()).reshape(CELLS, CLASSES) + rng.normal(
        0, sigma2, (CELLS, CLASSES)
    )
    own = np.repeat(np.arange(CELLS), MEMBERS)
    weights = np.exp(overconfident * scores + rng.normal(0, 0.3, scores.shape))
    likely = np.repeat(weights / weights.sum(axis=1, keepdims=True), MEMBERS, axis=0)
    rows = UntaughtRows(proba=likely, labels=likely.argmax(axis=1), cell_index=own, counts=counts, sigma2=sigma2)
    return rows, shares


def coverage_of(rows, shares, threshold):
    """The share of records, had they been drawn without end, whose label is in their set."""
    inside = in_sets(rows.proba, rows.labels, threshold)
    return float((inside * shares[rows.cell_index]).sum(axis=1).mean())


@pytest.mark.parametrize("overconfident", [1.0, 2.5])
def test_sets_cover_what_they_say_in_most_runs(overconfident):
    below = dict.fromkeys(COVERAGES, 0)
    for seed in range(60):
        rows, shares = rows_of(np.random.default_rng(seed), sigma2=8.0, overconfident=overconfident)
        for coverage, threshold in thresholds_of(rows, votes=20_000).items():
            below[coverage] += coverage_of(rows, shares, threshold) < coverage
    # At most 3 of 60 are expected; 9 or more have a probability below 0.5%.
    assert all(times < 9 for times in below.values()), below


def test_an_estimate_without_its_allowance_would_fail():
    below = 0
    for seed in range(60):
        rows, shares = rows_of(np.random.default_rng(seed), sigma2=60.0)
        # Said to have no noise.
        claimed = UntaughtRows(
            proba=rows.proba, labels=rows.labels, cell_index=rows.cell_index, counts=rows.counts, sigma2=1e-3
        )
        below += coverage_of(rows, shares, thresholds_of(claimed, votes=20_000)[0.9]) < 0.9
    assert below >= 12


def test_less_noise_gives_smaller_sets_and_no_noise_does_not_give_all_labels():
    thresholds = {}
    for sigma2 in (0.1, 8.0, 60.0):
        rows, _ = rows_of(np.random.default_rng(0), sigma2=sigma2)
        thresholds[sigma2] = thresholds_of(rows, votes=20_000)[0.9]
    assert thresholds[0.1] >= thresholds[8.0] > thresholds[60.0] >= 0
    assert thresholds[0.1] > 0.05


def test_noise_that_hides_everything_gives_sets_of_nearly_all_labels():
    rows, _ = rows_of(np.random.default_rng(0), sigma2=1000.0)
    least = max(thresholds_of(rows, votes=20_000).values())
    assert in_sets(rows.proba, rows.labels, least).sum(axis=1).mean() > 0.9 * CLASSES
    assert set(thresholds_of(rows, votes=None).values()) == {0.0}
    assert in_sets(rows.proba, rows.labels, 0.0).all()


def test_a_part_of_the_cells_is_enough_but_says_less():
    rows, shares = rows_of(np.random.default_rng(1), sigma2=2.0)
    some = rows.cell_index < CELLS // 5
    part = UntaughtRows(
        proba=rows.proba[some],
        labels=rows.labels[some],
        cell_index=rows.cell_index[some],
        counts=rows.counts,
        sigma2=2.0,
    )
    whole, fewer = thresholds_of(rows, votes=20_000)[0.8], thresholds_of(part, votes=20_000)[0.8]
    assert 0 < fewer <= whole
    assert coverage_of(rows, shares, fewer) >= 0.8


def test_the_label_of_a_student_is_in_its_set():
    likely = np.array([[0.5, 0.3, 0.2]])
    assert in_sets(likely, np.array([2]), 0.4).tolist() == [[True, False, True]]


@pytest.mark.parametrize(
    ("of", "sentence"),
    [
        ("private records", "It is a mean over all records: few or none of a rare class may be covered."),
        (
            "private users, each counted once",
            "It is a mean over all users: few or none of a rare class may be covered.",
        ),
    ],
)
def test_the_first_page_says_what_is_covered(of, sentence):
    assert sentence in PredictionSets(thresholds={0.9: 0.2}, sizes={0.9: 1.5}, of=of).in_words()
