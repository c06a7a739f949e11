"""`README.md` of a release: what the Hugging Face hub reads there is what the statement says."""

import hashlib
import json

import huggingface_hub
import numpy as np
import pytest
import yaml

import ostrakon
from ostrakon.report.hub_page import _task, _yaml, privacy_facts


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    X, X_public = rng.normal(5, 3, (2000, 2)), rng.normal(5, 3, (300, 2))
    model = ostrakon.PATEClassifier(epsilon=2.0, random_state=0, classes=["a: #b", "|c\x85\u2028"])
    return model.fit(X, np.where(X[:, 0] > 5, "a: #b", "|c\x85\u2028"), X_public=X_public)


@pytest.fixture(scope="module")
def release(fitted, tmp_path_factory):
    folder = tmp_path_factory.mktemp("hub") / "release"
    return fitted.save_release(folder, operator="---\nprivacy: {epsilon: 0}")


@pytest.mark.slow
def test_the_hub_reads_the_claim_of_the_statement(release):
    card = huggingface_hub.ModelCard.load(release / "README.md")
    statement = json.loads((release / "statement.json").read_bytes())
    privacy = card.data.to_dict()["privacy"]
    assert privacy == {
        "private": True,
        "epsilon": statement["guarantee"]["epsilon"],
        "delta": statement["guarantee"]["delta"],
        "protects": "records",
        "unit": "record",
        "neighbours": statement["adjacency"],
        "mechanism": " + ".join(asked["mechanism"] for asked in statement["rounds"]),
        "statement": "statement.json",
        "statement_sha256": hashlib.sha256((release / "statement.json").read_bytes()).hexdigest(),
    }
    # YAML 1.1 reads 1e-05 as text.
    assert isinstance(privacy["delta"], float)
    assert card.data.tags == ["differential-privacy", "pate", "ostrakon"]
    assert card.data.pipeline_tag == "tabular-classification"
    assert card.text.strip() == (release / "model_card.md").read_text(encoding="utf-8").strip()


def test_a_release_that_claims_nothing_has_no_epsilon(release):
    statement = json.loads((release / "statement.json").read_bytes()) | {"private": False}
    privacy = yaml.safe_load("\n".join(_yaml(privacy_facts(statement, checksum="0"))))
    assert (privacy["private"], privacy["epsilon"], privacy["delta"]) == (False, None, None)


@pytest.mark.parametrize(
    ("given", "task"),
    [
        ({"shape": ["rows", 28, 28]}, "image-classification"),
        ({"shape": ["rows", 5]}, "tabular-classification"),
        ({"columns": [{"kind": "tfidf"}]}, "text-classification"),
        ({"columns": [{"kind": "text"}, {"kind": "number"}]}, "tabular-classification"),
        ({"columns": [{"kind": "embedding"}]}, None),
    ],
)
def test_the_task_follows_from_what_a_row_is(given, task):
    assert _task({"input": given}) == task
