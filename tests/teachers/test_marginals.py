"""Marginals: what is counted, of records and of users; one record moves one cell of each table; refusals."""

import itertools

import numpy as np
import pytest

from ostrakon.teachers.marginals import collect_marginals
from ostrakon.validation import InvalidInput
from ostrakon.votes import STEPS, Marginals

SIZES, TABLES = (2, 3, 2), ((0,), (1, 2))


def counted(rows, labels, owners=None, units=None):
    owners = np.arange(len(labels)) if owners is None else np.array(owners)
    units = len(labels) if units is None else units
    cells = np.column_stack([rows, labels])
    return collect_marginals([(owners, cells, labels)], TABLES, sizes=SIZES, units=units).counts[:, 0]


def test_records_are_counted_table_after_table():
    found = counted([[0, 2], [1, 2], [1, 0]], [1, 1, 0])
    assert found.tolist() == [STEPS * n for n in (1, 2, *(1, 0, 0, 0, 0, 2))]


def test_one_record_moves_one_cell_each_way_of_every_table():
    rows, labels = np.array([[0, 2], [1, 2], [1, 0]]), np.array([1, 1, 0])
    before, moved = counted(rows, labels), set()
    for cell in itertools.product(*map(range, SIZES)):
        other, label = rows.copy(), labels.copy()
        other[1], label[1] = cell[:2], cell[2]
        change = counted(other, label) - before
        for part in (change[:2], change[2:]):
            assert sorted(part[part != 0].tolist()) in ([], [-STEPS, STEPS])
        moved.add(int(np.abs(change).sum()) // STEPS)
    assert moved == {0, 2, 4}


def test_a_user_counts_as_much_as_a_record_in_parts_rounded_down():
    found = counted([[0, 2], [1, 2], [1, 0], [0, 0]], [1, 1, 0, 0], owners=[7, 7, 7, 3])
    third = STEPS // 3
    assert found[:2].tolist() == [third + STEPS, 2 * STEPS // 3]
    assert found[2:].reshape(3, 2).tolist() == [[third + STEPS, 0], [0, 0], [0, 2 * STEPS // 3]]


def test_blocks_add_up():
    rows, labels = [[0, 2], [1, 2], [1, 0]], [1, 1, 0]
    cells = np.column_stack([rows, labels])
    blocks = [(np.array([0]), cells[:1], labels[:1]), (np.array([0, 1]), cells[1:], labels[1:])]
    both = collect_marginals(blocks, TABLES, sizes=SIZES, units=3)
    assert both.counts[:, 0].tolist() == counted(rows, labels).tolist()
    assert repr(both) == "Marginals(tables=2, cells=8, teachers=3)"


def test_refusals():
    with pytest.raises(InvalidInput, match="blocks must be cells of 3 columns below their sizes"):
        counted([[0, 3]], [1])
    with pytest.raises(InvalidInput, match="blocks must be cells of 3 columns below their sizes"):
        counted([[0, -1]], [1])
    with pytest.raises(InvalidInput, match="units must be at least the number of those that were counted, 2, got 1"):
        counted([[0, 2], [1, 2]], [1, 1], units=1)
    with pytest.raises(InvalidInput, match="counts must be steps of at least 0"):
        Marginals([[-1]], teachers=1, tables=1)
