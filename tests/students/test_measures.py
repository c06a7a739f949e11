"""Measures on test rows, against counting by hand and against scikit-learn's own means over classes."""

import json

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

from ostrakon.students.measures import calibration_error, measure_student, measures_of, measures_of_labels

RARE = np.repeat([0, 1], [90, 10])
LIKELY = np.column_stack([1 - np.linspace(0.01, 0.4, 100), np.linspace(0.01, 0.4, 100)])


def test_a_rare_class_that_is_never_predicted_shows_in_all_but_the_accuracy():
    found = measures_of(LIKELY, LIKELY.argmax(axis=1), RARE, ["no", "yes"])
    assert (found.rows, found.accuracy, found.balanced_accuracy) == (100, 0.9, 0.5)
    assert found.recall == (("no", 1.0), ("yes", 0.0))
    assert (found.auc, found.precision_of) == (1.0, "yes")
    assert found.average_precision == pytest.approx(1.0)
    assert found.log_loss == pytest.approx(-np.log(LIKELY[np.arange(100), RARE]).mean())
    assert json.loads(json.dumps(found.as_dict()))["recall"] == {"no": 1.0, "yes": 0.0}


def test_the_precision_is_of_the_rarer_class_whichever_number_it_has():
    one, other = (
        measures_of(likely, likely.argmax(axis=1), y, names)
        for likely, y, names in ((LIKELY, RARE, ["no", "yes"]), (LIKELY[:, ::-1], 1 - RARE, ["yes", "no"]))
    )
    assert other.precision_of == one.precision_of == "yes"
    assert other.average_precision == pytest.approx(one.average_precision)


def test_more_classes_are_one_against_the_rest():
    rng = np.random.default_rng(0)
    y, likely = rng.integers(0, 4, 300), rng.dirichlet(np.ones(4), 300)
    found = measures_of(likely, likely.argmax(axis=1), y, list("abcd"))
    assert found.auc == pytest.approx(roc_auc_score(y, likely, multi_class="ovr", average="macro"))
    assert found.balanced_accuracy == pytest.approx(balanced_accuracy_score(y, likely.argmax(axis=1)))
    assert found.precision_of is None


def test_classes_without_test_rows_count_in_nothing():
    found = measures_of(LIKELY, LIKELY.argmax(axis=1), np.zeros(100, int), ["no", "yes"])
    assert (found.auc, found.average_precision, found.recall[1]) == (None, None, ("yes", None))
    assert (found.balanced_accuracy, found.in_words()["AUC"]) == (1.0, "not defined")


def test_the_calibration_error_is_the_distance_in_each_range():
    # 15 ranges: three rows at 0.9, one of them wrong, and one at 0.6 that is right.
    likely = np.array([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9], [0.6, 0.4]])
    assert calibration_error(likely, [0, 0, 0, 0]) == pytest.approx(3 / 4 * (0.9 - 2 / 3) + 1 / 4 * 0.4)


def test_a_large_calibration_error_is_warned_of_and_chance_is_not():
    rng, warned = np.random.default_rng(0), {0.0: [], 0.1: [], 0.3: []}
    for off, seen in warned.items():
        for _ in range(60):
            right = rng.uniform(0.5, 1 - off, size=300)
            y = (rng.random(300) < right).astype(int)
            said = np.stack([1 - right - off, right + off], axis=1)
            seen.append(measures_of(said, np.ones(300, int), y, ["no", "yes"]).caution != "")
    assert [np.mean(seen) <= 0.05 for seen in warned.values()] == [True, True, False]
    assert np.mean(warned[0.3]) > 0.5


def test_of_many_classes_the_lowest_recalls_are_printed():
    y = np.arange(60) % 20
    predicted = np.where(y == 7, 0, y)
    words = measures_of(np.eye(20)[predicted], predicted, y, [f"c{one}" for one in range(20)]).in_words()
    assert words["Recall by class"].startswith("'c7' 0.0%, ")
    assert words["Recall by class"].endswith("(the lowest of 20)")


def test_a_student_that_knows_fewer_classes_gives_the_others_nothing():
    class Known:
        classes_ = np.array([0, 2])

        def predict(self, X):
            return np.zeros(len(X), int)

        def predict_proba(self, X):
            return np.tile([0.75, 0.25], (len(X), 1))

    found = measure_student(Known(), np.zeros((4, 1)), [0, 0, 1, 2], ["a", "b", "c"])
    assert found.recall == (("a", 1.0), ("b", 0.0), ("c", 0.0))
    assert found.log_loss > 5  # a class that was thought impossible
    unknown = measures_of(np.full((4, 3), np.nan), [0, 0, 0, 0], [0, 0, 1, 2], ["a", "b", "c"])
    assert (unknown.auc, unknown.accuracy, unknown.log_loss) == (0.5, 0.5, pytest.approx(np.log(3)))


def test_several_labels_are_measured_beside_a_model_that_gives_every_label():
    y = np.array([[1, 0, 0], [0, 1, 0], [1, 1, 0], [1, 0, 0]])
    likely = np.array([[0.9, 0.2, 0.5], [0.2, 0.9, 0.5], [0.9, 0.9, 0.5], [0.2, 0.2, 0.5]])
    measured = measures_of_labels(likely, likely > 0.6, y, ["often", "half", "never"])
    often, half = -np.log([0.9, 0.8, 0.9, 0.2]).mean(), -np.log([0.8, 0.9, 0.9, 0.8]).mean()
    assert abs(measured.log_loss - (often + half + np.log(2)) / 3) < 1e-12
    assert abs(measured.macro_f1 - (0.8 + 1 + 0) / 3) < 1e-12
    # Always every label: precision 3/4, 1/2 and 0 with a recall of 1; of all pairs 5 of 12.
    assert abs(measured.macro_f1_of_all - (6 / 7 + 2 / 3 + 0) / 3) < 1e-12
    assert abs(measured.micro_f1_of_all - 2 * (5 / 12) / (5 / 12 + 1)) < 1e-12
    assert measured.in_words()["Micro F1"] == f"{measured.micro_f1:.3f} (always every label: 0.588)"
