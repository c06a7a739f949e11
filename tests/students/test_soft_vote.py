"""Soft voting: the mean of its members' beliefs, weighed like them, and it leaves like any other student."""

import numpy as np
import pytest
from sklearn.ensemble import VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

from ostrakon.estimators.choices import make_student
from ostrakon.export.student_files import export_student, load_student, require_exportable
from ostrakon.students.noisy_counts import NoisyCountStudent
from ostrakon.students.sklearn_student import SklearnStudent
from ostrakon.students.soft_vote import soft_vote, takes_weights, trees
from ostrakon.validation import InvalidInput

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3)).astype(np.float32).astype(float)
QUERIES = np.arange(0, 300, 10)
COUNTS = np.eye(3)[np.digitize(X[QUERIES, 0], [-0.4, 0.5])] * 20 + RNG.normal(size=(30, 3))


def test_it_believes_the_mean_of_what_its_members_believe():
    student = make_student("soft-vote", seed=3, counts=True).fit_counts(X, QUERIES, COUNTS, sigma2=1.0)
    members = [
        NoisyCountStudent(estimator, representation="raw", random_state=3)
        .fit_counts(X, QUERIES, COUNTS, sigma2=1.0)
        .predict_proba(X)
        for estimator in (
            LogisticRegression(C=0.3, max_iter=1000),
            trees(counts=True),
        )
    ]
    assert np.allclose(student.predict_proba(X), np.mean(members, axis=0), rtol=0, atol=1e-12)
    assert np.abs(members[0] - members[1]).max() > 0.1


def test_another_member_may_be_named_if_it_has_beliefs():
    vote = make_student("soft-vote:hist-gradient-boosting(max_iter=7)", seed=3, counts=True).estimator
    assert [type(member).__name__ for _, member in vote.estimators] == [
        "LogisticRegression",
        "HistGradientBoostingClassifier",
    ]
    assert vote.estimators[1][1].max_iter == 7
    with pytest.raises(InvalidInput, match="needs a classifier with predict_proba, got 'soft-vote:ridge'"):
        make_student("soft-vote:ridge")


def test_it_learns_from_labels_where_there_are_no_counts():
    student = make_student("soft-vote", seed=3)
    assert isinstance(student, SklearnStudent)
    labels = np.full(300, -1)
    labels[QUERIES] = COUNTS.argmax(axis=1)
    assert (student.fit(X, labels).predict(X[QUERIES]) == labels[QUERIES]).mean() > 0.8


def test_a_vote_takes_weights_where_all_its_members_do():
    assert takes_weights(soft_vote(GaussianNB()))
    assert not takes_weights(KNeighborsClassifier())
    near = ("near", KNeighborsClassifier())
    assert not takes_weights(VotingClassifier([("bayes", GaussianNB()), near], voting="soft"))
    assert takes_weights(VotingClassifier([("bayes", GaussianNB()), ("near", "drop")], voting="soft"))
    assert isinstance(make_student(VotingClassifier([near], voting="soft"), counts=True), SklearnStudent)


@pytest.mark.parametrize("weights", [None, [3.0, 0.5, 9.0, 1.0]])
def test_a_vote_of_ones_own_leaves_with_its_weights(weights, tmp_path):
    members = [("a", GaussianNB()), ("b", LogisticRegression()), ("gone", "drop"), ("c", GaussianNB(var_smoothing=1.0))]
    vote = VotingClassifier(
        members, voting="soft", weights=None if weights is None else [*weights[:2], 9.0, weights[2]]
    )
    require_exportable(vote)
    vote.fit(X[QUERIES], COUNTS.argmax(axis=1))
    export_student(vote, tmp_path)
    assert np.allclose(load_student(tmp_path).predict_proba(X), vote.predict_proba(X), rtol=0, atol=1e-12)


def test_a_vote_that_cannot_leave_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="must be one that can be released"):
        require_exportable(VotingClassifier([("near", KNeighborsClassifier())], voting="soft"))
    hard = VotingClassifier([("bayes", GaussianNB())], voting="hard")
    with pytest.raises(InvalidInput, match="must be one that can be released"):
        require_exportable(hard)
    hard.fit(X[QUERIES], COUNTS.argmax(axis=1))
    with pytest.raises(InvalidInput, match="voting='soft', got 'hard'"):
        export_student(hard, tmp_path)
