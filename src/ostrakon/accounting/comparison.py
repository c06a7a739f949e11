"""Compare all mechanisms on the same votes at equal epsilon."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, cast

import numpy as np

from ostrakon.accounting.calibration.noise import propose_test_release_within, scaled, sparse_vector_within, tightened
from ostrakon.accounting.data_dependent.exact import data_dependent_costs
from ostrakon.accounting.data_independent.worst_case import worst_case_of
from ostrakon.accounting.epsilons import DATA_DEPENDENT_NOTICE
from ostrakon.accounting.gate.gate import Gate
from ostrakon.accounting.rdp import Curve
from ostrakon.mechanisms import Mechanism, StatefulMechanism
from ostrakon.mechanisms.contrib.propose_test_release import ProposeTestRelease
from ostrakon.mechanisms.contrib.sparse_vector import SparseVector
from ostrakon.mechanisms.registry import MECHANISMS, build_with_defaults
from ostrakon.numerics.inverse import least_of_power
from ostrakon.validation import InvalidInput, fraction, one_of, positive
from ostrakon.votes import IntArray, PublicVotes, Votes

At = Literal["worst-case", "data-dependent", "gated"]
AT = ("worst-case", "data-dependent", "gated")
PASS_PROBABILITY = 0.95
NOTICE = (
    f"{DATA_DEPENDENT_NOTICE} Answers and accuracy depend on them, too: choose a mechanism on public, simulated or "
    "already paid-for votes."
)

ADJACENCY = (
    "Every epsilon here is for one teacher whose votes change in any way. What that protects depends on the run: one "
    "record more or less where records are split between teachers by their content, one record replaced where every "
    "record is a teacher (bounded-gnmax). Epsilons of such different neighbours must not be ranked."
)

_MOST_NOISE = 1e17
_ORDERS = np.concatenate([np.arange(1.1, 2, 0.1), np.arange(2, 12, 0.5), np.geomspace(12, 400, 25)])


@dataclass(frozen=True, kw_only=True)
class Row:
    """One mechanism, with its noise scaled to the common epsilon.

    answers: expected number. accuracy: expected share of correct answers (equal to the label, or to the plurality
    without labels). epsilons: None if the mechanism has no such cost; inf if it has no bound. claimed: the paper's
    claim, if that is not a guarantee. rank_error, of_median: of ordered classes, the expected number of ranks between
    an answer and the right class, and between the median of the right classes and each of them.
    """

    mechanism: Mechanism
    answers: float
    accuracy: float
    worst_case: float
    data_dependent: float | None
    gated: float | None
    claimed: float | None
    rank_error: float | None = None
    of_median: float | None = None

    @property
    def name(self) -> str:
        return self.mechanism.name

    def worth(self, classes: int) -> float:
        """Return the number of certain labels that teach as much: answers * ((accuracy - 1/m) / (1 - 1/m))^2.

        A label that is right with probability p teaches in proportion to the square of its lead over guessing: 324
        answers of which 95% are right teach more than 640 of which 68% are. Of ordered classes the lead is one less the
        rank error, as a share of that of always the median.
        """
        lead = (self.accuracy - 1 / classes) / (1 - 1 / classes)
        if self.rank_error is not None and self.of_median is not None:
            lead = 1 - self.rank_error / self.of_median if self.of_median > 0 else 0.0
        return self.answers * max(0.0, lead) ** 2


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The rows, best publishable first, and one sentence of advice."""

    votes: Votes
    at: At
    epsilon: float
    delta: float
    labelled: bool
    rows: tuple[Row, ...]
    ordered: bool = False

    @property
    def advice(self) -> str:
        """One sentence that names the mechanism to use."""
        sound = [row for row in self.rows if row.mechanism.releasable and row.worth(self.votes.classes) > 0]
        setting = f"{self.at} epsilon of {self.epsilon:g} (delta {self.delta:g})"
        if not sound:
            return (
                f"At a {setting} no sound mechanism gives labels better than guessing: ask less or get more teachers."
            )
        best = sound[0]
        worth = best.worth(self.votes.classes)
        right = "right" if self.labelled else f"the {'median' if best.rank_error is not None else 'plurality'}"
        second = (
            f"; {sound[1].name} comes next with {sound[1].answers:,.0f} and {sound[1].accuracy:.1%}{_ranks(sound[1])}"
            if len(sound) > 1
            else ""
        )
        return (
            f"Use {best.name}: at a {setting} it is expected to answer {best.answers:,.0f} of {self.votes.queries:,} "
            f"queries, {best.accuracy:.1%} of them {right}{_ranks(best)}. A student learns most from these answers, "
            f"about as much as from {worth:,.0f} correct labels{second}."
        )

    def as_json(self) -> dict[str, Any]:
        """Return what `ostrakon compare --json` prints; an epsilon without a bound is the text "infinity"."""
        return {
            "queries": self.votes.queries,
            "teachers": self.votes.teachers,
            "classes": self.votes.classes,
            "at": self.at,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "accuracy_against": "labels" if self.labelled else "median" if self.ordered else "plurality",
            "rows": [
                {
                    "mechanism": row.name,
                    "parameters": {
                        key: value for key, value in row.mechanism.parameters().items() if value is not None
                    },
                    "releasable": row.mechanism.releasable,
                    "answers": row.answers,
                    "accuracy": row.accuracy if row.answers else None,
                    **({} if row.rank_error is None else {"rank_error": row.rank_error if row.answers else None}),
                    "worst_case": _finite(row.worst_case),
                    "data_dependent": _finite(row.data_dependent),
                    "gated": _finite(row.gated),
                    "claimed": _finite(row.claimed),
                }
                for row in self.rows
            ],
            "advice": self.advice,
            "adjacency": ADJACENCY,
            "notice": NOTICE,
        }


def _ranks(row: Row) -> str:
    return "" if row.rank_error is None else f" and {row.rank_error:.2f} ranks away on average"


def compared(teachers: int, *, ordered: bool = False) -> tuple[Mechanism, ...]:
    """Return every registered mechanism that has `Mechanism.defaults` and a price for each query, at those defaults.

    ordered: whether the classes have an order, without which mechanisms that need one are left out.
    """
    return tuple(
        build_with_defaults(name, teachers, {})
        for name, kind in MECHANISMS.items()
        if kind.defaults(teachers, {}) and not issubclass(kind, StatefulMechanism) and (ordered or not kind.ranked)
    )


def compare(
    votes: Votes,
    *,
    epsilon: float,
    delta: float,
    at: At = "worst-case",
    labels: IntArray | None = None,
    mechanisms: tuple[Mechanism, ...] | None = None,
    ordered: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Comparison:
    """Scale each mechanism's noise to the same epsilon and compare the answers.

    Parameters
    ----------
    votes : Votes
        Needs `PublicVotes` for `at="gated"`: a gate must not be planned on private votes.
    epsilon : float, positive
    delta : float in (0, 1)
    at : {"worst-case", "data-dependent", "gated"}
        Which epsilon is equal. "data-dependent" is exact, and may stay below `epsilon`. "gated" takes a gate that
        is planned as in `Gate.plan`, or no gate if the worst case is smaller.
    labels : ndarray of int, shape (queries,), optional
        True classes. Default: accuracy is agreement with the plurality, or with the median of ordered classes.
    mechanisms : tuple of Mechanism, optional
        The ratios of their noises stay. Default: `compared`.
    ordered : bool
        Whether the classes have an order, from low to high: then rank errors decide.

    Returns
    -------
    Comparison
        The immutable mechanism appears at its *claimed* epsilon and is never recommended. Propose-test-release and
        sparse vector are set by their budgets and appear for the worst case only.

    Raises
    ------
    InvalidInput
        For values out of range, labels of another length, or `at="gated"` on private votes.

    Examples
    --------
    >>> votes = PublicVotes(np.tile([[90, 5, 5], [60, 30, 10]], (20, 1)))
    >>> compare(votes, epsilon=4.0, delta=1e-5).advice.startswith("Use ")
    True
    """
    epsilon, delta = positive("epsilon", epsilon), fraction("delta", delta)
    one_of("at", at, AT)
    if not votes.queries:
        raise InvalidInput("votes must hold at least one query, got 0.")
    labels = None if labels is None else _labels(labels, votes)
    if at == "gated" and not isinstance(votes, PublicVotes):
        raise InvalidInput(
            "votes must be public (simulated, published, or cast on public data) to be compared at a gated epsilon, "
            f"got {type(votes).__name__}."
        )
    shapes = mechanisms or compared(votes.teachers, ordered=ordered)
    row_of = partial(_row, votes=votes, labels=labels, delta=delta, ordered=ordered)
    rows: list[Row] = []
    for shape in shapes:
        if progress is not None:
            progress(shape.name)
        fitted = _fit(shape, votes, at=at, epsilon=epsilon, delta=delta)
        if fitted is not None:
            mechanism, gated = fitted
            rows.append(row_of(mechanism, gated=gated))
    if at == "worst-case" and mechanisms is None:
        run: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "queries": votes.queries}
        votes_shape: dict[str, Any] = {
            "teachers": votes.teachers,
            "classes": votes.classes if votes.classes_are_public else None,
            "abstentions": votes.abstentions,
        }
        for kind, within, sizes in (
            (ProposeTestRelease, propose_test_release_within, votes_shape),
            (SparseVector, sparse_vector_within, {}),
        ):
            if progress is not None:
                progress(kind.name)
            rows.append(row_of(within(**run, **sizes), gated=None))
    rows.sort(key=lambda row: (not row.mechanism.releasable, -row.worth(votes.classes), row.name))
    labelled = labels is not None
    return Comparison(
        votes=votes, at=at, epsilon=epsilon, delta=delta, labelled=labelled, rows=tuple(rows), ordered=ordered
    )


def _labels(labels: IntArray, votes: Votes) -> IntArray:
    labels = np.asarray(labels)
    if labels.shape != (votes.queries,) or labels.dtype.kind not in "iu":
        raise InvalidInput(
            f"labels must be integers, one per query ({votes.queries}), got {labels.dtype} of shape {labels.shape}."
        )
    return labels


def _fit(
    shape: Mechanism, votes: Votes, *, at: At, epsilon: float, delta: float
) -> tuple[Mechanism, float | None] | None:
    """Return the mechanism with noise scaled to the epsilon, and its gated epsilon; None if it has no such epsilon."""
    if shape.claimed_epsilon(queries=votes.queries, delta=delta) is not None:
        claim = _solved(shape, epsilon, lambda m: m.claimed_epsilon(queries=votes.queries, delta=delta) or math.inf)
        return None if claim is None else (claim, None)
    if at == "worst-case":
        solved = _solved(shape, epsilon, lambda m: _worst_case(m, votes, delta, adaptive=False))
        return None if solved is None else (_tightened(solved, votes, epsilon=epsilon, delta=delta), None)
    if at == "data-dependent":
        solved = _solved_from_above(shape, epsilon, lambda m: _data_dependent(m, votes, delta) or 0.0)
        return None if solved is None else (solved, None)
    public = cast(PublicVotes, votes)

    def gated(mechanism: Mechanism) -> float:
        return _gated(mechanism, public, delta)

    solved = _solved(shape, epsilon, gated, accuracy=0.01)
    if solved is None:
        return None
    cost = gated(solved)
    if _worst_case(solved, votes, delta) < cost:
        solved = _tightened(solved, votes, epsilon=epsilon, delta=delta)
        cost = _worst_case(solved, votes, delta)
    return solved, cost


def _tightened(mechanism: Mechanism, votes: Votes, *, epsilon: float, delta: float) -> Mechanism:
    """Return the mechanism with as much less noise as adaptive composition allows at `epsilon`, within 0.5% of it."""
    factor = tightened(lambda x: _worst_case(scaled(mechanism, x, digits=None), votes, delta), epsilon, 1.0)
    return scaled(mechanism, factor, digits=None)


def _gated(mechanism: Mechanism, votes: PublicVotes, delta: float) -> float:
    """Return the epsilon of a gate that is planned by Rényi costs, or the worst case if that is smaller."""
    worst = _worst_case(mechanism, votes, delta, adaptive=False)
    try:
        gate = Gate.plan(votes, mechanism, delta=delta, pass_probability=PASS_PROBABILITY, adaptive=False)
    except InvalidInput:
        return worst  # a gate needs an argmax of counts plus noise
    return min(worst, gate.certificate().epsilon)


def _solved(
    shape: Mechanism,
    epsilon: float,
    cost: Callable[[Mechanism], float],
    *,
    accuracy: float = 1e-4,
    growth: float = 4.0,
    start: float = 1.0,
    least: float = 1e-17,
) -> Mechanism | None:
    """Return `shape` with the least noise whose cost is at most `epsilon`, within the relative `accuracy`, or None.

    start, least: noise factors at the start and the end of the search; growth: its step.
    """

    def at(factor: float) -> float:
        return cost(scaled(shape, factor * start, digits=None))

    factor = least_of_power(
        at, epsilon, tolerance=accuracy, growth=growth, nearest=least / start, furthest=_MOST_NOISE / start
    )
    return scaled(shape, factor * start, digits=None) if 0 < factor < math.inf else None


def _solved_from_above(shape: Mechanism, epsilon: float, cost: Callable[[Mechanism], float]) -> Mechanism | None:
    """Return `shape` with the noise at which `cost`, from much noise on, first reaches `epsilon`, or with a twentieth
    of its noise if that is within `epsilon`.
    """
    least = math.exp(-3)
    solved = _solved(shape, epsilon, cost, growth=math.sqrt(math.e), start=math.exp(4), least=least)
    quiet = scaled(shape, least, digits=None)
    return quiet if solved is None and cost(quiet) <= epsilon else solved


def _row(
    mechanism: Mechanism, *, votes: Votes, labels: IntArray | None, delta: float, ordered: bool, gated: float | None
) -> Row:
    law = np.exp(mechanism.log_probabilities(votes))
    answers = float(law[:, :-1].sum())
    truth = (votes.median if ordered else votes.plurality) if labels is None else labels
    away = np.abs(np.arange(votes.classes) - truth[:, None])
    # A label beyond the votes' classes is always wrong.
    known = (truth >= 0) & (truth < votes.classes)
    right = float(law[np.flatnonzero(known), truth[known]].sum())
    claimed = mechanism.claimed_epsilon(queries=votes.queries, delta=delta)
    worst = _worst_case(mechanism, votes, delta)
    # By Rényi DP alone, the cost of these votes may exceed the worst case, which holds for them, too.
    private = _data_dependent(mechanism, votes, delta)
    return Row(
        mechanism=mechanism,
        answers=answers,
        accuracy=right / answers if answers > 0 else 0.0,
        worst_case=worst,
        data_dependent=None if private is None else min(private, worst),
        gated=gated,
        claimed=claimed,
        rank_error=(float((law[:, :-1] * away).sum()) / answers if answers > 0 else 0.0) if ordered else None,
        of_median=float(np.abs(truth - np.median(truth)).mean()) if ordered else None,
    )


def _worst_case(mechanism: Mechanism, votes: Votes, delta: float, *, adaptive: bool = True) -> float:
    return worst_case_of(votes, mechanism, delta=delta, adaptive=adaptive).epsilon


def _data_dependent(mechanism: Mechanism, votes: Votes, delta: float) -> float | None:
    if isinstance(mechanism, StatefulMechanism):
        return None
    costs = data_dependent_costs(votes, mechanism, _ORDERS).sum(axis=0)
    return Curve(_ORDERS, costs).epsilon(delta=delta)[0]


def _finite(value: float | None) -> float | str | None:
    return value if value is None or math.isfinite(value) else "infinity"
