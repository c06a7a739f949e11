"""Joining: what is counted, what is handed over, and what is refused."""

import shutil

import numpy as np
import pandas as pd
import pytest

from ostrakon.ledger.ledger import Ledger
from ostrakon.study import Study, join_study
from ostrakon.study.join import handed_over
from ostrakon.study.tables import read_share
from ostrakon.validation import InvalidInput
from ostrakon.votes import STEPS


@pytest.fixture(scope="module")
def trusted(three):
    return three.create("trusted")


@pytest.fixture(scope="module")
def files(three):
    return three.create("files", exchange="files")


def joined(study, three, owner, tmp_path, table=None, **others):
    where = {"keep": tmp_path / f"keep-{owner}", "shares": tmp_path / "shares", **others}
    return join_study(study, three.table(owner) if table is None else table, owner=owner, by="patient", **where)


def nearest_counts(study, table):
    """Written again, plainly: every patient votes at the representative that most of its rows are nearest to."""
    view = study.view()
    rows = study.pool.columns.apply(table[list(study.pool.features)])
    features = np.asarray(view.transform(rows), float)
    place = ((features[:, None] - study.features[None]) ** 2).sum(axis=2).argmin(axis=1)
    counts = np.zeros((len(study.queries), 2), int)
    for _, own in pd.DataFrame({"who": table["patient"], "at": place, "y": table["ill"] == "yes"}).groupby("who"):
        at = own["at"].value_counts().sort_index().idxmax()
        counts[at, int(own["y"][own["at"] == at].mean() > 0.5)] += 1
    return counts


def test_an_owner_hands_over_one_vote_a_patient(trusted, three, tmp_path):
    done = joined(trusted, three, "north", tmp_path)
    owner, table = read_share(done.share, trusted)
    assert owner == "north"
    assert table.sum() == three.tables["north"]["patient"].nunique()
    assert np.array_equal(table, nearest_counts(trusted, three.tables["north"]))
    # Exact counts are for the aggregator alone.
    assert done.share.stat().st_mode & 0o077 == 0


def test_a_noised_share_is_the_counts_and_noise_that_does_it_all_alone(files, three, tmp_path):
    table = read_share(joined(files, three, "north", tmp_path).share, files)[1]
    noise = table - STEPS * nearest_counts(files, three.tables["north"])
    assert np.abs(noise).max() < 7 * files.mechanism.share_sigma
    assert np.abs(noise).max() > 0.3 * files.mechanism.share_sigma
    assert (table % STEPS != 0).any()


def test_joining_twice_hands_over_the_same_noise(files, three, tmp_path):
    first = joined(files, three, "south", tmp_path)
    before = first.share.read_bytes()
    assert joined(files, three, "south", tmp_path).share.read_bytes() == before
    # Lost on its way, it is written again, from the noise log.
    first.share.unlink()
    assert joined(files, three, "south", tmp_path).share.read_bytes() == before


def test_killed_after_noise_was_drawn_it_goes_on_with_that_noise(files, three, tmp_path, monkeypatch):
    from ostrakon.study import join

    def killed(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(join, "write_share", killed)
        with pytest.raises(KeyboardInterrupt):
            joined(files, three, "west", tmp_path)
    drawn = np.load(tmp_path / "keep-west" / "private" / "noise" / "share.npy")
    assert np.array_equal(read_share(joined(files, three, "west", tmp_path).share, files)[1], drawn)


def test_without_its_noise_log_an_owner_does_not_draw_again(files, three, tmp_path):
    joined(files, three, "north", tmp_path)
    shutil.rmtree(tmp_path / "keep-north" / "private" / "noise")
    with pytest.raises(InvalidInput, match="drawing again would cost privacy twice"):
        joined(files, three, "north", tmp_path)


def test_joining_again_with_other_data_is_refused(files, three, tmp_path):
    joined(files, three, "north", tmp_path)
    with pytest.raises(InvalidInput, match=r"holds a run on other data .*; give the same files\.$"):
        joined(files, three, "north", tmp_path, table=three.table("south"))
    with pytest.raises(InvalidInput, match="north has joined already, with another table"):
        joined(files, three, "north", tmp_path, table=three.table("south"), keep=tmp_path / "another")


def test_another_version_of_the_study_is_refused_where_one_was_joined(three, trusted, tmp_path):
    joined(trusted, three, "north", tmp_path)
    later = three.create("later", epsilon=2.5)
    with pytest.raises(InvalidInput, match=r"holds another run .*study was .*; repeat its settings\.$"):
        joined(later, three, "north", tmp_path)


def test_the_hash_that_was_signed_off_is_asked_for(trusted, three, tmp_path):
    with pytest.raises(InvalidInput, match="expect must be the study's hash"):
        joined(trusted, three, "north", tmp_path, expect="0" * 64)
    with pytest.raises(InvalidInput, match="first 12 digits"):
        joined(trusted, three, "north", tmp_path, expect=trusted.hash[:6])
    assert not (tmp_path / "keep-north").exists()
    joined(trusted, three, "north", tmp_path, expect=trusted.hash[:12])


def test_columns_may_stand_in_another_order(trusted, three, tmp_path):
    three.tables["north"][["patient", "ill", "town", "age"]].to_csv(tmp_path / "order.csv", index=False)
    first = read_share(joined(trusted, three, "north", tmp_path).share, trusted)[1]
    other = {"keep": tmp_path / "k2", "shares": tmp_path / "s2"}
    again = joined(trusted, three, "north", tmp_path, table=tmp_path / "order.csv", **other)
    assert np.array_equal(read_share(again.share, trusted)[1], first)


def test_an_owner_with_one_class_and_rows_near_few_representatives_joins(trusted, three, tmp_path):
    whole = three.tables["north"]
    some = whole[(whole["ill"] == "yes") & (whole["age"] > 80) & (whole["town"] == "Ulm")]
    some.to_csv(tmp_path / "some.csv", index=False)
    table = read_share(joined(trusted, three, "north", tmp_path, table=tmp_path / "some.csv").share, trusted)[1]
    assert table.sum() == some["patient"].nunique()
    assert (table.sum(axis=1) == 0).any()
    assert table[:, 0].sum() == 0


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda t: t.drop(columns="town"), "has no column 'town', which the study uses"),
        (lambda t: t.assign(extra=1), "must have the study's columns and 'patient' alone, and it has 'extra', too"),
        (lambda t: t.drop(columns="ill"), "target column"),
        (lambda t: t.drop(columns="patient"), "column of users"),
        (
            lambda t: t.assign(ill=t["ill"].replace("yes", "perhaps")),
            "label of the private target 'ill' does not occur in",
        ),
        (lambda t: t.assign(ill=t["ill"].where(t["age"] > 30)), "is missing in .* rows"),
        (lambda t: t.assign(patient=t["patient"].where(t["age"] > 30)), "column of users 'patient' is missing"),
        (lambda t: t[:0], "row"),
    ],
)
def test_a_table_that_does_not_fit_is_refused_before_anything_is_kept(trusted, three, tmp_path, change, sentence):
    change(three.tables["north"]).to_csv(tmp_path / "odd.csv", index=False)
    with pytest.raises(InvalidInput, match=sentence):
        joined(trusted, three, "north", tmp_path, table=tmp_path / "odd.csv")
    assert not (tmp_path / "shares").exists()
    assert not (tmp_path / "keep-north").exists()


def test_nobody_joins_who_is_no_owner(trusted, three, tmp_path):
    with pytest.raises(InvalidInput, match="owner must be one of this study's, north, south, west, got 'east'"):
        join_study(trusted, three.table("north"), owner="east", by="patient", keep=tmp_path / "k")


def test_a_changed_study_is_refused(trusted, three, tmp_path):
    shutil.copytree(trusted.folder, tmp_path / "changed")
    with open(tmp_path / "changed" / "pool.csv", "a") as file:
        file.write("40,Ulm\n")
    with pytest.raises(InvalidInput, match=r"pool\.csv was changed after the study was created"):
        join_study(tmp_path / "changed", three.table("north"), owner="north", by="patient", keep=tmp_path / "k")


def test_an_owner_is_told_what_leaves(trusted, files):
    told = handed_over(files, "north")
    assert files.hash in told["Study"]
    assert "8 public rows x 2 classes" in told["What leaves"]
    assert "noised already" in told["What it is"]
    assert "times what a trusted aggregator would need" in told["Noise"]
    assert "aggregator alone" in handed_over(trusted, "north")["What it is"]


@pytest.mark.slow
def test_what_a_study_costs_is_reserved_in_the_owners_ledger(files, three, tmp_path):
    url = f"sqlite:///{tmp_path / 'budget.db'}"
    spend = {"ledger": url, "budget": 4.0}
    done = joined(files, three, "north", tmp_path, ledger=spend)
    assert done.share.exists()
    (account,) = Ledger(url).accounts().values()
    assert 1 < account.remaining() < 2.8
    (spent,) = account.spends
    assert spent.settled
    # The same table a second time costs nothing more, and another study does not fit.
    joined(files, three, "north", tmp_path, ledger=spend)
    assert len(Ledger(url).accounts()[account.name].spends) == 1
    more = three.create("more", exchange="files", epsilon=2.8)
    where = {"keep": tmp_path / "more", "shares": tmp_path / "more-shares"}
    with pytest.raises(InvalidInput, match="remains"):
        joined(more, three, "north", tmp_path, ledger={"ledger": url}, **where)
    assert not (tmp_path / "more-shares").exists()


def test_a_study_is_read_from_its_folder(trusted, three, tmp_path):
    done = joined(trusted.folder, three, "north", tmp_path)
    assert read_share(done.share, Study.read(trusted.folder))[0] == "north"
