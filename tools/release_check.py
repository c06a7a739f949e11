"""`make release-check`: would this release install, run and be understood on a machine that has nothing of ours?

Builds wheel and sdist twice and compares their bytes; checks their metadata and content; installs the wheel without
extras into a clean environment of every Python that pyproject.toml promises and this machine has; runs
`ostrakon demo --small` in the first and prices votes in all. Wheel and sdist are written to dist/, with the list of all
packages that were installed (`sbom.cdx.json`, CycloneDX) and their licences (`licences.txt`). Exit status 1 if anything
is wrong.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = "ostrakon"
LARGEST_SDIST = 5_000_000
"""Bytes: more than this is data, not source."""

LICENCES = """
from importlib.metadata import distributions
found = []
for one in distributions():
    told = one.metadata
    classed = [c.rpartition(" :: ")[2] for c in told.get_all("Classifier", []) if c.startswith("License ::")]
    # The free field of old metadata may hold a licence's whole text.
    free = (told.get("License") or "").strip().partition("\\n")[0]
    found.append((told["Name"], told["Version"], told.get("License-Expression") or "; ".join(classed) or free or "?"))
for name, version, licence in sorted(set(found), key=lambda row: row[0].lower()):
    print(f"{name:24} {version:16} {licence}")
"""


def command(*arguments: str | Path, cwd: Path) -> str:
    """What the command printed; its output is shown and the check ends where it fails."""
    # An environment that is to be clean must not look into this tree.
    done = subprocess.run(
        ["env", "-u", "PYTHONPATH", *map(str, arguments)],
        cwd=cwd,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if done.returncode:
        sys.exit(f"{done.stdout}\nFailed: {' '.join(map(str, arguments))}")
    return done.stdout


def tracked_files() -> set[str]:
    """The files under version control, from the root."""
    return set(command("git", "ls-files", cwd=ROOT).splitlines())


def build(dist: Path, source: Path = ROOT) -> tuple[Path, Path]:
    """(wheel, sdist), with metadata that the package index would take."""
    dist.mkdir()
    command(sys.executable, "-m", "build", "--outdir", dist, source, cwd=dist)
    (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    print(command(sys.executable, "-m", "twine", "check", "--strict", wheel, sdist, cwd=dist).strip())
    return wheel, sdist


def check_same_bytes(built: tuple[Path, Path], scratch: Path) -> None:
    """Another folder, other times and permissions of the files give the same wheel and sdist."""
    source = scratch / "elsewhere" / "source"
    for name in tracked_files():
        copy = source / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, copy)
        copy.chmod((ROOT / name).stat().st_mode & 0o700)
        os.utime(copy, (1_000_000_000, 1_000_000_000))
    for one, other in zip(built, build(scratch / "again", source), strict=True):
        if one.name != other.name or one.read_bytes() != other.read_bytes():
            sys.exit(f"Built again elsewhere, {one.name} has other bytes.")
        print(f"{hashlib.sha256(one.read_bytes()).hexdigest()}  {one.name}")


def list_packages(programs: Path, target: Path) -> None:
    """What the environment holds, as CycloneDX, and by licence."""
    cyclonedx = (sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible")
    project = ("--pyproject", ROOT / "pyproject.toml")
    command(*cyclonedx, *project, "-o", target / "sbom.cdx.json", programs / "python", cwd=target)
    licences = command(programs / "python", "-c", LICENCES, cwd=target)
    (target / "licences.txt").write_text(licences, encoding="utf-8")
    print(licences.rstrip())


def foreign_files(names: set[str], tracked: set[str]) -> list[str]:
    """What an archive holds beyond the files under version control and the metadata of the build."""
    return sorted(name for name in names if name not in tracked and name != "PKG-INFO")


def check_contents(wheel: Path, sdist: Path) -> None:
    """The sdist holds tracked files alone and no data; the wheel the package and its metadata alone."""
    tracked = tracked_files()
    with tarfile.open(sdist) as archive:
        members = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    if foreign := foreign_files(members, tracked):
        sys.exit(f"The sdist holds what is not under version control: {foreign}")
    if sdist.stat().st_size > LARGEST_SDIST:
        sys.exit(f"The sdist is too large: {sdist.stat().st_size:,} bytes")
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    source = {name.removeprefix("src/") for name in tracked if name.startswith(f"src/{PACKAGE}/")}
    if packed != source:
        sys.exit(f"The wheel and the source differ in {sorted(packed ^ source)}")
    print(f"Contents: sdist {len(members)} files, {sdist.stat().st_size:,} bytes; wheel {len(packed)} modules and data")


def promised_pythons() -> list[str]:
    """The versions among the classifiers of pyproject.toml, the lowest first."""
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["classifiers"]
    found = [match[1] for each in classifiers if (match := re.fullmatch(r".*Python :: (3\.\d+)", each))]
    return sorted(found, key=lambda version: int(version.partition(".")[2]))


def interpreter(version: str) -> Path | None:
    """Where that Python is: on the path, or among pyenv's."""
    candidates = [shutil.which(f"python{version}"), *Path.home().glob(f".pyenv/versions/{version}.*/bin/python")]
    for candidate in candidates:
        if candidate is None:
            continue
        # A shim of pyenv answers to a name and may have no Python behind it.
        asked = subprocess.run([candidate, "-c", "import sys; print(sys.version)"], capture_output=True, text=True)
        if asked.returncode == 0 and asked.stdout.startswith(f"{version}."):
            return Path(candidate)
    return None


def install(wheel: Path, python: Path, venv: Path) -> Path:
    """A new environment with the wheel and what it depends on, wheels alone; its folder of programs.

    Some dependencies are compiled: a version without wheels is none that we may promise.
    """
    command(python, "-m", "venv", venv, cwd=venv.parent)
    programs = venv / "bin"
    command(programs / "python", "-m", "pip", "install", "-q", "--only-binary", ":all:", wheel, cwd=venv.parent)
    command(programs / "python", "-m", "pip", "check", cwd=venv.parent)
    return programs


def try_out(programs: Path, folder: Path, *, demo: bool) -> None:
    """Import, price four queries, and with `demo` do a small run."""
    command(programs / "python", "-c", f"import {PACKAGE}", cwd=folder)
    (folder / "votes.csv").write_text("a,b,c\n200,30,20\n90,80,80\n250,0,0\n126,124,0\n", encoding="utf-8")
    noise = ("--threshold", "150", "--sigma1", "100", "--sigma2", "40")
    command(programs / PACKAGE, "account", "votes.csv", *noise, "--json", cwd=folder)
    if demo:
        command(programs / PACKAGE, "demo", "--small", cwd=folder)
        for way in ("trained", "per-record"):
            if not (folder / "demo-run" / way / "release" / "statement.json").is_file():
                sys.exit(f"The demo left no statement of its run with {way} teachers.")


def main(say: Callable[[str], None] = print) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-demo", action="store_true", help="leave the small demo out")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix=f"{PACKAGE}-release-") as scratch:
        wheel, sdist = build(Path(scratch) / "dist")
        check_contents(wheel, sdist)
        check_same_bytes((wheel, sdist), Path(scratch))
        demo = not asked.no_demo
        tried = 0
        for version in promised_pythons():
            python = interpreter(version)
            if python is None:
                say(f"Python {version}: skipped, this machine has none")
                continue
            folder = Path(scratch) / version
            folder.mkdir()
            programs = install(wheel, python, folder / "venv")
            try_out(programs, folder, demo=demo)
            say(f"Python {version}: installed without extras, imported, priced votes{', ran the demo' * demo}")
            if not tried:
                list_packages(programs, wheel.parent)
            tried, demo = tried + 1, False
            shutil.rmtree(folder)
        if not tried:
            sys.exit(f"None of the promised Pythons is on this machine: {', '.join(promised_pythons())}")
        shutil.copytree(wheel.parent, ROOT / "dist", dirs_exist_ok=True)
        say(f"{wheel.name} and {sdist.name} may be released, as far as {tried} Python(s) show.")


if __name__ == "__main__":
    main()
