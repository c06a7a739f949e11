from typing import Any

import numpy as np
from numpy.typing import NDArray

class NNDescent:
    neighbor_graph: tuple[NDArray[np.int32], NDArray[np.float32]]
    def __init__(
        self, data: NDArray[Any], *, n_neighbors: int = 30, random_state: int | None = None, n_jobs: int | None = None
    ) -> None: ...
