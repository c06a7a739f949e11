"""`statement.json` of a release, written and read."""

from pathlib import Path
from typing import Any

from ostrakon.data.files import read_json, write_json
from ostrakon.statements.statement import SCHEMA, Statement
from ostrakon.validation import InvalidInput

FILE = "statement.json"


def write_statement(folder: Path, statement: Statement) -> None:
    """Write `statement.json`. Errors: `InvalidInput` for anything but a `Statement`."""
    if not isinstance(statement, Statement):
        raise InvalidInput(f"A release states its privacy by a Statement, got a {type(statement).__name__}.")
    write_json(folder / FILE, statement.as_dict())


def read_statement(folder: Path) -> dict[str, Any]:
    """Return the content of `statement.json`; refused where it has another schema."""
    path = Path(folder) / FILE
    content = read_json(path)
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        raise InvalidInput(f"{path} must have the schema {SCHEMA!r}.")
    return content
