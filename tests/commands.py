"""The command line as a process of its own, as users start it."""

import subprocess
import sys
from pathlib import Path
from typing import Any


def ostrakon(*arguments: Any, folder: Path) -> subprocess.CompletedProcess[str]:
    """`ostrakon ARGUMENTS`, run in `folder`."""
    return subprocess.run(
        [sys.executable, "-m", "ostrakon", *map(str, arguments)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )
