"""Counts of right and wrong predictions: their share of the cost, one record's part, ranges that hold."""

import threading
from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

import ostrakon
import ostrakon.run.steps as steps
from ostrakon.data.consent import Consent
from ostrakon.data.datasets import glyphs
from ostrakon.features.moments import MomentMap
from ostrakon.options.options import Options
from ostrakon.planning.make_plan import make_plan
from ostrakon.report import table
from ostrakon.report.first_page import _quality
from ostrakon.report.table import _student
from ostrakon.run.inputs.private_data import Rows
from ostrakon.run.refit import OTHER_OBJECTIVE
from ostrakon.run.stages.corrections import ErrorInputs
from ostrakon.run.stages.estimates import NOT_COPIED
from ostrakon.run.stages.student_errors import Estimates, same_estimates
from ostrakon.statements.sentences import NOT_COUNTED
from ostrakon.students.calibration import CalibratedStudent, median_class
from ostrakon.students.corrected_student import CorrectedStudent
from ostrakon.students.sklearn_student import SklearnStudent
from ostrakon.teachers.corrections import ClassCorrections
from ostrakon.teachers.errors import ErrorSizes, RightAndWrong
from ostrakon.validation import InvalidInput
from ostrakon.votes import FINE_STEPS, STEPS


def rows(n, classes, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    y = (np.clip((stats.norm.cdf(X[:, 0] + 0.3 * rng.normal(size=n))), 0, 0.999) * classes).astype(int)
    return X, y


@pytest.mark.parametrize(("classes", "student"), [(2, "auto"), (4, "auto"), (25, "auto"), (3, "extra-trees")])
def test_one_record_moves_two_counts_by_one_vote_and_the_table_tells_the_truth(classes, student, monkeypatch, tmp_path):
    """All other records say the same, to the last bit, whatever becomes of one: the student is fixed."""
    asked = []
    collect = partial(steps.collect_sums, seed=0)
    monkeypatch.setattr(steps, "collect_sums", lambda *given, **_: asked.append(given) or collect(*given))
    X, y = rows(900, classes)
    model = ostrakon.PATEClassifier(
        epsilon=4.0, classes=list(range(classes)), random_state=0, student=student, mechanism="moment-gnmax(errors=0.1)"
    ).fit(X, y, X_public=rows(200, classes, 1)[0])
    plan, private, rule, estimates = asked[-1]
    before = collect(plan, private, rule, estimates)
    right = model.predict(X) == y
    if classes <= 20:
        exact = [[np.sum(right[y == one]), np.sum(~right[y == one])] for one in range(classes)]
    else:
        exact = [[right.sum(), (~right).sum()]]
    assert (before.counts == STEPS * np.array(exact)).all()
    for number in (0, 450, 899):
        other, given = private.X.copy(), private.y.copy()
        other[number], given[number] = -9.0, (given[number] + 1) % classes
        moved = collect(plan, Rows(X=other, y=given), rule, estimates).counts - before.counts
        assert np.square(moved).sum() in (0, 2 * STEPS**2)
    order = np.random.default_rng(0).permutation(900)
    again = collect(plan, Rows(X=private.X[order], y=private.y[order]), rule, estimates)
    np.testing.assert_array_equal(again.counts, before.counts)
    student_estimate = model.statement_.estimates[0]
    assert student_estimate.counted == "private records"
    # Six standard deviations.
    assert abs(student_estimate.share - right.mean()) < 6 * student_estimate.sd
    together = "none: errors are counted together for more than 20 classes" if classes > 20 else None
    assert dict(_student(model.finished_)).get("Recall by class") == together
    card = (model.save_release(tmp_path / "release") / "model_card.md").read_text()
    assert (f"| Recall by class (estimated) | {together} |" in card) == (classes > 20)


@pytest.mark.parametrize("objective", ["accuracy", "log-loss", "ordered"])
def test_counted_errors_calibrate_probabilities_and_keep_labels(objective, monkeypatch):
    """The released student has the labels that were counted, and is nearly as sure of them as it is right."""
    seen, final = [], steps.as_sure_as_right
    monkeypatch.setattr(steps, "as_sure_as_right", lambda *given: seen.append(given[0]) or final(*given))
    X, y = rows(4000, 4)
    options = {"classes": list(range(4)), "random_state": 0, "objective": objective, "epsilon": 4.0}
    plain = {**options, "mechanism": "moment-gnmax(corrections=0)", "noise": np.random.default_rng(0)}
    model = ostrakon.PATEClassifier(**plain).fit(X, y, X_public=rows(600, 4, 1)[0])
    before, after = seen[0].student, model.released_.student
    assert after.student is before
    X_test, y_test = rows(2000, 4, 2)
    features = np.asarray(model.released_.representation.transform(X_test), np.float64)
    np.testing.assert_array_equal(after.predict(features), before.predict(features))
    said = after.predict(features)
    unsure, sure = (one.predict_proba(features)[np.arange(2000), said].mean() for one in (before, after))
    assert abs(sure - np.mean(said == y_test)) < 0.04 < 0.05 < abs(unsure - np.mean(said == y_test))
    words = model.statement_.tuned["probabilities"]
    change = "more" if after.temperature < 1 else "less"
    value = f"(temperature {after.temperature:.2f})"
    assert words.endswith(f"made {change} certain {value}, from noisy counts of the student's errors")


@pytest.mark.parametrize("mechanism", ["moment-gnmax", "moment-gnmax(corrections=0)"])
@pytest.mark.parametrize("objectives", [("accuracy", "ordered"), ("ordered", "accuracy"), ("accuracy", "balanced")])
def test_a_refit_with_other_labels_and_the_same_probabilities_keeps_the_temperature(mechanism, objectives, tmp_path):
    """Errors were counted for the labels of the run, and tell how sure its probabilities may be of these."""
    for name, number in (("private", 4000), ("public", 600)):
        X, y = rows(number, 3, len(name))
        frame = pd.DataFrame(X, columns=[f"x{at}" for at in range(X.shape[1])])
        (frame.assign(y=y) if name == "private" else frame).to_csv(tmp_path / f"{name}.csv", index=False)
    given = {"private": tmp_path / "private.csv", "target": "y", "classes": "0,1,2", "mechanism": mechanism}
    public = tmp_path / "public.csv"
    first = ostrakon.train(
        **given, public=public, epsilon=4.0, objective=objectives[0], jobs=1, out=tmp_path / "run"
    ).outcome
    release = tmp_path / "run" / "release"
    made = ostrakon.refit(release, public=public, objective=objectives[1], out=tmp_path / "b").finished
    said = made.statement.tuned["probabilities"]
    if objectives[1] == "balanced":
        assert "noisy counts" not in said
        return
    before, after = first.student.student, made.student.student
    assert after.temperature == before.temperature
    assert said.endswith(f"(temperature {after.temperature:.2f}), from noisy counts of {OTHER_OBJECTIVE}")
    features = np.asarray(first.student.representation.transform(frame), np.float64)
    np.testing.assert_allclose(after.predict_proba(features), before.predict_proba(features), atol=1e-3)
    labels = after.predict(features)
    medians = median_class(after.student.predict_proba(features))
    likeliest = after.student.predict_proba(features).argmax(axis=1)
    np.testing.assert_array_equal(labels, medians if objectives[1] == "ordered" else likeliest)
    assert made.statement.estimates == ()
    assert NOT_COUNTED in made.statement.remarks


@pytest.mark.parametrize("corrections", [0, 0.5])
@pytest.mark.parametrize("objective", ["log-loss", "balanced"])
def test_a_refit_to_accuracy_is_as_sure_as_the_student_of_another_objective_is_right(objective, corrections, tmp_path):
    """Of the labels that were counted, which are other ones if every class counts the same."""
    X, y = rows(4000, 4)
    private, public = X[(y < 2) | (np.arange(4000) % 3 == 0)], rows(600, 4, 1)[0]
    y = y[(y < 2) | (np.arange(4000) % 3 == 0)]
    pd.DataFrame(private).add_prefix("x").assign(y=y).to_csv(tmp_path / "private.csv", index=False)
    pd.DataFrame(public).add_prefix("x").to_csv(tmp_path / "public.csv", index=False)
    given = {
        "target": "y",
        "classes": "0,1,2,3",
        "mechanism": f"moment-gnmax(corrections={corrections})",
        "epsilon": 4.0,
    }
    files = {name: tmp_path / f"{name}.csv" for name in ("private", "public")}
    run = ostrakon.train(**files, **given, objective=objective, jobs=1, out=tmp_path / "run").outcome
    made = ostrakon.refit(tmp_path / "run/release", public=files["public"], out=tmp_path / "b").finished
    after, said = made.student.student, made.statement.tuned["probabilities"]
    if objective == "balanced" and not corrections:
        assert "noisy counts" not in said
        return
    same = bool(made.statement.estimates)
    assert same == (objective == "log-loss" and bool(corrections))  # a corrected student of the log loss is this one
    assert said.endswith("the student's errors" if same else OTHER_OBJECTIVE)
    features = np.asarray(made.student.representation.transform(pd.DataFrame(private).add_prefix("x")), np.float64)
    np.testing.assert_array_equal(after.predict(features), after.student.predict(features))
    labels = run.student.student.predict(features)
    assert (labels != after.predict(features)).any() == (objective == "balanced")
    unsure, sure = (one.predict_proba(features)[np.arange(len(y)), labels].mean() for one in (after.student, after))
    # The student of the log loss is nearly as sure as it is right before, and by chance as near as after.
    assert abs(sure - np.mean(labels == y)) < max(0.7 * abs(unsure - np.mean(labels == y)), 0.03)


def test_the_last_temperature_keeps_shares_that_a_correction_follows():
    rng = np.random.default_rng(0)
    X, shifted = rng.normal(size=(6000, 4)), rng.normal(size=(600, 4)) + 0.8
    y = ((X[:, 0] + X[:, 1] + 0.8 * rng.normal(size=6000) > 0) & (rng.random(6000) < 0.4)).astype(int)
    options = {"epsilon": 4.0, "classes": [0, 1], "random_state": 0, "noise": np.random.default_rng(0)}
    model = ostrakon.PATEClassifier(**options, objective="log-loss").fit(X, y, X_public=shifted)
    after = model.released_.student
    before = after.student
    assert isinstance(before, CorrectedStudent)
    assert before.student.offsets.any()
    features = np.asarray(model.released_.representation.transform(shifted), np.float64)
    means = [one.predict_proba(features).mean(axis=0) for one in (before, after)]
    assert after.temperature != 1
    np.testing.assert_allclose(*means, atol=1e-5)
    without = CalibratedStudent(before, after.temperature, np.zeros(2))
    assert abs(without.predict_proba(features).mean(axis=0) - means[0]).max() > 1e-3


def test_without_counted_errors_or_public_rows_no_accuracy_calibrates():
    X, y = rows(900, 2)
    alone = ostrakon.PATEClassifier(epsilon=4.0, classes=[0, 1], mechanism="moment-gnmax(errors=0)", random_state=0)
    alone.fit(X, y, X_public=rows(200, 2, 1)[0])
    table = pd.DataFrame({"a": np.sign(X[:, 0]).astype(str)})
    domain = ostrakon.Domain.of({"a": {"categories": ["-1.0", "1.0"]}})
    described = ostrakon.PATEClassifier(epsilon=4.0, classes=[0, 1], random_state=0).fit(table, y, X_public=domain)
    assert described.statement_.estimates
    balanced = ostrakon.PATEClassifier(epsilon=4.0, classes=[0, 1], objective="balanced", random_state=0)
    balanced.fit(X, y, X_public=rows(200, 2, 1)[0])
    for one in (alone, described, balanced):
        assert "noisy counts of the student's errors" not in one.statement_.tuned.get("probabilities", "")


def test_one_image_moves_two_counts_by_one_vote(monkeypatch):
    pytest.importorskip("torch")
    asked = []
    collect = partial(steps.collect_sums, seed=0)
    monkeypatch.setattr(steps, "collect_sums", lambda *given, **_: asked.append(given) or collect(*given))
    data = glyphs(900, 150, 10, n_classes=3, imbalance=1.0, wrong_labels=0, system_fonts=False, random_state=1)
    options = {"student": "cnn(network='quick-cnn')", "mechanism": "bounded-gnmax(errors=0.1)", "random_state": 0}
    model = ostrakon.PATEClassifier(epsilon=4.0, classes=[0, 1, 2], **options)
    model.fit(data.X, data.y, X_public=data.X_public)
    plan, private, rule, estimates = asked[-1]
    before = collect(plan, private, rule, estimates)
    right = model.predict(data.X) == data.y
    exact = [[np.sum(right[data.y == one]), np.sum(~right[data.y == one])] for one in range(3)]
    assert (before.counts == STEPS * np.array(exact)).all()
    for number in (0, 450, 899):
        other, given = private.X.copy(), private.y.copy()
        other[number], given[number] = 1 - other[number], (given[number] + 1) % 3
        moved = collect(plan, Rows(X=other, y=given), rule, estimates).counts - before.counts
        assert np.square(moved).sum() in (0, 2 * STEPS**2)
    order = np.random.default_rng(0).permutation(900)
    again = collect(plan, Rows(X=private.X[order], y=private.y[order]), rule, estimates)
    np.testing.assert_array_equal(again.counts, before.counts)


class Remembers(DummyClassifier):
    """Changes its mind with the rows that it was asked about."""

    def predict(self, X):
        self.seen = getattr(self, "seen", 0.0) + float(np.abs(X).sum())
        return np.full(len(X), int(self.seen) % 2)


class Gambles(DummyClassifier):
    """Draws global random numbers, as many as rows are large."""

    def predict(self, X):
        return [np.random.random(1 + int(np.abs(row).sum()))[-1] > 0.5 for row in X]  # noqa: NPY002


@pytest.mark.parametrize("student", [Remembers(), Gambles()])
def test_a_student_that_remembers_rows_or_gambles_says_the_same_of_all_others(student):
    X, y = rows(60, 2)
    estimates = Estimates.of(student.fit(X, y), np.asarray, seen=X)
    said = estimates(X)
    assert 0 < said.mean() < 1
    X[0] = 9.0
    np.testing.assert_array_equal(estimates(X)[1:], said[1:])


class Fails(LogisticRegression):
    """Fails on a row that begins with 9, in one of several ways."""

    way = "raises"

    def predict(self, X):
        if X[0, 0] != 9:
            return super().predict(X)
        if self.way == "raises":
            raise RuntimeError(f"the row {X}")
        return {"rows": [0, 1], "none": [], "words": ["a"]}[self.way]


@pytest.mark.parametrize("way", ["raises", "rows", "none", "words"])
def test_a_student_that_fails_on_a_row_is_wrong_on_it_and_right_on_others(way, capfd, monkeypatch):
    monkeypatch.setattr(Fails, "way", way)
    X, y = rows(60, 2)
    student = Fails().fit(X, y)
    said = Estimates.of(student, np.asarray, seen=X)(X)
    X[3], X[7] = 9.0, 9.0
    estimates = Estimates.of(student, np.asarray, seen=X)
    missing = np.isin(np.arange(60), [3, 7])
    np.testing.assert_array_equal(estimates(X), np.where(missing[:, None], np.nan, said))
    owners, numbers = np.arange(60), estimates(X)
    counts = RightAndWrong(classes=2, by_class=False).contributions_of((owners, numbers, y)).counts
    assert counts.tolist() == [[STEPS * np.sum(said[~missing, 0] == y[~missing]), STEPS * 60 - counts[0, 0]]]
    sizes = ErrorSizes(edges=np.array([0.1, 0.5, 1.0])).contributions_of((owners[:8], numbers[:8], FINE_STEPS * y[:8]))
    assert sizes.counts[2, 0] >= 2 * STEPS
    assert capfd.readouterr() == ("", "")


def test_a_student_without_probabilities_for_some_rows_is_the_same_student():
    assert same_estimates([0.5, np.nan], [0.5, np.nan])
    assert not same_estimates([0.5, np.nan], [0.5, 0.5])
    assert not same_estimates([np.nan], [np.inf])


def test_a_student_that_fails_on_a_row_corrects_nothing_by_it():
    X, y = rows(60, 2)
    X[3] = 9.0
    rule = ClassCorrections(directions=MomentMap.of(X), classes=2)
    says = ErrorInputs(directions=rule.directions, classes=2)
    student = Fails().fit(X, y)
    student.predict_proba = lambda rows: 1 / 0 if rows[0, 0] == 9 else LogisticRegression.predict_proba(student, rows)
    numbers = Estimates(student=student, transform=np.asarray, rows=1, known=False, says=says)(X)
    assert np.isnan(numbers[3]).all()
    assert np.isfinite(np.delete(numbers, 3, axis=0)).all()
    added = [
        rule.contributions_of((np.arange(len(part)), part, np.zeros(len(part)))).counts
        for part in (numbers, np.delete(numbers, 3, axis=0))
    ]
    np.testing.assert_array_equal(*added)


STAYS = pytest.mark.filterwarnings("ignore:It can be used here")


class Leaves(LogisticRegression):
    """Leaves out rows at random, by global random numbers."""

    def fit(self, X, y, sample_weight=None):
        kept = np.random.random(len(X)) < 0.5  # noqa: NPY002
        return super().fit(X[kept], y[kept], sample_weight[kept])


@STAYS
def test_a_student_of_global_random_numbers_is_repeated_and_leaves_them_as_they_were():
    X, y = rows(600, 2)
    before = np.random.get_state()[1].tolist()  # noqa: NPY002
    one, other = (
        ostrakon.PATEClassifier(
            student=Leaves(), epsilon=4.0, classes=[0, 1], random_state=0, noise=np.random.default_rng(0)
        ).fit(X, y, X_public=rows(100, 2, 1)[0])
        for _ in range(2)
    )
    np.testing.assert_array_equal(one.released_.predict_proba(X), other.released_.predict_proba(X))
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002


class Locks(LogisticRegression):
    """Cannot be copied: at once, or after a fit."""

    fits = 0

    def __init__(self, lock=None):
        super().__init__()
        self.lock = lock

    def fit(self, X, y, sample_weight=None):
        Locks.fits += 1
        self.made = threading.Lock()
        return super().fit(X, y, sample_weight)


@STAYS
def test_a_student_that_cannot_be_copied_before_its_fit_is_refused_before_a_vote(monkeypatch):
    X, y = rows(600, 2)
    monkeypatch.setattr(steps, "collect_votes", None)
    model = ostrakon.PATEClassifier(student=Locks(threading.Lock()), epsilon=4.0, classes=[0, 1])
    with pytest.raises(InvalidInput, match=r"student must be an estimator that sklearn\.base\.clone copies, got Locks"):
        model.fit(X, y, X_public=rows(100, 2, 1)[0])


@STAYS
@pytest.mark.parametrize("errors", [0, 0.1])
def test_a_student_that_cannot_be_copied_after_its_fit_has_no_trial_fit_and_no_estimate(errors, monkeypatch):
    monkeypatch.setattr(Locks, "fits", 0)
    X, y = rows(600, 2)
    given = {"epsilon": 4.0, "classes": [0, 1], "mechanism": f"bounded-gnmax(errors={errors})"}
    model = ostrakon.PATEClassifier(student=Locks(), **given).fit(X, y, X_public=rows(100, 2, 1)[0])
    assert np.mean(model.predict(X) == y) > 0.7
    assert Locks.fits == 6  # five of them without a part of the answers
    content = model.statement_.as_dict()
    assert content["estimates"] == []
    # What was planned is claimed.
    assert 3.99 < content["guarantee"]["epsilon"] <= 4
    assert not any("counts of the student's errors" in remark for remark in content["remarks"])
    why = NOT_COPIED if errors else "errors=0 was given"
    assert dict(_student(model.finished_))["Estimated accuracy"] == f"none: {why}"
    assert f"Not estimated: {why}." in _quality(content, (), None)


@STAYS
def test_a_student_of_a_quantity_that_cannot_be_copied_has_no_intervals():
    X, y = rows(600, 5)
    model = ostrakon.PATERegressor(student=Locks(), epsilon=4.0, range=(0, 4), mechanism="quantity-gnmax(errors=0.1)")
    model.fit(X, y, X_public=rows(100, 2, 1)[0])
    assert model.finished_.answers.errors is None
    assert dict(table._intervals(model.finished_)) == {"Intervals": f"none: {NOT_COPIED}"}
    assert f"Not estimated: {NOT_COPIED}." in _quality(model.statement_.as_dict(), (), None)


class Compares(LogisticRegression):
    """Compares rows with the mean of the batch; it writes its own ONNX, so that it can be released."""

    def predict(self, X):
        return (np.asarray(X)[:, 0] > np.mean(np.asarray(X)[:, 0])).astype(int)

    def write_onnx(self, graph, rows):
        raise NotImplementedError


def middle_of_the_batch(rows, others):
    return (rows - rows.mean(axis=0)) @ others.T


@pytest.mark.parametrize("student", [Compares(), SVC(kernel=middle_of_the_batch)])
def test_a_student_with_code_from_elsewhere_that_compares_rows_says_the_same_of_all_others(student):
    X, y = rows(60, 2)
    estimates = Estimates.of(SklearnStudent(student).fit(X, y), np.asarray, seen=X)
    said = estimates(X)
    X[0] = 1e6
    np.testing.assert_array_equal(estimates(X)[1:], said[1:])


def test_a_network_with_code_from_elsewhere_that_compares_rows_says_the_same_of_all_others():
    torch = pytest.importorskip("torch")
    from ostrakon.students.supervised import SupervisedNetwork

    class Compared(torch.nn.Module):
        def __init__(self, shape, classes):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(classes))

        def forward(self, x):
            further = x[:, :1] - x[:, :1].max() / 2
            return self.scale * torch.cat([-further, further], dim=1)

    X, y = rows(60, 2)
    estimates = Estimates.of(SupervisedNetwork(Compared, steps=20, random_state=0).fit(X, y), np.asarray, seen=X)
    said = estimates(X)
    X[0] = 1e6
    np.testing.assert_array_equal(estimates(X)[1:], said[1:])


def test_rounding_by_the_position_of_a_row_decides_no_class():
    """Public rows are far from a tie, so that their classes do not show it."""
    X, y = rows(60, 2)
    student = LogisticRegression().fit(X, y)
    proba = student.predict_proba
    student.predict_proba = lambda X: proba(X) + 1e-12 * np.arange(len(X))[:, None]
    student.predict = lambda X: (student.predict_proba(X)[:, 1] > tie).astype(int)
    tie = proba(np.zeros((1, 4)))[0, 1] + 3e-12
    estimates = Estimates.of(student, np.asarray, seen=X)
    assert len(set(estimates(np.zeros((60, 4))).ravel())) == 1


@pytest.mark.parametrize("given", [{}, {"objective": "balanced"}])
def test_a_network_with_other_probabilities_or_classes_is_counted(given, tmp_path):
    pytest.importorskip("torch")
    X, y = rows(900, 2)
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame.assign(y=y)[:700].to_csv(tmp_path / "private.csv", index=False)
    frame[700:].to_csv(tmp_path / "public.csv", index=False)
    paths = {name: tmp_path / f"{name}.csv" for name in ("private", "public")}
    asked = {"target": "y", "classes": "0, 1", "mechanism": "bounded-gnmax", "student": "vat(steps=20)", **given}
    outcome = ostrakon.train(**paths, **asked, epsilon=4.0, delta=1e-4, out=tmp_path / "run").outcome
    assert type(outcome.student.student).__name__ == "CalibratedStudent"
    assert outcome.statement.estimates


def test_a_forest_with_jobs_adds_its_trees_in_one_order():
    """By threads, nearly every call gave other last bits, by which of them finished first."""
    X, y = rows(300, 2)
    forest = RandomForestClassifier(n_estimators=60, max_depth=6, n_jobs=2, random_state=0).fit(X, y)
    forest.predict = lambda X: forest.predict_proba(X)[:, 0]
    estimates = Estimates.of(forest, np.asarray, seen=X)
    assert len({estimates(X).tobytes() for _ in range(40)}) == 1


def test_share_of_the_cost_by_default():
    def share(units, *, epsilon: float | None = 1.0, classes=2, **given):
        plan = make_plan(Options(epsilon=epsilon, delta=1e-6, **given), units=units, pool=500, classes=classes)
        return plan.mechanism.errors

    assert share(100) == 0
    assert share(1000) == 0.05
    assert share(100_000) == share(100_000, classes=21) == 0.01
    assert 0.01 < share(20_000, classes=20) < 0.05
    assert share(20_000, classes=21) < share(20_000, classes=20)
    assert share(1000, mechanism="moment-gnmax", parameters={"errors": 0}) == 0
    assert share(1000, mechanism="bounded-gnmax") == 0.05
    assert share(100_000, mechanism="moment-gnmax", parameters={"errors": 0.2}) == 0.2
    # Noise that is given is not made dearer.
    assert share(1000, epsilon=None, mechanism="bounded-gnmax", parameters={"sigma2": 10.0}) == 0
    for units in (500, 3000, 20_000):
        mechanism = make_plan(Options(epsilon=1.0, delta=1e-6), units=units, pool=500, classes=4).mechanism
        half_width = 1.96 * mechanism.error_noise * (4 / 2) ** 0.5 / units
        assert half_width <= 0.2
        if 0.01 < mechanism.errors < 0.05:
            assert 0.008 < half_width <= 0.01
        else:
            assert (half_width <= 0.01) == (mechanism.errors == 0.01)


def test_levels_of_consent_have_none():
    sizes = {"units": 5000, "pool": 500, "classes": 2}
    asked = Options(mechanism="bounded-gnmax", parameters={"errors": 0.1})
    consent = Consent(column="level", epsilons={"1": 0.5, "2": 1.0})
    with pytest.raises(InvalidInput, match=r"errors must be 0 for records with levels of consent, got 0\.1"):
        make_plan(asked, **sizes, consent=consent)
    assert make_plan(Options(), **sizes, consent=consent).mechanism.error_noise is None


@pytest.mark.slow
def test_whole_runs_cover_the_private_records():
    """Misses at most as often as 5% of runs miss, at an estimate that is usable."""
    runs, missed = 20, 0
    for seed in range(runs):
        X, y = rows(1500, 3, seed)
        model = ostrakon.PATEClassifier(
            epsilon=1.0, classes=[0, 1, 2], random_state=0, noise=np.random.default_rng(seed)
        )
        model.fit(X[300:], y[300:], X_public=X[:300])
        student = model.statement_.estimates[0]
        assert student.high - student.low < 0.12
        missed += not student.low <= np.mean(model.predict(X[300:]) == y[300:]) <= student.high
    assert missed <= stats.binom.ppf(0.999, runs, 0.05)
