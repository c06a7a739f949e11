"""The source of privacy noise: a cryptographic generator seeded by the operating system.

The seed that makes data splits and models repeatable never reaches this file.
"""

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
    """Return a new cryptographic noise source, seeded by the operating system.

    Returns
    -------
    SecureGenerator
        A NumPy generator.

    Notes
    -----
    Guarantee: its noise is unpredictable to anybody who cannot read the memory of this process.
    """
    return SecureGenerator()


def require_rng(rng: Any) -> np.random.Generator:
    """Check that `rng` is a NumPy generator: noise has no default source.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of noise.

    Returns
    -------
    numpy.random.Generator
        `rng` itself.

    Raises
    ------
    InvalidInput
        For anything else.
    """
    if not isinstance(rng, np.random.Generator):
        raise InvalidInput(f"rng must be a numpy.random.Generator, such as ostrakon.noise.secure_rng(), got {rng!r}.")
    return rng


def is_private(rng: np.random.Generator) -> bool:
    """Return whether the guarantee covers noise from a generator.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of noise.

    Returns
    -------
    bool
        False for ordinary seeded generators, as in tests.
    """
    return isinstance(rng, SecureGenerator)


def discrete_gaussian(size: int, *, sigma: float) -> NDArray[np.int64]:
    """Independent draws of the discrete Gaussian N_Z(0, sigma^2) by OpenDP's exact sampler.

    Parameters
    ----------
    size : int
        Number of draws, at least 0.
    sigma : float
        In steps, from 1e-50 to 2^40; P(x) is proportional to exp(-x^2 / (2 sigma^2)) on the integers.

    Returns
    -------
    int64 array of shape (size,)
        Draws.

    Raises
    ------
    InvalidInput
        For a sigma outside of this range, and if OpenDP is not installed.

    Notes
    -----
    Guarantee: no floating-point number enters a draw. OpenDP takes its entropy from the operating system; there is no
    seed.

    References
    ----------
    Canonne, Kamath and Steinke 2020, Algorithm 3.
    """
    sigma, size = scale("sigma", sigma, at_most=2.0**40), whole("size", size)
    try:
        from opendp.domains import atom_domain, vector_domain
        from opendp.measurements import make_gaussian
        from opendp.metrics import l2_distance
        from opendp.mod import enable_features
        from opendp.typing import i64
    except ImportError:
        raise InvalidInput("Integer noise needs OpenDP: pip install '.[study]'.") from None
    enable_features("contrib")
    # With its default of 32 bits, it would truncate wide noise.
    space: Any = vector_domain(atom_domain(T=i64), size), l2_distance(T=float)
    draw = make_gaussian(*space, scale=sigma)
    return np.array(draw([0] * size), dtype=np.int64)
