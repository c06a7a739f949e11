"""Pictures of what a student does with columns, and the additive student that they are drawn of."""

import re

import numpy as np
import pandas as pd
import pytest

import ostrakon
from ostrakon.api import refit
from ostrakon.export.student_files import load_student
from ostrakon.report.explanations import importances, shape_charts
from ostrakon.validation import InvalidInput


def table(rows, seed=0):
    """Ages decide, work a little, and the last column not at all."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "age": rng.uniform(18, 90, rows),
            "work": rng.choice(["farm", "<b>office</b>"], rows),
            "nothing": rng.normal(size=rows),
        }
    )
    chance = 1 / (1 + np.exp(-0.1 * (X["age"] - 50) - (X["work"] == "farm")))
    return X, np.where(rng.random(rows) < chance, "yes", "no")


def fitted(student="additive", **options):
    X, y = table(3000)
    noise = np.random.default_rng(0)
    model = ostrakon.PATEClassifier(
        classes=["no", "yes"], epsilon=4, random_state=0, student=student, noise=noise, **options
    )
    return model.fit(X[:2400], y[:2400], X_public=X[2400:])


@pytest.fixture(scope="module")
def additive():
    return fitted()


def likely(model, age, work="farm", nothing=0.0):
    return model.predict_proba(pd.DataFrame({"age": age, "work": work, "nothing": nothing}))[:, 1]


def test_its_log_odds_add_up_over_columns(additive):
    def odds(age, work, nothing):
        p = likely(additive, [age], [work], [nothing])[0]
        return np.log(p / (1 - p))

    at = odds(30.0, "farm", 0.0), odds(70.0, "farm", 0.0), odds(30.0, "<b>office</b>", 1.0)
    assert odds(70.0, "<b>office</b>", 1.0) == pytest.approx(at[1] + at[2] - at[0], abs=1e-9)
    assert at[1] > at[0] + 1


@pytest.mark.slow
def test_directions_are_kept():
    ages = np.linspace(18, 90, 200)
    for option, sign in (("increasing", 1), ("decreasing", -1)):
        steps = np.diff(likely(fitted(f"additive({option}=['age'])"), ages))
        assert (sign * steps >= -1e-12).all()


@pytest.mark.parametrize(
    ("student", "sentence"),
    [
        ("additive(increasing='work')", r"must be columns of numbers \(age, nothing\), got 'work'"),
        ("additive(increasing='height')", "got 'height'"),
        ("additive(increasing='age', decreasing=['age'])", "must name a column once, got 'age' twice"),
        ("additive(increasing=3)", "increasing must be the name of a column or a list of names, got 3"),
        ("additive(depth=3)", "additive takes increasing and decreasing, got 'depth'"),
    ],
)
def test_other_directions_are_refused(student, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        fitted(student)


def test_directions_need_two_classes_and_a_table():
    X, _ = table(600)
    model = ostrakon.PATEClassifier(classes=[0, 1, 2], student="additive(increasing='age')", epsilon=4)
    with pytest.raises(InvalidInput, match="unless there are two classes, got 3 classes"):
        model.fit(X[:400], np.arange(400) % 3, X_public=X[400:])
    images = np.random.default_rng(0).random((300, 8, 8))
    model = ostrakon.PATEClassifier(classes=[0, 1], student="additive", epsilon=4)
    with pytest.raises(InvalidInput, match="student additive needs the columns of a table"):
        model.fit(images[:200], np.arange(200) % 2, X_public=images[200:])


def test_the_released_student_says_the_same_and_its_shapes_are_drawn(additive, tmp_path):
    release = additive.save_release(tmp_path / "release")
    X, _ = table(500, seed=1)
    np.testing.assert_allclose(load_student(release).predict_proba(X), additive.predict_proba(X), atol=1e-9)
    report = (release / "report.html").read_text()
    assert "Shapes of the additive student" in report
    assert "what age adds" in report
    assert "<b>office" not in report
    assert "&lt;b&gt;office&lt;/" in report


def test_a_shuffled_column_changes_what_the_student_uses(additive):
    ranked = importances(additive.finished_)
    assert [name for name, _ in ranked] == ["age", "work", "nothing"]
    assert ranked[0][1] > 0.1 > 0.05 > ranked[2][1]
    assert ranked == importances(additive.finished_)


def test_other_students_have_importance_and_no_shapes():
    finished = fitted("logistic").finished_
    ranked = importances(finished)
    assert ranked[0][0] == "age"
    assert shape_charts(ranked, finished) == ""


def test_a_quantity_has_importance_in_its_unit():
    X, _ = table(1500)
    model = ostrakon.PATERegressor(range=(0, 100), epsilon=4, random_state=0)
    model.fit(X[:1200], X["age"][:1200].to_numpy(), X_public=X[1200:])
    ranked = importances(model.finished_)
    assert ranked[0][0] == "age"
    assert ranked[0][1] > 5


def test_a_curve_over_days_ends_at_dates(tmp_path):
    X, y = table(1500)
    X = X.assign(day=pd.Timestamp("2024-01-01") + pd.to_timedelta((X.pop("age") * 5).round(), unit="D"))
    X.assign(y=y)[:1200].to_csv(tmp_path / "private.csv", index=False)
    X[1200:].to_csv(tmp_path / "public.csv", index=False)
    files = {"private": tmp_path / "private.csv", "public": tmp_path / "public.csv", "target": "y"}
    done = ostrakon.train(**files, classes="no,yes", epsilon=4, out=tmp_path / "run", student="additive")
    picture = re.search("what day adds.*", (done.release / "report.html").read_text())[0]
    assert re.findall(r">(\d{4}-\d\d)-\d\d<", picture) == ["2024-04", "2025-03"]


@pytest.mark.slow
def test_a_release_is_refitted_with_shapes(tmp_path):
    X, y = table(3000)
    X.assign(y=y)[:2400].to_csv(tmp_path / "private.csv", index=False)
    X[2400:].to_csv(tmp_path / "public.csv", index=False)
    files = {"private": tmp_path / "private.csv", "public": tmp_path / "public.csv", "target": "y"}
    done = ostrakon.train(**files, classes="no,yes", epsilon=4, out=tmp_path / "run", student="logistic")
    student = "additive(increasing='age')"
    again = refit(done.release, out=tmp_path / "again", public=tmp_path / "public.csv", student=student)
    assert "Shapes of the additive student" in (again.release / "report.html").read_text()
    with pytest.raises(InvalidInput, match=r"columns of numbers \(age, nothing\), got 'work'"):
        refit(done.release, out=tmp_path / "no", public=tmp_path / "public.csv", student="additive(decreasing='work')")
    ages = pd.DataFrame({"age": np.linspace(18, 90, 50), "work": "farm", "nothing": 0.0})
    assert (np.diff(load_student(again.release).predict_proba(ages)[:, 1]) >= -1e-12).all()
