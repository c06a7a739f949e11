"""The first page: what a release protects, how strongly, who answers for it and how good it is, in plain words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ostrakon.accounting.estimates import CONFIDENCE, Agreement
from ostrakon.options.report_details import ReportDetails
from ostrakon.report.markdown import escaped
from ostrakon.statements.sentences import of_records

TITLE = "In plain words"
NOT_GIVEN = "not given"
WARNING = "Warning"


def first_page(
    content: dict[str, Any],
    *,
    details: ReportDetails,
    date: str | None,
    needs: Sequence[str],
    encoded_with: Sequence[str] | None = None,
    estimates: Sequence[Agreement] = (),
    accuracy: float | None = None,
    test_rows: int = 0,
) -> list[str]:
    """Paragraphs of Markdown, without a table.

    content: what `statement.json` says. details: what the operator told; nothing is put in its place. date: the day
    of the run. needs: packages that the student needs. encoded_with: those that make the features that it takes; empty
    where these were made before, None where it takes rows as they are. estimates: of the student and of the majority,
    from released numbers. accuracy: on the `test_rows` rows of a test file that the operator declared public, else
    None.
    """
    told = {
        "What was protected.": protected(content),
        "How strongly.": strength(content),
        "Which data.": _told(details.data_name),
        "Date of the run.": _told(date),
        "Operator.": _told(details.operator),
        "Contact.": _told(details.contact),
        "Purpose.": _told(details.purpose),
        "How good the student is.": _quality(content, estimates, accuracy, test_rows),
        "What to install to use it.": (
            f"Python with {' and '.join(needs)} (`pip install {' '.join(needs)}`), nothing of ostrakon; the lines that "
            f'load it stand below, under "How to load it".{_encoded(encoded_with)}'
        ),
    }
    rows = "public rows" if content["protects"] == "records" else "rows whose labels alone are private"
    if "public_rows" in content:
        rows = "synthetic rows, drawn from noisy counts of the private ones,"
    sums = any(asked["parameters"].get("moments") for asked in content["rounds"])
    votes = "noisy votes of teachers" + (" and noisy sums of the private rows' features" if sums else "")
    return [
        f"## {TITLE}",
        f"This release holds a model, the student, made by ostrakon: it learned from {votes} on {rows} "
        f"(PATE), and says which of {len(content['classes'])} labels a row has. Details follow the first page.",
        *(f"**{escaped(remark)}**" for remark in content["remarks"] if remark.startswith(WARNING)),
        *(f"**{what}** {answer}" for what, answer in told.items()),
    ]


def _encoded(packages: Sequence[str] | None) -> str:
    if packages is None:
        return ""
    made = " It takes numbers that are made of a row by what is not in this folder"
    with_them = "".join(f" (`pip install '{name}'`)" for name in packages)
    return f'{made}{with_them}: see "The features that it takes".'


def protected(content: dict[str, Any]) -> str:
    """What one unit of privacy is, in plain words."""
    if content["guarantee"] is None:
        return "Nothing."
    column = content["unit_column"]
    named = "" if column is None else f" (all rows of one value of the column {escaped(repr(column))})"
    if content["protects"] == "labels":
        one = (
            "The label of one record, whichever it is"
            if of_records(content)
            else f"The labels of all rows of any one user{named}"
        )
        one += ". Labels only: features, and who is in the data, are taken to be public and are not protected"
    elif of_records(content):
        one = "Any one record of the private data"
    else:
        one = f"Any one user of the private data, with all of their rows{named}"
    return f"{one}. What this does not cover is listed below."


def strength(content: dict[str, Any]) -> str:
    """The attacker's best odds, in plain words."""
    guarantee, guess = content["guarantee"], content["membership_guess"] or content["label_guess"]
    if guarantee is None:
        return f"{escaped(content['not_private'])} No odds can be stated."
    formal = f"epsilon {guarantee['epsilon']:.10g} at delta {guarantee['delta']!r}"
    if guess is None:
        return f"By {formal}."
    told = content["epsilon_by_adjacency"]
    # Where the number of records is public, none is only added: the other data set has another one in its place.
    replaced = bool(told) and told[0]["relation"] == "replace"
    if content["protects"] == "labels":
        secret = (
            "which of two labels one particular record has"
            if of_records(content)
            else "which of two labellings the rows of one particular user have"
        )
    elif of_records(content):
        secret = "whether one particular record was used" + (", or another in its place" if replaced else "")
    else:
        secret = "whether the rows of one particular user were used" + (
            ", or others in their place" if replaced else ""
        )
    return (
        f"Somebody who guesses {secret}, and who would be right half the time without this release, "
        f"is right in at most **{guess['at_most']:.2%}** of guesses with it, whatever else they know. In the "
        f"field's numbers: {formal}."
    )


def _told(text: str | None) -> str:
    return NOT_GIVEN if text is None else escaped(text)


def _quality(content: dict[str, Any], estimates: Sequence[Agreement], accuracy: float | None, test_rows: int) -> str:
    by = {each.of: each for each in estimates}
    said: list[str] = []
    if "student" in by and "majority" in by:
        student, majority = by["student"], by["majority"]
        if student.against == "private labels":
            said.append(
                f"The student is right on {student.in_words()} of the {student.counted}, estimated from released "
                "numbers alone. A model that always predicts the most frequent label is right on "
                f"{majority.in_words()}. These statements hold in {CONFIDENCE:.0%} of runs, if public and private rows "
                "with similar features are alike."
            )
            if not of_records(content):
                said.append("A cell is the set of rows that are nearest to the same public row.")
        else:
            said.append(
                f"The student predicts the released answer of {student.in_words()} of the {student.counted} that it "
                "was not taught. A model that always predicts the most frequent label does so for "
                f"{majority.in_words()}. This is agreement with noisy answers, not an accuracy; the ranges hold in "
                f"{CONFIDENCE:.0%} of runs."
            )
    if not said:
        said.append("Not known from released numbers: no estimate can be made of them.")
    if accuracy is not None:
        said.append(f"On {test_rows:,} test rows that the operator declared public: {accuracy:.2%} right.")
    else:
        said.append(
            "No accuracy on test rows is published: where they are public, too, `--test` with `--publish-accuracy` "
            "puts it here."
        )
    return " ".join(said)
