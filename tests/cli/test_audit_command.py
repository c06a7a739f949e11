import json

import pytest
from typer.testing import CliRunner

from ostrakon.cli import app


def run(*words: str):
    return CliRunner().invoke(app, ["audit", *words])


@pytest.mark.parametrize("law", [("lnmax", "--gamma", "0.05"), ("lnmax(gamma=0.05)",)])
def test_a_sound_mechanism_exits_zero(law):
    done = run("--mechanism", *law, "--queries", "1", "--samples", "2000", "--json")
    assert done.exit_code == 0
    found = json.loads(done.stdout)
    assert found["mechanism"] == "lnmax"
    # Pure DP says 0.1; a hundred teachers and three classes cannot reach it.
    assert 0.095 < found["claimed"] < 0.0999
    assert found["lower_bound"] < found["claimed"]
    assert found["confidence"] == 0.95


def test_a_refuted_claim_exits_one_with_a_sentence():
    done = run("--mechanism", "immutable", "--constant", "100", "--gamma", "0.1", "--queries", "1", "--samples", "2000")
    assert done.exit_code == 1
    said = " ".join(done.stdout.split())
    assert "The claim is refuted: immutable claims epsilon 0.2" in said
    assert "not differentially private" in said


def test_votes_are_said_to_be_those_of_synthetic_teachers_and_what_was_chosen():
    done = run("--mechanism", "lnmax", "--gamma", "0.05", "--queries", "1", "--samples", "500")
    said = " ".join(done.stdout.split())
    assert "on the first query, of made-up teachers Chosen by the audit the number of teachers (--teachers)" in said


def test_a_users_own_sampler(tmp_path, monkeypatch):
    (tmp_path / "my_votes.py").write_text("def plurality(votes, rng):\n    return votes.plurality\n")
    monkeypatch.chdir(tmp_path)
    done = run("--sampler", "my_votes:plurality", "--claimed", "0.5", "--samples", "500", "--json")
    assert done.exit_code == 1
    assert json.loads(done.stdout)["mechanism"] == "plurality"


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ((), "--mechanism, --sampler or --run"),
        (("--mechanism", "lnmax"), "needs gamma"),
        (("--mechanism", "nosuch"), "nosuch"),
        (("--mechanism", "lnmax", "--gamma", "-1"), "gamma"),
        (("--mechanism", "lnmax", "--gamma", "0.1", "--delta", "2"), "delta"),
        (("--sampler", "no.such:thing", "--claimed", "1"), "--sampler"),
        (("--sampler", "math:pi", "--claimed", "1"), "must name a function"),
        (("--sampler", "os:system", "--claimed", "1"), "must name a function of (votes, rng)"),
    ],
)
def test_bad_input_is_named(words, named):
    done = run(*words)
    assert done.exit_code != 0
    assert named in str(done.exception)
