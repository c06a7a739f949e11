"""The public rows of an earlier run, read again from their files, and labelled test rows for a new student."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ostrakon.data.columns import Columns
from ostrakon.data.domain import Domain
from ostrakon.data.images import Images, holds_images, read_images
from ostrakon.data.label_cells import joined_columns, label_columns
from ostrakon.data.labels import Labels
from ostrakon.data.quantity import Quantity
from ostrakon.data.sources import open_described, open_table
from ostrakon.data.table import Table
from ostrakon.data.target import right_numbers, with_points
from ostrakon.data.text_files import holds_texts, is_lines
from ostrakon.run.inputs.images import digest_of_images, require_like, rows_of
from ostrakon.run.inputs.tables import read_public_again
from ostrakon.run.inputs.targets import require_labels_of
from ostrakon.run.inputs.texts import digest_of_texts, frame_of, open_texts, public_frame_of
from ostrakon.validation import InvalidInput

_OTHER = "public must be the {} that the release was made with, by their content, got {}, which has another one."


@dataclass(frozen=True, kw_only=True, eq=False)
class EarlierPublic:
    """Public rows as an earlier run read them.

    X: the rows. domain: the description of the columns, if there were no public rows. images: the images; None for
    other rows. source: as in `Task.source`.
    """

    X: Any
    domain: Domain | None
    images: Images | None
    source: Mapping[str, Any]

    @classmethod
    def of(cls, public: Any, source: Mapping[str, Any]) -> EarlierPublic:
        """Read the file or folder `public` again.

        Errors: `InvalidInput` for other public rows than those of the run, and if they are missing or not needed.
        """
        description = source.get("description")
        if (public is None) != (description is not None):
            raise InvalidInput(
                "public must be given: the public table, or pictures or texts, that the release was made with."
                if description is None
                else "public cannot be given: the columns of this release were described, without public rows."
            )
        if description is not None:
            domain = Domain.of(description["columns"], delimiter=description["delimiter"])
            return cls(X=domain.examples(), domain=domain, images=None, source=source)
        if "images" in source:
            images = read_images(public, labelled=False) if Path(public).exists() and holds_images(public) else None
            if images is None or digest_of_images(images) != source["images"]:
                raise InvalidInput(_OTHER.format("pictures or features", public))
            return cls(X=rows_of(images), domain=None, images=images, source=source)
        if "texts" in source:
            texts = open_texts(public) if Path(public).exists() and (holds_texts(public) or is_lines(public)) else None
            if texts is None or digest_of_texts(texts) != source["texts"]:
                raise InvalidInput(_OTHER.format("texts", public))
            return cls(X=public_frame_of(texts), domain=None, images=None, source=source)
        return cls(X=read_public_again(public, source), domain=None, images=None, source=source)

    def labelled(
        self, test: Any, *, target: str, classes: tuple[str, ...], quantity: Quantity | None, several: bool
    ) -> tuple[Any, NDArray[Any]]:
        """Return (rows of the file or folder `test`, their targets), read as in a run.

        target: the column of tables. classes: all labels; () for a quantity. several: whether rows may have several.
        Errors: `InvalidInput` for what cannot be read, and for rows without labels or with other ones.
        """
        coding = Labels(names=classes) if several else quantity
        if self.images is not None:
            tested = read_images(test, like=self.images, target=self.source["target"], coding=coding)
            require_like(self.images, tested, "test", whose="public")
            labels = require_labels_of(tested.labels, f"The test images {test}", coding)
            return rows_of(tested), right_numbers(labels, coding or classes)
        if "texts" in self.source:
            texts = open_texts(test)
            labels = require_labels_of(texts.labels, f"The test texts {test}", coding)
            return frame_of(texts), right_numbers(labels, coding or classes)
        parts = label_columns(target, coding)
        table, columns = self._table(test, target)
        absent = [name for name in (*columns.kept, *(parts or (target,))) if name not in table.columns]
        if absent:
            raise InvalidInput(
                f"test must have the columns of the public rows and the target, got none named {absent[0]!r}."
            )
        table = joined_columns(table, parts, target) if parts else with_points(table, target, coding, columns)
        labels = table.labels(target)
        return columns.apply(table.read(list(columns.kept))), right_numbers(
            np.asarray(labels, object), coding or classes
        )

    def _table(self, test: Any, target: str) -> tuple[Table, Columns]:
        """Return the opened table and the kinds of its columns."""
        if self.domain is not None:
            return open_described(test, delimiter=self.domain.delimiter), self.domain.kinds()
        columns = Columns(dict(self.source["kinds"]))
        if self.source["header"]:
            return open_table(test), columns
        names = list(self.source["names"])
        # A public table without names usually lacks the target, which is the last column of other tables.
        width = len(open_table(test, header=False).columns)
        return open_table(test, names=names if width == len(names) else [*names, target], header=False), columns
