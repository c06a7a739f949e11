"""The kind of the rows, a public fact that decides which mechanism is the default, and the shares of its cost."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ostrakon.estimators.choices import is_auto, sees_images
from ostrakon.features.moments import principal_variances
from ostrakon.features.representation import default_representation, is_embedded
from ostrakon.features.rowwise import row_count, take_rows
from ostrakon.features.tables import TableFeatures

_WIDE, _ROWS = 25.0, 2000
"""Effective dimension from which tables are wide, and most public rows for it. Chosen on tables: see
benchmarks/README.md.
"""


@dataclass(frozen=True, kw_only=True)
class RowKind:
    """The kind of the public rows.

    Parameters
    ----------
    images : bool
        Whether learners see images; votes alone are then released.
    embedded : bool
        Whether features are embeddings (`ostrakon.features.representation.is_embedded`), whose sums get more of the
        cost, as those of wide tables do.
    wide : bool
        Whether many columns of a table depend little on each other: the effective dimension of its features is at least
        25. Cells of similar rows say little then.
    """

    images: bool = False
    embedded: bool = False
    wide: bool = False

    @property
    def many(self) -> bool:
        """Whether features have many independent directions."""
        return self.embedded or self.wide

    @classmethod
    def of(cls, X_public: Any, representation: Any) -> Self:
        """Return the kind of public rows with the features of a representation ("auto", a name, a transformer)."""
        images, embedded = sees_images(X_public, representation), is_embedded(representation, X_public)
        name = default_representation(X_public) if is_auto(representation) else representation
        is_table = not images and not embedded and isinstance(name, str) and name == "table"
        return cls(images=images, embedded=embedded, wide=is_table and _dimension_of_table(X_public) >= _WIDE)


TABLE = RowKind()
"""The kind of most tables."""


def effective_dimension(features: Any) -> float:
    """Return how many uncorrelated features of equal variance would be as spread as these, (rows, features).

    This is the squared sum of the variances of the principal components, divided by the sum of their squares; 0 for
    equal rows.

    >>> round(effective_dimension(np.vstack([np.eye(9), -np.eye(9)])), 6)
    9.0
    """
    variances = principal_variances(features)
    squares = float(np.square(variances).sum())
    return float(variances.sum()) ** 2 / squares if squares > 0 else 0.0


def _dimension_of_table(X_public: Any) -> float:
    """Return the effective dimension of the features of some rows of a table; 0 for rows that a run refuses."""
    count = row_count(X_public)
    rows = take_rows(X_public, np.unique(np.linspace(0, max(count - 1, 0), min(count, _ROWS)).astype(np.int64)))
    try:
        return effective_dimension(TableFeatures().fit(rows).transform(rows))
    except ValueError:
        return 0.0
