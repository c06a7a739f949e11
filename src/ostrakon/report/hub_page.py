"""`README.md` of a release: the page that the Hugging Face hub shows, and the facts that it reads."""

import hashlib
import json
from pathlib import Path
from typing import Any

from ostrakon.data.files import write_atomically
from ostrakon.report.statement_file import FILE as STATEMENT

HUB_PAGE = "README.md"


def write_hub_page(folder: Path, content: dict[str, Any], manifest: dict[str, Any], card: str) -> None:
    """Write `README.md` into a release whose `statement.json` is written: facts as YAML, then the model card.

    Parameters
    ----------
    folder : Path
        Of the release.
    content : dict
        What `statement.json` says.
    manifest : dict
        What `student.json` says.
    card : str
        The model card, as `ostrakon.report.model_card` writes it.
    """
    facts = {
        "library_name": manifest["format"],
        **({} if (task := _task(manifest)) is None else {"pipeline_tag": task}),
        "tags": ["differential-privacy", "pate", "ostrakon"],
        "privacy": privacy_facts(content, hashlib.sha256((folder / STATEMENT).read_bytes()).hexdigest()),
    }
    write_atomically(folder / HUB_PAGE, "\n".join(["---", *_yaml(facts), "---", "", card]), mode=0o644)


def privacy_facts(content: dict[str, Any], checksum: str) -> dict[str, Any]:
    """Return the block `privacy`: what `statement.json` says, no epsilon if it claims none, and its checksum."""
    guarantee = content["guarantee"] if content["private"] else {}
    return {
        "private": content["private"],
        "epsilon": guarantee.get("epsilon"),
        "delta": guarantee.get("delta"),
        "protects": content["protects"],
        "unit": content["unit_of_privacy"],
        "neighbours": content["adjacency"],
        "mechanism": " + ".join(dict.fromkeys(batch["mechanism"] for batch in content["rounds"])),
        "statement": STATEMENT,
        "statement_sha256": checksum,
    }


def _task(manifest: dict[str, Any]) -> str | None:
    """Return the hub's name of what the student does; None where it takes numbers that an encoder made of a row."""
    description = manifest["input"]
    if "quantity" in manifest:
        return "tabular-regression"
    if "columns" not in description:
        return "image-classification" if len(description["shape"]) > 2 else "tabular-classification"
    kinds = {column["kind"] for column in description["columns"]}
    if "embedding" in kinds:
        return None
    return "text-classification" if kinds <= {"text", "tfidf"} else "tabular-classification"


def _yaml(facts: dict[str, Any], indent: str = "") -> list[str]:
    """Return lines of YAML: plain names, and every value as JSON, which is YAML too.

    >>> _yaml({"a": None, "b": {"c": 1e-05, "d": ["x"]}})
    ['a: null', 'b:', '  c: 1.0e-05', '  d: ["x"]']
    """
    lines: list[str] = []
    for name, value in facts.items():
        if isinstance(value, dict):
            lines += [f"{indent}{name}:", *_yaml(value, f"{indent}  ")]
        else:
            lines.append(f"{indent}{name}: {_scalar(value)}")
    return lines


def _scalar(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    # Readers of YAML 1.1 take 1e-05 for text: a number needs a point.
    return text.replace("e", ".0e", 1) if isinstance(value, float) and "e" in text and "." not in text else text
