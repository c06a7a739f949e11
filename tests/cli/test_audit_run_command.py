"""`ostrakon audit --run`: a run of `ostrakon train`, done again with canaries."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from randomgen import AESCounter
from typer.testing import CliRunner

from ostrakon.cli import app
from ostrakon.mechanisms.bounded_gnmax import BoundedGNMax
from ostrakon.noise import SecureGenerator
from ostrakon.run.folder import RunFolder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Tables and a finished run on them."""
    place = tmp_path_factory.mktemp("audited")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.uniform(18, 90, 1100), "town": rng.choice(["Ulm", "Bonn", "Kiel"], 1100)})
    frame["ill"] = np.where(frame["age"] + rng.normal(0, 6, 1100) > 55, "yes", "no")
    frame[:1000].to_csv(place / "private.csv", index=False)
    frame[1000:].drop(columns=["ill"]).to_csv(place / "public.csv", index=False)
    words = [
        "--private",
        place / "private.csv",
        "--public",
        place / "public.csv",
        "--target",
        "ill",
        "--classes",
        "from-private",
    ]
    words += ["--mechanism", "bounded-gnmax", "--queries", "100", "--epsilon", "2", "--delta", "1e-5", "--jobs", "1"]
    done = CliRunner().invoke(app, ["train", *map(str, words), "--out", str(place / "run")])
    assert done.exit_code == 0, done.output
    return place


def audited(*words, form=("--json",)):
    return CliRunner().invoke(app, ["audit", *map(str, words), "--jobs", "1", *form])


@pytest.mark.slow
def test_a_sound_run_exits_zero_and_leaves_the_run_alone(folder):
    before = {path: path.stat().st_mtime_ns for path in (folder / "run").rglob("*") if path.is_file()}
    # 100 canaries seldom certify much; one audit of a thousand would accuse a sound run at this confidence.
    done = audited("--run", folder / "run", "--confidence", "0.999")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["claimed"] == pytest.approx(2.0, abs=0.01)
    assert 90 <= found["canaries"] <= 100
    assert (folder / "run-audit" / "release" / "noisy_counts.csv").exists()
    settled = [(folder / name / "run.toml").read_text().split("[settled") for name in ("run", "run-audit")]
    assert "sigma2" in settled[1][-1]
    after = {path: path.stat().st_mtime_ns for path in (folder / "run").rglob("*") if path.is_file()}
    assert {path: when for path, when in after.items() if path.name != ".lock"} == {
        path: when for path, when in before.items() if path.name != ".lock"
    }


@pytest.mark.slow
def test_a_tenth_of_the_noise_exits_one(folder, monkeypatch):
    honest = BoundedGNMax.noisy_counts

    def quiet(self, votes, rng):
        return votes.counts + (honest(self, votes, rng) - votes.counts) / 10

    monkeypatch.setattr(BoundedGNMax, "noisy_counts", quiet)
    done = audited("--run", folder / "run", "--out", folder / "quiet")
    assert done.exit_code == 1
    found = json.loads(done.stdout)
    assert found["lower_bound"] > 1.5 * found["claimed"]


@pytest.mark.slow
def test_noise_of_the_run_that_is_used_again_exits_one(folder, monkeypatch):
    def the_same_noise():
        source = SecureGenerator.__new__(SecureGenerator)
        np.random.Generator.__init__(source, AESCounter(key=7))
        return source

    monkeypatch.setattr("ostrakon.run.steps.secure_rng", the_same_noise)
    text = (folder / "run" / "run.toml").read_text()
    (folder / "again.toml").write_text(text[text.index("[asked]") + len("[asked]") : text.index("[settled]")])
    done = CliRunner().invoke(app, ["train", "--config", str(folder / "again.toml"), "--out", str(folder / "first")])
    assert done.exit_code == 0, done.output
    done = audited("--run", folder / "first", "--out", folder / "second")
    assert done.exit_code == 1
    assert "noise is used again" in json.loads(done.stdout)["contradiction"]


@pytest.mark.slow
def test_settings_in_a_file_will_do(folder):
    text = (folder / "run" / "run.toml").read_text()
    asked = text[text.index("[asked]") : text.index("[settled]")]
    (folder / "settings.toml").write_text(asked)
    done = audited("--run", folder / "settings.toml", "--confidence", "0.999", "--out", folder / "by-file", form=())
    said = " ".join(done.stdout.split())
    assert done.exit_code == 0, done.output
    assert re.search(
        r"claims epsilon 2 .* of \d+ made-up records \(canaries\), .* the \d+ that .* were guessed right \d+ times, ",
        said,
    )
    assert "by-file (the audited run: nothing in it may be published)" in said


@pytest.mark.slow
def test_trained_teachers_are_poisoned_and_nothing_is_written(folder):
    words = [
        "--private",
        folder / "private.csv",
        "--public",
        folder / "public.csv",
        "--target",
        "ill",
        "--classes",
        "from-private",
        "--jobs",
        "1",
    ]
    words += ["--mechanism", "gnmax", "--teachers", "40", "--queries", "5", "--epsilon", "2", "--delta", "1e-5"]
    words += ["--student", "logistic"]
    done = CliRunner().invoke(app, ["train", *map(str, words), "--out", str(folder / "trained")])
    assert done.exit_code == 0, done.output
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    done = audited("--run", folder / "trained", "--samples", "400")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["findings"] == {
        "one record moves one vote": None,
        "sampled outputs vs. claimed epsilon": None,
        "sampled outputs vs. stated probabilities": None,
        "exact epsilon vs. claimed epsilon": None,
    }
    assert (found["samples"], found["queries"], found["delta"]) == (400, 5, 1e-5)
    assert found["claimed"] == pytest.approx(2.0, abs=0.01)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
    refused = audited("--run", folder / "trained", "--out", folder / "somewhere")
    assert refused.exit_code != 0
    assert "--out cannot be given" in str(refused.exception)


@pytest.mark.slow
def test_of_other_data_the_run_claims_nothing(folder):
    private = folder / "private.csv"
    held = private.read_bytes()
    private.write_bytes(held[: held.rstrip().rindex(b"\n") + 1])
    try:
        done = audited("--run", folder / "run", "--out", folder / "other")
    finally:
        private.write_bytes(held)
    assert done.exit_code != 0
    assert "holds a run on other data (the private data changed)" in str(done.exception)
    assert not (folder / "other").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--run", "missing.toml"), "--run must be the folder of a run, or a TOML file of options, got missing.toml."),
        (("--run", "empty.toml"), "private data"),
        (("--run", "run", "--mechanism", "lnmax"), "--mechanism cannot be combined with --run"),
    ],
)
def test_bad_input_is_named(folder, monkeypatch, words, named):
    monkeypatch.chdir(folder)
    (folder / "empty.toml").write_text("seed = 1\n")
    done = audited(*words)
    assert done.exit_code != 0
    assert named in str(done.exception)


def test_the_run_of_a_release_is_named(tmp_path):
    (tmp_path / "release").mkdir()
    without = audited("--run", tmp_path / "release")
    assert str(without.exception).endswith(f"got {tmp_path / 'release'}.")
    (tmp_path / "run.toml").touch()
    within = audited("--run", tmp_path / "release")
    assert str(within.exception).endswith(f"got {tmp_path / 'release'}; {tmp_path} is one.")


def test_a_finished_study_is_refused_in_words(tmp_path):
    RunFolder(tmp_path).write({"asked": {"study": "0" * 64, "owners": ["north", "south"]}})
    refused = audited("--run", tmp_path)
    assert refused.exit_code != 0
    assert "--run must be a run of ostrakon train; the rows of the study" in str(refused.exception)
