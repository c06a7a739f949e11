"""How the numerical loops are compiled: once, kept on disk, without Python's lock, with IEEE division."""

from numba import njit

compiled = njit(cache=True, nogil=True, error_model="numpy")
"""Numba's compiler. After editing a compiled function, delete the `.nbi` files: callers in other files keep old ones."""
