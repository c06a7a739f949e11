"""Teachers that owners train: what one person moves, what that costs, how a killed owner goes on, what is refused."""

import tomllib

import numpy as np
import pandas as pd
import pytest

from ostrakon.accounting.composition.gaussian_dp import gaussian_dp_epsilon
from ostrakon.data.checksummed import read_checksummed
from ostrakon.data.partition import assign_teachers, key_from_seed
from ostrakon.ledger.ledger import Ledger
from ostrakon.report.release import publish
from ostrakon.study import Owner, Study, finish_study, join_study
from ostrakon.study.join import handed_over
from ostrakon.study.local_teachers import LocalTeachers
from ostrakon.study.study_table import study_table
from ostrakon.study.tables import read_share
from ostrakon.teachers import one_teacher
from ostrakon.validation import InvalidInput
from ostrakon.votes import STEPS

# A tree follows every row: whatever a person changes shows.
TREES = {"teacher": "decision-tree", "people_per_teacher": 30}
TEACHERS = 11


@pytest.fixture(scope="module")
def trusted(three):
    return three.create("trusted", queries=20, **TREES)


def joined(study, path, owner, place, **others):
    where = {"keep": place / f"keep-{owner}", "shares": place / "shares", "jobs": 1, **others}
    return join_study(study, path, owner=owner, by="patient", **where)


def votes(study, table, owner, place):
    """(the owner's exact table, what each teacher says: queries x teachers) for these rows."""
    place.mkdir()
    table.to_csv(place / "table.csv", index=False)
    done = joined(study, place / "table.csv", owner, place)
    (folder,) = (done.folder / "private" / "teachers").glob("predictions-*")
    said = [np.load(file) for file in (_payload(path, place) for path in sorted(folder.iterdir()))]
    return read_share(done.share, study)[1], np.concatenate(said).T


def _payload(path, place):
    index = int(path.stem.partition("-")[2])
    held = read_checksummed(path, what=f"predictions of the teachers of piece {index}")
    (place / f"{path.stem}.npy").write_bytes(held.payload)
    return place / f"{path.stem}.npy"


HEAVY = 0


def with_heavy(table):
    """One person has 200 rows more, all of which say the contrary of everybody else's: her teacher believes them."""
    rng = np.random.default_rng(1)
    age = rng.integers(18, 90, 200)
    hers = {"age": age, "town": rng.choice(["Ulm", "Bonn"], 200), "ill": np.where(age > 50, "no", "yes")}
    return pd.concat([table, pd.DataFrame(hers).assign(patient=HEAVY)])


def turned(table):
    """She says what everybody says."""
    truth = np.where(table["age"] > 50, "yes", "no")
    return table.assign(ill=np.where(table["patient"] == HEAVY, truth, table["ill"]))


def elsewhere(table):
    """All her rows are otherwise."""
    hers = table["patient"] == HEAVY
    return table.assign(age=np.where(hers, 30, table["age"]), town=table["town"].mask(hers, "Kiel"))


def without(table):
    return table[table["patient"] != HEAVY]


@pytest.fixture(scope="module")
def north(trusted, three):
    """The table and the votes of north, where she has her rows."""
    return votes(trusted, with_heavy(three.tables["north"]), "north", three.folder / "as-it-is")


@pytest.mark.slow
@pytest.mark.parametrize("neighbour", [turned, elsewhere, without])
def test_a_person_moves_one_teacher_of_the_owner(trusted, three, north, tmp_path, neighbour):
    """One vote a query at most, to the last bit, whatever happens to all of that person's rows."""
    first, said = north
    assert said.shape == (20, TEACHERS)
    second, says = votes(trusted, neighbour(with_heavy(three.tables["north"])), "north", tmp_path / "other")
    her = assign_teachers([HEAVY], TEACHERS, key=key_from_seed(trusted.seed))[0]
    assert set(np.flatnonzero((said != says).any(axis=0))) == {her}
    assert (np.abs(first - second).sum(axis=1) == 2 * (said[:, her] != says[:, her])).all()
    # A vote on nearly every query, which is what is paid for.
    assert (said[:, her] != says[:, her]).sum() > 5


@pytest.mark.slow
def test_a_person_at_two_owners_moves_one_teacher_at_each(trusted, three, north, tmp_path):
    table = three.tables["south"]
    pairs = {
        "north": (north[0], votes(trusted, three.tables["north"], "north", tmp_path / "north")[0]),
        "south": tuple(
            votes(trusted, some, "south", tmp_path / name)[0]
            for name, some in (("south", table), ("south-with-her", with_heavy(table)))
        ),
    }
    for before, after in pairs.values():
        moved = np.abs(before - after).sum(axis=1)
        assert moved.max() == 2
        assert (moved > 0).sum() > 5
    # Both at once move the sum further than one of them alone may.
    assert np.linalg.norm(sum(before - after for before, after in pairs.values())) <= 2 * np.sqrt(2 * 20)


def test_where_rows_stand_has_no_say(trusted, three, north, tmp_path):
    first, said = north
    table = with_heavy(three.tables["north"]).sample(frac=1, random_state=3)
    second, says = votes(trusted, table, "north", tmp_path / "other-order")
    assert np.array_equal(first, second)
    assert np.array_equal(said, says)
    assert (first.sum(axis=1) == TEACHERS).all()
    assert (np.minimum(first[:, 0], first[:, 1]) > 0).any()


def test_every_query_is_paid_for(trusted, three):
    """As 20 releases of a histogram in which one vote moves: distances add up in squares."""
    epsilon = trusted.plan().bound.epsilon
    assert epsilon == pytest.approx(gaussian_dp_epsilon(np.sqrt(2 * 20) / trusted.mechanism.sigma2, 1e-5), rel=1e-6)
    assert 2.99 < epsilon <= 3
    assert trusted.plan().teachers == 3 * TEACHERS
    more = three.create("more", queries=80, **TREES)
    assert more.mechanism.sigma2 == pytest.approx(2 * trusted.mechanism.sigma2, rel=1e-3)
    two = three.create("two", queries=20, max_owners_per_person=2, **TREES)
    assert two.mechanism.sigma2 == pytest.approx(2 * trusted.mechanism.sigma2, rel=1e-3)
    files = three.create("each", queries=20, exchange="files", **TREES)
    assert 3**0.5 <= files.mechanism.sigma2 / trusted.mechanism.sigma2 < 1.1 * 3**0.5


def test_the_number_of_queries_follows_from_announced_numbers(three):
    some = three.create("some", queries=None, owners=[Owner(name="north", people=9000)], teacher="logistic")
    assert some.plan().teachers == 90
    # Noise of a fifth of the teachers, and not less than that much: one more query would not fit.
    assert 0.19 * 90 < some.mechanism.sigma2 <= 0.2 * 90 * 1.001
    assert "announced" in some.tuned["number of queries"]
    assert some.mechanism.max_contributions == len(some.queries)


def test_what_is_trained_is_a_fact_of_the_study(three, trusted):
    again = Study.read(trusted.folder)
    assert again.teachers == LocalTeachers(**TREES)
    for name, changes in {
        "plain": {"queries": 20},
        "other": {**TREES, "queries": 20, "teacher": "logistic"},
        "fewer": {**TREES, "queries": 20, "people_per_teacher": 33},
    }.items():
        assert three.create(name, **changes).hash != trusted.hash
    content = tomllib.loads((trusted.folder / "study.toml").read_text())
    assert content["teachers"] == TREES


def test_a_killed_owner_trains_no_teacher_twice(three, north, tmp_path, monkeypatch):
    study = three.create("killed", queries=20, exchange="files", **TREES)
    path = three.folder / "as-it-is" / "table.csv"
    honest, trained = one_teacher.fit_teacher, []

    def counting(*arguments, index, **others):
        if len(trained) == 5:
            raise KeyboardInterrupt
        trained.append(index)
        return honest(*arguments, index=index, **others)

    with monkeypatch.context() as patched:
        patched.setattr(one_teacher, "fit_teacher", counting)
        with pytest.raises(KeyboardInterrupt):
            joined(study, path, "north", tmp_path)
    assert not (tmp_path / "shares").exists()
    again = []

    def noting(*arguments, index, **others):
        again.append(index)
        return honest(*arguments, index=index, **others)

    monkeypatch.setattr(one_teacher, "fit_teacher", noting)
    done = joined(study, path, "north", tmp_path)
    assert sorted([*trained, *again]) == list(range(TEACHERS))
    kept = done.share.read_bytes()
    assert joined(study, path, "north", tmp_path).share.read_bytes() == kept
    # The same votes as of an owner that nobody stopped, under noise of its own.
    noise = read_share(done.share, study)[1] - STEPS * north[0]
    assert 0.3 < np.abs(noise).max() / study.mechanism.share_sigma < 7


@pytest.mark.slow
@pytest.mark.parametrize("exchange", ["trusted", "files"])
def test_a_student_and_its_statement(three, tmp_path, exchange):
    study = three.create(
        f"whole-{exchange}", queries=40, exchange=exchange, epsilon=8.0, teacher="logistic", people_per_teacher=11
    )
    for owner in ("north", "west"):
        joined(study, three.table(owner), owner, tmp_path)
    said = []
    outcome = finish_study(
        study,
        shares=tmp_path / "shares",
        out=tmp_path / "run",
        without=["south"],
        test=three.folder / "test.csv",
        say=said.append,
    )
    assert "Collecting the votes of 60 teachers" in said
    told = outcome.statement.as_dict()
    assert told["teachers"] == 60
    assert told["unit_of_privacy"] == "user"
    assert told["rounds"][0]["parameters"]["max_contributions"] == told["queries"] == 40
    assert told["guarantee"]["epsilon"] <= 8
    by = {each["relation"]: each for each in told["epsilon_by_adjacency"]}
    assert list(by) == ["add-remove", "replace"]
    assert told["adjacency"] == (
        "Two collections of the owners' data are neighbours when they differ in all the rows of one person, at one "
        "owner, the same in both, in any way."
    )
    # Another person in somebody's place is another teacher, too.
    assert by["replace"]["epsilon"] > 1.5 * by["add-remove"]["epsilon"]
    assert "exchanged for those of another one" in by["replace"]["neighbours"]
    assert told["estimates"] == []
    assert "aggregator" in told["trust_model"]
    assert told["tuned"]["number of teachers"] == "logistic, one for about 11 people announced"
    # The majority is 0.55 or so.
    assert outcome.accuracy > 0.75
    assert (publish(outcome) / "report.html").exists()


def test_an_owner_is_told_that_its_teachers_stay(trusted):
    said = handed_over(trusted, "north")["A number says"]
    assert said.startswith("how many of your 11 teachers (decision-tree) say that class")
    assert "the teachers stay" in said
    assert "20 public rows x 2 classes" in handed_over(trusted, "north")["What leaves"]
    cells = [cell for column in study_table(trusted).columns for cell in map(str, column.cells)]
    assert "33, which the owners train: decision-tree, one for about 30 people announced" in cells
    assert "is, with all rows, in one teacher of each owner, and may have rows at one owner" in cells


def test_a_ledger_charges_every_query(trusted, three, tmp_path):
    url = f"sqlite:///{tmp_path / 'budget.db'}"
    joined(trusted, three.table("north"), "north", tmp_path, ledger={"ledger": url, "budget": 4.0})
    (account,) = Ledger(url).accounts().values()
    assert (account.unit, account.relation) == ("user", "add-remove")
    (spent,) = account.spends
    assert spent.settled
    assert spent.cost.mu == pytest.approx(np.sqrt(2 * 20) / trusted.mechanism.sigma2, rel=1e-9)
    assert "11 teachers" in spent.what


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"teacher": "sklearn.svm.SVC"}, "teacher must be a short name in a study, where nothing may run"),
        ({"teacher": "none"}, "There is no estimator 'none'"),
        ({"teacher": 5}, "teacher must be a short name"),
        ({"teacher": "logistic(C='nan')"}, "could not be trained on its 16 rows"),
        ({"teacher": None}, "people_per_teacher is for teachers that owners train: give teacher, too"),
        ({"people_per_teacher": 331}, "north has announced 330 people, too few for one teacher of 331"),
        ({"people_per_teacher": 0}, "people_per_teacher must be an integer of at least 1"),
        ({"people_per_teacher": True}, "people_per_teacher must be an integer"),
        ({"max_contributions": 2}, "max_contributions cannot be chosen for trained teachers"),
        ({"epsilon": 0.01}, r"epsilon must be at least [\d.]+ for 20 queries of 33 teachers .*, got 0.01; fewer"),
    ],
)
def test_what_is_no_study_of_teachers_is_refused(three, changes, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        three.create("refused", **{"queries": 20, **TREES, **changes})
    assert not (three.folder / "refused").exists()


def test_an_owner_with_fewer_people_than_teachers_is_refused_before_anything_is_kept(trusted, three, tmp_path):
    few = three.tables["north"][three.tables["north"]["patient"] < 30]
    assert few["patient"].nunique() == 10
    few.to_csv(tmp_path / "few.csv", index=False)
    with pytest.raises(InvalidInput, match="north trains 11 teachers in this study, and its table holds 10 people"):
        joined(trusted, tmp_path / "few.csv", "north", tmp_path)
    assert not (tmp_path / "keep-north").exists()
