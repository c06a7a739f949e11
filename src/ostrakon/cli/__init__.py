"""One command per verb, one file per command."""

# Importing a command registers it.
from ostrakon.cli import account, audit, compare, demo, ledger, plan, reproduce, schema, serve, study, train  # noqa: F401  # pyright: ignore[reportUnusedImport]
from ostrakon.cli.app import app, main

__all__ = ["app", "main"]
