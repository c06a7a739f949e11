"""Every example runs as it stands, in a process of its own, and its own assertions hold."""

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parents[1] / "examples"
NOTEBOOKS = ("a_table.ipynb", "photos.ipynb", "plan_and_statement.ipynb")
SAYS = {
    "a_mechanism_of_your_own.py": ["Majority: not refuted", "Careless: refuted by"],
    "audit_a_trainer.py": ["every gradient clipped: The claim", "only the sum clipped: The claim of epsilon 1.76"],
    "audit_other_libraries.py": ["Opacus", "DP-EBM", "PATE-GAN"],
    "votes_you_already_have.py": ["worst case, a guarantee:", "<private: call reveal()"],
}


def test_every_example_is_tested_and_described() -> None:
    names = {path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".ipynb")}
    assert names == {*SAYS, *NOTEBOOKS}
    page = (EXAMPLES.parent / "docs" / "examples.md").read_text()
    assert [name for name in sorted(names) if f"examples/{name}" not in page] == []


@pytest.fixture
def source_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    source = str(EXAMPLES.parent / "src")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([source, *filter(None, [os.environ.get("PYTHONPATH")])]))


@pytest.mark.slow
@pytest.mark.usefixtures("source_on_the_path")
@pytest.mark.parametrize("name", SAYS)
def test_a_script_runs(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)], cwd=tmp_path, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert [words for words in SAYS[name] if words not in done.stdout] == []


@pytest.mark.slow
@pytest.mark.usefixtures("source_on_the_path")
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs(name: str, tmp_path: Path) -> None:
    notebook = nbformat.read(EXAMPLES / name, as_version=4)
    assert [cell for cell in notebook.cells if cell.get("outputs")] == []
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [
        output.data.get("text/html", "")
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if "data" in output
    ]
    assert any("Privacy statement" in html for html in shown)
