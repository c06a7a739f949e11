import io
import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from ostrakon.accounting.epsilons import WorstCase
from ostrakon.options.options import Options
from ostrakon.report.release import publish
from ostrakon.report.table import run_table
from ostrakon.run.folder import RunFolder
from ostrakon.run.inputs.private_data import Rows
from ostrakon.run.inputs.task import Task
from ostrakon.run.pipeline import run
from ostrakon.statements.statement import FOR_OPERATOR, epsilon_in_words
from ostrakon.validation import InvalidInput

RECIPE = Options(teachers=30, epsilon=3.0, student="logistic", jobs=1)


def test_a_run_teaches_a_student_within_its_epsilon(task, tmp_path):
    outcome = run(tmp_path / "run", task, RECIPE)
    assert outcome.accuracy > 0.7  # guessing: 0.33; the noise is never the same
    assert outcome.student.predict(task.X_test[:5]).tolist() == [task.classes[k] for k in task.y_test[:5]]
    guarantee = outcome.statement.guarantee
    assert isinstance(guarantee, WorstCase)
    assert guarantee == outcome.plan.bound
    assert guarantee.epsilon <= 3
    assert outcome.statement.private
    answered = (outcome.answers.labels >= 0).sum()
    assert outcome.statement.answered == answered <= outcome.plan.max_answers


@pytest.mark.slow
def test_the_noise_is_not_repeatable_and_all_else_is(task, tmp_path):
    noisy = Options(teachers=30, epsilon=1.5, queries=60, mechanism="gnmax", jobs=1)
    first, second = (run(tmp_path / name, task, noisy) for name in "ab")
    np.testing.assert_array_equal(first.queries, second.queries)
    votes = [np.load(tmp_path / name / "private" / "votes.npy") for name in "ab"]
    np.testing.assert_array_equal(votes[0], votes[1])
    assert (first.answers.labels != second.answers.labels).any()


def test_the_seed_splits_the_data(task):
    splits = [task.private.assignment(30, seed=seed) for seed in (0, 0, 1)]
    np.testing.assert_array_equal(splits[0], splits[1])
    assert (splits[0] != splits[2]).mean() > 0.8


@pytest.mark.slow
def test_an_ordinary_generator_marks_the_run(task, tmp_path):
    first, second = (run(tmp_path / name, task, RECIPE, rng=np.random.default_rng(7)) for name in "ab")
    np.testing.assert_array_equal(first.answers.labels, second.answers.labels)
    assert first.statement.guarantee is None
    assert "ordinary generator" in first.statement.not_private
    # The mark is part of the noise log: a later start with the secure source does not wash it off.
    assert run(tmp_path / "a", task, RECIPE).statement.guarantee is None


@pytest.mark.slow
def test_two_interactive_rounds_share_the_cap_and_the_bound(task, tmp_path):
    options = Options(
        teachers=30, epsilon=6.0, mechanism="interactive-gnmax", queries=80, max_answers=30, student="logistic", jobs=1
    )
    outcome = run(tmp_path / "run", task, options)
    first, second = outcome.statement.rounds
    assert (first.mechanism.name, second.mechanism.name) == ("confident-gnmax", "interactive-gnmax")
    assert first.queries + second.queries == 80
    assert first.answered + second.answered <= 30
    assert second.max_answers == 30 - first.answered
    assert outcome.statement.guarantee == outcome.plan.bound
    # Reinforced labels are the student's own, on refused queries only.
    changed = outcome.answers.taught != outcome.answers.labels
    assert (outcome.answers.labels[changed] == -1).all()
    assert changed.any()


def test_a_mechanism_without_guarantee_runs_and_claims_nothing(task, tmp_path):
    outcome = run(tmp_path / "run", task, Options(teachers=30, mechanism="immutable", jobs=1))
    assert outcome.statement.guarantee is None
    assert "not differentially private" in outcome.statement.not_private
    assert "(1, 0)" in outcome.statement.not_private
    assert "(0, 1)" in outcome.statement.not_private
    assert outcome.accuracy > 0.7  # guessing: 0.33; the noise is never the same


def test_the_local_cost_stays_in_the_private_folder(task, tmp_path):
    outcome = run(tmp_path / "run", task, RECIPE)
    local = json.loads((tmp_path / "run" / "private" / "data_dependent_cost.json").read_text())
    assert 0 < local["epsilon"] < outcome.plan.bound.epsilon
    assert str(local["epsilon"])[:6] not in json.dumps(outcome.statement.as_dict())


@pytest.mark.slow
@pytest.mark.parametrize("also", ["release", "private"])
def test_a_copy_without_its_noise_and_its_release_is_refused(task, tmp_path, also):
    outcome = run(tmp_path / "run", task, RECIPE)
    publish(outcome)
    shutil.rmtree(tmp_path / "run" / "release")
    shutil.rmtree(tmp_path / "run" / "private" / ("noise" if also == "release" else ""))
    with pytest.raises(InvalidInput, match="it was drawn and may have been released: drawing again would cost"):
        run(tmp_path / "run", task, RECIPE)


@pytest.mark.slow
@pytest.mark.parametrize("lost", ["round-1.npy", "scores-2.npy", "round-2.npy"])
def test_a_lost_noise_log_is_not_drawn_again(task, tmp_path, lost):
    noise = {"threshold": 20.0, "sigma1": 15.0, "sigma2": 5.0}
    sizes = {"teachers": 30, "queries": 40, "jobs": 1}
    recipe = Options(mechanism="interactive-gnmax", parameters=dict(noise), student="self-training", **sizes)
    run(tmp_path / "run", task, recipe)
    run(tmp_path / "run", task, recipe)  # all there: nothing is drawn
    (tmp_path / "run" / "private" / "noise" / lost).unlink()
    with pytest.raises(InvalidInput, match=rf"{lost} is gone from the noise log, .* would cost privacy twice"):
        run(tmp_path / "run", task, recipe)
    assert not (tmp_path / "run" / "private" / "noise" / lost).exists()


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"student": "foo"}, "no estimator 'foo'"),
        ({"teacher": "foo"}, "no estimator 'foo'"),
        ({"student": "self-training:svm-rbf"}, "needs a classifier with predict_proba"),
        ({"teacher": "os.getcwd()"}, "must be a class as scikit-learn's classifiers"),
    ],
)
def test_learners_that_cannot_be_made_are_refused_before_anything_is_written(task, tmp_path, wrong, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        run(tmp_path / "run", task, replace(RECIPE, **wrong))
    assert not (tmp_path / "run").exists()


def test_a_changed_plan_that_costs_more_than_was_asked_is_refused(task, tmp_path):
    run(tmp_path / "run", task, RECIPE)
    home = RunFolder(tmp_path / "run")
    held = home.read()
    held["settled"]["parameters"]["sigma2"] = 1.5
    home.write(held)
    with pytest.raises(InvalidInput, match="must keep within epsilon 3 as asked, but what it settles costs"):
        run(tmp_path / "run", task, RECIPE)


@pytest.mark.slow
def test_a_weak_epsilon_is_reported_in_the_table_the_statement_and_the_card(task, tmp_path):
    noisy = Options(jobs=1, teachers=30, mechanism="gnmax", parameters={"sigma2": 1.0}, queries=40)
    outcome = run(tmp_path / "run", task, noisy)
    assert outcome.statement.guarantee.epsilon > 10
    release = publish(outcome)
    warning = outcome.statement.remarks[0]
    assert "is a weak promise" in warning
    assert warning in json.loads((release / "statement.json").read_text())["remarks"]
    said, mark, _ = warning.partition(FOR_OPERATOR)
    card = (release / "model_card.md").read_text()
    assert (mark, said in card, "operator: " in card) == (FOR_OPERATOR, True, False)
    page = Console(width=500, record=True, file=io.StringIO())
    page.print(run_table(outcome, release=release))
    assert warning.removeprefix("Warning: ") in page.export_text()
    # Under which adjacency the epsilon holds, and what it is under the other one.
    own, other = outcome.statement.adjacent
    assert (own.relation, other.relation) == ("add-remove", "replace")
    assert own.epsilon == outcome.statement.guarantee.epsilon < other.epsilon
    assert f"has epsilon {epsilon_in_words(other.epsilon)} at delta" in (release / "model_card.md").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["nonsense", "empty", "reversed", "absent"])
def test_damaged_votes_are_collected_again_and_no_noise_is_spent_on_them(task, tmp_path, how):
    path = tmp_path / "run" / "private" / "votes.npy"
    before, first = run(tmp_path / "run", task, RECIPE), None
    first = path.read_bytes()
    counts = np.load(path)
    counts[0] = counts[0, ::-1]
    if how == "reversed":
        np.save(path, counts)
    elif how == "absent":
        path.unlink()
    else:
        path.write_text("votes" if how == "nonsense" else "")
    after = run(tmp_path / "run", task, RECIPE)
    assert path.read_bytes() == first
    np.testing.assert_array_equal(before.answers.labels, after.answers.labels)


def test_other_settings_are_refused(task, tmp_path):
    run(tmp_path / "run", task, RECIPE)
    with pytest.raises(InvalidInput, match="seed was 0, now 1"):
        run(tmp_path / "run", task, replace(RECIPE, seed=1))


def test_no_answer_at_all_is_one_sentence(task, tmp_path):
    silent = Options(jobs=1, teachers=30, parameters={"threshold": 1e6, "sigma1": 1.0, "sigma2": 5.0}, queries=5)
    with pytest.raises(InvalidInput, match="no query was answered"):
        run(tmp_path / "run", task, silent)


def test_empty_shards_are_refused(task, tmp_path):
    asked = Options(teachers=500, mechanism="gnmax", parameters={"sigma2": 50.0}, queries=10, jobs=1)
    with pytest.raises(InvalidInput, match="would have none of the 600 records; ask for fewer"):
        run(tmp_path / "run", task, asked)


def test_users_stay_together_and_are_what_is_counted(task):
    users = np.arange(600) // 20
    by_user = Rows(X=task.private.X, y=task.private.y, users=users)
    assert (by_user.units, by_user.unit) == (30, "user")
    assert "all the rows of one value" in by_user.adjacencies()[0][1]
    shards = by_user.assignment(5, seed=0)
    assert all(len(np.unique(shards[users == user])) == 1 for user in range(30))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"y": np.zeros(3, np.int64)}, "y must have one label per private row"),
        ({"X": np.empty((0, 2)), "y": np.empty(0, np.int64)}, "private data must have at least one row"),
        ({"users": np.arange(4)}, "users must have one entry per private row"),
        ({"users": "patient"}, "users must have one entry per private row"),
        ({"users": np.zeros(600), "fixed": True}, "cannot protect users"),
    ],
)
def test_rows_that_do_not_fit_are_refused(task, changes, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        Rows(**{"X": task.private.X, "y": task.private.y, **changes})


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"X_public": np.empty((0, 2))}, "public data must have at least one row"),
        ({"classes": ("only",)}, "at least two different labels"),
    ],
)
def test_a_task_that_does_not_fit_is_refused(task, changes, sentence):
    parts = {"private": task.private, "classes": task.classes, "X_public": task.X_public, **changes}
    with pytest.raises(InvalidInput, match=sentence):
        Task(**parts)


def test_one_record_more_changes_one_column_of_votes_only(task, tmp_path):
    """The adjacency the statement speaks of, on the real pipeline: all teachers but one vote as before."""
    from ostrakon.estimators.choices import make_teacher
    from ostrakon.teachers import train_on_shards

    more = Rows(X=np.vstack([task.private.X, [[30.0, 30.0]]]), y=np.append(task.private.y, 0))
    said = []
    for rows in (task.private, more):
        shards = rows.shards(30, classes=len(task.classes), seed=0, transform=lambda X: X)
        teachers = train_on_shards(make_teacher("logistic"), shards, n_jobs=1)
        said.append(teachers.predict(task.X_public))
    assert (said[0] != said[1]).any(axis=0).sum() == 1
