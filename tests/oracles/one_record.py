"""What one private record may change in sums over all of them: its own part, to the last bit."""

import numpy as np

from ostrakon.run.inputs.private_data import Rows
from ostrakon.votes import STEPS


def require_own_part_alone(collect, private, changed):
    """Require that a record moves sums by its own part, of at most two votes, and that the order of records is nothing.

    collect: from private rows to their sums. changed: another target for some records, by number.
    """
    before = collect(private).counts
    for number, target in changed.items():
        other, targets = private.X.copy(), private.y.copy()
        other[number], targets[number] = -9.0, target
        alone = Rows(X=private.X[[number]], y=private.y[[number]]), Rows(X=other[[number]], y=targets[[number]])
        low, high = (collect(one).counts for one in alone)
        moved = collect(Rows(X=other, y=targets)).counts - before
        np.testing.assert_array_equal(moved, high - low)
        assert 0 < np.square(moved).sum() <= 4 * STEPS**2
    order = np.random.default_rng(0).permutation(len(private.X))
    again = collect(Rows(X=private.X[order], y=private.y[order]))
    np.testing.assert_array_equal(again.counts, before)
