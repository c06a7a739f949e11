from numpy import float64
from numpy.typing import NDArray

def dposv(
    a: NDArray[float64], b: NDArray[float64], *, lower: int = 0, overwrite_a: int = 0, overwrite_b: int = 0
) -> tuple[NDArray[float64], NDArray[float64], int]: ...
