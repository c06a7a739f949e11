import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

import ostrakon
from ostrakon.mechanisms import GNMax
from ostrakon.options.options import Options
from ostrakon.run.inputs.files import task_from_files
from ostrakon.run.pipeline import run
from ostrakon.validation import InvalidInput

X, Y = make_blobs(700, centers=[[0, 0], [6, 0], [0, 6]], random_state=0)
PRIVATE, PUBLIC = slice(0, 600), slice(600, 700)

pytestmark = pytest.mark.usefixtures("no_comparison")

NOISE = ostrakon.ConfidentGNMax(threshold=18, sigma1=15, sigma2=5)


def fitted(**options):
    y = np.array(["left", "right", "top"])[Y]
    given = {"student": "logistic", "n_teachers": 30, "mechanism": NOISE, "n_queries": 60, "random_state": 0, **options}
    model = ostrakon.PATEClassifier(**({"classes": "from-private"} | given))
    return model.fit(X[PRIVATE], y[PRIVATE], X_public=X[PUBLIC]), y


class WithPublicRows(ostrakon.PATEClassifier):
    """scikit-learn's checks call fit(X, y); the public rows that PATE needs beside them are those rows here."""

    def fit(self, X, y):
        return super().fit(X, y, X_public=X)


# One teacher without noise: the checks ask for repeatable predictions, and noise is never repeatable.
@parametrize_with_checks(
    [
        WithPublicRows(
            allow_shared_rows=True,
            classes="from-private",
            student="logistic",
            n_teachers=1,
            mechanism=GNMax(sigma2=1e-3),
            partition="random",
            query_strategy="all",
            random_state=0,
        )
    ],
    expected_failed_checks=lambda estimator: {},
)
def test_scikit_learn_accepts_it(estimator, check):
    check(estimator)


@pytest.mark.slow
def test_it_learns_and_says_what_it_costs():
    model, y = fitted(mechanism="confident-gnmax", epsilon=4.0, n_queries=None)
    assert model.score(X[PUBLIC], y[PUBLIC]) > 0.9
    assert model.statement_.guarantee.epsilon <= 4
    assert model.statement_.private
    assert model.classes_.tolist() == ["left", "right", "top"]
    np.testing.assert_allclose(model.predict_proba(X[PUBLIC]).sum(axis=1), 1, rtol=1e-6)
    assert model.votes_.queries == len(model.queries_) == len(model.answers_)


def test_what_may_leave_holds_nothing_private():
    model, _ = fitted()
    import pickle

    told = pickle.dumps(model.released_)
    assert b"PATEClassifier" not in told
    assert X[PRIVATE][:1].tobytes() not in told
    np.testing.assert_array_equal(model.released_.predict(X[PUBLIC]), model.predict(X[PUBLIC]))


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"teacher": DecisionTreeClassifier(max_depth=3)},
        {"teacher": "naive-bayes"},
        {"student": SVC()},
        {"student": "self-training"},
        {"student": "label-spreading"},
        {"mechanism": "gnmax", "epsilon": 4.0},
        {"mechanism": "interactive-gnmax", "epsilon": 6.0},
        {"mechanism": ostrakon.LNMax(gamma=0.5)},
        {"smooth": True},
        {"query_strategy": "random"},
        {"classes": ["left", "right", "top", "unseen"]},
    ],
)
def test_its_parts_can_be_chosen(options):
    model, y = fitted(**options)
    assert model.score(X[PUBLIC], y[PUBLIC]) > 0.85
    assert model.predict_proba(X[PUBLIC]).shape == (100, len(model.classes_))


@pytest.mark.slow
def test_a_mechanism_with_its_noise_is_used_as_it_is():
    model = ostrakon.PATEClassifier(classes="from-private", n_teachers=30, mechanism=GNMax(sigma2=7.5), n_queries=20)
    model.fit(X[PRIVATE], Y[PRIVATE], X_public=X[PUBLIC])
    assert model.mechanism_ == GNMax(sigma2=7.5)


@pytest.mark.parametrize("kind", [ostrakon.BoundedGNMax, ostrakon.MomentGNMax])
def test_an_object_counts_errors_and_corrects_only_where_it_says_so(kind):
    given = {"classes": [0, 1, 2], "epsilon": 4.0, "random_state": 0}
    model = ostrakon.PATEClassifier(mechanism=kind(sigma2=10), **given).fit(X[PRIVATE], Y[PRIVATE], X_public=X[PUBLIC])
    assert (model.mechanism_.errors, getattr(model.mechanism_, "corrections", 0)) == (0, 0)
    assert model.statement_.estimates == ()
    model = ostrakon.PATEClassifier(mechanism=kind(sigma2=10, errors=0.1), **given).fit(
        X[PRIVATE], Y[PRIVATE], X_public=X[PUBLIC]
    )
    assert model.mechanism_.errors == 0.1
    assert model.statement_.estimates


def test_a_mechanism_that_is_not_what_its_name_stands_for_is_refused():
    class Other(GNMax):
        """Its run would be GNMax's."""

    with pytest.raises(InvalidInput, match="mechanism must be a GNMax, which is what the name 'gnmax' stands for"):
        fitted(mechanism=Other(sigma2=7.5))


@pytest.mark.slow
def test_users_are_protected_together():
    users = np.arange(600) // 5
    model = ostrakon.PATEClassifier(classes="from-private", n_teachers=10, mechanism=GNMax(sigma2=2)).fit(
        X[PRIVATE], Y[PRIVATE], X_public=X[PUBLIC], users=users
    )
    assert model.statement_.unit == "user"


@pytest.mark.slow
def test_frames_with_text_work():
    frame = pd.DataFrame({"x": X[:, 0], "y": X[:, 1], "side": np.where(X[:, 0] > 3, "east", "west")})
    model = ostrakon.PATEClassifier(classes="from-private", n_teachers=30, mechanism=NOISE, random_state=0)
    model.fit(frame[PRIVATE], Y[PRIVATE], X_public=frame[PUBLIC])
    assert model.score(frame[PUBLIC], Y[PUBLIC]) > 0.9


@pytest.mark.slow
def test_numbers_are_a_table_however_they_are_held(tmp_path):
    scales = np.array([1.0, 1000.0])
    rows, y = X * scales, np.array(["left", "right", "top"])[Y]
    frame = pd.DataFrame(rows, columns=["a", "b"])
    frame.assign(side=y)[PRIVATE].to_csv(tmp_path / "private.csv", index=False)
    frame[PUBLIC].to_csv(tmp_path / "public.csv", index=False)
    task = task_from_files(tmp_path / "private.csv", tmp_path / "public.csv", target="side", classes="from-private")
    outcome = run(tmp_path / "run", task, Options(student="logistic", seed=5, jobs=1))
    said = {"file": np.load(tmp_path / "run" / "private" / "votes.npy")}
    for name, given in (("frame", frame), ("array", rows)):
        model = ostrakon.PATEClassifier(classes="from-private", student="logistic", random_state=5).fit(
            given[PRIVATE], y[PRIVATE], X_public=given[PUBLIC]
        )
        assert model.mechanism_.name == "bounded-gnmax"
        said[name] = model.votes_.counts
        # Scales do not matter: what is learned is as good as of columns of one scale.
        assert model.score(given[PUBLIC], y[PUBLIC]) > 0.9
    np.testing.assert_array_equal(said["frame"], said["array"])
    assert outcome.representation == "table"
    assert said["file"].sum() == said["array"].sum() == 600


def test_a_numeric_frame_may_have_gaps():
    frame = pd.DataFrame(X, columns=["a", "b"])
    frame.loc[::50, "a"] = np.nan
    model = ostrakon.PATEClassifier(classes="from-private", student="logistic", random_state=0).fit(
        frame[PRIVATE], Y[PRIVATE], X_public=frame[PUBLIC]
    )
    assert model.score(frame[PUBLIC], Y[PUBLIC]) > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("value", [3e38, -1.7e308])
@pytest.mark.parametrize("representation", ["pca", "raw"])
def test_a_private_row_of_finite_numbers_never_stops_a_run(representation, value):
    rows = X.copy()
    rows[PRIVATE][3], rows[PRIVATE][7, 1] = value, value
    for options in ({}, {"mechanism": "bounded-gnmax"}, {"mechanism": "gnmax", "n_teachers": 10, "epsilon": 4}):
        model = ostrakon.PATEClassifier(classes=[0, 1, 2], representation=representation, random_state=0, **options)
        assert len(model.fit(rows[PRIVATE], Y[PRIVATE], X_public=rows[PUBLIC]).predict(X)) == len(X)


def test_the_student_is_chosen_on_what_was_released():
    model, y = fitted(student="auto", mechanism="bounded-gnmax", n_teachers=None, n_queries=None)
    assert max(model.agreement_.values()) - model.agreement_[model.student_name_] < 0.1
    assert len(model.agreement_) == 7
    assert model.agreement_["majority"] < 0.6
    assert model.score(X[PUBLIC], y[PUBLIC]) > 0.9
    named, _ = fitted(mechanism="bounded-gnmax", n_teachers=None, n_queries=None)
    assert (named.student_name_, named.agreement_) == ("logistic", {})


def test_ordinary_noise_is_repeatable_and_marked():
    said = [fitted(noise=np.random.default_rng(3))[0] for _ in range(2)]
    np.testing.assert_array_equal(said[0].answers_, said[1].answers_)
    assert said[0].statement_.guarantee is None


@pytest.mark.slow
def test_the_random_state_never_seeds_noise():
    high_noise = {"mechanism": GNMax(sigma2=60.0), "n_queries": 100}
    said = [
        clone(fitted()[0]).set_params(**high_noise).fit(X[PRIVATE], Y[PRIVATE], X_public=X[PUBLIC]) for _ in range(2)
    ]
    np.testing.assert_array_equal(said[0].votes_.counts, said[1].votes_.counts)
    assert (said[0].answers_ != said[1].answers_).any()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"n_teachers": 601}, "^n_teachers must be at most 600"),
        ({"delta": 0.01}, "delta must be below 1 divided by"),
        ({"partition": "alphabetical"}, "partition must be"),
        (
            {"classes": ["left", "right"]},
            r"\('top' in \d+ of them\), the label is not among the classes \['left', 'right'\]",
        ),
        ({"classes": 3}, "classes must be a list of labels, or 'from-private', got 3"),
        ({"classes": [np.nan, 1, 2]}, "classes must be labels, none of them missing"),
        ({"mechanism": "best"}, "mechanism must be one of"),
        ({"epsilon": -1.0}, "epsilon must be"),
        ({"n_queries": 101}, "^n_queries must be at most 100"),
        ({"teacher": "oracle"}, "no estimator 'oracle'"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(options, sentence):
    y = np.array(["left", "right", "top"])[Y]
    model = ostrakon.PATEClassifier(**{"classes": "from-private", "n_teachers": 30, "epsilon": 4.0, **options})
    with pytest.raises(InvalidInput, match=sentence):
        model.fit(X[PRIVATE], y[PRIVATE], X_public=X[PUBLIC])


def test_a_wrong_list_of_classes_is_refused_before_rows_are_compared():
    with pytest.raises(InvalidInput, match=r"^In 600 of 600 rows \(1 in \d+ of them, 0 in \d+ of them"):
        ostrakon.PATEClassifier(classes=[7, 8]).fit(X[PRIVATE], Y[PRIVATE], X_public=X[PRIVATE])


def test_without_public_rows_it_says_so():
    with pytest.raises(InvalidInput, match=r"X_public must be given: .* private rows cannot stand in for them"):
        ostrakon.PATEClassifier(classes="from-private").fit(X, Y)


def test_public_images_of_another_shape_or_scale_are_refused():
    images = np.random.default_rng(0).random((60, 8, 8))
    model = ostrakon.PATEClassifier(classes="from-private", student="logistic")
    for sentence, public in {
        r"X_public must have values on the private images' scale .* mostly 25\d and 0.99": 255 * images[:20],
        r"X_public must have rows of the shape of those of X, \(8, 8\), got \(7, 7\)": images[:20, 1:, 1:],
        r"X_public must have rows of the shape of those of X, \(8, 8\), got \(64,\)": images[:20].reshape(20, 64),
        "The public data must have at least one row": images[:0],
    }.items():
        with pytest.raises(InvalidInput, match=sentence):
            model.fit(images, Y[:60], X_public=public)


@pytest.mark.slow
def test_the_released_student_finds_columns_by_name():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(900, 3)) * [1, 50, 2000], columns=["dose", "weight", "income"])
    y = (X["weight"] > 0).astype(int)
    model = ostrakon.PATEClassifier(classes="from-private", n_teachers=10, epsilon=20, random_state=0)
    model.fit(X[:700], y[:700], X_public=X[700:])
    expected = model.predict(X)
    assert (expected == y).mean() > 0.9
    other = X[["weight", "income", "dose"]]
    assert (model.released_.predict(other) == expected).all()
    assert (model.released_.predict(X.assign(more=1)) == expected).all()
    # What an order of its own would do to a student that goes by place.
    assert (model.released_.predict(other.to_numpy()) != expected).mean() > 0.2
    with pytest.raises(InvalidInput, match="missing: weight"):
        model.released_.predict(X.drop(columns="weight"))


@pytest.mark.parametrize("absent", [None, float("nan")])
def test_a_missing_label_is_refused_in_words(absent):
    y = np.array(["a", "b"] * 30, object)
    y[7] = absent
    for options in ({"protect": "labels"}, {}):
        given = {} if options else {"X_public": X[:20]}
        with pytest.raises(InvalidInput, match="y must have a label for every row, got 1 of 60 missing"):
            ostrakon.PATEClassifier(**{"classes": "from-private", **options}).fit(X[:60], y, **given)


def test_classes_of_private_labels_are_published_only_when_asked():
    y = np.array(["no", "yes"])[(X[:, 0] > 3).astype(int)]
    y = np.where(np.arange(len(y)) == 7, "rare_secret_disease", y)
    with pytest.raises(InvalidInput, match=r"Give classes=\['no', 'yes'\] .*, or classes='from-private'") as refused:
        ostrakon.PATEClassifier().fit(X[PRIVATE], y[PRIVATE], X_public=X[PUBLIC])
    assert "rare" not in str(refused.value)
    with pytest.raises(InvalidInput, match="a list of labels, or 'from-private', got 'no'"):
        ostrakon.PATEClassifier(classes="no").fit(X[PRIVATE], y[PRIVATE], X_public=X[PUBLIC])


def test_numbers_with_fractions_are_labels_if_they_are_listed():
    rng = np.random.default_rng(0)
    X, U = rng.normal(size=(600, 2)), rng.normal(size=(100, 2))
    y = np.array([1.0, 2.5, 3.75])[np.digitize(X[:, 0], [-0.5, 0.5])]
    model = ostrakon.PATEClassifier(classes=[1.0, 2.5, 3.75], student="logistic", random_state=0, epsilon=4.0)
    model.fit(X, y, X_public=U)
    assert set(model.predict(U)) <= {1.0, 2.5, 3.75}
    assert model.score(X, y) == (model.predict(X) == y).mean() > 0.6
    with pytest.raises(ValueError, match="continuous"):
        model.fit(X, y + 0.1, X_public=U)


def test_sets_of_labels_cover_new_rows_and_are_those_of_the_release(tmp_path):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(9000, 3))
    y = np.array(["no", "yes"])[(rows[:, 0] + 0.7 * rng.normal(size=9000) > 0).astype(int)]
    model = ostrakon.PATEClassifier(classes=["no", "yes"], epsilon=4, random_state=0, student="moments", noise=rng)
    model.fit(rows[:6000], y[:6000], X_public=rows[6000:7000])
    sizes = []
    for coverage in (0.8, 0.9, 0.95):
        sets = model.predict_sets(rows[7000:], coverage)
        assert np.mean([label in labels for labels, label in zip(sets, y[7000:], strict=True)]) >= coverage
        assert all(label in labels for labels, label in zip(sets, model.predict(rows[7000:]), strict=True))
        sizes.append(np.mean([len(labels) for labels in sets]))
    assert sizes == sorted(sizes)
    assert sizes[1] < 1.9
    with pytest.raises(InvalidInput, match=r"coverage must be one of 0.8, 0.9, 0.95, got 0.7."):
        model.predict_sets(rows, 0.7)
    release = model.save_release(tmp_path / "release")
    student = ostrakon.export.student_files.load_student(release)
    assert student.predict_sets(rows[7000:], 0.9) == model.predict_sets(rows[7000:], 0.9)
    assert "Mean number of labels in a set:" in (release / "model_card.md").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("student", ["logistic", "auto"])
def test_trained_teachers_give_no_sets(student):
    model, _ = fitted(student=student, n_queries=80)
    assert (model.answers_ >= 0).sum() >= 50
    with pytest.raises(InvalidInput, match="Prediction sets need a student of one label a row, of per-record teachers"):
        model.predict_sets(X[:3])


def test_columns_of_public_rows_are_those_of_the_private_ones():
    X = pd.DataFrame(np.random.default_rng(0).random((60, 2)), columns=["age", "stay"])
    model, y = ostrakon.PATEClassifier(classes=[0, 1]), np.arange(60) % 2
    with pytest.raises(InvalidInput, match="X_public must have the columns of X, got none named 'stay'"):
        model.fit(X, y, X_public=X[["age"]])
    with pytest.raises(InvalidInput, match="X_public must have the columns of X alone, got 'stay' too"):
        model.fit(X[["age"]], y, X_public=X)
