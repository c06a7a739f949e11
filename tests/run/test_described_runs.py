"""Runs without public rows: one price for all counts, one draw of each, and what a release says of them."""

import datetime
import json
import math
import os
import shutil
import signal
import subprocess

import jsonschema
import numpy as np
import pandas as pd
import pytest

from commands import ostrakon
from ostrakon import Domain, PATEClassifier
from ostrakon.accounting.composition.gaussian_dp import gaussian_dp_epsilon
from ostrakon.export.student_files import load_student
from ostrakon.ledger.ledger import Ledger
from ostrakon.mechanisms import BoundedGNMax, MomentGNMax
from ostrakon.options.files import Files
from ostrakon.options.options import Options
from ostrakon.report.charts import budget_shares
from ostrakon.report.release import publish
from ostrakon.report.table import run_table
from ostrakon.run.inputs.files import task_from_files
from ostrakon.run.pipeline import run
from ostrakon.run.stages import answers, votes
from ostrakon.run.steps import plan_of
from ostrakon.run_audit.audit_run import audit_run
from ostrakon.schemas import schema
from ostrakon.validation import InvalidInput

COLUMNS = {"age": {"low": 18, "high": 90}, "city": {"categories": ["Ulm", "Bonn", "Rom"]}}
DOMAIN = Domain.of(COLUMNS)
TOML = """[columns.age]
low = 18
high = 90
[columns.city]
categories = ["Ulm", "Bonn", "Rom"]
"""
RECIPE = Options(epsilon=2.0, delta=1e-5, jobs=1)
PRIVATE = "Zwiebelstadt"


def people(n=600, seed=0):
    rng = np.random.default_rng(seed)
    age, city = rng.integers(18, 60, n).astype(float), rng.choice(["Ulm", "Bonn", PRIVATE], n, p=[0.6, 0.3, 0.1])
    ill = age / 60 + (city == "Ulm") + rng.normal(size=n) / 4 > 1.1
    return pd.DataFrame({"age": age, "city": city, "user": np.arange(n) % 200, "ill": np.where(ill, "yes", "no")})


@pytest.fixture
def files(tmp_path):
    frame = people()
    frame.iloc[:500].to_csv(tmp_path / "private.csv", index=False)
    frame.iloc[500:].to_csv(tmp_path / "test.csv", index=False)
    (tmp_path / "columns.toml").write_text(TOML)
    return tmp_path


def task_of(files, **options):
    return task_from_files(
        files / "private.csv", columns=files / "columns.toml", target="ill", classes=["no", "yes"], **options
    )


def done(files, name, recipe=RECIPE, **options):
    return run(files / name, task_of(files, **options), recipe)


def test_one_epsilon_composes_counts_and_pairs(files):
    plan = plan_of(task_of(files), RECIPE)
    mechanism = plan.mechanism
    assert isinstance(mechanism, MomentGNMax)
    assert mechanism.max_contributions == 2
    assert plan.queries == sum(DOMAIN.sizes) == 21
    counts, pairs, errors = 2 * 2 / mechanism.sigma2**2, 2 / mechanism.moment_noise**2, 2 / mechanism.error_noise**2
    total = counts + pairs + errors
    assert (pairs / total, errors / total) == pytest.approx((0.3, 0.05), rel=1e-9)
    epsilon = gaussian_dp_epsilon(math.sqrt(total), 1e-5)
    assert plan.bound.epsilon == pytest.approx(epsilon, rel=1e-8)
    assert 0.98 * 2.0 < plan.bound.epsilon <= 2.0


def test_one_column_has_no_pairs(files):
    (files / "columns.toml").write_text("[columns.age]\nlow = 18\nhigh = 90\n")
    outcome = done(files, "run")
    assert isinstance(outcome.plan.mechanism, BoundedGNMax)
    assert outcome.answers.moments is None
    assert outcome.statement.public_rows == {"source": "none", "columns": 1, "cells": 17, "pairs": 0}


def test_a_class_that_is_never_predicted_is_looked_for_in_example_rows():
    frame = people(3000)
    rare = np.where(np.arange(len(frame)) % 20 == 0, "yes", "no")
    model = PATEClassifier(epsilon=2.0, classes=["no", "yes"], random_state=0, noise=np.random.default_rng(0))
    warning, *_ = model.fit(frame[["age", "city"]], rare, X_public=DOMAIN).statement_.remarks
    assert warning.startswith(
        "Warning: the student predicts one class alone, 'no', for every example row of the described columns, although "
        "the released counts show about "
    )
    assert "public row" not in warning


def test_a_release_says_what_was_counted_and_its_student_loads(files):
    outcome = done(files, "run", test=files / "test.csv")
    assert outcome.accuracy > 0.7
    release = publish(outcome)
    said = json.loads((release / "statement.json").read_text())
    jsonschema.validate(said, schema("statement"))
    assert said["public_rows"] == {"source": "none", "columns": 2, "cells": 21, "pairs": 1}
    assert (
        said["tuned"]["student"]
        == "an additive model of single columns (additive), the student of runs without public rows"
    )
    card = (release / "model_card.md").read_text()
    assert "There were no public rows." in card
    assert "21 cells counted" in card
    assert "answered" not in card
    assert "of 2 columns the number of records by cell and class" in card
    assert "and of 1 pair of columns the number of records in each cell" in card
    assert "noisy counts of the private rows by column, without public rows" in card.split("## Privacy")[0]
    assert "people in the public file" not in card, "there is no public file"
    rows = dict(zip(*(column.cells for column in run_table(outcome, release=release).columns), strict=True))
    assert rows["Cells counted"] == "21"
    assert "Answers" not in rows
    right = pd.read_csv(release / "noisy_errors.csv")
    assert (list(right.columns), list(right["class"])) == (["class", "right", "wrong"], ["no", "yes"])
    student, _, *recalls = outcome.statement.estimates
    assert student.low < outcome.accuracy < student.high
    assert len(recalls) == 3
    counts = pd.read_csv(release / "noisy_counts.csv")
    assert list(counts.columns) == ["cell", "no", "yes"]
    assert tuple(counts["cell"]) == DOMAIN.cell_names()
    np.testing.assert_array_equal(counts[["no", "yes"]], outcome.answers.counts)
    shares = {what: share for what, share, _ in budget_shares(outcome)}
    assert shares == pytest.approx(
        {"counts of pairs of columns": 0.3, "counts of errors": 0.05, "counts of cells": 0.65}
    )
    everything = b"".join(file.read_bytes() for file in release.rglob("*") if file.is_file())
    assert PRIVATE.encode() not in everything, "a word that is in no public list"
    rows = pd.DataFrame(
        {
            "age": [30.0, 17.9, 18.0, 22.5, 90.0, 1e9, -1e9, np.nan, np.inf, 89.999],
            "city": ["Ulm", "Bonn", "Rom", PRIVATE, None, "Ulm", "ulm", "Bonn", "Rom", ""],
        }
    )
    loaded = load_student(release)
    np.testing.assert_allclose(loaded.predict_proba(rows), outcome.student.predict_proba(rows), atol=1e-12)
    assert list(loaded.predict(rows)) == list(outcome.student.predict(rows))


def test_noise_is_drawn_once_though_the_process_is_killed(files, monkeypatch):
    task, folder = task_of(files), files / "run"
    child = os.fork()
    if child == 0:
        # The student is fitted when all counts are on the disk, and not before.
        monkeypatch.setattr("ostrakon.run.steps.fit_student", lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))
        try:
            run(folder, task, RECIPE)
        finally:
            os._exit(1)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    drawn = [folder / "private" / "noise" / f"{name}.npy" for name in ("round-1", "moments-1")]
    before = [(file.stat().st_ino, file.read_bytes()) for file in drawn]
    first, again = run(folder, task, RECIPE), run(folder, task_of(files), RECIPE)
    assert [(file.stat().st_ino, file.read_bytes()) for file in drawn] == before
    np.testing.assert_array_equal(first.answers.counts, again.answers.counts)
    np.testing.assert_array_equal(first.answers.moments, again.answers.moments)
    assert first.student.student.coef_.tobytes() == again.student.student.coef_.tobytes()
    # Another run draws for itself: the noise is not seeded.
    assert not np.array_equal(done(files, "other").answers.counts, first.answers.counts)
    drawn[1].unlink()
    with pytest.raises(InvalidInput, match="gone from the noise log"):
        done(files, "run")


def test_other_columns_are_another_run(files):
    done(files, "run")
    (files / "columns.toml").write_text(TOML.replace("90", "91"))
    with pytest.raises(InvalidInput):
        done(files, "run")


def test_the_ledger_is_charged_before_anything_is_drawn(files, monkeypatch):
    ledger = f"sqlite:///{files / 'budget.db'}"
    recipe = Options(**{**vars(RECIPE), "ledger": ledger, "budget": 3.0})

    def stopped(*args, **options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(answers, "_release_noisy_counts", stopped)
        with pytest.raises(KeyboardInterrupt):
            done(files, "run", recipe)
    (account,) = Ledger(ledger).accounts().values()
    (cost,) = account.costs
    assert cost.mu == pytest.approx(plan_of(task_of(files), recipe).mechanism.run_cost(queries=21).mu, rel=1e-9)
    shutil.copytree(files / "run", files / "copy")
    done(files, "run", recipe)
    (account,) = Ledger(ledger).accounts().values()
    assert len(account.costs) == 1, "reserved once, though it was stopped"
    with pytest.raises(InvalidInput, match="has drawn its noise already, in another copy of its folder"):
        done(files, "copy", recipe)


def test_users_are_protected_as_a_whole(files):
    outcome = done(files, "run", by="user")
    assert outcome.statement.unit == "user"
    assert outcome.plan.teachers == 200
    assert "of 2 columns the number of users by cell and class" in outcome.statement.remarks[0]


def test_a_description_that_misses_its_column_is_told_of_from_noisy_counts_alone(files):
    (files / "columns.toml").write_text(TOML.replace('"Ulm", "Bonn", "Rom"', '"ulm", "bonn"'))
    said = done(files, "run").statement.remarks
    assert any("Most values of the column 'city' are missing or other than described" in each for each in said)
    assert not any("'age'" in each for each in said)


def test_python_needs_no_public_rows_either():
    frame = people()
    X, y = frame[["age", "city"]], frame["ill"]
    made = {"classes": "from-private", "epsilon": 2.0, "random_state": 0}
    model = PATEClassifier(**made).fit(X, y, X_public=DOMAIN)
    assert model.statement_.guarantee.epsilon <= 2
    assert model.student_name_ == "additive"
    assert model.score(X, y) > 0.7
    seeded = [
        PATEClassifier(**made, noise=np.random.default_rng(seed)).fit(X, y, X_public=DOMAIN) for seed in (1, 1, 2)
    ]
    coefs = [each.released_.student.coef_ for each in seeded]
    np.testing.assert_array_equal(coefs[0], coefs[1])
    assert not np.array_equal(coefs[0], coefs[2])
    assert seeded[0].statement_.guarantee is None, "noise that can be undone has no guarantee"
    with pytest.raises(InvalidInput, match="X must be a frame with exactly the described columns, age, city; got"):
        PATEClassifier(classes="from-private").fit(frame[["age", "user"]], y, X_public=DOMAIN)
    with pytest.raises(InvalidInput, match="X must be a frame with exactly the described columns"):
        PATEClassifier(classes="from-private").fit(np.zeros((600, 2)), y, X_public=DOMAIN)


@pytest.mark.parametrize("cell", [None, pd.Timestamp("2023-05-05"), "unknown"])
def test_one_cell_moves_its_own_record_alone_in_memory_too(monkeypatch, cell):
    counted = []
    collect = votes.collect_cells

    def kept(*args, **options):
        counted.append(collect(*args, **options))
        return counted[-1]

    monkeypatch.setattr(votes, "collect_cells", kept)
    frame, days = people(), pd.Timestamp("2019-01-01") + pd.to_timedelta(np.arange(600) * 2, unit="D")
    low, high = datetime.date(2018, 1, 1), datetime.date(2024, 1, 1)
    domain = Domain.of({"day": {"low": low, "high": high}, "city": {"categories": ["Ulm", "Bonn"]}})
    for day in (pd.Series(days), pd.Series([cell, *days[1:]])):
        X = pd.DataFrame({"day": day, "city": frame["city"]})
        made = PATEClassifier(classes="from-private", epsilon=2.0, random_state=0, noise=np.random.default_rng(1))
        if cell == "unknown" and day.dtype == object:
            with pytest.raises(InvalidInput, match=r"'day' of X must be datetime64, .*as it is described; got object"):
                made.fit(X, frame["ill"], X_public=domain)
            return
        made.fit(X, frame["ill"], X_public=domain)
        assert made.predict(X).shape == (600,)
    moved = counted[0].counts - counted[1].counts
    assert 0 < np.square(moved).sum() <= 2, "one column's cell"
    pairs = counted[0].moments.counts - counted[1].moments.counts
    assert 0 < np.square(pairs).sum() <= 2 * 1024**2


def test_an_infinity_in_memory_is_missing():
    frame = people()
    X = frame[["age", "city"]].assign(age=frame["age"].where(np.arange(600) > 0, np.inf))
    made = PATEClassifier(classes="from-private", epsilon=2.0, random_state=0).fit(X, frame["ill"], X_public=DOMAIN)
    assert made.statement_.guarantee.epsilon <= 2


def test_a_parquet_file_of_other_types_than_described_is_refused(files):
    frame = pd.read_csv(files / "private.csv")
    frame.assign(city=np.arange(len(frame))).to_parquet(files / "private.parquet")
    with pytest.raises(InvalidInput, match=r"'city' of .*private.parquet must hold text, as it is described; got"):
        task_from_files(files / "private.parquet", columns=files / "columns.toml", target="ill", classes=["no", "yes"])


@pytest.mark.parametrize(
    "asked",
    [
        {"teachers": 5},
        {"mechanism": "gnmax"},
        {"guarantee": "gate"},
        {"max_answers": 3},
        {"smooth": True},
        {"parameters": {"sigma1": 3.0}},
        {"parameters": {"max_contributions": 1}},
        {"queries": 20},
        {"student": "logistic"},
        {"representation": "pca"},
        {"query_strategy": "random"},
    ],
)
def test_options_of_public_rows_and_of_trained_teachers_are_refused(files, asked):
    with pytest.raises(InvalidInput, match=r"cannot be chosen|is not a parameter|max_contributions must be 2"):
        plan_of(task_of(files), Options(**asked))


def test_an_engine_has_no_work(files):
    with pytest.raises(InvalidInput, match="engine cannot be used if columns are described"):
        run(files / "run", task_of(files), RECIPE, engine="dask:127.0.0.1:1")
    assert not (files / "run" / "private" / "plan.json").exists()


def test_too_few_records_are_refused_with_what_would_do(files):
    refused = r"500 records vote on 2 of 2 queries, under noise .* an epsilon of (\S+) or \d+ records"
    with pytest.raises(InvalidInput, match=refused) as raised:
        plan_of(task_of(files), Options(epsilon=0.001, delta=1e-5))
    enough = float(str(raised.value).partition("an epsilon of ")[2].split()[0])
    assert plan_of(task_of(files), Options(epsilon=enough, delta=1e-5)).bound.epsilon <= enough


def test_what_cannot_be_described_is_refused(files, tmp_path):
    with pytest.raises(InvalidInput, match="columns cannot be given with public: a description"):
        Files(private="a.csv", public="b.csv", columns="c.toml")
    with pytest.raises(InvalidInput, match="columns cannot be described if only labels are protected"):
        Files(private="a.csv", protect="labels", columns="c.toml")
    with pytest.raises(InvalidInput, match="or, for a table, --columns FILE"):
        Files(private="a.csv")
    with pytest.raises(InvalidInput, match="images and free text need public rows"):
        task_from_files(
            files / "private.csv", columns=files / "columns.toml", target="ill", text=True, classes="from-private"
        )
    (files / "columns.toml").write_text(TOML + "[columns.income]\nlow = 0\nhigh = 1\n")
    with pytest.raises(InvalidInput, match=r"must have every column that is described.*'income' is missing"):
        task_of(files)
    (files / "columns.toml").write_text(TOML + '[columns.ill]\ncategories = ["yes", "no"]\n')
    with pytest.raises(InvalidInput, match="must be no features, and two columns, got 'ill' twice"):
        task_of(files)
    (files / "columns.toml").write_text(TOML)
    with pytest.raises(InvalidInput, match="A run can be audited by canaries if public rows are given"):
        audit_run(tmp_path / "audit", task_of(files), RECIPE, rng=np.random.default_rng(0))


def test_a_table_without_a_header_needs_names(files):
    people(200).to_csv(files / "private.csv", index=False, header=False)
    with pytest.raises(InvalidInput, match="must have every column that is described"):
        task_of(files)
    assert task_of(files, names="age,city,user,ill").private.units == 200


@pytest.mark.slow
def test_the_command_line_from_nothing_but_a_private_table(files):
    asked = ("--private", "private.csv", "--columns", "columns.toml", "--target", "ill", "--classes", "no,yes")
    told = ostrakon("train", *asked, "--epsilon", 2, "--out", "r", folder=files)
    assert isinstance(told, subprocess.CompletedProcess)
    assert told.returncode == 0, told.stderr
    assert "none: 2 columns are described, in 21 cells" in " ".join(told.stdout.split())
    said = json.loads((files / "r" / "release" / "statement.json").read_text())
    assert said["private"]
    assert said["public_rows"]["source"] == "none"
    refused = ostrakon("train", *asked, "--public", "private.csv", folder=files)
    assert refused.returncode == 2
    assert "--columns cannot be given with public" in " ".join((refused.stdout + refused.stderr).split())
    draft = ostrakon("schema", "columns", "age:whole", "city:category", folder=files)
    assert draft.returncode == 0
    assert '[columns.age]\nlow = "?"' in draft.stdout
    assert ostrakon("schema", "statement", "age:whole", folder=files).returncode == 2


def test_pairs_are_counted_where_there_are_enough_records(files):
    few = Options(epsilon=0.2, delta=1e-5)
    plan = plan_of(task_of(files), few)
    assert isinstance(plan.mechanism, BoundedGNMax)
    assert plan.mechanism.moment_noise is None
    assert 0.98 * 0.2 < plan.bound.epsilon <= 0.2, "the whole budget for the counts by column"
    for mechanism in ("moment-gnmax", "bounded-gnmax"):
        asked = Options(epsilon=0.2, delta=1e-5, mechanism=mechanism)
        assert plan_of(task_of(files), asked).mechanism.name == mechanism
    (files / "columns.toml").write_text("[columns.age]\nlow = 18\nhigh = 90\n")
    with pytest.raises(InvalidInput, match="mechanism must be bounded-gnmax where no pairs of columns are counted"):
        plan_of(task_of(files), Options(epsilon=2.0, delta=1e-5, mechanism="moment-gnmax"))
