"""Python as it is on Windows, as far as Linux allows: names that only Unix has are gone, processes are spawned.

`python -m pytest -p without_unix` runs tests so; a program imports it first.
"""

import multiprocessing
import os
import signal
import sys

for _module in ("fcntl", "grp", "pwd", "resource", "termios"):
    # Where a library has a way of its own without them, it takes it; where we have none, this fails.
    sys.modules[_module] = None  # type: ignore[assignment]
for _name in ("fork", "forkpty", "killpg", "mkfifo", "sched_getaffinity"):
    delattr(os, _name)
del signal.SIGKILL
multiprocessing.set_start_method("spawn", force=True)
