"""Rules for the code that neither the linter nor the import rules check."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "ostrakon"
MOST_LINES = 60


def long_functions(source: str, most: int = MOST_LINES) -> Iterator[str]:
    """Functions of more than `most` lines, docstrings not counted. Compiled kernels must be one function."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        compiled = any(ast.unparse(decorator).startswith("compiled") for decorator in node.decorator_list)
        first, lines = node.body[0], (node.end_lineno or 0) - node.lineno + 1
        if ast.get_docstring(node) is not None:
            lines -= (first.end_lineno or 0) - first.lineno + 1
        if lines > most and not compiled:
            yield node.name


def test_no_function_is_longer_than_60_lines() -> None:
    long = {
        f"{file.relative_to(SOURCE).as_posix()}:{name}"
        for file in SOURCE.rglob("*.py")
        for name in long_functions(file.read_text(encoding="utf-8"))
    }
    assert long == set()


def test_the_count_of_lines_leaves_out_docstrings_and_kernels() -> None:
    body = "    x = 1\n" * 3
    assert list(long_functions(f"def f():\n{body}", most=3)) == ["f"]
    assert list(long_functions(f'def f():\n    """Two\n    lines."""\n{body}', most=4)) == []
    assert list(long_functions(f"@compiled\ndef f():\n{body}", most=3)) == []


def layers() -> list[set[str]]:
    """The layers of the package, top first, as the import rules have them."""
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    return [set(re.findall(r"ostrakon\.(\w+)", layer)) for layer in rules[0]["layers"]]


def imports_by_string(source: str) -> Iterator[str]:
    """Packages of this one that a module names in strings which may be imported: `ostrakon.PACKAGE.…`."""
    tree = ast.parse(source)
    notes = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in notes:
            yield from re.findall(r"^ostrakon\.(\w+)\.", node.value)


@pytest.mark.parametrize("depth", range(len(layers())))
def test_no_layer_imports_a_higher_one_by_string(depth: int) -> None:
    higher = set().union(*layers()[:depth])
    files = [
        file
        for name in layers()[depth]
        for file in [SOURCE / f"{name}.py", *(SOURCE / name).rglob("*.py")]
        if file.is_file()
    ]
    assert files
    upward = [
        f"{file.relative_to(SOURCE)}: {name}"
        for file in files
        for name in imports_by_string(file.read_text(encoding="utf-8"))
        if name in higher
    ]
    assert upward == []


def test_strings_that_may_be_imported_are_seen() -> None:
    assert list(imports_by_string('"""ostrakon.run.steps"""\nx = "ostrakon.run.steps"')) == ["run"]
    assert list(imports_by_string('import_module(f"ostrakon.cli.{name}")')) == ["cli"]
