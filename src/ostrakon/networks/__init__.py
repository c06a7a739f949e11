"""Neural networks for teachers, students and representations: needs PyTorch (`pip install '.[torch]'`).

`import ostrakon.networks` itself loads no PyTorch; the names below do, when first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ostrakon.networks.architectures import ARCHITECTURES, build_network
    from ostrakon.networks.classifier import TorchClassifier

_HOME = {
    "ARCHITECTURES": "ostrakon.networks.architectures",
    "TorchClassifier": "ostrakon.networks.classifier",
    "build_network": "ostrakon.networks.architectures",
}

__all__ = ["ARCHITECTURES", "TorchClassifier", "build_network"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'ostrakon.networks' has no attribute {name!r}")
