"""NumPy's global random numbers, from which estimators without a `random_state` draw."""

import threading
from collections.abc import Generator
from contextlib import contextmanager

import numpy as np

_BORROWED = threading.RLock()


@contextmanager
def seeded(seed: int) -> Generator[None]:
    """Yield a context in which these numbers follow `seed`; afterwards their state is as before."""
    # All threads share them.
    with _BORROWED:
        before = np.random.get_state()  # noqa: NPY002 (estimators use these numbers)
        np.random.seed(seed)  # noqa: NPY002
        try:
            yield
        finally:
            np.random.set_state(before)  # noqa: NPY002
