"""Texts on disk: a folder with a folder of files for every class, loose files, or a file of one text a line."""

import codecs
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ostrakon.data.images import PICTURES, holds_images
from ostrakon.validation import InvalidInput

SUFFIXES = (".txt", ".md")
LONGEST = 2**20
"""Bytes of a file (or line) that are read: more than any frozen encoder uses. The rest is left out."""

_LINES = ".txt"


@dataclass(frozen=True, kw_only=True, eq=False)
class Texts:
    """Texts, and the classes that their folders name.

    texts: sorted by the names of their files; labels: text, shape (texts,), or None. others: number of files of the
    folder that were left out because of their suffix.
    """

    path: Path
    texts: tuple[str, ...]
    labels: NDArray[np.object_] | None = None
    others: int = 0


def holds_texts(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is a folder of texts: .txt or .md files somewhere in it, no pictures or Parquet."""
    folder = Path(path)
    if not folder.is_dir() or holds_images(folder) or next(folder.rglob("*.parquet"), None) is not None:
        return False
    return any(_is_text(file) for file in _files(folder))


def is_lines(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is a .txt file, which may be one text a line, or a table."""
    file = Path(path)
    return file.suffix.lower() == _LINES and file.is_file()


def require_pictures(path: str | os.PathLike[str]) -> None:
    """Refuse a folder of pictures that has more than twice as many text files. Errors: `InvalidInput`.

    If there are about as many texts as pictures, they may be captions, which no run reads.
    """
    folder = Path(path)
    if not folder.is_dir():
        return
    inside = [
        file for file in folder.rglob("*") if not any(part.startswith(".") for part in file.relative_to(folder).parts)
    ]
    texts, pictures = (sum(file.suffix.lower() in of for file in inside) for of in (SUFFIXES, PICTURES))
    if texts > 2 * pictures:
        raise InvalidInput(
            f"{folder} must hold pictures or texts, got {texts} files of text and {pictures} of pictures: move the "
            "ones or the others elsewhere."
        )


def read_texts(path: str | os.PathLike[str], *, by: str | None = None) -> Texts:
    """Return texts from `path`, all in memory, as UTF-8 with or without a byte order mark.

    A folder: every .txt and .md file in it is a text, sorted by name; where they are in subfolders, the name of the
    uppermost subfolder is the label, as in scikit-learn's `load_files`. Files and folders whose names begin with a full
    stop are ignored. An empty file is an empty text. A .txt file: every line is a text without a label. Only the first
    `LONGEST` bytes of a text are read.

    Errors: `InvalidInput` in one sentence that names the file: no texts, texts both in folders of classes and beside
    them, other encodings, symbolic links and other special files, an empty line; `by`, which texts do not have.
    """
    location = Path(path)
    if by is not None:
        raise InvalidInput(f"--by needs a table with a column of that name, got the texts {location}.")
    return _folder(location) if location.is_dir() else _lines(location)


def require_apart(first: Path, second: Path) -> None:
    """Refuse two folders of which one is inside the other: its texts would be in both. Errors: `InvalidInput`."""
    here, there = first.resolve(), second.resolve()
    if here == there or here in there.parents or there in here.parents:
        raise InvalidInput(f"{first} and {second} must lie apart: the texts of one are in the other, too.")


def _folder(folder: Path) -> Texts:
    every = list(_files(folder))
    files = sorted((file for file in every if _is_text(file)), key=lambda file: file.relative_to(folder).parts)
    if not files:
        raise InvalidInput(f"{folder} must hold texts ({', '.join(SUFFIXES)}), got none.")
    inside = [file.relative_to(folder).parts for file in files]
    loose = [parts[0] for parts in inside if len(parts) == 1]
    if loose and len(loose) < len(inside):
        raise InvalidInput(f"{folder} must have all texts in folders of classes, or none; {loose[0]} is loose.")
    return Texts(
        path=folder,
        texts=tuple(_read(file) for file in files),
        labels=None if loose else np.array([_label(parts[0], folder) for parts in inside], dtype=object),
        others=len(every) - len(files),
    )


def _label(name: str, folder: Path) -> str:
    # Labels are released as UTF-8: fail here, not when the privacy budget is spent.
    try:
        name.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"The folder {name!r} of {folder} must have a name in UTF-8.") from None
    return name


def _lines(file: Path) -> Texts:
    if file.suffix.lower() != _LINES:
        raise InvalidInput(
            f"{file} must be a folder of texts, or a {_LINES} file of one text a line, beside a folder of texts."
        )
    lines = _decoded(_bytes(file), file).split("\n")
    lines = [line.removesuffix("\r") for line in (lines[:-1] if lines[-1] == "" else lines)]
    if not lines:
        raise InvalidInput(f"{file} is empty.")
    empty = next((number for number, line in enumerate(lines, start=1) if not line.strip()), None)
    if empty is not None:
        raise InvalidInput(f"{file} must have one text a line, and line {empty} is empty.")
    return Texts(path=file, texts=tuple(_beginning(line.encode(), file) for line in lines))


def _files(root: Path) -> Iterator[Path]:
    """Yield every file below a folder that does not begin with a full stop; refuse links to folders."""
    for folder, folders, names in os.walk(root, onerror=_unreadable):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in folders:
            _require_no_link(Path(folder, name))
        yield from (Path(folder, name) for name in sorted(names) if not name.startswith("."))


def _unreadable(error: OSError) -> None:
    raise InvalidInput(f"{error.filename} cannot be read: {(error.strerror or str(error)).lower()}.") from None


def _is_text(file: Path) -> bool:
    return file.suffix.lower() in SUFFIXES


def _require_no_link(file: Path) -> None:
    # Its target may be private, or belong to another folder that changes.
    if file.is_symlink():
        raise InvalidInput(f"{file} must be no symbolic link: put a copy of what it points to in its place.")


def _read(file: Path) -> str:
    _require_no_link(file)
    return _beginning(_bytes(file, most=LONGEST + 1), file)


def _bytes(file: Path, *, most: int = -1) -> bytes:
    if file.exists() and not file.is_file():
        raise InvalidInput(f"{file} must be a plain file of text.")
    try:
        with open(file, "rb") as opened:
            return opened.read(most)
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read: {(error.strerror or str(error)).lower()}.") from None


def _beginning(content: bytes, file: Path) -> str:
    """Return the text in the first `LONGEST` bytes, without a last character that is incomplete."""
    return _decoded(content[:LONGEST], file, final=len(content) <= LONGEST)


def _decoded(content: bytes, file: Path, *, final: bool = True) -> str:
    # Python's utf-8-sig reads an incomplete byte order mark at the end of a file as empty text.
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(content.removeprefix(codecs.BOM_UTF8), final)
    except UnicodeDecodeError:
        raise InvalidInput(f"{file} must be text in UTF-8, and is not; save it as UTF-8.") from None
    if "\0" in text:
        raise InvalidInput(f"{file} must be text in UTF-8, and holds a zero byte; save it as UTF-8.")
    return text
