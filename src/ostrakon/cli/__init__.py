"""One command per verb, one file per command."""

from ostrakon.cli.app import app, main

__all__ = ["app", "main"]
