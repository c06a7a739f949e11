"""The JSON that others read, as JSON Schema (draft 2020-12): one file for each kind of object that ostrakon writes."""

import json
from importlib.resources import files
from typing import Any

from ostrakon.validation import InvalidInput

SCHEMAS = ("account", "audit", "registry", "statement")
"""`ostrakon account --json`, `ostrakon audit --json` (with --run, too), `release/registry.json` and
`release/statement.json`."""


def schema_text(name: str) -> str:
    """Return the schema as it is shipped.

    name: one of `SCHEMAS`. Errors: `InvalidInput` for any other.

    >>> '"$schema": "https://json-schema.org/draft/2020-12/schema"' in schema_text("statement")
    True
    """
    if name not in SCHEMAS:
        raise InvalidInput(f"The schema must be one of {', '.join(SCHEMAS)}, got {name!r}.")
    return (files(__name__) / f"{name}.json").read_text(encoding="utf-8")


def schema(name: str) -> dict[str, Any]:
    """Return the same as an object, for a validator of JSON Schema.

    >>> sorted(schema("account")["properties"]["worst_case"]["properties"])
    ['delta', 'epsilon']
    """
    return json.loads(schema_text(name))
