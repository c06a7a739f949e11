"""One command per verb, one file per command."""

from quorate.cli import account, audit, compare, demo, reproduce, train  # noqa: F401  (importing a command registers it)
from quorate.cli.app import app, main

__all__ = ["app", "main"]
