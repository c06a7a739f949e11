"""The command line, as users start it: in this process, or where several run at once in processes of their own."""

import contextlib
import gc
import io
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

from ostrakon.cli.app import main


def ostrakon(*arguments: Any, folder: Path, process: bool = False) -> subprocess.CompletedProcess[str]:
    """`ostrakon ARGUMENTS` in `folder`; a process of its own takes five seconds more, which are imports."""
    words = ["ostrakon", *map(str, arguments)]
    if process:
        command = [sys.executable, "-m", *words]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    collections, code = gc.get_threshold(), 0
    try:
        with (
            contextlib.chdir(folder),
            mock.patch.object(sys, "argv", words),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            main()
    except SystemExit as stop:
        code = int(stop.code or 0)
    finally:
        gc.set_threshold(*collections)
    seen = [stream.buffer.getvalue().decode() for stream in (out, err)]
    return subprocess.CompletedProcess(words, code, *seen)
