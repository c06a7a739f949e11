"""Students: learners of few noisy labels (-1 for unlabelled) and public rows. Network students need PyTorch."""

from __future__ import annotations

import importlib
from typing import Any

_HOME = {
    "FixMatch": "fixmatch",
    "GraphStudent": "graph_model",
    "LabelSpreadingStudent": "label_spreading",
    "SelfTrainingNetwork": "self_training_network",
    "SelfTrainingStudent": "self_training",
    "SemiSupervisedGAN": "semi_supervised_gan",
    "SklearnStudent": "sklearn_student",
    "SupervisedNetwork": "supervised",
    "VirtualAdversarial": "virtual_adversarial",
    "export_student": "export",
    "load_student": "export",
}

__all__ = [*_HOME]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"ostrakon.students.{_HOME[name]}"), name)
    raise AttributeError(f"module 'ostrakon.students' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
