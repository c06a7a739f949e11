"""The documents name nothing that is not there, and no public name goes without a docstring."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest

import ostrakon
from ostrakon.mechanisms import MECHANISMS

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]


def found(pattern: str) -> set[str]:
    return {hit for document in DOCUMENTS for hit in re.findall(pattern, document.read_text())}


def test_every_path_in_the_documents_exists() -> None:
    paths = found(r"\b((?:benchmarks|tests|docs|src)/[\w/.-]*\w)")
    assert len(paths) > 5
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []


def test_every_module_in_the_documents_can_be_imported() -> None:
    names = found(r"`((?:accounting|mechanisms|audit)\.[a-z_]+)(?:\.[\w.]+)?`")
    assert len(names) > 10
    for name in sorted(names):
        importlib.import_module(f"ostrakon.{name}")


def test_every_test_in_the_theory_exists() -> None:
    known = {path.stem for path in (ROOT / "tests").rglob("test_*.py")}
    names = set(re.findall(r"`(test_\w+)`", (ROOT / "docs" / "mathematics.md").read_text()))
    assert len(names) > 10
    assert sorted(names - known) == []


@pytest.mark.parametrize("name", sorted(set(ostrakon.__all__)))
def test_every_public_name_is_there_and_documented(name: str) -> None:
    assert len(inspect.getdoc(getattr(ostrakon, name)) or "") > 20


def test_the_guide_names_every_mechanism() -> None:
    guide = (ROOT / "docs" / "guide.md").read_text()
    assert [name for name in MECHANISMS if f"`{name}`" not in guide] == []
