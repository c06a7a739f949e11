"""The queries: public rows that the teachers are asked about."""

import numpy as np

from ostrakon.features.cells import CellFeatures
from ostrakon.features.queries import choose_queries
from ostrakon.run.stages.features import View
from ostrakon.votes import IntArray


def queries_of(view: View, queries: int, *, strategy: str, seed: int) -> IntArray:
    """Return the queries, positions of public rows in order, chosen on public data alone.

    In a run without public rows, the cells of all columns.
    """
    if isinstance(view.fitted, CellFeatures):
        return np.arange(queries)
    return choose_queries(
        strategy, pool=len(view.public), budget=queries, features=view.public, random_state=seed
    ).astype(np.int64)
