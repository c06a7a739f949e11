"""`ostrakon train` as a user meets it: a command, files, a table, one sentence where something is wrong."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

from ostrakon.cli.app import main

NOISE = "confident-gnmax(threshold=12, sigma1=8, sigma2=3)"
FAST = ["--teachers", "20", "--mechanism", NOISE, "--queries", "60", "--jobs", "1"]


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(18, 90, 900), "town": rng.choice(["Ulm", "Bonn", "Kiel"], 900)})
    frame["patient"] = np.arange(900) // 4
    frame["ill"] = np.where(frame["age"] + rng.normal(0, 6, 900) > 55, "yes", "no")
    frame[:600].to_csv(folder / "private.csv", index=False)
    frame[600:800].drop(columns=["ill"]).to_csv(folder / "public.csv", index=False)
    frame[800:].to_csv(folder / "test.csv", index=False)
    frame[:600].to_parquet(folder / "private.parquet")
    return folder


def ostrakon(monkeypatch, capsys, *arguments) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["ostrakon", *map(str, arguments)])
    with pytest.raises(SystemExit) as stopped:
        main()
    seen = capsys.readouterr()
    return int(stopped.value.code or 0), seen.out, seen.err


@pytest.fixture
def command(monkeypatch, capsys, tables, tmp_path):
    def train(*arguments, out=tmp_path / "run", fast=True, **options):
        given = {"private": tables / "private.csv", "public": tables / "public.csv", "target": "ill"}
        given |= {"classes": "from-private", **options}
        pairs = [(f"--{key}", value) for key, value in given.items() if value is not None]
        pairs += [("--out", out), *(zip(FAST[::2], FAST[1::2], strict=True) if fast else [])]
        # An option is given once: what the test asks for replaces what is usual.
        usual = [part for pair in pairs if pair[0] not in arguments for part in pair]
        return ostrakon(monkeypatch, capsys, "train", *usual, *arguments)

    return train


@pytest.mark.slow
def test_the_main_job(command, tables, tmp_path):
    code, out, _ = command(test=tables / "test.csv")
    assert code == 0
    for word in ("Teachers", "20", "Queries", "60", "Answers", "Worst-case privacy", "Student accuracy", "release"):
        assert word in out
    statement = json.loads((tmp_path / "run" / "release" / "statement.json").read_text())
    assert statement["unit_of_privacy"] == "record"
    title = f"ill: {' / '.join(statement['classes'])}"
    release = tmp_path / "run" / "release"
    assert (
        f"<title>{title} \N{EN DASH} model card and privacy statement</title>" in (release / "report.html").read_text()
    )
    assert (release / "model_card.md").read_text().startswith(f"# Model card \N{EN DASH} {title}\n")
    assert statement["guarantee"]["kind"] == "worst-case"
    assert (tmp_path / "run" / "private").stat().st_mode & 0o777 == 0o700


@pytest.mark.slow
def test_the_same_command_again_only_reads(command, tmp_path):
    spent = "This run was finished before: its release is as it was, and nothing more was spent."
    assert spent not in " ".join(command()[1].split())
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    code, out, _ = command()
    assert code == 0
    assert spent in " ".join(out.split())
    after = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    assert before == after


@pytest.mark.slow
def test_users_by_a_column(command, tmp_path):
    assert command(by="patient")[0] == 0
    statement = json.loads((tmp_path / "run" / "release" / "statement.json").read_text())
    assert (statement["unit_of_privacy"], statement["unit_column"]) == ("user", "patient")
    assert "'patient'" in statement["adjacency"]


def test_an_epsilon_is_kept(command, tmp_path):
    arguments = ["--teachers", "30", "--epsilon", "3", "--queries", "40", "--jobs", "1", "--mechanism", "gnmax"]
    assert command(*arguments, fast=False)[0] == 0
    statement = json.loads((tmp_path / "run" / "release" / "statement.json").read_text())
    assert 2.9 < statement["guarantee"]["epsilon"] <= 3


def test_an_epsilon_out_of_reach_is_refused_before_anything_is_trained(command, tmp_path):
    code, _, err = command("--teachers", "20", "--epsilon", "0.05", "--queries", "150", fast=False)
    assert code == 2
    assert "must be at least" in err
    assert not (tmp_path / "run" / "private" / "teachers").exists()


@pytest.mark.slow
def test_parquet_and_a_config_file(command, tables, tmp_path):
    config = tmp_path / "run.toml"
    config.write_text(
        'teachers = 20\nthreshold = 12\nsigma1 = 8.0\nsigma2 = 3.0\nqueries = 50\nteacher = "naive-bayes"\n'
    )
    code, _, _ = command("--config", config, "--queries", "40", fast=False, private=tables / "private.parquet")
    assert code == 0
    statement = json.loads((tmp_path / "run" / "release" / "statement.json").read_text())
    assert statement["queries"] == 40  # the command line wins
    # A run's own description is such a file.
    again = command("--config", tmp_path / "run" / "run.toml", fast=False, out=tmp_path / "again")
    assert again[0] == 0


@pytest.mark.slow
def test_immutable_runs_and_says_that_it_is_not_private(command, tmp_path):
    code, out, _ = command("--mechanism", "immutable", "--teachers", "20", "--queries", "40", fast=False)
    assert code == 0
    assert "NONE" in out
    assert "not differentially private" in " ".join(out.split())
    assert json.loads((tmp_path / "run" / "release" / "statement.json").read_text())["private"] is False


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["lnmax", "gnmax", "interactive-gnmax", "exponential", "screened-exponential"])
def test_every_mechanism_runs_by_name(command, tmp_path, mechanism):
    arguments = ["--teachers", "30", "--queries", "30", "--epsilon", "4", "--jobs", "1", "--mechanism", mechanism]
    assert command(*arguments, fast=False)[0] == 0
    statement = json.loads((tmp_path / "run" / "release" / "statement.json").read_text())
    assert statement["rounds"][-1]["mechanism"] == mechanism
    assert statement["guarantee"]["epsilon"] <= 4


@pytest.mark.parametrize(
    ("arguments", "options", "sentence"),
    [
        ([], {"private": None}, "--private must be given"),
        ([], {"target": None}, "--target must be given"),
        ([], {"private": "missing.csv"}, "There is no file"),
        ([], {"target": "income"}, "target column 'income' is not in"),
        ([], {"by": "user"}, "column of users 'user' is not in"),
        (["--delta", "0.1"], {}, "delta must be below 1 divided by the number of records"),
        (["--teachers", "1000"], {}, "teachers must be at most 600"),
        (["--teachers", "599"], {}, "would have none of the 600 records"),
        (["--queries", "201"], {}, "queries must be at most 200"),
        (["--mechanism", "gnmax(sigma2=-1)"], {}, "sigma2 must be a finite number above 0, got -1"),
        (["--mechanism", "gnmax(sigma2=1e999)"], {}, "sigma2 must be a finite number above 0, got inf"),
        (["--mechanism", "confident-gnmax(gamma=0.1)"], {}, "'gamma' is not a parameter of confident-gnmax"),
        (["--mechanism", "best"], {}, "--mechanism must be one of"),
        (["--teacher", "oracle"], {}, "no estimator 'oracle'"),
        (["--student", "logistic(C=)"], {}, "NAME(option=value, ...)"),
        (["--seed", "-1"], {}, "seed must be"),
        (["--representation", "crystal"], {}, "representation must be"),
        (["--query-strategy", "clever"], {}, "--query-strategy must be one of"),
        (["--classes", "yes"], {}, "at least 2 different labels"),
        (["--classes", "yes,maybe"], {}, "('no' in 296 of them), the label of the private target"),
        (["a.csv"], {}, "'a.csv' must come after an option, such as --private a.csv; a value"),
        (["--config", "nothing.toml"], {}, "--config must be a readable TOML file"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(command, arguments, options, sentence):
    code, _, err = command(*arguments, **options)
    assert code == 2
    assert sentence in " ".join(err.split())
    assert err.count("\n") <= 2
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "words",
    [["--representation", "crystal"], ["--query-strategy", "clever"], ["--student", "oracle"], ["--jobs", "0"]],
)
def test_a_name_mistyped_does_not_take_the_folder(command, words, tmp_path):
    assert command(*words)[0] == 2
    assert not (tmp_path / "run" / "run.toml").exists()


def test_the_private_file_is_never_public(command, tables, tmp_path):
    (tmp_path / "link.csv").symlink_to(tables / "private.csv")
    (tmp_path / "copy.csv").write_bytes((tables / "private.csv").read_bytes())
    for path in (tables / "private.csv", tmp_path / "link.csv", tmp_path / "copy.csv"):
        code, _, err = command(public=path)
        assert code == 2
        assert "is the private one" in " ".join(err.split())
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_file_in_a_private_folder_is_never_public(command, tables, tmp_path):
    command()
    hidden = tmp_path / "run" / "private" / "rows.csv"
    hidden.write_bytes((tables / "public.csv").read_bytes())
    code, _, err = command(public=hidden, out=tmp_path / "other")
    assert code == 2
    assert "lies in the private folder of the run" in " ".join(err.split())


@pytest.mark.slow
def test_another_run_in_the_folder_is_refused(command, tmp_path):
    command()
    code, _, err = command("--seed", "5")
    assert code == 2
    assert "seed was not given, now 5" in " ".join(err.split())


def test_a_folder_of_something_else_is_refused(command, tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_text("")
    code, _, err = command(out=tmp_path / "photos")
    assert code == 2
    assert "is not a run of ostrakon" in " ".join(err.split())


@pytest.mark.slow
def test_changed_private_data_is_refused(command, tables, tmp_path):
    mine = tmp_path / "mine.csv"
    mine.write_bytes((tables / "private.csv").read_bytes())
    command(private=mine)
    mine.write_text(mine.read_text() + "33,Ulm,9999,no\n")
    code, _, err = command(private=mine)
    assert code == 2
    assert "the private data changed" in " ".join(err.split())


@pytest.mark.slow
def test_who_releases_it_is_told_by_options_and_toml_and_kept(command, tmp_path):
    (tmp_path / "c.toml").write_text('operator = "St. Mary"\ncontact = "elsewhere"\ndata-name = "Stays"\n')
    told = ("--config", tmp_path / "c.toml", "--contact", "ward@example.org")
    assert command(*told)[0] == 0
    card = (tmp_path / "run" / "release" / "model_card.md").read_text()
    for words in (
        "Operator.** St. Mary\n",
        "Contact.** ward@example.org\n",
        "data.** Stays\n",
        "Purpose.** not given\n",
    ):
        assert words in card
    assert "private.csv" not in card
    code, _, err = command(*told, "--purpose", "Triage")
    assert code == 2
    assert "is written, with purpose 'not given' where it is now 'Triage': repeat it, or remove" in " ".join(
        err.split()
    )
    # The text alone is written anew: run.toml knows who it was, and the answers stay.
    labels = (tmp_path / "run" / "release" / "labels.csv").read_bytes()
    shutil.rmtree(tmp_path / "run" / "release")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "run" / "private").rglob("*") if path.is_file()}
    assert command("--config", tmp_path / "run" / "run.toml", "--purpose", "Triage")[0] == 0
    assert (tmp_path / "run" / "release" / "labels.csv").read_bytes() == labels
    card = (tmp_path / "run" / "release" / "model_card.md").read_text()
    for words in ("Operator.** St. Mary\n", "Contact.** ward@example.org\n", "Purpose.** Triage\n"):
        assert words in card
    assert before == {path: path.stat().st_mtime_ns for path in before}


def test_nobody_is_refused_in_one_sentence(command):
    code, _, err = command("--data-name", " ")
    assert code == 2
    assert "--data-name must be text of 1 to 1000 characters, got ' '." in " ".join(err.split())


@pytest.mark.parametrize(
    ("lines", "both"),
    [
        ("max-answers = 3\nmax_answers = 4", "'max-answers' and 'max_answers'"),
        ("[asked]\ndata_name = 'a'\n[report]\ndata-name = 'b'", "'data_name' and 'data-name'"),
    ],
)
def test_an_option_that_is_given_twice_in_a_config_is_refused(command, tmp_path, lines, both):
    (tmp_path / "c.toml").write_text(lines)
    code, _, err = command("--config", tmp_path / "c.toml")
    assert code == 2
    assert f"must give each option once, got both {both}." in " ".join(err.split())


def test_an_unknown_option_in_a_config_is_refused(command, tmp_path):
    (tmp_path / "c.toml").write_text("epsilom = 2\n")
    code, _, err = command("--config", tmp_path / "c.toml")
    assert code == 2
    assert "'epsilom', which ostrakon train does not know" in " ".join(err.split())


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ('publish_accuracy = "no"', "publish-accuracy in .* must be true or false, got 'no'"),
        ("smooth = 0", "smooth in .* must be true or false, got 0"),
        ("test = 7", "test in .* must be text, got 7"),
        ('epsilon = "2"', "epsilon in .* must be a number, got '2'"),
        ("epsilon = true", "epsilon in .* must be a number, got True"),
        ("asked = 3", "must have options under"),
    ],
)
def test_a_value_of_another_type_in_a_config_is_refused(command, tmp_path, line, sentence):
    (tmp_path / "c.toml").write_text(line + "\n")
    code, _, err = command("--config", tmp_path / "c.toml")
    assert code == 2
    assert re.search(sentence, " ".join(err.split()))


@pytest.mark.slow
def test_a_full_disk_is_said_and_the_same_command_goes_on(command, tmp_path, monkeypatch):
    real, written = os.fsync, []

    def fills_up(handle):
        written.append(handle)
        if len(written) > 12:
            raise OSError(28, "No space left on device")
        real(handle)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fills_up)
        code, _, err = command()
    assert code == 2
    assert "the disk is full" in " ".join(err.split())
    assert not (tmp_path / "run" / "release").exists()
    assert command()[0] == 0


UNHURRIED = """
import time
from sklearn.tree import DecisionTreeClassifier


class Tree(DecisionTreeClassifier):
    def fit(self, X, y):
        time.sleep(0.2)
        return super().fit(X, y)
"""


@pytest.mark.slow
def test_ctrl_c_keeps_what_is_finished(tables, tmp_path, monkeypatch):
    # Slow without being busy: a fast machine would be done before it is stopped.
    (tmp_path / "unhurried.py").write_text(UNHURRIED)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    command = [
        *(sys.executable, "-c", "from ostrakon.cli import main; main()", "train", "--out", tmp_path / "run", *FAST),
        *(
            "--private",
            tables / "private.csv",
            "--public",
            tables / "public.csv",
            "--target",
            "ill",
            "--classes",
            "from-private",
        ),
        *("--teacher", "unhurried.Tree", "--student", "logistic"),
    ]
    process = subprocess.Popen(
        list(map(str, command)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Background jobs of a shell inherit an ignored Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    teachers = tmp_path / "run" / "private" / "teachers"
    deadline = time.monotonic() + 120
    while len(list(teachers.glob("teachers-*.bin"))) < 2 and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "the same command continues from there" in " ".join(err.split())
    assert "Traceback" not in err
    kept = {path.name: path.stat().st_mtime_ns for path in teachers.glob("teachers-*.bin")}
    assert 2 <= len(kept) < 20
    subprocess.run(list(map(str, command)), check=True, capture_output=True, timeout=300)
    assert {name: (teachers / name).stat().st_mtime_ns for name in kept} == kept
    assert (tmp_path / "run" / "release" / "statement.json").exists()


def test_help_is_enough_to_get_going(monkeypatch, capsys):
    code, out, _ = ostrakon(monkeypatch, capsys, "train", "--help")
    assert code == 0
    for word in ("--private", "--public", "--target", "--epsilon", "--by", "resumes"):
        assert word in out


def test_the_help_shows_the_common_options_and_help_all_every_one(command, capsys):
    def options(flag):
        code, out, _ = command(flag, private=None, public=None, target=None, fast=False)
        assert code == 0
        return set(re.findall(r"^\W*(--[a-z-]+)", out, re.MULTILINE))

    common, every = options("--help"), options("--help-all")
    assert {"--private", "--public", "--target", "--epsilon", "--out"} <= common < every
    assert len(common) <= 26
    assert {"--seed", "--operator", "--store"} <= every - common
