"""Data sets ready for PATE: private rows with labels, a public pool, a test set."""

from quorate.data.datasets.dataset import Dataset
from quorate.data.datasets.glyphs import glyphs
from quorate.data.datasets.real import adult, digits, mnist

__all__ = ["Dataset", "adult", "digits", "glyphs", "mnist"]
