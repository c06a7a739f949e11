"""Estimators by name: short ones, import paths, and what is no classifier."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from ostrakon.estimators import SHORT_NAMES, make_estimator
from ostrakon.estimators.choices import STUDENTS
from ostrakon.estimators.registry import in_words, named_in_words
from ostrakon.run.stages.features import view_of
from ostrakon.run.stages.learning import Learning
from ostrakon.students.candidates import table_candidates
from ostrakon.validation import InvalidInput


def test_estimators_by_name() -> None:
    assert make_estimator("logistic", C=0.1).C == 0.1
    assert isinstance(make_estimator("sklearn.neighbors.KNeighborsClassifier", n_neighbors=3), KNeighborsClassifier)
    nested = make_estimator("sklearn.ensemble.BaggingClassifier", estimator=LogisticRegression())
    assert nested.estimator is not None
    for name, sentence in [
        ("logistik", "Did you mean 'logistic'"),
        ("Additive", "for a student alone, one of additive, .* Did you mean 'additive'"),
        ("nonsense", "one of logistic, ridge"),
        ("sklearn.svm.Nothing", "cannot be imported"),
        ("no_such_package.Thing", "cannot be imported"),
        ("math.pi", "must be a class as"),
        ("collections.OrderedDict", "must be a class as scikit-learn's classifiers"),
        ("os.system", "must be a class as scikit-learn's classifiers"),
        ("", "short name or an import path"),
        (None, "short name or an import path"),
    ]:
        with pytest.raises(InvalidInput, match=sentence):
            make_estimator(name)
    with pytest.raises(InvalidInput, match="cannot be made from the parameters"):
        make_estimator("logistic", depth=3)


def test_every_student_has_plain_words() -> None:
    sizes = {"classes": 2, "features": 5, "seed": 0, "pool": 100}
    candidates = [
        one.name
        for queries in (50, 500)
        for moments in (False, True)
        for one in table_candidates(counts=True, queries=queries, moments=moments, **sizes)
    ]
    for name in (*SHORT_NAMES, *STUDENTS, *candidates, "moments:extra-trees", "self-training:ridge"):
        assert in_words(name) != name
        assert ":" not in in_words(name)
        assert named_in_words(name) == f"{in_words(name)} ({name})"
    assert in_words("soft-vote") == "mean of logistic regression and extra trees"
    assert in_words("moments:extra-trees") == "mean of logistic regression from sums of features and extra trees"
    assert in_words("sklearn.svm.SVC(C=2.0)") == "sklearn.svm.SVC(C=2.0)"


def test_a_class_whose_name_is_one_of_ours_is_not_described_as_ours() -> None:
    theirs = type("sums", (LogisticRegression,), {})()
    X = np.zeros((5, 2))
    [one] = Learning(X_public=X, view=view_of(X, "raw"), student=theirs).candidates(counts=True, classes=2, queries=5)
    assert named_in_words(one.name) == one.name == f"{__name__}.sums"
