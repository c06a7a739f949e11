"""The first page: what a release protects, how strongly, who answers for it and how good it is, in plain words."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from ostrakon.accounting.estimates import CONFIDENCE, NO_BETTER, UNDECIDED, Agreement, Recall
from ostrakon.data.quantity import Quantity, rounded
from ostrakon.options.report_details import ReportDetails
from ostrakon.report.markdown import escaped
from ostrakon.run.stages.estimates import why_no_estimate
from ostrakon.statements.sentences import (
    DROPPED_OUT,
    REFITTED,
    consent_in_words,
    is_corrected,
    is_distilled,
    of_records,
    otherwise_in_words,
)
from ostrakon.statements.statement import FOR_OPERATOR, Unit, delta_in_words, epsilon_in_words, factor_in_words
from ostrakon.students.measures import AnyMeasures, Measures
from ostrakon.students.prediction_intervals import PredictionIntervals
from ostrakon.students.prediction_sets import PredictionSets

TITLE = "In plain words"
NOT_GIVEN = "not given"
WARNING = "Warning"
_OTHERWISE = "the data differed in what is protected"
_WORTH_SAYING = 0.9
"""Upper ends of recall from here on say nothing that a reader of the first page needs."""


def first_page(
    content: dict[str, Any],
    *,
    details: ReportDetails,
    date: str | None,
    needs: Sequence[str],
    ledger: bool | None = False,
    encoded_with: Sequence[str] | None = None,
    estimates: Sequence[Agreement | Recall] = (),
    measures: AnyMeasures | None = None,
    sets: PredictionSets | None = None,
    intervals: PredictionIntervals | None = None,
    sums: bool = True,
) -> list[str]:
    """Paragraphs of Markdown, without a table.

    Parameters
    ----------
    content : dict
        The content of `statement.json`.
    details : ReportDetails
        Given by the operator. Missing details are called "not given".
    date : str or None
        Day of the run.
    needs : sequence of str
        Packages that the student needs.
    ledger : bool or None
        Whether a ledger recorded the run; None if only the owners of a study know.
    encoded_with : sequence of str, optional
        Packages that compute the features of the student. Empty if the features are given, None if it takes raw rows.
    estimates : sequence of Agreement or Recall
        Of the student and of the majority class, and of every class, from released numbers.
    measures : AnyMeasures, optional
        On the rows of a test file that the operator declared public.
    sets : PredictionSets, optional
        Of the student, where it has some.
    intervals : PredictionIntervals, optional
        Of the student of a quantity, where its errors were counted.
    sums : bool
        Whether the student learned from sums of features, if any were released.
    """
    dropped = [remark for remark in content["remarks"] if DROPPED_OUT in remark]
    facts = {
        "What is protected.": protected(content),
        "How strongly.": strength(content),
        **({"By level of consent.": escaped(consent_in_words(content))} if "consent" in content else {}),
        "How accurate the model is.": _quality(content, estimates, measures, intervals),
        **({} if sets is None else {"Sets of labels.": sets.in_words()}),
        "Other releases.": _other_releases(content, ledger),
        **({"Whose data are missing.": escaped(dropped[0])} if dropped else {}),
        "How to use it.": (
            f"Install Python with {' and '.join(needs)} (`pip install {' '.join(needs)}`); the student itself does not "
            f'need ostrakon. The section "How to load it" shows the code.{_encoded(encoded_with)}'
        ),
        "Which data.": _escape_or_default(details.data_name),
        "Date of the run.": _escape_or_default(date),
        "Operator.": _escape_or_default(details.operator),
        "Contact.": _escape_or_default(details.contact),
        "Purpose.": _escape_or_default(details.purpose),
    }
    decided = isinstance(measures, Measures)  # by test rows
    return [
        f"## {TITLE}",
        f"This release contains a model, called the student. {predicts(content)} It "
        f"was trained with ostrakon by PATE: {_learned_from(content, sums=sums)}. The details follow this page.",
        *(
            f"**{escaped(remark.partition(FOR_OPERATOR)[0])}**"
            for remark in content["remarks"]
            if remark.startswith(WARNING) and not (decided and remark.startswith(NO_BETTER))
        ),
        *(f"**{what}** {answer}" for what, answer in facts.items()),
    ]


def _learned_from(content: dict[str, Any], *, sums: bool) -> str:
    """Return from what the student learned. sums: as of `first_page`."""
    if "public_rows" in content:
        return "it learned from noisy counts of the private rows by column, without public rows"
    rows = "public rows" if content["protects"] == "records" else "rows of which only the labels are private"
    sums = sums and any(batch["parameters"].get("moments") for batch in content["rounds"])
    more = ", noisy votes of teachers and noisy sums of the private rows' features"
    votes = rows + (more if sums else " and noisy votes of teachers")
    if "quantity" in content:
        features = "features and " if sums else ""
        votes = f"{rows} and noisy sums of the private rows' {features}quantities"
    if is_corrected(content["tuned"]):
        votes += "; noisy sums of its errors on the private rows corrected it"
    if not is_distilled(content["tuned"]):
        return f"it learned from {votes}"
    return (
        f"a first student learned from {votes}; the released student was trained on its estimates for the public rows"
    )


def _counts_errors(content: dict[str, Any]) -> bool:
    """Return whether errors of a student were counted: of this one, or of that of the earlier release."""
    return any(batch["parameters"].get("errors") for batch in content["rounds"])


def predicts(content: dict[str, Any]) -> str:
    """Return what the student predicts, in one sentence."""
    if "quantity" in content:
        estimates = f"It estimates a quantity from {_in_words(content['quantity'])}."
        if "clipped" not in content:
            return estimates
        part = "{} to {}".format(*(rounded(content["clipped"][end]) for end in ("low", "high")))
        return f"{estimates} Its estimates are from {part}: private values outside counted as the nearest of these two."
    if "several_labels" in content:
        return f"It predicts which of {len(content['classes'])} labels a row has; it may have none or several."
    return f"It predicts one of {len(content['classes'])} labels."


def _in_words(ends: dict[str, float]) -> str:
    """Return a range of a quantity in words."""
    return "{low:.10g} to {high:.10g}".format(**ends)


def _encoded(packages: Sequence[str] | None) -> str:
    if packages is None:
        return ""
    install = "".join(f" and is installed with `pip install '{name}'`" for name in packages)
    return (
        f" It takes features, not raw rows. The encoder that computes them is not included{install}: see "
        '"The features that it takes".'
    )


def protected(content: dict[str, Any]) -> str:
    """Return what one unit of privacy is, in plain words."""
    if content["guarantee"] is None:
        return "Nothing."
    column = content["unit_column"]
    by_column = "" if column is None else f" (all rows of one value of the column {escaped(repr(column))})"
    if content["protects"] == "labels":
        one = (
            "The label of every single record"
            if of_records(content)
            else f"The labels of every single user, on all of their rows{by_column}"
        )
        one += ". Only labels are protected: the features, and who is in the data, are treated as public"
    elif of_records(content):
        one = "Every single record of the private data"
    else:
        one = f"Every single user of the private data, with all of their rows{by_column}"
    if of_records(content):
        unit = "label" if content["protects"] == "labels" else "record"
        one += f". If one person has several records, each {unit} is protected, but not all of them together"
    owners = content["rounds"][0]["parameters"].get("owners_per_person", 1)
    if content["protects"] == "records" and _per_record(content) and owners == 1:
        one += f". The number of private {content['unit_of_privacy']}s, {content['teachers']:,}, is published"
    known = content["protects"] == "labels" or "public_rows" in content
    public = "" if known else " People in the public file are not protected."
    return f'{one}.{public} The section "Privacy" lists what is not covered.'


def strength(content: dict[str, Any]) -> str:
    """Return the attacker's best odds, in plain words."""
    guarantee, guess = content["guarantee"], content["membership_guess"] or content["label_guess"]
    if guarantee is None:
        return f"{escaped(content['not_private'])} No limit can be stated."
    definitions = content["epsilon_by_adjacency"]
    unit: Unit = "record" if of_records(content) else "user"
    other = otherwise_in_words(definitions[0]["relation"], unit) if definitions else _OTHERWISE
    formal = (
        f"Formally, epsilon is {epsilon_in_words(guarantee['epsilon'])} at delta {delta_in_words(guarantee['delta'])}. "
        "For a person in the data this means: anything that may follow from this release is at most "
        f"{factor_in_words(guarantee['epsilon'])} times as probable as it would be if {other}, plus "
        f"1 in {int(1 / Decimal(repr(guarantee['delta']))):,}. The same limit holds the other way round, for anything "
        "that would have followed then."
    )
    if guess is None:
        return formal
    # Where the number of records is public, none is only added: the other data set has another one in its place.
    replaced = bool(definitions) and definitions[0]["relation"] == "replace"
    if content["protects"] == "labels":
        secret = (
            "which of two labels one particular record has"
            if of_records(content)
            else "which of two labellings the rows of one particular user have"
        )
    elif of_records(content):
        secret = "whether one particular record was used" + (" or another one in its place" if replaced else "")
    else:
        secret = "whether the rows of one particular user were used" + (" or others in their place" if replaced else "")
    return (
        f"An attacker guesses {secret}. If the attacker is right 50% of the time without this release, the attacker "
        f"is right at most **{guess['at_most']:.2%}** of the time with it, with any other knowledge. {formal}"
    )


_RECORDED = {
    True: "A ledger recorded {} and adds up the costs.",
    False: "No ledger recorded {}.",
    None: "Owners may have recorded it in their own ledgers.",
}


def _other_releases(content: dict[str, Any], ledger: bool | None) -> str:
    if content["guarantee"] is None:
        return "Not covered."
    scope, which = "This guarantee is for this release only.", "this release"
    if any(remark.startswith(REFITTED) for remark in content["remarks"]):
        which = "the release that it was trained from"
        scope = f"This guarantee covers this release and {which} together: this one adds nothing to the total."
    return f"{scope} Other releases from the same data add to the total. {_RECORDED[ledger].format(which)}"


def _escape_or_default(text: str | None) -> str:
    return NOT_GIVEN if text is None else escaped(text)


def _quality(
    content: dict[str, Any],
    estimates: Sequence[Agreement | Recall],
    measures: AnyMeasures | None,
    intervals: PredictionIntervals | None = None,
) -> str:
    by = {estimate.of: estimate for estimate in estimates if isinstance(estimate, Agreement)}
    sentences: list[str] = []
    if intervals is not None:
        sentences.append(intervals.in_words(Quantity(**content["quantity"])))
    if "student" in by:
        student, majority = by["student"], by.get("majority")
        always = (
            ""
            if majority is None
            else f" A model that always predicts the most frequent label {{}} {majority.in_words()}."
        )
        if student.against == "private labels":
            sentences.append(
                f"On the {student.counted}, the student's accuracy is {student.in_words()}, by noisy counts of its "
                f"errors.{always.format('has')} Each range holds in {CONFIDENCE:.0%} of runs."
            )
        else:
            sentences.append(
                f"The student agrees with the released answer on {student.in_words()} of the {student.counted} that it "
                f"did not learn from.{always.format('agrees on')} This is agreement with noisy answers, not an "
                f"accuracy; each range holds in {CONFIDENCE:.0%} of runs."
            )
    recalls = [estimate for estimate in estimates if isinstance(estimate, Recall)]
    if measures is None:
        sentences += _by_class(recalls)
    undecided = [escaped(remark) for remark in content["remarks"] if remark.startswith(UNDECIDED)]
    if isinstance(measures, Measures):
        undecided = []  # the test rows decide
    sentences += undecided or ([] if sentences else [_none_known(content, tested=measures is not None)])
    return " ".join([*sentences, *_on_test_rows(measures)])


def _per_record(content: dict[str, Any]) -> bool:
    """Return whether every record (or user) is a teacher."""
    return "max_contributions" in content["rounds"][0]["parameters"]


def _none_known(content: dict[str, Any], *, tested: bool) -> str:
    """Return why nothing is known from released numbers. tested: whether something is known from test rows."""
    if "several_labels" in content:
        how = "" if tested else " Rows whose labels are known, and which it did not learn from, show how good it is."
        return f"Not estimated: errors on private records are counted for models of one label per row only.{how}"
    why = why_no_estimate(content["tuned"], counted=_counts_errors(content), per_record=_per_record(content))
    return f"Not estimated: {why}."


def _on_test_rows(measures: AnyMeasures | None) -> list[str]:
    if measures is None:
        return ["The operator published no accuracy on test rows."]
    if not isinstance(measures, Measures):
        results = "; ".join(f"{what} {value}" for what, value in measures.in_words().items())
        return [f"On {measures.rows:,} test rows that the operator declared public: {results}."]
    sentences = [
        f"It is right on {measures.accuracy:.2%} of {measures.rows:,} test rows that the operator declared public, "
        f"and on {measures.balanced_accuracy:.2%} if every class counts the same. A model that always predicts the "
        f"most frequent label of these rows is right on {measures.most_frequent:.2%}."
    ]
    if measures.caution:
        sentences.append(f"Warning: {measures.caution}.")
    if measures.rank_error is not None:
        sentences.append(
            f"The labels have an order: the student is {measures.rank_error:.3f} ranks away on average, and the "
            f"median label {measures.rank_error_of_median:.3f}."
        )
    return sentences


def _by_class(recalls: Sequence[Recall]) -> list[str]:
    """Return how well classes are recognised, in one sentence; nothing where the ranges say nothing of it."""
    if not recalls:
        return []
    *classes, mean = recalls
    worst = min(classes, key=lambda one: one.high)
    sentences: list[str] = []
    if mean.low > 1 / len(classes) or mean.high < _WORTH_SAYING:
        sentences.append(f"if every class counts the same, its accuracy is {mean.in_words()}")
    if worst.high < _WORTH_SAYING:
        rank = ", the class with the lowest range" if worst.low <= min(one.low for one in classes) else ""
        sentences.append(f"it recognises {worst.in_words()} of the cases of {escaped(repr(worst.label))}{rank}")
    runs = f"{'each ' if len(sentences) > 1 else ''}in {CONFIDENCE:.0%} of runs"
    return [f"By the same counts, {', and '.join(sentences)} ({runs})."] if sentences else []
