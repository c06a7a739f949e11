"""One command per verb, one file per command."""

from ostrakon.cli import account, audit, compare, demo, reproduce, schema, train  # noqa: F401  (importing a command registers it)
from ostrakon.cli.app import app, main

__all__ = ["app", "main"]
