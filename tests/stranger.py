"""A Python that has NumPy and onnxruntime (or torch) and nothing else: no ostrakon, no pandas, no scikit-learn."""

import importlib.util
import json
import pickle
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

# What onnxruntime and torch themselves need, by import name.
ONNX = ("numpy", "onnxruntime")
TORCH = (
    *("numpy", "torch", "torchgen", "functorch", "typing_extensions", "sympy", "mpmath", "networkx", "jinja2"),
    *("markupsafe", "filelock", "fsspec"),
)

# Runs the printed lines in each folder, then has the same student predict the rows that lie there.
_SCRIPT = """
import importlib, json, os, pickle, sys
site, *folders = sys.argv[1:]
sys.path.insert(0, site)
for name in ("ostrakon", "pandas", "sklearn", "skops", "scipy"):
    try:
        importlib.import_module(name)
    except ImportError:
        continue
    raise SystemExit(f"{name} can be imported")
said = {}
for folder in folders:
    os.chdir(folder)
    sys.path.insert(0, folder)
    names = {}
    exec(open("lines.py").read(), names)
    student = names["Student"]()
    rows = pickle.load(open("rows.pkl", "rb"))
    said[folder] = {
        "shown": names["labels"].tolist(),
        "labels": student.predict(rows).tolist(),
        "probabilities": student.predict_proba(rows[:200]).tolist(),
    }
    del sys.path[0], sys.modules["load_student"]
json.dump(said, sys.stdout)
"""


def site_of(folder: Path, packages: Sequence[str] = ONNX) -> Path:
    """A folder of links to these packages alone, for a Python that has no other."""
    folder.mkdir(exist_ok=True)
    for name in packages:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            continue
        origin = Path(spec.origin)
        place = origin.parent if origin.name == "__init__.py" else origin
        for each in (place, place.with_name(f"{name}.libs")):
            if each.exists() and not (folder / each.name).exists():
                (folder / each.name).symlink_to(each)
    return folder


def ask(site: Path, asked: dict[Path, tuple[list[str], Any]]) -> dict[Path, dict[str, Any]]:
    """What the stranger says in each folder: "shown" by the printed lines, "labels" and "probabilities" of the rows.

    Probabilities are those of the first 200 rows.
    asked: per folder the lines to run, and rows, which travel as a pickle: plain objects and arrays alone.
    """
    for folder, (lines, rows) in asked.items():
        (folder / "lines.py").write_text("\n".join(lines) + "\n")
        (folder / "rows.pkl").write_bytes(pickle.dumps(rows))
    # Isolated and without a site: neither this environment's packages nor its settings.
    python = getattr(sys, "_base_executable", sys.executable)
    command = [python, "-I", "-S", "-c", _SCRIPT, str(site), *map(str, asked)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=site)
    assert done.returncode == 0, done.stderr
    return {Path(folder): said for folder, said in json.loads(done.stdout).items()}
