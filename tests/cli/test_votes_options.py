"""What a file of votes holds can be said on the command line."""

import json
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

from ostrakon.cli import app
from ostrakon.validation import InvalidInput


def run(path: Path, *more: str) -> dict[str, object] | BaseException | None:
    result = CliRunner().invoke(app, ["account", str(path), "--mechanism", "gnmax", "--sigma2", "2", "--json", *more])
    return json.loads(result.stdout) if result.exit_code == 0 else result.exception


def test_the_kind_that_is_said_decides_how_a_file_is_read(tmp_path: Path) -> None:
    # Two teachers on two classes: as counts every row sums to 2, as predictions every cell is a class.
    np.save(tmp_path / "votes.npy", np.array([[1, 1], [0, 2], [2, 0]]))
    assert isinstance(run(tmp_path / "votes.npy", "--kind", "rows"), InvalidInput)
    counts = run(tmp_path / "votes.npy", "--kind", "counts")
    predictions = run(tmp_path / "votes.npy", "--kind", "predictions", "--classes", "4")
    assert isinstance(counts, dict)
    assert isinstance(predictions, dict)
    assert (counts["teachers"], counts["classes"]) == (2, 2)
    assert (predictions["teachers"], predictions["classes"]) == (2, 4)


def test_abstentions_must_be_declared(tmp_path: Path) -> None:
    np.save(tmp_path / "votes.npy", np.array([[5, 1], [2, 2]]))
    assert isinstance(run(tmp_path / "votes.npy", "--kind", "counts"), InvalidInput)
    declared = run(tmp_path / "votes.npy", "--kind", "counts", "--abstentions", "--teachers", "7")
    assert isinstance(declared, dict)
    assert declared["teachers"] == 7
