"""How results show themselves in a notebook, pipelines of scikit-learn, and the release of an estimator in memory."""

import json

import numpy as np
import pytest
import sklearn
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

import ostrakon
from ostrakon.export import load_student
from ostrakon.statements.statement import epsilon_in_words
from ostrakon.validation import InvalidInput


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X, X_public = rng.normal(5, 3, (2000, 2)), rng.normal(5, 3, (300, 2))
    return X, (X[:, 0] > 5).astype(int), X_public


@pytest.fixture(scope="module")
def fitted(data):
    X, y, X_public = data
    return ostrakon.PATEClassifier(epsilon=2.0, random_state=0, classes=[0, 1]).fit(X, y, X_public=X_public)


@pytest.mark.slow
def test_a_fitted_estimator_writes_the_release_of_its_statement(fitted, data, tmp_path):
    folder = fitted.save_release(tmp_path / "release", operator="A hospital <b>")
    assert json.loads((folder / "statement.json").read_text()) == json.loads(json.dumps(fitted.statement_.as_dict()))
    np.testing.assert_array_equal(load_student(folder).predict(data[2]), fitted.predict(data[2]))
    assert "A hospital" in (folder / "model_card.md").read_text()
    with pytest.raises(InvalidInput, match="folder must be new or empty"):
        fitted.save_release(folder)
    with pytest.raises(InvalidInput, match="boss must be one of operator"):
        fitted.save_release(tmp_path / "other", boss="me")
    assert not (tmp_path / "other").exists()


def test_results_show_themselves_in_html_without_private_numbers(fitted):
    statement = fitted.statement_._repr_html_()
    assert "Privacy statement" in statement
    assert f"epsilon {epsilon_in_words(fitted.statement_.guarantee.epsilon)}" in statement
    for one in fitted.statement_.estimates:
        assert f"<td>{one.in_words()}, of {one.counted}</td>" in statement
    assert statement in fitted._repr_mimebundle_()["text/html"]
    votes = ostrakon.Votes(np.array([[90, 10], [60, 40]]))
    cost = ostrakon.account(votes, ostrakon.GNMax(sigma2=40.0), delta=1e-5)
    private = f"{cost.data_dependent.reveal()['epsilon']:.4g}"
    assert f"epsilon {cost.worst_case.epsilon:.4g}" in cost._repr_html_()
    assert private not in cost._repr_html_()
    plan = ostrakon.plan(np.zeros((300, 2)), records=5000, epsilons=[1.0], classes=["no", "yes"], rehearse="none")
    assert "queries" in plan._repr_html_()


@pytest.mark.slow
def test_a_scaler_before_the_estimator_scales_the_public_rows_too(data):
    X, y, X_public = data
    # The scaler is fitted on public rows: what it learned of private rows would not be covered.
    scaler = FrozenEstimator(StandardScaler().fit(X_public))
    with sklearn.config_context(enable_metadata_routing=True):
        model = ostrakon.PATEClassifier(epsilon=2.0, random_state=0, classes=[0, 1]).set_fit_request(X_public=True)
        pipeline = Pipeline([("scale", scaler), ("pate", model)], transform_input=["X_public"])
        pipeline.fit(X, y, X_public=X_public)
        accuracy = (pipeline.predict(X_public) == (X_public[:, 0] > 5)).mean()
    assert accuracy > 0.9
