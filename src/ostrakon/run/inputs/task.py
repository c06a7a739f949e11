"""The data of a run: private data, the public pool, and optionally a labelled test set."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ostrakon.data.classes import CLASSES_FROM, agree_on_classes
from ostrakon.data.columns import require_same_types
from ostrakon.data.consent import Consent
from ostrakon.data.domain import Domain
from ostrakon.data.labels import Labels
from ostrakon.data.quantity import Quantity
from ostrakon.data.shared_rows import CountedRows, refuse_shared_rows
from ostrakon.data.target import Target, target_of
from ostrakon.data.understood import Understood
from ostrakon.features.rowwise import row_count
from ostrakon.run.inputs.private_data import PrivateData, Rows
from ostrakon.statements.statement import (
    CENTRAL,
    CENTRAL_OF_LABELS,
    NOT_COVERED,
    NOT_COVERED_OF_DESCRIBED,
    NOT_COVERED_OF_LABELS,
    NOT_COVERED_OF_QUANTITIES,
    Protects,
)
from ostrakon.teachers.one_teacher import fingerprint_of
from ostrakon.validation import InvalidInput


@dataclass(frozen=True, kw_only=True, eq=False)
class Task:
    """Private data in memory or on disk, and public data in memory.

    Parameters
    ----------
    private : PrivateData
        Rows with the numbers of their classes, indices into `classes`.
    classes : tuple
        Labels; public.
    X_public : frame or array
        Public rows, unlabelled.
    X_test, y_test : optional
        Labelled rows on which the student is measured.
    classes_from : str
        Where the classes come from, in words.
    fingerprints : dict
        A checksum for every data set, compared when a run is resumed.
    rows : str
        A description of a row of the student's input.
    kinds : dict, optional
        Kinds of the raw columns if the types of `X_public` do not show them (see `RowForm`).
    names : sequence of str, optional
        Names of the columns if `X_public` is an array.
    understood : Understood
        How the files were read, shown before any budget is spent.
    counted : bool
        Whether `private.units` is the number of records (or users), and not a public number that replaces it.
    outside : dict
        Share of the private values of each column outside the public range. Private.
    domain : Domain, optional
        The description of the columns if there are no public rows. `X_public` is then sampled uniformly from it.
    source : dict, optional
        How a refit reads the public rows again: the checksum of their file, its columns and their kinds, the
        description of the columns, or a checksum of pictures or texts. Public. None if they cannot be read again.
    coding : Quantity or Labels, optional
        The public range of a target that is a number: `classes` are then its two ends, private rows have whole steps
        between them, and `y_test` has numbers. Or the labels of which a row may have several: `classes` are then their
        names, and rows have 0 or 1 for each.
    consent : Consent, optional
        The epsilon that each level of consent allows; private rows then have a level each.
    trust_model : str
    not_covered, remarks : tuple of str
        Entries of the statement; its other remarks come before these.

    Raises
    ------
    InvalidInput
        For fewer than two classes, an empty pool, and private frames of other types than the public one.
    """

    private: PrivateData
    classes: tuple[Any, ...]
    X_public: Any
    X_test: Any = None
    y_test: NDArray[Any] | None = None
    classes_from: str = "given by the caller"
    fingerprints: dict[str, str] = field(default_factory=dict[str, str])
    rows: str = "rows as the public ones"
    kinds: dict[str, str] | None = None
    names: Sequence[str] | None = None
    understood: Understood = field(default_factory=Understood)
    counted: bool = True
    outside: Mapping[str, float] = field(default_factory=dict[str, float])
    domain: Domain | None = None
    source: Mapping[str, Any] | None = None
    coding: Quantity | Labels | None = None
    consent: Consent | None = None
    trust_model: str = CENTRAL
    not_covered: tuple[str, ...] = NOT_COVERED
    remarks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if row_count(self.X_public) == 0:
            raise InvalidInput("The public data must have at least one row, got none.")
        if isinstance(self.private, Rows):
            require_same_types(self.private.X, self.X_public)
        if len(self.classes) < 2:
            raise InvalidInput(f"The target must have at least two different labels, got {list(self.classes)!r}.")

    @property
    def pool(self) -> int:
        """Number of public rows."""
        return row_count(self.X_public)

    @property
    def quantity(self) -> Quantity | None:
        """The public range of the target, if that is a number."""
        return self.coding if isinstance(self.coding, Quantity) else None

    @property
    def target(self) -> Target:
        """What is predicted."""
        return target_of(self.coding)


def protection_fields(protects: Protects) -> dict[str, Any]:
    """Return the fields of a `Task` on trust and on what is not covered, for records or labels alone."""
    return {} if protects == "records" else {"trust_model": CENTRAL_OF_LABELS, "not_covered": NOT_COVERED_OF_LABELS}


def target_fields(coding: Quantity | Labels | None, classes: tuple[Any, ...]) -> dict[str, Any]:
    """Return the fields of a `Task` on its target. classes: as in `Task`."""
    quantity = isinstance(coding, Quantity)
    return {"coding": coding, "classes": classes} | ({"not_covered": NOT_COVERED_OF_QUANTITIES} if quantity else {})


def described_fields(domain: Domain) -> dict[str, Any]:
    """Return the fields of a `Task` whose columns are described instead of public rows."""
    return {"X_public": domain.examples(), "domain": domain, "not_covered": NOT_COVERED_OF_DESCRIBED}


def task_from_dataset(data: Any) -> Task:
    """Return a task from one of `ostrakon.datasets`, without its public labels."""
    parts = {"private": (data.X, data.y), "public": (data.X_public,), "test": (data.X_test, data.y_test)}
    return Task(
        private=Rows(X=data.X, y=data.y),
        classes=data.classes,
        X_public=data.X_public,
        X_test=data.X_test,
        y_test=data.y_test,
        classes_from="the definition of the task",
        fingerprints={name: fingerprint_of(*arrays) for name, arrays in parts.items()},
    )


def refuse_shared(private: Iterable[str], public: Iterable[str]) -> None:
    """Refuse private rows that are also public, beyond chance; both are given by digests of their content."""
    # 64 bits of each, as of tables: millions of hexadecimal digests would need more memory than their images.
    ours, theirs = (np.fromiter((int(one[:16], 16) for one in digests), np.uint64) for digests in (private, public))
    refuse_shared_rows(CountedRows.of(ours), theirs)


def refuse_unnamed_folders(
    private: Any, public: Any, classes: Sequence[str] | str | None, suffixes: Collection[str]
) -> None:
    """Refuse folders of classes without public names, before a file is opened. suffixes: of pictures or texts."""
    folder, other = Path(private), None if public is None else Path(public)
    if classes is not None or not folder.is_dir():
        return
    if other is not None and other.is_dir():
        if not any(file.suffix.lower() in suffixes and file.name[0] != "." for file in other.iterdir()):
            return
    elif other is not None and other.suffix.lower() != ".txt":
        return
    inside = [file.relative_to(folder).parts for file in folder.rglob("*") if file.suffix.lower() in suffixes]
    labels = [parts[0] for parts in inside if not any(part.startswith(".") for part in parts)]
    if inside and all(len(parts) > 1 for parts in inside):
        agreed_classes(np.array(labels, dtype=object), None, None, target=None, where="")


def agreed_classes(
    private: Any, public: Any, classes: Sequence[str] | str | None, *, target: str | None, where: str
) -> tuple[tuple[str, ...], str]:
    """Return the classes of labelled images or texts, and their source (see `agree_on_classes`).

    Parameters
    ----------
    private, public : array of str
        Labels; None for public rows without any.
    classes : sequence of str or str, optional
        As the caller gave them.
    target : str, optional
        Name of the target in messages; None for the names of folders.
    where : str
        Name of the public rows in messages.
    """
    counts: dict[str | None, int] = dict(sorted(Counter(private.tolist()).items()))
    known = None if public is None else sorted(set(public.tolist()))
    labels, origin = agree_on_classes(counts, known, classes, target=target, public=where)
    return labels, CLASSES_FROM[origin]
