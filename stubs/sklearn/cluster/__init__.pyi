from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

class KMeans:
    cluster_centers_: NDArray[Any]
    labels_: NDArray[np.int32]
    def __init__(
        self,
        n_clusters: int = 8,
        *,
        n_init: Literal["auto"] | int = "auto",
        max_iter: int = 300,
        random_state: int | None = None,
    ) -> None: ...
    def fit(self, X: ArrayLike) -> Self: ...

class MiniBatchKMeans:
    cluster_centers_: NDArray[Any]
    def __init__(
        self,
        n_clusters: int = 8,
        *,
        batch_size: int = 1024,
        n_init: Literal["auto"] | int = "auto",
        max_iter: int = 100,
        random_state: int | None = None,
    ) -> None: ...
    def fit(self, X: ArrayLike) -> Self: ...
