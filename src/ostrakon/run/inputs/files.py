"""A task from files: tables, images or texts."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ostrakon.data.consent import Consent
from ostrakon.data.domain import Domain
from ostrakon.data.identity import fingerprint_of_identities
from ostrakon.data.images import holds_images, read_images
from ostrakon.data.labels import Labels
from ostrakon.data.quantity import Quantity
from ostrakon.data.sources import open_table
from ostrakon.data.text_files import holds_texts, require_pictures
from ostrakon.run.inputs.images import task_from_images
from ostrakon.run.inputs.private_data import records_of
from ostrakon.run.inputs.tables import task_from_tables, task_without_public
from ostrakon.run.inputs.task import Task
from ostrakon.run.inputs.texts import frame_of, open_texts, task_from_texts
from ostrakon.statements.statement import require_no_pool, require_pool
from ostrakon.validation import InvalidInput


def task_from_files(
    private: Any,
    public: Any = None,
    *,
    target: Any = None,
    test: Any = None,
    names: Any = None,
    text: bool = False,
    columns: Any = None,
    drop: Sequence[str] = (),
    coding: Quantity | Labels | None = None,
    consent: Consent | None = None,
    **options: Any,
) -> Task:
    """Read and check the files of a run: images or texts if `private` contains them, tables otherwise.

    Parameters
    ----------
    private, public, test : path or sequence of paths
        public: None if only labels are protected (protect="labels"), or if `columns` describes them.
    target : str, optional
        The column to predict. Images and texts need none if their labels are in the usual place.
    names : sequence of str, optional
        Columns of tables without header.
    text : bool
        Whether columns of free text are read.
    columns : Domain or path, optional
        The columns of a table without public rows, or a TOML file that describes them.
    drop : sequence of str
        Columns of tables to leave out.
    coding : Quantity or Labels, optional
        The public range of a target that is a number, or the labels of which a row may have several.
    consent : Consent, optional
        The levels of consent of the private rows of tables.
    **options
        As of `task_from_tables`, `task_without_public`, `task_from_images`, `task_from_texts`.

    Raises
    ------
    InvalidInput
        In one sentence; see these functions.
    """
    if columns is not None or holds_images(private) or holds_texts(private):
        _require_table(other=coding is not None, consent=consent, drop=drop, described=columns is not None)
    if columns is not None:
        require_no_pool(options.get("protect", "records"), public)
        if text or holds_images(private) or holds_texts(private):
            raise InvalidInput(
                "columns can be described of tables of numbers, dates and categories: images and free text need public "
                "rows, such as open pictures or texts of another source."
            )
        domain = columns if isinstance(columns, Domain) else Domain.read(columns)
        if test is not None:
            refuse_private_folder(test)
        return task_without_public(private, domain, target=require_target(target), test=test, names=names, **options)
    require_pool(options.get("protect", "records"), public)
    for path in (public, test):
        if path is not None:
            refuse_private_folder(path)
    if holds_images(private):
        require_pictures(private)
        if names is not None:
            raise InvalidInput("--names belongs to tables without header, not to images.")
        if text:
            raise InvalidInput(
                "The representations text and tfidf need a table with a column of text, or a folder of texts, got "
                f"{private}."
            )
        return task_from_images(private, public, target=target, test=test, coding=coding, **options)
    if holds_texts(private):
        if names is not None:
            raise InvalidInput("--names belongs to tables without header, not to texts.")
        return task_from_texts(private, public, target=target, test=test, coding=coding, **options)
    return task_from_tables(
        private,
        public,
        target=require_target(target),
        test=test,
        names=names,
        text=text,
        drop=drop,
        coding=coding,
        consent=consent,
        **options,
    )


def _require_table(*, other: bool, consent: Consent | None, drop: Sequence[str], described: bool) -> None:
    """Refuse options that need public rows, or a table with them."""
    if other and described:
        raise InvalidInput("columns cannot be described for a quantity or several labels: they need public rows.")
    if consent is not None:
        raise InvalidInput("consent belongs to tables with public rows: give one that has a column of levels.")
    if drop:
        where = "public rows: what columns leaves out is not read" if described else "tables with public rows"
        raise InvalidInput(f"drop belongs to {where}.")


def fingerprint_of_file(private: Any, *, by: str | None, key: bytes) -> str:
    """Return the keyed fingerprint of private files, equal to that of a run on them (`PrivateData.fingerprint`).

    by: the column (of tables) or array (of .npz files) with the user of every row.
    """
    if holds_images(private):
        images = read_images(private, by=by, in_memory=False, labelled=False)
        return fingerprint_of_identities(records_of(images.X, images.identities), images.users, key=key)
    if holds_texts(private):
        return fingerprint_of_identities(frame_of(open_texts(private, by=by)), key=key)
    table = open_table(private)
    return table.fingerprint(by=None if by is None else table.column(by, what="column of users"), key=key)


def require_target(target: str | None) -> str:
    """Return the column to predict; refuse a table without it."""
    if target is None:
        raise InvalidInput("--target must be given: the column to predict.")
    return target


def refuse_private_folder(path: Any) -> None:
    """Refuse a file in the private folder of a run: it must not be used as public."""
    location = Path(path).resolve()
    for folder in location.parents:
        if folder.name == "private" and (folder.parent / "run.toml").exists():
            raise InvalidInput(f"{path} lies in the private folder of the run {folder.parent}: it must not be public.")
