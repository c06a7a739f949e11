"""The short table at the end of a run."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from ostrakon.accounting.adjacent import Adjacent
from ostrakon.accounting.estimates import CONFIDENCE, NO_BETTER, UNDECIDED, Agreement, Recall
from ostrakon.data.understood import Understood
from ostrakon.estimators.registry import named_in_words
from ostrakon.export.released import ReleasedQuantity
from ostrakon.mechanisms import Mechanism
from ostrakon.planning.plan import Plan
from ostrakon.run.budget import Budget
from ostrakon.run.pipeline import Outcome
from ostrakon.run.stages.estimates import why_no_estimate, why_no_intervals, why_no_recalls
from ostrakon.run.steps import FinishedRun
from ostrakon.statements.sentences import NOT_CORRECTED, changed_in_words, is_corrected, student_in_words
from ostrakon.statements.statement import Unit, delta_in_words, epsilon_in_words, round_up
from ostrakon.students.measures import Measures

RECALL = "Recall by class"
WARNING, HEED = "[bold red]Warning[/]", "Warning: "


def pairs_table(rows: Iterable[tuple[str, str]], *, style: str = "bold") -> Table:
    """Return a table of names, in this style, and what is said of each."""
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style=style, no_wrap=True)
    table.add_column(overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def run_table(outcome: Outcome, *, release: Path) -> Table:
    """Return what a user wants to know first, and where everything is."""
    return pairs_table(_rows(outcome, release))


def tables_side_by_side(outcomes: Mapping[str, tuple[Outcome, Path]]) -> Table:
    """Return the same of several runs, by name: each a column. outcomes: each with its release."""
    table = Table(box=None, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    columns: list[dict[str, list[str]]] = []
    for name, (outcome, release) in outcomes.items():
        table.add_column(escape(name), overflow="fold")
        columns.append({})
        for what, values in _rows(outcome, release):
            columns[-1].setdefault(what, []).append(values)
    for what in dict.fromkeys(what for column in columns for what in column):
        table.add_row(what, *("\n".join(column.get(what, [])) for column in columns))
    return table


def queries_in_words(plan: Plan, asked: int | None = None) -> str:
    """Return the number of queries, and what a query is. asked: their number, if it is not that of the plan."""
    what = "public rows to ask about" if asked is None else "public rows that were asked about"
    by_label = "" if plan.labels is None else f"one for each of {plan.labels} labels of the "
    return f"{plan.queries if asked is None else asked:,} ({by_label}{what})"


def refit_table(run: FinishedRun, *, release: Path) -> Table:
    """Return what was refitted, at which guarantee, and where it is."""
    rows = *_privacy(run), *_student(run), *_measured(run)
    return pairs_table((*rows, ("May be published", str(release))))


def _rows(outcome: Outcome, release: Path) -> Iterator[tuple[str, str]]:
    statement = outcome.statement
    every = f" (every {statement.unit} is one)" if outcome.plan.per_record else ""
    yield "Teachers", f"{statement.teachers:,}{every}"
    if outcome.plan.described:
        yield "Cells counted", f"{statement.queries:,}"
    else:
        yield "Queries", queries_in_words(outcome.plan, statement.queries)
        yield "Answers", f"{statement.answered:,}"
    for index, batch in enumerate(statement.rounds, start=1):
        yield "Mechanism" if len(statement.rounds) == 1 else f"Round {index}", _mechanism(batch.mechanism)
    yield from _privacy(outcome)
    if statement.membership_guess is not None:
        yield (
            "Membership guess" if statement.protects == "records" else "Label guess",
            f"an attacker is right at most {round_up(statement.membership_guess):.2%} of the time, instead of 50%",
        )
    if statement.protects == "labels":
        yield (
            "Unit of privacy",
            f"{statement.unit_of_privacy}: [bold]labels only[/], everything else is public",
        )
    else:
        rows = "" if statement.unit_column is None else f": all rows with the same {escape(statement.unit_column)}"
        yield "Unit of privacy", f"one {statement.unit_of_privacy}{rows}"
    if statement.adjacent:
        yield "Neighbours", neighbours_in_words(statement.adjacent, statement.unit)
    yield from _student(outcome)
    yield from _measured(outcome)
    if outcome.plan.gate is not None and not outcome.answers.passed:
        yield "Gate", f"refused: only the first {outcome.plan.gate.prefix} queries were asked"
    if outcome.budget is not None:
        yield "Budget", _budget(outcome.budget)
    yield "May be published" if statement.guarantee is not None else "Release", str(release)
    yield "Keep private", f"{outcome.folder / 'private'} (nothing in it may leave)"


def _student(run: FinishedRun) -> Iterator[tuple[str, str]]:
    """Yield the student, what it is estimated to be worth, and warnings."""
    measures = run.measures if isinstance(run.measures, Measures) else None
    for remark in run.statement.remarks:
        if measures is not None and remark.startswith(NO_BETTER):
            yield "Note", f"without --publish-accuracy, the first page warns: {escape(remark.removeprefix(HEED))}"
            continue  # the test rows decide
        if measures is not None and remark.startswith(UNDECIDED):
            continue
        if remark.startswith(UNDECIDED):
            yield "Note", escape(remark)
        if remark.startswith(HEED):
            yield WARNING, escape(remark.removeprefix(HEED))
    if measures is not None and (no_better := _no_better(run, measures)):
        yield WARNING, f"on the test rows {no_better}. More records, a larger epsilon or other columns may help."
    if measures is not None and measures.caution:
        yield WARNING, f"on the test rows {measures.caution}."
    yield "Student", escape(student_in_words(named_in_words(run.student_name), run.statement.tuned))
    if run.answers.corrections is not None and not is_corrected(run.statement.tuned):
        yield "Correction", f"none: {NOT_CORRECTED}"
    yield from (_estimate(one) for one in run.statement.estimates if isinstance(one, Agreement))
    yield from _recalls(run)


def _recalls(run: FinishedRun) -> Iterator[tuple[str, str]]:
    """Yield the ranges of the recall of every class, or why nothing is estimated."""
    if not run.statement.estimates and run.plan.target == "classes":
        counted, per_record = run.plan.mechanism.error_noise is not None, run.plan.per_record
        yield "Estimated accuracy", f"none: {why_no_estimate(run.plan.tuned, counted=counted, per_record=per_record)}"
    if why := why_no_recalls(run.statement.estimates):
        yield "Recall by class", why
    for one in run.statement.estimates:
        if isinstance(one, Recall):
            yield one.title, one.in_words()
    yield from _intervals(run)


def _intervals(run: FinishedRun) -> Iterator[tuple[str, str]]:
    """Yield the half-widths of the intervals of a quantity, or why there are none."""
    if not isinstance(run.student, ReleasedQuantity):
        return
    intervals, quantity = run.student.intervals, run.quantity
    if run.plan.mechanism.error_noise is None:
        yield "Intervals", f"none: {why_no_estimate(run.plan.tuned, counted=False, per_record=True)}"
    elif intervals is None or quantity is None:
        yield "Intervals", f"none: {why_no_intervals(run.plan.tuned)}"
    else:
        yield "Intervals", f"on each side of the estimate {intervals.widths_in_words(quantity)}"


def _measured(run: FinishedRun) -> Iterator[tuple[str, str]]:
    """Yield what was measured on test rows; nothing without any."""
    measures = run.measures
    if measures is None:
        return
    if isinstance(measures, Measures):
        yield (
            "Student accuracy",
            f"{measures.accuracy:.1%} on {measures.rows:,} test rows, of which {measures.most_frequent:.1%} have the "
            "most frequent class",
        )
    else:
        yield "Test rows", f"{measures.rows:,}"
    for what, value in measures.in_words().items():
        yield f"  {what}", escape(value)


def _no_better(run: FinishedRun, measures: Measures) -> str | None:
    """Return what says that a student learned nothing, by what it is for (`Options.objective`); None for any other
    student.
    """
    if measures.rank_error is not None and measures.rank_error_of_median is not None:
        always = "the student's mean rank error is not below that of always predicting the median class"
        return always if measures.rank_error >= measures.rank_error_of_median else None
    if getattr(run.student.student, "weights", None) is not None:
        chance = 1 / sum(share is not None for _, share in measures.recall)
        always = f"the student's balanced accuracy is not above that of any constant class, {chance:.1%}"
        return always if measures.balanced_accuracy <= chance else None
    if measures.accuracy > measures.most_frequent:
        return None
    return "the student is right no more often than a model that always predicts their most frequent class"


def understood_table(understood: Understood) -> Table:
    """Return what was understood of the files, to be read before anything is spent."""
    rows = [*understood.facts.items(), *((WARNING, warning) for warning in understood.warnings)]
    rows += [("Note", note) for note in understood.notes]
    return pairs_table(((what, escape(words)) for what, words in rows), style="dim")


def _estimate(estimate: Agreement) -> tuple[str, str]:
    private = estimate.against == "private labels"
    if estimate.of == "majority":
        of = "accuracy" if private else "agreement"
        return "Majority class", f"{estimate.in_words()}: {of} of a model that always predicts the most frequent class"
    if private:
        how = f"in {CONFIDENCE:.0%} of runs; from noisy counts of errors"
        return "Estimated accuracy", f"{estimate.in_words()} on {estimate.counted} ({how})"
    return "Agreement", f"{estimate.in_words()} with released answers that the student had not seen"


def neighbours_in_words(adjacent: Sequence[Adjacent], unit: Unit) -> str:
    """Return the neighbours of the guarantee, and the epsilons of others, with their delta if it differs."""
    first, *others = adjacent
    words = f"this epsilon is for {changed_in_words(first.relation, unit)}"
    for other in others:
        epsilon = f"it is {epsilon_in_words(other.epsilon)}" if math.isfinite(other.epsilon) else "there is none"
        at = "" if other.delta == first.delta else f" at delta {delta_in_words(other.delta)}"
        words += f"; for {changed_in_words(other.relation, unit)}, {epsilon}{at}"
    return words


def _privacy(outcome: FinishedRun) -> Iterator[tuple[str, str]]:
    guarantee = outcome.statement.guarantee
    if guarantee is None:
        yield "Privacy", f"[bold red]NONE[/]: {outcome.statement.not_private}"
        return
    name = "Worst-case" if guarantee.kind == "worst-case" else "Gated"
    yield f"{name} privacy", f"epsilon {epsilon_in_words(guarantee.epsilon)}, delta {delta_in_words(guarantee.delta)}"
    for one in outcome.statement.consent:
        level = f"epsilon {epsilon_in_words(one.epsilon)}, delta {delta_in_words(one.delta)}"
        yield f"  Level {escape(one.level)}", level


def _budget(budget: Budget) -> str:
    account, cap = budget.account, budget.account.cap
    runs = "1 run" if account.total.runs == 1 else f"{account.total.runs} runs"
    return (
        f"{runs} of account {escape(account.name)} together: epsilon {round_up(account.spent):.10g} of {cap.epsilon:g} "
        f"at delta {cap.delta:g}; {account.remaining():g} remains for one more run at that delta, "
        f"because several runs together may cost less than the sum (ostrakon ledger show {escape(budget.url)})"
    )


def _mechanism(mechanism: Mechanism) -> str:
    options = {name for name, parameter in mechanism.declared().items() if parameter.option}
    parameters = ", ".join(
        f"{name} {value:g}"
        for name, value in mechanism.parameters().items()
        if name in options and isinstance(value, int | float)
    )
    return f"{mechanism.name} ({parameters})"
