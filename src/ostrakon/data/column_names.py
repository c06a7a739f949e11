"""Names for the columns of tables that have no header."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

# Well-known tables without a header; for others, a `.names` file beside the table gives the names.
KNOWN_NAMES = {
    "adult": [
        *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship"),
        *("race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income"),
    ]
}


def resolve_names(names: Sequence[str] | str | None, *, file: Path, columns: int) -> list[str] | None:
    """Column names from the user's argument (see `open_table`); None where nothing is known."""
    stem = file.name.split(".")[0]
    if names is None:
        beside = file.with_name(f"{stem}.names")
        if beside.is_file():
            in_file = _names_of_file(beside, columns=columns)
            return in_file if len(in_file) == columns else None
        known = KNOWN_NAMES.get(stem.lower(), [])
        return list(known) if len(known) == columns else None
    if not isinstance(names, str):
        return [str(name) for name in names]
    if names in KNOWN_NAMES:
        return list(KNOWN_NAMES[names])
    if "," not in names and Path(names).is_file():
        return _names_of_file(Path(names), columns=columns)
    return [name.strip() for name in names.split(",")]


def _names_of_file(file: Path, *, columns: int) -> list[str]:
    lines = [line.strip() for line in file.read_text(encoding="utf-8", errors="replace").splitlines()]
    lines = [line for line in lines if line and not line.startswith("|")]
    described = [match[1].strip() for line in lines if (match := re.match(r"([^:,]+):", line))]
    if described:
        known = next((known for known in KNOWN_NAMES.values() if known[:-1] == described), None)
        last = known[-1] if known else "class"
        return [*described, last] if len(described) == columns - 1 else described
    return [name.strip() for line in lines for name in line.split(",")]
