"""Neural networks for teachers, students and representations: needs PyTorch (`pip install quorate[torch]`).

`import quorate.networks` itself loads no PyTorch; the names below do, when first used.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOME = {
    "ARCHITECTURES": "quorate.networks.architectures",
    "TorchClassifier": "quorate.networks.classifier",
    "build_network": "quorate.networks.architectures",
}

__all__ = [*_HOME]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'quorate.networks' has no attribute {name!r}")
