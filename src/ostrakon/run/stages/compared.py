"""Comparison of a named student with the default one, on released counts of cells that both did not learn from."""

from dataclasses import replace

import numpy as np

from ostrakon.estimators.registry import in_words
from ostrakon.mechanisms.base import FloatArray
from ostrakon.options.options import AUTO, BALANCED, ORDERED, is_auto
from ostrakon.progress import in_phase
from ostrakon.run.stages.learning import Learning
from ostrakon.run.stages.selected import calibrated
from ostrakon.statements.statement import FOR_OPERATOR
from ostrakon.students.calibration import class_shares
from ostrakon.students.selection import Released, Selection, select

_MARGIN = 2.0
"""Standard deviations of the noise by which the default student must be better."""
_POINTS, _RANKS = 0.05, 0.1
"""Differences that cause a warning: in accuracy, and in ranks."""
_PHASE = "the default one, to compare"


def compare_with_default(learning: Learning, released: Released, selection: Selection) -> str:
    """Return a warning if a named student of classes is far worse than the default on held-out votes; else empty.

    The default is the first candidate of a run without a named student. The score is the share of correctly predicted
    votes (with equal weight of all classes for that objective), or the mean rank error. Networks are not compared,
    because the default one takes minutes.
    """
    tested, auto = selection.out_of_fold or selection.all_cells, replace(learning, student=AUTO)
    if is_auto(learning.student) or learning.sees_images or released.sigma2 is None or tested is None:
        return ""
    candidates = auto.candidates(
        counts=True,
        moments=released.moments is not None,
        classes=released.counts.shape[1],
        queries=len(released.queries),
    )
    first = candidates[0]
    tried = [first, *(other for other in candidates if other.name in first.mean_of)]
    with in_phase(_PHASE):
        other = select(tried, learning.X_public, learning.view.public, released, seed=learning.seed)
    other = calibrated(other, released, auto)
    compared = other.out_of_fold or other.all_cells
    if compared is None or not tested.counts.sum() > 0:
        return ""
    weights = [_weights(one.shares, released, tested.counts, learning.objective) for one in (tested, compared)]
    named, default = (float((weight * tested.counts).sum()) for weight in weights)
    noise = released.sigma2 * float(np.sqrt(np.square(weights[1] - weights[0]).sum()))
    ordered = learning.objective == ORDERED
    if default - named <= max(_RANKS if ordered else _POINTS, _MARGIN * noise):
        return ""
    where = "of the released noisy votes that it did not learn from"
    if ordered:
        result, by_default = (f"about {max(-score, 0):.2f} ranks" for score in (named, default))
        result = f"is {result} from the classes {where}"
    else:
        equal = ", if every class counts the same" if learning.objective == BALANCED else ""
        result, by_default = f"is right on about {_percent(named)} {where}{equal}", f"on about {_percent(default)}"
    return (
        f"Warning: the student {selection.chosen.name} {result}, and the default student, "
        f"{in_words(other.chosen.name)}, {by_default}.{ADVICE}"
    )


def _weights(shares: FloatArray, released: Released, votes: FloatArray, objective: str) -> FloatArray:
    """Return the effect of each vote on the score of a student, (cells, classes).

    shares: of the rows of each cell for which it predicts each class. votes: noisy votes of the cells.
    """
    total, classes = float(votes.sum()), shares.shape[1]
    if objective == ORDERED:
        ranks = np.arange(classes)
        return -shares @ np.abs(ranks[:, None] - ranks) / total
    return shares / total / (classes * class_shares(released) if objective == BALANCED else 1.0)


ADVICE = f"{FOR_OPERATOR}a run without a named student takes the default; ostrakon refit trains it at no cost."


def _percent(share: float) -> str:
    """Return a noisy share, clipped to [0, 1], in whole percent."""
    return f"{np.clip(share, 0, 1):.0%}"
