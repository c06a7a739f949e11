"""The first page: plain words, true to the statement, nothing made up, nothing that what others typed can break."""

import json
from dataclasses import replace

import pytest
from markdown_it import MarkdownIt

from ostrakon.accounting.adjacent import Adjacent
from ostrakon.accounting.epsilons import WorstCase
from ostrakon.accounting.estimates import UNDECIDED, Agreement, Recall
from ostrakon.accounting.privacy_curve import PrivacyCurve
from ostrakon.mechanisms import GNMax
from ostrakon.mechanisms.bounded_gnmax import BoundedGNMax
from ostrakon.options.option import LONGEST
from ostrakon.options.report_details import ReportDetails
from ostrakon.report.first_page import first_page
from ostrakon.report.markdown import escaped
from ostrakon.statements.sentences import REFITTED, claim, questions
from ostrakon.statements.statement import Round, Statement, weak_remark
from ostrakon.students.measures import Measures
from ostrakon.students.prediction_intervals import PredictionIntervals
from ostrakon.validation import InvalidInput

HOSTILE = "<script>alert(1)</script> | **bold** `x`\n\n# Heading\n| a | b |\n|---|---|\n[l](javascript:1) &lt;"
AGREED = {"against": "private labels", "counted": "private records", "sd": 0.01}
STUDENT = Agreement(of="student", share=0.83, low=0.82, high=0.84, **AGREED)
MEASURES = Measures(
    rows=1200,
    accuracy=0.8512,
    balanced_accuracy=0.612,
    most_frequent=0.7,
    recall=(("a", 0.99), ("b", 0.234)),
    auc=0.8,
    average_precision=0.5,
    precision_of="b",
    log_loss=0.4,
    calibration_error=0.02,
)
MAJORITY = Agreement(of="majority", share=0.6, low=0.59, high=0.61, **AGREED)


def content(relation="add-remove", **changes):
    given = {
        "guarantee": WorstCase(epsilon=1.25, delta=1e-5, basis="a theorem"),
        "rounds": (Round(mechanism=GNMax(sigma2=40), queries=9, answered=9),),
        "teachers": 250,
        "classes": ("a", "b"),
        "unit": "record",
        "adjacency": "As it is.",
        "adjacent": (Adjacent(relation=relation, neighbours="As it is.", epsilon=1.25, delta=1e-5),),
        "curve": PrivacyCurve(points=((0.457133, 1e-12),)),
        "noise_is_secure": True,
        "versions": {"ostrakon": "1"},
    }
    return Statement(**(given | changes)).as_dict()


NONE = content(guarantee=None, adjacent=(), curve=None, noise_is_secure=False)


def written(told=None, details=None, date="2026-03-01", **options):
    return "\n\n".join(
        first_page(
            content() if told is None else told,
            details=details or ReportDetails(),
            date=date,
            needs=["numpy", "onnxruntime"],
            **options,
        )
    )


def test_what_nobody_told_is_not_made_up():
    text = written(date=None)
    for what in ("Which data.", "Date of the run.", "Operator.", "Contact.", "Purpose."):
        assert f"**{what}** not given" in text.splitlines()
    assert text.index("How strongly.") < text.index("How accurate the model is.") < text.index("not given")
    assert "Not estimated: the student's errors on private records are counted with per-record teachers only." in text
    assert "The operator published no accuracy on test rows." in text
    assert "--" not in text  # the page is read by people who do not use the command line


def test_what_was_told_is_said():
    who = ReportDetails(operator="Ada", contact="ada@example.org", purpose="Triage", data_name="Stays of 2024")
    text = written(details=who)
    for words in (
        "Operator.** Ada\n",
        "Contact.** ada@example.org\n",
        "Purpose.** Triage",
        "data.** Stays of 2024\n",
    ):
        assert words in text
    assert "**Date of the run.** 2026-03-01\n" in text
    assert "`pip install numpy onnxruntime`" in text
    assert "|" not in text  # no table


@pytest.mark.parametrize(
    ("relation", "unit", "secret"),
    [
        ("add-remove", "record", "whether one particular record was used. If"),
        ("replace", "record", "whether one particular record was used or another one in its place. If"),
        ("add-remove", "user", "whether the rows of one particular user were used. If"),
        ("replace", "user", "whether the rows of one particular user were used or others in their place. If"),
    ],
)
def test_the_odds_are_the_statement_s_rounded_up_and_of_its_neighbours(relation, unit, secret):
    text = written(content(relation, unit=unit, unit_column="patient" if unit == "user" else None))
    assert secret in text
    assert "is right at most **61.24%** of the time" in text
    assert "Formally, epsilon is 1.25 at delta 1e-05. For a person in the data this means: anything" in text
    assert ("had been in the place of theirs, plus" in text) == (relation == "replace")
    assert (f"their {'rows' if unit == 'user' else 'record'} had been left out, plus" in text) == (
        relation == "add-remove"
    )
    assert "at most 3.50 times as probable" in text  # exp(1.25) is 3.4903
    assert "plus 1 in 100,000. The same limit holds the other way round" in text
    assert ("If one person has several records, each record is" in text) == (unit == "record")
    assert ("all rows of one value of the column 'patient'" in text) == (unit == "user")


def test_the_epsilon_is_printed_in_three_digits_rounded_up():
    for exact, shown in ((0.9998, "1"), (1.2341, "1.24")):
        stated = content(
            guarantee=WorstCase(epsilon=exact, delta=1e-5, basis="a theorem"),
            adjacent=(Adjacent(relation="add-remove", neighbours="As it is.", epsilon=exact, delta=1e-5),),
        )
        assert stated["guarantee"]["epsilon"] == exact
        assert f"epsilon is {shown} at delta" in written(stated)
        assert f"({shown}, 1e-05)-differentially private" in claim(stated)
        assert (
            f"epsilon {shown}, delta 1e-05" in dict(questions(stated))["What are epsilon and delta, and of which kind?"]
        )


def test_a_published_number_of_records_is_said():
    everyone = (Round(mechanism=BoundedGNMax(sigma2=40), queries=9, answered=9),)
    said = "The number of private records, 1,250, is published."
    assert said in written(content("replace", rounds=everyone, teachers=1250))
    assert "The number of private users, 1,250, is published." in written(
        content("replace", rounds=everyone, teachers=1250, unit="user")
    )
    assert "is published." not in written(content(teachers=1250))  # of trained teachers only their number is


def test_advice_for_the_operator_is_not_on_the_page():
    weak = weak_remark(12.0)
    assert "For the operator: a smaller epsilon" in weak
    text = written(content(remarks=(weak, "Warning: the student is bad. For the operator: try more.")))
    assert "is a weak promise" in text
    assert "**Warning: the student is bad.**" in text
    assert "operator:" not in text


def test_a_model_of_several_labels_says_why_nothing_is_estimated_and_what_shows_it():
    text = written(content(several=True))
    assert "Not estimated: errors on private records are counted for models of one label per row only. Rows" in text


def test_the_page_says_whether_a_ledger_recorded_the_release():
    assert "No ledger recorded this release." in written()
    assert "A ledger recorded this release" in written(ledger=True)
    assert "ledger recorded" not in written(ledger=None)
    assert "ledger" not in written(NONE, ledger=True)


def test_without_a_guarantee_nothing_is_promised():
    text = written(NONE)
    assert "**What is protected.** Nothing." in text
    assert "not differentially private" in text
    assert "%" not in text.replace("not given", "")


def test_how_good_it_is_stands_beside_the_majority_and_the_test():
    text = written(estimates=[STUDENT, MAJORITY], measures=MEASURES)
    assert "On the private records, the student's accuracy is between 82.0% and 84.0%, by noisy counts" in text
    assert "always predicts the most frequent label has between 59.0% and 61.0%." in text
    assert "Each range holds in 95% of runs." in text
    assert "It is right on 85.12% of 1,200 test rows that the operator declared public, and on 61.20% if" in text
    answers = [
        Agreement(
            of=of,
            against="held-out released answers",
            counted="answered queries",
            share=0.8,
            sd=0.1,
            low=0.7,
            high=0.9,
        )
        for of in ("student", "majority")
    ]
    unclear = written(estimates=[replace(STUDENT, low=0.05, high=0.95)])
    assert "is between 5.0% and 95.0% (few data or much noise), by noisy counts" in unclear
    assert "to tell" not in text
    assert "published no accuracy" not in text
    assert "not an accuracy" in written(estimates=answers)
    assert "not an accuracy" not in text


def test_recall_is_said_where_it_says_something():
    def ranges(*ends):
        return [
            Recall(label=label, counted="records", low=low, high=high)
            for label, (low, high) in zip(["well", "ill", None], ends, strict=True)
        ]

    text = written(estimates=ranges((0.8, 1), (0.2, 0.448), (0.55, 0.9)))
    assert (
        "By the same counts, if every class counts the same, its accuracy is between 55.0% and 90.0%, and it "
        "recognises between 20.0% and 44.8% of the cases of 'ill', the class with the lowest range (each in 95% "
        "of runs)."
    ) in text
    assert "between 20.0%" not in written(estimates=ranges((0.8, 1), (0.2, 0.448), (0.55, 0.9)), measures=MEASURES)
    # A wider range of another class may be lower.
    wide = written(estimates=ranges((0.03, 0.81), (0.2, 0.448), (0.55, 0.9)))
    assert "and 44.8% of the cases of 'ill' (each" in wide
    assert "By the same counts" not in written(estimates=ranges((0, 1), (0, 1), (0, 1)))


def test_ranks_are_said_of_ordered_classes():
    ordered = replace(MEASURES, rank_error=0.5, rank_error_of_median=0.75)
    assert "the student is 0.500 ranks away on average, and the median label 0.750." in written(measures=ordered)
    assert "ranks" not in written(measures=MEASURES)


def test_probabilities_that_are_far_off_are_warned_of():
    said = "Warning: the student's probabilities differ from how often it is right by 28.7 points on average: use"
    assert said in written(measures=replace(MEASURES, calibration_error=0.287))
    assert "Warning" not in written(measures=MEASURES)


def test_a_warning_comes_first():
    text = written(content(remarks=("Warning: it knows one class.", "By the way.")))
    assert text.index("**Warning: it knows one class.**") < text.index("What is protected")
    assert "By the way" not in text


def test_hostile_words_are_shown_and_have_no_effect():
    text = written(details=ReportDetails(**dict.fromkeys(("operator", "contact", "purpose", "data_name"), HOSTILE)))
    # A reader that lets HTML through, as the page's own does not.
    tokens = MarkdownIt("commonmark", {"html": True}).enable("table").parse(text)
    kinds = {each.type for token in tokens for each in (token, *(token.children or []))}
    assert not kinds & {"html_block", "html_inline", "link_open", "table_open", "hr"}
    assert [token.tag for token in tokens if token.type == "heading_open"] == ["h2"]
    said = "".join(each.content for token in tokens for each in token.children or [] if each.type == "text")
    assert said.count(" ".join(HOSTILE.split())) == 4


@pytest.mark.parametrize("text", ["plain words", "St. Mary's (ward 3), 5 < 6", "snake_case_name", "a & b"])
def test_plain_words_stay_readable(text):
    assert escaped(text).replace("\\<", "<") == text
    assert MarkdownIt().renderInline(escaped(text)) == MarkdownIt().renderInline(text)


@pytest.mark.parametrize("name", ["operator", "contact", "purpose", "data_name"])
@pytest.mark.parametrize("value", ["", " \n ", "x" * (LONGEST + 1), 7, True, ["Ada"], b"Ada"])
def test_what_is_not_a_line_of_text_is_refused(name, value):
    with pytest.raises(InvalidInput, match=rf"^{name} must be text of 1 to {LONGEST} characters, got "):
        ReportDetails(**{name: value})


@pytest.mark.parametrize("sign", ["\x00", "\x1b", "\u202e", "\u2066", "\ud800", "\u200e", "\u061c", "\ufeff", "\u2061"])
def test_characters_that_hide_or_turn_words_are_refused(sign):
    with pytest.raises(InvalidInput, match="operator must be text without control characters"):
        ReportDetails(operator=f"Ada{sign}x")


def test_letters_may_be_told_to_join_or_not():
    name = "\u0646\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"
    assert ReportDetails(operator=name).operator == name


def test_particulars_come_back_from_a_file():
    who = ReportDetails(operator="Ada\nL.", data_name="Überweisungen")
    told = who.as_toml()
    assert told == {"operator": "Ada L.", "data_name": "Überweisungen"}
    assert ReportDetails(**ReportDetails.from_toml(told, "run.toml")) == who
    assert json.loads(json.dumps(told)) == told


def test_why_nothing_is_estimated_is_said():
    without = Round(mechanism=BoundedGNMax(sigma2=40), queries=9, answered=9)
    given = {"epsilon, errors": "given by the operator"}
    for tuned, why in (
        ({"epsilon": "given by the operator", "errors": "a default"}, "too few records for this epsilon"),
        (
            {"epsilon": "given by the operator", "number of queries": "given by the operator"},
            "too few records for this epsilon and the given number of queries",
        ),
        (given, "errors=0 was given"),
        ({}, "the noise was given instead of an epsilon"),
        ({"errors, sigma2": "given by the operator"}, "the noise was given instead of an epsilon"),
        ({"weights": "the largest"}, "records have levels of consent"),
        ({"max_contributions, owners_per_person": "given by the operator"}, "several owners take part"),
    ):
        assert f"Not estimated: {why}." in written(content(rounds=(without,), tuned=tuned))
    of_another = replace(without, mechanism=BoundedGNMax(sigma2=40, errors=0.05))
    text = written(content(rounds=(of_another,), tuned=given))
    assert "Not estimated: errors were counted for the student of the earlier release, not for this one." in text


def test_a_quantity_with_intervals_is_not_called_not_estimated():
    quantity = content(classes=(), quantity=(0.0, 30.0))
    intervals = PredictionIntervals(half_widths={0.9: 4.5}, of="private records")
    assert "**How accurate the model is.** On private records the estimate is wrong by at most 4.5" in written(
        quantity, intervals=intervals
    )
    assert "estimated:" not in written(quantity, intervals=intervals)
    assert "Not estimated:" in written(quantity)


def test_a_refit_is_not_said_to_be_added():
    text = written(content(remarks=(f"{REFITTED} (SHA-256 …).",)))
    assert "covers this release and the release that it was trained from together: this one adds nothing" in text
    assert "No ledger recorded the release that it was trained from." in text
    assert "for this release only" not in text


def test_what_the_released_numbers_tell_is_said_once():
    text = written(content(remarks=(f"{UNDECIDED}: they are too few for an estimate.",)))
    assert text.count(UNDECIDED) == 1
    assert "Not estimated" not in text


def test_ostrakon_is_not_called_unneeded_where_its_encoder_is_needed():
    text = written(encoded_with=["ostrakon[text]"])
    assert "ostrakon is not needed" not in text
    assert "is not included and is installed with `pip install 'ostrakon[text]'`" in text
