"""The ledger as its users see it, and what it refuses: other caps, other neighbours, tampered and older copies."""

import json
import os
import re
import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from ostrakon.ledger import ledger as module
from ostrakon.ledger.chain import Tampered
from ostrakon.ledger.cost import Cost
from ostrakon.ledger.filter import Filter, mu_within
from ostrakon.ledger.fits import Refused
from ostrakon.ledger.ledger import Ledger, Receipt
from ostrakon.ledger.location import require_url
from ostrakon.ledger.store import make_engine
from ostrakon.validation import InvalidInput

HOW = {"unit": "record", "relation": "replace"}
CAP = {"epsilon": 2.0, "delta": 1e-5}
SMALL = Cost.of(mu=0.1)


@pytest.fixture
def opened(sqlite) -> Ledger:
    ledger = Ledger(sqlite)
    ledger.open("patients", **CAP)
    return ledger


@pytest.mark.slow
def test_runs_add_up_as_curves_until_the_cap(url):
    ledger = Ledger(url)
    account = ledger.open("patients", **CAP)
    third = Cost.of(mu=account.cap.mu / 3**0.5 * (1 - 1e-9))
    for number in range(3):
        ledger.reserve("patients", f"run {number}", third, **HOW)
    held = ledger.account("patients")
    # Three times the epsilon of a third, added up, would be far above it.
    assert 1.99 < held.spent <= 2
    assert held.remaining() == 0
    sentence = r"would pass the cap of account 'patients' \(epsilon 2 at delta 1e-05, gaussian, replace of one record\)"
    with pytest.raises(Refused, match=sentence + ": nothing remains"):
        ledger.reserve("patients", "one more", SMALL, **HOW)
    assert ledger.account("patients") == held


def test_a_refusal_says_that_the_account_charges_more_than_the_epsilon_of_the_run(opened):
    with pytest.raises(Refused, match=r"epsilon 2 remains .*, but an account of this kind charges this run more"):
        opened.reserve("patients", "dearer", Cost.of(mu=3.0), epsilon=1.5, delta=1e-5, **HOW)


def test_what_a_refusal_offers_fits(opened):
    opened.reserve("patients", "first", Cost.of(mu=0.3), **HOW)
    with pytest.raises(Refused, match=r"epsilon 1\.9 would pass") as refused:
        opened.reserve("patients", "second", Cost.of(mu=0.49), epsilon=1.9, delta=1e-6, **HOW)
    offered = re.search(r"epsilon (\S+) remains for a run at delta 1e-06", str(refused.value))
    left = Cost.of(mu=mu_within(float(offered[1]), 1e-6))
    opened.reserve("patients", "third", left, **HOW)
    assert opened.account("patients").remaining() < 0.05


def test_a_filter_made_by_hand_opens_nothing(opened):
    roomy = Filter(epsilon=1.0, delta=1e-6, kind="pure", order=None, mu=50.0, rho=None, failure=0.9)
    with pytest.raises(InvalidInput, match="mu of the cap must be at most None"):
        opened.open("roomy", cap=roomy)
    with pytest.raises(InvalidInput, match="failure of the cap must be at most 1e-06"):
        opened.open("roomy", cap=replace(roomy, mu=None))


@pytest.mark.parametrize("held", ["\u00e9", "", "x"])
def test_a_hash_that_is_none_is_told_as_tampering(opened, sqlite, held):
    with sqlite3.connect(sqlite.removeprefix("sqlite:///")) as connection:
        connection.execute("UPDATE ostrakon_entries SET hash = ?", (held,))
    with pytest.raises(Tampered, match="is not as it was written"):
        opened.accounts()


SQLITE_TRIGGERS = {
    "entry": "AFTER INSERT ON ostrakon_entries BEGIN DELETE FROM ostrakon_entries WHERE sequence = NEW.sequence; END",
    "update": "BEFORE UPDATE ON ostrakon_ledger BEGIN DELETE FROM ostrakon_entries WHERE sequence > OLD.sequence; "
    "SELECT RAISE(IGNORE); END",
    "after": "AFTER UPDATE ON ostrakon_ledger WHEN NEW.sequence > OLD.sequence BEGIN UPDATE ostrakon_ledger SET "
    "sequence = OLD.sequence, hash = OLD.hash, state = OLD.state, seal = OLD.seal; "
    "DELETE FROM ostrakon_entries WHERE sequence > OLD.sequence; END",
}


@pytest.mark.parametrize("trigger", SQLITE_TRIGGERS)
def test_a_database_that_does_not_keep_what_is_written_reserves_nothing(opened, sqlite, trigger):
    with sqlite3.connect(sqlite.removeprefix("sqlite:///")) as connection:
        connection.execute(f"CREATE TRIGGER t {SQLITE_TRIGGERS[trigger]}")
    for run in ("run", "another"):
        with pytest.raises(Tampered, match="does not keep what is written"):
            opened.reserve("patients", run, SMALL, **HOW)


POSTGRESQL_TRIGGERS = {
    "update": "CREATE TRIGGER t BEFORE UPDATE ON ostrakon_ledger",
    "end": "CREATE CONSTRAINT TRIGGER t AFTER UPDATE ON ostrakon_ledger DEFERRABLE INITIALLY DEFERRED",
}


@pytest.mark.parametrize("kind", POSTGRESQL_TRIGGERS)
def test_a_server_that_undoes_what_is_written_reserves_nothing(postgresql, kind):
    opened = Ledger(postgresql)
    opened.open("patients", **CAP)
    change_ = (
        "CREATE FUNCTION undo() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "DELETE FROM ostrakon_entries WHERE sequence > OLD.sequence; RETURN NULL; END $$"
    )
    with make_engine(postgresql).begin() as connection:
        connection.exec_driver_sql(change_)
        connection.exec_driver_sql(f"{POSTGRESQL_TRIGGERS[kind]} FOR EACH ROW EXECUTE FUNCTION undo()")
    for run in ("run", "another"):
        with pytest.raises(Tampered, match="does not keep what is written"):
            opened.reserve("patients", run, SMALL, **HOW)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE ostrakon_ledger SET state = cast(state AS blob)",
        "UPDATE ostrakon_ledger SET hash = cast(hash AS blob)",
        "UPDATE ostrakon_ledger SET state = cast(x'ff' AS text)",
        "UPDATE ostrakon_ledger SET sequence = cast('a' AS blob)",
        "UPDATE ostrakon_entries SET hash = cast(hash AS blob)",
        "INSERT INTO ostrakon_ledger SELECT 3, identity, key, sequence, hash, state, seal FROM ostrakon_ledger",
    ],
)
def test_values_of_other_types_and_further_rows_are_tampering(opened, statement):
    change(opened, statement)
    for use in (opened.accounts, lambda: opened.reserve("patients", "run", SMALL, **HOW)):
        with pytest.raises(Tampered, match=r"is not as it was written"):
            use()


def test_a_damaged_head_or_lock_is_told_as_tampering(opened):
    head = file_of(opened).with_name("budget.db.head")
    whole = json.loads(head.read_text())
    head.write_text(json.dumps({**whole, "seal": "\ud800"}))
    with pytest.raises(Tampered, match="was changed, or belongs to another key"):
        opened.accounts()
    head.write_text(json.dumps(whole))
    lock = head.with_name("budget.db.head.lock")
    lock.unlink(missing_ok=True)
    lock.mkdir()
    with pytest.raises(Tampered, match=r"head\.lock must be a file that can be locked"):
        opened.reserve("patients", "run", SMALL, **HOW)
    lock.rmdir()
    opened.reserve("patients", "run", SMALL, **HOW)
    assert opened.balance("patients").total.runs == 1


def test_its_files_are_for_their_owner_alone(opened):
    kept = {file.name: file.stat().st_mode & 0o777 for file in file_of(opened).parent.glob("budget.db*")}
    assert {"budget.db", "budget.db.key", "budget.db.head"} <= set(kept)
    assert set(kept.values()) == {0o600}


def test_only_its_own_receipt_settles_a_run(opened):
    first = opened.reserve("patients", "one", SMALL, **HOW)
    second = opened.reserve("patients", "two", SMALL, **HOW)
    mixed = Receipt(ledger=first.ledger, account="patients", run="two", sequence=first.sequence, hash=first.hash)
    unknown = Receipt(ledger=first.ledger, account="patients", run="three", sequence=first.sequence, hash=first.hash)
    for wrong in (mixed, unknown):
        with pytest.raises(InvalidInput, match="receipt must be of the entry in which run"):
            opened.settle(wrong, "drawn")
    for bad in (None, "receipt", Receipt(**{**second.as_dict(), "sequence": True})):
        with pytest.raises(InvalidInput, match="receipt must be one that reserve gave"):
            opened.settle(bad, "drawn")
    assert not any(each.settled for each in opened.account("patients").spends)


@pytest.mark.parametrize("bad", [float("nan"), b"x", -1, True, [1], {}, None, ""])
def test_bad_words_are_refused_by_name(opened, bad):
    for told, use in {
        "account": lambda: opened.account(bad),
        "fingerprint": lambda: opened.bind("patients", bad),
        "run": lambda: opened.reserve("patients", bad, SMALL, **HOW),
        "drawn": lambda: opened.settle(opened.reserve("patients", "run", SMALL, **HOW), bad),
    }.items():
        with pytest.raises(InvalidInput, match=f"^{told} must be"):
            use()


def test_a_run_reserves_once_and_settles_once(opened):
    first = opened.reserve("patients", "run", SMALL, what="a run", **HOW)
    again = opened.reserve("patients", "run", SMALL, **HOW)
    assert first == again
    assert Receipt.of_dict(json.loads(json.dumps(first.as_dict()))) == first
    assert not opened.account("patients").spends[0].settled
    opened.settle(first, "drawn")
    opened.settle(first, "drawn")
    with pytest.raises(InvalidInput, match="has drawn its noise already, in another copy"):
        opened.settle(first, "drawn again")
    assert [link.fields["event"] for link in opened.entries()] == ["open", "reserve", "settle"]
    with pytest.raises(InvalidInput, match=r"run run has reserved another cost, .* plan was changed, or another"):
        opened.reserve("patients", "run", Cost.of(mu=0.2), **HOW)
    opened.open("others", **CAP)
    with pytest.raises(InvalidInput, match="run run has its reservation in another account of this ledger"):
        opened.reserve("others", "run", SMALL, **HOW)


def test_other_neighbours_are_not_added(opened):
    for other in ({**HOW, "relation": "add-remove"}, {**HOW, "unit": "user"}):
        with pytest.raises(InvalidInput, match="they cannot be added"):
            opened.reserve("patients", "run", SMALL, **other)
    assert not opened.account("patients").spends


def test_a_cap_is_fixed_when_it_is_opened(opened):
    assert opened.open("patients", **CAP).cap == Filter.create(**CAP)
    for other in ({"epsilon": 3.0}, {"delta": 1e-6}, {"kind": "mixed"}, {"unit": "user"}, {"relation": "add-remove"}):
        with pytest.raises(InvalidInput, match="must keep the cap that it was opened with"):
            opened.open("patients", **{**CAP, **other})


def test_data_have_one_account(opened):
    assert opened.open("bound", **CAP, fingerprint="a" * 64).fingerprints == ("a" * 64,)
    with pytest.raises(InvalidInput, match="have an account already, 'bound'"):
        opened.open("again", **CAP, fingerprint="a" * 64)
    with pytest.raises(InvalidInput, match="is bound to other data"):
        opened.open("bound", **CAP, fingerprint="b" * 64)
    assert opened.bind("bound", "b" * 64).fingerprints == ("a" * 64, "b" * 64)
    with pytest.raises(InvalidInput, match="have an account already, 'bound'"):
        opened.bind("patients", "b" * 64)


def test_a_closed_account_stays_closed(opened):
    receipt = opened.reserve("patients", "run", SMALL, **HOW)
    assert opened.close("patients").closed
    assert opened.close("patients").remaining() == 0
    with pytest.raises(InvalidInput, match="'patients' is closed"):
        opened.reserve("patients", "other", SMALL, **HOW)
    assert opened.reserve("patients", "run", SMALL, **HOW) == receipt
    opened.settle(receipt, "drawn")


def test_failures_have_a_budget_of_their_own(opened):
    opened.open("gates", **CAP, kind="mixed")
    gate = Cost.of(pure=0.1, failure=4e-7)
    opened.reserve("gates", "one", gate, **HOW)
    opened.reserve("gates", "two", gate, **HOW)
    with pytest.raises(Refused, match=r"may fail with probability 4e-07.* has 2e-07 left for that"):
        opened.reserve("gates", "three", gate, **HOW)
    with pytest.raises(Refused, match="has 0 left for that"):
        opened.reserve("patients", "gate", gate, **HOW)


def test_the_order_is_not_the_clocks(opened, monkeypatch):
    stamps = iter(["2031-01-01T00:00:00+00:00", "1999-12-31T23:59:59+00:00", "2020-06-01T00:00:00+00:00"])
    monkeypatch.setattr(module, "_now", lambda: next(stamps))
    for number in range(3):
        opened.reserve("patients", f"run {number}", SMALL, **HOW)
    spends = opened.account("patients").spends
    assert [each.run for each in spends] == ["run 0", "run 1", "run 2"]
    assert [each.sequence for each in spends] == [2, 3, 4]
    assert [each.when[:4] for each in spends] == ["2031", "1999", "2020"]


def file_of(ledger: Ledger) -> Path:
    return Path(ledger.url.removeprefix("sqlite:///"))


def change(ledger: Ledger, statement: str) -> None:
    """Change its database as somebody does who may write it."""
    with make_engine(ledger.url).begin() as connection:
        assert connection.exec_driver_sql(statement).rowcount >= 1


TAMPERED = {
    "another run": "UPDATE ostrakon_entries SET content = replace(content, 'run 1', 'run x') WHERE sequence = 3",
    "a smaller cost": "UPDATE ostrakon_entries SET content = replace(content, '0.1', '0.01') WHERE sequence = 3",
    "another hash": "UPDATE ostrakon_entries SET hash = (SELECT hash FROM ostrakon_entries WHERE sequence = 2) "
    "WHERE sequence = 3",
    "one removed": "DELETE FROM ostrakon_entries WHERE sequence = 3",
    "the last removed": "DELETE FROM ostrakon_entries WHERE sequence = 4",
    "one put in": "INSERT INTO ostrakon_entries SELECT 5, run, content, hash FROM ostrakon_entries WHERE sequence = 4",
    "all removed": "DELETE FROM ostrakon_entries",
    "the first row gone": "DELETE FROM ostrakon_ledger",
    "another ledger's": "UPDATE ostrakon_ledger SET identity = 'other'",
    "less spent": "UPDATE ostrakon_ledger SET state = replace(state, '\"runs\": 3', '\"runs\": 1')",
    "an entry hidden": "UPDATE ostrakon_entries SET run = NULL WHERE sequence = 3",
    "the last one twice": "UPDATE ostrakon_entries SET sequence = 5 WHERE sequence = 4",
}
IN_THE_MIDDLE = {"another run", "a smaller cost", "another hash", "one removed", "an entry hidden"}


@pytest.mark.parametrize("name", TAMPERED)
def test_a_tampered_entry_is_noticed_before_anything_is_charged(url, name):
    opened = Ledger(url)
    opened.open("patients", **CAP)
    for number in range(3):
        opened.reserve("patients", f"run {number}", SMALL, **HOW)
    spent = opened.balance("patients").total
    change(opened, TAMPERED[name])
    for read in (opened.accounts, opened.entries, lambda: opened.reserve("patients", "run 0", SMALL, **HOW)):
        with pytest.raises(Tampered):
            read()
    if name in IN_THE_MIDDLE:
        # What was spent is in the sealed state, which no entry in the middle has a part in.
        opened.reserve("patients", "new", SMALL, **HOW)
        assert opened.balance("patients").total == spent.add(SMALL)
    else:
        for use in (lambda: opened.reserve("patients", "new", SMALL, **HOW), lambda: opened.open("new", **CAP)):
            with pytest.raises(Tampered):
                use()


def cut_tail(ledger: Ledger, *, to: int) -> None:
    """Delete every entry after `to`, and say in all that is not keyed that it is the last."""
    with sqlite3.connect(file_of(ledger)) as connection:
        (last,) = connection.execute("SELECT hash FROM ostrakon_entries WHERE sequence = ?", (to,)).fetchone()
        connection.execute("DELETE FROM ostrakon_entries WHERE sequence > ?", (to,))
        connection.execute("UPDATE ostrakon_ledger SET sequence = ?, hash = ?", (to, last))
    head = file_of(ledger).with_name("budget.db.head")
    head.write_text(json.dumps({**json.loads(head.read_text()), "sequence": to, "hash": last}))


def test_without_the_key_the_tail_cannot_be_cut(opened):
    for number in range(3):
        opened.reserve("patients", f"run {number}", SMALL, **HOW)
    cut_tail(opened, to=1)
    for use in (opened.accounts, lambda: opened.balance("patients"), lambda: opened.open("new", **CAP)):
        with pytest.raises(Tampered, match="does not belong to its last entry or to its key"):
            use()


def test_a_state_that_was_saved_does_not_fit_a_head_that_is_newer(opened):
    """Whoever has the files, and the database of an older day, but neither the key nor the head of that day."""
    place, head = file_of(opened), file_of(opened).with_name("budget.db.head")
    opened.reserve("patients", "run 0", SMALL, **HOW)
    older = place.read_bytes()
    opened.reserve("patients", "run 1", SMALL, **HOW)
    seen = json.loads(head.read_text())
    with sqlite3.connect(place) as connection:
        connection.execute("DELETE FROM ostrakon_entries WHERE sequence = 3")
        rows = connection.execute("SELECT hash FROM ostrakon_entries ORDER BY sequence").fetchall()
    place.write_bytes(older)
    for forged in (seen, {**seen, "sequence": 2, "hash": rows[-1][0]}, {**seen, "sequence": 0}, {}, []):
        head.write_text(json.dumps(forged))
        with pytest.raises(Tampered):
            opened.balance("patients")


def test_with_the_key_a_forged_state_is_noticed_when_the_entries_are_read(opened, monkeypatch):
    opened.reserve("patients", "run 0", SMALL, **HOW)
    with monkeypatch.context() as forger:
        forger.setattr("ostrakon.ledger.total.Total.add", lambda total, _: total)
        opened.reserve("patients", "run 1", SMALL, **HOW)
    assert opened.balance("patients").total.runs == 1
    with pytest.raises(Tampered, match="its entries do not add up to what it says was spent"):
        opened.accounts()


def test_a_run_whose_entry_is_hidden_draws_once_all_the_same(opened):
    receipt = opened.reserve("patients", "run", SMALL, **HOW)
    opened.settle(receipt, "drawn")
    change(opened, "UPDATE ostrakon_entries SET run = NULL")
    change(opened, "DELETE FROM ostrakon_entries WHERE sequence = 2")
    with pytest.raises(Tampered):
        opened.settle(receipt, "drawn again")
    opened.reserve("patients", "run", SMALL, **HOW)
    assert opened.balance("patients").total.runs == 2  # paid again: never less


def test_a_new_run_reads_no_entry_but_the_last(opened, monkeypatch):
    def refused(_: object) -> None:
        raise AssertionError("the whole chain was read")

    monkeypatch.setattr("ostrakon.ledger.turn.Turn.links", refused)
    receipts = [opened.reserve("patients", f"run {number}", SMALL, **HOW) for number in range(3)]
    opened.settle(receipts[0], "marginals", part="marginals")
    for receipt in receipts:
        opened.require_kept(receipt)
        opened.settle(receipt, "drawn")
    assert opened.balance("patients").total.runs == 3
    opened.close("patients")


class Killed(BaseException):
    """Nothing that a program catches."""


def test_a_ledger_that_was_killed_while_it_is_made_is_made_the_next_time(sqlite, tmp_path, monkeypatch):
    from ostrakon.data import files

    for writes in range(3):  # head, key, and after both
        left = [writes]

        def write(path, content, *, left=left, **how):
            if not left[0]:
                raise Killed
            left[0] -= 1
            files.write_atomically(path, content, **how)

        with monkeypatch.context() as killed:
            killed.setattr("ostrakon.ledger.location.write_atomically", write)
            killed.setattr("ostrakon.ledger.store.write_atomically", write)
            killed.setattr("ostrakon.ledger.store.State.of_text", write)
            with pytest.raises((Killed, TypeError)):
                Ledger(sqlite).open("patients", **CAP)
        assert len(list(tmp_path.glob("budget.db.*[dy]"))) == writes
    assert Ledger(sqlite).open("patients", **CAP).total.runs == 0
    # One that has seen entries is another matter.
    (tmp_path / "budget.db").unlink()
    with pytest.raises(Tampered, match="has seen entries that"):
        Ledger(sqlite).open("patients", **CAP)
    (tmp_path / "budget.db.head").unlink()
    with pytest.raises(Tampered, match="is of a ledger that is gone"):
        Ledger(sqlite).open("patients", **CAP)


def test_a_restored_copy_is_noticed_by_the_head_beside_it(opened):
    place = file_of(opened)
    shutil.copy(place, place.with_suffix(".old"))
    opened.reserve("patients", "run", SMALL, **HOW)
    os.replace(place.with_suffix(".old"), place)
    with pytest.raises(Tampered, match=r"no longer holds entry 2, which .*head has seen: it was restored"):
        opened.accounts()
    place.unlink()
    with pytest.raises(Tampered, match=r"has seen entries that .* does not hold"):
        opened.open("patients", **CAP)


def test_a_copy_restored_with_its_head_is_noticed_by_a_run(opened):
    place = file_of(opened)
    beside = [place, place.with_name(f"{place.name}.head")]
    held = {path: path.read_bytes() for path in beside}
    receipt = opened.reserve("patients", "run", SMALL, **HOW)
    opened.require_kept(receipt)
    for path, content in held.items():
        path.write_bytes(content)
    assert not opened.account("patients").spends  # nothing else can tell
    for use in (opened.require_kept, lambda receipt: opened.settle(receipt, "drawn")):
        with pytest.raises(Tampered, match="which run run has seen"):
            use(receipt)
    # Another run in its place is not it.
    opened.reserve("patients", "other", SMALL, **HOW)
    with pytest.raises(Tampered):
        opened.require_kept(receipt)


def test_a_server_restored_is_noticed_by_a_run(postgresql):
    import psycopg

    ledger = Ledger(postgresql)
    ledger.open("patients", **CAP)
    with psycopg.connect(postgresql) as connection:
        row = connection.execute("SELECT sequence, hash, state, seal FROM ostrakon_ledger").fetchone()
    receipt = ledger.reserve("patients", "run", SMALL, **HOW)
    with psycopg.connect(postgresql) as connection:
        connection.execute("DELETE FROM ostrakon_entries WHERE sequence = 2")
    with pytest.raises(Tampered, match="does not belong to its last entry"):
        ledger.require_kept(receipt)
    with psycopg.connect(postgresql) as connection:
        connection.execute("UPDATE ostrakon_ledger SET sequence = %s, hash = %s, state = %s, seal = %s", row)
    for use in (ledger.require_kept, lambda receipt: ledger.settle(receipt, "drawn")):
        with pytest.raises(Tampered, match="which run run has seen"):
            use(receipt)


@pytest.mark.parametrize("suffix", ["head", "key"])
def test_what_is_beside_a_ledger_must_stay(opened, suffix):
    beside = file_of(opened).with_name(f"budget.db.{suffix}")
    assert beside.stat().st_mode & 0o777 == 0o600
    beside.write_text("nothing\n")
    with pytest.raises(Tampered, match="gone or damaged"):
        opened.accounts()
    beside.unlink()
    with pytest.raises(Tampered, match="gone or damaged"):
        opened.accounts()
    # A pipe is not waited for.
    os.mkfifo(beside)
    with pytest.raises(Tampered, match="gone or damaged"):
        opened.accounts()


def test_another_key_does_not_fit(opened):
    file_of(opened).with_name("budget.db.key").write_text("00" * 32)
    with pytest.raises(Tampered, match="or to its key"):
        opened.accounts()


def test_killed_between_entry_and_head_nothing_is_refused(opened, monkeypatch):
    with monkeypatch.context() as killed:
        killed.setattr("ostrakon.ledger.location.Head.advance", lambda *_: None)
        opened.reserve("patients", "run", SMALL, **HOW)
    assert [each.run for each in opened.account("patients").spends] == ["run"]


def test_files_of_killed_writes_go_with_the_next_write_and_those_of_other_ledgers_stay(sqlite, tmp_path):
    def left(name):
        (tmp_path / f".{name}.a1b2.part").write_text("half")
        return tmp_path / f".{name}.a1b2.part"

    other, head, key = left("budget.db.2.head"), left("budget.db.head"), left("budget.db.key")
    ledger = Ledger(sqlite)
    ledger.open("patients", **CAP)
    assert (head.exists(), key.exists()) == (False, False)
    left("budget.db.head")
    ledger.accounts()
    assert head.exists()  # nothing is written
    ledger.reserve("patients", "run", SMALL, **HOW)
    assert not head.exists()
    assert other.exists()


def test_the_fingerprint_needs_the_key_and_the_file_does_not_hold_it(opened):
    seen = []
    first = opened.fingerprint(lambda key: seen.append(key) or "f" * 64)
    assert first == "f" * 64
    content = file_of(opened).read_bytes()
    assert seen[0] not in content
    assert seen[0].hex().encode() not in content
    assert seen[0].hex() != file_of(opened).with_name("budget.db.key").read_text().strip()


def test_a_ledger_that_is_not_there_is_not_made_by_looking(sqlite, tmp_path):
    for use in (Ledger(sqlite).accounts, lambda: Ledger(sqlite).account("x"), lambda: Ledger(sqlite).close("x")):
        with pytest.raises(InvalidInput, match="There is no ledger at sqlite"):
            use()
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_no_ledger_is_refused(sqlite, tmp_path):
    (tmp_path / "budget.db").write_bytes(b"something else " * 100)
    with pytest.raises(InvalidInput, match="could not be used: file is not a database"):
        Ledger(sqlite).open("patients", **CAP)


@pytest.mark.parametrize(
    "wrong",
    [
        *("budget.db", "sqlite://", "sqlite:///:memory:", "mysql://host/db", "", "sqlite:///a.db?mode=ro", 3, None),
        *("postgresql://user:secret@host/db", "postgresql://host/db?password=secret", "postgresql+psycopg2://host/db"),
        *("postgresql://host/db?PASSWORD=secret", "postgresql://host/db?pass%77ord=secret", "postgresql://host:x/db"),
        "sqlite:///a\0.db",
    ],
)
def test_a_url_that_cannot_be_is_refused_without_its_password(wrong):
    with pytest.raises(InvalidInput, match="ledger must be sqlite:///FILE or postgresql") as refused:
        require_url("ledger", wrong)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda ledger: ledger.open("", **CAP), "account must be printable text"),
        (lambda ledger: ledger.open("a\nb", **CAP), "account must be printable text"),
        (lambda ledger: ledger.open("a", epsilon=float("nan"), delta=1e-5), "epsilon must be a finite number above 0"),
        (lambda ledger: ledger.open("a", epsilon=1.0), "epsilon and delta must be given"),
        (lambda ledger: ledger.open("a", **CAP, unit="household"), "unit must be one of record, user"),
        (lambda ledger: ledger.open("a", **CAP, relation="near"), "relation must be one of"),
        (lambda ledger: ledger.account("nobody"), r"account must be one of this ledger \(patients\), got 'nobody'"),
        (lambda ledger: ledger.reserve("patients", "", SMALL, **HOW), "run must be printable text"),
        (lambda ledger: ledger.reserve("patients", "r", 1.0, **HOW), "cost must be a Cost"),
        (
            lambda ledger: ledger.reserve("patients", "r", SMALL, epsilon=float("inf"), **HOW),
            "epsilon must be a finite",
        ),
        (lambda ledger: ledger.reserve("patients", "r", SMALL, delta=2.0, **HOW), "delta must be a number strictly"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(opened, call, sentence):
    before = opened.entries()
    with pytest.raises(InvalidInput, match=sentence):
        call(opened)
    assert opened.entries() == before
