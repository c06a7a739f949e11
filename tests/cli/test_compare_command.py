import json

import numpy as np
import pytest
from typer.testing import CliRunner

from ostrakon.cli import app


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    counts = rng.multinomial(50, rng.dirichlet([15, 1, 1], size=20))
    np.save(tmp_path / "votes.npy", counts)
    np.save(tmp_path / "labels.npy", counts.argmax(axis=1))
    np.savetxt(tmp_path / "labels.txt", counts.argmax(axis=1), fmt="%d")
    return tmp_path


def run(files, *words: str):
    return CliRunner().invoke(app, ["compare", str(files / "votes.npy"), *words])


@pytest.mark.slow
def test_a_table_a_picture_and_a_sentence(files):
    picture = files / "compare.png"
    done = run(files, "--labels", str(files / "labels.npy"), "--picture", str(picture))
    assert done.exit_code == 0
    said = " ".join(done.stdout.split())
    assert "Use " in said
    assert "gnmax" in said
    assert "claimed, not true" in said
    assert "must not be published" in said
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_json(files):
    done = run(files, "--labels", str(files / "labels.txt"), "--at", "data-dependent", "--queries", "10", "--json")
    assert done.exit_code == 0
    found = json.loads(done.stdout)
    assert found["queries"] == 10
    assert found["accuracy_against"] == "labels"
    assert {row["mechanism"] for row in found["rows"]} >= {"gnmax", "immutable"}
    assert all(0 < row["data_dependent"] <= 2 for row in found["rows"] if row["releasable"])


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--at", "gated"), "--public"),
        (("--at", "nowhere"), "--at must be one of worst-case, data-dependent, gated, got"),
        (("--at", "gate"), "Did you mean 'gated'?"),
        (("--epsilon", "-1"), "epsilon"),
        (("--labels", "nosuch.npy"), "--labels"),
        (("--queries", "21"), "--queries"),
        (("--picture", "/nosuch/folder/x.png"), "picture must be a file (.png, .svg, .pdf) in a folder that can be"),
        (("--picture", "x.jpeg"), "picture must be a file (.png, .svg, .pdf)"),
        (("more.npy",), "'more.npy' must come after an option; a value with spaces needs quotes."),
    ],
)
def test_bad_input_is_named(files, words, named):
    done = run(files, *words)
    assert done.exit_code != 0
    assert named in str(done.exception)


@pytest.mark.slow
@pytest.mark.parametrize("header", ["label\n", ""])
def test_labels_may_be_names(files, header):
    counts = np.load(files / "votes.npy")
    names = ["class a", "class b", "class c"]
    votes, labels = files / "named.csv", files / "named.txt"
    votes.write_text(",".join(names) + "\n" + "\n".join(",".join(map(str, row)) for row in counts) + "\n")
    labels.write_text(header + "\n".join(names[place] for place in counts.argmax(axis=1)) + "\n")

    def told(of):
        return CliRunner().invoke(app, ["compare", str(votes), "--labels", str(of), "--json", "--kind", "counts"])

    by_name, by_number = told(labels), told(files / "labels.npy")
    assert by_name.exit_code == by_number.exit_code == 0
    assert by_name.stdout == by_number.stdout
    labels.write_text("\n".join(["class a", "class z"] * len(counts)))
    assert "--labels must name classes of VOTES (class a, class b, class c), got 'class z'" in str(
        told(labels).exception
    )
