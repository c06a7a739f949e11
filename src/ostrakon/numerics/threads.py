"""One thread for linear algebra: the number of threads changes how products are rounded."""

from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


def on_one_thread(*, api: str | None = "blas") -> Any:
    """A context in which the libraries of an API, "blas", "openmp" or None for both, that are loaded use one thread.

    Libraries are looked for once in a process, when NumPy's and scikit-learn's are loaded: to look for them takes
    longer than a small fit.
    """
    return _controller().limit(limits=1, user_api=api)


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()
