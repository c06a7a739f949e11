"""PATERegressor: a quantity as the target, in memory."""

import numpy as np
import pandas as pd
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import ostrakon
from ostrakon.export.student_files import load_student
from ostrakon.mechanisms import QuantityGNMax
from ostrakon.regressor import OutsideRange
from ostrakon.validation import InvalidInput

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3000, 3))
Y = 10 + 3 * X[:, 0] + np.sin(3 * X[:, 1])
PUBLIC = RNG.normal(size=(400, 3))


class WithPublicRows(ostrakon.PATERegressor):
    """scikit-learn's checks call fit(X, y); the public rows are those rows here. The noise rounds to nothing."""

    def fit(self, X, y, X_public=None, *, users=None):
        return super().fit(X, y, X if X_public is None else X_public, users=users)


@pytest.mark.slow
@parametrize_with_checks(
    [WithPublicRows(epsilon=1e11, range=(-20, 20), allow_shared_rows=True, random_state=0)],
    expected_failed_checks=lambda estimator: {},
)
def test_scikit_learn_accepts_it(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def model():
    return ostrakon.PATERegressor(epsilon=2.0, range=(0, 20), random_state=0).fit(X, Y, X_public=PUBLIC)


def test_it_learns_and_says_what_it_costs(model):
    assert model.score(X, Y) > 0.8
    assert 1.99 < model.statement_.guarantee.epsilon <= 2
    content = model.statement_.as_dict()
    assert content["quantity"] == {"low": 0, "high": 20}
    assert "classes" not in content
    used = "; the part of it that was used: by the released noisy histogram"
    assert content["tuned"]["range"] == f"given by the operator{used}"
    assert "range 0 to 20" in content["remarks"][0]
    assert model.counts_.shape == (len(model.queries_), 2)


def test_one_record_removed_needs_less_noise(model):
    options = {"epsilon": 2.0, "range": (0, 20), "random_state": 0}
    removed = ostrakon.PATERegressor(neighbours="removed", **options).fit(X, Y, X_public=PUBLIC)
    assert removed.statement_.adjacent[0].relation == "take-out"
    assert 1.99 < removed.finished_.plan.guarantee.epsilon <= 2
    assert removed.mechanism_.sigma2 < 0.75 * model.mechanism_.sigma2
    with pytest.raises(InvalidInput, match="neighbours must be one of replaced, removed, got 'gone'"):
        ostrakon.PATERegressor(neighbours="gone", **options).fit(X, Y, X_public=PUBLIC)


def test_a_range_without_the_values_warns_and_does_not_refuse():
    with pytest.warns(
        OutsideRange, match="Warning: the student will learn almost nothing: 100.00% of the private values"
    ):
        ostrakon.PATERegressor(epsilon=2.0, range=(100, 200), random_state=0).fit(X, Y, X_public=PUBLIC)


def test_a_range_far_wider_than_needed_is_named(model):
    wide = ostrakon.PATERegressor(epsilon=2.0, range=(0, 80), random_state=0, mechanism="quantity-gnmax(histogram=0)")
    wide.fit(X, Y, X_public=PUBLIC)
    assert any("in the lower quarter of the range" in remark for remark in wide.statement_.remarks)
    # A histogram narrows it.
    narrowed = ostrakon.PATERegressor(epsilon=2.0, range=(0, 80), random_state=0).fit(X, Y, X_public=PUBLIC)
    assert narrowed.statement_.clipped is not None
    assert not any("quarter of the range" in remark for remark in narrowed.statement_.remarks)
    assert not any("quarter of the range" in remark for remark in model.statement_.remarks)


def test_the_released_student_says_the_same(model, tmp_path):
    model.save_release(tmp_path / "release")
    student = load_student(tmp_path / "release")
    np.testing.assert_allclose(student.predict(X[:300]), model.predict(X[:300]), atol=1e-9)
    assert len(student.predict(X[:0])) == 0
    with pytest.raises(ValueError, match="estimates a quantity"):
        student.predict_proba(X[:3])
    for file in (tmp_path / "release").iterdir():
        if file.name not in ("load_student.py", "student.onnx"):
            assert b"class" not in file.read_bytes().replace(b'class="', b""), file.name
    assert 'pipeline_tag: "tabular-regression"' in (tmp_path / "release" / "README.md").read_text()


def test_frames_with_words_and_gaps():
    frame = pd.DataFrame({"size": X[:, 0], "kind": np.where(X[:, 1] > 0, "a", "b")})
    frame.loc[::50, "size"] = np.nan
    public = pd.DataFrame({"size": PUBLIC[:, 0], "kind": np.where(PUBLIC[:, 1] > 0, "a", "b")})
    model = ostrakon.PATERegressor(epsilon=4.0, range=(0, 20), random_state=0).fit(frame, Y, X_public=public)
    assert model.score(frame, Y) > 0.6


def test_values_outside_the_range_are_clipped_and_told():
    with pytest.warns(OutsideRange, match="of the private values of the target are outside 9 to 11"):
        model = ostrakon.PATERegressor(epsilon=4.0, range=(9, 11), random_state=0).fit(X, Y, X_public=PUBLIC)
    said = model.predict(1000 * X)
    assert said.min() >= 9
    assert said.max() <= 11


def test_users_are_protected_as_a_whole():
    users = np.repeat(np.arange(1000), 3)
    model = ostrakon.PATERegressor(epsilon=4.0, range=(0, 20), random_state=0).fit(X, Y, PUBLIC, users=users)
    assert model.statement_.unit == "user"
    assert model.statement_.teachers == 1000
    assert model.votes_.in_votes.sum() == pytest.approx(1000)
    assert isinstance(model.mechanism_, QuantityGNMax)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "range must be given"),
        ({"range": (20, 0)}, "the lower one first"),
        ({"range": "from data"}, "range must be two numbers"),
        ({"range": (0, 20), "epsilon": -1}, "epsilon must be"),
        ({"range": (0, 20), "n_queries": 10_000}, "n_queries must be"),
    ],
)
def test_bad_parameters_are_refused(options, told):
    with pytest.raises(InvalidInput, match=told):
        ostrakon.PATERegressor(**options).fit(X, Y, X_public=PUBLIC)


def test_bad_data_are_refused():
    model = ostrakon.PATERegressor(range=(0, 20))
    with pytest.raises(InvalidInput, match="X_public must be given"):
        model.fit(X, Y)
    with pytest.raises(InvalidInput, match="The target is missing in 1 of 3000 rows"):
        model.fit(pd.DataFrame(X), [None, *Y[1:]], X_public=pd.DataFrame(PUBLIC))
    for text in (np.array(["a"] * 3000, object), np.array(["a"] * 3000)):
        with pytest.raises(InvalidInput, match=r"The target must be a number such as 12\.5 \(a decimal point"):
            model.fit(X, text, X_public=PUBLIC)
    with pytest.raises(InvalidInput, match="finite number"):
        model.fit(pd.DataFrame(X), np.where(Y > 9, np.nan, Y), X_public=pd.DataFrame(PUBLIC))
    with pytest.raises(InvalidInput, match=r"PATERegressor\(range=\(low, high\)\)"):
        ostrakon.PATEClassifier(classes="from-private").fit(X, Y.round(2).astype(str), X_public=PUBLIC)


def test_a_public_row_that_is_asked_about_twice_is_no_cell_of_its_own():
    """The later one has no public rows nearest to it; its noisy sums stay, and the fit goes on."""
    rng = np.random.default_rng(0)
    X, public = rng.normal(size=(2000, 2)), rng.normal(size=(30, 2))
    public[-1] = public[0]
    model = ostrakon.PATERegressor(epsilon=8.0, range=(0, 20), query_strategy="all", n_queries=30, random_state=0)
    fitted = model.fit(X, 3 * X[:, 0] + 10, X_public=public)
    assert len(fitted.counts_) == 30
    assert fitted.score(X, 3 * X[:, 0] + 10) > 0.8


def test_shares_of_the_cost_are_given_as_for_classes():
    asked = {"epsilon": 2.0, "range": (0, 20), "random_state": 0}
    named = ostrakon.PATERegressor(mechanism="quantity-gnmax(moments=0.5, errors=0.2)", **asked)
    named = named.fit(X, Y, X_public=PUBLIC)
    assert (named.mechanism_.moments, named.mechanism_.errors) == (0.5, 0.2)
    assert 1.99 < named.statement_.guarantee.epsilon <= 2
    noise = QuantityGNMax(sigma2=20.0, errors=0.0)
    given = ostrakon.PATERegressor(mechanism=noise, range=(0, 20), random_state=0).fit(X, Y, X_public=PUBLIC)
    assert given.mechanism_ == noise
    with pytest.raises(InvalidInput, match="must be quantity-gnmax if the target is a quantity"):
        ostrakon.PATERegressor(mechanism="moment-gnmax", **asked).fit(X, Y, X_public=PUBLIC)
