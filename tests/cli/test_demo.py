import json
import sys

import pytest

from ostrakon.cli.app import main


@pytest.mark.slow
def test_the_demo_runs_both_ways_end_to_end(monkeypatch, capsys, tmp_path):
    options = ["--small", "--epsilon", "8", "--out", str(tmp_path / "run")]
    monkeypatch.setattr(sys, "argv", ["ostrakon", "demo", *options])
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as stopped:
        main()
    seen = capsys.readouterr()
    assert stopped.value.code in (0, None), seen.err
    # One table: both ways stand in one line.
    (teachers,) = [line.split() for line in seen.out.splitlines() if line.startswith("Teachers ")]
    assert teachers[:3] == ["Teachers", "125", "3,000"]
    (accuracies,) = [line for line in seen.out.splitlines() if line.startswith("Student accuracy")]
    assert accuracies.count("test rows") == 2
    for word in ("125 trained teachers", "Per-record teachers", "labels are wrong;", "ostrakon train --private"):
        assert word in seen.out
    assert (tmp_path / "run" / "both-ways.png").stat().st_mode & 0o077 == 0
    for way, mechanism in (("trained", "confident-gnmax"), ("per-record", "bounded-gnmax")):
        folder = tmp_path / "run" / way
        statement = json.loads((folder / "release" / "statement.json").read_text())
        assert statement["guarantee"]["epsilon"] <= 8
        assert statement["rounds"][0]["mechanism"] == mechanism
        accuracy = json.loads((folder / "private" / "evaluation.json").read_text())["accuracy"]
        # Always saying the most frequent of ten classes, five times the rarest, would give less than a fifth.
        assert accuracy > 0.5
        assert f"{accuracy:.1%}" in accuracies
        assert f"right on {accuracy:.2%} of" in (folder / "release" / "model_card.md").read_text()
