"""Every module has tests of its own: a file of its name, or one that is named here, with the reason."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src" / "ostrakon"

# A module, or a folder of them, and where it is tested: relative to tests/.
ELSEWHERE: dict[str, tuple[str, str]] = {
    "data/object_store": ("run/test_object_storage.py", "against a server of S3"),
    "run/storing": ("run/test_object_storage.py", "against a server of S3"),
    # Compiled kernels, and the parts of one computation: what they compute together is held against the oracles.
    "accounting/data_dependent": ("accounting/data_dependent/test_exact.py", "kernels of one cost, against 50 digits"),
    "accounting/gate/_envelope_kernel": ("accounting/gate/test_envelope.py", "against all histograms"),
    "mechanisms/laws": ("mechanisms/test_laws.py", "one contract for all laws"),
    # File names must differ between folders: pytest imports them by their last part.
    "accounting/calibration/gated": ("accounting/calibration/test_calibrated_gate.py", "another name"),
    "accounting/calibration/noise": ("accounting/calibration/test_calibrated_noise.py", "another name"),
    "accounting/composition/run": ("accounting/composition/test_run_composition.py", "another name"),
    "data/images": ("data/test_image_files.py", "another name"),
    "mechanisms/laws/exponential": ("mechanisms/test_exponential_law.py", "another name"),
    "mechanisms/laws/stability": ("mechanisms/test_stability.py", "a folder above"),
    "mechanisms/rdp": ("mechanisms/test_bounded_range.py", "both curves, against all histograms"),
    "mechanisms/registry": ("mechanisms/test_registry_of_mechanisms.py", "another name"),
    "networks/export": ("networks/test_network_export.py", "another name"),
    "networks/network": ("networks/test_classifier.py", "the base of that one"),
    "__main__": ("cli/test_failures.py", "the same command line"),
    "validation": ("test_checks.py", "another name"),
    # Contracts that hold one thing against every kind.
    "mechanisms": ("mechanisms/test_contract.py", "one contract for all mechanisms"),
    "audit": ("audit/test_planted_bugs.py", "the parts of an audit, which wrong mechanisms must not pass"),
    "students/candidates": ("students/test_selection.py", "what is chosen among"),
    "students/cells": ("students/test_noisy_counts.py", "what counts are of"),
    "students/fixmatch": ("students/test_network_students.py", "one contract for all network students"),
    "students/graph_model": ("students/test_label_spreading.py", "what it learns from"),
    "students/labelled": ("students/test_plain_and_self_training.py", "what all students refuse"),
    "students/onnx": ("students/test_export_tables.py", "equal predictions of every classifier and representation"),
    "students/onnx_images": ("students/test_export_images.py", "equal predictions"),
    "students/released": ("students/test_label_spreading.py", "what students are given"),
    "students/row_form": ("students/test_export.py", "what a release says of its rows"),
    "students/self_training": ("students/test_plain_and_self_training.py", "beside the plain one"),
    "students/self_training_network": ("students/test_network_students.py", "one contract for all network students"),
    "students/semi_supervised_gan": ("students/test_network_students.py", "one contract for all network students"),
    "students/sklearn_student": ("students/test_plain_and_self_training.py", "the plain one"),
    "students/supervised": ("students/test_network_students.py", "one contract for all network students"),
    "students/torch_student": ("students/test_network_students.py", "one contract for all network students"),
    "students/virtual_adversarial": ("students/test_network_students.py", "one contract for all network students"),
    "ledger": ("ledger/test_ledger.py", "what a ledger is made of; its filter and its costs have files of their own"),
    "teachers/head_solvers": ("teachers/test_heads.py", "what heads solve"),
    "teachers/network_chunk": ("teachers/test_torch_ensemble.py", "a chunk of that ensemble"),
    "teachers/one_teacher": ("teachers/test_ensemble.py", "what the ensemble does with each"),
    "teachers/shards": ("teachers/test_ensemble.py", "rows of every form; of tables, test_ensemble_table.py"),
    "teachers/store": ("teachers/test_ensemble.py", "resumed, damaged and foreign stores"),
    # Seen in what is made of them.
    "accounting/calibration/stability": ("mechanisms/test_sparse_vector.py", "and test_propose_test_release.py"),
    "accounting/data_independent/noisy_max": ("accounting/data_independent/test_supremum.py", "against all histograms"),
    "accounting/gate/search": ("accounting/gate/test_gate.py", "what plans a gate"),
    "accounting/published": ("accounting/published/test_published_bounds.py", "against the papers' theorems"),
    "accounting/published/exponential_2024": ("paper/test_exponential_2024.py", "against the printed numbers"),
    "accounting/published/local_sensitivity": ("accounting/published/test_smooth_sensitivity.py", "what is smoothed"),
    "cli": ("cli/test_failures.py", "each command also has tests of its own"),
    "data/number_text": ("data/test_understood.py", "what columns are understood to be"),
    "data/private_form": ("data/test_understood.py", "what is refused before anything is spent"),
    "data/datasets": ("data/test_datasets.py", "one contract for all data sets"),
    "public/recipe": ("report/test_card_lines.py", "the lines it holds are run there"),
    "report": ("report/test_release.py", "what a release shows and holds"),
    "report/reproduce": ("cli/test_reproduce_command.py", "and tests/paper for the numbers"),
    "service": ("service/test_app.py", "and test_labeller.py, test_serve.py: requests, answers and kills"),
    "study": ("study/test_study.py", "and test_join.py and test_finish.py: what is created, handed over and summed"),
    "run": ("run/test_pipeline.py", "stages, inputs and settings of whole runs"),
}


def modules() -> list[str]:
    found = (file.relative_to(SOURCE).with_suffix("").as_posix() for file in SOURCE.rglob("*.py"))
    return sorted(name for name in found if not name.endswith("__init__"))


def by_rule(module: str) -> Path:
    place = Path(module)
    return TESTS / place.parent / f"test_{place.name.lstrip('_')}.py"


def of_table(module: str) -> str | None:
    """The longest entry that is the module, a folder around it, or the start of its name (students/onnx)."""
    fitting = (key for key in ELSEWHERE if module == key or module.startswith((f"{key}/", f"{key}_")))
    return max(fitting, key=len, default=None)


@pytest.mark.parametrize("module", modules())
def test_every_module_has_a_test_file(module: str) -> None:
    file, entry = by_rule(module), of_table(module)
    if not file.exists():
        rule = file.relative_to(TESTS)
        assert entry is not None, f"{module} needs tests/{rule}, or a line in ELSEWHERE with its reason"
        file = TESTS / ELSEWHERE[entry][0]
    text = file.read_text()
    assert re.search(r"^ *def test_", text, re.MULTILINE)
    assert re.search(r"\bassert |pytest\.raises|np\.testing", text)


def test_a_file_of_its_name_reads_its_room() -> None:
    strange = []
    for module in modules():
        room = ".".join(["ostrakon", *Path(module).parent.parts])
        # Commands are called through the command line, and the package shows some names as its own.
        imports = rf"(from|import) ({re.escape(room)}\b|ostrakon(\.cli)?( import| as|$))"
        if by_rule(module).exists() and not re.search(imports, by_rule(module).read_text(), re.MULTILINE):
            strange.append(module)
    assert strange == []


def test_the_table_has_no_line_too_many() -> None:
    needed = {of_table(module) for module in modules() if not by_rule(module).exists()}
    assert sorted(set(ELSEWHERE) - needed) == []
