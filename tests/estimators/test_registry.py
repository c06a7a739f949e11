"""Estimators by name: short ones, import paths, and what is no classifier."""

import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from ostrakon.estimators import make_estimator
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
