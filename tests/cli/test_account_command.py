import json
import sys

import numpy as np
import pytest

from ostrakon.accounting.account import EFFORT, account
from ostrakon.accounting.data_independent.stages import Stage, worst_case_of_stages
from ostrakon.accounting.data_independent.worst_case import worst_case
from ostrakon.accounting.epsilons import WorstCase
from ostrakon.cli.app import main
from ostrakon.mechanisms import BoundedGNMax, ConfidentGNMax, GNMax, LNMax
from ostrakon.validation import InvalidInput
from ostrakon.votes import Votes

COUNTS = np.array([[200, 30, 20], [90, 80, 80], [250, 0, 0], [126, 124, 0]])
NOISE = ["--threshold", "150", "--sigma1", "100", "--sigma2", "40"]


@pytest.fixture
def command(monkeypatch, capsys, tmp_path):
    np.save(tmp_path / "votes.npy", COUNTS)

    def run(*arguments, votes=tmp_path / "votes.npy"):
        monkeypatch.setattr(sys, "argv", ["ostrakon", "account", str(votes), *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
        seen = capsys.readouterr()
        return int(stopped.value.code or 0), seen.out, " ".join(seen.err.split())

    return run


@pytest.mark.parametrize("conversion", ["cks", "mironov"])
def test_json_is_the_account(command, conversion):
    code, out, _ = command(*NOISE, "--delta", "1e-6", "--conversion", conversion, "--json")
    assert code == 0
    printed = json.loads(out)
    law = ConfidentGNMax(threshold=150, sigma1=100, sigma2=40)
    cost = account(Votes(COUNTS), law, delta=1e-6, conversion=conversion)
    assert [printed[key] for key in ("queries", "teachers", "classes")] == [4, 250, 3]
    assert printed["worst_case"] == {"epsilon": cost.worst_case.epsilon, "delta": 1e-6}
    local, published = cost.data_dependent.reveal(), cost.published.reveal()
    assert printed["data_dependent"]["epsilon"] == local["epsilon"]
    assert printed["data_dependent"]["order"] == local.get("order")
    assert printed["data_dependent"]["expected_answers"] == pytest.approx(
        np.exp(law.log_probabilities(Votes(COUNTS)))[:, :-1].sum()
    )
    assert printed["published"] == {"epsilon": published["epsilon"], "order": published["order"]}
    assert "must not be published" in printed["notice"]


def test_the_first_queries_alone(command):
    _, out, _ = command(*NOISE, "--queries", "2", "--json")
    assert json.loads(out)["queries"] == 2


STAGES = ["--mechanism", "gnmax(sigma2=40)", "--queries", "3", "--mechanism", "lnmax(gamma=0.02)", "--queries", "1"]


@pytest.mark.slow
def test_several_mechanisms_and_an_earlier_release_have_one_price(command):
    code, out, err = command(*STAGES, "--earlier", "0.5,1e-6", "--json")
    assert code == 0, err
    printed = json.loads(out)
    asked = [Stage(mechanism=GNMax(sigma2=40), queries=3), Stage(mechanism=LNMax(gamma=0.02), queries=1)]
    before = WorstCase(epsilon=0.5, delta=1e-6, basis="")
    cost = worst_case_of_stages(asked, delta=1e-5, teachers=250, classes=3, earlier=before, effort=EFFORT)
    assert printed["worst_case"] == {"epsilon": cost.epsilon, "delta": 1e-5}
    assert [one["queries"] for one in printed["stages"]] == [3, 1]
    code, out, _ = command(*STAGES)
    assert code == 0
    assert "3 queries of gnmax, then 1 query of lnmax" in " ".join(out.split())
    assert "data-dependent" not in out


def test_the_table_names_what_may_leave(command):
    code, out, _ = command(*NOISE)
    assert code == 0
    assert "worst case (publishable)" in out
    assert "data-dependent (private)" in out


def test_a_mechanism_without_guarantee_is_marked(command):
    _, out, _ = command("--mechanism", "immutable", "--constant", "10", "--gamma", "0.1")
    assert "no release may rest on it" in " ".join(out.replace("│", " ").split())


def test_what_has_no_bound_is_infinity_never_zero(command):
    arguments = ["--mechanism", "propose-test-release", "--threshold", "1", "--epsilon-per-query", "1", "--json"]
    code, out, _ = command(*arguments)
    assert code == 0
    assert json.loads(out)["worst_case"]["epsilon"] == "infinity"
    words = " ".join(command(*arguments[:-1])[1].split())
    assert "propose-test-release has no epsilon at a delta of 1e-05: it may fail" in words
    arguments[3] = "60"
    assert "it may fail" not in " ".join(command(*arguments[:-1])[1].split())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--sigma1", "100", "--sigma2", "40"], "confident-gnmax needs --threshold"),
        ([*NOISE, "--gamma", "1"], "--gamma is not a parameter of confident-gnmax"),
        (["--mechanism", "lnmax", "--gamma", "0"], "--gamma must be a finite number above 0"),
        (["--mechanism", "nobody"], "--mechanism must be one of"),
        (["--mechanism", "gnmax(sigma=40)"], "'sigma' is not a parameter of gnmax, which takes 'sigma2'"),
        ([*NOISE, "--queries", "0"], "--queries must be"),
        ([*NOISE, "--queries", "5"], "--queries must be an integer of at least 1 and at most 4"),
        ([*NOISE, "--queries", "1" + "0" * 400], "--queries must be an integer of at least 1 and at most 4"),
        ([*NOISE, "--max-answers", "1" + "0" * 400], "--max-answers must be an integer of at least 0 and at most"),
        ([*NOISE, "--teachers", "1" + "0" * 400], "teachers must be an integer of at least 1 and at most"),
        (["--mechanism", "gnmax", "--sigma2", "1e400"], "--sigma2 must be a finite number above 0"),
        ([*NOISE, "--delta", "0"], "delta must be"),
        ([*NOISE, "--delta", "nan"], "delta must be"),
        ([*NOISE, "--max-answers", "-1"], "--max-answers must be"),
        ([*NOISE, "--conversion", "magic"], "--conversion must be cks or mironov"),
        ([*STAGES, "--queries", "1"], "--queries must be given once for each of 2 mechanisms, got 3 times"),
        ([*STAGES[:-1], "2"], "the sum of --queries must be an integer of at least 0 and at most 4"),
        ([*STAGES, "--sigma2", "30"], "--sigma2 must be given once"),
        ([*STAGES, "--max-answers", "1"], "--max-answers must be given once for each of 2 mechanisms, got 1 times"),
        ([*STAGES, "--public"], "--public, --plurality and --conversion are for one mechanism"),
        ([*STAGES, "--earlier", "1"], "--earlier must be EPSILON,DELTA"),
        ([*STAGES, "--earlier", "nan,0.1"], "the epsilon of --earlier must be"),
        ([*STAGES, "--earlier", "1,nan"], "the delta of --earlier must be"),
        ([*STAGES, "--earlier", "1,1e-5"], "must be above the delta of --earlier, 1e-05, got 1e-05"),
        ([*NOISE, "--queries", "1", "--queries", "2"], "--queries must be given once for one mechanism, got 2 times"),
    ],
)
def test_what_is_wrong_is_named_by_its_option(command, arguments, sentence):
    code, _, err = command(*arguments)
    assert code == 2
    assert sentence in err


def test_an_unreadable_file_is_one_sentence(command, tmp_path):
    (tmp_path / "bad.npy").write_text("not numpy")
    code, _, err = command(*NOISE, votes=tmp_path / "bad.npy")
    assert code == 2
    assert "bad.npy" in err
    assert "Traceback" not in err


def test_max_contributions_are_verified_before_they_are_priced(command, tmp_path):
    bounded = ["--mechanism", "bounded-gnmax", "--sigma2", "50", "--kind", "predictions", "--json"]
    np.save(tmp_path / "kept.npy", np.array([[0, -1, 1, -1], [-1, 2, -1, -1], [-1, -1, -1, 0]]))
    np.save(tmp_path / "broken.npy", np.array([[0, -1, 1, 2], [-1, 2, -1, 1], [-1, -1, -1, 0]]))
    code, out, _ = command(*bounded, votes=tmp_path / "kept.npy")
    assert code == 0
    found = json.loads(out)
    assert found["worst_case"]["epsilon"] == worst_case(BoundedGNMax(sigma2=50), queries=3, delta=1e-5).epsilon
    assert (found["teachers"], found["data_dependent"], found["published"]) == (4, None, None)
    code, out, err = command(*bounded, votes=tmp_path / "broken.npy")
    assert (code, out) == (2, "")
    assert "3 voted 3 times" in err
    assert command(*bounded, "--max-contributions", "3", votes=tmp_path / "broken.npy")[0] == 0
    # Of counts, nothing but the total can be checked.
    code, _, err = command("--mechanism", "bounded-gnmax", "--sigma2", "50", "--teachers", "250")
    assert code == 2
    assert "at most 250" in err


def test_plain_votes_are_no_bounded_votes():
    with pytest.raises(InvalidInput, match="BoundedVotes"):
        account(Votes(COUNTS), BoundedGNMax(sigma2=50), delta=1e-5)
