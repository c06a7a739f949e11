"""Students: learners of few noisy labels (-1 for unlabelled) and public rows. Network students need PyTorch."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ostrakon.students.fixmatch import FixMatch
    from ostrakon.students.graph_model import GraphStudent
    from ostrakon.students.label_spreading import LabelSpreadingStudent
    from ostrakon.students.semi_supervised_gan import SemiSupervisedGAN
    from ostrakon.students.sklearn_student import SelfTrainingStudent, SklearnStudent
    from ostrakon.students.supervised import SelfTrainingNetwork, SupervisedNetwork
    from ostrakon.students.virtual_adversarial import VirtualAdversarial

__all__ = [
    "FixMatch",
    "GraphStudent",
    "LabelSpreadingStudent",
    "SelfTrainingNetwork",
    "SelfTrainingStudent",
    "SemiSupervisedGAN",
    "SklearnStudent",
    "SupervisedNetwork",
    "VirtualAdversarial",
]

_HOME = {
    "FixMatch": "fixmatch",
    "GraphStudent": "graph_model",
    "LabelSpreadingStudent": "label_spreading",
    "SelfTrainingNetwork": "supervised",
    "SelfTrainingStudent": "sklearn_student",
    "SemiSupervisedGAN": "semi_supervised_gan",
    "SklearnStudent": "sklearn_student",
    "SupervisedNetwork": "supervised",
    "VirtualAdversarial": "virtual_adversarial",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"ostrakon.students.{_HOME[name]}"), name)
    raise AttributeError(f"module 'ostrakon.students' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
