"""Several labels of a row by trained teachers: each label of a row is a query of two classes, priced like any other."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import brentq
from scipy.stats import binom, norm
from typer.testing import CliRunner

import ostrakon
from ostrakon import GNMax, PATEClassifier
from ostrakon.accounting.data_independent.worst_case import worst_case
from ostrakon.cli import app
from ostrakon.data.labels import of_set_numbers, set_numbers
from ostrakon.export.student_files import load_student
from ostrakon.options.options import Options
from ostrakon.planning.make_plan import make_plan
from ostrakon.planning.plan import plan_from
from ostrakon.run.inputs.private_data import Rows
from ostrakon.run.noise_log import Log
from ostrakon.run.stages.answers import Answers, ask
from ostrakon.run.stages.features import view_of
from ostrakon.run.stages.learning import Learning
from ostrakon.run.stages.student import fit_student
from ostrakon.run.stages.votes import collect, label_votes
from ostrakon.validation import InvalidInput
from ostrakon.votes import Votes

LABELS = ("a", "b", "c")


def world(rows, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 4))
    scores = X @ np.array([[2, 0, 1], [0, 2, 0], [0, 0, -2], [1, 0, 0]]) + 0.3 * rng.normal(size=(rows, 3))
    return X, (scores > [0, 0.5, -0.5]).astype(np.int64)


def test_sets_of_labels_are_bits():
    every = np.array([[a, b, c] for a in (0, 1) for b in (0, 1) for c in (0, 1)])
    assert sorted(set_numbers(every)) == list(range(8))
    assert (of_set_numbers(set_numbers(every), 3) == every).all()


def test_votes_are_for_and_against_each_label_of_each_row():
    sets = np.array([[5, 0, 1], [7, 7, 2]])  # two rows, three teachers
    assert label_votes(sets, 3).counts.tolist() == [[1, 2], [3, 0], [2, 1], [1, 2], [0, 3], [1, 2]]


def test_a_teacher_that_abstains_is_not_for_every_label():
    with pytest.raises(InvalidInput, match="Every teacher must vote on every label"):
        label_votes(np.array([[5, -1]]), 3)


@pytest.mark.parametrize("mechanism", ["gnmax", "confident-gnmax", "lnmax"])
def test_the_price_is_that_of_as_many_queries_of_two_classes(mechanism):
    options = Options(mechanism=mechanism, teachers=100, queries=30, epsilon=1.0, max_answers=None)
    plan = make_plan(options, units=5000, pool=400, classes=3, target="labels")
    assert (plan.labels, plan.rows, plan.queries, plan.classes, plan.per_record) == (3, 30, 90, 2, False)
    bound = worst_case(
        plan.mechanism,
        queries=90,
        delta=plan.delta,
        max_answers=plan.max_answers,
        teachers=100,
        classes=2,
        adaptive=True,
    )
    assert plan.bound == bound
    assert 0.9 < bound.epsilon <= 1
    assert plan_from(plan.as_dict(), classes=3) == plan


def exact_epsilon(plan, sigma2):
    """The smallest epsilon of all answers, if one record moves one vote on every label of every row, over tied votes.

    An answer is a coin, whose probability is that of the noisy lead; how often it is 1 tells all (Neyman-Pearson).
    """
    spread, numbers = sigma2 * 2**0.5, np.arange(plan.queries + 1)

    def delta(epsilon, one, other):
        return np.maximum(np.exp(one) - np.exp(epsilon + other), 0).sum()

    def of_lead(lead):
        shares = norm.cdf((lead + np.array([0, 2])) / spread)
        one, other = (binom.logpmf(numbers, plan.queries, share) for share in shares)
        return max(
            brentq(lambda at: delta(at, one, other) - plan.delta, 0, 100),
            brentq(lambda at: delta(at, other, one) - plan.delta, 0, 100),
        )

    return max(of_lead(lead) for lead in np.linspace(-sigma2, sigma2, 21))


@pytest.mark.parametrize(("rows", "epsilon"), [(30, 1.0), (100, 2.0)])
def test_two_percent_less_noise_or_price_is_refuted(rows, epsilon):
    options = Options(mechanism="gnmax", teachers=250, queries=rows, epsilon=epsilon, delta=1e-5)
    plan = make_plan(options, units=25_000, pool=400, classes=3, target="labels")
    claimed, noise = plan.bound.epsilon, plan.mechanism.sigma2
    attained = exact_epsilon(plan, noise)
    assert 0.98 * claimed < attained <= claimed
    assert exact_epsilon(plan, 0.98 * noise) > claimed


def test_a_record_moves_one_vote_on_each_label():
    X, Y = world(400, 0)
    pool = world(40, 1)[0]
    plan = make_plan(Options(teachers=20, queries=9, mechanism="gnmax"), units=400, pool=40, classes=3, target="labels")
    view = view_of(pool, "raw")
    options = Options(teachers=20, teacher="decision-tree")
    counts = []
    for labels in (Y[5], 1 - Y[5]):
        changed = Y.copy()
        changed[5] = labels
        votes, _ = collect(plan, Rows(X=X, y=changed, users=np.arange(400)), view, np.arange(9), options)
        counts.append(votes.counts)
    moved = np.abs(counts[0] - counts[1]).sum(axis=1)
    assert len(moved) == 27
    assert set(moved.tolist()) == {0, 2}


def fitted_on(X, answers, student="auto"):
    """The student of a run in which these answers were released, (rows, labels), -1 for none."""
    options = Options(teachers=20, queries=len(X), mechanism="gnmax", parameters={"sigma2": 3.0})
    plan = make_plan(options, units=400, pool=len(X), classes=answers.shape[1], target="labels")
    taught = answers.reshape(-1)
    learning = Learning(X_public=X, view=view_of(X, "raw"), student=student)
    given = Answers(labels=taught, taught=taught, rounds=(), secure=True)
    return fit_student(learning, plan, given, np.arange(len(X)))


@pytest.mark.slow
@pytest.mark.parametrize("student", ["auto", "logistic", "soft-vote"])
def test_students_learn_each_label_where_it_was_answered(student):
    X, Y = world(120, 3)
    holes = Y.copy()
    holes[::2, 0] = -1
    holes[:, 1] = -1
    chosen = fitted_on(X, np.column_stack([holes, np.ones(120, np.int64)]), student)
    T, right = world(500, 4)
    likely, said = chosen.student.predict_proba(T), chosen.student.predict(T)
    assert ((likely >= 0) & (likely <= 1)).all()
    assert (said[:, [0, 2]] == right[:, [0, 2]]).mean(axis=0).min() > 0.85
    # One that was never answered is never said; one whose answers are alike is always said.
    assert (said[:, 1] == 0).all()
    assert (said[:, 3] == 1).all()
    assert likely[0, 3] == pytest.approx(120.5 / 121)
    assert "a constant for 2 of 4 labels" in chosen.chosen.name
    assert bool(chosen.how) is (student == "auto")


def test_without_any_answer_there_is_no_student():
    with pytest.raises(InvalidInput, match="no query was answered"):
        fitted_on(world(20, 3)[0], np.full((20, 2), -1))


@pytest.fixture(scope="module")
def model():
    (X, Y), (pool, _) = world(3000, 5), world(300, 6)
    return PATEClassifier(mechanism=GNMax(sigma2=3), n_teachers=30, n_queries=60, classes=LABELS, random_state=0).fit(
        X, Y, X_public=pool
    )


def test_in_python(model, tmp_path):
    X, Y = world(1000, 7)
    assert (model.predict(X) == Y).mean() > 0.9
    statement = model.statement_.as_dict()
    assert statement["several_labels"] is True
    assert statement["rounds"][0]["queries"] == 180
    assert "for or against each of the 3 labels of 60 public rows, which makes 180 queries" in " ".join(
        statement["remarks"]
    )
    model.save_release(tmp_path / "release")
    loaded = load_student(tmp_path / "release")
    assert (loaded.predict(X) == model.predict(X)).all()
    np.testing.assert_allclose(loaded.predict_proba(X), model.predict_proba(X), atol=1e-12)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"objective": "balanced"}, "objective must be accuracy if rows have several labels"),
        (
            {"student": "sums"},
            "student must be auto, soft-vote, additive .* if rows have several labels, got 'sums'",
        ),
        ({"student": "moments"}, "student must be auto, soft-vote"),
        ({"smooth": True}, "smooth must be False"),
        ({"guarantee": "gate"}, "guarantee must be worst-case"),
        ({"mechanism": "interactive-gnmax"}, "cannot be used if rows have several labels"),
        ({"queries": 500}, "queries must be at most 400"),
    ],
)
def test_what_does_not_go_together_is_refused(changes, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        make_plan(Options(**{"teachers": 100, **changes}), units=5000, pool=400, classes=3, target="labels")


def test_more_than_16_labels_are_for_records_that_vote():
    with pytest.raises(InvalidInput, match="at most 16 labels for trained teachers, got 17"):
        make_plan(Options(teachers=100), units=5000, pool=400, classes=17, target="labels")
    assert make_plan(Options(), units=5000, pool=400, classes=17, target="labels").per_record
    assert make_plan(Options(parameters={"sigma2": 9.0}), units=5000, pool=400, classes=17, target="labels").per_record


def test_teachers_that_train_together_are_refused():
    X, Y = world(3000, 8)
    model = PATEClassifier(n_teachers=60, teacher="head:ridge", classes=LABELS)
    with pytest.raises(InvalidInput, match="teacher must be a classifier as scikit-learn's"):
        model.fit(X, Y, X_public=world(60, 9)[0])


def test_votes_on_more_queries_than_were_paid_are_refused():
    plan = make_plan(Options(teachers=20, queries=9), units=400, pool=40, classes=3, target="labels")
    with pytest.raises(InvalidInput, match="on the 27 queries that the plan pays for, got 9"):
        ask(plan, Votes([[20, 0]] * 9), log=Log(), rng=np.random.default_rng(0), interim_scores=None)


@pytest.mark.slow
@pytest.mark.parametrize("cells", [False, True])
def test_from_files_resumed_and_audited(tmp_path, cells):
    for name, rows, seed in (("private", 2000, 1), ("public", 200, 2), ("test", 300, 3)):
        X, Y = world(rows, seed)
        frame = pd.DataFrame(X, columns=list("wxyz"))
        if cells and name != "public":
            frame["tags"] = [";".join(np.array(LABELS)[row > 0]) for row in Y]
        elif name != "public":
            frame[list(LABELS)] = Y
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    files = [f"--{name}={tmp_path / name}.csv" for name in ("private", "public", "test")]
    target = ["--target=tags", "--classes=a;b;c"] if cells else ["--target=a,b,c"]
    options = ["--teachers=20", "--mechanism=confident-gnmax(threshold=12, sigma1=4, sigma2=2)", "--queries=20"]
    command = ["train", *files, *target, *options, f"--out={tmp_path / 'run'}"]
    first = CliRunner().invoke(app, command)
    assert first.exit_code == 0, first.output
    measured = json.loads((tmp_path / "run/private/evaluation.json").read_text())
    assert measured["macro_f1"] > 0.6
    labels = pd.read_csv(tmp_path / "run/release/labels.csv")
    assert list(labels.columns) == ["row", *LABELS]
    assert len(labels) == 20
    assert set(np.unique(labels[list(LABELS)].fillna(-1))) <= {-1, 0, 1}
    before = (tmp_path / "run/release/student.onnx").read_bytes()
    assert CliRunner().invoke(app, command).exit_code == 0
    assert (tmp_path / "run/release/student.onnx").read_bytes() == before
    audited = CliRunner().invoke(app, ["audit", "--run", str(tmp_path / "run"), "--samples", "3000"])
    assert audited.exit_code == 0, audited.output
    again = ostrakon.train(
        **{name: tmp_path / f"{name}.csv" for name in ("private", "public")},
        target="tags" if cells else "a,b,c",
        **({"classes": "a;b;c"} if cells else {}),
        teachers=20,
        mechanism="confident-gnmax(threshold=12, sigma1=4, sigma2=2)",
        out=tmp_path / "again",
    )
    assert again.outcome.plan.labels == 3


def test_a_label_that_the_student_gives_to_no_row_is_named():
    X = np.random.default_rng(0).normal(size=(900, 2))
    Y = np.column_stack([X[:, 0] > 0, np.arange(900) % 50 == 0]).astype(int)
    options = {"n_teachers": 15, "teacher": "logistic", "n_queries": 40, "delta": 1e-5, "random_state": 0}
    noise = np.random.default_rng(0)
    model = PATEClassifier(epsilon=8.0, classes=["right", "rare"], noise=noise, **options)
    warning, *_ = model.fit(X[:600], Y[:600], X_public=X[600:]).statement_.remarks
    assert warning == "Warning: the student predicts 'rare' for no public row."
