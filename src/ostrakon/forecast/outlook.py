"""The outlook of a run: offers, a rehearsal, and the smallest epsilon for an accuracy."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ostrakon.data.labels import Labels
from ostrakon.data.quantity import Quantity
from ostrakon.data.target import Target, other_target
from ostrakon.estimators.choices import require_choices
from ostrakon.forecast.interval import MEASURES
from ostrakon.forecast.least_epsilon import LeastEpsilon, least_epsilon
from ostrakon.forecast.offers import Offer, default_mechanisms, make_offers, neighbours
from ostrakon.forecast.public_rows import MIN_TO_REHEARSE, PublicRows
from ostrakon.forecast.rehearsal import REPETITIONS, Rehearsal, rehearse
from ostrakon.html_table import html_table
from ostrakon.options.options import AUTO, WORST_CASE, Options
from ostrakon.planning.row_kind import RowKind
from ostrakon.progress import Report
from ostrakon.statements.statement import UNITS, Unit
from ostrakon.validation import InvalidInput, fraction, one_of, positive, whole

EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0)
_TITLES = {
    "classes": "Accuracies",
    "quantity": "R2 and mean absolute errors",
    "labels": "Macro F1, micro F1 and AUC",
}
NOT_YET = "simulations follow"
PER_RECORD, ALL, NONE = REHEARSED = ("per-record", "all", "none")
"""What is rehearsed: per-record teachers (quick), also trained ones (as slow as that many runs), or nothing."""


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """Plans and forecasts at several epsilons, from public rows and numbers alone.

    Parameters
    ----------
    records : int
        Number of private records, or of users if `unit` is "user".
    pool, classes : int
        Number of public rows, and of classes (or labels of a row).
    unit : {"record", "user"}
        What is protected.
    offers : tuple of Offer
        One for each mechanism and epsilon.
    rehearsal : Rehearsal, optional
        Results of runs on public rows; None if none were simulated.
    not_rehearsed : str
        Why none were simulated.
    least : LeastEpsilon, optional
        The smallest epsilon for the requested accuracy.
    target : {"classes", "quantity", "labels"}
        What is predicted.
    """

    records: int
    pool: int
    classes: int
    unit: Unit
    offers: tuple[Offer, ...]
    rehearsal: Rehearsal | None = None
    not_rehearsed: str = ""
    least: LeastEpsilon | None = None
    target: Target = "classes"

    @property
    def measures(self) -> tuple[str, ...]:
        """Names of the forecast measures."""
        return MEASURES[self.target]

    @property
    def basis(self) -> str:
        """The basis of the forecasts, in words."""
        if self.rehearsal is None:
            return f"No {self.measures[0]} is forecast: {self.not_rehearsed}."
        repetitions = len(self.rehearsal.without_noise)
        times = f"a run was simulated {repetitions} times, each time with other"
        simulated = {(one.epsilon, one.mechanism) for one in self.rehearsal.forecasts}
        plans = [one.plan for one in self.offers if one.plan and (one.epsilon, one.mechanism) in simulated]
        most = max((plan.queries for plan in plans), default=0)
        fewer = ""
        if self.rehearsal.pool < most:
            fewer = (
                f" A simulation can ask about at most {self.rehearsal.pool:,} public rows, a run about up to {most:,}."
            )
        if self.rehearsal.simulated:
            return (
                f"The public rows have no labels, so no accuracy is forecast. Instead {times} labels: random smooth "
                "functions of the public features. The table says how many points of accuracy it loses there against "
                "gradient boosting without noise. It compares epsilons, and does not say how difficult the task is."
                f"{fewer}"
            )
        wide = (
            f" {repetitions} simulations say little about how runs differ, so the intervals are wide; {REPETITIONS} "
            "say more."
        )
        return (
            f"{_TITLES[self.target]} come from simulations: {times} labelled public rows in the place of the "
            f"private, the public and the test rows. They hold if private rows are of the same kind as public ones."
            f"{fewer}{' Its results are usually a little better.' if fewer else ''}"
            f"{wide if repetitions < REPETITIONS else ''}"
        )

    def _repr_html_(self) -> str:
        rows = [(f"epsilon {offer.epsilon:g}, {offer.mechanism}", self._in_words(offer)) for offer in self.offers]
        return html_table("What an epsilon buys", rows, note=self.basis)

    def _in_words(self, offer: Offer) -> str:
        if offer.plan is None:
            return offer.refusal or ""
        words = [f"{offer.plan.queries} queries"]
        for one in () if self.rehearsal is None else self.rehearsal.of(offer):
            words.append(f"{one.measure} {one.in_words()}")
        if offer.odds is not None:
            words.append(f"an attacker is right at most {offer.odds:.1%} of the time")
        return "; ".join(words)

    def _by_measure(self, scores: Sequence[float]) -> float | dict[str, float]:
        """Return one score as a number, several by measure."""
        return scores[0] if len(scores) == 1 else dict(zip(self.measures, scores, strict=True))

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, finite numbers only."""
        rehearsal = self.rehearsal
        labelled = None if rehearsal is None or rehearsal.simulated else rehearsal
        content: dict[str, Any] = {
            "records": self.records,
            "unit": self.unit,
            "pool": self.pool,
            "target": self.target,
            "classes": self.classes,
            "offers": [offer.as_dict() for offer in self.offers],
            "membership_guess_is_about": {
                "per-record": neighbours(
                    per_record=True, unit=self.unit, removed=any(offer.removed for offer in self.offers)
                ),
                "trained": neighbours(per_record=False, unit=self.unit),
            },
            "basis": self.basis,
            "simulated": None if rehearsal is None else rehearsal.simulated,
            "majority": None if labelled is None else self._by_measure(labelled.constant),
            "not_private": None if labelled is None else self._by_measure(labelled.not_private),
            "forecasts": [] if labelled is None else [one.as_dict() for one in labelled.forecasts],
            "lost_in_simulated_worlds": []
            if rehearsal is None or labelled is not None
            else [
                {
                    "epsilon": one.epsilon,
                    "mechanism": one.mechanism,
                    **dict(zip(("mean", "least", "most"), rehearsal.lost(one), strict=True)),
                }
                for one in rehearsal.forecasts
            ],
            "not_forecast": []
            if rehearsal is None
            else [
                {"epsilon": epsilon, "mechanism": mechanism, "why": why}
                for (epsilon, mechanism), why in rehearsal.failures.items()
            ],
        }
        if self.least is not None:
            content["least_epsilon"] = {
                "accuracy": self.least.accuracy,
                "epsilon": self.least.epsilon,
                "mechanism": self.least.mechanism,
                "sentence": self.least.sentence,
            }
        return content


def plan(
    X_public: Any,
    y_public: Any = None,
    *,
    records: int,
    epsilons: Iterable[float] = EPSILONS,
    classes: Sequence[Any] | None = None,
    labels: Sequence[str] | None = None,
    range: Any = None,
    mechanisms: Iterable[str] | None = None,
    delta: float | None = None,
    n_teachers: int | None = None,
    n_queries: int | None = None,
    max_answers: int | None = None,
    guarantee: str = WORST_CASE,
    agreement: float = 0.85,
    unit: Unit = "record",
    parameters: Mapping[str, float | None] | None = None,
    teacher: Any = AUTO,
    student: Any = AUTO,
    representation: Any = AUTO,
    accuracy: float | None = None,
    rehearse: str = PER_RECORD,
    repetitions: int = REPETITIONS,
    random_state: int = 0,
    progress: bool = False,
) -> Outlook:
    """Return plans and forecasts for each of `epsilons`, from public rows and numbers alone.

    Parameters
    ----------
    X_public : frame or array
        The public rows, in a form that `PATEClassifier.fit` accepts.
    y_public : array, optional
        Their labels, with None for rows without one. Without labels, random labels are simulated to compare epsilons.
        For a quantity, its values; for several labels of a row, 0 or 1 for each, (rows, labels), or texts such as
        "a;b"; without these nothing is rehearsed.
    records : int
        Number of private records, or of users if `unit` is "user".
    epsilons : iterable of float, default (0.1, 0.5, 1, 2, 4)
        Each above 0.
    classes : sequence, optional
        All labels, if `y_public` does not contain them.
    labels : sequence of str, optional
        Labels if a row may have several, instead of `classes`.
    range : tuple of (float, float), optional
        The public range of a target that is a quantity, instead of `classes`.
    mechanisms : iterable of str, optional
        NAME or NAME(parameter=value, ...); by default that of a run, and that of trained teachers.
    delta, n_teachers, n_queries, max_answers, guarantee, agreement, teacher, student, representation
        See `PATEClassifier`; guarantee="gate" takes minutes.
    unit : {"record", "user"}
        "user" protects all rows of a user together; no accuracy is forecast for such runs.
    parameters : mapping, optional
        Parameters of mechanisms by name, such as {"max_contributions": 2}; mechanisms without a parameter ignore it.
    accuracy : float, optional
        In (0, 1): search for the smallest epsilon that reaches it; needs labels, one class per row.
    rehearse : {"per-record", "all", "none"}
        "all" also trains teachers, `repetitions` times at each epsilon.
    repetitions : int, default 5
        At least 2.
    random_state : int
        Seed of all splits, models and noise, none of which are private.
    progress : bool
        Show the progress of the rehearsal.

    Returns
    -------
    Outlook

    Raises
    ------
    InvalidInput
        For values out of range. A mechanism that is refused at an epsilon is part of the result.

    Notes
    -----
    Guarantee: no private row is read, so it costs no privacy. Each offer has the plan of `ostrakon train`
    (`ostrakon.planning.make_plan.make_plan`). Forecasts hold for private rows of the same kind as the public ones.
    """
    quantity = None if range is None else Quantity.of(range)
    label_set = None if labels is None else Labels(names=tuple(map(str, labels)))
    public = PublicRows.of(X_public, y_public, classes=classes, coding=other_target(quantity, label_set))
    options = Options(
        delta=delta,
        teachers=n_teachers,
        queries=n_queries,
        max_answers=max_answers,
        guarantee=guarantee,
        agreement=agreement,
        parameters={} if parameters is None else parameters,
        teacher=teacher,
        student=student,
        representation=representation,
        seed=random_state,
    )
    return outlook(
        public,
        options,
        records=records,
        epsilons=epsilons,
        mechanisms=mechanisms,
        unit=unit,
        accuracy=accuracy,
        rehearsed=rehearse,
        repetitions=repetitions,
        progress=progress,
    )


def outlook(
    public: PublicRows,
    options: Options,
    *,
    records: int,
    epsilons: Iterable[float] = EPSILONS,
    mechanisms: Iterable[str] | None = None,
    unit: Unit = "record",
    accuracy: float | None = None,
    rehearsed: str = PER_RECORD,
    repetitions: int = REPETITIONS,
    progress: bool | Report = False,
    on_offers: Callable[[Outlook], None] = lambda priced: None,
) -> Outlook:
    """Return `plan` for public rows and the options of a run.

    on_offers: receives the outlook before the rehearsal, which may take minutes. progress: see
    `ostrakon.progress.reporting`.
    """
    records = whole("records", records, at_least=1)
    if not isinstance(epsilons, Iterable) or isinstance(epsilons, str):
        raise InvalidInput(f"epsilons must be a list of positive numbers, got {epsilons!r}.")
    epsilons = sorted({positive("epsilons", epsilon) for epsilon in epsilons})
    if not epsilons:
        raise InvalidInput("epsilons must hold at least one number, got none.")
    one_of("rehearse", rehearsed, REHEARSED)
    repetitions = whole("repetitions", repetitions, at_least=2)
    if accuracy is not None:
        fraction("accuracy", accuracy)
    if accuracy is not None and rehearsed == NONE:
        raise InvalidInput("accuracy needs simulations, got 'none' for rehearse.")
    kind = RowKind.of(public.X, options.representation)
    names = _mechanisms(mechanisms, public, options, kind)
    require_choices(teacher=options.teacher, student=options.student, representation=options.representation)
    one_of("unit", unit, UNITS)
    sizes: Any = {"unit": unit, "records": records, "pool": public.rows, "classes": len(public.classes)}
    sizes["target"] = public.target
    offers = make_offers(options, epsilons=epsilons, mechanisms=names, kind=kind, **sizes)
    simulated = [offer for offer in offers if rehearsed == ALL or offer.per_record]
    planned = [offer for offer in simulated if offer.plan is not None]
    why = _why_not_rehearsed(public, rehearsed, unit=unit, simulated=len(simulated), planned=len(planned))
    if accuracy is not None and public.target != "classes":
        why = f"of this target {' and '.join(MEASURES[public.target])} are forecast"
    if accuracy is not None and not len(public.labelled):
        why = why or "the public rows have no labels"
    if why and accuracy is not None:
        raise InvalidInput(f"accuracy cannot be looked for: {why}.")
    priced = Outlook(**sizes, offers=offers, not_rehearsed=why or NOT_YET)
    on_offers(priced)
    if why:
        return priced
    rehearsal = rehearse(public, planned, options, records=records, repetitions=repetitions, progress=progress)
    if accuracy is not None and not rehearsal.forecasts:
        raise InvalidInput("accuracy cannot be looked for: no run could be simulated.")
    least = None if accuracy is None else least_epsilon(rehearsal.forecasts, accuracy)
    return dataclasses.replace(priced, rehearsal=rehearsal, not_rehearsed="", least=least)


def _mechanisms(
    mechanisms: Iterable[str] | str | None, public: PublicRows, options: Options, kind: RowKind
) -> list[str]:
    """Return the distinct names of the offered mechanisms; refuse an empty list."""
    if mechanisms is None:
        mechanisms = default_mechanisms(options, classes=len(public.classes), kind=kind, target=public.target)
    names = list(dict.fromkeys([mechanisms] if isinstance(mechanisms, str) else mechanisms))
    if not names:
        raise InvalidInput("mechanisms must name at least one mechanism, got none.")
    return names


def _why_not_rehearsed(public: PublicRows, rehearsed: str, *, unit: Unit, simulated: int, planned: int) -> str:
    """Return why nothing is rehearsed; empty if something is. simulated, planned: numbers of offers."""
    rows = len(public.labelled) or public.rows
    if rehearsed == NONE:
        return "none was asked for"
    if public.target != "classes" and not len(public.labelled):
        return "no public row has a known target to simulate runs with"
    if unit == "user":
        return "runs that protect users are not simulated"
    if not simulated:
        return "trained teachers are simulated only with --rehearse all (in Python rehearse='all')"
    if not planned:
        return "every plan is refused"
    if rows < MIN_TO_REHEARSE:
        return f"{rows} public rows are too few for simulations, at least {MIN_TO_REHEARSE} are needed"
    return ""
