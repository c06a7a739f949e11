"""Where privacy noise comes from: a cryptographic generator seeded by the operating system.

The seed that makes data splits and models repeatable never reaches this file.
"""

from __future__ import annotations

import secrets
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from randomgen import AESCounter

from ostrakon.validation import InvalidInput, scale, whole


class SecureGenerator(np.random.Generator):
    """A NumPy generator on AES in counter mode, keyed by the operating system's entropy.

    It cannot be seeded, pickled or copied: its state is the secret on which the guarantee rests.
    """

    def __init__(self) -> None:
        super().__init__(cast(np.random.BitGenerator, AESCounter(key=secrets.randbits(128))))

    def __reduce__(self) -> Any:
        raise TypeError(
            "A secure noise source cannot be pickled or copied: anyone who reads its state can undo the noise."
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


def discrete_gaussian(size: int, *, sigma: float) -> NDArray[np.int64]:
    """So many independent draws of the discrete Gaussian N_Z(0, sigma^2), shape (size,), by OpenDP's exact sampler.

    sigma: its parameter, in steps, at most 2^40. P(x) is proportional to exp(-x^2 / (2 sigma^2)) on the whole numbers.
    Guarantee: no floating-point number enters a draw, and entropy is OpenDP's, of the operating system; nothing seeds
    it.
    Errors: `InvalidInput` for a sigma that is none, and where OpenDP is not installed.
    Source: Canonne, Kamath and Steinke 2020, Algorithm 3.
    """
    sigma, size = scale("sigma", sigma, at_most=2.0**40), whole("size", size)
    try:
        from opendp.domains import atom_domain, vector_domain
        from opendp.measurements import make_gaussian
        from opendp.metrics import l2_distance
        from opendp.mod import enable_features
        from opendp.typing import i64
    except ImportError:
        raise InvalidInput("Integer noise needs OpenDP: pip install 'ostrakon[study]'.") from None
    enable_features("contrib")
    # Not its default of 32 bits, at whose ends it would cut wide noise off.
    space: Any = vector_domain(atom_domain(T=i64), size), l2_distance(T=float)
    draw = make_gaussian(*space, scale=sigma)
    return np.array(draw([0] * size), dtype=np.int64)
