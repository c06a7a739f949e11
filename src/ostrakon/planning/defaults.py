"""Defaults that depend on public numbers alone: teachers, queries, noise, delta."""

import math
from typing import Any

from ostrakon.accounting.calibration.noise import likely_price
from ostrakon.accounting.data_independent.worst_case import worst_case
from ostrakon.features.histogram import COARSE
from ostrakon.features.moments import FEW_CLASSES
from ostrakon.mechanisms import Mechanism
from ostrakon.numerics.inverse import most
from ostrakon.students.right_counts import half_width_of_accuracy
from ostrakon.validation import InvalidInput, fraction, whole

TEACHERS_GRID = (5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000)
ROWS_PER_TEACHER = 100
DEFAULT_EPSILON = 2.0
DEFAULT_MECHANISM = "moment-gnmax"
DEFAULT_OF_COUNTS = "bounded-gnmax"
"""The default if the student cannot use sums of features: for images, and for most students with a name."""
OF_QUANTITIES = "quantity-gnmax"
"""The mechanism of a target that is a number."""
OF_LABELS = "labels-gnmax"
"""The mechanism of rows that have several labels."""
SUMS_OF_TABLES, SUMS_OF_MANY = 0.5, 0.8
"""Share of the cost for the sums of features of tables, and of wide tables and embeddings, which counts only
correct."""
LINEAR_OF_MANY, LINEAR_OF_FEW, LINEAR = 0.8, 0.6, 0.4
"""Share of the squared length of features for linear ones: for several labels in wide tables and embeddings; for
quantities in these, or with few records; and for all others.
"""
_LEAST_FOR_WAVES = 550
"""With fewer records for each standard deviation of the noise that all of the cost buys, they are few. Chosen on
tables: see benchmarks/README.md.
"""
SUMS_OF_MANY_LABELS = 0.9
"""Share of the cost for the sums of features of several labels in wide tables and embeddings."""
OF_ERRORS, OF_ERRORS_OF_FEW, FEW_RECORDS = 0.05, 0.1, 2000
"""Share of the cost for counts of a student's errors (at most, for classes); of a quantity with few records, and their
number."""
OF_CORRECTIONS = 0.5
"""Share of the cost for the correction of the default student."""
_LEAST_FOR_CORRECTIONS, _LEAST_OF_EMBEDDINGS, _LEAST_OF_QUANTITIES = 100, 500, 40
"""With fewer records for each standard deviation of the noise on corrections of two classes, and in proportion of more,
these do more harm than good. Chosen on tables and on SST-2: see benchmarks/README.md.
"""
_OF_ERRORS_OF_MANY = 0.01
"""Smallest share for classes, so that the recall of a rare class is known, too."""
_LEAST_FOR_ERRORS = 25
"""With fewer records for each standard deviation of the noise on counts of errors, intervals are nearly the range."""
_OF_HISTOGRAM = (0.01, 0.03)
"""Smallest and largest share of the cost for a histogram of a quantity."""
_FINE_BIN = 0.002
"""Noise on a bin, as a share of the records, that is small enough."""
_FINE, _COARSE = 0.01, 0.2
"""Half widths of the interval of the accuracy below which noise is small enough, and above which it is too large."""
DEFAULT_OF_TEACHERS = "confident-gnmax"
"""The default if an option needs trained teachers."""
MOST_QUERIES = 1000
MOST_PER_RECORD, MOST_FOR_A_CLASS = 1280, 64
"""Largest number of representatives, which clustering computes in a minute; with many classes, this number a class."""
SIGNAL_TO_NOISE, OF_MANY_CLASSES = 5, 12
"""Votes on a query in standard deviations of their noise, with per-record teachers: up to 20 classes, and more."""
LEAST_SIGNAL_TO_NOISE = 2
"""The same if there were otherwise fewer than ten queries for a class."""
FEWEST_PER_RECORD = 2


def default_teachers(units: int) -> int:
    """Return the largest of 5, 10, 25, 50, … 5000 with about a hundred records (or users) for each teacher.

    The grid is coarse so that the number of teachers, which is public, says little about the number of records.

    >>> default_teachers(32_561), default_teachers(700)
    (250, 5)
    """
    units = whole("units", units, at_least=1)
    fitting = [count for count in TEACHERS_GRID if count * ROWS_PER_TEACHER <= units]
    return max(fitting, default=min(units, TEACHERS_GRID[0]))


def default_delta(units: int) -> float:
    """Return the largest power of ten below 1 / units, at most 1e-5.

    >>> default_delta(32_561), default_delta(100_000), default_delta(2_000_000)
    (1e-05, 1e-06, 1e-07)
    """
    units = whole("units", units, at_least=1)
    return min(1e-5, float(f"1e-{len(str(units))}"))


def require_delta(delta: Any, units: int, unit: str = "record") -> float:
    """Return `delta`; refuse it unless it is below 1 / units: else publishing a whole record could count as private."""
    delta = fraction("delta", delta)
    if not delta < 1 / units:
        raise InvalidInput(
            f"delta must be below 1 divided by the number of {unit}s in the private data, got {delta!r} "
            f"(the default, {default_delta(units):g}, would do)."
        )
    return delta


def default_size(
    mechanism: Mechanism, *, pool: int, epsilon: float | None, delta: float, classes: int, max_answers: int | None
) -> tuple[int, int | None]:
    """Return (queries, cap on answers): at most 1,000 queries and the pool, at least ten per class if possible.

    With an epsilon, about the number that `mechanism` answers within it at the default noise. If queries may be
    refused, the cap on answers is half of the queries, because a check costs little.
    """
    highest = min(pool, MOST_QUERIES)
    if epsilon is None or not mechanism.releasable or not mechanism.noise_parameters():
        return highest, max_answers
    checks = mechanism.gaussian_dp()
    factor = 2 if checks is not None and checks[0] > 0 and max_answers is None else 1

    def size(answers: int) -> tuple[int, int | None]:
        return min(pool, factor * answers), (answers if factor > 1 else max_answers)

    def price_of(answers: int) -> float:
        queries, cap = size(answers)
        run: dict[str, Any] = {"queries": queries, "max_answers": cap, "delta": delta}
        price = likely_price(mechanism, **run)
        return worst_case(mechanism, **run).epsilon if price is None else price

    least = min(pool, 10 * classes)
    return size(most(lambda count: price_of(count) <= epsilon, at_least=least, below=highest + 1))


def default_per_record_queries(mechanism: Mechanism, *, units: int, pool: int, classes: int) -> int:
    """Return the number of queries for per-record teachers at which each query gets about five times its noise in
    votes.

    Five times was best on simulated tables (benchmarks/adult_representatives.py --rehearse); about twelve times, used
    beyond 20 classes, on images of 150 (benchmarks/glyph.py). There are ten per class if the votes on each are at
    least twice its noise; never fewer than two, more than 1,280, or more than 64 per class.

    >>> from ostrakon.mechanisms import BoundedGNMax
    >>> default_per_record_queries(BoundedGNMax(sigma2=5.3), units=32_561, pool=8_140, classes=2)
    1228
    >>> default_per_record_queries(BoundedGNMax(sigma2=50), units=32_561, pool=8_140, classes=2)
    130
    >>> default_per_record_queries(BoundedGNMax(sigma2=5.3), units=200, pool=67, classes=8)
    18
    """
    assert mechanism.contribution_bound is not None
    assert mechanism.vote_noise is not None
    votes_by_noise = units * mechanism.contribution_bound / mechanism.vote_noise
    least = max(FEWEST_PER_RECORD, min(10 * classes, int(votes_by_noise / LEAST_SIGNAL_TO_NOISE)))
    largest = max(MOST_PER_RECORD, MOST_FOR_A_CLASS * classes)
    ratio = SIGNAL_TO_NOISE if classes <= FEW_CLASSES else OF_MANY_CLASSES
    return min(pool, largest, max(int(votes_by_noise / ratio), least))


def corrections_pay(noise: float, *, units: int, classes: int | None, embedded: bool) -> bool:
    """Return whether the correction of a student exceeds its noise, which every class has.

    noise: standard deviation of the noise on the corrections, in votes. units: records or users. classes: None for a
    quantity. embedded: whether features are embeddings, of which more directions are summed.

    >>> [corrections_pay(5.0, units=600, classes=classes, embedded=False) for classes in (2, 3)]
    [True, False]
    """
    if classes is None:
        return units >= _LEAST_OF_QUANTITIES * noise
    least = _LEAST_OF_EMBEDDINGS if embedded else _LEAST_FOR_CORRECTIONS
    return units >= least * noise * classes / 2


def linear_share(noise: float, *, units: int) -> float:
    """Return the share of the squared length of features of a quantity for linear ones.

    noise: standard deviation of the noise on counts that have all of the cost, in votes. units: records or users.

    >>> linear_share(6.0, units=1000), linear_share(6.0, units=5000)
    (0.6, 0.4)
    """
    return LINEAR_OF_FEW if units < _LEAST_FOR_WAVES * noise else LINEAR


def share_of_histogram(noise: float, *, units: int) -> float:
    """Return the share of the cost for a histogram of a quantity; 0 where it would say too little.

    noise: standard deviation of the noise on its bins if they had all of the cost, in votes. units: records or users.

    >>> [share_of_histogram(6.0, units=units) for units in (100_000, 5000, 1000, 500)]
    [0.01, 0.03, 0.03, 0.0]
    """
    share = min(_OF_HISTOGRAM[1], max(_OF_HISTOGRAM[0], math.ceil(1e4 * (noise / units / _FINE_BIN) ** 2) / 1e4))
    return share if noise <= COARSE * units * math.sqrt(share) else 0.0


def share_of_errors(noise: float, *, units: int, classes: int | None) -> float:
    """Return the share of the cost for counts of the student's errors; 0 where they would say too little.

    Parameters
    ----------
    noise : float
        Standard deviation of the noise on these counts if they had all of the cost, in votes; it is inversely
        proportional to the root of the share.
    units : int
        Records or users.
    classes : int or None
        None for a quantity.

    Notes
    -----
    Classes get the smallest share at which noise alone gives the interval of the accuracy a half width of one point, at
    least 0.01 and at most `OF_ERRORS`; none if the half width would still exceed 20 points.

    Examples
    --------
    >>> [share_of_errors(6.0, units=units, classes=2) for units in (100_000, 5000, 1000, 200)]
    [0.01, 0.05, 0.05, 0.0]
    """
    if classes is None:
        share = OF_ERRORS_OF_FEW if units < FEW_RECORDS else OF_ERRORS
        return share if units * math.sqrt(share) >= _LEAST_FOR_ERRORS * noise else 0.0
    half_width = half_width_of_accuracy(noise, units=units, classes=classes)
    if half_width > _COARSE * math.sqrt(OF_ERRORS):
        return 0.0
    return min(OF_ERRORS, max(_OF_ERRORS_OF_MANY, math.ceil(1e4 * (half_width / _FINE) ** 2) / 1e4))
