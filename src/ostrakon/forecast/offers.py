"""Plans of each mechanism at each epsilon, made as for a run: from public numbers alone."""

import dataclasses
import itertools
import math
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import effective_n_jobs

from ostrakon.data.labels import MOST_OF_TEACHERS
from ostrakon.data.target import Target
from ostrakon.mechanisms.registry import find
from ostrakon.options.call import parse_call, with_own_parameters
from ostrakon.options.options import GATE, WORST_CASE, Options
from ostrakon.planning.choose_mechanism import auto_mechanism, needs_trained_teachers
from ostrakon.planning.defaults import DEFAULT_OF_TEACHERS, OF_LABELS, OF_QUANTITIES
from ostrakon.planning.make_plan import make_plan
from ostrakon.planning.plan import Plan
from ostrakon.planning.row_kind import TABLE, RowKind
from ostrakon.statements.statement import Protects, Unit, round_up
from ostrakon.validation import InvalidInput
from ostrakon.votes import Votes


def default_mechanisms(
    options: Options, *, classes: int, kind: RowKind = TABLE, target: Target = "classes"
) -> tuple[str, ...]:
    """Return the mechanisms that are offered by default: that of these options, and that of trained teachers.

    Teachers are not trained on a quantity, and on at most `MOST_OF_TEACHERS` labels of a row.
    """
    if target == "quantity":
        return (OF_QUANTITIES,)
    if target == "labels":
        default = DEFAULT_OF_TEACHERS if needs_trained_teachers(options) else OF_LABELS
        return (default,) if classes > MOST_OF_TEACHERS else tuple(dict.fromkeys((default, DEFAULT_OF_TEACHERS)))
    default = auto_mechanism(options, classes=classes, kind=kind)
    return tuple(dict.fromkeys((default, DEFAULT_OF_TEACHERS)))


@dataclass(frozen=True, kw_only=True)
class Offer:
    """A plan at one epsilon, or the reason why there is none.

    epsilon, mechanism: as requested. plan: None if it is refused; refusal: then the reason and what is possible. odds:
    the largest share of right guesses at membership for a prior of 50% (`Plan.membership_guess`); None if it was not
    computed. unit: what is protected; protects: as of a statement.
    """

    epsilon: float
    mechanism: str
    plan: Plan | None = None
    refusal: str | None = None
    odds: float | None = None
    unit: Unit = "record"
    protects: Protects = "records"

    @property
    def per_record(self) -> bool:
        """Whether every record (or user) is a teacher."""
        return find(parse_call(self.mechanism)[0]).per_record

    @property
    def answers(self) -> tuple[int, bool] | None:
        """(number of answers, whether it is exact): all queries, or at most a cap; None if the votes decide."""
        plan = self.plan
        if plan is None:
            return None
        if plan.max_answers is not None:
            return plan.max_answers, False
        if plan.interactive or plan.gate is not None:
            return None
        # Every check fails on an even split: a mechanism that answers it answers every query.
        share, more = divmod(plan.teachers, plan.classes)
        even = Votes([[share + (label < more) for label in range(plan.classes)]])
        always = np.isneginf(plan.mechanism.log_probabilities(even)[0, -1])
        return (plan.queries, True) if always else None

    @property
    def removed(self) -> bool:
        """Whether the epsilon is for one record removed while the published number of records stays."""
        return self.plan is not None and self.plan.mechanism.relation == "take-out"

    @property
    def signal_to_noise(self) -> float | None:
        """Votes on a query in standard deviations of their noise.

        With per-record teachers: records per representative; else all teachers, if all agree. None without such noise.
        """
        plan = self.plan
        noise = None if plan is None else plan.mechanism.parameters().get("sigma2")
        if plan is None or not noise:
            return None
        if plan.per_record:
            return plan.teachers * (plan.mechanism.contribution_bound or 1) / plan.queries / noise
        return plan.teachers / noise

    @property
    def noise(self) -> dict[str, float]:
        """The parameters of the mechanism that are numbers."""
        parameters = {} if self.plan is None else self.plan.mechanism.parameters()
        return {name: float(value) for name, value in parameters.items() if isinstance(value, int | float)}

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; None for what is infinite or unknown."""
        plan, answers = self.plan, self.answers
        content: dict[str, Any] = {"epsilon": self.epsilon, "mechanism": self.mechanism, "refused": self.refusal}
        if plan is None:
            return content
        signal, worst = self.signal_to_noise, plan.guarantee.epsilon
        return content | {
            "teachers": plan.teachers,
            "queries": plan.queries,
            "answers": None if answers is None else answers[0],
            "answers_at_most": None if answers is None else not answers[1],
            "noise": self.noise,
            "signal_to_noise": signal,
            "guarantee": WORST_CASE if plan.gate is None else GATE,
            "worst_case": round_up(worst) if math.isfinite(worst) else None,
            "delta": plan.delta,
            "claimable": plan.claimable,
            "membership_guess": self.odds,
        }


def neighbours(*, per_record: bool, unit: Unit, protects: Protects = "records", removed: bool = False) -> str:
    """Return the question of a membership guess, or of a guess of labels, in words."""
    if protects == "labels":
        whose = "one record has" if unit == "record" else "all rows of one user have"
        return f"which of two labels {whose} (labels only: all else is taken to be public)"
    if removed and per_record:
        event = "this user's rows were" if unit == "user" else "this record was"
        return f"whether {event} used (how many {unit}s there are is public)"
    if unit == "user":
        event = "this user's rows were used"
        return (
            f"whether {event} or another user's in their place (how many users there are is public)"
            if per_record
            else (f"whether {event} at all")
        )
    if per_record:
        return "whether this record was used or another one in its place (how many records there are is public)"
    return "whether this record was used at all"


def options_for(options: Options, *, mechanism: str, epsilon: float, alone: bool = False) -> Options:
    """Return `options` for one of several mechanisms, without the options that it does not have.

    Teachers, caps and gates apply to trained teachers alone, parameters to the mechanisms that declare them.
    mechanism: NAME or NAME(parameter=value, ...). alone: whether it is the only one, which gets all options.
    """
    own = with_own_parameters({**options.parameters, "mechanism": mechanism})
    kind = find(own.pop("mechanism"))
    unset: dict[str, Any] = {"teachers": None, "max_answers": None, "guarantee": WORST_CASE}
    return dataclasses.replace(
        options,
        mechanism=kind.name,
        epsilon=epsilon,
        parameters={name: value for name, value in own.items() if alone or name in kind.declared()},
        **({} if alone else unset if kind.per_record else {"neighbours": None}),
    )


def make_offers(
    options: Options,
    *,
    epsilons: Iterable[float],
    mechanisms: Iterable[str],
    records: int,
    pool: int,
    classes: int,
    unit: Unit = "record",
    kind: RowKind = TABLE,
    target: Target = "classes",
) -> tuple[Offer, ...]:
    """Return every mechanism at every epsilon, as `make_plan` plans it for a run of these public sizes.

    options: of all offers; with several mechanisms each gets those that it has (`options_for`). records: number of
    private records, or of users if they are the unit. kind: of the public rows. target: what is predicted. A
    refused plan is an offer with a reason.
    Errors: `InvalidInput` for a parameter that no mechanism has.
    """
    sizes: dict[str, Any] = {"units": records, "pool": pool, "classes": classes, "unit": unit}
    sizes |= {"kind": kind, "target": target}
    written = list(mechanisms)
    names = list(dict.fromkeys(parse_call(mechanism)[0] for mechanism in written))
    declared = {name for mechanism in names for name in find(mechanism).declared()}
    unknown = [name for name, value in options.parameters.items() if value is not None and name not in declared]
    if unknown:
        raise InvalidInput(f"{unknown[0]} is not a parameter of {', '.join(names)}.")

    def offer(asked: tuple[str, float]) -> Offer:
        name, epsilon = asked
        try:
            plan = make_plan(requests[asked], **sizes)
        except InvalidInput as refused:
            return Offer(epsilon=epsilon, mechanism=name, refusal=str(refused), unit=unit)
        odds = plan.membership_guess() if plan.claimable else None
        return Offer(epsilon=epsilon, mechanism=name, plan=plan, odds=odds, unit=unit)

    requests = {
        (name, epsilon): options_for(options, mechanism=name, epsilon=epsilon, alone=len(written) == 1)
        for name, epsilon in itertools.product(written, epsilons)
    }
    # Compiled loops release Python's lock. Large epsilons come first: they allow many queries and take longest.
    longest_first = sorted(requests, key=lambda asked: -asked[1])
    with ThreadPoolExecutor(effective_n_jobs(-1)) as workers:
        offered = dict(zip(longest_first, workers.map(offer, longest_first), strict=True))
    return tuple(offered[asked] for asked in requests)
