"""Every example runs as it stands, in a process of its own, and its own assertions hold."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"

SAYS = {
    "a_mechanism_of_your_own.py": ["Majority: not refuted", "Careless: refuted by"],
    "audit_a_trainer.py": ["every gradient clipped: The claim", "only the sum clipped: The claim of epsilon 1.76"],
    "audit_other_libraries.py": ["Opacus", "DP-EBM", "PATE-GAN"],
    "images.py": ["-DP by BoundedGNMax", "of test images right"],
    "plan_an_epsilon.py": ["for 10 queries as for 1,000", "even odds become 5"],
    "table_by_patient.py": ["One user is protected.", "statement.json"],
    "votes_you_already_have.py": ["worst case, a guarantee:", "<private: call reveal()"],
}


def test_every_example_has_a_row_and_a_place_in_the_documents() -> None:
    names = {path.name for path in EXAMPLES.glob("*.py")}
    assert names == SAYS.keys()
    page = (EXAMPLES.parent / "docs" / "examples.md").read_text()
    assert [name for name in sorted(names) if f"`examples/{name}`" not in page] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", SAYS)
def test_an_example_runs(name: str, tmp_path: Path) -> None:
    source = str(EXAMPLES.parent / "src")
    path = os.pathsep.join([source, *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert [words for words in SAYS[name] if words not in done.stdout] == []
