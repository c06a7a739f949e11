"""What is said of the package in several files is said once: versions, dependencies, pinned versions, checks."""

import doctest
import re
import runpy
import tomllib
from pathlib import Path

import yaml

import ostrakon

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
OTHER_NAMES = {"duckdb": "python-duckdb", "matplotlib": "matplotlib-base"}
"""Of packages that conda-forge names otherwise."""


def recipe() -> dict[str, dict[str, list[str]]]:
    return yaml.safe_load((ROOT / "recipe" / "recipe.yaml").read_text(encoding="utf-8"))


def name_of(requirement: str) -> str:
    return re.split(r"[\[<>=; ]", requirement)[0].lower().replace("_", "-")


def test_the_recipe_and_the_citation_have_the_version_and_the_dependencies_of_the_project():
    dependencies = {name_of(line): line for line in PROJECT["project"]["dependencies"]}
    wanted = {OTHER_NAMES.get(name, name) + " " + line[len(name) :] for name, line in dependencies.items()}
    assert {line for line in recipe()["requirements"]["run"] if not line.startswith("python ")} == wanted
    assert recipe()["context"]["version"] == PROJECT["project"]["version"] == ostrakon.__version__
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert (citation["version"], citation["license"]) == (PROJECT["project"]["version"], PROJECT["project"]["license"])


def test_every_package_of_development_is_pinned_and_no_address_is_in_the_list():
    lines = (ROOT / "constraints-test.txt").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.]+( ; [\w.<>=!()' ]+)?", line)] == []
    # Flower needs older versions of packages that the others need: it has an environment of its own.
    extras = {name: lines for name, lines in PROJECT["project"]["optional-dependencies"].items() if name != "flower"}
    groups = [PROJECT["project"]["dependencies"], *extras.values()]
    groups += [lines for name, lines in PROJECT["dependency-groups"].items() if name != "bench"]
    named = {name_of(line) for group in groups for line in group if isinstance(line, str)}
    assert named - {name_of(line) for line in lines} == {"ostrakon"}


def test_workflows_call_what_there_is():
    text = (ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8")
    steps = [step for job in yaml.safe_load(text)["jobs"].values() for step in job["steps"]]
    runs = [step["run"] for step in steps if "run" in step]
    assert (ROOT / ".ci" / "run").is_file()
    assert ".ci/run" in runs
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert {word for run in runs if run.startswith("make ") for word in run.split()[1:] if "=" not in word} <= targets
    extras = {name for run in runs for found in re.findall(r"\.\[([\w,]+)\]", run) for name in found.split(",")}
    assert extras
    assert extras <= PROJECT["project"]["optional-dependencies"].keys()


def test_the_health_check_of_the_container_knows_the_service():
    names = runpy.run_path(str(ROOT / "tools" / "container_health.py"))
    example = doctest.DocTestFinder().find(names["address"], "address", globs=names)[0]
    assert len(example.examples) == 4
    assert doctest.DocTestRunner().run(example).failed == 0
