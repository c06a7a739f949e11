"""What an epsilon would buy, all at once: offers, a rehearsal, the way back from an accuracy."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ostrakon.estimators.choices import require_choices, sees_images
from ostrakon.forecast.least_epsilon import LeastEpsilon, least_epsilon
from ostrakon.forecast.offers import Offer, default_mechanisms, make_offers, neighbours
from ostrakon.forecast.public_rows import FEWEST_TO_REHEARSE, PublicRows
from ostrakon.forecast.rehearsal import REPETITIONS, Rehearsal, rehearse
from ostrakon.html_table import html_table
from ostrakon.mechanisms.registry import find
from ostrakon.options.options import AUTO, WORST_CASE, Options
from ostrakon.statements.statement import UNITS, Unit
from ostrakon.teachers.progress import Report
from ostrakon.validation import InvalidInput, fraction, positive, whole

EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0)
NOT_YET = "the rehearsal follows"
PER_RECORD, ALL, NONE = REHEARSED = ("per-record", "all", "none")
"""What is rehearsed: per-record teachers (quick), trained ones too (as slow as so many runs), or nothing."""


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """What each epsilon would buy, from public rows and numbers alone.

    records, pool, classes: the sizes it holds for. unit: what is protected; of users, `records` is how many there are.
    offers: every mechanism at every epsilon. rehearsal: what the run,
    played on public rows, gave; None where it was not asked for, and then `not_rehearsed` says why.
    least: the least epsilon for the accuracy that was asked for.
    """

    records: int
    pool: int
    classes: int
    unit: Unit
    offers: tuple[Offer, ...]
    rehearsal: Rehearsal | None = None
    not_rehearsed: str = ""
    least: LeastEpsilon | None = None

    @property
    def basis(self) -> str:
        """What the forecasts rest on, in one sentence."""
        if self.rehearsal is None:
            return f"No accuracy is forecast: {self.not_rehearsed}."
        if self.rehearsal.simulated:
            return (
                "The public rows have no labels: accuracies are those of simulated worlds, in which random smooth "
                "functions of the public features decide the labels. They tell epsilons apart, not how hard this task "
                "is."
            )
        return (
            "Accuracies are rehearsed: labelled public rows play the private side, the public pool and the held-out "
            "rows. They hold as far as private rows are of the same kind as public ones, and tend to be low: a "
            "rehearsal has fewer public rows than the run."
        )

    def _repr_html_(self) -> str:
        rows = [
            (
                f"epsilon {each.epsilon:g}, {each.mechanism}",
                each.refusal if each.plan is None else f"{each.plan.queries} queries",
            )
            for each in self.offers
        ]
        return html_table("What an epsilon buys", rows, note=self.basis)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON, finite numbers only."""
        played = self.rehearsal
        content: dict[str, Any] = {
            "records": self.records,
            "unit": self.unit,
            "pool": self.pool,
            "classes": self.classes,
            "offers": [offer.as_dict() for offer in self.offers],
            "membership_guess_is_about": {
                "per-record": neighbours(per_record=True, unit=self.unit),
                "trained": neighbours(per_record=False, unit=self.unit),
            },
            "basis": self.basis,
            "simulated": None if played is None else played.simulated,
            "majority": None if played is None else played.majority,
            "not_private": None if played is None else played.not_private,
            "forecasts": [] if played is None else [one.as_dict() for one in played.forecasts],
            "not_forecast": []
            if played is None
            else [
                {"epsilon": epsilon, "mechanism": mechanism, "why": why}
                for (epsilon, mechanism), why in played.failures.items()
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
    """What each of `epsilons` would buy, before anything private is touched: from public rows and numbers alone.

    X_public: the public rows, as `PATEClassifier.fit` takes them. y_public: their labels, None among them where a row
    has none; None: simulated worlds stand in for them. records: how many private ones there will be, or how many users
    where `unit` is "user", which protects all rows of a user together; such runs are priced, not rehearsed.
    classes: all labels, where y_public does not tell them. mechanisms: names; None: per-record teachers, and two of
    trained ones. parameters: of mechanisms, by name, as {"max_contributions": 2}; each goes to those that have it.
    delta, n_teachers, n_queries, max_answers, guarantee, agreement, teacher, student, representation: as of
    `PATEClassifier`; "gate" takes minutes. accuracy: look for the least epsilon that gives it. rehearse: "per-record",
    "all" (trained teachers too, which are trained `repetitions` times at each epsilon) or "none". repetitions: at least
    2. random_state: of all splitting, models and noise: nothing here is private. progress: show how far the rehearsal
    is.

    Guarantee: no private row is read, so it costs no privacy. What is offered is what `ostrakon train` would settle
    (`ostrakon.planning.make_plan.make_plan`); a forecast is a statement about rows like the public ones.
    Errors: `InvalidInput` for values that cannot be; a mechanism that is refused at an epsilon is part of the answer.
    """
    shown = PublicRows.of(X_public, y_public, classes=classes)
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
        shown,
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
    shown: PublicRows,
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
    settled: Callable[[Outlook], None] = lambda found: None,
) -> Outlook:
    """As `plan`, from public rows and the options of a run.

    settled: told everything but what a rehearsal gives, as soon as it is known: seconds, where a rehearsal may take
    minutes. progress: as of `ostrakon.teachers.progress.reporting`.
    """
    records = whole("records", records, at_least=1)
    if not isinstance(epsilons, Iterable) or isinstance(epsilons, str):
        raise InvalidInput(f"epsilons must be a list of positive numbers, got {epsilons!r}.")
    asked = sorted({positive("epsilons", epsilon) for epsilon in epsilons})
    if not asked:
        raise InvalidInput("epsilons must hold at least one number, got none.")
    if rehearsed not in REHEARSED:
        raise InvalidInput(f"rehearse must be one of {', '.join(REHEARSED)}, got {rehearsed!r}.")
    repetitions = whole("repetitions", repetitions, at_least=2)
    if accuracy is not None:
        fraction("accuracy", accuracy)
    if accuracy is not None and rehearsed == NONE:
        raise InvalidInput("accuracy can only be looked for in a rehearsal, got 'none' for rehearse.")
    names = _mechanisms(mechanisms, shown, options)
    require_choices(teacher=options.teacher, student=options.student, representation=options.representation)
    if unit not in UNITS:
        raise InvalidInput(f"unit must be one of {', '.join(UNITS)}, got {unit!r}.")
    sizes: Any = {"unit": unit, "records": records, "pool": shown.rows, "classes": len(shown.classes)}
    offers = make_offers(options, epsilons=asked, mechanisms=names, **sizes)
    played = [offer for offer in offers if rehearsed == ALL or find(offer.mechanism).per_record]
    possible = [offer for offer in played if offer.plan is not None]
    why = _why_not_rehearsed(shown, rehearsed, unit=unit, played=len(played), possible=len(possible))
    if why and accuracy is not None:
        raise InvalidInput(f"accuracy cannot be looked for: {why}.")
    found = Outlook(**sizes, offers=offers, not_rehearsed=why or NOT_YET)
    settled(found)
    if why:
        return found
    rehearsal = rehearse(shown, possible, options, records=records, repetitions=repetitions, progress=progress)
    if accuracy is not None and not rehearsal.forecasts:
        raise InvalidInput("accuracy cannot be looked for: no run could be rehearsed.")
    least = None if accuracy is None else least_epsilon(rehearsal.forecasts, accuracy)
    return dataclasses.replace(found, rehearsal=rehearsal, not_rehearsed="", least=least)


def _mechanisms(asked: Iterable[str] | str | None, shown: PublicRows, options: Options) -> list[str]:
    """The names of the mechanisms that are offered, each once; refused if there are none."""
    if asked is None:
        images = sees_images(shown.X, options.representation)
        asked = default_mechanisms(options, classes=len(shown.classes), images=images)
    names = list(dict.fromkeys([asked] if isinstance(asked, str) else asked))
    if not names:
        raise InvalidInput("mechanisms must name at least one mechanism, got none.")
    return names


def _why_not_rehearsed(shown: PublicRows, rehearsed: str, *, unit: Unit, played: int, possible: int) -> str:
    """Why nothing is rehearsed, in words; empty if something is. played, possible: numbers of offers."""
    rows = len(shown.labelled) or shown.rows
    if rehearsed == NONE:
        return "none was asked for"
    if unit == "user":
        return "runs that protect users are priced, not rehearsed"
    if not played:
        return "trained teachers are rehearsed only where all is"
    if not possible:
        return "every plan is refused"
    if rows < FEWEST_TO_REHEARSE:
        return f"{rows} public rows are too few to rehearse on, at least {FEWEST_TO_REHEARSE} are needed"
    return ""
