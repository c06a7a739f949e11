"""The statement of a run: its settings, its claim, and the remarks for readers."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ostrakon.accounting.adjacent import Adjacent
from ostrakon.accounting.estimates import UNTAUGHT
from ostrakon.data.quantity import rounded
from ostrakon.estimators.registry import in_words, named_in_words
from ostrakon.features.moments import is_centred
from ostrakon.planning.plan import Plan
from ostrakon.run.inputs.task import Task
from ostrakon.run.stages.answers import Answers
from ostrakon.run.stages.estimates import NOT_COPIED, assess
from ostrakon.run.stages.learning import Learning
from ostrakon.run.stages.votes import pair_map
from ostrakon.statements.adjacency import SAME_SIZE
from ostrakon.statements.sentences import CORRECTED, DISTILLED
from ostrakon.statements.statement import Protects, Statement, epsilon_in_words, weak_remark
from ostrakon.statements.versions import versions
from ostrakon.students.by_label import StudentByLabel
from ostrakon.students.calibration import CalibratedStudent
from ostrakon.students.corrected_student import CorrectedStudent
from ostrakon.students.quantity_student import SUMS, QuantityRidge
from ostrakon.students.selection import Selection
from ostrakon.students.share_student import ShareStudent
from ostrakon.votes import STEPS

TUNED_ALWAYS: dict[Protects, dict[str, str]] = {
    "records": {"representation": "the public data alone"},
    "labels": {"representation": "the features of all rows, which are treated as public, and no label"},
}

TUNED_ON_DESCRIBED = {"representation": "the description of the columns alone"}

ENCODER_NOT_COVERED: dict[Protects, str] = {
    "records": "Features were made by an encoder that the guarantee takes as given: had it been trained on private "
    "records, what it learned of them would not be covered.",
    "labels": "Features were made by an encoder that the guarantee takes as given: had it been trained on the private "
    "labels, what it learned of them would not be covered.",
}

_MOSTLY_MISSING = 0.5
_TEMPERATURE_SOURCES = {False: "released counts that were held out", True: "released answers that were held out"}
"""Sources of temperatures, if counts or labels were released."""


def choice_in_words(selection: Selection) -> str:
    """Return how the student was chosen, in words."""
    if not selection.agreement:
        return f"{named_in_words(selection.chosen.name)}, {selection.how or 'given by the operator'}"
    tried = ", ".join(f"{in_words(name)} {min(share, 1.0):.1%}" for name, share in selection.agreement.items())
    kept, best = selection.agreement.get(selection.chosen.name, 0.0), max(selection.agreement.values())
    if kept >= best:
        equal = list(selection.agreement.values()).count(best) > 1
        why = "the first in a fixed order of those that are equally good" if equal else "the best"
    else:
        guess = "kept because no student was better than a guess"
        why = (
            guess
            if selection.chosen.fallback
            else "the first in a fixed order of those that are equal within the noise"
        )
    return f"{named_in_words(selection.chosen.name)}, {why} on {UNTAUGHT} (agreement: {tried})"


def calibration_in_words(selection: Selection, *, labels: bool, errors_of: str = "") -> dict[str, str]:
    """Return the entries of `tuned` on calibrated probabilities and labels, or a correction; {} without any.

    labels: whether labels were released, not counts. errors_of: the errors whose counts decided the last temperature,
    in words; empty without one.
    """
    student = selection.student
    if isinstance(student, QuantityRidge):
        return {"estimates": CORRECTED} if student.corrected else {}
    if isinstance(student, StudentByLabel) and student.source is None:
        return _temperatures(student, source=_TEMPERATURE_SOURCES[labels])
    if isinstance(student, ShareStudent | StudentByLabel):
        corrected = isinstance(student.source, QuantityRidge) and student.source.corrected
        how = f"{DISTILLED}, {in_words(SUMS)}{f', {CORRECTED}' if corrected else ''}"
        return {"estimates" if isinstance(student, ShareStudent) else "probabilities": how}
    words, last = list[str](), list[str]()
    if errors_of and isinstance(student, CalibratedStudent) and student.weights is None:
        last = [_temperature([student.temperature], f"noisy counts of {errors_of}")]
        student = student.student
    labelled = student
    corrected = student.student if isinstance(student, CalibratedStudent) else student
    if isinstance(corrected, CorrectedStudent):
        words, student = [CORRECTED], corrected.student
    elif not isinstance(student, CalibratedStudent):
        # A temperature of 1 may have been chosen; without held-out counts none was tried.
        untried = not selection.how and selection.proba is None and hasattr(student, "predict_proba")
        words = last or (["the student's own, not calibrated"] if untried else [])
        return {"probabilities": words[0]} if words else {}
    if isinstance(student, CalibratedStudent):
        words.append(_temperature([student.temperature], _TEMPERATURE_SOURCES[labels]))
        if np.any(student.offsets):
            words.append("mean probabilities agree with the released shares of the classes")
    if isinstance(labelled, CalibratedStudent):
        if labelled.weights is not None:
            words.append("labels are chosen so that every class counts the same")
        if labelled.ordered:
            words.append("labels are the medians of the ordered classes")
    return {"probabilities": "; ".join([*words, *last])}


def _temperatures(student: StudentByLabel, *, source: str) -> dict[str, str]:
    """Return the entries of `tuned` on the probabilities for several labels."""
    temperatures = [one.temperature for one in student.students if isinstance(one, CalibratedStudent)]
    if not temperatures:
        return {}
    several = "" if len(student.students) == 1 else f" for {len(temperatures)} of {len(student.students)} labels"
    return {"probabilities": _temperature(temperatures, source, several)}


def _temperature(temperatures: Sequence[float], source: str, several: str = "") -> str:
    """Return what temperatures did to probabilities, and their source. several: for which labels."""
    low, high = min(temperatures), max(temperatures)
    changes = [*(["more"] if low < 1 else []), *(["less"] if high > 1 else [])]
    change = f"{' or '.join(changes)} certain" if changes else ""
    value = f"{low:.2f}" if low == high else f"{low:.2f} to {high:.2f}"
    return f"{f'made {change}' if change else 'unchanged'} (temperature {value}{several}), from {source}"


def make_statement(
    plan: Plan,
    answers: Answers,
    task: Task,
    selection: Selection,
    learning: Learning,
    *,
    trained_on: str | None = None,
) -> Statement:
    """Return the statement of a run; it claims the plan's bound if the bound is claimable.

    trained_on: the training data of a frozen encoder, by the operator.
    """
    encoder = learning.view.encoder_facts(trained_on)
    reason, remarks = _no_claim(plan)
    claimed = answers.secure and reason is None
    protects = task.private.protects
    warning = weak_remark(plan.guarantee.epsilon, protects=protects) if claimed else None
    labels, unit = [str(label) for label in task.classes], task.private.unit
    errors = "the student's errors" if answers.errors is not None and not learning.described else ""
    estimates, warnings = assess(plan, answers, selection, learning, labels=labels, unit=unit, protects=protects)
    return Statement(
        guarantee=plan.guarantee if claimed else None,
        not_private=reason,
        estimates=estimates,
        remarks=(
            *([] if warning is None else [warning]),
            *warnings,
            *remarks,
            *_cell_remarks(plan, answers, task),
            *_sum_remarks(plan, answers, task),
            *_consent_remarks(plan, task),
            *([ENCODER_NOT_COVERED[protects]] if encoder else []),
            *_gate_remarks(plan, answers),
            *task.remarks,
        ),
        adjacent=_adjacent(plan, task) if claimed else (),
        curve=plan.curve() if claimed else None,
        consent=plan.level_claims() if claimed else (),
        consent_column=None if task.consent is None else task.consent.column,
        noise_is_secure=answers.secure,
        rounds=answers.rounds,
        teachers=plan.teachers,
        classes=() if task.quantity is not None else tuple(labels),
        several=task.target == "labels",
        **_ranges(plan, task),
        unit=unit,
        protects=protects,
        unit_column=task.private.unit_column,
        adjacency=_adjacency(plan, task),
        tuned={
            **plan.tuned,
            **({"classes": task.classes_from} if task.quantity is None else {"range": _range_source(plan)}),
            **(TUNED_ALWAYS[protects] if task.domain is None else TUNED_ON_DESCRIBED),
            **encoder,
            "student": choice_in_words(selection),
            **calibration_in_words(selection, labels=answers.counts is None, errors_of=errors),
        },
        public_rows=_public_rows(plan, task),
        trust_model=task.trust_model,
        not_covered=task.not_covered,
        versions=versions(),
    )


def _range_source(plan: Plan) -> str:
    narrowed = "" if plan.narrowed is None else "; the part of it that was used: by the released noisy histogram"
    return f"given by the operator{narrowed}"


def _ranges(plan: Plan, task: Task) -> dict[str, Any]:
    """Return the range of a quantity, and the part of it to which values were clipped, if a histogram narrowed it."""
    if task.quantity is None:
        return {}
    ranges = {
        "quantity": task.quantity,
        **({} if plan.narrowed is None else {"clipped": task.quantity.part(plan.narrowed)}),
    }
    return {name: (ends.low, ends.high) for name, ends in ranges.items()}


def _adjacency(plan: Plan, task: Task) -> str:
    # If only labels are protected, neighbours always have the same size.
    sized = plan.sized and not plan.per_record and task.private.protects == "records"
    own = plan.sorted_adjacencies(task.private.adjacencies(counted=plan.per_record))[0][1]
    return own + (SAME_SIZE if sized else "")


def _adjacent(plan: Plan, task: Task) -> tuple[Adjacent, ...]:
    """Return the guarantee under its own adjacency, and under the other ones."""
    (first, _), *others = plan.sorted_adjacencies(task.private.adjacencies(counted=plan.per_record))
    guarantee = plan.guarantee
    own = Adjacent(relation=first, neighbours=_adjacency(plan, task), epsilon=guarantee.epsilon, delta=guarantee.delta)
    stated = [own]
    for relation, sentence in others:
        epsilon, delta = plan.guarantee_under(relation)
        stated.append(Adjacent(relation=relation, neighbours=sentence, epsilon=epsilon, delta=delta))
    return tuple(stated)


def _public_rows(plan: Plan, task: Task) -> dict[str, Any] | None:
    """Return the entry of `statement.json` for a run without public rows; None for other runs."""
    if task.domain is None:
        return None
    pairs = len(task.domain.pairs) if plan.mechanism.moment_noise is not None else 0
    return {"source": "none", "columns": len(task.domain.names), "cells": sum(task.domain.sizes), "pairs": pairs}


def _cell_remarks(plan: Plan, answers: Answers, task: Task) -> tuple[str, ...]:
    """Return remarks on the counts of a run without public rows, and on columns that seem to be described wrongly."""
    domain, unit = task.domain, task.private.unit
    if domain is None or answers.counts is None:
        return ()
    noise = plan.mechanism.parameters()["sigma2"]
    pairs = pair_map(plan, domain)
    of_pairs = ""
    if pairs is not None and plan.mechanism.moment_noise is not None:
        pair_noise = plan.mechanism.moment_noise * STEPS / pairs.unit
        of_pairs = (
            f", and of {_counted(len(pairs.pairs), 'pair')} of columns the number of {unit}s in each cell, with noise "
            f"of standard deviation {rounded(pair_noise)}"
        )
    shares = [part.sum(axis=1) for part in np.split(answers.counts, np.cumsum(domain.sizes)[:-1])]
    absent = [
        name
        for name, share in zip(domain.names, shares, strict=True)
        if float(share[-1]) > _MOSTLY_MISSING * float(share.sum()) and float(share[-1]) > 3 * noise
    ]
    return (
        "There were no public rows. The student learned from noisy counts alone: of "
        f"{_counted(len(domain.names), 'column')} the number of {unit}s by cell and class, with Gaussian noise of "
        f"standard deviation {rounded(noise)}{of_pairs}. The guarantee covers all of them together.",
        *(
            f"Most values of the column {name!r} are missing or other than described: check that its description lists "
            "its values."
            for name in absent
        ),
    )


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _moment_remarks(plan: Plan, answers: Answers, task: Task) -> tuple[str, ...]:
    unit = task.private.unit
    errors = f"{_correction_remark(plan, unit)}{_error_remark(plan, unit)}".strip()
    if answers.moments is None or task.domain is not None:
        return (errors,) if errors else ()
    which = "The sums"
    if not plan.levels and is_centred(plan.classes, len(answers.moments)):
        which = f"The differences of the sums from their mean over the {plan.classes} classes"
    return (
        f"Besides its vote, every {unit} added its features to the {len(answers.moments)} sums of its class, scaled so "
        f"that all that one {unit} adds to them, as a vector, has a length of at most one vote. "
        f"{which} were released with Gaussian noise of standard "
        f"deviation {rounded(plan.mechanism.moment_noise)} votes. The guarantee covers votes and sums "
        "together.",
        *([errors] if errors else []),
    )


def _sum_remarks(plan: Plan, answers: Answers, task: Task) -> tuple[str, ...]:
    """Return remarks on the contributions of records to sums of features, by the kind of target."""
    if task.target == "labels":
        return _label_remarks(plan, task)
    return (_moment_remarks if task.quantity is None else _quantity_remarks)(plan, answers, task)


def _consent_remarks(plan: Plan, task: Task) -> tuple[str, ...]:
    if task.consent is None:
        return ()
    unit = task.private.unit
    lowest = "" if unit == "record" else " A user whose rows have several levels has the smallest of their weights."
    return (
        f"What a {unit} added was scaled by the weight of its level of consent before the noise. The guarantee holds "
        f"for every {unit}; {unit}s of lower weight have the smaller epsilon of their level.{lowest} The levels, their "
        f"epsilons and their weights are public; how many {unit}s have which level is not released.",
    )


def _label_remarks(plan: Plan, task: Task) -> tuple[str, ...]:
    parameters, unit, labels = plan.mechanism.parameters(), task.private.unit, len(task.classes)
    if plan.labels is not None:
        return (
            f"Rows may have several labels. Every teacher voted for or against each of the {labels} labels of "
            f"{plan.rows} public rows, which makes {plan.queries} queries. The guarantee covers all labels of a {unit} "
            "together.",
        )
    most = int(parameters["max_labels"])
    cast = (
        f"voted for or against each of the {labels} labels"
        if most == labels
        else f"voted for each of its labels (with more than {most} of the {labels} labels, for less than a vote each)"
    )
    return (
        f"Rows may have several labels. Every {unit} {cast}, on the public row that is nearest to it, and added its "
        "features to a sum for each label, scaled so that all that it adds to the sums, as a vector, is at most 0.71 "
        "times as long as its votes. Votes were released with Gaussian noise of standard deviation "
        f"{rounded(parameters['sigma2'])} votes, and sums with {rounded(plan.mechanism.moment_noise)}. The "
        f"guarantee covers all labels of a {unit} together.",
    )


def _quantity_remarks(plan: Plan, answers: Answers, task: Task) -> tuple[str, ...]:
    assert task.quantity is not None
    unit, noise = task.private.unit, plan.mechanism.parameters()["sigma2"]
    narrowed, histogram_noise = "", plan.mechanism.histogram_noise
    ends = "of the range" if plan.narrowed is None else "of this part"
    if histogram_noise is not None:
        part = task.quantity.part(plan.narrowed)
        used = "By this noisy histogram the whole range is needed."
        if plan.narrowed is not None:
            used = (
                f"By this noisy histogram most values are from {rounded(part.low)} to {rounded(part.high)}; values "
                "outside were then replaced by the nearest end of this part of the range, and estimates lie in it."
            )
        narrowed = (
            f"First, every {unit} added one vote to a histogram of the target, which was released with Gaussian noise "
            f"of standard deviation {rounded(histogram_noise)} votes. {used} "
        )
    return (
        f"The target is a quantity with the public range {task.quantity.in_words}; values outside are replaced by "
        f"its nearest end. {narrowed}Every {unit} divided one vote between the two ends {ends}, more for the end "
        "nearer to its value, on the public row that is nearest to it. It also added its features times its quantity "
        f"to sums, scaled so that all that one {unit} adds to them, as a vector, has a length of at most 0.71 votes. "
        f"Votes were released with Gaussian noise of standard deviation {rounded(noise)} votes, and sums with "
        f"{rounded(plan.mechanism.moment_noise)}. {_correction_remark(plan, unit)}{_error_remark(plan, unit)}The "
        "guarantee covers all of them together.",
    )


def _correction_remark(plan: Plan, unit: str) -> str:
    """Return sentences on the sums that correct the student, with a space; empty without them."""
    noise = plan.mechanism.correction_noise
    if noise is None:
        return ""
    return (
        f"A first student learned from these. Then every {unit} added its features times the first student's error to "
        f"sums that correct the student, scaled so that all that one {unit} adds to them, as a vector, has a length of "
        "at most one vote. They were released with noise of "
        f"standard deviation {rounded(noise)} votes. The guarantee covers them, too. "
    )


def _error_remark(plan: Plan, unit: str) -> str:
    """Return a sentence on the counts of errors of the student, with a space; empty without them."""
    noise = plan.mechanism.error_noise
    if noise is None or plan.tuned.get("errors") == NOT_COPIED:
        return ""
    if plan.target == "classes":
        return (
            f"After the student was finished, every {unit} added one vote to counts of the student's errors (its right "
            f"and wrong predictions), which were released with noise of standard deviation {rounded(noise)} votes. The "
            "guarantee covers them, too. "
        )
    return (
        f"After the student was fitted from these, every {unit} added one vote to counts of its errors by size, which "
        f"were released with noise of standard deviation {rounded(noise)} votes, for intervals around the estimates. "
    )


def _gate_remarks(plan: Plan, answers: Answers) -> tuple[str, ...]:
    if plan.gate is None:
        return ()
    if answers.passed:
        return ("The gate passed: all queries were asked.",)
    return (f"The gate refused: only the first {plan.gate.prefix} queries were asked.",)


def _no_claim(plan: Plan) -> tuple[str | None, tuple[str, ...]]:
    if plan.claimable and np.isfinite(plan.guarantee.epsilon):
        return None, ()
    if plan.claimable:
        return (
            f"This release is not differentially private: no epsilon holds for {plan.queries} queries of "
            f"{plan.mechanism.name} at delta {plan.delta:g}."
        ), ()
    reason = plan.mechanism.warning or f"{plan.mechanism.name} has no guarantee that may be claimed."
    remarks: list[str] = []
    claimed = plan.mechanism.claimed_epsilon(queries=plan.queries, delta=plan.delta)
    if claimed is not None:
        remarks.append(f"Claimed by the authors of {plan.mechanism.name}, and not true: epsilon {claimed:.4g}.")
        remarks.append(
            f"Its true worst case at delta {plan.delta:g} is bounded by epsilon "
            f"{epsilon_in_words(plan.bound.epsilon)}; this is too weak to count as a guarantee."
        )
    return reason, tuple(remarks)
