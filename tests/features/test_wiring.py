"""Public data all the way through PATEClassifier: representation, representatives, smoothing, a graph student."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

import ostrakon
from ostrakon.students.graph_model import GraphStudent, KernelOnFeatures


@pytest.mark.parametrize("smooth", [False, True])
def test_forty_representatives_teach_a_student_of_digits(smooth):
    X, y = load_digits(return_X_y=True)
    X = X / 16
    model = ostrakon.PATEClassifier(
        classes="from-private",
        teacher="kernel-ridge",
        n_teachers=20,
        n_queries=40,
        mechanism=ostrakon.GNMax(sigma2=1.0),
        delta=1e-4,
        representation="pca",
        query_strategy="representatives",
        smooth=smooth,
        student=GraphStudent(KernelOnFeatures("pca"), representation="pca"),
        random_state=0,
        noise=np.random.default_rng(0),
    )
    model.fit(X[:1200], y[:1200], X_public=X[1200:1600])
    assert len(np.unique(model.queries_)) == 40
    assert (model.answers_ == y[1200:1600][model.queries_]).mean() > 0.9
    assert (model.predict(X[1600:]) == y[1600:]).mean() > 0.8
