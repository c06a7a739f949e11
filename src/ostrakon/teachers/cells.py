"""Per-record votes on cells of columns: each record votes for its class in one cell of each column."""

from collections.abc import Iterable, Sequence

import numpy as np

from ostrakon.features.cells import PairMap, starts
from ostrakon.teachers.per_record import Block, contributions
from ostrakon.validation import InvalidInput
from ostrakon.votes import BoundedVotes, Moments


def collect_cells(
    blocks: Iterable[Block], *, sizes: Sequence[int], classes: int, units: int, pairs: PairMap | None
) -> BoundedVotes:
    """Count the private rows by cell and class, and by the cells of pairs of columns.

    Parameters
    ----------
    blocks : iterable of Block
        Private rows as cells, (rows, columns), with their owners and classes; no owner has rows in two blocks.
    sizes : sequence of int
        Number of cells of each column.
    classes : int
    units : int
        Number of records (or users).
    pairs : PairMap or None
        Pairs of columns to count, as the `moments` of the votes; None for none.

    Returns
    -------
    BoundedVotes
        Of shape (cells of all columns, classes).

    Raises
    ------
    InvalidInput
        If cells or classes are out of range, or more units vote than were announced.

    Notes
    -----
    Guarantee: each unit adds one vote to one cell of each column, in one class, and `pairs.unit` steps to one cell of
    each pair; for a user with several rows, the cell where most of them are (ties: the first), and the class that most
    rows there have. Both depend on the unit's own rows and on public numbers alone.
    """
    first = starts(sizes)
    counts = np.zeros((int(sum(sizes)), classes), np.int64)
    pair_counts = np.zeros(0 if pairs is None else pairs.cells, np.int64)
    voters = 0
    for owners, rows, classes_of_rows in blocks:
        codes, labels = np.asarray(rows, np.int64), np.asarray(classes_of_rows, np.int64)
        if codes.ndim != 2 or codes.shape[1] != len(sizes) or (codes < 0).any() or (codes >= np.asarray(sizes)).any():
            raise InvalidInput(f"blocks must be cells of {len(sizes)} columns below their sizes.")
        if len(labels) and not 0 <= labels.min() <= labels.max() < classes:
            raise InvalidInput(f"The class numbers of the private rows must be 0 to {classes - 1}.")
        owner_of_row = np.asarray(owners)
        for column in range(len(sizes)):
            cell, label = contributions(owner_of_row, codes[:, column], labels, classes=classes, max_contributions=1)
            np.add.at(counts, (first[column] + cell, label), 1)
        if pairs is not None:
            empty = np.zeros_like(labels)
            for cells in pairs.codes(codes).T:
                cell, _ = contributions(owner_of_row, cells, empty, classes=1, max_contributions=1)
                pair_counts += np.bincount(cell, minlength=len(pair_counts))
        voters += len(np.unique(owner_of_row))
    if voters > units:
        raise InvalidInput(f"units must be at least the number of those that voted, {voters}, got {units}.")
    votes = BoundedVotes(counts, teachers=units, max_contributions=len(sizes))
    votes.moments = None if pairs is None else Moments(pairs.table(pair_counts), teachers=units)
    return votes
