"""The price of a bisection of ordered classes: fewer comparisons where fewer classes are left.

A bisection of c classes is one comparison, then that of the lower ceil(c/2) or of the upper floor(c/2) classes. A vote
that moves is one vote for one of two classes in a comparison, or changes nothing there. With V the profile of what
follows, V_1 = V and

    V_c(y) = sup over (P, Q) of P(0) V_{ceil(c/2)}(y Q(0) / P(0)) + P(1) V_{floor(c/2)}(y Q(1) / P(1)),

(P, Q) over all neighbouring votes of two classes, and over equal ones. Proof: docs/adaptive.md.
"""

import dataclasses

import numpy as np

from ostrakon.accounting.composition.adaptive import Family, Grid, Profile, best_of, extend, left_of, stencils_of
from ostrakon.accounting.data_independent.likely_outcome import SLACK
from ostrakon.accounting.data_independent.supremum import TWO_CLASS_ERROR, two_class_law
from ostrakon.mechanisms.base import FloatArray, Mechanism

_BLOCK = 256
_SECONDS = 4e-7
"""What Python needs for one outcome at one point of the grid."""


def sizes_of_parts(classes: int) -> list[int]:
    """Return the numbers of classes above 1 that may be left, increasing.

    >>> sizes_of_parts(6)
    [2, 3, 6]
    """
    sizes, left = {1}, [classes]
    while left:
        size = left.pop()
        if size not in sizes:
            sizes.add(size)
            left += [size - size // 2, size // 2]
    return sorted(sizes - {1})


def compose_bisections(family: Family, *, classes: int, queries: int, grid: Grid, after: Profile) -> Profile:
    """Return the profile of `queries` bisections of ordered classes, adaptively chosen, before `after`.

    Parameters
    ----------
    family : Family
        The pairs of laws of one comparison: columns lower, upper, and one that is never taken. No common outcomes.
    classes : int, at least 2
    queries : int
    grid : Grid
    after : Profile
        On the same grid.

    Returns
    -------
    Profile
        Never below the exact optimum over all adaptive strategies; rounding is charged as in `compose_adaptively`.
    """
    # Votes that are equal in a comparison lead to a half of choice; most surely so with all votes on one side.
    equal = np.vstack([family.p[:1], family.q[-1:]])
    p, q = np.vstack([family.p, equal]), np.vstack([family.q, equal])
    # The exchange of the halves is not that of the laws: what follows them differs.
    stencils = stencils_of(dataclasses.replace(family, p=p, q=q, symmetric=False), grid)
    pairs, middle = len(stencils.constant) - 1, grid.count + stencils.reach
    width = 2 * middle + 1
    # Behind the profile that follows the lower half lies that of the upper half.
    shift = np.array([0, width, 0])
    near, far = stencils.near + shift, stencils.far + shift
    work = _SECONDS * grid.count * stencils.near.size * queries
    widen, raise_ = extend.worth(work), best_of.worth(work)
    left = left_of.worth(work)(grid.step, middle + 1)
    wide, sums = np.empty(2 * width), np.empty(_BLOCK)
    values = after.values
    for _ in range(queries):
        by_size = {1: values}
        for size in sizes_of_parts(classes):
            for half, part in ((size - size // 2, wide[:width]), (size // 2, wide[width:])):
                widen(by_size[half], by_size[half], left, part)
            best = np.zeros(grid.count + 1)
            raise_(
                wide, middle, near, far, stencils.near_weight, stencils.far_weight, stencils.constant, 0, pairs, best,
                sums,
            )  # fmt: skip
            by_size[size] = np.minimum(1.0, best * (1 + 1e-13) + 1e-290)
        values = by_size[classes]
    return Profile(grid=grid, values=np.where(values >= 0, values, np.inf))


def bisection_costs(comparison: Mechanism, orders: FloatArray, *, teachers: int, classes: int) -> FloatArray:
    """Return the largest Rényi divergence of one bisection at each order, whatever the votes are; shape (orders,).

    comparison: its two-class query. teachers: all vote. The same recursion, with moments in place of V.
    """
    law = two_class_law(comparison, teachers)[:, :2]
    p, q = np.vstack([law[:-1], law[1:], law]), np.vstack([law[1:], law[:-1], law])
    costs = np.empty(len(orders))
    for at, a in enumerate(orders.tolist()):
        moment = a * p + (1 - a) * q
        by_size = {1: 0.0}
        for size in sizes_of_parts(classes):
            lower, upper = by_size[size - size // 2], by_size[size // 2]
            by_size[size] = float(np.logaddexp(moment[:, 0] + lower, moment[:, 1] + upper).max())
        costs[at] = max(0.0, by_size[classes]) / (a - 1)
    return costs * (1 + TWO_CLASS_ERROR) + SLACK
