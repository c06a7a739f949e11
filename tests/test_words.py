"""Documents and messages use standard English: phrases that readers did not understand are kept out."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PHRASES = re.compile(
    r"\b(whoever|so many\b|(is|are) no (?!longer)|of images\b|told\b|heard\b|put to the|stands? where|it is what)",
    re.IGNORECASE,
)
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
ALLOWED = ("There is no ", "There are no ")
"""Plain English in spite of the pattern."""
INTERNAL = {("teachers/placed.py", "told-"), ("teachers/placed.py", "what workers are told")}
"""Names of files, which no user reads."""


def messages(source: str) -> Iterator[tuple[int, str]]:
    """(line, text) of every string of a module that is not a docstring."""
    tree = ast.parse(source)
    notes = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in notes:
            yield node.lineno, node.value


def banned(text: str) -> list[str]:
    for plain in ALLOWED:
        text = text.replace(plain, "")
    return [hit[0] for hit in PHRASES.finditer(text)]


def test_documents_use_none_of_the_phrases() -> None:
    lines = [
        f"{document.name}:{number}: {line}"
        for document in DOCUMENTS
        for number, line in enumerate(document.read_text().splitlines(), 1)
        if banned(line)
    ]
    assert lines == []


def test_messages_use_none_of_the_phrases() -> None:
    package = ROOT / "src" / "ostrakon"
    found = [
        f"{file.relative_to(package)}:{line}: {text}"
        for file in sorted(package.rglob("*.py"))
        for line, text in messages(file.read_text())
        if banned(text) and (file.relative_to(package).as_posix(), text) not in INTERNAL
    ]
    assert found == []


def test_the_check_sees_what_it_should() -> None:
    assert banned("Whoever asks is told so.") == ["Whoever", "told"]
    assert banned("It is no number.") == ["is no "]
    assert banned("There is no file; it is no longer there.") == []
    assert [text for _, text in messages('"""whoever"""\nx = f"so many {1}"')] == ["so many "]
