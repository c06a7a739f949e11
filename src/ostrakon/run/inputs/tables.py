"""A task from tables on disk."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from ostrakon.data.checksummed import digest_of_json
from ostrakon.data.classes import CLASSES_FROM
from ostrakon.data.columns import Columns
from ostrakon.data.consent import Consent
from ostrakon.data.domain import Domain
from ostrakon.data.object_store import ObjectPath
from ostrakon.data.outside_range import in_words, outside_table
from ostrakon.data.owners import likely_owners, owners_in_words
from ostrakon.data.quantity import Quantity
from ostrakon.data.sources import open_table
from ostrakon.data.table_files import digest_of_file, parts_of
from ostrakon.data.task import TableTask, open_described_task, open_task
from ostrakon.data.understood import listed
from ostrakon.run.inputs.private_data import PrivateTable
from ostrakon.run.inputs.task import Task, described_fields, protection_fields, target_fields
from ostrakon.statements.statement import Protects
from ostrakon.validation import InvalidInput


def task_from_tables(private: Any, public: Any = None, *, test: Any = None, **options: Any) -> Task:
    """Check the tables of a run (see `ostrakon.data.task.open_task` for options and errors).

    The public table and the test table are read into memory; the private one stays on the disk. If labels alone are
    protected, its features are the public rows.
    """
    tables = open_task(private, public, test=test, **options)
    X_test, y_test = (None, None) if tables.test is None else tables.test_rows()
    only_labels = tables.protects == "labels"
    tables_by_name = {"private": tables.private, "public": None if only_labels else tables.public, "test": tables.test}
    fingerprints = {name: _digest(table.path) for name, table in tables_by_name.items() if table is not None}
    public_rows, table_name = tables.public_rows(), "table" if only_labels else "public table"
    outside = {} if only_labels else outside_table(tables.private, tables.columns, public_rows)
    owners = _owners(tables, public_rows, outside)
    far_outside = {name: share for name, share in outside.items() if name not in owners}
    note, understood = (
        in_words(far_outside, public_rows=len(public_rows)),
        tables.understood(public_rows=len(public_rows)),
    )
    facts = (one for one in (note, tables.unread) if one is not None)
    notes = (*owners_in_words(owners, features=tables.columns.kept), *facts)
    quantity = tables.coding
    if isinstance(quantity, Quantity):
        clipped = tables.private.share_outside(tables.target, quantity.low, quantity.high)
        outside, notes = {**outside, tables.target: clipped}, (*notes, *quantity.clipped_in_words(clipped))
    return Task(
        private=PrivateTable(tables=tables, digest=fingerprints["private"]),
        X_public=public_rows,
        X_test=X_test,
        y_test=y_test,
        classes_from=CLASSES_FROM[tables.classes_from],
        fingerprints=fingerprints,
        rows=f"columns {', '.join(tables.columns.kept)}, by name, as the {table_name} has them",
        kinds={name: tables.columns.kinds[name] for name in tables.columns.kept},
        understood=dataclasses.replace(understood, notes=notes, facts={**understood.facts, **_levels(tables.consent)}),
        outside=outside,
        consent=tables.consent,
        source=None if only_labels or tables.public is None else source_of(tables, fingerprints["public"]),
        **target_fields(tables.coding, tables.classes),
        **protection_fields(tables.protects),
    )


def _levels(consent: Consent | None) -> dict[str, str]:
    """Return the public facts on levels of consent: their column and the epsilon of each."""
    if consent is None:
        return {}
    allowed = listed(f"{level} (epsilon {epsilon:g})" for level, epsilon in consent.epsilons.items())
    return {"Levels of consent": f"{consent.column}: {allowed}"}


def task_without_public(
    private: Any, domain: Domain, *, test: Any = None, protect: Protects = "records", **options: Any
) -> Task:
    """Return the task of a table without public rows (see `ostrakon.data.task.open_described_task` for options and
    errors)."""
    tables = open_described_task(private, domain, test=test, **options)
    X_test, y_test = (None, None) if tables.test is None else tables.test_rows()
    tables_by_name = {"private": tables.private, "test": tables.test}
    fingerprints = {name: _digest(table.path) for name, table in tables_by_name.items() if table is not None}
    understood = tables.understood(public_rows=0)
    shown = f"none: {len(domain.names)} columns are described, in {sum(domain.sizes)} cells"
    return Task(
        private=PrivateTable(tables=tables, digest=fingerprints["private"]),
        classes=tables.classes,
        X_test=X_test,
        y_test=y_test,
        classes_from=CLASSES_FROM[tables.classes_from],
        fingerprints={**fingerprints, "columns": digest_of_json(dataclasses.asdict(domain))},
        rows=f"columns {', '.join(domain.names)}, by name, as they were described",
        kinds={name: domain.columns[name].kind for name in domain.names},
        understood=dataclasses.replace(understood, facts={**understood.facts, "Public rows": shown}),
        source={"description": domain.as_plain()},
        **described_fields(domain),
    )


def _owners(tables: TableTask, typed: pd.DataFrame, outside: Mapping[str, float]) -> list[str]:
    """Return columns that may name users, if none is given (see `likely_owners`). typed: the public rows."""
    if tables.by is not None or tables.public is None:
        return []
    left_out = [name for name in tables.columns.left_out if name in tables.public.columns]
    public = typed if not left_out else typed.join(tables.public.read(left_out))
    rows = max(tables.private.rows(), 1)
    return likely_owners(public, outside, lambda name: tables.private.different(name) / rows)


def source_of(tables: TableTask, checksum: str) -> dict[str, Any]:
    """Return how to read the public table of a run again (`Task.source`)."""
    public = tables.public
    assert public is not None
    return {
        "sha256": checksum,
        "header": public.header,
        "names": list(public.columns),
        "features": list(tables.features),
        "kinds": dict(tables.columns.kinds),
    }


def read_public_again(path: Any, source: Mapping[str, Any]) -> pd.DataFrame:
    """Return the public rows of an earlier run, with the same types.

    Errors: `InvalidInput` for another file than that of the run, by its checksum.
    """
    table = open_table(path, names=None if source["header"] else list(source["names"]), header=source["header"])
    if _digest(table.path) != source["sha256"]:
        raise InvalidInput(
            f"public must be the file that the release was made with, by its SHA-256 checksum, got {path}, which has "
            "another one."
        )
    return Columns(dict(source["kinds"])).apply(table.read(list(source["features"])))


def _digest(path: Path | ObjectPath) -> str:
    try:
        return ",".join(map(digest_of_file, parts_of(path)))
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read ({error}).") from None
