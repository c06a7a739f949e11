"""Nothing needs what only Unix has, and no file is read or written in the encoding that a machine happens to have."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

ALL = """
import importlib, os, pkgutil, sys

import without_unix

del os.getuid, os.geteuid
import ostrakon

modules = [found.name for found in pkgutil.walk_packages(ostrakon.__path__, "ostrakon.", onerror=sys.exit)]
optional = {"torch", "safetensors", "pynndescent", "mlflow", "flwr", "nvflare"}
for name in modules:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name.partition(".")[0] not in optional:
            raise
print(len(modules))
"""


COMMAND_LINE = """
import warnings

import without_unix


if __name__ == "__main__":
    warnings.filterwarnings("error", category=EncodingWarning, module="ostrakon")
    from ostrakon.cli import main

    main()
"""


def environment(**more: str) -> dict[str, str]:
    """That of a program that may import `without_unix`."""
    paths = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **more}


@pytest.mark.slow
def test_every_module_imports_without_what_only_unix_has():
    done = subprocess.run([sys.executable, "-c", ALL], env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 150


@pytest.mark.slow
def test_a_run_with_workers_and_a_ledger_needs_nothing_of_unix_and_no_default_encoding(tmp_path):
    rng = np.random.default_rng(0)
    for name, rows in (("private", 1200), ("public", 300)):
        x = rng.normal(size=(rows, 2))
        table = pd.DataFrame({"größe": x[:, 0], "wiek": x[:, 1], "stadt": rng.choice(["Köln", "Łódź"], rows)})
        table["übel"] = np.where(x[:, 0] > 0, "ναι", "όχι")
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    (tmp_path / "run.toml").write_text('target = "übel"\nclasses = ["ναι", "όχι"]\n', encoding="utf-8")
    (tmp_path / "command.py").write_text(COMMAND_LINE, encoding="utf-8")
    files = ("--private", "private.csv", "--public", "public.csv", "--config", "run.toml", "--out", "run")
    options = ("--teachers", "8", "--epsilon", "4", "--jobs", "2", "--ledger", "sqlite:///ledger.db", "--budget", "20")
    # A terminal of Windows has no Greek letters; it must not end a run.
    done = subprocess.run(
        [sys.executable, "-X", "warn_default_encoding", "command.py", "train", *files, *options],
        cwd=tmp_path,
        env=environment(PYTHONIOENCODING="cp1252"),
        capture_output=True,
        encoding="cp1252",
    )
    assert done.returncode == 0, done.stderr
    assert "όχι" in (tmp_path / "run/release/model_card.md").read_text(encoding="utf-8")
