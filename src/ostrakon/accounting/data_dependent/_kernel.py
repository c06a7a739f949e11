"""Arguments of the compiled accountant, from a mechanism's structure: tables, quadrature rules and limits."""

import math
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from ostrakon.accounting.data_dependent._neighbours import argmax_costs
from ostrakon.accounting.data_dependent._quadrature import gaussian_tables
from ostrakon.accounting.data_dependent._threshold_test import GAUSSIAN, GUMBEL, LAPLACE, NO_CHECK
from ostrakon.mechanisms.base import FloatArray, NoisyArgmax
from ostrakon.mechanisms.laws._laplace_quadrature import gauss_legendre_table, tail_rules

_CODES = {"gaussian": GAUSSIAN, "laplace": LAPLACE, "gumbel": GUMBEL}
# Quotients of one move are kept as differences from 1; below e^-7 those would lose more than three digits.
_MOST_LOG_RATIO = 7.0
# The table grows with the noise; beyond this, differences of log probabilities are tight to 1e-7.
_WIDEST_SCALE = 2.0**15
_WORTH_THREADS = 64
# Even with many classes a query rarely has more different counts.
_FEW_COUNTS = 25


def argmax_costs_of(
    rows: FloatArray,
    scores: FloatArray | None,
    *,
    abstained: FloatArray,
    abstentions: bool,
    law: NoisyArgmax,
    orders: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return the data-dependent costs (queries, orders) of sorted `rows`; nan where a vote changes a probability too
    much.

    With them the log probabilities (queries, 2) to answer, and that an answer is the first class.
    scores: check scores in the order of `rows`, or None where they are the counts.
    """
    table, units = np.zeros((5, 0)), 1
    gl_x, gl_w, tail_u, tail_w = (np.zeros((1, 1)),) * 4
    scale = law.scale
    spread = rows[:, 0] - rows[:, -1]
    if law.noise == "gaussian":
        safe = ((spread / 2 + 12 * scale + 0.5) / scale**2 <= _MOST_LOG_RATIO) & (scale <= _WIDEST_SCALE)
        if safe.any():
            units, table = gaussian_tables(scale, float(spread[safe].max()))
    else:
        safe = np.full(len(rows), 2 / scale <= _MOST_LOG_RATIO)
        if law.noise == "laplace":
            gl_x, gl_w = gauss_legendre_table()
            tail_u, tail_w = tail_rules(rows.shape[1])
    costs, chances = np.full((len(rows), len(orders)), math.nan), np.full((len(rows), 2), math.nan)
    if not safe.any():
        return costs, chances
    check = law.threshold_test
    rest = (
        abstentions,
        _CODES[law.noise],
        scale,
        NO_CHECK if check is None else _CODES[check.noise],
        0.0 if check is None else check.threshold,
        1.0 if check is None else check.scale,
        units,
        table,
        gl_x,
        gl_w,
        tail_u,
        tail_w,
        np.array(orders),
    )
    # Seconds that plain Python would need, from the shape of the votes.
    run = argmax_costs.worth(3e-4 * len(rows) * min(rows.shape[1], _FEW_COUNTS) ** 2)
    chosen = np.flatnonzero(safe)
    none = np.zeros((len(rows), 0))

    def fill(part: NDArray[np.intp]) -> None:
        at = np.ascontiguousarray
        filled, likely = np.empty((len(part), len(orders))), np.empty((len(part), 2))
        run(at(rows[part]), at((none if scores is None else scores)[part]), at(abstained[part]), *rest, filled, likely)
        costs[part], chances[part] = filled, likely

    if len(chosen) < _WORTH_THREADS:
        fill(chosen)
    else:
        # The compiled code releases Python's lock. Equal queries are adjacent and are distributed in turn.
        with ThreadPoolExecutor(_threads()) as pool:
            list(pool.map(fill, [chosen[start :: 4 * _threads()] for start in range(4 * _threads())]))
    return costs, chances


def _threads() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
