"""Documents and messages use standard English: phrases that readers did not understand are kept out."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PHRASES = re.compile(
    r"\b(whoever|so many\b|(?<!there )(is|are) no (?!longer)|of images\b|told\b|heard\b|put to the|stands? where"
    r"|it is what)",
    re.IGNORECASE,
)
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
NAMES = frozenset({"told", "heard", "held", "made", "found", "place", "placed", "each", "whoever"})
"""Words that no identifier contains."""
INHERITED = frozenset({"connection_made"})
"""Names that asyncio gives."""
NOT_YET = (
    "export/loader.py",  # a release holds a copy, whose bytes stay
)


def messages(source: str) -> Iterator[tuple[int, str]]:
    """(line, text) of every string of a module that is not a docstring."""
    tree = ast.parse(source)
    notes = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in notes:
            yield node.lineno, node.value


def remarks(source: str) -> Iterator[tuple[int, str]]:
    """(line, text) of every docstring and comment of a module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def identifiers(source: str) -> Iterator[tuple[int, str]]:
    """(line, name) of everything that a module defines."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id if isinstance(node, ast.Name) else node.attr


def finished_modules() -> list[Path]:
    package = ROOT / "src" / "ostrakon"
    names = {file.relative_to(package).as_posix(): file for file in sorted(package.rglob("*.py"))}
    return [file for name, file in names.items() if name not in NOT_YET]


def banned(text: str) -> list[str]:
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
        if banned(text)
    ]
    assert found == []


def test_docstrings_and_comments_of_finished_modules_use_none_of_the_phrases() -> None:
    lines = [
        f"{file.relative_to(ROOT)}:{line}: {banned(text)}"
        for file in finished_modules()
        for line, text in remarks(file.read_text())
        if banned(text)
    ]
    assert lines == []


def test_identifiers_of_finished_modules_use_standard_words() -> None:
    lines = [
        f"{file.relative_to(ROOT)}:{line}: {name}"
        for file in finished_modules()
        for line, name in identifiers(file.read_text())
        if name not in INHERITED and NAMES & set(name.lower().split("_"))
    ]
    assert lines == []


def test_the_check_sees_what_it_should() -> None:
    assert banned("Whoever asks is told so.") == ["Whoever", "told"]
    assert banned("It is no number.") == ["is no "]
    assert banned("There is no file; it is no longer there.") == []
    assert [text for _, text in messages('"""whoever"""\nx = f"so many {1}"')] == ["so many "]
    assert [text for _, text in remarks('"""whoever"""\nx = "told"  # so many')] == ["whoever", "# so many"]
    assert [name for _, name in identifiers("def f(told):\n    self.held_rows = told")] == ["f", "told", "held_rows"]
