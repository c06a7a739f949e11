"""A private table, a public table and a target, checked together before anything is trained."""

import os
import re
import shlex
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
from numpy.typing import NDArray

from ostrakon.data.changed_rows import refuse_changed_rows
from ostrakon.data.classes import (
    CLASSES_FROM,
    MOST_CLASSES,
    agree_on_classes,
    joined,
    refused_quantity,
    several_labels,
)
from ostrakon.data.columns import CONSTANT, EMPTY, Columns
from ostrakon.data.consent import Consent
from ostrakon.data.domain import Domain
from ostrakon.data.embeddings import groups, require_same_widths
from ostrakon.data.identity import quoted
from ostrakon.data.label_cells import joined_columns, label_columns, require_listed, rows_of_labels
from ostrakon.data.labels import Labels
from ostrakon.data.object_store import StoredFolder
from ostrakon.data.private_form import require_same_form, unread_in_words
from ostrakon.data.quantity import ENDS, Quantity
from ostrakon.data.sharding import ShardFolder, partition_table
from ostrakon.data.shared_rows import compared_columns, refuse_shared_rows
from ostrakon.data.sources import open_described, open_labels_only, open_table
from ostrakon.data.table import Table, same_content
from ostrakon.data.target import right_numbers, with_points
from ostrakon.data.understood import Understood, understood_table
from ostrakon.statements.statement import Protects, Unit
from ostrakon.validation import InvalidInput, did_you_mean

FEWEST_PUBLIC_ROWS = 5


@dataclass(frozen=True, kw_only=True)
class TableTask:
    """The result of `open_task`: readable tables that fit each other.

    features: the columns to learn from; columns: how they are read, learned from the public table. classes: the labels
    in order. classes_from: "user", "public" or "private"; the list of classes becomes part of the release, so the
    statement mentions "private". public: None where rows are drawn instead (`open_described_task`). protects:
    "labels" where all but the target is public: then `public` is the private table, read without its labels. coding:
    the range of a target that is a number (`classes` are then its two ends), or the labels of which a row may have
    several (`classes` are then their names). consent: the levels of consent, with the column that has them, which is
    not learned from. unread: one sentence for the terminal on private cells that cannot be read.
    """

    private: Table
    public: Table | None
    test: Table | None
    target: str
    by: str | None
    features: tuple[str, ...]
    columns: Columns
    classes: tuple[str, ...]
    classes_from: str
    protects: Protects = "records"
    coding: Quantity | Labels | None = None
    consent: Consent | None = None
    unread: str | None = None

    def understood(self, *, public_rows: int) -> Understood:
        """Return how the data were read, in words."""
        return understood_table(
            self.columns,
            target=self.target,
            classes=self.classes,
            classes_from=CLASSES_FROM[self.classes_from],
            by=self.by,
            public_rows=public_rows,
            protects=self.protects,
            coding=self.coding,
        )

    @property
    def extra(self) -> tuple[str, ...]:
        """Columns that are read beside the features and the target: that of the levels of consent."""
        return () if self.consent is None or self.consent.column is None else (self.consent.column,)

    @property
    def unit(self) -> Unit:
        """The unit of the guarantee: "record", or "user" where rows go to teachers by user."""
        return "record" if self.by is None else "user"

    def units(self) -> int:
        """Return the number of private records, or of users where they are the unit; counted in bounded memory."""
        return self.private.rows() if self.by is None else self.private.different(self.by)

    def partition(
        self,
        folder: str | os.PathLike[str] | StoredFolder,
        n_teachers: int,
        *,
        key: bytes,
        users: bool = False,
        digest: str = "",
    ) -> ShardFolder:
        """Split the private table among teachers, out of core: the features and the label of every row.

        users: whether to keep its user, too, if there is a column for it. digest: a checksum of the table, by which
        shards of another table are refused.
        """
        names = [*self.columns.kept, self.target, *self.extra, *([self.by] if users and self.by is not None else [])]
        how: dict[str, Any] = {"key": key, "by": self.by, "columns": names, "labels": self.target, "digest": digest}
        if self.protects == "labels":
            # The label must not decide the teacher of a row: another label would move the row to another teacher.
            how["identity"] = [name for name in self.private.columns if name != self.target]
        return partition_table(self.private, folder, n_teachers, **how)

    def public_rows(self) -> pd.DataFrame:
        """Return features of the public table, typed."""
        if self.public is None:
            raise InvalidInput("No public table was given.")
        return self.columns.apply(self.public.read(self.features))

    def test_rows(self) -> tuple[pd.DataFrame, NDArray[Any]]:
        """Return features and class indices (of a quantity its values, of labels 0 or 1 each) of the labelled test
        table.
        """
        if self.test is None:
            raise InvalidInput("No test table was given.")
        right = right_numbers(self.test.labels(self.target), self.coding or self.classes)
        return self.columns.apply(self.test.read(self.features)), right


def open_task(
    private: str | os.PathLike[str],
    public: str | os.PathLike[str] | None,
    *,
    target: str | int,
    by: str | int | None = None,
    test: str | os.PathLike[str] | None = None,
    names: Sequence[str] | str | None = None,
    classes: Sequence[str] | str | None = None,
    text: bool = False,
    alone: bool = True,
    protect: Protects = "records",
    allow_shared_rows: bool = False,
    drop: Sequence[str] = (),
    coding: Quantity | Labels | None = None,
    consent: Consent | None = None,
) -> TableTask:
    """Open the tables of a run and check that they fit.

    Parameters
    ----------
    private, public : str or path
        The two tables. public: None where only labels are protected.
    target : str or int
        The column to predict, by name or position (-1 is the last).
    by : str or int, optional
        The column with the user of every row.
    test : str or path, optional
        A labelled table.
    names
        See `open_table`; the names of the private table apply to the others where those have no header.
    classes : list of str, optional
        The labels, where the public table does not have them, or `FROM_PRIVATE`.
    text : bool
        Whether columns of free text are read; else they are left out.
    alone : bool
        As in `agree_on_classes`.
    protect : {"records", "labels"}
        "labels" where all but the target is public: then `public` is None, and no label influences how the tables are
        read, split or queried (a CSV needs its header, or `names`).
    allow_shared_rows : bool
        Whether private rows may be in the public table more often than chance allows (see `refuse_shared_rows`).
    drop : list of str
        Columns to leave out; an embedding by its name.
    coding : Quantity or Labels, optional
        The public range of a target that is a number and has no classes. Or the labels of which a row may
        have several: the cells of the target are then such as `a;b`, or the target is their names, `a,b,c`, of which
        each is a column.
    consent : Consent, optional
        The levels of consent, and the private column that has them.

    Returns
    -------
    TableTask
        The tables. The public table may have the target, which then gives the classes, or lack it. Labels that differ
        only in a final full stop (as in the two files of Adult) are one class.

    Raises
    ------
    InvalidInput
        In one sentence: unreadable or empty files, wrong columns, tables that do not fit, a missing or constant target,
        a quantity as the target, a class that the public table lacks, a column that one table lacks, columns in
        another form than in public, fewer than 5 public rows, the private table given as public, private rows in the
        public table, a first private row that may be a header or a record.
    """
    parts = label_columns(target, coding)
    hidden, shown = _open_both(private, public, names=names, target=target, by=by, parts=parts)
    target_name = hidden.column(target, what="target column")
    by_name = _user_column(hidden, by, (target_name, *parts))
    shown = hidden if protect == "labels" else _named_like(shown, hidden, target_name)
    consent, leveled = _with_levels(consent, hidden, target_name, by_name)
    dropped = dropped_columns(drop, hidden, shown, required=(target_name, by_name, *parts)) | {*parts} | leveled
    features = _features(hidden, target_name, by_name, dropped)
    require_same_widths(features, shown.columns, what="public table")
    _needs(shown, features, "public")
    _needs(hidden, [name for name in shown.columns if name not in dropped], "private", like="public")
    if protect == "records" and same_content(hidden, shown, features):
        raise InvalidInput(f"The public table {shown.path} is the private one: its rows would leave the private zone.")
    tested = None if test is None else _test_table(test, hidden, features, target_name, parts=parts)
    _enough_rows(shown)
    seen = shown.read(features)
    columns = Columns.of(seen, text=text)
    hidden = with_points(hidden, target_name, coding, columns)
    tested = None if tested is None else with_points(tested, target_name, coding, columns)
    vocabulary = shown if protect == "records" else None
    all_labels, origin = _classes(hidden, vocabulary, target_name, classes, alone=alone, coding=coding)
    compared = protect == "records" and not allow_shared_rows
    with _no_changed_rows(hidden, columns, seen) if compared else nullcontext():
        for some in compared_columns(seen) if compared else ():
            refuse_shared_rows(hidden.counted(some, shown), shown.marks(some))
        _no_line_breaks(hidden, columns, seen)
        unread = _require_same_forms(hidden if protect == "records" else None, tested, columns, shown)
    return TableTask(
        private=hidden,
        public=shown,
        test=tested,
        target=target_name,
        by=by_name,
        features=features,
        columns=columns,
        classes=all_labels,
        classes_from=origin,
        protects=protect,
        coding=coding,
        consent=consent,
        unread=unread,
    )


def _with_levels(
    consent: Consent | None, hidden: Table, target: str, by: str | None
) -> tuple[Consent | None, frozenset[str]]:
    """Return the consent with the name of its column, and that column, whose levels are checked; (None, none) without
    any.
    """
    if consent is None or consent.column is None:
        return None, frozenset()
    column = hidden.column(consent.column, what="column of consent")
    if column in (target, by):
        raise InvalidInput(f"consent must be in a column of its own, got {column!r}.")
    consent.require_levels(hidden.label_counts(column))
    return replace(consent, column=column), frozenset([column])


def _user_column(table: Table, by: str | int | None, target: Sequence[str]) -> str | None:
    """Return the name of the column of users. Errors: `InvalidInput` for one of `target`, and for missing users."""
    name = None if by is None else table.column(by, what="column of users")
    if name in target:
        raise InvalidInput(f"by must be another column than the target, got {name!r} for both.")
    _no_gaps(table, name)
    return name


def _open_both(
    private: str | os.PathLike[str],
    public: str | os.PathLike[str] | None,
    *,
    names: Sequence[str] | str | None,
    target: str | int,
    by: str | int | None,
    parts: Sequence[str],
) -> tuple[Table, Table]:
    """Return the private and the public table; without a public one, the private table without its labels twice."""
    if public is None:
        hidden = shown = open_labels_only(private, names=names)
    else:
        shown = open_table(public)
        hidden = open_table(private, names=names, like=shown)
    if names is None:
        _require_vouched_header(hidden, None if public is None else shown, *(parts or (target,)), by)
    return (joined_columns(hidden, parts, str(target)) if parts else hidden), shown


def _features(hidden: Table, target: str, by: str | None, dropped: frozenset[str]) -> tuple[str, ...]:
    features = tuple(name for name in hidden.columns if name not in (target, by, *dropped))
    if not features:
        raise InvalidInput(f"{hidden.path} has no column to learn from beside {target!r}.")
    return features


def _test_table(
    test: str | os.PathLike[str], hidden: Table, features: tuple[str, ...], target: str, *, parts: Sequence[str]
) -> Table:
    tested = _named_like(open_table(test), hidden, target)
    require_same_widths(features, tested.columns, what="test table")
    _require_own(tested, (*features, *(parts or (target,))), hidden, features)
    return joined_columns(tested, parts, target) if parts else tested


def _require_own(tested: Table, columns: Sequence[str], hidden: Table, features: Sequence[str]) -> None:
    _needs(tested, columns, "test")
    if same_content(hidden, tested, features):
        raise InvalidInput(f"The test table {tested.path} is the private one; a test needs rows of its own.")


def _require_same_forms(private: Table | None, tested: Table | None, columns: Columns, public: Table) -> str | None:
    """Run `require_same_form`; return what is said of private cells that cannot be read."""
    unread = None
    if private is not None:
        counts = require_same_form(private, columns, public=public, what="private")
        unread = unread_in_words(counts, columns)
    if tested is not None:
        require_same_form(tested, columns, public=public, what="test")
    return unread


def open_described_task(
    private: str | os.PathLike[str],
    domain: Domain,
    *,
    target: str | int,
    by: str | int | None = None,
    test: str | os.PathLike[str] | None = None,
    names: Sequence[str] | str | None = None,
    classes: Sequence[str] | str | None = None,
    alone: bool = True,
) -> TableTask:
    """Open the private table of a run without public rows; `domain` alone describes its columns and its delimiter.

    Other columns are not read. A CSV needs its header, or `names`. Other arguments and errors: `open_task`, and
    `InvalidInput` for a described column that the table lacks, or that is the target or the column of users.
    """
    hidden = open_described(private, delimiter=domain.delimiter, names=names)
    absent = [name for name in domain.names if name not in hidden.columns]
    if absent:
        raise InvalidInput(
            f"{hidden.path} must have every column that is described, in a header of its own or by --names; "
            f"{absent[0]!r} is missing ({len(absent)} of {len(domain.names)} are)."
        )
    if hidden.kind != "csv":
        for name, column in domain.columns.items():
            column.require_type(name, dict(hidden.typed_columns)[name], hidden.path)
    target_name = hidden.column(target, what="target column")
    by_name = None if by is None else hidden.column(by, what="column of users")
    reserved = next((name for name in domain.names if name in (target_name, by_name)), None)
    if reserved is not None or by_name == target_name:
        raise InvalidInput(
            "The target and the column of users must be no features, and two columns, got "
            f"{reserved or by_name!r} twice."
        )
    tested = None
    if test is not None:
        tested = open_described(test, delimiter=domain.delimiter, names=names)
        _require_own(tested, (*domain.names, target_name), hidden, domain.names)
    _no_gaps(hidden, by_name)
    labels, origin = _classes(hidden, None, target_name, classes, alone=alone)
    hidden.require_one_line([name for name in hidden.columns if name in (*domain.names, target_name, by_name)])
    return TableTask(
        private=hidden,
        public=None,
        test=tested,
        target=target_name,
        by=by_name,
        features=domain.names,
        columns=domain.kinds(),
        classes=labels,
        classes_from=origin,
    )


def _require_vouched_header(private: Table, public: Table | None, *columns: str | int | None) -> None:
    """Refuse a private CSV whose header is only guessed from its rows: an odd first record could be taken for one.

    Names of columns are published, and the cells of a record must not become names. So one name must be known from the
    public table, or from the user: the target, or the column of users (`columns`).
    """
    if private.kind != "csv" or not private.header:
        return
    # A position is not a name, though a cell may look like it.
    names = {str(name) for name in columns if name is not None and not re.fullmatch(r"-?\d+", str(name))}
    vouched = names | (set(public.columns) if public is not None and public.header else set())
    if not {name.lower() for name in private.columns} & {name.lower() for name in vouched}:
        listing = ", ".join(f"{name!r}" for name in columns if name is not None)
        nobody = f"neither {listing} nor the public table names" if public is not None else f"{listing} does not name"
        raise InvalidInput(
            f"The first row of {private.path} may be a header or a record, because {nobody} one of its columns: give "
            "--names, or the target by its name, spelled as in the file."
        )


def dropped_columns(drop: Sequence[str], *tables: Table, required: Sequence[str | None]) -> frozenset[str]:
    """Return the columns of `tables` to leave out. drop: names; of an embedding all its parts. required: those that
    must stay.

    Errors: `InvalidInput` for a name that no table has, and for one of `required`.
    """
    existing = dict.fromkeys(name for table in tables for name in table.columns)
    parts = groups(existing)
    dropped = set[str]()
    for name in drop:
        if name in required:
            raise InvalidInput(f"drop must not name the target or the column of users, got {name!r}.")
        if name not in existing and name not in parts:
            meant = did_you_mean(name, [*existing, *parts])
            raise InvalidInput(f"drop must name columns of the tables, which have none named {name!r}.{meant}")
        dropped |= set(parts.get(name, (name,)))
    return frozenset(dropped)


def _named_like(table: Table, private: Table, target: str) -> Table:
    """Return the table; where it and the private one have no header, opened with the private one's names."""
    private_names = {name.lower() for name in private.columns}
    # In a table of text alone, the first row looks like a header; unknown names are data.
    bare = not table.header or (not private.header and not private_names & {name.lower() for name in table.columns})
    if table.kind != "csv" or not bare:
        return table
    names = list(private.columns)
    if len(table.columns) == len(names):
        return open_table(table.path, names=names, header=False)
    if len(table.columns) == len(names) - 1 and names[-1] == target:
        return open_table(table.path, names=names[:-1], header=False)
    return table


def _needs(table: Table, columns: Sequence[str], what: str, *, like: str = "private") -> None:
    absent = [name for name in columns if name not in table.columns]
    if absent:
        # Without all columns, nothing would be left.
        drops = what != "test" and len(absent) < len(columns)
        raise InvalidInput(
            f"The {what} table {table.path} does not fit the {like} one: it has no column {absent[0]!r} "
            f"({len(absent)} of {len(columns)} that are needed are missing)."
            + (f" --drop {shlex.quote(joined(absent))} leaves out what it lacks." if drops else "")
        )


def _no_gaps(table: Table, by: str | None) -> None:
    if by is None:
        return
    gap = f"{quoted(by)} IS NULL"
    if dict(table.typed_columns)[by] in ("FLOAT", "DOUBLE"):
        gap += f" OR isnan({quoted(by)})"
    # Not WHERE: the statistics of Parquet files ignore NaN, so DuckDB would skip row groups that have them.
    missing = table.fetch(f"SELECT count(*) FILTER ({gap}) FROM ({table.select([by])}) AS rows")[0][0]
    if missing:
        raise InvalidInput(f"The column of users {by!r} is missing in {missing} rows; every row needs its user.")


@contextmanager
def _no_changed_rows(private: Table, columns: Columns, public: pd.DataFrame) -> Generator[None]:
    """Run `refuse_changed_rows` beside the block, because its distances take as long as the queries in the block."""
    with ThreadPoolExecutor(1) as beside:
        future = beside.submit(refuse_changed_rows, columns.apply(private.sample(columns.kept)), columns.apply(public))
        yield
        future.result()


def _no_line_breaks(private: Table, columns: Columns, public: pd.DataFrame) -> None:
    """Refuse line breaks (`Table.require_one_line`); free text and columns with line breaks in public are exempt."""
    text = [
        name for name in columns.of_kind("text", "left out") if columns.notes.get(name, "") not in (EMPTY, CONSTANT)
    ]
    broken = [name for name in columns.kinds if public[name].astype(str).str.contains("\n", regex=False).any()]
    private.require_one_line([name for name in private.columns if name not in (*text, *broken)])


def _enough_rows(public: Table) -> None:
    rows = public.rows()
    if rows < FEWEST_PUBLIC_ROWS:
        raise InvalidInput(
            f"The public table {public.path} has {rows} rows; at least {FEWEST_PUBLIC_ROWS} are needed to ask about."
        )


def _classes(
    private: Table,
    public: Table | None,
    target: str,
    classes: Sequence[str] | str | None,
    *,
    alone: bool,
    coding: Quantity | Labels | None = None,
) -> tuple[tuple[str, ...], str]:
    if isinstance(coding, Labels):
        require_listed(private, target, coding)
        return coding.names, "user"
    if coding is not None:
        private.require_numbers(target)
        return ENDS, "user"
    different = private.about_different_labels(target)
    if different > 2 * MOST_CLASSES:
        labels = {part.strip(): rows for part, rows in rows_of_labels(private, target).items()}
        if len(labels) < different / 2:
            raise InvalidInput(several_labels(labels, f"target {target!r}"))
        raise InvalidInput(refused_quantity(f"target {target!r}", different, about=True))
    public_labels = list(public.label_counts(target)) if public is not None and target in public.columns else None
    public_table = "the data" if public is None else f"the public table {public.path}"
    return agree_on_classes(
        private.label_counts(target), public_labels, classes, target=target, public=public_table, alone=alone
    )
