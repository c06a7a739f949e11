"""A study's folder: public facts alone, created once, refused when anything in it has changed."""

import shutil
import tomllib
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import tomli_w
from loopback_owners import reachable

from ostrakon.accounting.data_independent.worst_case import worst_case
from ostrakon.data.checksummed import digest_of_json
from ostrakon.mechanisms.bounded_gnmax import BoundedGNMax
from ostrakon.study import Owner, Study
from ostrakon.study.exchange import EXCHANGES
from ostrakon.validation import InvalidInput


@pytest.fixture(scope="module")
def study(three):
    return three.create()


def test_what_is_created_is_read_back(study):
    again = Study.read(study.folder)
    assert (again.hash, again.owners, again.classes) == (study.hash, study.owners, ("no", "yes"))
    assert again.mechanism == study.mechanism
    assert np.array_equal(again.queries, study.queries)
    assert again.plan().bound.epsilon <= 3
    assert again.plan().teachers == 990


def test_the_folder_holds_public_facts_and_nothing_that_could_run(study):
    assert {file.name for file in study.folder.iterdir()} == {
        "study.toml",
        "pool.csv",
        "representatives.npy",
        "features.npy",
    }


def test_the_hash_follows_every_fact(three, study):
    same = three.create("same")
    assert same.hash == study.hash
    for changes in (
        {"epsilon": 2.9},
        {"classes": ["yes", "no"]},
        {"exchange": "files"},
        {"owners": (*three.owners[:2], Owner(name="west", people=331))},
        {"seed": 1},
        {"student": "auto"},
    ):
        other = three.create("other", **changes)
        assert other.hash != study.hash, changes
        shutil.rmtree(other.folder)


@pytest.mark.parametrize("name", ["study.toml", "pool.csv", "representatives.npy", "features.npy"])
def test_a_changed_study_is_refused(study, tmp_path, name):
    shutil.copytree(study.folder, tmp_path / "changed")
    path = tmp_path / "changed" / name
    content = bytearray(path.read_bytes())
    # A digit or letter near the end: still a file of its kind.
    content[-3] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(InvalidInput, match=r"was changed after the study was created|cannot be read"):
        Study.read(tmp_path / "changed")
    path.unlink()
    with pytest.raises(InvalidInput, match=r"is missing|cannot be read"):
        Study.read(tmp_path / "changed")


def test_less_noise_written_into_the_facts_is_refused(study, tmp_path):
    shutil.copytree(study.folder, tmp_path / "changed")
    path = tmp_path / "changed" / "study.toml"
    text = path.read_text()
    assert f"sigma2 = {study.mechanism.sigma2}" in text
    path.write_text(text.replace(f"sigma2 = {study.mechanism.sigma2}", "sigma2 = 0.1"))
    with pytest.raises(InvalidInput, match="was changed after the study was created"):
        Study.read(tmp_path / "changed")


def forged(study, folder, change):
    """A copy of the study, changed, whose hash is right all the same: the coordinator wrote it."""
    shutil.copytree(study.folder, folder)
    path = folder / "study.toml"
    content = tomllib.loads(path.read_text())
    own = content.pop("ostrakon")
    change(content)
    path.write_text(tomli_w.dumps({"ostrakon": {**own, "hash": digest_of_json(content)}, **content}))
    return folder


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda content: content["study"].update(student="evil.Student"), "student must be a short name in a study"),
        (
            lambda content: content["study"].update(student="self-training:evil.Student(C=1)"),
            "student must be a short name in a study",
        ),
        (lambda content: content["noise"].update(sigma2=0.1), "says epsilon 3, and its noise only keeps .*do not join"),
        (lambda content: content["noise"].update(max_contributions=8), "says epsilon 3, and its noise only keeps"),
        (lambda content: content["study"].update(epsilon=0.5), "says epsilon 0.5, and its noise only keeps"),
        (lambda content: content["study"].update(delta=0.9), "delta must be below 1 divided by the number of persons"),
        (
            lambda content: content["study"].update(classes="ny"),
            "classes must be at least 2 different labels, got 'ny'",
        ),
        (lambda content: content["study"].update(classes=["no", "no"]), "classes must be at least 2 different labels"),
        (lambda content: content["study"].update(target=5), "target must be a name, got 5"),
        (lambda content: content["study"].update(seed=-1), "seed must be"),
        (lambda content: content["study"].update(representation="os.system"), "representation must be auto, hog"),
        (
            lambda content: content["noise"].update(released="sum"),
            "must hold sigma2, max_contributions, owners_per",
        ),
        (
            lambda content: content.update(teachers={"teacher": "logistic", "people_per_teacher": 30}),
            "must charge trained teachers for all 8 queries, .* it charges 1: do not join it",
        ),
        (
            lambda content: content.update(teachers={"teacher": "evil.Teacher", "people_per_teacher": 30}),
            "teacher must be a short name in a study",
        ),
        (lambda content: content.update(teachers={"teacher": "logistic"}), r"\[teachers\] must hold teacher and"),
        (lambda content: content.update(teachers=3), r"\[teachers\] must hold teacher and"),
        (lambda content: content["noise"].pop("max_contributions"), "must hold sigma2, max_contributions, owners_per"),
        (lambda content: content.pop("noise"), "must hold the facts of a study, and it does not: KeyError"),
        (lambda content: content.update(files=3), "must hold the facts of a study, with"),
    ],
)
def test_a_dishonest_coordinators_study_is_refused(study, tmp_path, change, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        Study.read(forged(study, tmp_path / "study", change))
    assert Study.read(forged(study, tmp_path / "same", lambda content: None)).hash == study.hash


@pytest.mark.parametrize("name", ["../pool.csv", "other.csv"])
def test_a_study_that_points_elsewhere_is_refused(study, tmp_path, name):
    """Even where its hash is right: whoever made it chose the files."""
    shutil.copytree(study.folder, tmp_path / "study")
    path = tmp_path / "study" / "study.toml"
    content = tomllib.loads(path.read_text())
    own = content.pop("ostrakon")
    if "/" in name:
        content["files"][name] = content["files"].pop("pool.csv")
    content["study"]["public"] = name
    path.write_text(tomli_w.dumps({"ostrakon": {**own, "hash": digest_of_json(content)}, **content}))
    with pytest.raises(InvalidInput, match=r"must name files beside it|must list the pool"):
        Study.read(tmp_path / "study")


def test_other_features_on_this_machine_are_refused(study):
    view = study.view()
    moved = replace(view, public=view.public + 0.01)
    with pytest.raises(InvalidInput, match="makes other features"):
        study.require_view(moved)
    study.require_view(view)


def test_prices_stand_beside_a_trusted_aggregators(study):
    prices = {name: (noise, times) for name, noise, times in study.prices()}
    assert set(prices) == set(EXCHANGES)
    plain = BoundedGNMax(sigma2=prices["trusted"][0])
    assert worst_case(plain, queries=8, delta=1e-5).epsilon <= 3
    assert prices["trusted"][1] == 1
    # Three shares that each do the whole, and a conversion that costs some per cent.
    assert 3**0.5 <= prices["files"][1] < 1.1 * 3**0.5


def test_people_at_two_owners_cost_twice_the_noise(three, study):
    two = three.create("two", max_owners_per_person=2)
    assert two.mechanism.sigma2 == pytest.approx(2 * study.mechanism.sigma2, rel=1e-3)
    # Noisy tables are released side by side: their distances add in squares.
    one, both = (three.create(f"files-{h}", exchange="files", max_owners_per_person=h) for h in (1, 2))
    assert both.mechanism.sigma2 == pytest.approx(2**0.5 * one.mechanism.sigma2, rel=1e-3)


def test_who_drops_out_makes_nothing_cheaper(three):
    """A table that was handed over has been seen, whether or not it is summed in the end."""
    asked = {"exchange": "files", "max_owners_per_person": 3, "epsilon": 20.0, "queries": 4}
    study = three.create("dropped", **asked)
    whole = study.plan().bound.epsilon
    assert 19 < whole <= 20
    for owners in (1, 2):
        assert study.plan(owners=owners).bound.epsilon == pytest.approx(whole, rel=1e-12)


@pytest.mark.parametrize("name", ["shares", "finished", "partial"])
def test_an_owner_named_like_a_folder_is_refused(name):
    with pytest.raises(InvalidInput, match="must not be shares or finished or partial"):
        Owner(name=name, people=10)


def test_queries_follow_from_announced_numbers(three):
    many = three.create("many", queries=None, epsilon=1.0)
    assert 20 <= len(many.queries) < 200
    assert "announced" in many.tuned["number of queries"]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"exchange": "post"}, "exchange must be one of trusted, files, secure-sum"),
        ({"owners": ()}, "owners must be from 1"),
        ({"classes": ["no"]}, "classes must be at least 2"),
        ({"classes": ["no", "no"]}, "classes must name each label once"),
        ({"public": "none.csv"}, "public must be one file"),
        ({"epsilon": 0.001}, "queries must be few enough .* 990 persons vote on 1 of 8 queries.* an epsilon of 0.03"),
        ({"epsilon": -1}, "epsilon must be a finite number above 0"),
        ({"epsilon": float("nan")}, "epsilon must be a finite number above 0"),
        ({"delta": 0.01}, "delta must be below 1 divided by the number of persons"),
        ({"queries": 201}, "queries must be an integer of at least 1 and at most 200"),
        ({"max_owners_per_person": 4}, "max_owners_per_person must be an integer of at least 1 and at most 3"),
        ({"max_contributions": 0}, "max_contributions must be an integer of at least 1"),
        ({"student": "none"}, "There is no estimator 'none'"),
        ({"student": "sklearn.svm.SVC"}, "student must be a short name in a study, where nothing may run"),
        ({"target": ""}, "target must be the name"),
        ({"colluders": 1}, "colluders is for the exchange secure-sum, and exchange is trusted"),
        ({"dropouts": 0, "exchange": "files"}, "dropouts is for the exchange secure-sum, and exchange is files"),
        ({"exchange": "secure-sum"}, "and north has no address"),
    ],
)
def test_what_is_no_study_is_refused(three, changes, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        three.create("refused", **changes)
    assert not (three.folder / "refused").exists()


def test_a_folder_that_is_there_is_not_written_into(three, study):
    with pytest.raises(InvalidInput, match="out must be a new folder"):
        three.create()


def test_a_pool_of_hardly_any_rows_is_refused(three, tmp_path):
    pd.DataFrame({"age": [1, 2]}).to_csv(tmp_path / "few.csv", index=False)
    with pytest.raises(InvalidInput, match="has 2 rows"):
        three.create("few", public=tmp_path / "few.csv")


@pytest.mark.parametrize(
    ("colluders", "dropouts", "left"), [(None, None, 2), (0, 0, 3), (2, 0, 1), (1, 1, 1), (0, 2, 1)]
)
def test_colluders_and_dropouts_cost_what_is_told(three, tmp_path, colluders, dropouts, left):
    """The noise of `left` of three shares suffices: sqrt(3/left) times as much on the sum."""
    asked = {"exchange": "secure-sum", "owners": reachable(three.folder / "keys")}
    base = three.create(str(tmp_path / "base"), colluders=0, **asked)
    study = three.create(str(tmp_path / "study"), colluders=colluders, dropouts=dropouts, **asked)
    assert study.mechanism.sigma2 / base.mechanism.sigma2 == pytest.approx((3 / left) ** 0.5, rel=1e-3)
    assert study.mechanism.share_sigma * left**0.5 == pytest.approx(base.mechanism.share_sigma * 3**0.5, rel=1e-3)
    assert f"sqrt(3/{left}) = {(3 / left) ** 0.5:.2f} times" in study.price()
    assert study.plan().bound.epsilon <= 3
    for gone in range(3):
        if gone <= (dropouts or 0):
            found = study.plan(owners=3 - gone)
            assert found.bound.epsilon == pytest.approx(study.plan().bound.epsilon, rel=1e-9)
            assert found.mechanism.share_sigma == pytest.approx(study.mechanism.share_sigma, rel=1e-12)
        else:
            with pytest.raises(InvalidInput, match="without must name at most"):
                study.plan(owners=3 - gone)


@pytest.mark.parametrize(("colluders", "dropouts"), [(3, 0), (2, 1), (1, 2), (-1, 0), (0, True), (1.0, 0)])
def test_more_colluders_than_noise_are_refused(three, tmp_path, colluders, dropouts):
    asked = {"exchange": "secure-sum", "owners": reachable(three.folder / "keys")}
    with pytest.raises(InvalidInput, match=r"colluders|dropouts"):
        three.create(str(tmp_path / "study"), colluders=colluders, dropouts=dropouts, **asked)


def test_of_two_owners_the_share_of_each_suffices(three, tmp_path):
    """Every owner knows its own share: against one of two, the other's protects alone."""
    study = three.create(str(tmp_path / "two"), exchange="secure-sum", owners=reachable(three.folder / "keys")[:2])
    assert study.mechanism.colluders == 1
    prices = {name: noise for name, noise, _ in study.prices()}
    assert prices["secure-sum"] == pytest.approx(prices["files"], rel=1e-6)
    alone = three.create(str(tmp_path / "one"), owners=three.owners[:1])
    assert {name for name, _, _ in alone.prices()} == {"trusted", "files"}


def test_who_is_trusted_depends_on_who_may_collude(three, tmp_path):
    asked = {"exchange": "secure-sum", "owners": reachable(three.folder / "keys")}
    told = {t: three.create(str(tmp_path / f"t{t}"), colluders=t, **asked).trust_model for t in (0, 1, 2)}
    assert "is not an owner" in told[0]
    assert "even if one owner uses all that it knows" in told[1]
    assert "even if up to 2 owners share all that they know" in told[2]
    told = three.create(str(tmp_path / "d"), dropouts=1, **asked).trust_model
    assert "also holds if 1 of the owners dropped out" in told
