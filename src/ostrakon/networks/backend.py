"""The one place that imports PyTorch, so that its absence is one clear sentence."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ostrakon.validation import InvalidInput

try:
    import torch
    import torch.nn.functional as F
    from torch import Tensor, nn
except ImportError as missing:
    raise InvalidInput(
        "neural networks need PyTorch, which is not installed: pip install ostrakon[torch]."
    ) from missing

_BORROWED = threading.RLock()

__all__ = ["F", "Tensor", "generator", "nn", "pick_device", "seeded", "torch"]


def pick_device(device: str | None = None) -> Any:
    """The device asked for, or the first accelerator, or the CPU.

    Errors: `InvalidInput` for a device that PyTorch does not know or that is not there.
    """
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(device)
        torch.empty(0, device=found)
    except (RuntimeError, AssertionError, TypeError) as error:
        raise InvalidInput(f"device must be one that PyTorch finds here, such as 'cpu', got {device!r}.") from error
    return found


def generator(seed: int | np.random.SeedSequence, device: Any = "cpu") -> Any:
    """A PyTorch generator of its own: nothing here reads or changes the global one."""
    if isinstance(seed, np.random.SeedSequence):
        seed = int(seed.generate_state(1, np.uint64)[0] >> np.uint64(1))
    made = torch.Generator(device=device)
    made.manual_seed(seed)
    return made


@contextmanager
def seeded(seed: int | np.random.SeedSequence) -> Generator[None]:
    """Layers made, and dropout drawn, inside follow `seed`; the global generator is as before afterwards."""
    if isinstance(seed, np.random.SeedSequence):
        seed = int(seed.generate_state(1, np.uint64)[0] >> np.uint64(1))
    # The global generator is shared by all threads: one at a time may borrow it.
    with _BORROWED, torch.random.fork_rng():
        torch.manual_seed(seed)
        yield
