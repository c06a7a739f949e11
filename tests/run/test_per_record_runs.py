"""Runs in which every record, or user, is a teacher of its own."""

import csv
import json
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import ostrakon
from ostrakon.accounting.composition.gaussian_dp import gaussian_dp_epsilon
from ostrakon.accounting.consent import Level
from ostrakon.data.classes import label_indices
from ostrakon.estimators.choices import make_student
from ostrakon.estimators.registry import named_in_words
from ostrakon.export.student_files import load_student
from ostrakon.ledger.ledger import Ledger
from ostrakon.options.options import Options
from ostrakon.planning.choose_mechanism import auto_mechanism
from ostrakon.planning.make_plan import make_plan
from ostrakon.planning.plan import plan_from
from ostrakon.planning.row_kind import RowKind
from ostrakon.report.release import publish
from ostrakon.run.inputs.files import task_from_files
from ostrakon.run.inputs.private_data import PrivateTable, Rows
from ostrakon.run.pipeline import run
from ostrakon.run.stages.votes import moment_map
from ostrakon.students.noisy_counts import NoisyCountStudent
from ostrakon.students.sklearn_student import SklearnStudent
from ostrakon.validation import InvalidInput
from ostrakon.votes import BoundedVotes

NAME = "bounded-gnmax"
RECIPE = Options(mechanism=NAME, epsilon=2.0, jobs=1)


def test_a_run_teaches_a_student_within_its_epsilon(task, tmp_path):
    outcome = run(tmp_path / "run", task, RECIPE)
    assert outcome.accuracy > 0.9
    statement = outcome.statement
    assert 1.99 < statement.guarantee.epsilon <= 2
    noise, of_errors = statement.rounds[0].mechanism.sigma2, statement.rounds[0].mechanism.error_noise
    mu = (2 / noise**2 + 2 / of_errors**2) ** 0.5
    assert statement.guarantee.epsilon == pytest.approx(gaussian_dp_epsilon(mu, 1e-5), rel=1e-6)
    assert statement.teachers == 600
    assert "equally many rows" in statement.adjacency
    content = statement.as_dict()
    assert "1/1024" in content["implementation"]["floating_point"]
    assert "makes the number of records public" in content["tuned"]["number of teachers"]
    # As many queries as have counts of five times their noise, and ten per class if of twice.
    assert len(outcome.queries) == max(int(600 / (5 * noise)), min(30, int(600 / (2 * noise))))
    # The student agrees about as well as the best candidate, and everyone may know by how much.
    assert outcome.agreement[outcome.student_name] > max(outcome.agreement.values()) - 0.1
    assert outcome.agreement["majority"] < 0.6 < 0.8 < outcome.agreement[outcome.student_name]
    student = content["tuned"]["student"]
    assert student.startswith(f"{named_in_words(outcome.student_name)}, ")
    assert " on released answers that the student did not learn from (agreement: " in student
    assert not (tmp_path / "run" / "private" / "teachers").exists()


@pytest.mark.slow
def test_removed_neighbours_are_those_of_the_statement_and_of_the_account(task, tmp_path):
    url = f"sqlite:///{tmp_path / 'budget.db'}"
    asked = replace(RECIPE, neighbours="removed", ledger=url, budget=3.0)
    outcome = run(tmp_path / "run", task, asked)
    content = outcome.statement.as_dict()
    mechanism = outcome.statement.rounds[0].mechanism
    mu = (1 / mechanism.sigma2**2 + 1 / mechanism.error_noise**2) ** 0.5
    assert content["guarantee"]["epsilon"] == pytest.approx(gaussian_dp_epsilon(mu, 1e-5), abs=2e-4)
    assert "lacks one record of the other" in content["adjacency"]
    first, other = content["epsilon_by_adjacency"]
    assert (first["relation"], first["epsilon"]) == ("take-out", content["guarantee"]["epsilon"])
    assert other["relation"] == "replace"
    assert other["epsilon"] == pytest.approx(gaussian_dp_epsilon(2**0.5 * mu, 1e-5), abs=2e-4)
    (account,) = Ledger(url).accounts().values()
    assert (account.relation, round(account.spent, 3)) == ("take-out", 2.0)
    # A run for other neighbours is not added to it.
    with pytest.raises(InvalidInput, match="take-out of one record"):
        run(tmp_path / "other", task, replace(RECIPE, ledger=url, ledger_account=account.name))
    page = publish(outcome) / "model_card.md"
    assert "or another one in its place" not in page.read_text()


@pytest.mark.slow
def test_what_leaves_is_drawn_once_and_on_its_grid(task, tmp_path):
    first = run(tmp_path / "run", task, RECIPE)
    again = run(tmp_path / "run", task, RECIPE)
    np.testing.assert_array_equal(first.answers.counts, again.answers.counts)
    np.testing.assert_array_equal(first.answers.labels, first.answers.counts.argmax(axis=1))
    assert (first.answers.counts * 1024 == np.rint(first.answers.counts * 1024)).all()
    other = run(tmp_path / "other", task, RECIPE)
    votes = [np.load(tmp_path / name / "private" / "votes.npy") for name in ("run", "other")]
    np.testing.assert_array_equal(votes[0], votes[1])
    noise = (first.answers.counts - other.answers.counts).std() / 2**0.5
    assert noise == pytest.approx(first.statement.rounds[0].mechanism.sigma2, rel=0.25)


@pytest.mark.slow
def test_the_release_holds_the_counts_and_a_student_that_loads(task, tmp_path):
    outcome = run(tmp_path / "run", task, RECIPE)
    release = publish(outcome)
    with open(release / "noisy_counts.csv", newline="") as file:
        head, *rows = list(csv.reader(file))
    assert head == ["row", "left", "right", "top"]
    np.testing.assert_array_equal(np.array(rows, float)[:, 0], outcome.queries)
    np.testing.assert_array_equal(np.array(rows, float)[:, 1:], outcome.answers.counts)
    assert "noisy_counts.csv" in (release / "model_card.md").read_text()
    assert json.loads((release / "statement.json").read_text())["guarantee"]["kind"] == "worst-case"
    student = load_student(release)
    np.testing.assert_array_equal(student.predict(task.X_test), outcome.student.predict(task.X_test))


@pytest.mark.slow
def test_the_release_holds_the_sums_of_features(task, tmp_path):
    request = Options(mechanism="moment-gnmax", epsilon=2.0, queries=20, student="moments", jobs=1)
    outcome = run(tmp_path / "run", task, request)
    release = publish(outcome)
    head, *rows = csv.reader((release / "noisy_moments.csv").read_text().splitlines())
    assert head == ["direction", "left", "right", "top"]
    table = np.array(rows, float)
    np.testing.assert_array_equal(table[:, 0], np.arange(len(outcome.answers.moments)))
    np.testing.assert_array_equal(table[:, 1:], outcome.answers.moments)
    # Steps of 1/1024, as drawn once; what the records add to one class they take from all.
    assert (table[:, 1:] * 1024 == np.rint(table[:, 1:] * 1024)).all()
    noise = 3**0.5 * outcome.plan.mechanism.moment_noise
    assert np.abs(table[:, 1:].sum(axis=1)).max() < 5 * noise
    assert "noisy_moments.csv" in json.loads((release / "manifest.json").read_text())["files"]
    card = (release / "model_card.md").read_text()
    assert "`noisy_moments.csv`" in card
    assert "covers votes and sums together" in card
    plain = publish(run(tmp_path / "plain", task, replace(RECIPE, queries=20, student="logistic")))
    assert not (plain / "noisy_moments.csv").exists()
    assert "noisy_moments" not in (plain / "model_card.md").read_text()


def test_a_run_pays_less_for_centred_sums_of_removed_records_and_a_plan_of_before_pays_what_it_did(task, tmp_path):
    parameters = {"errors": 0, "corrections": 0}
    request = Options(
        mechanism="moment-gnmax", epsilon=2.0, queries=20, neighbours="removed", jobs=1, parameters=parameters
    )
    outcome = run(tmp_path / "run", task, request)
    mechanism, content = outcome.plan.mechanism, outcome.statement.as_dict()
    assert content["rounds"][0]["parameters"]["centred_classes"] == mechanism.centred_classes == 3
    mu = (1 / mechanism.sigma2**2 + 2 / 3 / mechanism.moment_noise**2) ** 0.5
    assert content["guarantee"]["epsilon"] == pytest.approx(gaussian_dp_epsilon(mu, 1e-5), abs=2e-4)
    assert content["guarantee"]["epsilon"] > 1.99
    # A folder whose plan has no number of classes, of the same noise: its sums are centred and cost as much as before.
    stored = outcome.plan.as_dict()
    del stored["parameters"]["centred_classes"]
    old = plan_from(stored, classes=3)
    sums = moment_map(old, SimpleNamespace(public=task.X_public, embedded=False), np.arange(20))
    assert sums.classes == 3
    mu = (1 / mechanism.sigma2**2 + 1 / mechanism.moment_noise**2) ** 0.5
    assert old.bound.epsilon == pytest.approx(gaussian_dp_epsilon(mu, 1e-5), rel=1e-6)
    # A plan that says what its sums are not is refused before a record is read.
    for wrong in (
        replace(outcome.plan, mechanism=replace(mechanism, centred_classes=2)),
        replace(outcome.plan, levels=(Level(name="1", weight=512),)),
    ):
        with pytest.raises(InvalidInput, match="must be centred over all classes"):
            moment_map(wrong, SimpleNamespace(public=task.X_public, embedded=False), np.arange(20))


def test_another_student_learns_from_the_labels(task, tmp_path):
    outcome = run(tmp_path / "run", task, replace(RECIPE, student="naive-bayes"))
    assert outcome.accuracy > 0.7


@pytest.mark.slow
def test_users_vote_within_max_contributions(task, tmp_path):
    users = np.arange(600) // 4
    by_user = replace(task, private=Rows(X=task.private.X, y=task.private.y, users=users))
    request = Options(
        jobs=1, mechanism=NAME, parameters={"max_contributions": 3, "sigma2": 1.0}, queries=40, delta=1e-4
    )
    outcome = run(tmp_path / "run", by_user, request)
    assert outcome.statement.teachers == 150
    assert outcome.statement.unit == "user"
    assert outcome.statement.guarantee.epsilon == pytest.approx(gaussian_dp_epsilon(6**0.5, 1e-4), rel=1e-6)
    cast = np.load(tmp_path / "run" / "private" / "votes.npy").sum()
    assert 150 < cast <= 450


@pytest.mark.slow
@pytest.mark.parametrize("by", [None, "user"])
def test_a_table_on_disk_says_what_it_says_in_memory(tmp_path, by, monkeypatch):
    monkeypatch.setattr("ostrakon.run.inputs.private_data._ROWS_AT_A_TIME", 100)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(18, 90, 700), "city": rng.choice(["Ulm", "Rom"], 700)})
    frame["user"] = rng.permutation(700) % 90
    frame["ill"] = np.where(frame["age"] > 50, "yes", "no")
    frame[:500].to_parquet(tmp_path / "private.parquet")
    frame[500:].drop(columns="ill").to_csv(tmp_path / "public.csv", index=False)
    disk = task_from_files(
        tmp_path / "private.parquet", tmp_path / "public.csv", target="ill", by=by, classes="from-private"
    )
    assert isinstance(disk.private, PrivateTable)
    tables = disk.private.tables
    rows = Rows(
        X=tables.columns.apply(tables.private.read()),
        y=label_indices(tables.private.labels("ill"), tables.classes),
        users=None if by is None else frame["user"][:500].to_numpy(),
    )
    request = Options(jobs=1, mechanism=NAME, queries=30, parameters={"sigma2": 1.0, "max_contributions": 2})
    found = []
    for name, task in (("disk", disk), ("memory", replace(disk, private=rows))):
        outcome = run(tmp_path / name, task, request)
        found.append(np.load(tmp_path / name / "private" / "votes.npy"))
        assert outcome.statement.teachers == (500 if by is None else 90)
        assert ("equally many values of 'user'" if by else "equally many rows") in outcome.statement.adjacency
    np.testing.assert_array_equal(found[0], found[1])
    shards = tmp_path / "disk" / "private" / "shards"
    if by is None:
        assert not shards.exists(), "records are read as they stand in the table: there is no copy of it"
    else:
        assert len(list(shards.iterdir())) > 3


@pytest.mark.slow
def test_one_odd_record_changes_its_own_vote_alone(tmp_path):
    # A cell finer than microseconds, and a missing one among integers beyond 2**53, once changed hundreds of others.
    rng = np.random.default_rng(0)
    n = 400
    frame = pd.DataFrame({"age": rng.integers(18, 90, n), "code": 2**53 + 1 + 2 * rng.integers(0, 4, n)})
    frame["until"] = np.where(rng.random(n) < 0.3, "9999-12-31", "2020-01-01T10:00:00")
    frame["ill"] = np.where(frame["until"].str.startswith("9"), "yes", "no")
    # Words, most of which are numbers: as words the private numbers are read, too.
    words = [f"k{place % 4}" if place % 5 < 2 else str(2**53 + 1 + 2 * (place % 4)) for place in range(100)]
    public = frame[300:].assign(code=words)
    public.drop(columns="ill").to_parquet(tmp_path / "public.parquet")
    odd = frame[:300].astype({"code": "Int64"})
    odd.loc[7, ["code", "until"]] = [None, "2020-01-01T10:00:00.123456789"]
    odd.loc[7, "ill"] = "no" if odd.loc[7, "ill"] == "yes" else "yes"
    request = Options(jobs=1, mechanism=NAME, queries=30, parameters={"sigma2": 1.0})
    found = []
    for name, private in (("one", frame[:300]), ("other", odd)):
        private.to_parquet(tmp_path / f"{name}.parquet")
        task = task_from_files(
            tmp_path / f"{name}.parquet", tmp_path / "public.parquet", target="ill", classes="from-private"
        )
        run(tmp_path / name, task, request)
        found.append(np.load(tmp_path / name / "private" / "votes.npy"))
    assert 0 < np.linalg.norm(found[0] - found[1]) <= np.sqrt(2)


def test_one_user_however_written_speaks_once(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(18, 90, 300), "user": [f"{k}" for k in range(300)]})
    frame["ill"] = np.where(frame["age"] > 50, "yes", "no")
    frame.loc[[5, 6, 7], "user"] = ["0009", "9.0", " 9"]  # with row 9: four rows of one user
    frame[:250].to_csv(tmp_path / "private.csv", index=False)
    frame[250:].drop(columns=["ill", "user"]).to_csv(tmp_path / "public.csv", index=False)
    task = task_from_files(
        tmp_path / "private.csv", tmp_path / "public.csv", target="ill", by="user", classes="from-private"
    )
    outcome = run(tmp_path / "run", task, replace(RECIPE, queries=20))
    assert outcome.statement.teachers == 247
    assert np.load(tmp_path / "run" / "private" / "votes.npy").sum() == 247


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"teachers": 30}, "teachers"),
        ({"max_answers": 30}, "max_answers"),
        ({"guarantee": "gate"}, "guarantee"),
        ({"queries": 121}, "queries"),
        ({"parameters": {"sigma1": 3.0}}, "sigma1 is not a parameter"),
        ({"parameters": {"max_contributions": 0}}, "max_contributions must be"),
        ({"epsilon": -1}, "epsilon"),
        ({"epsilon": 0.008}, "queries must be few enough for their votes to exceed the noise"),
    ],
)
def test_what_cannot_be_chosen_is_refused(changes, name):
    with pytest.raises(InvalidInput, match=name):
        make_plan(replace(RECIPE, **changes), units=600, pool=120, classes=3)


def test_other_teachers_and_smoothing_are_refused_before_anything_is_written(task, tmp_path):
    for options in ({"teacher": "logistic"}, {"smooth": True}):
        with pytest.raises(InvalidInput, match=f"{next(iter(options))} cannot be chosen"):
            run(tmp_path / "run", task, replace(RECIPE, **options))
        assert not (tmp_path / "run" / "run.toml").exists()


def test_a_plan_survives_the_disk():
    plan = make_plan(RECIPE, units=600, pool=120, classes=3)
    assert plan_from(plan.as_dict(), classes=3) == plan
    given = replace(RECIPE, epsilon=None, parameters={"max_contributions": 2})
    assert make_plan(given, units=600, pool=120, classes=3).bound.epsilon == pytest.approx(2, rel=1e-2)


@pytest.mark.slow
def test_the_estimator_takes_per_record_teachers_too(task):
    model = ostrakon.PATEClassifier(classes="from-private", mechanism=NAME, epsilon=2.0, random_state=0)
    model.fit(task.private.X, task.private.y, X_public=task.X_public)
    assert model.score(task.X_test, task.y_test) > 0.9
    assert model.statement_.guarantee.epsilon <= 2
    assert isinstance(model.votes_, BoundedVotes)
    assert model.teachers_ is None
    assert model.counts_.shape == (len(model.queries_), 3)
    with pytest.raises(InvalidInput, match="teachers cannot be chosen"):
        model.set_params(n_teachers=30).fit(task.private.X, task.private.y, X_public=task.X_public)


@pytest.mark.parametrize(
    ("options", "chosen"),
    [
        (Options(), "moment-gnmax"),
        (Options(epsilon=0.1, queries=40, parameters={"max_contributions": 2}), "moment-gnmax"),
        (Options(parameters={"moments": 0.7}), "moment-gnmax"),
        (Options(student="moments:extra-trees"), "moment-gnmax"),
        # A student that has no use for sums of features gets all of the budget in counts.
        (Options(student="logistic"), NAME),
        (Options(student="graph", parameters={"max_contributions": 2}), NAME),
        (Options(teachers=250), "confident-gnmax"),
        (Options(max_answers=3), "confident-gnmax"),
        (Options(guarantee="gate"), "confident-gnmax"),
        (Options(parameters={"sigma2": 40.0}), "confident-gnmax"),
        (Options(teacher="naive-bayes"), "confident-gnmax"),
        (Options(smooth=True), "confident-gnmax"),
    ],
)
def test_every_record_is_a_teacher_unless_something_is_asked_of_trained_ones(options, chosen):
    assert auto_mechanism(options) == chosen
    assert auto_mechanism(options, kind=RowKind(images=True)) == (
        NAME if chosen == "moment-gnmax" and options.student == "auto" else chosen
    )


def test_a_student_of_moments_needs_the_mechanism_that_releases_them():
    asked = Options(student="moments", mechanism=NAME, epsilon=1.0)
    with pytest.raises(InvalidInput, match="learns from what bounded-gnmax releases, got 'moments'"):
        make_plan(asked, units=600, pool=200, classes=2)


@pytest.mark.slow
@pytest.mark.parametrize(("options", "chosen"), [({}, "moment-gnmax"), ({"teacher": "naive-bayes"}, "confident-gnmax")])
def test_what_is_left_open_is_planned_by_that_rule(options, chosen):
    plan = make_plan(Options(epsilon=3.0, **options), units=2_000, pool=60, classes=3)
    assert plan.mechanism.name == chosen


@pytest.mark.slow
def test_what_is_asked_by_name_is_what_runs():
    plan = make_plan(Options(mechanism="gnmax", epsilon=3.0), units=60_000, pool=2000, classes=3)
    assert plan.mechanism.name == "gnmax"


@pytest.mark.parametrize("classes", [2, 8, 26, 150])
@pytest.mark.parametrize("units", [401, 1000, 30_000])
@pytest.mark.parametrize("pool", [3, 100, 20_000])
def test_the_default_is_never_refused_at_epsilon_one_above_400_records(classes, units, pool):
    plan = make_plan(Options(epsilon=1.0), units=units, pool=pool, classes=classes)
    assert plan.mechanism.name == ("moment-gnmax" if classes <= 20 else NAME)
    assert 0.99 < plan.bound.epsilon <= 1
    assert 2 <= plan.queries <= pool
    assert units >= 2 * plan.mechanism.sigma2 * plan.queries


def test_eight_classes_of_200_records_answer_at_epsilon_two():
    plan = make_plan(Options(epsilon=2.0), units=200, pool=67, classes=8)
    assert plan.queries == int(200 / (2 * plan.mechanism.sigma2)) > 20


def test_a_refusal_names_what_would_do():
    asked = Options(mechanism=NAME, epsilon=0.5, queries=300, delta=1e-5)
    with pytest.raises(InvalidInput, match="nearest reachable settings") as refused:
        make_plan(asked, units=1000, pool=500, classes=2)
    said = re.search(r"an epsilon of ([\d.]+), (\d+) queries at this one or (\d+) records\.$", str(refused.value))
    epsilon, queries, units = float(said[1]), int(said[2]), int(said[3])
    assert make_plan(replace(asked, epsilon=epsilon), units=1000, pool=500, classes=2).queries == 300
    assert make_plan(replace(asked, queries=queries), units=1000, pool=500, classes=2).queries == queries
    assert make_plan(asked, units=units, pool=500, classes=2).queries == 300
    for less in (replace(asked, epsilon=0.99 * epsilon), replace(asked, queries=queries + 1)):
        with pytest.raises(InvalidInput):
            make_plan(less, units=1000, pool=500, classes=2)
    with pytest.raises(InvalidInput):
        make_plan(asked, units=units - 1, pool=500, classes=2)


@pytest.mark.parametrize(
    "kind", [RowKind(), RowKind(embedded=True), RowKind(images=True)], ids=["table", "embedded", "images"]
)
def test_a_refusal_of_trained_teachers_names_what_answers_without_them(kind):
    sizes = {"units": 600, "pool": 200, "classes": 2, "kind": kind}
    plan = make_plan(Options(epsilon=1.0), **sizes)
    assert plan.mechanism.name == ("bounded-gnmax" if kind.images else "moment-gnmax")
    instead = rf"Without trained teachers, {plan.mechanism.name} asks {plan.queries} queries within epsilon "
    with pytest.raises(InvalidInput, match=instead):
        make_plan(Options(teachers=5, epsilon=1.0), **sizes)


def test_a_named_estimator_learns_from_counts_where_it_can():
    assert isinstance(make_student("naive-bayes", counts=True), NoisyCountStudent)
    assert isinstance(make_student("nearest-neighbours", counts=True), SklearnStudent)
    assert isinstance(make_student("naive-bayes"), SklearnStudent)


@pytest.mark.parametrize(("epsilon", "queries"), [(0.001, None), (0.003, None), (0.01, 300), (0.01, 8)])
def test_the_settings_that_a_refusal_names_are_not_refused(epsilon, queries):
    asked = Options(epsilon=epsilon, queries=queries, delta=1e-5)
    sizes = {"pool": 3000, "classes": 3}
    with pytest.raises(InvalidInput, match="nearest reachable settings") as refused:
        make_plan(asked, units=1500, **sizes)
    named = re.search(r"an epsilon of ([\d.]+)(?:, (\d+) queries at this one)? or (\d+) records", str(refused.value))
    assert named is not None
    larger, fewer, more = named.groups()
    make_plan(replace(asked, epsilon=float(larger)), units=1500, **sizes)
    if int(more) < 1 / 1e-5:  # beyond that this delta is none
        make_plan(asked, units=int(more), **sizes)
    if fewer is not None:
        make_plan(replace(asked, queries=int(fewer)), units=1500, **sizes)


@pytest.mark.slow
def test_a_run_with_moments_costs_both_tables_and_goes_on_with_the_same_draws(task, tmp_path):
    recipe = replace(RECIPE, mechanism="moment-gnmax", parameters={"moments": 0.4})
    first = run(tmp_path / "run", task, recipe)
    mechanism = first.statement.rounds[0].mechanism
    mu = (2 / mechanism.sigma2**2 + 2 / mechanism.moment_noise**2 + 2 / mechanism.error_noise**2) ** 0.5
    assert first.statement.guarantee.epsilon == pytest.approx(gaussian_dp_epsilon(mu, 1e-5), rel=1e-6)
    assert 1.99 < first.statement.guarantee.epsilon <= 2
    assert first.accuracy > 0.9
    assert first.student_name == "gaussian-process:extra-trees"
    kept = np.load(tmp_path / "run" / "private" / "votes.npy")
    directions = len(kept) - len(first.queries)
    assert first.answers.moments.shape == (directions, 3)
    assert np.abs(kept[len(first.queries) :].sum(axis=1)).max() <= 600 * 3 / 2
    (tmp_path / "run" / "private" / "votes.npy").unlink()
    again = run(tmp_path / "run", task, recipe)
    np.testing.assert_array_equal(again.answers.moments, first.answers.moments)
    np.testing.assert_array_equal(again.answers.counts, first.answers.counts)
    release = publish(again)
    assert "noisy sums of the private rows' features" in (release / "model_card.md").read_text()
    told = json.loads((release / "statement.json").read_text())["remarks"]
    noise = f"standard deviation {mechanism.moment_noise:.4g} votes"
    assert any(f"to the {directions} sums of its class" in remark and noise in remark for remark in told)
    loaded = load_student(release)
    assert (loaded.predict(task.X_public) == again.student.predict(task.X_public)).all()
    (tmp_path / "run" / "private" / "noise" / "moments-1.npy").unlink()
    with pytest.raises(InvalidInput, match=r"moments-1.npy is gone from the noise log"):
        run(tmp_path / "run", task, recipe)
