"""Options that name a run's files."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Self

from ostrakon.data.classes import FROM_PRIVATE, joined, labels_in
from ostrakon.data.consent import Consent
from ostrakon.data.labels import Labels, labels_named, labels_of_rows
from ostrakon.data.object_store import is_uri, stored_path
from ostrakon.data.quantity import Quantity
from ostrakon.options.option import Option, Settings
from ostrakon.statements.statement import PROTECTS, require_no_pool, require_pool
from ostrakon.validation import InvalidInput, one_of, require_path

_option = partial(Option, panel="Data")


def _location(name: str, value: str) -> str:
    require_path(name, value)
    return stored_path(name, value).uri if is_uri(value) else str(Path(value).resolve())


def _as_text(value: Any) -> Any:
    """Return a column that is given by its number."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _joined(value: Any) -> Any:
    return joined(value) if isinstance(value, list | tuple) else value


def _range(name: str, value: str) -> str:
    Quantity.of(value)
    return value


def _consent(name: str, value: str) -> str:
    Consent.of(value)
    return value


def _ends(value: Any) -> Any:
    """Return a range that is given as a list of two numbers."""
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else value


@dataclass(frozen=True, kw_only=True)
class Files(Settings):
    """The files of a run and how to read them. `ostrakon.run.inputs` checks their content.

    private, public, test: paths, converted to absolute ones, or s3://BUCKET/KEY of tables. protect: "records", or
    "labels" alone: then the private rows, whose labels alone are private, are the public rows, and no others are given.
    columns: a description of the columns, where there is no public data. classes: labels joined by commas, or
    `FROM_PRIVATE`; by semicolons, if cells hold several labels. target: one column, or several of labels, joined by
    commas. range: the public range of a quantity, LOW,HIGH. consent: the epsilon of each level of a column,
    COLUMN:LEVEL=EPSILON,... publish_accuracy: the test file is public, too.
    drop: columns that are left out, joined by commas. allow_shared_rows: private rows may be in the public data.

    Errors: `InvalidInput` for records without public data, labels with them, shared rows without public data, or
    another value of protect.
    """

    private: Annotated[
        str,
        _option(
            help="Confidential table (CSV, Parquet, s3://BUCKET/FOLDER), images (.npz, folder) or texts (folder).",
            check=_location,
        ),
    ]
    public: Annotated[
        str | None, _option(help="Rows, images or texts of the same kind that need no protection.", check=_location)
    ] = None
    columns: Annotated[
        str | None,
        _option(
            help="Without --public: a TOML file that describes the columns; `ostrakon schema columns` drafts it.",
            check=_location,
        ),
    ] = None
    protect: Annotated[
        str,
        _option(
            help="records, or labels (features are public, and --public is not given). [default: records]",
            check=partial(one_of, allowed=PROTECTS),
        ),
    ] = "records"
    target: Annotated[
        str | None,
        _option(help="Column to predict (of tables), or several columns of 0 and 1, as a,b.", from_toml=_as_text),
    ] = None
    by: Annotated[
        str | None, _option(help="Column of users: protects all rows of a user together.", from_toml=_as_text)
    ] = None
    test: Annotated[str | None, _option(help="Labelled rows to evaluate the student on.", check=_location)] = None
    names: Annotated[
        str | None, _option(help="Column names (a,b,c or a file) of tables without header.", advanced=True)
    ] = None
    classes: Annotated[
        str | None,
        _option(
            help="All classes, as a,b,c, if PUBLIC has none (a;b;c: several labels per row); or from-private.",
            from_toml=_joined,
        ),
    ] = None
    range: Annotated[
        str | None,
        _option(help="For regression: the public range of the target, LOW,HIGH.", check=_range, from_toml=_ends),
    ] = None
    consent: Annotated[
        str | None,
        _option(
            help="Epsilon of each record by a column of levels: COLUMN:LEVEL=EPSILON,LEVEL=EPSILON.",
            check=_consent,
            advanced=True,
        ),
    ] = None
    drop: Annotated[str | None, _option(help="Columns to leave out, as a,b (of tables).", from_toml=_joined)] = None
    allow_shared_rows: Annotated[
        bool,
        _option(help="Allow private rows that are also in the public data; these are not protected.", advanced=True),
    ] = False
    publish_accuracy: Annotated[
        bool, _option(help="The test file is public: add the accuracy to the card.", advanced=True)
    ] = False

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """See `Settings`; names and the ends of a range may be a list, as in TOML."""
        readers = {name: one.from_toml for name, one in cls.options().items() if one.from_toml and name in values}
        return super().of({**values, **{name: read(values[name]) for name, read in readers.items()}})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.columns is None:
            require_pool(self.protect, self.public)
        else:
            require_no_pool(self.protect, self.public)
        for other in ("classes", "columns"):
            if self.range is not None and getattr(self, other) is not None:
                raise InvalidInput(
                    f"range cannot be given with {other}: a quantity has a range, and needs public rows."
                )
        self._require_labels()
        if self.consent is not None:
            other = next((name for name in ("columns", "range", "labels") if getattr(self, name) is not None), None)
            if other is not None:
                name = "several labels" if other == "labels" else other
                raise InvalidInput(f"consent cannot be given with {name}: it is for classes, with public rows.")
            if self.protect == "labels":
                raise InvalidInput("consent cannot be given if only labels are protected: it is for whole records.")
        if self.range is not None and self.protect == "labels":
            raise InvalidInput("range cannot be given if only labels are protected: a quantity protects records.")
        if self.allow_shared_rows and self.public is None:
            raise InvalidInput("allow_shared_rows needs public data: without it no row is in both.")

    @property
    def labels(self) -> Labels | None:
        """The labels of which a row may have several: columns of the target, or classes written a;b;c."""
        return labels_of_rows(self.target, self.classes)

    def _require_labels(self) -> None:
        if self.labels is None:
            return
        for other in ("range", "columns"):
            if getattr(self, other) is not None:
                raise InvalidInput(f"{other} cannot be given for several labels, which need 0 or 1, and public rows.")
        if self.protect == "labels":
            raise InvalidInput(
                "several labels cannot be learned if only labels are protected: give public rows, and protect "
                "records, or one target for each run."
            )

    def for_task(self) -> dict[str, Any]:
        """Return the arguments of `ostrakon.run.inputs.files.task_from_files`."""
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "publish_accuracy"}
        if not self.allow_shared_rows:
            del values["allow_shared_rows"]
        values["drop"] = labels_in(self.drop) or ()
        quantity = None if values.pop("range") is None else Quantity.of(self.range)
        if values.pop("consent") is not None:
            values["consent"] = Consent.of(str(self.consent))
        if (labels := self.labels) is not None:
            columns = {"target": ",".join(labels.names)} if labels.names != labels_named(self.classes) else {}
            return {**values, **columns, "coding": labels, "classes": None}
        classes = FROM_PRIVATE if self.classes == FROM_PRIVATE else labels_in(self.classes)
        return {**values, "coding": quantity, "classes": classes}
