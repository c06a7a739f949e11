"""Lookup tables of the envelope's loops, computed once for all queries: label costs, and the effect of a top count."""

import math
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from ostrakon.accounting.data_independent.likely_outcome import SLACK
from ostrakon.accounting.data_independent.move_lemma import LOG_Q, MoveCosts, move_costs
from ostrakon.accounting.data_independent.noisy_max import NODES, AnswerLaw, quadrature_error
from ostrakon.accounting.data_independent.supremum import joint_cost, joint_step, lowest_top_count
from ostrakon.accounting.gate._envelope_kernel import LOG_BITS, LOWEST, STEP, query_envelopes_of
from ostrakon.mechanisms.base import FloatArray
from ostrakon.votes import IntArray

Report = Callable[[int, int], None]
"""Called with the numbers of finished and of all histograms."""

_COARSE = 20
_INTERPOLATION = 1e-6
_BIGGEST_LOG = 600.0
_FINER = 8
_KIND = np.array([0, 2, 1, 1, 2])
"""The label of every variant of the top count (`joint_step`), of those of `MoveCosts.at`."""

_LEVELS = 3
_NUMBERS = 1 << 20
"""Costs computed between two reports of progress; they are in memory beside the result."""


@dataclass(frozen=True, kw_only=True)
class LikelyOutcomeTable:
    """log_grown[i] = (a-1) cost at `ln q = LOWEST + i STEP`, shape (I,), non-decreasing; the last entry is q = 1.

    Guarantee: (a-1) times the cost at q is at most `log_grown[ceil((ln q - LOWEST) / STEP)]`, first entry below. The
    true cost grows by far more over one step than the interpolation error, and where it is flat that error is added.
    """

    order: float
    log_grown: FloatArray


def likely_outcome_table(law: AnswerLaw, order: float) -> LikelyOutcomeTable:
    """Return the table of one mechanism at one order."""
    fine = _log_q()
    orders = np.array([order])
    if law.form.noise != "gaussian":
        cost = law.likely_outcome_rdp(np.exp(fine), orders)[0]
    else:
        from scipy.interpolate import PchipInterpolator

        # beta* is an optimum over splits, so it is computed on every twentieth point and is smooth between them.
        coarse = np.append(fine[:-1:_COARSE], 0.0)
        known = law.likely_outcome_rdp(np.exp(coarse), orders)[0]
        cost = np.exp(PchipInterpolator(coarse, np.log(known))(fine)) * (1 + _INTERPOLATION)
    return LikelyOutcomeTable(order=order, log_grown=(order - 1) * np.maximum.accumulate(cost))


@dataclass(frozen=True, kw_only=True, eq=False)
class EnvelopeTables:
    """The tables of one mechanism and shape of votes at several orders.

    orders: shape (K,). bounded: the orders that have a bound, booleans (K,): an order far too high for the noise has
    none, and would overflow. noise, label, by_top and by_cell: arguments of `query_envelopes_of`, the last three for
    the bounded orders.
    """

    law: AnswerLaw
    orders: FloatArray
    bounded: NDArray[np.bool_]
    lowest: int
    sizes: IntArray
    offsets: IntArray
    noise: tuple[float, float, IntArray, FloatArray, IntArray, FloatArray]
    label: tuple[FloatArray, NDArray[np.float32], IntArray, NDArray[np.float32], IntArray]
    by_top: tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]
    by_cell: tuple[FloatArray, FloatArray, FloatArray, FloatArray]

    @classmethod
    def of(cls, law: AnswerLaw, orders: FloatArray, *, abstentions: bool) -> Self:
        """Return the tables of `law` at these orders."""
        log_alpha, log_beta = joint_step(law, orders)
        log_grown = np.array([likely_outcome_table(law, float(order)).log_grown for order in orders])
        moves = _moves(law, orders)
        # The worst label cost by top count, for the peak and for every label: all are clipped there.
        log_cap = _worst_labels(law, orders, moves)
        peak = joint_cost(log_alpha, log_beta, log_cap[:, _KIND] / (orders - 1)[:, None, None], orders)
        label = np.maximum(log_cap.max(axis=(1, 2)), log_grown[:, -1])
        biggest = np.maximum(log_alpha.max(axis=(1, 2)), log_beta.max(axis=(1, 2)) + label)
        kept = biggest < _BIGGEST_LOG
        lowest = lowest_top_count(teachers=law.teachers, classes=law.classes, abstentions=abstentions)
        stride = max(1, round(law.form.scale / 8))
        cap, alpha, beta = (_orders_last(np.exp(log[kept])) for log in (log_cap, log_alpha, log_beta))
        # No smaller than the loops' own value of the worst label, to the last bit.
        worst = np.maximum(_orders_last(np.exp((orders[kept] - 1)[:, None] * peak[kept])), 1.0)
        worst = np.maximum(worst, (alpha + beta * cap[:, _KIND]).max(axis=1))
        sizes = stride * _FINER ** np.arange(_LEVELS)
        starts = [np.arange(0, law.teachers + 1, size) for size in sizes]

        def in_cells(of_tops: FloatArray) -> FloatArray:
            return np.concatenate([np.maximum.reduceat(of_tops, cells, axis=0) for cells in starts])

        return cls(
            law=law,
            orders=orders,
            bounded=kept,
            lowest=lowest,
            sizes=sizes,
            offsets=np.cumsum([0, *(len(cells) for cells in starts[:-1])]),
            noise=_noise_tables(law),
            label=_label_tables(log_grown[kept], moves, kept),
            by_top=(cap, alpha, beta, worst, np.maximum.accumulate(worst[::-1], axis=0)[::-1].copy()),
            by_cell=(in_cells(cap), in_cells(alpha + beta), in_cells(beta), in_cells(worst)),
        )

    def costs(self, rows: IntArray, steps: IntArray) -> FloatArray:
        """Return U(n, d) of histograms sorted downward, shape (rows, distances, K), nats."""
        result = np.full((len(rows), len(steps), len(self.orders)), np.inf)
        if self.bounded.any():
            logs = query_envelopes_of(
                rows,
                steps,
                self.lowest,
                self.sizes,
                self.offsets,
                self.noise,
                self.label,
                self.by_top,
                self.by_cell,
            )
            result[:, :, self.bounded] = logs / (self.orders[self.bounded] - 1) + SLACK
        return result

    def in_blocks(
        self, rows: IntArray, steps: IntArray, report: Report | None = None
    ) -> Iterator[tuple[int, FloatArray]]:
        """Yield (first row, `costs`) for blocks of rows; only a few blocks are in memory at once."""
        size = max(1, _NUMBERS // (len(steps) * len(self.orders)))
        starts = range(0, len(rows), size)
        threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        # Compile before threads need the code: compiled code releases Python's lock.
        _ = query_envelopes_of.machine_code
        with ThreadPoolExecutor(threads) as pool:
            for some in range(0, len(starts), threads):
                chosen = starts[some : some + threads]
                blocks = pool.map(self.costs, (rows[start : start + size] for start in chosen), repeat(steps))
                yield from zip(chosen, blocks, strict=True)
                if report is not None:
                    report(min((some + threads) * size, len(rows)), len(rows))


@dataclass(frozen=True, kw_only=True, eq=False)
class TwoClassTables:
    """Two classes without abstentions: the exact joint cost, a function of the top count alone.

    orders: shape (K,). cost: by the first class's votes, shape (K, teachers + 1), from `two_class_costs`.
    """

    orders: FloatArray
    cost: FloatArray

    def in_blocks(
        self, rows: IntArray, steps: IntArray, report: Report | None = None
    ) -> Iterator[tuple[int, FloatArray]]:
        """Yield all rows as one block (see `EnvelopeTables.in_blocks`)."""
        n = self.cost.shape[1] - 1
        lowest = (n + 1) // 2
        reach = np.maximum(self.cost, self.cost[:, ::-1])[:, lowest:]  # by top count, from its smallest value
        result = np.empty((len(rows), len(steps), len(self.orders)))
        done = 0
        for column in np.argsort(steps, kind="stable"):
            while done < steps[column]:
                wider = reach.copy()
                wider[:, 1:] = np.maximum(wider[:, 1:], reach[:, :-1])
                wider[:, :-1] = np.maximum(wider[:, :-1], reach[:, 1:])
                reach, done = wider, done + 1
            result[:, column] = reach[:, rows[:, 0] - lowest].T
        yield 0, result
        if report is not None:
            report(len(rows), len(rows))


def _orders_last(table: FloatArray) -> FloatArray:
    """Return (orders, variants.., top counts) transposed to (top counts, variants.., orders)."""
    return np.ascontiguousarray(np.moveaxis(np.moveaxis(table, -1, 0), 1, -1))


def _log_q() -> FloatArray:
    """Return the logarithms of the points of every table of labels."""
    fine = (np.arange(round(-LOWEST / STEP) + 1) * STEP + LOWEST).astype(np.float64)
    fine[-1] = 0.0
    return fine


def _label_tables(
    log_grown: FloatArray, moves: MoveCosts, kept: NDArray[np.bool_]
) -> tuple[FloatArray, NDArray[np.float32], IntArray, NDArray[np.float32], IntArray]:
    """Return the moments of labels, by probability to lose, for the loops."""
    coarse = np.minimum(np.searchsorted(LOG_Q, _log_q() - 1e-12), len(LOG_Q) - 1)
    pair, third = (x if kept.all() else np.ascontiguousarray(x[..., kept]) for x in (moves.pair, moves.third))
    return _orders_last(np.exp(log_grown)), pair, moves.row, third, coarse


def _moves(law: AnswerLaw, orders: FloatArray) -> MoveCosts:
    """Return the move lemma for this noise; without effect where it is not Gaussian."""
    if law.form.noise == "gaussian":
        return move_costs(law.form.scale, orders, teachers=law.teachers)
    return MoveCosts.nothing(len(orders), teachers=law.teachers)


def _worst_labels(law: AnswerLaw, orders: FloatArray, moves: MoveCosts) -> FloatArray:
    """Return (a - 1) times the largest cost of a label by top count M, (K, 3, teachers + 1): the kinds of
    `MoveCosts.at`.

    A class with M votes is ahead of any other by at least 2 M - teachers, and loses with at most `worst_q`.
    """
    q = law.worst_q()
    known = (orders - 1)[:, None] * law.likely_outcome_rdp(q, orders)
    lead = np.maximum(2 * np.arange(law.teachers + 1) - law.teachers, 0)
    return np.minimum(known[:, None], np.log(moves.at(lead, q)).T.transpose(0, 2, 1) + 1e-15).astype(np.float64)


def _noise_tables(law: AnswerLaw) -> tuple[float, float, IntArray, FloatArray, IntArray, FloatArray]:
    """Return (unit of shares, quadrature error, shares by gap, quadrature weights, -ln Phi(z + t / sigma) by gap t and
    node z, probabilities to lose as sums of shares).
    """
    unit = 2.0 ** (law.classes.bit_length() - 61)
    shares, error = _convex(law.behind() / unit), quadrature_error(law.classes)
    grid = np.exp(_log_q())
    if law.form.noise == "gumbel":
        # The odds S of losing, for the probability S / (1 + S).
        with np.errstate(divide="ignore"):
            grid = grid / (1 - grid) * (1 - 1e-15)
    if law.form.noise != "gaussian":
        return unit, error, shares, np.empty(0), np.empty((law.teachers + 1, 0), np.int64), grid
    step = NODES[1] - NODES[0]
    weights = np.exp(-NODES * NODES / 2) * step / math.sqrt(2 * math.pi)
    gaps = np.arange(law.teachers + 1) / law.form.scale
    above = _convex(-log_ndtr(gaps[:, None] + NODES[None, :]) * 2.0**LOG_BITS)
    return unit, error, shares, weights, above, grid


def _convex(values: FloatArray) -> IntArray:
    """Return whole numbers at least as large as the values, by gap, that fall ever more slowly (mathematics.md D3)."""
    result = np.ceil(values * (1 + 1e-13)).astype(np.int64)
    for gap in range(len(result) - 2, -1, -1):
        steps = result[gap + 1] - result[gap + 2] if gap + 2 < len(result) else 0
        result[gap] = np.maximum(result[gap], result[gap + 1] + steps)
    return result
