"""No module needs at import what only Unix has."""

import subprocess
import sys

ALL = """
import importlib, os, pkgutil, sys

for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    # Where a library has a way of its own without them, it takes it; where we have none, this fails.
    sys.modules[name] = None
for name in ("sched_getaffinity", "fork", "getuid", "geteuid"):
    delattr(os, name)

import ostrakon

modules = [found.name for found in pkgutil.walk_packages(ostrakon.__path__, "ostrakon.", onerror=sys.exit)]
optional = {"torch", "safetensors", "pynndescent"}
for name in modules:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name.partition(".")[0] not in optional:
            raise
print(len(modules))
"""


def test_every_module_imports_without_what_only_unix_has():
    done = subprocess.run([sys.executable, "-c", ALL], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 150
