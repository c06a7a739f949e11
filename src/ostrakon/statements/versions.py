"""Versions of Python and packages for a statement."""

import platform
from importlib.metadata import PackageNotFoundError, version


def versions() -> dict[str, str]:
    """Return versions of the software behind the release."""
    numbers = {"python": platform.python_version()}
    for name in ("ostrakon", "numpy", "scipy", "scikit-learn"):
        try:
            numbers[name] = version(name)
        except PackageNotFoundError:
            numbers[name] = "not installed as a package"
    return numbers
