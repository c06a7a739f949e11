"""`ostrakon ledger` and `train --ledger`, over real processes."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from commands import ostrakon
from ostrakon.cli import app
from ostrakon.data.checksummed import sha256
from ostrakon.ledger.cost import Cost
from ostrakon.ledger.ledger import Ledger
from ostrakon.report.recorded import find_recorded
from ostrakon.validation import InvalidInput


@pytest.fixture
def tables(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(18, 90, 700), "town": rng.choice(["Ulm", "Bonn"], 700)})
    frame["ill"] = np.where(frame["age"] > 50, "yes", "no")
    frame[:600].to_csv(tmp_path / "private.csv", index=False)
    frame[600:].drop(columns="ill").to_csv(tmp_path / "public.csv", index=False)
    return tmp_path


@pytest.mark.slow
def test_an_account_from_open_to_close(tables):
    url = "sqlite:///budget.db"
    asked = ["--epsilon", 3, "--delta", 1e-6]
    done = ostrakon("ledger", "open", url, "patients", *asked, "--private", "private.csv", "--json", folder=tables)
    (account,) = json.loads(done.stdout)["accounts"]
    assert (account["name"], account["epsilon"], account["kind"], account["remaining"]) == (
        "patients",
        3,
        "gaussian",
        3,
    )
    ledger = Ledger(f"sqlite:///{tables / 'budget.db'}")
    ledger.reserve("patients", "a run", Cost.of(mu=0.2), what="[bold]gnmax", unit="record", relation="replace")
    shown = ostrakon("ledger", "show", url, "--out", "pictures", folder=tables)
    assert "[bold]gnmax" in shown.stdout
    assert "reserved" in shown.stdout
    assert "one run alone may cost more than its own epsilon" in " ".join(shown.stdout.split())
    assert (tables / "pictures" / "burn-down.png").read_bytes()[:4] == b"\x89PNG"
    out = ostrakon("ledger", "export", url, folder=tables)
    assert [entry["event"] for entry in json.loads(out.stdout)["entries"]] == ["open", "bind", "reserve"]
    assert "patients" in ostrakon("ledger", "close", url, "patients", folder=tables).stdout
    assert ledger.account("patients").closed


@pytest.mark.slow
def test_what_is_refused_is_one_sentence(tables):
    for arguments, sentence in (
        (["show", "sqlite:///none.db"], "There is no ledger at sqlite:///"),
        (["show", "mysql://host/x"], "must be sqlite:///FILE or postgresql://HOST/DATABASE, without a password"),
        (["open", "sqlite:///a.db", "x", "--epsilon", "nan", "--delta", "1e-5"], "--epsilon must be a finite number"),
        (["show"], "The ledger must be given once, as `ostrakon ledger show URL` or with --ledger URL."),
        (["close", "--ledger", "sqlite:///a.db"], "as URL NAME or as NAME with --ledger URL."),
        (["open", "sqlite:///a.db", "x"], "epsilon and delta must be given to open an account."),
    ):
        done = ostrakon("ledger", *arguments, folder=tables)
        assert done.returncode == 2
        assert sentence in " ".join(done.stderr.split())
        assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_train_on_a_budget(tables):
    train = ["train", "--private", "private.csv", "--public", "public.csv", "--target", "ill", "--classes", "no,yes"]
    train += ["--student", "logistic", "--ledger", "sqlite:///budget.db", "--epsilon", "2"]
    first = ostrakon(*train, "--budget", "2.5", "--out", "one", folder=tables)
    assert first.returncode == 0, first.stderr
    said = " ".join(first.stdout.split())
    assert "Budget 1 run of account data-1 together: epsilon 2 of 2.5" in said
    assert "of 2.5 at delta" in said
    assert "(ostrakon ledger show sqlite:///" in said
    second = ostrakon(*train, "--out", "two", folder=tables)
    assert second.returncode == 2
    assert "would pass the cap of account 'data-1' (epsilon 2.5 at" in second.stderr
    assert "remains for a run at delta" in second.stderr
    again = ostrakon(*train, "--budget", "2.5", "--out", "one", folder=tables)
    assert again.returncode == 0, again.stderr
    (spend,) = Ledger(f"sqlite:///{tables / 'budget.db'}").account("data-1").spends
    assert spend.settled


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--teachers", "20"]], ids=["counts", "labels"])
def test_a_release_is_verified_against_its_ledger(tables, options):
    train = ["train", "--private", "private.csv", "--public", "public.csv", "--target", "ill", "--classes", "no,yes"]
    train += ["--student", "logistic", "--budget", "8", "--epsilon", "2", *options]
    done = ostrakon(*train, "--ledger", "sqlite:///budget.db", "--out", "run", folder=tables)
    assert done.returncode == 0, done.stderr
    release = tables / "run" / "release"
    ledger, other = (Ledger(f"sqlite:///{tables / name}.db") for name in ("budget", "other"))
    other.open("patients", epsilon=8, delta=1e-5)
    verified = ostrakon("ledger", "verify", "sqlite:///budget.db", release, folder=tables)
    assert "Recorded: entry 2 of account data-1" in " ".join(verified.stdout.split()), verified.stderr

    def refused(sentence, by=ledger):
        with pytest.raises(InvalidInput, match=sentence):
            find_recorded(release, by)

    def write(name, text):
        """Change a file and write its checksum into the manifest, as anybody can."""
        (release / name).write_text(text)
        manifest = json.loads((release / "manifest.json").read_text())
        manifest["files"][name] = sha256((release / name).read_bytes())
        (release / "manifest.json").write_text(json.dumps(manifest))

    refused("No run in sqlite:///.*other.db has drawn the answers", by=other)
    statement = (release / "statement.json").read_text()
    content = json.loads(statement)
    write("statement.json", json.dumps({**content, "guarantee": {**content["guarantee"], "epsilon": 0.5}}))
    refused("claims epsilon 0.5 at delta .*, and its run has reserved epsilon")
    write("statement.json", json.dumps({**content, "unit_of_privacy": "user"}))
    refused("protects one user, and account data-1 is for one record")
    write("statement.json", statement)
    assert find_recorded(release, ledger)[1].sequence == 2
    name, old, new = ("labels.csv", "yes", "no") if options else ("noisy_counts.csv", "5", "6")
    write(name, (release / name).read_text().replace(old, new, 1))
    refused("or its answers were changed")


@pytest.mark.slow
def test_a_budget_without_a_ledger_has_one_beside_the_data(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=400), "z": rng.normal(size=400)})
    frame["y"] = np.where(frame["x"] > 0, "a", "b")
    (tmp_path / "data").mkdir()
    frame[:300].to_csv(tmp_path / "data" / "private.csv", index=False)
    frame[300:].drop(columns="y").to_csv(tmp_path / "public.csv", index=False)
    asked = [
        "--private",
        "data/private.csv",
        "--public",
        "public.csv",
        "--target",
        "y",
        "--classes",
        "from-private",
        "--student",
        "logistic",
    ]
    asked += ["--queries", 5, "--epsilon", 2, "--out", "run"]
    for _ in range(2):
        told = ostrakon("train", *asked, "--budget", 3, folder=tmp_path)
        assert told.returncode == 0, told.stderr
    (account,) = Ledger(f"sqlite:///{tmp_path / 'data' / 'budget.db'}").accounts().values()
    assert account.cap.epsilon == 3
    assert len(account.spends) == 1


def test_the_ledger_may_be_named_in_two_ways(tmp_path):
    url = f"sqlite:///{tmp_path / 'budget.db'}"
    asked = ["--epsilon", "3", "--delta", "1e-6", "--json"]

    def said(*words):
        done = CliRunner().invoke(app, ["ledger", *words])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    opened = said("open", "patients", "--ledger", url, *asked)
    assert opened == said("show", url, "--json") == said("show", "--ledger", url, "--json")
    assert said("export", url) == said("export", "--ledger", url)
    assert said("close", "--ledger", url, "patients", "--json")["accounts"][0]["closed"]
    for words in (["show", url, "--ledger", url], ["close", url], ["close", url, "x", "--ledger", url]):
        with pytest.raises(InvalidInput, match="must be given"):
            CliRunner().invoke(app, ["ledger", *words], catch_exceptions=False)


def test_data_are_bound_by_the_unit_of_their_account(tmp_path):
    url, private = f"sqlite:///{tmp_path / 'budget.db'}", tmp_path / "stays.csv"
    private.write_text("patient,age\n1,61\n1,62\n2,40\n")
    cap = ["--epsilon", "3", "--delta", "1e-6"]

    def open_(*words):
        return CliRunner().invoke(app, ["ledger", "open", url, *words], catch_exceptions=False)

    open_("people", *cap, "--unit", "user")
    open_("rows", *cap)
    data = ["--private", str(private)]
    with pytest.raises(InvalidInput, match="--by COLUMN must be given: the account 'people' is of users"):
        open_("people", *data)
    for words in (["rows", *data], ["new", *cap, *data]):
        with pytest.raises(InvalidInput, match=r"--by must not be given: the account .* is of records"):
            open_(*words, "--by", "patient")
    assert list(Ledger(url).accounts()) == ["people", "rows"]
    assert not any(account.fingerprints for account in Ledger(url).accounts().values())
    assert "Bound to account people" in open_("people", *data, "--by", "patient").stdout
    assert len(Ledger(url).account("people").fingerprints) == 1
