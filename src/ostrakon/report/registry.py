"""`registry.json`: a draft of an entry for the registry of differential privacy deployments."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ostrakon.accounting.estimates import Agreement, Recall
from ostrakon.data.files import write_json
from ostrakon.options.report_details import ReportDetails
from ostrakon.statements.sentences import claim, of_records, rounds_in_words

REGISTRY = "registry.json"

_LABEL_LEVEL = {True: "label-level", False: "user-level, labels only"}
"""By whether a record is the unit."""


def write_registry(folder: Path, entry: dict[str, Any]) -> None:
    """Write `registry.json`."""
    write_json(folder / REGISTRY, entry)


def registry_entry(
    content: dict[str, Any],
    *,
    details: ReportDetails,
    date: str | None,
    units: int | None,
    estimates: Sequence[Agreement | Recall] = (),
) -> dict[str, Any]:
    """Return the entry for the registry of deployments, from what the release states.

    What the registry requires and is not known (its name and region, who files it) is null; the operator fills it in
    before filing. What it does not require is left out. Nothing is invented.

    Parameters
    ----------
    content : dict
        The content of `statement.json`, which must claim a guarantee.
    details : ReportDetails
        Given by the operator.
    date : str or None
        Day of the run.
    units : int or None
        Number of protected records (or users), if it is public.
    estimates : sequence of Agreement or Recall

    References
    ----------
    https://github.com/opendp/deployments-registry-data, schemas/deployments-schema.yaml at commit 057e5d81.
    """
    guarantee, unit = content["guarantee"], content["unit_of_privacy"]
    curators = [{"data_curator_name": details.operator, "data_curator_type": None}]
    implementation = content["implementation"]
    tuned = [*(f"{name}: {source}" for name, source in content["tuned"].items()), "never on the private votes"]
    optional = {
        "utility": _bullets([f"{one.title}: {one.in_words()}, of {one.counted}" for one in estimates]),
        "additional_information": None if details.contact is None else f"Contact: {details.contact}",
    }
    deployment = {
        "basic": {
            "name": None,
            "data_curators": None if details.operator is None else curators,
            "description": _description(content, details.data_name),
            "intended_use": details.purpose,
            "data_product_type": "Machine learning model",
            "data_product_region": None,
            "publication_date": date,
        },
        "dp_variant": {
            "variant_name": "Approximate DP",
            "unprotected_quantities": _bullets(content["not_covered"]),
        },
        "privacy_loss": {
            "privacy_unit": f"{unit}-level" if content["protects"] == "records" else _LABEL_LEVEL[of_records(content)],
            "privacy_unit_details": content["adjacency"],
            **({} if units is None else {"number_of_privacy_units": units}),
            "privacy_parameters": {"epsilon": guarantee["epsilon"], "delta": guarantee["delta"]},
            "privacy_parameters_details": claim(content),
        },
        "deployment_model": {
            "model_name": "Central",
            "trust_assumptions": content["trust_model"],
            "release_type": "One release",
            "data_source_type": "Static",
            "access_type": "Non-interactive",
        },
        "implementation": {
            "preprocessing_and_hyperparameter_tuning": _bullets(tuned),
            "mechanisms": _bullets(
                [
                    f"{rounds_in_words(content)}, by ostrakon {content['versions']['ostrakon']}",
                    f"noise: {implementation['noise']}",
                    f"floating point: {implementation['floating_point']}",
                ]
            ),
            "composition": content["composition"],
            "post_processing": f"the student was trained on the noisy results of this release{_beside(content)} alone",
            **{name: text for name, text in optional.items() if text},
        },
        "administrative": {"status": "Draft", "registry_authors": None, "tier": 2},
    }
    return {"url_slug": None, "deployment": deployment}


def _description(content: dict[str, Any], data_name: str | None) -> str:
    called = "" if data_name is None else f" The private data: {data_name}."
    votes = f"votes of teachers about {_rows(content)}"
    if _described(content):
        votes = "counts of the private rows by column, without public rows"
    return f"{_model(content)}, trained on noisy {votes} (PATE).{called}"


def _model(content: dict[str, Any]) -> str:
    if "quantity" in content:
        return "An estimator of a quantity from {low:.10g} to {high:.10g}".format(**content["quantity"])
    labels_note = ", of which a row may have several" if "several_labels" in content else ""
    return f"A classifier with {len(content['classes'])} labels{labels_note}"


def _described(content: dict[str, Any]) -> bool:
    """Return whether the columns were described in place of public rows."""
    return "public_rows" in content


def _beside(content: dict[str, Any]) -> str:
    return "" if _described(content) else f" and {_rows(content)}"


def _rows(content: dict[str, Any]) -> str:
    return "public rows" if content["protects"] == "records" else "rows whose features are public"


def _bullets(items: Sequence[str]) -> str:
    return "\n".join(f"- {item}" for item in items)
