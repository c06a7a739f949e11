"""`ostrakon ledger` and `train --ledger`."""

import json
import shutil
from pathlib import Path

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
from ostrakon.statements.adjacency import adjacency
from ostrakon.validation import InvalidInput


def write_tables(folder):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(18, 90, 700), "town": rng.choice(["Ulm", "Bonn"], 700)})
    frame["ill"] = np.where(frame["age"] > 50, "yes", "no")
    frame[:600].to_csv(folder / "private.csv", index=False)
    frame[600:].drop(columns="ill").to_csv(folder / "public.csv", index=False)
    return folder


@pytest.fixture
def tables(tmp_path):
    return write_tables(tmp_path)


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
    assert "Budget 1 run of account data-1 together: epsilon 1.9997 of 2.5" in said
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


def trained(folder, *options):
    """Train on a ledger in a folder; return the release and the ledger."""
    train = ["train", "--private", folder / "private.csv", "--target", "ill", "--classes", "no,yes", "--student"]
    train += ["logistic", "--budget", "8", "--ledger", f"sqlite:///{folder}/budget.db", "--out", folder / "run"]
    done = CliRunner().invoke(app, [str(word) for word in (*train, *options)])
    assert done.exit_code == 0, done.output
    return folder / "run" / "release", Ledger(f"sqlite:///{folder}/budget.db")


def write(release, name, text):
    """Change a file and write its checksum into the manifest, as anybody can."""
    (release / name).write_text(text)
    manifest = json.loads((release / "manifest.json").read_text())
    manifest["files"][name] = sha256((release / name).read_bytes())
    (release / "manifest.json").write_text(json.dumps(manifest))


def printed(folder, release):
    """What `ledger verify` prints."""
    done = CliRunner().invoke(app, ["ledger", "verify", f"sqlite:///{folder}/budget.db", str(release)])
    assert done.exit_code == 0, (done.output, done.exception)
    return " ".join(done.output.split())


def with_guarantee(content, **changes):
    return {**content, "guarantee": {**content["guarantee"], **changes}}


FALSE = {
    "epsilon": (lambda said: with_guarantee(said, epsilon=0.5), "guarantee has epsilon 0.5 at .*in the ledger it has"),
    "larger": (lambda said: with_guarantee(said, epsilon=99), "guarantee has epsilon 99 at delta"),
    "text": (lambda said: with_guarantee(said, epsilon="2"), "guarantee has epsilon '2' at delta"),
    "true": (lambda said: with_guarantee(said, delta=True), "at delta True"),
    "nothing": (lambda said: {**said, "guarantee": None}, "claims no guarantee"),
    "a list": (lambda said: {**said, "guarantee": [1]}, "claims no guarantee"),
    "not private": (lambda said: {**said, "not_private": "No."}, "claims no guarantee"),
    "unit": (lambda said: {**said, "unit_of_privacy": "user"}, "unit_of_privacy is 'user', and by account data-1"),
    "no unit": (lambda said: {key: said[key] for key in said if key != "unit_of_privacy"}, "unit_of_privacy is None"),
    "protects": (lambda said: {**said, "protects": "labels"}, "protects is 'labels'"),
    "column": (lambda said: {**said, "unit_column": "pid"}, "unit_column is 'pid'"),
    "neighbours": (lambda said: {**said, "adjacency": "Everything differs."}, "adjacency is 'Everything differs.'"),
    "levels": (
        lambda said: {**said, "consent": {"levels": [{"level": "1", "epsilon": 0.1}]}},
        r"its levels of consent are \['1'\], and the ledger has accounts of these lower levels: \[\]",
    ),
}


@pytest.fixture(scope="module")
def verified(tmp_path_factory):
    """A release with noisy counts, and its ledger."""
    folder = tmp_path_factory.mktemp("verified")
    write_tables(folder)
    return trained(folder, "--public", folder / "public.csv", "--epsilon", "2")


@pytest.fixture
def changed(verified, tmp_path):
    """A copy of the release that may be changed, and the ledger."""
    return shutil.copytree(verified[0], tmp_path / "release"), verified[1]


@pytest.mark.slow
@pytest.mark.parametrize("case", FALSE)
def test_a_statement_that_differs_from_the_ledger_is_refused(changed, case):
    (release, ledger), (change, sentence) = changed, FALSE[case]
    write(release, "statement.json", json.dumps(change(json.loads((release / "statement.json").read_text()))))
    with pytest.raises(InvalidInput, match=sentence):
        find_recorded(release, ledger)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda text: text.replace('"epsilon"', '"epsilon": 0.1, "epsilon"', 1), "a key stands twice in one object"),
        (lambda text: text[:-2] + ', "extra": NaN}', "NaN is not a finite number"),
        (lambda text: text[:-2] + ', "extra": 1e400}', "1e400 is not a finite number"),
        (lambda text: "[" * 100_000, "must be readable JSON"),
        (lambda text: "[]", "must have the schema"),
    ],
)
def test_a_statement_is_read_strictly(changed, change, sentence):
    release, ledger = changed
    write(release, "statement.json", change((release / "statement.json").read_text()))
    with pytest.raises(InvalidInput, match=sentence):
        find_recorded(release, ledger)


def test_what_is_no_release_or_of_another_ledger_is_refused(changed, tmp_path):
    release, ledger = changed
    other = Ledger(f"sqlite:///{tmp_path}/other.db")
    other.open("patients", epsilon=8, delta=1e-5)
    with pytest.raises(InvalidInput, match=r"No run in sqlite:///.*other.db has drawn the numbers of noisy_counts.csv"):
        find_recorded(release, other)
    link = release / "link"
    link.symlink_to(tmp_path / "nothing")
    with pytest.raises(InvalidInput, match="it is a link or a device") as refused:
        find_recorded(release, ledger)
    assert "remove" not in str(refused.value)  # An auditor keeps what was found.
    link.unlink()
    (release / "manifest.json").write_text("[" * 100_000)
    with pytest.raises(InvalidInput, match=r"manifest.json is damaged"):
        find_recorded(release, ledger)
    with pytest.raises(InvalidInput, match="must be the folder of a finished release"):
        find_recorded(tmp_path / "absent", ledger)


def test_verify_prints_the_facts_of_the_ledger_and_what_it_did_not_compare(changed):
    release, ledger = changed
    said = printed(Path(ledger.url.removeprefix("sqlite:///")).parent, release)
    assert "run 1 of account data-1 (entry 2 of the ledger)" in said
    assert "for one record (neighbours: replace). All runs" in said
    assert "All runs of this account (1): epsilon " in said
    assert "Compared: the numbers of noisy_counts.csv and noisy_errors.csv, in their order" in said
    assert "Not compared: every other number and sentence" in said
    counts = (release / "noisy_counts.csv").read_text()
    write(release, "noisy_counts.csv", counts.replace("5", "6", 1))
    with pytest.raises(InvalidInput, match="or they were changed"):
        find_recorded(release, ledger)


def test_labels_alone_are_recorded_as_labels(tmp_path):
    write_tables(tmp_path)
    release, ledger = trained(tmp_path, "--protect", "labels", "--epsilon", "2")
    assert "for one record (neighbours: labels)." in printed(tmp_path, release)
    content = json.loads((release / "statement.json").read_text())
    claims_more = {"protects": "records", "unit_of_privacy": "record", "adjacency": adjacency(fixed=True)}
    write(release, "statement.json", json.dumps(content | claims_more))
    with pytest.raises(InvalidInput, match="unit_of_privacy is 'record', and by account data-1 it is 'the label of"):
        find_recorded(release, ledger)


@pytest.mark.slow
def test_every_level_of_consent_is_compared_with_its_account(tmp_path):
    write_tables(tmp_path)
    private = pd.read_csv(tmp_path / "private.csv")
    private.assign(tier=np.arange(len(private)) % 2 + 1).to_csv(tmp_path / "private.csv", index=False)
    release, ledger = trained(tmp_path, "--public", tmp_path / "public.csv", "--consent", "tier:1=1,2=2")
    assert "Level 1 of consent: epsilon" in printed(tmp_path, release)
    content = json.loads((release / "statement.json").read_text())
    levels = content["consent"]["levels"]
    lower = [{**level, "epsilon": 0.1} for level in levels]
    for change, sentence in (
        ({"consent": {"levels": lower}}, "level '1' of consent has epsilon 0.1"),
        ({"consent": {"levels": [*lower, *levels]}}, "names a level of consent twice"),
        (
            {"consent": None},
            r"its levels of consent are \[\], and the ledger has accounts of these lower levels: \['1'\]",
        ),
        ({"consent": None, **with_guarantee(content, epsilon=levels[0]["epsilon"])}, "guarantee has epsilon"),
    ):
        write(release, "statement.json", json.dumps({**content, **change}))
        with pytest.raises(InvalidInput, match=sentence):
            find_recorded(release, ledger)


@pytest.mark.slow
def test_labels_of_trained_teachers_are_compared_in_their_order(tmp_path):
    write_tables(tmp_path)
    asked = ["--teachers", "20", "--mechanism", "gnmax(sigma2=20)", "--queries", "20", "--epsilon", "2"]
    release, ledger = trained(tmp_path, "--public", tmp_path / "public.csv", *asked)
    assert "Compared: the labels of labels.csv, in their order" in printed(tmp_path, release)
    labels = (release / "labels.csv").read_text()
    write(release, "labels.csv", labels.replace("yes", "no", 1))
    with pytest.raises(InvalidInput, match=r"has drawn the labels of labels.csv .* or they were changed"):
        find_recorded(release, ledger)
    write(release, "labels.csv", labels + f"1,{'a' * 200_000},teachers\n")
    with pytest.raises(InvalidInput, match="cannot be read"):
        find_recorded(release, ledger)


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
