"""The one place that imports PyTorch, so that its absence is one clear sentence."""

import os
import threading
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ostrakon.validation import InvalidInput

# Read when cuBLAS starts: with its usual workspaces two equal products may differ in their last bits.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

try:
    import torch
    import torch.nn.functional as F
    from torch import Tensor, nn
except ImportError as missing:
    raise InvalidInput("neural networks need PyTorch, which is not installed: pip install '.[torch]'.") from missing

_BORROWED = threading.RLock()
_NO_VERSION = "does not have a deterministic implementation"

__all__ = ["F", "Tensor", "generator", "nn", "pick_device", "repeatable", "seeded", "torch"]


def pick_device(device: str | None = None) -> Any:
    """Return the device asked for, or the first accelerator, or the CPU.

    Errors: `InvalidInput` for a device that PyTorch does not know or that is not there.
    """
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
        torch.empty(0, device=chosen)
    except (RuntimeError, AssertionError, TypeError) as error:
        raise InvalidInput(f"device must be one that PyTorch finds here, such as 'cpu', got {device!r}.") from error
    return chosen


@contextmanager
def repeatable(device: Any, *, strict: bool = True) -> Generator[None]:
    """Yield a context in which an accelerator gives equal bits for equal inputs; a CPU does so anyway.

    Errors: `InvalidInput` for a layer of which PyTorch has no such version there; without `strict` it is used as it is.
    """
    if device.type == "cpu":
        yield
        return
    with _BORROWED, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=f".*{_NO_VERSION}")
        before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
        timed = torch.backends.cudnn.benchmark
        torch.use_deterministic_algorithms(True, warn_only=not strict)
        torch.backends.cudnn.benchmark = False
        try:
            yield
        except RuntimeError as error:
            if _NO_VERSION not in str(error):
                raise
            raise InvalidInput(
                f"device must be 'cpu' for a network with {str(error).split()[0]}, which does not repeat to the last "
                f"bit on {str(device)!r}."
            ) from error
        finally:
            torch.use_deterministic_algorithms(before[0], warn_only=before[1])
            torch.backends.cudnn.benchmark = timed


def generator(seed: int | np.random.SeedSequence, device: Any = "cpu") -> Any:
    """Return a new PyTorch generator, so that the global one is neither read nor changed."""
    if isinstance(seed, np.random.SeedSequence):
        seed = int(seed.generate_state(1, np.uint64)[0] >> np.uint64(1))
    created = torch.Generator(device=device)
    created.manual_seed(seed)
    return created


@contextmanager
def seeded(seed: int | np.random.SeedSequence) -> Generator[None]:
    """Yield a context in which new layers and dropout follow `seed`; afterwards the global generator is as before."""
    if isinstance(seed, np.random.SeedSequence):
        seed = int(seed.generate_state(1, np.uint64)[0] >> np.uint64(1))
    # All threads share the global generator, so only one of them may use it at a time.
    with _BORROWED, torch.random.fork_rng():
        torch.manual_seed(seed)
        yield
