import json
import sys

import pytest

from ostrakon.cli.app import main


@pytest.mark.parametrize("mechanism", ["confident-gnmax", "bounded-gnmax"])
def test_the_demo_runs_end_to_end(monkeypatch, capsys, tmp_path, mechanism):
    options = ["--small", "--epsilon", "8", "--mechanism", mechanism, "--out", str(tmp_path / "run")]
    monkeypatch.setattr(sys, "argv", ["ostrakon", "demo", *options])
    with pytest.raises(SystemExit) as stopped:
        main()
    seen = capsys.readouterr()
    assert stopped.value.code in (0, None), seen.err
    for word in ("Teachers", "Student accuracy", "picture.png", "ostrakon train --private"):
        assert word in seen.out
    statement = json.loads((tmp_path / "run" / "release" / "statement.json").read_text())
    assert statement["guarantee"]["epsilon"] <= 8
    accuracy = json.loads((tmp_path / "run" / "private" / "evaluation.json").read_text())["accuracy"]
    # Always saying the most frequent of ten classes, five times the rarest, would give less than a fifth.
    assert accuracy > 0.5
