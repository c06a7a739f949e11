"""One thread for linear algebra: the number of threads changes how products are rounded."""

import sys
from functools import lru_cache
from typing import Any

from threadpoolctl import ThreadpoolController


def on_one_thread(*, api: str | None = "blas") -> Any:
    """Return a context in which loaded libraries of an API ("blas", "openmp", None: both) use one thread.

    Libraries are looked for again only after an import: to look for them takes longer than a small fit.
    """
    return _controller(len(sys.modules)).limit(limits=1, user_api=api)


@lru_cache(maxsize=1)
def _controller(_modules: int) -> ThreadpoolController:
    return ThreadpoolController()
