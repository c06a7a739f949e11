"""Runs that protect labels alone: one label moves one vote of one teacher, and nothing claims more than that."""

import dataclasses
import itertools
import json
import re

import jsonschema
import numpy as np
import pandas as pd
import pytest
from PIL import Image

from ostrakon import PATEClassifier
from ostrakon.accounting.adjacent import Adjacent
from ostrakon.accounting.composition.gaussian_dp import gaussian_dp_epsilon
from ostrakon.accounting.epsilons import WorstCase
from ostrakon.data.sources import open_labels_only
from ostrakon.data.task import open_task
from ostrakon.export.student_files import load_student
from ostrakon.ledger.fits import Refused
from ostrakon.ledger.ledger import Ledger
from ostrakon.mechanisms import BoundedGNMax, GNMax
from ostrakon.options.files import Files
from ostrakon.options.options import Options
from ostrakon.report.release import publish
from ostrakon.run.inputs.files import task_from_files
from ostrakon.run.inputs.private_data import Rows
from ostrakon.run.inputs.task import Task, protection_fields
from ostrakon.run.one_draw import draw_once
from ostrakon.run.pipeline import run
from ostrakon.run.stages.features import view_of
from ostrakon.run.stages.queries import queries_of
from ostrakon.run.stages.votes import known_totals, teachers_of
from ostrakon.schemas import schema
from ostrakon.service.labeller import open_service
from ostrakon.statements.statement import Statement, weak_remark
from ostrakon.teachers.per_record import contributions
from ostrakon.validation import InvalidInput
from ostrakon.votes import Votes

RECORDS_ONLY = re.compile(
    r"one (record|user) more|more or less|replaced|another in its place|others in their place|\badd-remove\b|"
    r"\"(replace|take-out)\"|private for every (record|user)\b|\bpublic data\b|record-level|\"user-level\"|"
    r"was used|were used|with and without|One (record|user)\b|differ in (the content|all the rows)",
)
"""What a release that protects labels alone must not say anywhere."""

PER_RECORD = Options(mechanism="bounded-gnmax", epsilon=2.0, queries=20, student="logistic", jobs=1)
TRAINED = Options(teachers=12, teacher="naive-bayes", queries=30, student="logistic", jobs=1, delta=1e-4)
WAYS = {
    "bounded-gnmax": PER_RECORD,
    "confident-gnmax": dataclasses.replace(TRAINED, mechanism="confident-gnmax", epsilon=40.0),
    "moment-gnmax": dataclasses.replace(PER_RECORD, mechanism="moment-gnmax"),
    "lnmax": dataclasses.replace(TRAINED, mechanism="lnmax", epsilon=40.0),
}


def people(n=400, seed=0):
    rng = np.random.default_rng(seed)
    age, city = rng.integers(18, 90, n), rng.choice(["Ulm", "Bonn", "Rom"], n)
    ill = age / 90 + (city == "Ulm") + rng.normal(size=n) / 4 > 0.9
    return pd.DataFrame({"age": age, "city": city, "user": rng.permutation(n) % 90, "ill": np.where(ill, "yes", "no")})


def flipped(frame, row):
    other = frame.copy()
    other.loc[row, "ill"] = "no" if frame.loc[row, "ill"] == "yes" else "yes"
    return other


def written(frame, path):
    frame.to_csv(path, index=False) if path.suffix == ".csv" else frame.to_parquet(path)
    return path


def task_of(path, **options):
    return task_from_files(path, target="ill", protect="labels", classes=["no", "yes"], **options)


def votes_of(folder):
    return np.load(folder / "private" / "votes.npy")


def in_words(release):
    """All text of a release."""
    texts = (file.read_text() for file in sorted(release.iterdir()) if file.suffix in {".json", ".md", ".html", ".csv"})
    return "\n".join(re.sub(r"data:image/\w+;base64,[^\"')]*", "", text) for text in texts)


# --- the theorem, by enumeration ---------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [1, 2, 3])
def test_other_labels_of_one_user_move_at_most_r_entries_each_way(most):
    """Every labelling of a user with four rows near three queries, against every other one, beside a user who stays."""
    moved = set()
    for place in itertools.product(range(3), repeat=4):
        owners, places = np.array([0, 0, 0, 0, 1, 1]), np.array([*place, 0, 1])
        said, where = [], set()
        for labels in itertools.product(range(3), repeat=4):
            at, what = contributions(owners, places, np.array([*labels, 2, 0]), classes=3, max_contributions=most)
            counts = np.zeros((3, 3), np.int64)
            np.add.at(counts, (at, what), 1)
            said.append(counts)
            where.add(tuple(counts.sum(axis=1)))
        # On which queries a user speaks follows from where the rows are: labels have no say.
        assert len(where) == 1
        change = np.array(said)[:, None] - np.array(said)[None, :]
        assert np.abs(change).max() <= 1
        for sign in (1, -1):
            entries = (change == sign).sum(axis=(2, 3))
            assert entries.max() <= min(most, len(set(place)))
        # One label more and one less at a query, or none: no other total changes.
        assert not change.sum(axis=3).any()
        moved.add(int(np.square(change).sum(axis=(2, 3)).max()))
    # It is attained, so that no smaller price would do.
    assert max(moved) == 2 * min(most, 3)


def test_one_label_of_a_record_moves_one_vote_within_its_query():
    rng = np.random.default_rng(0)
    owners, places = np.arange(6), rng.integers(0, 3, 6)
    for labels in itertools.product(range(3), repeat=6):
        base = np.zeros((3, 3), np.int64)
        np.add.at(base, contributions(owners, places, np.array(labels), classes=3, max_contributions=2), 1)
        for row, label in itertools.product(range(6), range(3)):
            other = np.array(labels)
            other[row] = label
            counts = np.zeros((3, 3), np.int64)
            np.add.at(counts, contributions(owners, places, other, classes=3, max_contributions=2), 1)
            assert np.square(counts - base).sum() == (0 if label == labels[row] else 2)


@pytest.mark.parametrize("most", [1, 3])
def test_the_price_is_that_of_r_entries_each_way(most):
    rng = np.random.default_rng(0)
    X, users = rng.normal(size=(300, 2)), np.arange(300) // 3
    model = PATEClassifier(
        classes="from-private",
        protect="labels",
        student="logistic",
        mechanism=BoundedGNMax(sigma2=4, max_contributions=most),
        n_queries=20,
        delta=1e-4,
        random_state=0,
    ).fit(X, (X[:, 0] > 0).astype(int), users=users)
    price = gaussian_dp_epsilon((2 * most) ** 0.5 / 4, 1e-4)
    assert model.statement_.guarantee.epsilon == pytest.approx(price, rel=1e-6)
    (one,) = model.statement_.adjacent
    assert (one.relation, one.epsilon) == ("labels", model.statement_.guarantee.epsilon)
    assert "differ in the labels of the rows of one value of 'user'" in one.neighbours


# --- isolation ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", ["people.csv", pytest.param("people.parquet", marks=pytest.mark.slow)])
@pytest.mark.parametrize("by", [None, pytest.param("user", marks=pytest.mark.slow)])
def test_one_label_changes_one_teacher_alone_to_the_last_bit(tmp_path, file, by):
    frame = people()
    frame.loc[300] = frame.loc[200]  # equal features, perhaps with other labels
    frame.loc[300, "ill"] = "yes" if frame.loc[200, "ill"] == "no" else "no"
    said = []
    for number, each in enumerate([frame, *(flipped(frame, row) for row in (7, 300))]):
        place = tmp_path / str(number)
        place.mkdir()
        task = task_of(written(each, place / file), by=by)
        view = view_of(task.X_public, seed=0)
        queries = queries_of(view, 40, strategy="representatives", seed=0)
        teachers = teachers_of(PLAN, task.private, view, TRAINED, folder=place / "shards")
        said.append((view.public, queries, teachers.predict(view.public)))
    (public, queries, base), *others = said
    for features, asked, predictions in others:
        np.testing.assert_array_equal(features, public)
        np.testing.assert_array_equal(asked, queries)
        assert (predictions != base).any(axis=0).sum() <= 1


@dataclasses.dataclass(frozen=True)
class _Plan:
    teachers: int = 12
    classes: int = 2
    labels: None = None


PLAN = _Plan()


def shards_of(task, folder):
    held = task.private.shards(12, classes=2, seed=0, transform=lambda X: X, folder=folder)
    return held.sizes.tolist()


@pytest.mark.slow
def test_a_label_has_no_say_in_whose_its_row_is_where_labels_are_protected_and_has_one_elsewhere(tmp_path):
    """The second half shows that the first can fail: a hash of the whole row moves rows between teachers."""
    frame = people().drop(columns="user")
    frame["n"] = np.arange(len(frame))
    frame[300:].drop(columns="ill").to_csv(tmp_path / "public.csv", index=False)
    sizes = {"labels": [], "records": []}
    for number in range(3):
        each = frame[:300] if number == 0 else flipped(frame[:300], 50 * number)
        path = written(each, tmp_path / f"{number}.csv")
        records = task_from_files(path, tmp_path / "public.csv", target="ill", classes=["no", "yes"])
        for name, task in (("labels", task_of(path)), ("records", records)):
            sizes[name].append(tuple(shards_of(task, tmp_path / f"{name}{number}")))
    assert len(set(sizes["labels"])) == 1
    assert len(set(sizes["records"])) > 1


@pytest.mark.slow
@pytest.mark.parametrize("file", ["people.csv", pytest.param("people.parquet", marks=pytest.mark.slow)])
def test_the_votes_of_runs_whose_data_differ_in_one_label_differ_in_one_vote(tmp_path, file):
    frame, found = people(), []
    for name, each in (("one", frame), ("other", flipped(frame, 11))):
        (tmp_path / name).mkdir()
        task = task_of(written(each, tmp_path / name / file))
        outcome = run(tmp_path / name / "run", task, PER_RECORD)
        found.append((outcome.queries, votes_of(outcome.folder)))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    change = found[0][1] - found[1][1]
    assert sorted(change[change != 0].tolist()) in ([], [-1, 1])
    assert not change.sum(axis=1).any()


def test_the_totals_that_are_called_public_are_those_of_the_votes(tmp_path):
    task = task_of(written(people(), tmp_path / "people.csv"))
    outcome = run(tmp_path / "run", task, PER_RECORD)
    view = view_of(task.X_public, seed=0)
    totals = known_totals(task.private, view, outcome.queries)
    np.testing.assert_array_equal(totals, votes_of(outcome.folder).sum(axis=1))
    of_users = task_of(tmp_path / "people.csv", by="user")
    assert known_totals(of_users.private, view, outcome.queries) is None
    assert known_totals(dataclasses.replace(ROWS, protects="records"), view, outcome.queries) is None


X = np.random.default_rng(1).normal(size=(300, 2))
ROWS = Rows(X=X, y=(X[:, 0] > 0).astype(np.int64), protects="labels")


def test_pictures_in_folders_stand_in_an_order_that_labels_do_not_decide(tmp_path):
    rng = np.random.default_rng(0)
    for name in ("one", "other"):
        for label in "ab":
            (tmp_path / name / label).mkdir(parents=True)
    for number in range(12):
        picture = Image.fromarray(rng.integers(0, 255, (8, 8), dtype=np.uint8))
        label = "ab"[number % 2]
        picture.save(tmp_path / "one" / label / f"{number}.png")
        picture.save(tmp_path / "other" / ("b" if number == 4 else label) / f"{number}.png")
    one, other = (task_from_files(tmp_path / name, protect="labels", classes=["a", "b"]) for name in ("one", "other"))
    np.testing.assert_array_equal(one.X_public, other.X_public)
    assert one.X_public is one.private.X
    assert (one.private.y != other.private.y).sum() == 1


@pytest.mark.parametrize("odd", ["a;b;c;d", '"x', pytest.param("7", marks=pytest.mark.slow), "age"])
def test_a_label_has_no_say_in_how_a_csv_is_cut(tmp_path, odd):
    frame = people(60).astype({"ill": object})
    frame["ill"] = np.where(frame["ill"] == "yes", "1", "0")
    for name, row in (("plain", None), ("first", 0), ("later", 30)):
        other = frame.copy()
        if row is not None:
            other.loc[row, "ill"] = odd
        other.to_csv(tmp_path / f"{name}.csv", index=False)
    tables = [open_labels_only(tmp_path / f"{name}.csv") for name in ("plain", "first", "later")]
    features = [table.read(["age", "city", "user"]) for table in tables]
    for each in features[1:]:
        pd.testing.assert_frame_equal(each, features[0])
    assert [table.columns for table in tables] == [tuple(frame.columns)] * 3
    bare = tmp_path / "bare.csv"
    frame.to_csv(bare, index=False, header=False, sep=";")
    named = open_labels_only(bare, names=list(frame.columns))
    assert (named.rows(), named.columns) == (60, tuple(frame.columns))


@pytest.mark.parametrize("header", ["age,city,ill", "People of Ulm", "age"])
@pytest.mark.parametrize("target", ["ill", "-1"])
def test_no_record_passes_for_a_header_that_has_another_number_of_cells(tmp_path, header, target):
    """As R writes row names: the label of the first record would be the name of the target, and be published."""
    place = tmp_path / "people.csv"
    frame = people(60).drop(columns="user")
    place.write_text(f"{header}\n" + frame.to_csv(header=False))
    with pytest.raises(InvalidInput, match=r"The first line of .* must be its header, with as many cells") as refused:
        open_task(place, None, target=target, protect="labels", classes="from-private")
    assert frame["city"][0] not in str(refused.value)
    with pytest.raises(InvalidInput, match=r"The first line of .* must be a row"):
        open_labels_only(place, names=["n", "age", "city", "ill"])


def test_a_record_is_no_header_because_there_is_none(tmp_path):
    place = tmp_path / "people.csv"
    frame = people(60)
    frame.to_csv(place, index=False, header=False)
    with pytest.raises(InvalidInput, match=r"The first row of .* may be a header or a record, because '-1' does not"):
        open_task(place, None, target="-1", protect="labels", classes="from-private")
    assert (
        open_task(place, None, target="-1", protect="labels", names=list(frame.columns), classes="from-private").target
        == "ill"
    )
    frame.to_csv(place, index=False)
    assert open_task(place, None, target="ill", by="2", protect="labels", classes="from-private").by == "user"


# --- what is said ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "way", ["bounded-gnmax", *(pytest.param(name, marks=pytest.mark.slow) for name in WAYS if name != "bounded-gnmax")]
)
@pytest.mark.parametrize("by", [None, pytest.param("user", marks=pytest.mark.slow)])
def test_a_release_says_labels_only_and_nothing_of_records(tmp_path, way, by):
    options = WAYS[way] if by is None else dataclasses.replace(WAYS[way], delta=1e-3)
    task = task_of(written(people(900), tmp_path / "people.csv"), by=by)
    outcome = run(tmp_path / "run", task, options)
    release = publish(outcome)
    said = json.loads((release / "statement.json").read_text())
    jsonschema.validate(said, schema("statement"))
    jsonschema.validate(json.loads((release / "registry.json").read_text()), schema("registry"))
    assert said["protects"] == "labels"
    assert said["unit_of_privacy"] == ("the label of one record" if by is None else "the labels of one user")
    assert [each["relation"] for each in said["epsilon_by_adjacency"]] == ["labels"]
    assert said["membership_guess"] is None
    assert 0.5 < said["label_guess"]["at_most"] <= 1
    assert said["rounds"][0]["mechanism"] == way
    words = in_words(release)
    assert (found := RECORDS_ONLY.search(words)) is None, found and words[found.start() - 80 : found.end() + 80]
    card = (release / "model_card.md").read_text()
    assert "Only labels are protected: the features, and who is in the data, are treated as public." in card
    assert "for labels only: features and who is in the data are public and not protected" in card
    assert "label" in json.loads((release / "registry.json").read_text())["deployment"]["privacy_loss"]["privacy_unit"]
    assert load_student(release).predict(task.X_public).shape == (900,)


def test_the_words_that_are_looked_for_are_those_of_a_release_that_protects_records(task, tmp_path):
    release = publish(run(tmp_path / "run", task, PER_RECORD))
    found = {match.group() for match in RECORDS_ONLY.finditer(in_words(release))}
    assert {"private for every record", "public data", "record-level", "One record", "was used"} <= found
    assert json.loads((release / "statement.json").read_text())["protects"] == "records"


@pytest.mark.slow
def test_a_schema_refuses_a_statement_of_labels_that_speaks_of_records(tmp_path):
    release = publish(run(tmp_path / "run", task_of(written(people(), tmp_path / "people.csv")), PER_RECORD))
    said = json.loads((release / "statement.json").read_text())
    own = said["epsilon_by_adjacency"][0]
    for change in (
        {"unit_of_privacy": "record"},
        {"protects": "records"},
        {"membership_guess": said["label_guess"]},
        {"epsilon_by_adjacency": [own, {**own, "relation": "replace"}]},
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**said, **change}, schema("statement"))


def test_a_statement_does_not_mix_labels_with_records():
    worst = WorstCase(epsilon=1.0, delta=1e-5, basis="x")
    base = {"guarantee": worst, "rounds": (), "teachers": 5, "classes": ("a", "b"), "unit": "record"}
    base |= {"adjacency": "x", "noise_is_secure": True}
    of = {name: Adjacent(relation=name, neighbours="x", epsilon=1.0, delta=1e-5) for name in ("labels", "replace")}
    for protects, relation in (("labels", "replace"), ("records", "labels")):
        with pytest.raises(InvalidInput, match="neighbours in their labels alone"):
            Statement(**base, protects=protects, adjacent=(of[relation],))
    with pytest.raises(InvalidInput, match="protects must be one of records, labels, got 'features'"):
        Statement(**base, protects="features")
    assert "differ in a label" in weak_remark(12.0, protects="labels")


# --- runs that stop, ledgers, refusals -----------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["bounded-gnmax", pytest.param("confident-gnmax", marks=pytest.mark.slow)])
def test_a_stopped_run_goes_on_and_draws_nothing_twice(tmp_path, monkeypatch, way):
    task = task_of(written(people(), tmp_path / "people.csv"))
    with monkeypatch.context() as stopped:
        stopped.setattr("ostrakon.run.steps.fit_student", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "run", task, WAYS[way])
    drawn = {file.name: file.read_bytes() for file in (tmp_path / "run" / "private").glob("noise*/*")}
    assert drawn
    run(tmp_path / "run", task, WAYS[way])
    after = {file.name: file.read_bytes() for file in (tmp_path / "run" / "private").glob("noise*/*")}
    assert drawn.items() <= after.items()
    # Drawn once the student is fitted.
    assert after.keys() - drawn.keys() <= {"student-1.npy", "errors-1.npy"}


@pytest.mark.slow
def test_labels_have_an_account_of_their_own(tmp_path):
    url = f"sqlite:///{tmp_path / 'budget.db'}"
    path = written(people(), tmp_path / "people.csv")
    options = dataclasses.replace(PER_RECORD, epsilon=1.0, ledger=url, budget=1.2, delta=1e-4)
    run(tmp_path / "labels", task_of(path), options)
    (account,) = Ledger(url).accounts().values()
    assert (account.unit, account.relation) == ("record", "labels")
    with pytest.raises(Refused):
        run(tmp_path / "more", task_of(path), dataclasses.replace(options, seed=1))
    public = written(people(100, 5).drop(columns="ill"), tmp_path / "public.csv")
    records = task_from_files(path, public, target="ill", classes="from-private")
    named = dataclasses.replace(options, ledger_account=account.name, budget=None, epsilon=0.1, queries=2)
    with pytest.raises(InvalidInput, match="guarantees for labels of one record, got a run for replace of one record"):
        run(tmp_path / "records", records, named)


def test_labels_cannot_be_paid_from_an_account_of_records_nor_the_other_way_round(tmp_path):
    url = f"sqlite:///{tmp_path / 'budget.db'}"
    held = Ledger(url)
    held.open("records", epsilon=3.0, delta=1e-4, relation="replace")
    held.open("labels", epsilon=3.0, delta=1e-4, relation="labels")
    path = written(people(), tmp_path / "people.csv")
    options = dataclasses.replace(PER_RECORD, epsilon=1.0, ledger=url, ledger_account="records", delta=1e-4)
    with pytest.raises(InvalidInput, match="guarantees for replace of one record, got a run for labels of one record"):
        run(tmp_path / "run", task_of(path), options)
    with pytest.raises(InvalidInput, match="account must be for add-remove of one record"):
        draw_once(Votes([[8, 2]]), GNMax(sigma2=40), tmp_path / "draw", ledger=url, account="labels")


def test_a_pool_is_refused_beside_labels_and_asked_for_beside_records(tmp_path):
    path = written(people(), tmp_path / "people.csv")
    for made in (
        lambda: Files(private=str(path), public=str(path), protect="labels"),
        lambda: task_from_files(path, path, target="ill", protect="labels", classes="from-private"),
        lambda: PATEClassifier(classes="from-private", protect="labels").fit(X, ROWS.y, X_public=X),
    ):
        with pytest.raises(InvalidInput, match="cannot be given if only labels are protected"):
            made()
    for made in (lambda: Files(private=str(path)), lambda: task_from_files(path, target="ill", classes="from-private")):
        with pytest.raises(InvalidInput, match="public must be given"):
            made()
    for made in (
        lambda: Files(private=str(path), protect="features"),
        lambda: PATEClassifier(classes="from-private", protect="features").fit(X, ROWS.y),
    ):
        with pytest.raises(InvalidInput, match="protect must be one of records, labels, got 'features'"):
            made()


def test_a_missing_label_is_refused(tmp_path):
    frame = people()
    frame.loc[3, "ill"] = None
    with pytest.raises(InvalidInput, match="every row needs its label"):
        task_of(written(frame, tmp_path / "people.csv"))


def test_test_rows_are_no_private_rows(tmp_path):
    path = written(people(), tmp_path / "people.csv")
    copy = written(people().sample(frac=1.0, random_state=0), tmp_path / "copy.csv")
    for test in (path, copy):
        with pytest.raises(InvalidInput, match=r"The test table .* is the private one"):
            task_of(path, test=test)


def test_a_service_refuses_a_run_that_protects_labels(tmp_path):
    path = written(people(), tmp_path / "people.csv")
    asked = {"private": str(path), "protect": "labels", "target": "ill", "classes": "no,yes"}
    run(tmp_path / "run", task_of(path), PER_RECORD, asked=asked)
    with (
        pytest.raises(InvalidInput, match="must have a run that protects records"),
        open_service(tmp_path / "run", ledger=f"sqlite:///{tmp_path / 'b.db'}", budget=90.0),
    ):
        pass


def test_the_estimator_needs_no_public_rows():
    model = PATEClassifier(
        classes="from-private", protect="labels", epsilon=2.0, student="logistic", random_state=0
    ).fit(X, ROWS.y)
    assert (
        model.statement_.unit_of_privacy == model.statement_.as_dict()["unit_of_privacy"] == "the label of one record"
    )
    assert model.statement_.unit == "record"
    assert model.score(X, ROWS.y) > 0.85
    assert model.statement_.protects == "labels"
    said = model.statement_.as_dict()
    assert RECORDS_ONLY.search(json.dumps(said)) is None
    assert "features" in said["not_covered"][0]
    fixed = PATEClassifier(classes="from-private",
        protect="labels", partition="random", n_teachers=10, teacher="logistic", epsilon=60.0, n_queries=20,
        student="logistic", random_state=0,
    ).fit(X, ROWS.y)  # fmt: skip
    assert [each.relation for each in fixed.statement_.adjacent] == ["labels"]


def test_trained_teachers_in_memory_see_one_label_each():
    task = Task(private=ROWS, classes=("a", "b"), X_public=X, **protection_fields("labels"))
    view = view_of(X, seed=0)
    base = teachers_of(PLAN, task.private, view, TRAINED).predict(view.public)
    for row in (0, 150, 299):
        y = ROWS.y.copy()
        y[row] = 1 - y[row]
        other = teachers_of(PLAN, dataclasses.replace(ROWS, y=y), view, TRAINED).predict(view.public)
        assert (other != base).any(axis=0).sum() <= 1
