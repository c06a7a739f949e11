"""A task from tables on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ostrakon.data.classes import CLASSES_FROM
from ostrakon.data.sources import digest_of_file
from ostrakon.data.task import open_task
from ostrakon.run.inputs.private_data import PrivateTable
from ostrakon.run.inputs.task import Task


def task_from_tables(private: Any, public: Any, *, test: Any = None, **options: Any) -> Task:
    """Check the tables of a run (see `ostrakon.data.task.open_task` for options and errors).

    The public table and the test table are read into memory; the private one stays on the disk.
    """
    tables = open_task(private, public, test=test, **options)
    X_test, y_test = (None, None) if tables.test is None else tables.test_rows()
    given = {"private": tables.private, "public": tables.public, "test": tables.test}
    fingerprints = {name: _digest(table.path) for name, table in given.items() if table is not None}
    public_rows = tables.public_rows()
    return Task(
        private=PrivateTable(tables=tables, digest=fingerprints["private"]),
        classes=tables.classes,
        X_public=public_rows,
        X_test=X_test,
        y_test=y_test,
        classes_from=CLASSES_FROM[tables.classes_from],
        fingerprints=fingerprints,
        rows=f"columns {', '.join(tables.columns.kept)}, by name, as the public table has them",
        kinds={name: tables.columns.kinds[name] for name in tables.columns.kept},
        understood=tables.understood(public_rows=len(public_rows)),
    )


def _digest(path: Path) -> str:
    if path.is_dir():
        return ",".join(digest_of_file(part) for part in sorted(path.rglob("*.parquet")))
    return digest_of_file(path)
