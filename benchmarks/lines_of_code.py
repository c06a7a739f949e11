"""Lines of the package and of its tests: all of them, and those with code (not blank, no comment, no docstring).

    python benchmarks/lines_of_code.py

The core is `src/ostrakon` without `papers`, `study`, `service` and remote storage.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
LEAVES = ("papers", "study", "service")
REMOTE_STORAGE = ("run/remote.py", "data/object_store.py")
NO_CODE = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


def lines(source: str) -> tuple[int, int]:
    """(all lines, lines with code)."""
    docstrings = set[int]()
    for node in ast.walk(ast.parse(source)):
        documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if documented and ast.get_docstring(node) is not None:
            docstrings |= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    code = {line for one in tokens if one.type not in NO_CODE for line in range(one.start[0], one.end[0] + 1)}
    return len(source.splitlines()), len(code - docstrings)


def main() -> None:
    total, code = Counter[str](), Counter[str]()
    for tree in ("src/ostrakon", "tests"):
        for file in (ROOT / tree).rglob("*.py"):
            inside = file.relative_to(ROOT / tree).parts
            folder = inside[0] if len(inside) > 1 else "(single modules)"
            parts = [tree, *([f"{tree}/{folder}"] if tree != "tests" else [])]
            leaf = folder in LEAVES or "/".join(inside) in REMOTE_STORAGE
            parts += ["core"] if tree != "tests" and not leaf else []
            for part in parts:
                every, with_code = lines(file.read_text(encoding="utf-8"))
                total[part], code[part] = total[part] + every, code[part] + with_code
    for part, every in total.most_common():
        print(f"| {part} | {every:,} | {code[part]:,} |")


if __name__ == "__main__":
    main()
