"""The published JSON Schemas hold of what ostrakon writes, and of nothing else."""

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

from ostrakon.accounting.adjacent import Adjacent
from ostrakon.accounting.epsilons import Gated, Sanitized, WorstCase
from ostrakon.accounting.estimates import Agreement, Recall
from ostrakon.accounting.privacy_curve import PrivacyCurve
from ostrakon.audit.one_run import OneRunAudit
from ostrakon.cli import app
from ostrakon.mechanisms import BoundedGNMax, ConfidentGNMax, GNMax, InteractiveGNMax, QuantityGNMax
from ostrakon.options.report_details import ReportDetails
from ostrakon.report.registry import registry_entry
from ostrakon.schemas import SCHEMAS, schema, schema_text
from ostrakon.statements.statement import Round, Statement
from ostrakon.validation import InvalidInput

CONFIDENT = ["--mechanism", "confident-gnmax", "--threshold", "15", "--sigma1", "10", "--sigma2", "4"]
ACCOUNTS = {
    "confident-gnmax": CONFIDENT,
    "gated": ["--mechanism", "gnmax", "--sigma2", "4", "--plurality", "0.9"],
    "lnmax": ["--mechanism", "lnmax", "--gamma", "0.5"],
    "permute-and-flip": ["--mechanism", "permute-and-flip", "--epsilon-per-query", "0.1"],
    "immutable": ["--mechanism", "immutable", "--constant", "10", "--gamma", "0.1"],
    "no bound": ["--mechanism", "propose-test-release", "--threshold", "1", "--epsilon-per-query", "1"],
    "bounded-gnmax": ["--mechanism", "bounded-gnmax", "--sigma2", "50", "--kind", "predictions"],
    "sparse-vector": [
        "--mechanism",
        "sparse-vector",
        "--threshold",
        "15",
        "--refusals",
        "2",
        "--epsilon1",
        "0.2",
        "--epsilon2",
        "0.2",
    ],
}
AUDITS = {
    "lnmax": ["--mechanism", "lnmax", "--gamma", "0.05", "--queries", "1"],
    "refuted": ["--mechanism", "immutable", "--constant", "100", "--gamma", "0.1", "--queries", "1"],
    "tables": ["--mechanism", "bounded-gnmax", "--sigma2", "50"],
}
BASE: dict[str, Any] = {
    "teachers": 250,
    "classes": ("a", "b"),
    "unit": "user",
    "unit_column": "patient",
    "adjacency": "One patient more.",
    "versions": {"ostrakon": "1.0"},
}
AGREED: dict[str, Any] = {
    "of": "student",
    "against": "private labels",
    "counted": "private records",
    "share": 0.83,
    "sd": 0.003,
    "low": 0.824,
    "high": 0.836,
}
CLAIMED = Adjacent(relation="add-remove", neighbours="One patient more.", epsilon=1.25, delta=1e-5)


def statements() -> dict[str, dict[str, Any]]:
    confident = Round(
        mechanism=ConfidentGNMax(threshold=200, sigma1=150, sigma2=40), queries=9, answered=5, max_answers=6
    )
    guided = InteractiveGNMax(threshold=20, sigma1=15, sigma2=4, scores=np.full((9, 2), 0.5))
    found = {
        "worst case": Statement(
            guarantee=WorstCase(epsilon=1.25, delta=1e-5, basis="a theorem"),
            rounds=(confident, Round(mechanism=guided, queries=9, answered=9)),
            noise_is_secure=True,
            adjacent=(CLAIMED,),
            curve=PrivacyCurve(points=((1.25, 1e-5), (0.9, 1e-3)), mu=0.3),
            remarks=("Heed this.",),
            tuned={"sigma2": "public data"},
            **BASE,
        ),
        "gated": Statement(
            guarantee=Gated(epsilon=1.5, delta=1e-5, levels=((0.9, 8.0, 0.5),)),
            rounds=(Round(mechanism=GNMax(sigma2=40), queries=9, answered=9),),
            noise_is_secure=True,
            estimates=(
                Sanitized(mean=-0.3, sd=0.1, upper=1.7),
                Agreement(**AGREED),
                Agreement(**{**AGREED, "of": "majority", "against": "held-out released answers"}),
                *(Recall(label=label, counted="records", low=0.2, high=0.9) for label in ("yes", None)),
            ),
            **BASE,
        ),
        "counts": Statement(
            guarantee=WorstCase(epsilon=0.1, delta=1e-5, basis="a theorem"),
            rounds=(Round(mechanism=BoundedGNMax(sigma2=50), queries=9, answered=9),),
            noise_is_secure=True,
            **BASE,
        ),
        "quantity": Statement(
            guarantee=WorstCase(epsilon=0.1, delta=1e-5, basis="a theorem"),
            rounds=(Round(mechanism=QuantityGNMax(sigma2=50), queries=9, answered=9),),
            noise_is_secure=True,
            quantity=(0.0, 50.0),
            **{**BASE, "classes": ()},
        ),
        "not private": Statement(
            guarantee=None,
            rounds=(Round(mechanism=GNMax(sigma2=40), queries=9, answered=9),),
            noise_is_secure=False,
            **BASE,
        ),
    }
    return {name: statement.as_dict() for name, statement in found.items()}


def entries() -> list[dict[str, Any]]:
    """Drafts for the registry: all that may be told, and next to nothing."""
    found = statements()
    who = ReportDetails(operator="Ada", contact="ada@example.org", purpose="Triage", data_name="Stays")
    agreed = [Agreement(**AGREED)]
    return [
        registry_entry(found["worst case"], details=who, date="2026-03-01", units=250, estimates=agreed),
        registry_entry(found["gated"], details=ReportDetails(), date=None, units=None),
    ]


def of_run(claimed: float) -> dict[str, Any]:
    return OneRunAudit(
        mechanism="bounded-gnmax",
        claimed=claimed,
        lower_bound=0.5,
        confidence=0.95,
        delta=1e-5,
        mu=0.3,
        canaries=100,
        guesses=60,
        correct=35,
    ).as_json()


def as_json(*words: str) -> dict[str, Any]:
    done = CliRunner().invoke(app, [*words, "--json"])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return json.loads(done.stdout)


def accounts(folder: Path) -> list[dict[str, Any]]:
    np.save(folder / "votes.npy", np.array([[20, 3, 2], [9, 8, 8], [25, 0, 0], [13, 12, 0]]))
    np.save(folder / "predictions.npy", np.array([[0, -1, 1, -1], [-1, 2, -1, -1], [-1, -1, -1, 0]]))
    return [
        as_json("account", str(folder / ("predictions.npy" if "predictions" in words else "votes.npy")), *words)
        for words in ACCOUNTS.values()
    ]


def audits() -> list[dict[str, Any]]:
    found = [as_json("audit", *words, "--samples", "500") for words in AUDITS.values()]
    return [*found, of_run(1.0), of_run(float("inf"))]


class Written(dict[str, list[dict[str, Any]]]):
    """What each schema is about, as our programs write it; computed where it is asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __missing__(self, name: str) -> list[dict[str, Any]]:
        makers: dict[str, Callable[[], list[dict[str, Any]]]] = {
            "account": lambda: accounts(self.folder),
            "audit": audits,
            "registry": entries,
            "statement": lambda: list(json.loads(json.dumps(statements())).values()),
        }
        self[name] = makers[name]()
        return self[name]


@pytest.fixture(scope="module")
def written(few_orders: None, tmp_path_factory: pytest.TempPathFactory) -> Written:
    return Written(tmp_path_factory.mktemp("votes"))


@pytest.mark.slow
def test_the_examples_reach_every_kind_of_value(written):
    accounts = written["account"]
    assert any(each["gated"] for each in accounts)
    assert any(each["data_dependent"] for each in accounts)
    assert any(each["data_dependent"] is None for each in accounts)
    assert any(each["worst_case"]["epsilon"] == "infinity" for each in accounts)
    assert any("claimed" in each for each in accounts)
    assert [each["refuted"] for each in written["audit"]] == [False, True, False, False, False]
    assert {type(each["guarantee"]).__name__ for each in written["statement"]} == {"dict", "NoneType"}


@pytest.mark.parametrize("name", SCHEMAS)
def test_what_is_written_is_valid(name, written):
    Draft202012Validator.check_schema(schema(name))
    validator = Draft202012Validator(schema(name))
    for each in written[name]:
        assert [error.message for error in validator.iter_errors(each)] == []


OPEN = {"parameters", "tuned", "versions", "findings"}
NOT_ALWAYS_KNOWN = {"number_of_privacy_units", "utility", "additional_information"}
"""Of an entry for the registry."""


def objects(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths to all objects with fixed keys in `value`."""
    if isinstance(value, dict):
        if not path or path[-1] not in OPEN:
            yield path
        for key, inner in value.items():
            yield from objects(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from objects(inner, (*path, index))


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        value = value[step]
    return value


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_missing_a_renamed_and_an_extra_key_are_not(name, written):
    validator = Draft202012Validator(schema(name))
    tried = 0
    for each in written[name]:
        for path in objects(each):
            extra = copy.deepcopy(each)
            at(extra, path)["unheard_of"] = None
            assert not validator.is_valid(extra), path
            for key in at(each, path):
                missing, renamed = copy.deepcopy(each), copy.deepcopy(each)
                del at(missing, path)[key]
                at(renamed, path)[f"{key}_"] = at(renamed, path).pop(key)
                assert validator.is_valid(missing) == (key in NOT_ALWAYS_KNOWN), (*path, key)
                assert not validator.is_valid(renamed), (*path, key)
                tried += 1
    assert tried >= 40


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("account", {"worst_case": {"epsilon": -1, "delta": 1e-5}}),
        ("account", {"worst_case": {"epsilon": "inf", "delta": 1e-5}}),
        ("account", {"worst_case": {"epsilon": 1, "delta": 0}}),
        ("account", {"worst_case": None}),
        ("account", {"queries": 1.5}),
        ("account", {"data_dependent": 0.5}),
        ("audit", {"claimed": "infinity"}),
        ("audit", {"confidence": 1}),
        ("audit", {"refuted": None}),
        ("registry", {"url_slug": "made-up"}),
        ("registry", {"deployment": None}),
        ("statement", {"schema": "ostrakon-statement/0"}),
        ("statement", {"membership_guess": {"prior": 0.5, "at_most": 0.4, "neighbours": "x"}}),
        ("statement", {"membership_guess": 0.6}),
        ("statement", {"privacy_curve": {"mu": 0.3}}),
        ("statement", {"guarantee": None}),
        ("statement", {"private": False}),
        ("statement", {"not_private": "Noise was seeded."}),
        ("statement", {"unit_of_privacy": "teacher"}),
    ],
)
def test_wrong_values_are_not(name, change, written):
    validator = Draft202012Validator(schema(name))
    assert validator.is_valid(written[name][0])
    assert not validator.is_valid(written[name][0] | change)


def leaves(value: Any, path: tuple[Any, ...] = ()) -> dict[tuple[Any, ...], Any]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if inner is None:
        return {path: value}
    return {place: leaf for key, each in inner for place, leaf in leaves(each, (*path, key)).items()}


def test_what_nobody_told_the_registry_is_null_or_left_out(written):
    told, silent = (leaves(each["deployment"]) for each in written["registry"])
    basic = ("basic",)
    for entry in (told, silent):
        for place in ((*basic, "name"), (*basic, "data_product_region"), ("administrative", "registry_authors")):
            assert entry[place] is None
    curator = (*basic, "data_curators", 0)
    assert told[*curator, "data_curator_name"] == "Ada"
    assert told[*curator, "data_curator_type"] is None
    assert told[*basic, "intended_use"] == "Triage"
    assert told[*basic, "publication_date"] == "2026-03-01"
    assert told["implementation", "additional_information"] == "Contact: ada@example.org"
    assert told["privacy_loss", "number_of_privacy_units"] == 250
    for key in ("data_curators", "intended_use", "publication_date"):
        assert silent[*basic, key] is None
    assert ("privacy_loss", "number_of_privacy_units") not in silent
    assert not {path[-1] for path in silent} & NOT_ALWAYS_KNOWN


def test_the_registry_is_told_what_the_statement_claims(written):
    statement, entry = written["statement"][0], written["registry"][0]["deployment"]
    parameters = entry["privacy_loss"]["privacy_parameters"]
    assert parameters == {name: statement["guarantee"][name] for name in ("epsilon", "delta")}
    assert entry["privacy_loss"]["privacy_unit"] == "user-level"
    assert entry["privacy_loss"]["privacy_unit_details"] == statement["adjacency"]
    assert "confident-gnmax (threshold 200, sigma1 150, sigma2 40)" in entry["implementation"]["mechanisms"]


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_command_line_prints_them(name):
    done = CliRunner().invoke(app, ["schema", name])
    assert done.exit_code == 0
    assert json.loads(done.stdout) == schema(name)


def test_another_name_is_refused():
    with pytest.raises(InvalidInput, match=r"one of account, audit, registry, statement, got '\.\./statement'"):
        schema_text("../statement")
