"""What an epsilon would buy, as tables and sentences for the command line."""

import math
from collections.abc import Iterable

from rich.markup import escape
from rich.table import Table

from ostrakon.forecast.interval import ACCURACY, CONFIDENCE, format_score
from ostrakon.forecast.offers import Offer, neighbours
from ostrakon.forecast.outlook import Outlook
from ostrakon.forecast.rehearsal import Rehearsal
from ostrakon.forecast.without_noise import WITHOUT_NOISE
from ostrakon.planning.plan import Plan
from ostrakon.report.charts import percents
from ostrakon.report.table import pairs_table, queries_in_words
from ostrakon.run.stages.estimates import why_no_estimate
from ostrakon.statements.statement import epsilon_in_words
from ostrakon.students.right_counts import half_width_of_accuracy

_ALWAYS = {
    "classes": "always the most frequent class",
    "quantity": "always the mean (for the error: the median)",
    "labels": "always every label",
}


def outlook_table(outlook: Outlook) -> Table:
    """Return one row for each mechanism and epsilon: queries, noise and cost, without a rehearsal."""
    target = "a quantity" if outlook.target == "quantity" else f"{outlook.classes} {outlook.target}"
    title = f"{outlook.records:,} private {outlook.unit}s, {outlook.pool:,} public rows, {target}"
    title += "".join(f", delta {delta:g}" for delta in {one.plan.delta for one in outlook.offers if one.plan})
    table = Table(title=title, title_justify="left")
    table.add_column("epsilon", justify="right", style="bold")
    table.add_column("mechanism", no_wrap=True)
    for name in ("queries", "answers", "noise", "votes / noise", "worst case", "attacker right"):
        table.add_column(name, justify="right")
    for offer in outlook.offers:
        table.add_row(f"{offer.epsilon:g}", offer.mechanism, *_cells(offer))
    return table


def outlook_sentences(outlook: Outlook) -> list[str]:
    """Return what belongs below that table: refusals in full, and what the attacker's odds are about."""
    refusals = _at_epsilons("Refused", [(one.epsilon, one.mechanism, one.refusal) for one in outlook.offers])
    mechanisms = {one.mechanism: 1 for one in outlook.offers if one.plan is not None and one.plan.labels}
    of_labels = f"Queries of {', '.join(mechanisms)}: one for each of the {outlook.classes} labels of a public row."
    ratio = "noise: its standard deviation, in votes. votes / noise: the votes on one public row, divided by it."
    notes = [ratio] if any(one.signal_to_noise is not None for one in outlook.offers) else []
    plans = [(one.mechanism, one.plan) for one in outlook.offers if one.plan is not None]
    trained = dict.fromkeys((name, plan.teachers) for name, plan in plans if not plan.per_record)
    notes += [f"{name} trains {teachers:,} teachers." for name, teachers in trained]
    estimates = [
        (one.epsilon, one.mechanism, f"{_range_of_accuracy(one.plan)}.")
        for one in outlook.offers
        if one.plan is not None and one.plan.target == "classes"
    ]
    return [
        *refusals,
        *notes,
        *([of_labels] if mechanisms else []),
        *_at_epsilons("Estimated accuracy", estimates),
        *odds_sentences(outlook.offers),
    ]


def accuracy_table(outlook: Outlook, rehearsal: Rehearsal) -> Table:
    """Return one row for each plan that was rehearsed: the accuracy or other measures, and the interval of one run's.

    With simulated labels: the points of accuracy below boosting without noise, and their range.
    """
    table = Table()
    table.add_column("epsilon", justify="right", style="bold")
    table.add_column("mechanism", no_wrap=True)
    if rehearsal.simulated:
        table.add_column("points below boosting without noise", justify="right")
        table.add_column(f"least to most of {len(rehearsal.without_noise)} simulations", justify="right")
    for measure in () if rehearsal.simulated else outlook.measures:
        table.add_column(f"{measure}\n({CONFIDENCE:.0%} interval of one run)", justify="right")
    for offer in outlook.offers:
        forecasts = rehearsal.of(offer)
        if not forecasts:
            continue
        words = [one.in_words() for one in forecasts]
        if rehearsal.simulated:
            mean, least, most = (100 * points for points in rehearsal.lost(forecasts[0]))
            words = f"{mean:.1f}", f"{least:.1f} to {most:.1f}"
        table.add_row(f"{offer.epsilon:g}", offer.mechanism, *words)
    return table


def accuracy_sentences(outlook: Outlook) -> list[str]:
    """Return what forecasts rest on, and what they compare with; or why there are none."""
    played = outlook.rehearsal
    if played is None:
        return [outlook.basis]
    refusals = _at_epsilons("Not forecast", [(*setting, why) for setting, why in played.failures.items()])
    always, unlearned = (
        ", ".join(_scored(measure, score) for measure, score in zip(outlook.measures, scores, strict=True))
        for scores in (played.constant, played.not_private)
    )
    compared = (
        f"For comparison: {_ALWAYS[outlook.target]}: {always}; {WITHOUT_NOISE[outlook.target]} on the same rows "
        f"without any noise: {unlearned}."
    )
    if played.simulated:
        return [*refusals, outlook.basis]
    least = [] if outlook.least is None else [outlook.least.sentence]
    return [*refusals, outlook.basis, compared, *least]


def _scored(measure: str, score: float) -> str:
    return format_score(measure, score) if measure == ACCURACY else f"{measure} {format_score(measure, score)}"


def _at_epsilons(what: str, reasons: Iterable[tuple[float, str, str | None]]) -> list[str]:
    """Return (epsilon, mechanism, why) in sentences, one for all epsilons at which a mechanism has the same reason."""
    together: dict[tuple[str, str], list[str]] = {}
    for epsilon, mechanism, why in reasons:
        if why:
            # The epsilon is said before the reason, not again in it with what would do at this one alone.
            before, remark, after = why.partition(f", got {epsilon:g}")
            same = before + after[max(after.find(";"), 0) :] if remark else why
            together.setdefault((mechanism, same), []).append(f"{epsilon:g}")
    return [f"{what}, {name} at epsilon {', '.join(epsilons)}: {why}" for (name, why), epsilons in together.items()]


def odds_sentences(offers: Iterable[Offer]) -> list[str]:
    """Return what an attacker could gain at most, in words; nothing where it was not computed."""
    priced = [one for one in offers if one.odds is not None and one.plan is not None]
    return [
        f"An attacker who guesses {question} is right at most as often as the table says, instead of 50% of the "
        "time, with any other knowledge "
        f"({', '.join(dict.fromkeys(one.mechanism for one in priced if _about(one) == question))})."
        for question in dict.fromkeys(_about(one) for one in priced)
    ]


def _about(offer: Offer) -> str:
    return neighbours(per_record=offer.per_record, unit=offer.unit, protects=offer.protects, removed=offer.removed)


def offer_table(offer: Offer) -> Table:
    """Return one plan, line by line: what a run would ask, and at what price."""
    table, plan = pairs_table(()), offer.plan
    assert plan is not None
    table.add_row("Mechanism", offer.mechanism)
    table.add_row("Teachers", f"{plan.teachers:,}" + (f" (every {offer.unit} is one)" if plan.per_record else ""))
    queries, answers, noise, signal, worst, odds = _cells(offer)
    if plan.described:
        table.add_row("Cells counted", queries)
    else:
        table.add_row("Queries", queries_in_words(plan))
        table.add_row("Answers", answers)
    table.add_row("Noise", noise if noise == "–" else f"standard deviation of {noise} votes")
    table.add_row("Votes / noise", f"{signal} (votes on one public row, divided by that)" if signal != "–" else signal)
    if plan.per_record and len(costs := _costs(plan)) > 1:
        table.add_row("Cost", ", ".join(f"{what} {percent}" for what, percent in costs.items()))
    if plan.target == "classes":
        table.add_row("Estimated accuracy", _range_of_accuracy(plan))
    table.add_row("Worst case" if plan.gate is None else "Behind a gate", f"epsilon {worst}, delta {plan.delta!r}")
    if not plan.claimable:
        table.add_row(
            "Guarantee", f"none: {offer.mechanism} is run as published, and no release may rest on that number"
        )
    if plan.gate is not None:
        table.add_row("Without a gate", f"epsilon {_format_epsilon(plan.bound.epsilon)} at this noise")
    if offer.odds is not None:
        table.add_row("Attacker", f"who guesses {_about(offer)} is right at most {odds} of the time, instead of 50%")
    for what, source in plan.tuned.items():
        table.add_row(f"[dim]{escape(what)}[/]", f"[dim]{escape(source)}[/]")
    return table


def _range_of_accuracy(plan: Plan) -> str:
    """Return what the estimate of a student's accuracy costs and how wide it is, or why there is none."""
    noise = plan.mechanism.error_noise
    if noise is None:
        return f"none: {why_no_estimate(plan.tuned, counted=False, per_record=plan.per_record)}"
    points = 100 * half_width_of_accuracy(noise, units=plan.teachers, classes=plan.classes)
    return f"±{points:.1f} percentage points, for {_costs(plan)['counts of errors']} of the cost"


def _costs(plan: Plan) -> dict[str, str]:
    """Return what is released with the answers and its share of the cost, as printed."""
    shares = {what: share for what, share in plan.cost_shares.items() if share > 0}
    return dict(zip(shares, percents(shares.values(), digits=1), strict=True))


def _cells(offer: Offer) -> tuple[str, ...]:
    plan = offer.plan
    if plan is None:
        return ("[red]refused[/]", *["–"] * 5)
    answers, signal = offer.answers, offer.signal_to_noise
    many = "as votes agree" if answers is None else f"{'' if answers[1] else 'at most '}{answers[0]:,}"
    noise = plan.mechanism.vote_noise or plan.mechanism.parameters().get("sigma2")
    gate = "" if plan.gate is None else " (gate)"
    return (
        f"{plan.queries:,}",
        many,
        "–" if noise is None else f"{noise:.4g}",
        "–" if signal is None else f"{signal:.1f}",
        _format_epsilon(plan.guarantee.epsilon) + gate,
        "–" if offer.odds is None else odds_in_words(offer.odds),
    )


def odds_in_words(odds: float) -> str:
    """Return a share of right guesses as a percentage, rounded up.

    >>> odds_in_words(0.5992)
    '60.0%'
    """
    return f"{min(math.ceil(1000 * odds) / 10, 100.0):.1f}%"


def _format_epsilon(epsilon: float) -> str:
    return epsilon_in_words(epsilon) if math.isfinite(epsilon) else "∞"
