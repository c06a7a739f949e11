"""The manifest of a release: the files that may leave and their checksums, written last."""

from pathlib import Path

from ostrakon.data.checksummed import checksums
from ostrakon.data.files import read_json, write_json
from ostrakon.validation import InvalidInput

MANIFEST = "manifest.json"
SCHEMA = "ostrakon-manifest/1"


def write_manifest(folder: Path) -> None:
    """Write the name and the SHA-256 of every file in `folder`; a release is finished when its manifest is."""
    content = {"schema": SCHEMA, "files": checksums(folder, leave_out=(MANIFEST,))}
    write_json(folder / MANIFEST, content)


def is_finished(folder: Path, *, again: bool = False) -> bool:
    """Return whether `folder` holds a release that is as it was written; False where it is missing or empty.

    again: whether the command that asks writes a release that is removed, which the errors advise then.

    Errors: `InvalidInput` where files stand there without a manifest, or are not the files of the manifest: changed,
    missing, beside them, or links.
    """
    if not folder.is_dir() or not any(folder.iterdir()):
        return False
    advice = (
        f": remove {folder}, and the same command writes it again from the answers that were drawn." if again else "."
    )
    for path in folder.rglob("*"):
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise InvalidInput(f"{path} must be a file, and it is a link or a device{advice}")
    if not (folder / MANIFEST).exists():
        raise InvalidInput(f"{folder} has no {MANIFEST}, so it is not a finished release{advice}")
    try:
        content = read_json(folder / MANIFEST)
        listed = dict(content["files"])
        same_schema = content["schema"] == SCHEMA
    except (InvalidInput, KeyError, TypeError, ValueError):
        raise InvalidInput(f"{folder / MANIFEST} is damaged, so nobody can tell what may leave{advice}") from None
    if not same_schema:
        raise InvalidInput(f"{folder / MANIFEST} must have the schema {SCHEMA!r}, got {content['schema']!r}{advice}")
    present = checksums(folder, leave_out=(MANIFEST,))
    extras = sorted(present.keys() - listed.keys())
    if extras:
        raise InvalidInput(
            f"{folder} holds {extras[0]}, which its manifest does not list and its statement does not cover; move it "
            "elsewhere."
        )
    for name, checksum in listed.items():
        if present.get(name) != checksum:
            fault = "is gone from" if name not in present else "was changed after it was written to"
            raise InvalidInput(f"{name} {fault} {folder}{advice}")
    return True
