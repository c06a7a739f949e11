"""How often a student recognises each class, estimated from released numbers alone: recall, and balanced accuracy.

c[k, j] are the private counts of cell k and class j, released as Y = c + Z with Gaussian noise; s[k, j] is the share of
the public rows of cell k of which a student says class j. Of the records of class j in the cell it says j of at least
c[k, j] - (1 - s[k, j]) n[k], where n[k] are all records of the cell, and of at most the smaller of c[k, j] and
s[k, j] n[k] (Frechet). Sums of these over cells are linear in the counts. They are divided by the size of the class,
which is known best from released sums. A rare class is said in few cells, so little noise is added up.

Lower ends rest on students that were taught without the cell. Upper ends rest on the released student, which tends to
say a class where noise has raised its count, so that they are too high, not too low.

Assumption: within a cell, public rows and private records are draws of one law. The released student is taken to
recognise each class at least as well as those of the folds.

Guarantee: a function of released numbers and public rows, so it costs no privacy of its own.
Source: docs/mathematics.md O.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

from ostrakon.accounting.estimates import CONFIDENCE, Recall
from ostrakon.students.agreement_estimate import HeldOut
from ostrakon.validation import InvalidInput, positive
from ostrakon.votes import FloatArray, IntArray

_SHOWN = 4.0
"""Standard deviations of the noise on the size of a class from which on it is taken to be known."""
_LAST_BITS = 1e-9
"""By how much ends are moved outwards for the rounding of sums."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ClassSizes:
    """What released sums say of how many records each class has.

    Parameters
    ----------
    sizes : array of float, shape (classes,)
    sigma : float
        Standard deviation of the noise on each, above 0.
    """

    sizes: FloatArray
    sigma: float


@dataclass(frozen=True, kw_only=True, eq=False)
class _Bound:
    """A linear bound on how many records of a class are recognised: weights on the counts, and drawn public rows.

    weights: (cells, classes). unseen: the sum over cells of what their public rows show, in records. rows: how many
    records one public row stands for; 0 if none.
    """

    weights: FloatArray
    unseen: float
    rows: float


def recalls(
    tested: HeldOut,
    said: IntArray,
    *,
    sigma2: float,
    labels: Sequence[str],
    counted: str,
    sizes: ClassSizes | None = None,
) -> tuple[Recall, ...]:
    """Ranges of the recall of every class and, last, of their mean, the balanced accuracy.

    Parameters
    ----------
    tested : HeldOut
        What students say of noisy counts of cells that they were not taught.
    said : array of int, shape (3, held-out queries, classes)
        Public rows of each half of a cell, and its query, of which the released student says each class.
    sigma2 : float
        Standard deviation of the noise on the counts, above 0.
    labels : sequence of str
        The classes.
    counted : str
        What is counted, in words.
    sizes : ClassSizes, optional
        Of the records that are counted. None: the counts alone say how many there are.

    Returns
    -------
    tuple of Recall
        The ranges of all classes hold together in at least 95% of runs, and that of their mean in as many, whatever the
        student's errors within a cell are, if public and private rows are alike within cells.

    Raises
    ------
    InvalidInput
        For noise that is not above 0, or counts of another shape.
    """
    sigma2, m = positive("sigma2", sigma2), tested.counts.shape[1]
    if said.shape != (3, *tested.counts.shape) or len(labels) != m:
        raise InvalidInput(f"said must be rows of each cell by half and class, got shape {said.shape}.")
    lower = [_recognised(tested, label) for label in range(m)]
    upper = [_not_missed(tested, said, label) for label in range(m)]
    ends: list[tuple[float, float]] = []
    for group in (*([label] for label in range(m)), range(m)):
        classes = len(group)
        z = _deviations((1 - CONFIDENCE) / (2 if classes > 1 else 2 * m))
        given: dict[str, Any] = {"sigma2": sigma2, "sizes": sizes, "z": z}
        both = [
            _end(tested.counts, {label: bounds[label] for label in group}, sign=sign, **given)
            for sign, bounds in ((-1, lower), (1, upper))
        ]
        ends.append((min(both), max(both)))
    return tuple(
        Recall(label=label, counted=counted, low=low, high=high)
        for label, (low, high) in zip([*labels, None], ends, strict=True)
    )


def _end(
    counts: FloatArray,
    bounds: Mapping[int, _Bound],
    *,
    sign: int,
    sigma2: float,
    sizes: ClassSizes | None,
    z: tuple[float, float],
) -> float:
    """The lower (sign -1) or upper (1) end of the range of the mean recall of the classes of `bounds`.

    A class whose size the noise hides counts as wholly missed, or wholly recognised. What is recognised of a class, as
    a part of its noisy size, is off by the noise of the former less its recall times that of the latter.
    """
    total = counts.sum(axis=0) if sizes is None else sizes.sizes
    noise = sigma2 * len(counts) ** 0.5 if sizes is None else sizes.sigma
    known = [label for label in bounds if total[label] > _SHOWN * noise]
    unit = {label: 1 / (len(bounds) * float(total[label])) for label in known}
    weights, end = np.zeros_like(counts), 0.0 if sign < 0 else (len(bounds) - len(known)) / len(bounds)
    variance, row = 0.0, 0.0
    for label in known:
        bound = bounds[label]
        recognised = float((bound.weights * counts).sum())
        recall = float(np.clip(recognised / total[label], 0, 1))
        weights += unit[label] * bound.weights
        if sizes is None:
            weights[:, label] -= unit[label] * recall
        else:
            variance += (unit[label] * recall * noise) ** 2
        end += unit[label] * recognised
        variance += unit[label] ** 2 * bound.rows * bound.unseen
        row = max(row, unit[label] * bound.rows)
    # Wilson's interval for what public rows show: none of them, too, leaves room for some of the records.
    both, drawn = z
    unseen = drawn**2 * row / 2
    deviation = float(np.hypot(both * (variance + sigma2**2 * float(np.square(weights).sum())) ** 0.5, unseen))
    return float(np.clip(end + sign * (unseen + deviation + _LAST_BITS), 0, 1))


def _recognised(tested: HeldOut, label: int) -> _Bound:
    """What is at most the number of records of the class of which the student says it.

    A cell counts if students are expected to recognise some of the class there, by what they believe and by the rows of
    one half; of how many rows of the cell the class is said is counted in the other half.
    """
    queries = np.zeros_like(tested.said[0]) if tested.of_queries is None else tested.of_queries
    said = np.stack([tested.said[0], tested.said[1], queries])
    weights, others, used = (
        np.zeros_like(tested.counts),
        np.zeros(len(tested.counts)),
        np.zeros(len(tested.counts), bool),
    )
    for rows, share, expected in _by_half(said, label):
        part = rows * (_believed(tested, label) + (expected + 0.5) / 2 > 1)
        weights[:, label] += part
        weights += (part * (share - 1))[:, None]
        others += part * (1 - share)
        used |= part > 0
    return _Bound(weights=weights, **_drawn(tested.counts, said, others, used))


def _not_missed(tested: HeldOut, said: IntArray, label: int) -> _Bound:
    """What is at least that number: of cells where few rows are said to be of the class these, of others all of it."""
    weights, shown, used = (
        np.zeros_like(tested.counts),
        np.zeros(len(tested.counts)),
        np.zeros(len(tested.counts), bool),
    )
    weights[:, label] = 1.0
    for rows, share, expected in _by_half(said, label):
        part = rows * (expected <= _believed(tested, label))
        weights[:, label] -= part
        weights += (part * share)[:, None]
        shown += part * share
        used |= part > 0
    return _Bound(weights=weights, **_drawn(tested.counts, said, shown, used))


def _by_half(said: IntArray, label: int) -> Iterator[tuple[FloatArray, FloatArray, FloatArray]]:
    """Of each half of every cell: its part of the rows, the share of it that is said to be of the class, and the share
    of the other half and the query, which are not measured there."""
    halves = np.stack([said[0] - said[2], said[1]])
    rows = halves.sum(axis=2)
    for half in (0, 1):
        other = halves[1 - half] + said[2]
        yield (
            rows[half] / np.maximum(rows.sum(axis=0), 1),
            halves[half, :, label] / np.maximum(rows[half], 1),
            other[:, label] / np.maximum(other.sum(axis=1), 1),
        )


def _believed(tested: HeldOut, label: int) -> FloatArray:
    """How likely students that were not taught a cell take the class to be there."""
    return np.full(len(tested.counts), 0.5) if tested.beliefs is None else tested.beliefs[:, label]


def _drawn(counts: FloatArray, said: IntArray, share: FloatArray, used: NDArray[np.bool_]) -> dict[str, float]:
    """The last two fields of `_Bound`. share: of the rows of each cell; used: cells whose rows are relied on."""
    rows, records = (said[0] + said[1] - said[2]).sum(axis=1)[used], np.maximum(counts.sum(axis=1), 0)
    of_a_row = float((records[used] ** 2 / rows).sum()) / max(float(records[used].sum()), 1e-12)
    return {"unseen": float((share * records).sum()), "rows": 1 + of_a_row if len(rows) else 0.0}


def _deviations(miss: float) -> tuple[float, float]:
    """Standard deviations that are exceeded with that probability: by both noises, whatever they depend on; by a draw.

    One noise is on the records that are recognised, the other on the size of the class. A student that learns from
    released sums depends on the latter, so its recall may, too: the direction in which both are compared is any
    function of it, and at worst the event is that of two normal numbers of length z in a quarter of the plane, or of
    one beyond z.
    """

    def too_often(z: float) -> float:
        return float(np.exp(-(z**2) / 2)) / 4 + float(stats.norm.sf(z)) - miss

    return optimize.root_scalar(too_often, bracket=(0, 40)).root, float(stats.norm.isf(miss))
