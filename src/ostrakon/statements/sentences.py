"""The privacy statement in words, for the model card."""

from collections.abc import Mapping
from typing import Any

from ostrakon.mechanisms.base import Relation
from ostrakon.statements.statement import LABELS_OF, Unit, delta_in_words, epsilon_in_words

REFITTED = "The student was trained again, from an earlier release"
"""How the remark on a refit begins."""
NOT_COUNTED = "The counts of errors are those of the student of the earlier release, not of this one."
"""The remark on a refit of another student than the one whose errors were counted."""
DROPPED_OUT = " dropped out: nothing of "
"""What the remark on owners that dropped out of a study contains."""
CORRECTED = "corrected by noisy sums of the first student's errors on private records"
"""How the entry of `tuned` on the probabilities, or estimates, of a corrected student begins."""
DISTILLED = "learned from those of a first student for the public rows"
"""The same of a student that learned from another one."""
NOT_CORRECTED = "errors were summed for the student of the earlier release, not for this one"
UNCORRECTED = f"The student is not corrected: {NOT_CORRECTED}."
"""The remark on a refit of another student than the one whose errors were summed."""


def is_corrected(tuned: Mapping[str, str]) -> bool:
    """Return whether the student, or the first one that it learned from, was corrected, from what a statement has under
    `tuned`.
    """
    return any(CORRECTED in tuned.get(name, "") for name in ("probabilities", "estimates"))


def is_distilled(tuned: Mapping[str, str]) -> bool:
    """Return whether the student learned what a first student said of public rows, likewise."""
    return any(tuned.get(name, "").startswith(DISTILLED) for name in ("probabilities", "estimates"))


def student_in_words(student: str, tuned: Mapping[str, str]) -> str:
    """Return a student (in words), and whether it was corrected."""
    corrected = is_corrected(tuned)
    if is_distilled(tuned):
        return f"{student}, trained on the estimates of a first student{', which was corrected' if corrected else ''}"
    return f"{student}, corrected by noisy sums of its errors" if corrected else student


def claim(content: dict[str, Any]) -> str:
    """Return the claim in one sentence."""
    guarantee = content["guarantee"]
    if guarantee is None:
        return content["not_private"]
    private = (
        f"Everything in this release together is ({epsilon_in_words(guarantee['epsilon'])}, "
        f"{delta_in_words(guarantee['delta'])})-differentially private for "
    )
    column = content["unit_column"]
    user = "user" if column is None else f"user (column {column!r})"
    if content["protects"] == "labels":
        whose = "the label of every record" if of_records(content) else f"the labels of every {user}"
        return (
            f"{private}{whose}, and for labels only: features and who is in the data are public and not protected "
            f"({guarantee['kind']})."
        )
    return f"{private}every {'record' if of_records(content) else user} of the private data ({guarantee['kind']})."


def of_records(content: dict[str, Any]) -> bool:
    """Return whether the unit of privacy is one record (or its label), not all rows of a user."""
    return content["unit_of_privacy"] in ("record", LABELS_OF["record"])


def changed_in_words(relation: Relation, unit: Unit) -> str:
    """Return what differs between two data sets that are neighbours."""
    return {
        "add-remove": f"one {unit} more or less",
        "replace": f"one {unit} replaced by another one",
        "labels": "another label of one record" if unit == "record" else "other labels of one user",
        "take-out": f"one {unit} removed (the published number of {unit}s does not change)",
    }[relation]


def otherwise_in_words(relation: Relation, unit: Unit) -> str:
    """Return the other one of two data sets that are neighbours, for a person in the first one."""
    theirs, other = ("record", "another record") if unit == "record" else ("rows", "the rows of another user")
    return {
        "add-remove": f"their {theirs} had been left out",
        "replace": f"{other} had been in the place of theirs",
        "labels": f"their {theirs} had had {'another label' if unit == 'record' else 'other labels'}",
        "take-out": f"their {theirs} had been left out while the published number of {unit}s stayed",
    }[relation]


def questions(content: dict[str, Any]) -> list[tuple[str, str]]:
    """Answer the questions of NIST SP 800-226 about a claim of differential privacy, from the statement."""
    guarantee = content["guarantee"]
    if guarantee is None:
        parameters = f"None is claimed. {content['not_private']}"
    else:
        basis = f" (analysis: {guarantee['basis']})" if "basis" in guarantee else ""
        parameters = (
            f"epsilon {epsilon_in_words(guarantee['epsilon'])}, delta {delta_in_words(guarantee['delta'])}, "
            f"{guarantee['kind']}{basis}. {_KINDS[guarantee['kind']]}"
        )
    implementation = content["implementation"]
    return [
        ("What is one unit of privacy?", _unit(content)),
        ("When are two data sets neighbours?", _neighbours(content)),
        ("What are epsilon and delta, and of which kind?", parameters),
        *([("What holds for each level of consent?", consent_in_words(content))] if "consent" in content else []),
        ("Who is trusted?", f"{content['trust_model']}."),
        ("Which mechanism, with which parameters?", f"{rounds_in_words(content)}."),
        ("How is the budget composed?", f"{content['composition']}."),
        ("Where does the noise come from?", f"{implementation['noise']}."),
        ("Do floating-point numbers leak?", f"{implementation['floating_point']}."),
        (
            "Against whom does it hold?",
            "Anyone who sees the whole release, with any other knowledge and any computing power, but not the folder "
            "private/ or the machine during the run.",
        ),
    ]


def rounds_in_words(content: dict[str, Any]) -> str:
    """Who votes on what, round by round."""
    asked = "; then ".join(_round_in_words(item, described="public_rows" in content) for item in content["rounds"])
    number = f"{content['teachers']:,}"
    if any("max_contributions" in item["parameters"] for item in content["rounds"]):
        one = "record" if of_records(content) else "user"
        return f"{number} teachers vote: every {one} is a teacher of its own. {asked}"
    return f"{number} teachers vote. {asked}"


def consent_in_words(content: dict[str, Any]) -> str:
    """Return the guarantee of each level of consent, one sentence a level, and between which neighbours it holds."""
    stated = content["consent"]
    of = "" if stated["column"] is None else f" of {stated['column']!r}"
    levels = [
        f"Level {one['level']!r}{of}: epsilon {epsilon_in_words(one['epsilon'])} at delta "
        f"{delta_in_words(one['delta'])}, or {epsilon_in_words(one['if_secret'])} if the level is secret. All that is "
        f"added at this level is multiplied by {one['weight']:.4g}."
        for one in stated["levels"]
    ]
    return " ".join([*levels, stated["neighbours"]])


def _neighbours(content: dict[str, Any]) -> str:
    others = "".join(
        f" Under another definition, the same release has epsilon {epsilon_in_words(item['epsilon'])} at delta "
        f"{delta_in_words(item['delta'])}: {item['neighbours'][:1].lower()}{item['neighbours'][1:]}"
        for item in content["epsilon_by_adjacency"][1:]
    )
    return content["adjacency"] + others + (f" {SAME_DEFINITION}" if others else "")


def _unit(content: dict[str, Any]) -> str:
    one = content["unit_of_privacy"]
    if content["protects"] == "labels":
        return f"{one[:1].upper()}{one[1:]}: labels only; features and who is in the data are public and not protected."
    return f"One {one}."


SAME_DEFINITION = "Compare an epsilon only with epsilons that use the same definition of neighbours."

_KINDS = {
    "worst-case": "It holds for all private data and depends on public numbers only.",
    "gated": "It holds for all private data: a noisy test that was fixed beforehand decided about the release.",
}


def _round_in_words(item: dict[str, Any], *, described: bool) -> str:
    parameters = ", ".join(f"{name} {_short(value)}" for name, value in item["parameters"].items() if value is not None)
    cap = "" if item["max_answers"] is None else f", at most {item['max_answers']} answers"
    asked = (
        f"{item['queries']} cells counted"
        if described
        else f"{item['queries']} queries (about rows that are public){cap}, {item['answered']} answered"
    )
    return f"{item['mechanism']} ({parameters}): {asked}"


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
