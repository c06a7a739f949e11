"""Per-record votes the plain way: shards on the disk, data frames, scikit-learn, whole matrices of distances."""

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from ostrakon.data.classes import label_indices
from ostrakon.data.columns import days, word
from ostrakon.data.identity import identity_numbers
from ostrakon.data.partition import key_from_seed
from ostrakon.features.rowwise import in_blocks, independent_rows
from ostrakon.votes import STEPS

AT_ONCE, SHARD = 1536, 50_000


def votes(task, view, queries, moments, *, classes, units, max_contributions, folder):
    """(counts, sums of features by class) of a private table on the disk."""
    counts = np.zeros((len(queries), classes), np.int64)
    sums = np.zeros((moments.directions, classes), np.int64)
    for owners, rows, labels in by_unit(task.private.tables, folder):
        made = features(view, rows)
        where, what = contributions(
            owners, nearest(made, queries), labels, classes=classes, max_contributions=max_contributions
        )
        np.add.at(counts, (where, what), 1)
        sums += moments_said(owners, steps(moments, made), labels, classes=classes)
    return counts, sums


def by_unit(task, folder):
    """(owners, typed frame, class numbers) of every shard, in the order of its sorted rows."""
    held = task.partition(folder, 1 + task.private.rows() // SHARD, key=key_from_seed(0), users=True)
    for index in np.flatnonzero(held.sizes):
        rows = held.read(int(index))
        most = AT_ONCE if task.by is None else len(rows)
        for at in range(0, len(rows), most):
            some = rows.iloc[at : at + most]
            owners = np.arange(len(some)) if task.by is None else identity_numbers(some[task.by])
            yield owners, task.columns.apply(some), label_indices(some[task.target], task.classes)


def features(view, frame):
    """`Representation.transform` of a frame, by scikit-learn in blocks where it holds `TableFeatures`."""
    table = view.representation.transformer
    if type(table).__name__ != "TableFeatures":
        return view.transform(frame)
    with threadpool_limits(1, user_api="blas"):
        return np.concatenate(in_blocks(lambda some: table_features(table, some), frame, rows=768))


def table_features(table, frame):
    """`TableFeatures.transform`: its fitted scikit-learn transformer on cells as objects and floats."""
    frame = frame if hasattr(frame, "iloc") else pd.DataFrame(np.asarray(frame))
    frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
    with np.errstate(over="ignore"):
        typed = pd.DataFrame({name: _typed(table, frame[name]) for name in table.columns_}, index=frame.index)
        made = np.asarray(table.transformer_.transform(typed), np.float32)
    wide = len(table.numbers_)
    if wide:
        np.clip(made[:, -2 * wide : -wide], -8, 8, out=made[:, -2 * wide : -wide])
        made[:, -wide:] = 2 * made[:, -wide:] - 1
    return made


def _typed(table, column):
    if column.name not in table.numbers_:
        return column.astype(object).map(word, na_action="ignore").astype(object).fillna("")
    if pd.api.types.is_datetime64_any_dtype(column):
        return days(column)
    if pd.api.types.is_timedelta64_dtype(column):
        return pd.to_timedelta(column) / pd.Timedelta(days=1)
    return pd.to_numeric(column, errors="coerce").astype(float)


def nearest(rows, queries):
    """The nearest query of every row: all products in blocks of one shape, ties by nine digits."""
    given, asked = np.asarray(rows, np.float64), np.asarray(queries, np.float64)
    squares = np.square(asked).sum(axis=1)
    scale = max(float(squares.max(initial=0)), 1e-300)

    def place(some):
        return np.round((squares - 2 * (some @ asked.T)) / scale, 9).argmin(axis=1)

    found = in_blocks(place, given, rows=independent_rows(lambda some: some @ asked.T, asked))
    return np.concatenate(found) if found else np.empty(0, np.int64)


def contributions(owners, place, labels, *, classes, max_contributions):
    """(queries, classes) of all that is said."""
    # Equal rows side by side: (owner, query, class), how often.
    said, often = np.unique(np.column_stack([owners, place, labels]), axis=0, return_counts=True)
    # Of each (owner, query) the class that most rows have, the lower one first, and how many rows are there at all.
    said, often = _ordered(said, often, by=(said[:, 2], -often, said[:, 1], said[:, 0]))
    first = np.flatnonzero(_begins(said[:, :2]))
    near = np.add.reduceat(often, first) if len(first) else often
    said = said[first]
    # Of each owner the queries with most rows, the earlier one first.
    said, _ = _ordered(said, near, by=(said[:, 1], -near, said[:, 0]))
    begins = _begins(said[:, :1])
    rank = np.arange(len(said)) - np.flatnonzero(begins)[np.cumsum(begins) - 1]
    kept = said[rank < max_contributions]
    return kept[:, 1], kept[:, 2]


def steps(moments, rows):
    """`MomentMap.steps` by whole arrays, in blocks of one shape."""
    rounded = [
        np.rint(made * STEPS).astype(np.int64) for made in in_blocks(moments.unrounded, np.float64(rows), rows=768)
    ]
    return np.concatenate(rounded) if rounded else np.empty((0, moments.directions), np.int64)


def moments_said(owners, steps, labels, *, classes):
    """(directions, classes): what each owner says of its rows, in the class that most of them have."""
    said, often = np.unique(np.column_stack([owners, labels]), axis=0, return_counts=True)
    said, _ = _ordered(said, often, by=(said[:, 1], -often, said[:, 0]))
    chosen = said[_begins(said[:, :1])]
    place = np.searchsorted(chosen[:, 0], owners)
    own = labels == chosen[place, 1]
    sums = np.zeros((len(chosen), steps.shape[1]), np.int64)
    np.add.at(sums, place[own], steps[own])
    rows = np.bincount(place[own], minlength=len(chosen))[:, None]
    means = np.sign(sums) * (np.abs(sums) // rows)
    return np.stack([means[chosen[:, 1] == label].sum(axis=0) for label in range(classes)], axis=1)


def _ordered(said, often, *, by):
    """Both in the order of the last of `by`, ties by the one before it."""
    order = np.lexsort(by)
    return said[order], often[order]


def _begins(keys):
    """Where a row of sorted keys differs from the one before."""
    new = np.ones(len(keys), bool)
    new[1:] = (keys[1:] != keys[:-1]).any(axis=1)
    return new
