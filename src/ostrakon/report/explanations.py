"""Pictures of what a student does with the columns of a table: importance, and the shapes of an additive one.

Guarantee: a function of the released student and of public rows.
"""

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ostrakon.data.quantity import ENDS, rounded
from ostrakon.export.released import ReleasedQuantity, ReleasedStudent
from ostrakon.report.charts import Bar, bar_chart
from ostrakon.run.steps import FinishedRun
from ostrakon.students.additive_boosting import is_additive
from ostrakon.students.calibration import uncalibrated
from ostrakon.students.share_student import ShareStudent
from ostrakon.votes import FloatArray

MOST_COLUMNS, SHOWN = 200, 12
"""Columns of a table up to which importance is computed; columns that are shown, the most important first."""
_ROWS = 5_000
"""Public rows at most, times columns, that are shuffled."""
_GRID, _WORDS = 40, 6
"""Points of a curve; values of a column of words that are shown, the most frequent ones."""
_LINES = 4
"""Classes that a picture of a shape has lines for."""
_LEAST = 1e-6


@dataclass(frozen=True, kw_only=True, eq=False)
class _Answers:
    """What the student answers for typed public rows."""

    student: Any
    representation: Any
    quantity: Any = None

    @classmethod
    def of(cls, released: Any) -> Self:
        quantity = released.clipped if isinstance(released, ReleasedQuantity) else None
        return cls(student=released.student, representation=released.representation, quantity=quantity)

    def predict(self, X: Any) -> FloatArray:
        """Return the probabilities, (rows, classes), or the quantity, (rows, 1)."""
        inputs = X if self.representation is None else np.asarray(self.representation.transform(X), np.float64)
        if self.quantity is not None:
            return np.asarray(self.quantity.values(self.student.predict(inputs)))[:, None]
        if hasattr(self.student, "predict_proba"):
            return self.student.predict_proba(inputs)
        return (np.asarray(self.student.predict(inputs))[:, None] == self.student.classes_).astype(float)


def importances(outcome: FinishedRun) -> list[tuple[str, float]]:
    """Return the mean change of the student's answers if a column is shuffled, by column, the largest first.

    Changes of probabilities are half of the sum over classes; of several labels, the mean over labels. Empty for
    images, texts, embeddings and more than `MOST_COLUMNS` columns.
    """
    sample = outcome.sample
    if sample is None or not 1 <= sample.shape[1] <= MOST_COLUMNS or len(sample) < 2:
        return []
    rows = sample[: max(_ROWS // sample.shape[1], 50)]
    answers = _Answers.of(outcome.student)
    away = np.abs(answers.predict(_shuffled(rows)) - np.tile(answers.predict(rows), (2 * rows.shape[1], 1)))
    changes = away.mean(axis=1) if outcome.several or away.shape[1] == 1 else away.sum(axis=1) / 2
    means = changes.reshape(rows.shape[1], -1).mean(axis=1)
    order = np.argsort(-means, kind="stable")
    return [(_names(sample)[at], float(means[at])) for at in order]


def _shuffled(rows: Any) -> Any:
    """Return two copies of the rows for each column, one after the other, in which that column is shuffled."""
    # One call of the student for all columns: scikit-learn's `permutation_importance` calls it for each, in 5 times the
    # time, with equal results but for the orders.
    orders = np.random.default_rng(0).permuted(np.tile(np.arange(len(rows)), (2, 1)), axis=1)
    if not hasattr(rows, "iloc"):
        copies = np.tile(rows, (rows.shape[1], 2, 1, 1))
        for at, copied in enumerate(copies):
            copied[:, :, at] = rows[orders, at]
        return copies.reshape(-1, rows.shape[1])
    parts = [rows.copy() for _ in range(rows.shape[1]) for _ in orders]
    for at, part in enumerate(parts):
        part.isetitem(at // 2, rows.iloc[orders[at % 2], at // 2].array)
    return pd.concat(parts, ignore_index=True)


def importance_chart(ranked: Sequence[tuple[str, float]], outcome: FinishedRun) -> str:
    """Return the columns whose values matter most to the student, as an HTML figure; empty without any."""
    if not ranked:
        return ""
    most = max(ranked[0][1], 1e-12)
    points = outcome.quantity is None
    bars = [
        Bar(name=name, share=change / most, value=f"{100 * change:.1f}" if points else rounded(change))
        for name, change in ranked[:SHOWN]
    ]
    what = "probabilities, in percentage points," if points else "estimate"
    more = f"; the {SHOWN} of {len(ranked)} with the largest change" if len(ranked) > SHOWN else ""
    title = f"What the student uses: mean change of its {what} if a column is shuffled among public rows{more}"
    note = (
        "This describes the student, not the truth: public rows have no labels. Correlated columns share "
        "their importance."
    )
    return bar_chart(title, bars, note=note)


def shape_charts(ranked: Sequence[tuple[str, float]], outcome: FinishedRun) -> str:
    """Return the function of each column of an additive student, as HTML figures; empty for other students."""
    released = outcome.student
    student = released.student
    model = student.classifier if isinstance(student, ShareStudent) else student
    if not ranked or not is_additive(uncalibrated(model)) or len(model.classes_) < 2:
        return ""
    answers, names = _Answers(student=model, representation=released.representation), _names(outcome.sample)
    classes = [str(label) for label in released.classes_] if isinstance(released, ReleasedStudent) else list(ENDS)
    dates = {column["name"] for column in released.form.columns or () if column["kind"].startswith("date")}
    tiles = [
        _shape(answers, outcome.sample, names.index(name), name, dates=dates)
        for name, change in ranked[:SHOWN]
        if change
    ]
    of = f"the log-odds of {classes[1]!r}" if len(classes) == 2 else "the logarithm of each class's probability"
    if isinstance(released, ReleasedQuantity):
        of = "the estimate, as the log-odds of its place between both ends of the range"
    lines = "" if len(classes) == 2 else f" Lines: {', '.join(classes[:_LINES])}, from dark to light."
    note = (
        f"The student adds up one function of each column; a picture shows what the column adds to {of}, on the "
        f"public range (middle 98%), 0 being the mean over public rows. Every picture has a scale of its own.{lines}"
    )
    return (
        f"<figure>\n<figcaption><strong>Shapes of the additive student</strong><br>{html.escape(note)}</figcaption>\n"
        f'<ul class="shapes">\n{"".join(tiles)}</ul>\n</figure>\n'
    )


def _names(sample: Any) -> list[str]:
    if hasattr(sample, "columns"):
        return [str(name) for name in sample.columns]
    return [f"column {number}" for number in range(sample.shape[1])]


def _shape(answers: _Answers, sample: Any, at: int, name: str, *, dates: set[str]) -> str:
    """Return one picture: what the column adds at points of its public range, or for its most frequent words.

    dates: names of the columns whose numbers are days since 2000.
    """
    table = sample if hasattr(sample, "iloc") else pd.DataFrame(np.asarray(sample))
    column = table.iloc[:, at]
    numbers = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
    present = column.dropna()
    if not len(present):
        return ""
    if numbers or pd.api.types.is_datetime64_any_dtype(column):
        points = pd.Series(np.sort(present.to_numpy())[_ranks(len(present))])
        numbers = True
    else:
        points = pd.Series(present.value_counts().index[:_WORDS])
    rows = pd.concat([table.iloc[[0] * len(points)]], ignore_index=True)
    rows.isetitem(at, points.tolist())
    curves, mean = _added(answers, rows, sample), _added(answers, _of_column(table, at), sample).mean(axis=0)
    if name in dates and pd.api.types.is_numeric_dtype(points):
        points = pd.Timestamp(2000, 1, 1) + pd.to_timedelta(points, unit="D")
    return _picture(name, points, curves - mean, numbers=numbers)


def _ranks(number: int) -> NDArray[np.int64]:
    return np.unique(np.linspace(0.01 * (number - 1), 0.99 * (number - 1), _GRID).round().astype(np.int64))


def _of_column(table: Any, at: int) -> Any:
    """Return the first row, again and again, with every value of one column."""
    rows = pd.concat([table.iloc[[0] * len(table)]], ignore_index=True)
    rows.isetitem(at, table.iloc[:, at].reset_index(drop=True))
    return rows


def _added(answers: _Answers, rows: Any, sample: Any) -> FloatArray:
    """Return the scores of rows, (rows, lines): log-odds of the second of two classes, else centred logarithms."""
    likely = answers.predict(rows if hasattr(sample, "iloc") else rows.to_numpy())
    logs = np.log(np.maximum(likely, _LEAST))
    if logs.shape[1] == 2:
        return logs[:, [1]] - logs[:, [0]]
    return (logs - logs.mean(axis=1, keepdims=True))[:, :_LINES]


_WIDE, _HIGH, _LEFT, _LOW = 230, 120, 44, 22
_WORD = 90
"""Width of the words beside their dots."""


def _picture(name: str, points: Any, curves: FloatArray, *, numbers: bool) -> str:
    """Return a tile with a curve over numbers, or with dots beside words."""
    title = html.escape(name)
    return (
        f'<li><span>{title}</span><svg class="curve" viewBox="0 0 {_WIDE} {_HIGH}" role="img" '
        f'aria-label="what {title} adds">{(_curve if numbers else _dots)(points, curves)}</svg></li>\n'
    )


def _curve(points: Any, curves: FloatArray) -> str:
    values = pd.to_numeric(points).to_numpy(np.float64)
    shares = (values - values[0]) / max(float(values[-1] - values[0]), 1e-12)
    across = _LEFT + shares * (_WIDE - _LEFT - 8)
    low, high = _range(curves)
    down = 8 + (_HIGH - _LOW - 16) * (1 - (curves - low) / (high - low))
    zero = 8 + (_HIGH - _LOW - 16) * high / (high - low)
    parts = [f'<path d="M{_LEFT} {zero:.1f}H{_WIDE - 8}"/>']
    for level, at in ((high, 12), (low, _HIGH - _LOW - 4)):
        parts.append(f'<text x="{_LEFT - 4}" y="{at}" text-anchor="end">{level:.1g}</text>')
    for number, line in enumerate(down.T):
        corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(across, line, strict=True))
        parts.append(f'<polyline points="{corners}" {_shade(number)}/>')
    for at, end, anchor in ((_LEFT, points.iloc[0], "start"), (_WIDE - 8, points.iloc[-1], "end")):
        label = rounded(float(end)) if isinstance(end, int | float | np.number) else str(end)[:10]
        parts.append(f'<text x="{at}" y="{_HIGH - 5}" text-anchor="{anchor}">{html.escape(label)}</text>')
    return "".join(parts)


def _dots(points: Any, curves: FloatArray) -> str:
    low, high = _range(curves)
    across = _WORD + 10 + (_WIDE - _WORD - 24) * (curves - low) / (high - low)
    zero = _WORD + 10 - (_WIDE - _WORD - 24) * low / (high - low)
    parts = [f'<path d="M{zero:.1f} 2V{_HIGH - _LOW}"/>']
    for row, (word, places) in enumerate(zip(points, across, strict=True)):
        label = str(word) if len(str(word)) <= 13 else f"{str(word)[:12]}\N{HORIZONTAL ELLIPSIS}"
        parts.append(f'<text x="0" y="{14 + 16 * row}">{html.escape(label)}</text>')
        parts += [f'<circle cx="{x:.1f}" cy="{10 + 16 * row}" r="4" {_shade(at)}/>' for at, x in enumerate(places)]
    for level, at, anchor in ((low, _WORD + 4, "start"), (high, _WIDE - 4, "end")):
        parts.append(f'<text x="{at}" y="{_HIGH - 5}" text-anchor="{anchor}">{level:.1g}</text>')
    return "".join(parts)


def _range(curves: FloatArray) -> tuple[float, float]:
    """Return the least and the greatest value, 0 included."""
    low, high = min(float(curves.min()), 0.0), max(float(curves.max()), 0.0)
    return low, max(high, low + 1e-9)


def _shade(line: int) -> str:
    return f'style="opacity: {1 - 0.22 * line:.2f}"'
