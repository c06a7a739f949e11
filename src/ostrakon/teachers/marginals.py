"""Marginals of the private table: how many records (or users) lie in every cell of a few small tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from ostrakon.teachers.per_record import Block
from ostrakon.validation import InvalidInput
from ostrakon.votes import STEPS, Marginals

IntArray = NDArray[np.int64]


def collect_marginals(
    blocks: Iterable[Block], tables: Sequence[Sequence[int]], *, sizes: Sequence[int], units: int
) -> Marginals:
    """Count the private rows by the cells of `tables`, in steps of 1/1024 record.

    blocks: the private rows as cells, (rows, columns), with whose they are; nobody has rows in two blocks.
    tables: which columns each table is of. sizes: cells of every column. units:
    how many records or users there are in all.

    Guarantee: to every table a record adds one row, and a user the mean of its rows, rounded down: no cell is negative
    and together they are no longer than one record, whatever its rows are. It depends on the unit's own rows and on
    public numbers alone.
    Errors: `InvalidInput` for cells beyond the sizes, or more units than were announced.
    """
    shapes = [tuple(sizes[column] for column in table) for table in tables]
    counts = [np.zeros(int(np.prod(shape)), np.int64) for shape in shapes]
    seen = 0
    for owners, rows, _ in blocks:
        codes = np.asarray(rows, np.int64)
        if codes.shape[1] != len(sizes) or (codes < 0).any() or (codes >= np.asarray(sizes)).any():
            raise InvalidInput(f"blocks must be cells of {len(sizes)} columns below their sizes.")
        _, owner = np.unique(np.asarray(owners), return_inverse=True)
        of_each = np.bincount(owner)
        for table, shape, into in zip(tables, shapes, counts, strict=True):
            cell = np.ravel_multi_index(tuple(codes[:, column] for column in table), shape)
            said, often = np.unique(np.column_stack([owner, cell]), axis=0, return_counts=True)
            np.add.at(into, said[:, 1], STEPS * often // of_each[said[:, 0]])
        seen += len(of_each)
    if seen > units:
        raise InvalidInput(f"units must be at least the number of those that were counted, {seen}, got {units}.")
    return Marginals(np.concatenate(counts)[:, None], teachers=units, tables=len(counts))
