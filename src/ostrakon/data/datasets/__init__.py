"""Data sets ready for PATE: private rows with labels, a public pool, a test set."""

from ostrakon.data.datasets.cifar10 import cifar10
from ostrakon.data.datasets.dataset import Dataset
from ostrakon.data.datasets.glyphs import glyphs
from ostrakon.data.datasets.real import adult, digits, mnist

__all__ = ["Dataset", "adult", "cifar10", "digits", "glyphs", "mnist"]
