"""What each mechanism would do at each epsilon, settled as a run would settle it: from public numbers alone."""

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
from ostrakon.options.options import GATE, WORST_CASE, Options
from ostrakon.planning.choose_mechanism import asks_teachers, auto_mechanism
from ostrakon.planning.defaults import DEFAULT_OF_TEACHERS, OF_LABELS, OF_QUANTITIES
from ostrakon.planning.make_plan import make_plan
from ostrakon.planning.plan import Plan
from ostrakon.statements.statement import Protects, Unit, round_up
from ostrakon.validation import InvalidInput
from ostrakon.votes import Votes


def default_mechanisms(
    options: Options, *, classes: int, images: bool = False, embedded: bool = False, target: Target = "classes"
) -> tuple[str, ...]:
    """Mechanisms that are offered by default: that of a run with these options, and that of trained teachers.

    Teachers are not trained on a quantity, and on at most `MOST_OF_TEACHERS` labels of a row.
    """
    if target == "quantity":
        return (OF_QUANTITIES,)
    if target == "labels":
        own = DEFAULT_OF_TEACHERS if asks_teachers(options) else OF_LABELS
        return (own,) if classes > MOST_OF_TEACHERS else tuple(dict.fromkeys((own, DEFAULT_OF_TEACHERS)))
    own = auto_mechanism(options, classes=classes, images=images, embedded=embedded)
    return tuple(dict.fromkeys((own, DEFAULT_OF_TEACHERS)))


@dataclass(frozen=True, kw_only=True)
class Offer:
    """A plan at one epsilon, or why there is none.

    epsilon, mechanism: as asked. plan: None where it is refused; refusal: then the sentence that says what would do.
    odds: the largest share of right guesses at membership for a prior of 50% (`Plan.membership_guess`); None where it
    was not computed. unit: what is protected; protects: as of a statement.
    """

    epsilon: float
    mechanism: str
    plan: Plan | None = None
    refusal: str | None = None
    odds: float | None = None
    unit: Unit = "record"
    protects: Protects = "records"

    @property
    def answers(self) -> tuple[int, bool] | None:
        """(answers, whether exactly that number): all queries, or at most a cap; None if the votes decide."""
        plan = self.plan
        if plan is None:
            return None
        if plan.max_answers is not None:
            return plan.max_answers, False
        if plan.interactive or plan.gate is not None:
            return None
        # An even split is where any check fails: who answers that answers all.
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
        given = {} if self.plan is None else self.plan.mechanism.parameters()
        return {name: float(value) for name, value in given.items() if isinstance(value, int | float)}

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON; what is not finite or not known is None."""
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
    """The question of a membership guess, or of a guess of labels, in words."""
    if protects == "labels":
        whose = "one record has" if unit == "record" else "all rows of one user have"
        return f"which of two labels {whose} (labels only: all else is taken to be public)"
    if removed and per_record:
        used = "this user's rows were" if unit == "user" else "this record was"
        return f"whether {used} used (how many {unit}s there are is public)"
    if unit == "user":
        used = "this user's rows were used"
        return (
            f"whether {used} or another user's in their place (how many users there are is public)"
            if per_record
            else (f"whether {used} at all")
        )
    if per_record:
        return "whether this record was used or another one in its place (how many records there are is public)"
    return "whether this record was used at all"


def asked_for(options: Options, *, mechanism: str, epsilon: float) -> Options:
    """`options` for one mechanism among others: of each is asked what it has.

    Teachers, caps and gates are asked of trained teachers alone, parameters of the mechanisms that have them.
    """
    kind = find(mechanism)
    nothing: dict[str, Any] = {"teachers": None, "max_answers": None, "guarantee": WORST_CASE}
    own = {name: value for name, value in options.parameters.items() if name in kind.declared()}
    return dataclasses.replace(
        options,
        mechanism=mechanism,
        epsilon=epsilon,
        parameters=own,
        **(nothing if kind.per_record else {"neighbours": None}),
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
    embedded: bool = False,
    target: Target = "classes",
) -> tuple[Offer, ...]:
    """Every mechanism at every epsilon, as `make_plan` settles it for a run of these public sizes.

    options: what holds for all of them; of several mechanisms each is asked what it has (`asked_for`). records: private
    ones, or users where they are the unit. embedded: as of `make_plan`. target: what is predicted. A plan that is
    refused is an offer too: it says what would do.
    Errors: `InvalidInput` for a parameter that no mechanism has.
    """
    sizes: dict[str, Any] = {"units": records, "pool": pool, "classes": classes, "unit": unit}
    sizes |= {"embedded": embedded, "target": target}
    names = [find(name).name for name in mechanisms]
    known = {name for mechanism in names for name in find(mechanism).declared()}
    foreign = [name for name, value in options.parameters.items() if value is not None and name not in known]
    if foreign:
        raise InvalidInput(f"{foreign[0]} is not a parameter of {', '.join(names)}.")

    def offer(asked: Options) -> Offer:
        name, epsilon = asked.mechanism, asked.epsilon
        assert epsilon is not None
        try:
            plan = make_plan(asked, **sizes)
        except InvalidInput as refused:
            return Offer(epsilon=epsilon, mechanism=name, refusal=str(refused), unit=unit)
        odds = plan.membership_guess() if plan.claimable else None
        return Offer(epsilon=epsilon, mechanism=name, plan=plan, odds=odds, unit=unit)

    every = [
        asked_for(options, mechanism=name, epsilon=epsilon)
        if len(names) > 1
        else dataclasses.replace(options, mechanism=name, epsilon=epsilon)
        for name, epsilon in itertools.product(names, epsilons)
    ]
    # Prices do not depend on the threads, and compiled loops release Python's lock. Large epsilons come first:
    # they pay for many queries and take longest.
    longest_first = sorted(range(len(every)), key=lambda at: -(every[at].epsilon or 0))
    with ThreadPoolExecutor(effective_n_jobs(-1)) as workers:
        offered = dict(zip(longest_first, workers.map(offer, [every[at] for at in longest_first]), strict=True))
    return tuple(offered[at] for at in range(len(every)))
