"""The immutable mechanism's claim stands beside the truth, and is called a claim."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from ostrakon.cli import app


@pytest.fixture
def run(tmp_path):
    np.save(tmp_path / "votes.npy", np.tile([[60, 30, 10]], (5, 1)))
    words = ["account", str(tmp_path / "votes.npy"), "--mechanism", "immutable", "--constant", "50", "--gamma", "0.1"]
    return lambda *more: CliRunner().invoke(app, [*words, *more])


def test_json_has_claim_and_truth(run):
    found = json.loads(run("--json").stdout)
    assert found["claimed"] == pytest.approx(1.0)
    assert found["worst_case"]["epsilon"] > 30
    assert "not differentially private" in found["warning"]


def test_the_table_says_which_is_which(run):
    said = " ".join(run().stdout.split())
    assert "claimed (not true)" in said
    assert "not differentially private" in said
    assert "publishable" not in said
