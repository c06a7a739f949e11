"""What a fit says of itself: estimates beside the guarantee, warnings where little was learned, none of libraries."""

import re
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.svm import LinearSVC

from ostrakon import PATEClassifier
from ostrakon.accounting.estimates import Agreement, Recall
from ostrakon.mechanisms import BoundedGNMax, GNMax
from ostrakon.mechanisms.moment_gnmax import MomentGNMax
from ostrakon.report.table import WARNING, _estimate, _student
from ostrakon.run.spending import EveryFitSpends, warn_once
from ostrakon.run.statement import _temperature, calibration_in_words, choice_in_words
from ostrakon.statements.statement import FOR_OPERATOR
from ostrakon.students.measures import measure_student
from ostrakon.students.selection import Candidate, Selection

RNG = np.random.default_rng(0)
X = RNG.normal(size=(1500, 2))
POOL = RNG.normal(size=(200, 2))
Y = (X[:, 0] + 0.3 * RNG.normal(size=1500) > 0.3).astype(int)


def fitted(student="logistic", *, mechanism=None, y=Y, users=None, rows=X, pool=POOL, queries=50, **options):
    mechanism = BoundedGNMax(sigma2=4, max_contributions=2) if mechanism is None else mechanism
    model = PATEClassifier(
        student=student,
        mechanism=mechanism,
        n_queries=queries,
        classes=[0, 1],
        delta=1e-5,
        random_state=0,
        noise=np.random.default_rng(0),
        **options,
    )
    return model.fit(rows, y, X_public=pool, users=users)


def own_remarks(model):
    """What is said of the student itself, without the comparison with the default one."""
    return [remark for remark in model.statement_.remarks if "default student" not in remark]


def estimates(model):
    return [each for each in model.statement_.estimates if isinstance(each, Agreement)]


COUNTED = BoundedGNMax(sigma2=4, max_contributions=2, errors=0.2)


def test_the_agreement_with_the_private_labels_is_estimated():
    model = fitted("auto", mechanism=COUNTED)
    student, majority = estimates(model)
    assert (student.of, student.against, student.counted) == ("student", "private labels", "private records")
    right = np.mean(model.predict(X) == Y)
    assert student.low <= right <= student.high
    assert majority.low <= np.mean(Y == 0) <= majority.high
    (remark,) = model.statement_.remarks
    assert "every record added one vote to counts of the student's errors (its right and wrong predictions)" in remark


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["accuracy", "balanced"])
def test_the_recall_of_every_class_is_estimated_for_every_objective(objective, tmp_path):
    rare = (X[:, 0] + 0.2 * RNG.normal(size=1500) > 0.8).astype(int)
    model = fitted("auto", mechanism=MomentGNMax(sigma2=2, errors=0.2), y=rare, queries=60, objective=objective)
    *each, mean = (one for one in model.statement_.estimates if isinstance(one, Recall))
    recall = [np.mean(model.predict(X[rare == label]) == label) for label in (0, 1)]
    assert [one.label for one in each] == ["0", "1"]
    for one, truth in zip((*each, mean), (*recall, np.mean(recall)), strict=True):
        assert one.low <= truth <= one.high
    assert mean.high - mean.low < 0.8
    card = (model.save_release(tmp_path / "release") / "model_card.md").read_text()
    assert f"| Recall by class (estimated) | '0' {each[0].in_words()}, '1' {each[1].in_words()} |" in card
    assert f"| Balanced accuracy (estimated) | {mean.in_words()}, of private records |" in card


def test_without_counts_of_errors_nothing_is_estimated():
    assert fitted("auto").statement_.estimates == ()
    teachers = fitted("logistic", mechanism=GNMax(sigma2=3), n_teachers=20)
    assert not any(isinstance(one, Recall) for one in teachers.statement_.estimates)


def test_every_user_counts_the_same():
    users = np.repeat(np.arange(505), [500, 496, *[1] * 500, 2, 1, 1])
    model = fitted(users=users, mechanism=BoundedGNMax(sigma2=4, max_contributions=2, errors=0.4))
    student, _ = estimates(model)
    assert student.counted == "rows of private users, where every user counts the same"
    assert f" on {student.counted} (in 95%" in dict(_student(model.finished_))["Estimated accuracy"]
    right = pd.Series(model.predict(X) == Y).groupby(users).mean().mean()
    assert student.low <= right <= student.high
    assert student.high - student.low < 0.1


def test_shares_of_classes_say_how_users_are_counted():
    model = fitted(DummyClassifier(), users=np.arange(1500) // 3, mechanism=BoundedGNMax(sigma2=4, max_contributions=2))
    (missed,) = (one for one in model.statement_.remarks if "one class alone" in one)
    assert re.search(
        r"show about .*\. A user counts here by the class that most of its rows in a cell have\. For the operator: ",
        missed,
    )


def test_trained_teachers_are_judged_on_released_answers():
    student, majority = estimates(fitted(mechanism=GNMax(sigma2=3), n_teachers=20, teacher="logistic"))
    assert student.against == majority.against == "held-out released answers"
    assert student.share > 0.8 > majority.share
    assert _estimate(majority)[1].endswith(": agreement of a model that always predicts the most frequent class")
    of_records = replace(majority, against="private labels")
    assert _estimate(of_records)[1].endswith(": accuracy of a model that always predicts the most frequent class")


def test_a_student_of_one_class_says_so():
    missed, behind = fitted(DummyClassifier()).statement_.remarks
    assert behind.startswith("Warning: the student DummyClassifier is right on about ")
    assert missed.startswith("Warning: the student predicts one class alone, '0', for every public row, although the")
    said = missed.partition(FOR_OPERATOR)[0]
    assert (said.count(". "), said.count("Warning")) == (0, 1)  # one sentence
    share = float(re.findall(r"about ([0-9.]+)% of cases of '1', which it misses", missed)[0]) / 100
    assert abs(share - Y.mean()) < 0.05


def test_the_balanced_accuracy_of_a_student_that_knows_one_class_is_exact():
    found = fitted("logistic", mechanism=COUNTED, y=np.zeros(1500, int), queries=1).statement_.estimates
    assert [one.in_words() for one in found if isinstance(one, Recall)] == [
        "exactly 100.0%",
        "exactly 0.0%",
        "exactly 50.0%",
    ]


@pytest.mark.slow
def test_the_student_of_one_class_is_judged_as_the_class_that_it_always_says():
    rare = DummyClassifier(strategy="constant", constant=1)
    model = fitted(rare, mechanism=COUNTED)
    student, majority = estimates(model)
    assert student.low <= Y.mean() <= student.high < majority.low
    (missed,) = (one for one in model.statement_.remarks if "one class alone, '1'" in one)
    said, _, advice = missed.partition(FOR_OPERATOR)
    assert said.endswith(
        " If it does so for private rows, too, its balanced accuracy is 50.0%, and a wider range is noise."
    )
    assert advice == "if rare classes matter most, the objective balanced counts all classes the same."


def test_a_class_that_the_sums_show_is_not_called_hidden():
    one = np.where(np.random.default_rng(1).random(1500) < 0.06, 1, 0)
    mechanism = MomentGNMax(sigma2=12)  # the counts of 50 cells together: 85 votes of noise on 90
    remarks = fitted(DummyClassifier(), y=one, mechanism=mechanism).statement_.remarks
    (remark,) = (remark for remark in remarks if remark.startswith("Warning"))
    assert "although the released sums show about" in remark
    assert remark.endswith(
        "it misses. For the operator: if rare classes matter most, the objective balanced counts all classes the same."
    )
    assert abs(float(re.findall(r"about ([0-9.]+)% of cases of '1'", remark)[0]) / 100 - one.mean()) < 0.03


def test_where_noise_decides_the_class_this_is_said_instead_of_shares():
    frequent = (RNG.random(1500) < 0.6).astype(int)
    for sigma2, queries, decided in ((400, 3, True), (12, 50, False)):
        model = fitted(DummyClassifier(), y=frequent, mechanism=MomentGNMax(sigma2=sigma2), queries=queries)
        (remark,) = (one for one in model.statement_.remarks if "one class alone" in one)
        assert ("noise decides which one: the released sums tell the share of a class to within" in remark) == decided
        assert ("cases of" in remark) != decided


def test_classes_that_are_never_predicted_are_in_one_sentence():
    three = np.where(np.arange(1500) < 450, 1, 0)
    model = PATEClassifier(
        student=DummyClassifier(),
        mechanism=BoundedGNMax(sigma2=4),
        n_queries=50,
        classes=[0, 1, 2, 3],
        delta=1e-5,
        random_state=0,
        noise=np.random.default_rng(0),
    )
    (missed,) = own_remarks(model.fit(X, three, X_public=POOL))
    assert re.search(r"'0', for every public row, although the released counts show about [0-9.]+% of cases", missed)
    assert "of cases of '1', which it misses, and none of '2' or '3', of which noise would hide a few." in missed


def test_why_there_is_no_estimate_is_printed():
    without = fitted("auto").finished_
    measures = measure_student(DummyClassifier().fit(X, Y), X, Y, (0, 1))
    for one in (without, replace(without, measures=measures)):
        assert dict(_student(one))["Estimated accuracy"] == "none: the noise was given instead of an epsilon"
    by_choice = fitted("auto", mechanism="bounded-gnmax(errors=0)", epsilon=1.0).finished_
    assert dict(_student(by_choice))["Estimated accuracy"] == "none: errors=0 was given"
    known = fitted("auto", mechanism=COUNTED).finished_
    assert re.fullmatch(
        r"between .* on private records \(in 95% of runs; from noisy counts of errors\)",
        dict(_student(known))["Estimated accuracy"],
    )
    wide = Recall(label="1", counted="private records", low=0.0, high=1.0)
    hidden = replace(known, statement=replace(known.statement, estimates=(wide,)))
    assert dict(_student(hidden))["Recall of '1' (estimated)"] == "not known (few data or much noise)"


@pytest.mark.slow
def test_a_class_that_is_predicted_far_too_seldom_or_too_often_is_named():
    class Rarely(DummyClassifier):
        """Says 1 where the first column is largest, of a share of the rows."""

        share = 0.01

        def predict_proba(self, X):
            one = (np.asarray(X)[:, 0] > np.quantile(POOL[:, 0], 1 - self.share)).astype(float)
            return np.column_stack([1 - one, one])

        def predict(self, X):
            return self.classes_[self.predict_proba(X).argmax(axis=1)]

    class Often(Rarely):
        share = 0.2

    class TooOften(Rarely):
        share = 0.9

    rare = (X[:, 0] > 1.0).astype(int)
    said = fitted(TooOften(), y=rare, representation="raw", mechanism=MomentGNMax(sigma2=2)).statement_.remarks
    (many,) = (one for one in said if "most of these predictions are wrong" in one)
    assert many.startswith("Warning: the student predicts '1' for 90.0% of the public rows, although the released sums")
    assert abs(float(re.findall(r"about ([0-9.]+)% of such cases", many)[0]) / 100 - rare.mean()) < 0.03
    assert not any("predictions are wrong" in one for one in fitted(Often(), representation="raw").statement_.remarks)
    (remark,) = (one for one in own_remarks(fitted(Rarely(), representation="raw")) if "Warning" in one)
    assert remark.startswith("Warning: the student predicts '1' for 1.0% of the public rows, although the released ")
    assert "it misses most of them" in remark
    assert abs(float(re.findall(r"about ([0-9.]+)% of such cases", remark)[0]) / 100 - Y.mean()) < 0.05
    assert not any("misses" in one for one in fitted(Often(), representation="raw").statement_.remarks)


def test_test_rows_judge_a_student_by_what_it_is_for():
    measures = measure_student(DummyClassifier().fit(X, Y), X, Y, (0, 1))
    for balanced, accuracy, warned in ((0.6, 0.4, False), (0.5, 0.9, True)):
        finished = replace(
            fitted(objective="balanced").finished_,
            measures=replace(measures, balanced_accuracy=balanced, accuracy=accuracy),
        )
        assert ("any constant class, 50.0%" in dict(_student(finished)).get(WARNING, "")) == warned
        assert "right no more often" not in dict(_student(finished)).get(WARNING, "")
    for error in (0.6, 0.9):
        ordered = replace(measures, accuracy=0.1, rank_error=error, rank_error_of_median=0.8)
        said = dict(_student(replace(finished, measures=ordered))).get(WARNING, "")
        assert ("not below that of always predicting the median class" in said) == (error == 0.9)


def test_of_equally_good_students_the_first_is_not_called_the_best():
    chosen = Candidate(name="a", student=DummyClassifier())
    selection = Selection(chosen=chosen, student=DummyClassifier(), agreement={"a": 0.9, "b": 0.9})
    assert choice_in_words(selection).startswith(
        "a, the first in a fixed order of those that are equally good on released answers"
    )
    better = replace(selection, agreement={"a": 0.9, "b": 0.8})
    assert choice_in_words(better).startswith("a, the best on released answers")


def test_a_class_that_the_released_numbers_do_not_show_is_named_too():
    rare = np.where(np.arange(1500) == 0, 1, 0)
    for mechanism, options, what in ((None, {}, "counts"), (GNMax(sigma2=3), {"n_teachers": 20}, "answers")):
        *_, remark = fitted(DummyClassifier(), y=rare, mechanism=mechanism, **options).statement_.remarks
        assert remark.endswith(f"and the released {what} do not show cases of '1' either: noise would hide a few.")
        assert remark.startswith("Warning: the student predicts one class alone, '0', for every public row")


class Wrong(LogisticRegression):
    """Learns the other class of every row."""

    def fit(self, X, y, sample_weight=None):
        return super().fit(X, 1 - np.asarray(y), sample_weight)


def test_a_student_that_is_not_better_than_the_majority_says_so():
    for mechanism, options, advice in (
        (None, {}, "the objective balanced"),
        (GNMax(sigma2=3), {"n_teachers": 20}, "the default, if every record is a teacher"),
    ):
        (remark,) = own_remarks(fitted(Wrong(), mechanism=mechanism, queries=20, **options))
        assert remark.startswith("Warning: the noisy numbers in the release do not show")
        assert "do not show that the student is right more often than a model that always predicts the most" in remark
        assert 0 < float(re.findall(r"\(one standard deviation\) is ([0-9.]+) points", remark)[0]) < 30
        assert advice in remark
        assert ("is a teacher" in remark) == bool(mechanism)
        assert ("the objective" in remark) == (not mechanism)
        assert "--" not in remark  # the first page shows it


def test_a_warning_of_the_first_page_alone_is_named_beside_test_rows():
    model = fitted(Wrong(), mechanism=GNMax(sigma2=3), queries=20, n_teachers=20)
    (remark,) = own_remarks(model)
    tried = measure_student(model.released_.student, model.released_.representation.transform(X), Y, (0, 1))
    note = dict(_student(replace(model.finished_, measures=tried)))["Note"]
    assert note.startswith("without --publish-accuracy, the first page warns: the noisy numbers in the release")
    assert remark.startswith("Warning: the noisy numbers in the release")


def test_a_balanced_student_is_compared_by_its_balanced_accuracy():
    def said(student):
        counted = BoundedGNMax(sigma2=4, max_contributions=2, errors=0.05)
        return " ".join(own_remarks(fitted(student, mechanism=counted, objective="balanced")))

    assert "do not show that the student's balanced accuracy is above that of one class for every row, 50.0%" in said(
        Wrong()
    )
    assert "do not show" not in said(LogisticRegression())
    assert "right more often" not in said(Wrong())


def test_a_student_of_which_the_released_numbers_tell_nothing_is_not_called_bad(tmp_path):
    mixed = np.where(np.random.default_rng(1).random(len(Y)) < 0.3, 1 - Y, Y)
    model = fitted(mechanism=BoundedGNMax(sigma2=12, max_contributions=1, errors=0.05), y=mixed)
    student, majority = estimates(model)
    assert student.low < majority.high
    remark, _ = model.statement_.remarks
    assert remark.startswith(
        "The noisy numbers in the release do not tell whether the student is right more often than a"
    )
    tried = measure_student(model.released_.student, model.released_.representation.transform(X), mixed, (0, 1))
    for measures, said in ((None, True), (tried, False), (replace(tried, accuracy=0.5), False)):
        finished = replace(model.finished_, measures=measures)
        rows = dict(_student(finished))
        assert ("Note" in rows) == said
        assert ("on the test rows the student is right no more" in rows.get(WARNING, "")) == (
            measures is not None and measures.accuracy == 0.5
        )
        assert rows["Estimated accuracy"].startswith(f"{student.in_words()} on private")
    off = replace(model.finished_, measures=replace(tried, calibration_error=0.9))
    assert "points on average: use its classes, but not" in dict(_student(off))[WARNING]
    card = (model.save_release(tmp_path / "release") / "model_card.md").read_text()
    assert card.count("do not tell whether the student") == 1
    assert card.index("do not tell whether the student") < card.index("## Privacy")


def test_probabilities_that_nothing_could_calibrate_are_said_to_be_so():
    network = Candidate(name="cnn", student=DummyClassifier(), takes_rows=True)
    alone = Selection(chosen=network, student=DummyClassifier(), agreement={})
    assert calibration_in_words(alone, labels=True) == {"probabilities": "the student's own, not calibrated"}
    for tried in (replace(alone, proba=np.ones((3, 2)) / 2), replace(alone, student=LinearSVC())):
        assert calibration_in_words(tried, labels=True) == {}


def test_libraries_do_not_warn_through():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted(LogisticRegression(max_iter=1))
        fitted(mechanism=GNMax(sigma2=3), n_teachers=20, teacher=LogisticRegression(max_iter=1))


@pytest.mark.slow
def test_arrow_frames_are_frames():
    frames = [pd.DataFrame(part, columns=["a", "b"]) for part in (X, POOL)]
    tables = [pa.Table.from_pandas(frame) for frame in frames]
    known, other = (fitted(rows=rows, pool=pool) for rows, pool in (frames, tables))
    np.testing.assert_array_equal(known.answers_, other.answers_)
    np.testing.assert_array_equal(known.predict(frames[0]), other.predict(tables[0]))
    np.testing.assert_array_equal(known.predict(frames[0]), other.released_.predict(tables[0]))


@pytest.mark.parametrize(("rows", "pool"), [(sparse.csr_array(X), POOL), (X, sparse.csr_array(POOL))])
def test_sparse_rows_are_refused_in_one_sentence(rows, pool):
    with pytest.raises((TypeError, ValueError), match="dense") as refused:
        fitted(rows=rows, pool=pool)
    assert "\n" not in str(refused.value)


@pytest.mark.slow
def test_a_search_over_private_rows_is_warned_of_once():
    class Bound(PATEClassifier):
        def fit(self, X, y):
            return super().fit(X, y, X_public=POOL)

        __init__ = PATEClassifier.__init__

    model = Bound(
        student="logistic",
        mechanism=BoundedGNMax(sigma2=4),
        n_queries=20,
        classes=[0, 1],
        noise=np.random.default_rng(0),
    )
    warn_once.cache_clear()
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        model.fit(X, Y)
        assert not heard
        GridSearchCV(model, {"representation": ["raw", "table"]}, cv=2).fit(X, Y)
    assert [each.category for each in heard if each.category is EveryFitSpends] == [EveryFitSpends]


@pytest.mark.parametrize(
    ("temperatures", "change"),
    [
        ([1.0], "unchanged (temperature 1.00)"),
        ([1.0, 1.2], "made less certain (temperature 1.00 to 1.20)"),
        ([1.0, 0.8], "made more certain (temperature 0.80 to 1.00)"),
        ([1.2, 0.8], "made more or less certain (temperature 0.80 to 1.20)"),
    ],
)
def test_labels_whose_temperature_is_one_are_not_said_to_change(temperatures, change):
    assert _temperature(temperatures, "answers") == f"{change}, from answers"
