"""The student as files that load anywhere: ONNX or safetensors, a description, and a loader that needs none of this.

`student.onnx` computes in doubles what the student in memory computes, so that both say the same; networks of plain
layers leave as `student.safetensors`. `student.json` says what a row is; `load_student.py`, the same file for every
release, reads rows and predicts with NumPy and onnxruntime (or torch).
"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ostrakon.accounting.estimates import CONFIDENCE
from ostrakon.data.quantity import Quantity
from ostrakon.export import loader, onnx_features, onnx_models
from ostrakon.export.onnx_features import ImageRows, TableRows, represented
from ostrakon.export.onnx_graph import Graph
from ostrakon.export.onnx_models import classified
from ostrakon.export.released import ReleasedLabels, ReleasedQuantity, ReleasedStudent
from ostrakon.export.row_form import RowForm
from ostrakon.features.recipe import Recipe
from ostrakon.features.representation import Representation
from ostrakon.students.by_label import StudentByLabel
from ostrakon.students.label_student import LabelRidge
from ostrakon.validation import InvalidInput

MANIFEST = "student.json"
LOADER = "load_student.py"
FORMAT = 1


def require_exportable(student: Any) -> None:
    """Refuse a student that could not be released, before noise is spent on its labels.

    Parameters
    ----------
    student : object
        A student, fitted or not.

    Raises
    ------
    InvalidInput
        For a student that neither is a network nor can be written as ONNX.
    """
    if not _is_network(student) and not onnx_models.has_writer(student):
        raise InvalidInput(
            f"The student must be one that can be released ({', '.join(onnx_models.names())}, or any "
            f"class with a method write_onnx), got {type(getattr(student, 'estimator', None) or student).__name__}."
        )


def export_student(student: Any, folder: str | os.PathLike[str], *, rows: str | None = None) -> dict[str, Any]:
    """Write a fitted student to a folder.

    Parameters
    ----------
    student : ReleasedStudent or classifier
        A released student, or a fitted classifier of numbers, named columns of numbers, or images.
    folder : str or path
        Created if it is missing.
    rows : str, optional
        What a row of its input is, in words.

    Returns
    -------
    dict
        The content of `student.json`: "version", "format", "file", "loader", "needs", "how_to_load", "input", and
        "classes" or "quantity", with its range. Of several labels also "several_labels"; of a student with sets of
        labels "prediction_sets", with intervals "prediction_intervals"; of networks "layers"; if rows are images,
        "from_pictures". With a frozen encoder before the student, "encoding": what it "needs" (packages) and its
        "files".

    Raises
    ------
    InvalidInput
        For a student that is not fitted, or that ONNX cannot hold.

    Notes
    -----
    "how_to_load" and "from_pictures" are lines of Python that load the student and predict made-up rows (with an
    encoder raw ones), or files of pictures, to run inside the folder.

    Guarantee: nothing but the student is written, the same bytes for the same student. That it was learned from public
    data and released labels is the caller's claim.
    """
    form, representation, model, classes = _parts(student)
    quantity = student.quantity if isinstance(student, ReleasedQuantity) else None
    clipped = student.clipped if isinstance(student, ReleasedQuantity) else None
    encoder = representation.encoder if isinstance(representation, Representation) else None
    recipe = None if encoder is None else encoder.recipe()
    lines = None if encoder is None or recipe is None else _encoded_lines(form, recipe, numbers=not encoder.texts_)
    pictures = _picture_lines(form, recipe)
    if encoder is not None:
        form = form.encoded(encoder)
        representation = replace(representation, encoder=None)
    if representation is not None and not onnx_features.has_writer(representation):
        # A user's own function stays with the user.
        rows = f"{representation.features} features that the representation gives, which is not part of this release"
        form = RowForm.of(np.array([[0.0] * representation.features, [1.0] * representation.features]))
        representation = None
    given = _described(form, fills_gaps=onnx_features.fills_gaps(representation))
    if form.channels is not None and isinstance(student, ReleasedStudent | ReleasedQuantity):
        given["range"] = list(form.example)
    if rows is not None:
        given["rows"] = rows
    plain = None
    if representation is None and form.columns is None and _is_network(model):
        from ostrakon.networks.export import packed

        given["dtype"] = "float32"
        plain = packed(model.exported_network())
    if plain is None:
        file, data, needs = (
            "student.onnx",
            _as_graph(form, representation, model, classes, clipped),
            ["numpy", "onnxruntime"],
        )
    else:
        file, data, needs = "student.safetensors", plain[0], ["numpy", "torch"]
    lines, said = lines or _lines(form), "labels" if quantity is None else "values"
    stated = _sets_or_intervals(student)
    shown = "intervals = Student().predict_interval(X, coverage=0.9)  # the lower and the upper end of each row"
    intervals = [shown] if "prediction_intervals" in stated else []
    manifest = {
        "version": FORMAT,
        "format": file.removeprefix("student."),
        "file": file,
        "loader": LOADER,
        "needs": needs,
        "how_to_load": [*lines, f"{said} = Student().predict(X)", *intervals],
        **({"classes": classes.tolist()} if quantity is None else {"quantity": asdict(quantity)}),
        **({"several_labels": True} if isinstance(student, ReleasedLabels) else {}),
        **stated,
        "input": given,
        **({} if recipe is None else {"encoding": {"needs": list(recipe.needs), "files": list(recipe.files)}}),
        **({} if pictures is None else {"from_pictures": pictures}),
        **({} if plain is None else {"layers": plain[1]}),
    }
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    _replace(target / file, data)
    _replace(target / LOADER, Path(loader.__file__).read_bytes())
    _replace(target / MANIFEST, (json.dumps(manifest, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode())
    return manifest


def _sets_or_intervals(student: Any) -> dict[str, Any]:
    """Return what `student.json` says of sets of labels, or of intervals; nothing for a student without."""
    if isinstance(student, ReleasedQuantity) and student.intervals is not None:
        return {"prediction_intervals": {**asdict(student.intervals), "confidence": CONFIDENCE}}
    if not isinstance(student, ReleasedStudent) or student.sets is None:
        return {}
    labels = np.asarray(student.labels).tolist()
    return {"prediction_sets": {**asdict(student.sets), "confidence": CONFIDENCE, "labels": labels}}


def load_student(folder: str | os.PathLike[str]) -> Any:
    """Return the student that `export_student` wrote.

    Parameters
    ----------
    folder : str or path

    Returns
    -------
    object
        With `predict`, `predict_proba` and `classes_`.

    Raises
    ------
    InvalidInput
        If the folder has no student, or one that cannot be read.

    Notes
    -----
    The student is read by ostrakon's own copy of the loader: nothing in the folder is run.
    """
    source = Path(folder)
    try:
        manifest = json.loads((source / MANIFEST).read_text(encoding="utf-8"))
        file, format = manifest["file"], manifest["format"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidInput(f"folder must hold an exported student with {MANIFEST}, got {str(folder)!r}.") from error
    if Path(file).name != file or format not in ("onnx", "safetensors"):
        raise InvalidInput(f"{MANIFEST} must name a file beside it, in onnx or safetensors, got {file!r}.")
    try:
        return loader.Student(source)
    except ImportError as error:
        raise InvalidInput(f"{file} needs {' and '.join(manifest['needs'])}: {error}.") from error
    except Exception as error:
        raise InvalidInput(f"{file} must be an exported student, and it cannot be read: {error}") from error


def _parts(student: Any) -> tuple[RowForm, Any, Any, NDArray[Any]]:
    """Return (what a row is, representation or None, model, labels of the model's classes)."""
    if isinstance(student, ReleasedQuantity):
        return student.form, student.representation, student.student, np.zeros(0)
    classes = getattr(student, "classes_", None)
    if classes is None or not callable(getattr(student, "predict", None)):
        raise InvalidInput(f"student must be a fitted classifier with classes_ and predict, got {student!r}.")
    if isinstance(student, ReleasedStudent):
        form, representation, model = student.form, student.representation, student.student
    else:
        form, representation, model = _form_of(student), None, student
    inner = getattr(model, "shape_", None)
    if form.columns is None and _is_network(model) and inner is not None and len(form.shape or ()) < len(inner) - 1:
        # A network that takes flat rows for images shows what it sees.
        channels, *size = inner
        form = replace(form, shape=tuple(size) if channels == 1 else (*size, channels))
    return form, representation, model, np.asarray(classes)


def _form_of(model: Any) -> RowForm:
    names = getattr(model, "feature_names_in_", None)
    features = getattr(model, "n_features_in_", None)
    shape = getattr(model, "shape_", None if features is None else (features,))
    if shape is None:
        raise InvalidInput(f"student must say what it reads by n_features_in_, got {type(model).__name__}.")
    if len(shape) == 3:
        shape = shape[1:] if shape[0] == 1 else (*shape[1:], shape[0])
    return RowForm.of(np.stack([np.zeros(shape), np.ones(shape)]), names=names)


def _is_network(student: Any) -> bool:
    return callable(getattr(student, "exported_network", None))


def _described(form: RowForm, *, fills_gaps: bool) -> dict[str, Any]:
    if form.columns is not None:
        return {"columns": [dict(column) for column in form.columns], "missing_allowed": form.frame or fills_gaps}
    channels = form.channels
    dtype = "float64" if channels is None else "float32"
    return {"shape": ["rows", *(form.shape or ())], "dtype": dtype, "channels": channels}


def _as_graph(
    form: RowForm, representation: Any, model: Any, classes: NDArray[Any], quantity: Quantity | None
) -> bytes:
    """Return `student.onnx`: from rows as the loader reads them to "place" among the classes, "label" and
    "probabilities".

    Of a quantity, to its "value", and `quantity` is the range of the student's shares; of several labels, to 0 or 1 for
    each as their "place".
    """
    graph = Graph()
    rows = _inputs(graph, form)
    if representation is not None:
        rows = represented(graph, representation, rows)
    label, likely = classified(graph, model, rows)
    if quantity is not None:
        value = graph.add("Add", graph.add("Mul", likely, quantity.high - quantity.low), quantity.low)
        graph.output("value", value, "double", ())
        return graph.serialized()
    if isinstance(model, LabelRidge | StudentByLabel):
        graph.output("place", label, "int64", (len(classes),))
        graph.output("probabilities", likely, "double", (len(classes),))
        return graph.serialized()
    graph.output("place", label, "int64", ())
    kind = {"i": "int64", "u": "int64", "b": "int64", "f": "double"}.get(classes.dtype.kind, "string")
    labels = graph.constant(classes.astype(str) if kind == "string" else classes)
    graph.output("label", graph.add("Gather", labels, label), kind, ())
    graph.output("probabilities", likely, "double", (len(classes),))
    return graph.serialized()


def _inputs(graph: Graph, form: RowForm) -> Any:
    if form.columns is not None:
        words = tuple(column["name"] for column in form.columns if column["kind"] == "category")
        numbers = tuple(name for column in form.columns if column["kind"] != "category" for name in _numbers(column))
        rows = TableRows(
            numbers=graph.input("numbers", "double", (len(numbers),)) if numbers else None,
            number_names=numbers,
            words=graph.input("words", "string", (len(words),)) if words else None,
            word_names=words,
        )
        return rows if form.frame else rows.as_numbers()
    shape = form.shape or ()
    if form.channels is None or not shape:
        return graph.input("rows", "double", shape)
    channels = {"none": 1, "first": shape[0], "last": shape[-1]}[form.channels]
    size = shape[1:] if form.channels == "first" else shape[:2]
    value = graph.input("rows", "float", (channels, *size))
    return ImageRows(value=value, channels=channels, last=form.channels == "last")


def _numbers(column: Mapping[str, Any]) -> list[str]:
    """Return the names of the numbers that a column holds: one, or those of an embedding."""
    return [column["name"]] if "width" not in column else [f"{column['name']}.{at}" for at in range(column["width"])]


def _lines(form: RowForm) -> list[str]:
    """Return lines of Python that import the student and make rows `X` of the right form and scale."""
    if form.columns is not None:
        zeros = {
            column["name"]: f"np.zeros({column['width']})" for column in form.columns if column["kind"] == "embedding"
        }
        cells = (f"{name!r}: {zeros.get(name, repr(value))}" for name, value in form.example.items())
        yours = "your features for the zeros" if zeros else "or a data frame, or rows of csv.DictReader"
        imported = ["import numpy as np"] if zeros else []
        return [*imported, "from load_student import Student", f"X = [{{{', '.join(cells)}}}]  # {yours}"]
    least, most = form.example
    shape = ", ".join(map(str, (3, *(form.shape or ()))))
    shown = f"X = np.random.default_rng(0).uniform({least!r}, {most!r}, ({shape}))  # three rows on the public scale"
    return ["import numpy as np", "from load_student import Student", shown]


def _picture_lines(form: RowForm, recipe: Any) -> list[str] | None:
    """Return lines of Python from files of pictures of 8 bits to their labels, read as runs read folders; None if no
    images.

    recipe: of the encoder before the student, if there is one.
    """
    shape = list(form.shape or ())
    colours = form.channels == "last" and shape[-1] == 3
    if not (colours or form.channels == "none") or form.example[0] < 0:
        return None
    scale = " / np.float32(255)" if form.example[1] <= 1 else ""
    grey = "" if colours else '.convert("L")'
    size = f"({shape[1]}, {shape[0]})"
    return [
        "from pathlib import Path",
        "import numpy as np",
        "from PIL import Image, ImageOps",
        *([] if recipe is None else recipe.lines[:1]),
        "from load_student import Student",
        "",
        "def picture(file):",
        '    image = ImageOps.exif_transpose(Image.open(file)).convert("RGBA")',
        '    image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")',
        "    before = np.asarray(image)",
        f"    image = image{grey}.resize({size}, Image.Resampling.BICUBIC)",
        f"    return np.clip(np.asarray(image), before.min(), before.max()){scale}",
        "",
        'files = sorted(Path("pictures").glob("*.jpg"))  # yours',
        f"{'X' if recipe is None else 'rows'} = np.stack([picture(file) for file in files])",
        *([] if recipe is None else recipe.lines[1:]),
        "labels = Student().predict(X)",
    ]


def _encoded_lines(form: RowForm, recipe: Recipe, *, numbers: bool) -> list[str]:
    """Return `_lines` from raw rows of `form` on, whose features the recipe makes. numbers: as of `_raw_rows`."""
    imported, rows = _raw_rows(form, numbers=numbers)
    return [imported, *recipe.lines[:1], "from load_student import Student", rows, *recipe.lines[1:]]


def _raw_rows(form: RowForm, *, numbers: bool) -> tuple[str, str]:
    """Return lines of Python: an import, and made-up raw rows. numbers: every column of a frame is one."""
    if form.columns is None:
        least, most = form.example
        shape = ", ".join(map(str, (2, *(form.shape or ()))))
        line = f"rows = np.random.default_rng(0).uniform({least!r}, {most!r}, ({shape}))"
        return "import numpy as np", f"{line}  # yours, in this shape and on this scale"
    cells: dict[str, Any] = {}
    for column in form.columns:
        for name in _numbers(column):
            value = form.example.get(name)
            cells[name] = value if isinstance(value, int | float) or (value is not None and not numbers) else 0.0
    return "import pandas as pd", f"rows = pd.DataFrame([{cells!r}])  # yours, with these columns"


def _replace(path: Path, data: bytes) -> None:
    # A reader sees the whole file or none of it.
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(data)
    os.replace(partial, path)
