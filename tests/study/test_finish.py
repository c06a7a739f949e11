"""Finishing: the sum, its noise, the student and its statement; owners that drop out, shares that are none."""

import json
import re
import shutil

import numpy as np
import pandas as pd
import pytest

from ostrakon.data.checksummed import npy, write_checksummed
from ostrakon.options.options import Options
from ostrakon.options.report_details import ReportDetails
from ostrakon.report.release import publish
from ostrakon.run import noise_log
from ostrakon.run.inputs.tables import task_from_tables
from ostrakon.run.pipeline import run
from ostrakon.study import finish_study, join_study
from ostrakon.study.tables import read_shares
from ostrakon.validation import InvalidInput


def all_join(study, three, shares, owners=("north", "south", "west")):
    for owner in owners:
        keep = shares.with_name(f"{shares.name}-{owner}")
        join_study(study, three.table(owner), owner=owner, by="patient", keep=keep, shares=shares)
    return shares


@pytest.fixture(scope="module")
def trusted(three):
    study = three.create("trusted")
    return study, all_join(study, three, three.folder / "trusted-shares")


@pytest.fixture(scope="module")
def files(three):
    study = three.create("files", exchange="files")
    return study, all_join(study, three, three.folder / "files-shares")


def noise_of(outcome, study, shares):
    exact = sum(read_shares(shares, study).values())
    return outcome.answers.counts - exact


@pytest.mark.slow
def test_a_trusted_study_says_what_one_run_on_all_rows_says(three, trusted, tmp_path):
    """The same votes, so with the same noise the same counts, guarantee and accuracy, to the last bit."""
    study, shares = trusted
    shutil.copytree(shares, tmp_path / "shares")
    seeded = {"rng": np.random.default_rng(7)}
    outcome = finish_study(
        study, shares=tmp_path / "shares", out=tmp_path / "a", test=three.folder / "test.csv", **seeded
    )
    files = {"test": three.folder / "test.csv", "target": "ill", "by": "patient", "classes": ["no", "yes"]}
    task = task_from_tables(three.folder / "all.csv", three.folder / "pool.csv", **files)
    options = Options(
        parameters={"sigma2": study.mechanism.sigma2},
        mechanism="bounded-gnmax",
        delta=1e-5,
        queries=8,
        student="logistic",
    )
    central = run(tmp_path / "b", task, options, rng=np.random.default_rng(7))
    assert np.array_equal(outcome.queries, central.queries)
    assert np.array_equal(outcome.answers.counts, central.answers.counts)
    assert outcome.plan.bound.epsilon == central.plan.bound.epsilon
    assert outcome.accuracy == central.accuracy
    # Noise from an ordinary generator is claimed by nobody.
    assert not outcome.statement.private


@pytest.mark.slow
def test_an_aggregators_noise_is_drawn_once(trusted, tmp_path):
    study, shares = trusted
    shutil.copytree(shares, tmp_path / "shares")
    where = {"shares": tmp_path / "shares"}
    first = finish_study(study, out=tmp_path / "one", **where)
    assert first.statement.private
    assert abs(noise_of(first, study, shares)).max() < 7 * study.mechanism.sigma2
    again = finish_study(study, out=tmp_path / "one", **where)
    assert np.array_equal(again.answers.counts, first.answers.counts)
    with pytest.raises(InvalidInput, match="summed and noised in another folder"):
        finish_study(study, out=tmp_path / "two", **where)
    with pytest.raises(InvalidInput, match="holds another run"):
        finish_study(study, out=tmp_path / "one", without=["west"], **where)


@pytest.mark.slow
def test_noised_tables_are_summed_and_nothing_is_drawn(files, tmp_path):
    study, shares = files
    outcome = finish_study(study, shares=shares, out=tmp_path / "one")
    assert np.array_equal(outcome.answers.counts * 1024, sum(read_shares(shares, study).values()))
    assert not (tmp_path / "one" / "private" / "noise").exists()
    assert outcome.statement.guarantee.epsilon <= 3


@pytest.mark.slow
def test_equal_noisy_counts_give_equal_bytes_whatever_the_owners_have(three, trusted, tmp_path, monkeypatch):
    """The taint contract of runs (`tests/run/test_taint.py`), for a study."""
    study, shares = trusted
    rng, releases = np.random.default_rng(3), []
    for owner in ("north", "south", "west"):
        table = pd.read_csv(three.table(owner)).assign(town="Nowhere at all")
        table["age"], table["ill"] = table["age"] * 777, rng.choice(["no", "yes"], len(table), p=[0.1, 0.9])
        table.to_csv(tmp_path / f"patients of {owner}.csv", index=False)
        where = {"keep": tmp_path / owner, "shares": tmp_path / "others"}
        join_study(study, tmp_path / f"patients of {owner}.csv", owner=owner, by="patient", **where)
    shutil.copytree(shares, tmp_path / "shares")
    assert not np.array_equal(*(sum(read_shares(tmp_path / each, study).values()) for each in ("shares", "others")))
    same = np.random.default_rng(7).integers(-3000, 30_000, (8, 2))
    monkeypatch.setattr(noise_log, "sample_capped", lambda votes, mechanism, rng, max_answers=None: same)
    for each in ("shares", "others"):
        release = publish(finish_study(study, shares=tmp_path / each, out=tmp_path / f"run of {each}"))
        releases.append({path.name: path.read_bytes() for path in release.iterdir()})
    assert releases[0] == releases[1]


@pytest.mark.parametrize("kind", ["trusted", "files"])
def test_the_statement_says_whom_to_trust(kind, request, tmp_path):
    study, shares = request.getfixturevalue(kind)
    shutil.copytree(shares, tmp_path / "shares")
    release = publish(finish_study(study, shares=tmp_path / "shares", out=tmp_path / "run"))
    said = json.loads((release / "statement.json").read_text())
    assert said["trust_model"] == study.exchange.trust_model
    assert "semi-honest" in said["trust_model"]
    assert said["unit_of_privacy"] == "user"
    assert said["guarantee"]["epsilon"] <= 3
    assert "one person, at the one owner" in said["adjacency"]
    assert any("who the owners are" in each for each in said["not_covered"])
    assert not any(each.startswith("the operator,") for each in said["not_covered"])
    assert said["epsilon_by_adjacency"][1]["epsilon"] < said["guarantee"]["epsilon"]
    assert ("floating" in said["implementation"]["floating_point"]) == (kind == "files")
    assert ("OpenDP" in said["implementation"]["noise"]) == (kind == "files")
    card = (release / "model_card.md").read_text()
    assert "trust" in card
    for text in (card, (release / "report.html").read_text()):
        assert "Owners may have recorded it in their own ledgers." in text
        assert "ledger recorded" not in text


def test_numbers_of_patients_do_not_leave(three, trusted, tmp_path):
    """Only announced ones: a release is the same whatever the owners' true numbers are."""
    study, shares = trusted
    shutil.copytree(shares, tmp_path / "shares")
    release = publish(finish_study(study, shares=tmp_path / "shares", out=tmp_path / "run"))
    true = sum(table["patient"].nunique() for table in three.tables.values())
    for name in ("statement.json", "registry.json", "model_card.md"):
        text = (release / name).read_text()
        assert not re.search(rf"\b{true}\b", text.replace(",", ""))
        assert "990" in text.replace(",", "")


def test_an_owner_that_drops_out_is_named_and_may_be_left_out(three, files, tmp_path):
    study, _ = files
    two = all_join(study, three, tmp_path / "two", owners=("north", "west"))
    with pytest.raises(InvalidInput, match=r"lacks the share of south; wait for it, or finish without"):
        finish_study(study, shares=two, out=tmp_path / "run")
    outcome = finish_study(study, shares=two, out=tmp_path / "run", without=["south"])
    # Each share has the noise it had: the sum has less, and protects as before.
    asked = outcome.answers.rounds[0].mechanism
    assert asked.share_sigma == pytest.approx(study.mechanism.share_sigma, rel=1e-12)
    assert asked.owners == 2
    assert outcome.statement.guarantee.epsilon == pytest.approx(study.plan().bound.epsilon, rel=1e-9)
    release = publish(outcome)
    told = "south dropped out: nothing of its data is in this release, to which north, west contributed"
    assert told in json.loads((release / "statement.json").read_text())["trust_model"]
    card = (release / "model_card.md").read_text()
    assert f"**Whose data are missing.** {told}." in card
    assert card.count(told) == 2  # the first page, and who is trusted
    assert "the numbers of people that the owners announced; it is not a count." in card
    with pytest.raises(InvalidInput, match="without must be one of this study's"):
        finish_study(study, shares=two, out=tmp_path / "run", without=["east"])


def test_a_trusted_sum_without_an_owner_has_all_its_noise(three, trusted, tmp_path):
    study, _ = trusted
    two = all_join(study, three, tmp_path / "two", owners=("north", "west"))
    outcome = finish_study(study, shares=two, out=tmp_path / "run", without=["south"])
    assert outcome.answers.rounds[0].mechanism == study.mechanism
    with pytest.raises(InvalidInput, match="holds no share"):
        finish_study(study, shares=tmp_path / "none", out=tmp_path / "x", without=["north", "south", "west"])


def test_shares_of_another_study_are_refused(three, trusted, files, tmp_path):
    with pytest.raises(InvalidInput, match="made for another study, or another version of this one"):
        finish_study(files[0], shares=trusted[1], out=tmp_path / "run")


@pytest.mark.parametrize(
    "changes",
    [{"epsilon": 4.0}, {"classes": ["yes", "no"]}, {"owners": "reordered"}, {"report": ReportDetails(purpose="Sale")}],
    ids=lambda changes: next(iter(changes)),
)
def test_a_study_that_is_replaced_after_owners_have_joined_is_refused_by_all(three, files, tmp_path, changes):
    study, shares = files
    if "owners" in changes:
        changes = {"owners": three.owners[::-1]}
    other = three.create(str(tmp_path / "study"), exchange="files", **changes)
    with pytest.raises(InvalidInput, match=r"north\.share was made for another study, or another version of this one"):
        finish_study(other, shares=shares)
    own = {"owner": "north", "by": "patient", "keep": shares.with_name(f"{shares.name}-north"), "shares": shares}
    with pytest.raises(InvalidInput, match="another"):
        join_study(other, three.table("north"), **own)
    with pytest.raises(InvalidInput, match="expect must be the study's hash"):
        join_study(other, three.table("north"), expect=study.hash, **own)


def test_whose_a_share_is_stands_in_it_and_not_in_its_name(files, tmp_path):
    shutil.copytree(files[1], tmp_path / "shares")
    (tmp_path / "shares" / "north.share").rename(tmp_path / "shares" / "x")
    (tmp_path / "shares" / "south.share").rename(tmp_path / "shares" / "north.share")
    (tmp_path / "shares" / "x").rename(tmp_path / "shares" / "south.share")
    right, swapped = (read_shares(folder, files[0]) for folder in (files[1], tmp_path / "shares"))
    assert all(np.array_equal(right[name], swapped[name]) for name in ("north", "south", "west"))


def forged(study, path, table, **changes):
    belongs = {"study": study.hash, "owner": "north", **changes}
    write_checksummed(path, npy(table), what="an owner's share", belongs=belongs)


@pytest.mark.parametrize(
    ("table", "changes", "sentence"),
    [
        (np.zeros((8, 3), np.int64), {}, r"must hold whole numbers of shape \(8, 2\)"),
        (np.zeros((8, 2)), {}, "must hold whole numbers"),
        (np.full((8, 2), -1), {}, "must hold counts from 0"),
        (np.full((8, 2), 2**60), {}, "must hold counts from 0"),
        (np.zeros((8, 2), np.int64), {"owner": "east"}, "owner must be one of this study's"),
        (np.zeros((8, 2), np.int64), {"owner": None}, "owner must be one of this study's"),
    ],
)
def test_a_table_that_no_owner_counts_is_refused(trusted, tmp_path, table, changes, sentence):
    forged(trusted[0], tmp_path / "x.share", table, **changes)
    with pytest.raises(InvalidInput, match=sentence):
        read_shares(tmp_path, trusted[0])


def test_a_share_that_holds_no_table_is_refused(trusted, tmp_path):
    belongs = {"study": trusted[0].hash, "owner": "north"}
    write_checksummed(tmp_path / "x.share", b"no table", what="an owner's share", belongs=belongs)
    with pytest.raises(InvalidInput, match="must hold a table of whole numbers, and it holds something else"):
        read_shares(tmp_path, trusted[0])


def test_two_shares_of_one_owner_and_damaged_ones_are_refused(trusted, tmp_path):
    study, shares = trusted
    shutil.copy(shares / "north.share", tmp_path / "again.share")
    shutil.copy(shares / "north.share", tmp_path / "north.share")
    with pytest.raises(InvalidInput, match="is a second share of north"):
        read_shares(tmp_path, study)
    content = bytearray((tmp_path / "again.share").read_bytes())
    content[200] ^= 1
    (tmp_path / "again.share").write_bytes(bytes(content))
    with pytest.raises(InvalidInput, match="damaged"):
        read_shares(tmp_path, study)


def test_a_ledger_belongs_where_an_owner_joins(trusted):
    from ostrakon.study.finish import People

    with pytest.raises(InvalidInput, match="where each of them joins"):
        People(people=3, owners_per_person=1).fingerprint(b"")
