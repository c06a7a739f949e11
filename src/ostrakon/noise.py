"""Where privacy noise comes from: a cryptographic generator seeded by the operating system.

The seed that makes data splits and models repeatable never reaches this file.
"""

from __future__ import annotations

import secrets
from typing import Any, cast

import numpy as np
from randomgen import AESCounter

from ostrakon.validation import InvalidInput


class SecureGenerator(np.random.Generator):
    """A NumPy generator on AES in counter mode, keyed by the operating system's entropy.

    It cannot be seeded, pickled or copied: its state is the secret on which the guarantee rests.
    """

    def __init__(self) -> None:
        super().__init__(cast(np.random.BitGenerator, AESCounter(key=secrets.randbits(128))))

    def __reduce__(self) -> Any:
        raise TypeError(
            "A secure noise source cannot be pickled or copied: whoever reads its state can undo the noise."
        )

    def __copy__(self) -> Any:
        return self.__reduce__()

    def __deepcopy__(self, memo: Any) -> Any:
        return self.__reduce__()


def secure_rng() -> SecureGenerator:
    """A fresh cryptographic noise source, seeded by the operating system.

    Guarantee: noise drawn from it is unpredictable to whoever does not read this process's memory.
    """
    return SecureGenerator()


def require_rng(rng: Any) -> np.random.Generator:
    """`rng` itself, refused unless it is a NumPy generator: noise has no default source."""
    if not isinstance(rng, np.random.Generator):
        raise InvalidInput(f"rng must be a numpy.random.Generator, such as ostrakon.noise.secure_rng(), got {rng!r}.")
    return rng


def is_private(rng: np.random.Generator) -> bool:
    """Whether noise from `rng` is covered by the guarantee: false for ordinary seeded generators (tests)."""
    return isinstance(rng, SecureGenerator)
