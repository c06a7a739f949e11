"""Log a release to MLflow: its files, epsilon and delta, the plan, the ledger entry, and the student as a model."""

import contextlib
import hashlib
import importlib.metadata
import json
import os
from pathlib import Path
from typing import Any

from ostrakon.export.student_files import LOADER
from ostrakon.report.hub_page import privacy_facts
from ostrakon.report.manifest import is_finished
from ostrakon.report.statement_file import FILE, read_statement
from ostrakon.run.folder import RunFolder
from ostrakon.validation import InvalidInput

try:
    import mlflow
    import mlflow.pyfunc
except ImportError as missing:
    raise ModuleNotFoundError("MLflow is not installed: pip install '.[mlflow]'.", name="mlflow") from missing

_ENTRY = ("account", "run", "sequence", "hash")
_LONGEST_TAG = 5000


def log_release(folder: str | os.PathLike[str], *, name: str = "student") -> Any:
    """Log a release to the active MLflow run, or to a new one.

    Logged are all files of the release (`release/`: statement, model card, report, noisy answers), epsilon and delta as
    metrics, the facts of the card's block `privacy` as tags (`privacy.epsilon`, ...), and the student as a model. Of a
    run's folder also the plan (`plan.json`) and the entry of its ledger (`ledger_entry.json`), without the ledger's
    address. Nothing else leaves the folder.

    Parameters
    ----------
    folder : str or path-like
        A release, or the folder of a run that holds one.
    name : str
        The model's name within the MLflow run.

    Returns
    -------
    mlflow.models.model.ModelInfo
        Its `model_uri` is for `mlflow.pyfunc.load_model`. The model's `predict` takes what the release's loader takes,
        and needs what `student.json` names, not ostrakon.

    Raises
    ------
    InvalidInput
        If `folder` holds no release or a changed one.

    Notes
    -----
    Guarantee: what is logged of a release is post-processing of it. A plan is made of public numbers alone. An entry of
    a ledger says which account has paid. An epsilon is logged only if the statement claims one.

    Examples
    --------
    >>> import mlflow                                         # doctest: +SKIP
    >>> mlflow.set_tracking_uri("sqlite:///mlflow.db")        # doctest: +SKIP
    >>> info = log_release("my-run")                          # doctest: +SKIP
    >>> mlflow.pyfunc.load_model(info.model_uri).predict([{"age": 57, "town": "Ulm"}])  # doctest: +SKIP
    """
    release, run = _release_in(Path(folder))
    content = read_statement(release)
    facts = privacy_facts(content, hashlib.sha256((release / FILE).read_bytes()).hexdigest())
    student = json.loads((release / "student.json").read_bytes())
    active = mlflow.active_run()
    with contextlib.nullcontext(active) if active is not None else mlflow.start_run():
        mlflow.log_artifacts(os.fspath(release), "release")
        mlflow.set_tags({f"privacy.{fact}": str(value) for fact, value in facts.items() if value is not None})
        mlflow.set_tag("mlflow.note.content", (release / "model_card.md").read_text(encoding="utf-8")[:_LONGEST_TAG])
        mlflow.log_metrics({fact: facts[fact] for fact in ("epsilon", "delta") if facts[fact] is not None})
        for file, entry in _of_run(run).items():
            mlflow.log_dict(entry, file)
        return mlflow.pyfunc.log_model(
            name=name,
            loader_module=Path(LOADER).stem,
            data_path=os.fspath(release),
            code_paths=[os.fspath(release / LOADER)],
            pip_requirements=[f"{package}=={importlib.metadata.version(package)}" for package in student["needs"]],
        )


def _release_in(folder: Path) -> tuple[Path, RunFolder | None]:
    """Return the release in `folder` or that `folder` is, verified, and the run that made it, if it is there."""
    run = RunFolder(folder)
    if run.description.is_file():
        if not is_finished(run.release):
            raise InvalidInput(f"{folder} holds a run that has no release yet: finish it first.")
        return run.release, run
    if not is_finished(folder):
        raise InvalidInput(f"folder must be a release or a run with one, got {folder}.")
    return folder, None


def _of_run(run: RunFolder | None) -> dict[str, dict[str, Any]]:
    """Return what is logged of a run besides its release, by file name."""
    content = {} if run is None else run.read() or {}
    entry = {key: content["ledger"][key] for key in _ENTRY if key in content.get("ledger", {})}
    return {
        name: value for name, value in (("plan.json", content.get("settled")), ("ledger_entry.json", entry)) if value
    }
