"""A run's budget in a ledger: refused before anything is trained, reserved before noise is drawn, settled after.

To settle is to note a checksum of what was drawn; nothing is given back.
"""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ostrakon.accounting.consent import LevelClaim
from ostrakon.accounting.epsilons import Gated
from ostrakon.data.consent import Consent
from ostrakon.mechanisms.base import Mechanism
from ostrakon.options.options import Options
from ostrakon.planning.plan import Plan, shape
from ostrakon.run.folder import Receipts
from ostrakon.run.inputs.task import Task
from ostrakon.run.stages.answers import Answers
from ostrakon.statements.statement import round_up
from ostrakon.validation import InvalidInput

if TYPE_CHECKING:
    from ostrakon.ledger.cost import Cost
    from ostrakon.ledger.filter import Filter
    from ostrakon.ledger.ledger import Ledger, Receipt
    from ostrakon.ledger.state import Account, History


class Reservation:
    """The reservation of one run in an account of a ledger.

    The run's id in the ledger is drawn and stored (`Receipts`) just before it reserves. So a stopped run finds its
    reservation again, and a folder that was copied before that must reserve its own budget. Of folders that were copied
    later only the first one settles: the others are refused before anything is learned.

    Parameters
    ----------
    ledger : Ledger
    account : str
        Name of an open account.
    cost : Cost
    what : str
        What is released, in words, for the ledger.
    terms : dict
        unit, relation, epsilon and delta of the run, for the ledger.
    receipts : Receipts
    """

    def __init__(
        self, ledger: Ledger, account: str, cost: Cost, *, what: str, terms: dict[str, Any], receipts: Receipts
    ) -> None:
        self._ledger = ledger
        self._name = account
        self._cost = cost
        self._what = what
        self._terms = terms
        self._receipts = receipts

    @property
    def url(self) -> str:
        """Address of the ledger."""
        return self._ledger.url

    def history(self) -> History:
        """Return the account with all its runs; every entry of the ledger is verified."""
        return self._ledger.account(self._name)

    def reserve(self) -> str:
        """Reserve the run's cost in the account, once, and return the run's id there.

        Errors: see `ostrakon.ledger.ledger.Ledger.reserve`.
        """
        stored = self._receipts.receipt()
        if stored is None:
            # Stored before it reserves: a run that is killed after that finds its reservation again.
            stored = {"ledger": self.url, "account": self._name, "run": secrets.token_hex(16)}
            self._receipts.keep_receipt(stored)
        elif "hash" in stored:
            # Noise may have been drawn, so a ledger without this reservation is an older copy.
            self._ledger.require_kept(_receipt(stored))
        receipt = self._ledger.reserve(self._name, stored["run"], self._cost, what=self._what, **self._terms)
        if receipt.as_dict() != stored:
            self._receipts.keep_receipt(receipt.as_dict())
        return receipt.run

    def settle_bytes(self, drawn: bytes, *, part: str | None = None) -> None:
        """Note in the ledger a checksum of what was drawn. Errors: see `ostrakon.ledger.ledger.Ledger.settle`."""
        stored = self._receipts.receipt()
        assert stored is not None
        self._ledger.settle(_receipt(stored), hashlib.sha256(drawn).hexdigest(), part=part)


class Budget(Reservation):
    """The reservation of a run by a plan.

    Parameters
    ----------
    ledger : Ledger
    account : Account
        As it was when last read.
    plan : Plan
    cost : Cost
    of : dict
        unit and relation that the account is for.
    receipts : Receipts
    """

    def __init__(
        self, ledger: Ledger, account: Account, plan: Plan, *, cost: Cost, of: dict[str, Any], receipts: Receipts
    ) -> None:
        epsilon = plan.guarantee.epsilon if plan.claimable else None
        super().__init__(
            ledger,
            account.name,
            cost,
            what=description_of(plan.mechanism, queries=plan.queries, teachers=plan.teachers),
            terms={**of, "epsilon": epsilon, "delta": plan.delta},
            receipts=receipts,
        )
        self.account = account
        self._plan = plan
        self._of = of

    def require_room(self) -> None:
        """Refuse a run that will not fit, before anything is trained; a run that has reserved has its room."""
        from ostrakon.ledger.fits import require_fits

        stored = self._receipts.receipt()
        if stored is not None and "hash" in stored:
            self._ledger.require_kept(_receipt(stored))
        elif stored is None or self.history().spend_of(stored["run"]) is None:
            require_fits(self.account, self._cost, **self._terms)

    def _with(self, plan: Plan, receipts: Receipts, *, cost: Cost) -> Budget:
        return Budget(self._ledger, self.account, plan, cost=cost, of=self._of, receipts=receipts)

    def of_plan(self, plan: Plan, receipts: Receipts) -> Budget:
        """Return the budget of another run on the same data."""
        cost = cost_within(self.account.cap, plan)
        return self._with(plan, receipts, cost=cost)

    def again(self, receipts: Receipts) -> Budget:
        """Return the budget of one more run by the same plan, on the same data."""
        return self._with(self._plan, receipts, cost=self._cost)

    def times(self, most: int = 1000) -> int:
        """Return how many runs like this one still fit into the account as it was last read, at most `most`."""
        runs, total, cap = 0, self.account.total.add(self._cost), self.account.cap
        while runs < most and not self.account.closed and cap.admits(total):
            runs, total = runs + 1, total.add(self._cost)
        return runs

    def reserve(self) -> str:
        """Do `Reservation.reserve` and update `account`."""
        run = super().reserve()
        self.account = self._ledger.balance(self.account.name)
        return run

    def settle(self, answers: Answers, *, part: str | None = None) -> None:
        """Note in the ledger what was drawn, before anything is learned from it.

        part: its name, if more will be drawn.
        """
        self.settle_bytes(answers.as_bytes(), part=part)


class ConsentBudget(Budget):
    """The reservation of a run with levels of consent: in the account of the highest level, and in one for each other.

    Parameters
    ----------
    levels : tuple of LevelBudget
        The other levels.
    **reservation
        As of `Budget`, for the highest level.
    """

    def __init__(self, *given: Any, levels: tuple[LevelBudget, ...], receipts: Receipts, **reservation: Any) -> None:
        super().__init__(*given, receipts=_PartReceipts(receipts, None), **reservation)
        self._levels = levels

    def require_room(self) -> None:
        """Refuse a run that does not fit into the account of any level."""
        super().require_room()
        for level in self._levels:
            level.require_room()

    def reserve(self) -> str:
        """Reserve in all accounts, before anything is drawn."""
        for level in self._levels:
            level.reserve()
        return super().reserve()

    def settle_bytes(self, drawn: bytes, *, part: str | None = None) -> None:
        """Note in all accounts what was drawn."""
        super().settle_bytes(drawn, part=part)
        for level in self._levels:
            level.settle_bytes(drawn, part=part)

    def times(self, most: int = 1000) -> int:
        """Return how many runs like this one still fit into all accounts, at most `most`."""
        return min([super().times(most), *(level.times(most) for level in self._levels)])


class LevelBudget(Budget):
    """The reservation of a run for the records of one level of consent, in an account of their own.

    Parameters
    ----------
    claim : LevelClaim
    **reservation
        As of `Budget`, with the cost of this level.
    """

    def __init__(self, *given: Any, claim: LevelClaim, receipts: Receipts, **reservation: Any) -> None:
        super().__init__(*given, receipts=_PartReceipts(receipts, claim.level), **reservation)
        self._what += f", level {claim.level}"
        self._terms |= {"epsilon": claim.epsilon}


class _PartReceipts:
    """The receipt of one of a run's reservations, stored with the others. level: None for the first one."""

    def __init__(self, all_: Receipts, level: str | None) -> None:
        self._all, self._level = all_, level

    def receipt(self) -> dict[str, Any] | None:
        stored = self._all.receipt() or {}
        if self._level is not None:
            return stored.get("levels", {}).get(self._level)
        return {name: value for name, value in stored.items() if name != "levels"} or None

    def keep_receipt(self, receipt: dict[str, Any]) -> None:
        stored = self._all.receipt() or {}
        levels = stored.get("levels", {})
        if self._level is not None:
            self._all.keep_receipt({**stored, "levels": {**levels, self._level: receipt}})
        else:
            self._all.keep_receipt({**receipt, "levels": levels})


def _consent_mark(account: Account, level: str = "") -> str:
    """Return the mark of an account with levels of consent, or of the account of a level."""
    return hashlib.sha256(f"levels of consent of {account.name}: {level}".encode()).hexdigest()


def _level_budgets(
    ledger: Ledger, account: Account, plan: Plan, consent: Consent, *, of: dict[str, Any], receipts: Receipts
) -> tuple[LevelBudget, ...]:
    """Return the reservations of all levels except the highest; caps are proportional to the epsilons of the levels."""
    from ostrakon.ledger.cost import Cost
    from ostrakon.ledger.filter import Filter

    highest = max(plan.levels, key=lambda level: level.weight).name
    if _consent_mark(account) not in account.fingerprints:
        if account.spent > 0:
            raise InvalidInput(
                f"consent cannot be given: account {account.name!r} of these data has runs without it, which every "
                "level would have to pay for."
            )
        ledger.bind(account.name, _consent_mark(account))
    full_cost = plan.mechanism.run_cost(queries=plan.queries)
    assert full_cost is not None
    budgets: list[LevelBudget] = []
    for level, claim in zip(plan.levels, plan.level_claims(), strict=True):
        if level.name == highest:
            continue
        cap = Filter.create(
            epsilon=account.cap.epsilon * consent.epsilons[level.name] / consent.epsilon, delta=account.cap.delta
        )
        level_account = ledger.open(
            f"{account.name}, level {level.name}", cap=cap, fingerprint=_consent_mark(account, level.name), **of
        )
        cost = Cost.of(mu=level.cost(full_cost).mu)
        budgets.append(LevelBudget(ledger, level_account, plan, cost=cost, of=of, receipts=receipts, claim=claim))
    return tuple(budgets)


def description_of(mechanism: Mechanism, *, queries: int, teachers: int) -> str:
    """Return a description of a run's release for the ledger."""
    return f"{mechanism.name}, {queries} queries, {teachers} teachers"


def budget_of(
    plan: Plan, task: Task, options: Options, receipts: Receipts, *, besides: Sequence[Plan] = ()
) -> Budget | None:
    """Return the budget of a run in the ledger that its options name; None if they name none.

    If the data have no account and a budget is given, an account is opened: at the plan's delta, and of the kind in
    which most runs like this one fit (`Filter.for_runs_like`).

    Parameters
    ----------
    plan : Plan
    task : Task
    options : Options
    receipts : Receipts
    besides : sequence of Plan
        Further runs on the same data for which a new account must have room.

    Raises
    ------
    InvalidInput
        For a budget or an account without a ledger, data without an account if no budget is given, data that are bound
        to another account, another budget than the account has, and a run that does not fit.
    """
    if options.ledger is None:
        if options.budget is not None or options.ledger_account is not None:
            option = "budget" if options.budget is not None else "ledger_account"
            raise InvalidInput(f"{option} needs a ledger: give ledger, too.")
        return None
    from ostrakon.ledger.ledger import Ledger

    ledger = Ledger(options.ledger)
    relation = plan.sorted_adjacencies(task.private.adjacencies(counted=plan.per_record))[0][0]
    of = {"unit": task.private.unit, "relation": relation}
    account = _account_of(ledger, [plan, *besides], task, options, of=of)
    cost: Any = {"cost": cost_within(account.cap, plan), "of": of}
    if task.consent is None:
        if _consent_mark(account) in account.fingerprints:
            raise InvalidInput(
                f"consent must be given: account {account.name!r} of these data was opened with levels of consent, and "
                "a run without them would charge one level alone."
            )
        budget = Budget(ledger, account, plan, **cost, receipts=receipts)
    else:
        levels = _level_budgets(ledger, account, plan, task.consent, of=of, receipts=receipts)
        budget = ConsentBudget(ledger, account, plan, **cost, receipts=receipts, levels=levels)
    budget.require_room()
    return budget


def costs_of_plan(plan: Plan) -> tuple[Cost, ...]:
    """Return the worst-case cost of a run in every form in which it can be charged; with a gate, its certificate.

    The second form is the (epsilon, delta) of the plan, if that is a worst case: pure DP at epsilon outside an event of
    probability delta. It is the only form with adaptive composition.
    """
    from ostrakon.ledger.cost import cost_of, cost_of_pair

    guarantee = plan.guarantee
    sizes: dict[str, Any] = shape(plan.interactive, teachers=plan.teachers, classes=plan.classes)
    gated = guarantee if isinstance(guarantee, Gated) else None
    lanes = cost_of(plan.mechanism, queries=plan.queries, max_answers=plan.max_answers, gated=gated, **sizes)
    if gated is not None or not plan.claimable:
        return (lanes,)
    return (lanes, *cost_of_pair(guarantee.epsilon, guarantee.delta))


def cost_within(cap: Filter, plan: Plan) -> Cost:
    """Return the `cheapest` cost of a run by this plan."""
    return cheapest(cap, costs_of_plan(plan))


def cheapest(cap: Filter, costs: tuple[Cost, ...]) -> Cost:
    """Return the cost that uses least of an empty account with this cap; the first one if none fits.

    It depends on public numbers. The first one makes refusals name the mechanism.
    """
    least = min(costs, key=lambda cost: cap.fraction_used([cost]))
    return least if cap.fraction_used([least]) <= 1 else costs[0]


def _account_of(ledger: Ledger, plans: list[Plan], task: Task, options: Options, *, of: dict[str, Any]) -> Account:
    """Return the account of the data, opened if there is none yet. of: its unit and relation."""
    fingerprint = ledger.fingerprint(task.private.fingerprint, create=options.budget is not None)
    accounts = ledger.accounts()
    matching = [one for one in accounts.values() if {"unit": one.unit, "relation": one.relation} == of]
    bound = next((one for one in matching if fingerprint in one.fingerprints), None)
    named = accounts.get(options.ledger_account) if options.ledger_account is not None else None
    if bound is not None and options.ledger_account not in (None, bound.name):
        raise InvalidInput(
            f"ledger_account must be {bound.name!r}, to which these data are bound, got {options.ledger_account!r}."
        )
    if bound is None and named is not None and not named.fingerprints:
        # The account was opened without data.
        bound = ledger.bind(named.name, fingerprint)
    if bound is None and named is not None and fingerprint in named.fingerprints:
        return named  # for other neighbours: `require_room` refuses it
    if bound is None and named is not None:
        raise InvalidInput(
            f"The account {named.name!r} is bound to other data; if these are the same people's, say so by "
            f"{_binding(options, named.name, of)}, else open another account."
        )
    if bound is None:
        return _open_account(ledger, plans, options, of=of, fingerprint=fingerprint, known=len(accounts))
    if options.budget is not None and options.budget != bound.cap.epsilon:
        raise InvalidInput(
            f"budget must be {bound.cap.epsilon:g}, with which account {bound.name!r} of these data was opened, got "
            f"{options.budget:g}."
        )
    return bound


def _open_account(
    ledger: Ledger, plans: list[Plan], options: Options, *, of: dict[str, Any], fingerprint: str, known: int
) -> Account:
    from ostrakon.ledger.filter import Filter
    from ostrakon.ledger.fits import Refused

    bind = _binding(options, "NAME", of)
    if options.budget is None:
        changed = f" If they are changed data of an account there, bind them to it by {bind} instead." if known else ""
        raise InvalidInput(f"budget must be given: these data have no account in {options.ledger} yet.{changed}")
    if known and options.ledger_account is None:
        # Otherwise slightly changed data would get a full budget every time.
        raise InvalidInput(
            f"ledger_account must be given: these data, with these neighbours, are new to {options.ledger}. If an "
            f"account there for one {of['unit']} (neighbours: {of['relation']}) is of the same people, bind them to it "
            f"by {bind}; "
            "else name a new one: records and users, and different neighbours, need accounts of their own."
        )
    delta, forms = plans[0].delta, list(zip(*map(costs_of_plan, plans), strict=False))
    caps = [Filter.for_runs_like(costs, epsilon=options.budget, delta=delta) for costs in forms]
    shares = [cap.fraction_used([cost_within(cap, plan) for plan in plans]) for cap in caps]
    cap = caps[shares.index(min(shares))]
    if not cap.admits([cost_within(cap, plan) for plan in plans]):
        least = min(Filter.least_epsilon(costs, delta=delta) for costs in forms)
        raise Refused(
            f"budget must be {f'at least {round_up(least):.10g}' if math.isfinite(least) else 'infinite'} for this run "
            f"of epsilon {plans[0].guarantee.epsilon:.4g}{' and what comes after it' if len(plans) > 1 else ''}, got "
            f"{options.budget:g}: no account was opened."
        )
    name = options.ledger_account or f"data-{known + 1}"
    return ledger.open(name, cap=cap, fingerprint=fingerprint, **of)


def _binding(options: Options, name: str, of: Mapping[str, Any]) -> str:
    """Return the command that binds changed data to their account."""
    by = " --by COLUMN" if of["unit"] == "user" else ""
    return f"`ostrakon ledger open {options.ledger} {name} --private FILE{by}`"


def _receipt(stored: dict[str, Any]) -> Receipt:
    from ostrakon.ledger.ledger import Receipt

    return Receipt.of_dict(stored)
