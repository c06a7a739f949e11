"""`ostrakon reproduce`: tables for people, one JSON object for programs, one sentence where the votes are missing."""

import json

import numpy as np
import pytest

from ostrakon.cli import main
from ostrakon.papers import reproduce
from ostrakon.papers.table import Table
from ostrakon.validation import InvalidInput


@pytest.fixture
def ostrakon(monkeypatch, capsys):
    """Run `ostrakon reproduce ...` in this process: (exit status, stdout, stderr)."""

    def run(*arguments, data=None):
        monkeypatch.setattr("sys.argv", ["ostrakon", "reproduce", *arguments])
        monkeypatch.setenv("COLUMNS", "200")
        monkeypatch.delenv("OSTRAKON_DATA", raising=False)
        if data is not None:
            monkeypatch.setenv("OSTRAKON_DATA", str(data))
        with pytest.raises(SystemExit) as done:
            main()
        return done.value.code or 0, *capsys.readouterr()

    return run


def test_unknown_paper_and_missing_votes_are_one_sentence(ostrakon, tmp_path):
    (tmp_path / "mnist_250_teachers.npy").write_bytes(b"not an array")
    for arguments, named in (
        (("pate-1999",), "Error: paper must be one of pate-2017, pate-2018"),
        (("pate-2018",), "https://storage.googleapis.com/pate-votes/votes.gz.\n"),
        (("pate-2018",), "OSTRAKON_DATA"),
        (("near-zero-cost",), "from benchmarks/results/teacher_votes of the source tree"),
        (("exponential-2024",), "from benchmarks/results/teacher_votes of the source tree"),
        (("pate-2017", "--data", str(tmp_path / "nowhere")), "https://storage.googleapis.com/pate-votes/votes.gz.\n"),
        (("pate-2018", "--data", str(tmp_path)), "cannot be read"),
    ):
        status, out, err = ostrakon(*arguments)
        assert (status, out) == (2, "")
        assert err.startswith("Error: ")
        assert err.count("\n") == 1
        assert named in err


@pytest.mark.slow
def test_pate_2018_as_json(ostrakon, data_dir):
    status, out, err = ostrakon("pate-2018", "--json", "--data", str(data_dir))
    assert status == 0, err
    found = json.loads(out)
    assert found["paper"] == "pate-2018"
    mnist, adult = found["tables"][0]["rows"]
    assert (mnist["printed ε"], round(mnist["published bound"], 3), mnist["bound at order"]) == (2.0, 1.999, 14)
    assert (adult["printed ε"], round(adult["published bound"], 3), adult["bound at order"]) == (1.68, 1.678, 15.5)
    assert (mnist["exact"], adult["exact"]) == pytest.approx((0.923, 0.958), abs=1e-3)
    assert (mnist["exact, Mironov"], adult["exact, Mironov"]) == pytest.approx((1.144, 1.182), abs=1e-3)
    assert round(mnist["expected answers"], 2) == 282.72
    for row in (mnist, adult):
        assert row["exact"] < row["published bound"]
        assert row["exact"] < row["worst case, answers capped"] <= row["worst case"]
    # What holds for all votes is less than what was published for these.
    assert round(mnist["worst case, answers capped"], 2) == 1.75
    table_2 = {(row["run"][:5], row["row"]): row for row in found["tables"][1]["rows"]}
    printed = table_2["MNIST", "recomputed, theorem as printed"]
    assert (round(printed["mean ε"], 2), round(printed["± sd"], 3)) == (2.52, 0.385)
    assert round(table_2["MNIST", "theorem corrected"]["mean ε"], 2) == 3.61
    best, at_any_order = (
        table_2["MNIST", name] for name in ("corrected, beta and sigma re-optimised", "corrected, order too")
    )
    cost = [row["mean ε"] + 2 * row["± sd"] for row in (at_any_order, best, table_2["MNIST", "theorem corrected"])]
    assert cost == sorted(cost)


@pytest.mark.slow
def test_pate_2017_as_a_table(ostrakon, data_dir):
    status, out, err = ostrakon("pate-2017", data=data_dir)
    assert status == 0, err
    for figure in ("2.04", "1.959", "2.049", "7.399", "8.257", "0.5294", "1.896"):
        assert figure in out


def test_votes_lie_in_the_folder_or_in_its_votes(tmp_path, data_dir):
    votes = np.load(data_dir / "votes" / "mnist_250_teachers.npy")
    np.save(tmp_path / "mnist_250_teachers.npy", votes)
    with pytest.raises(InvalidInput, match=r"adult_250_teachers\.npy"):
        reproduce("pate-2018", data=tmp_path)


def test_a_table_refuses_ragged_rows_and_equal_columns():
    with pytest.raises(ValueError, match="2 cells for 1"):
        Table(title="t", columns=("a",), rows=((1, 2),))
    with pytest.raises(ValueError, match="different names"):
        Table(title="t", columns=("a", "a"), rows=((1, 2),))
