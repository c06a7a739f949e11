"""The documents name nothing that is not there, and no public name goes without a docstring that says enough."""

import importlib
import inspect
import re
from pathlib import Path

import pytest

import ostrakon
from ostrakon import accounting, mechanisms
from ostrakon.mechanisms import MECHANISMS, Mechanism
from ostrakon.papers import PAPERS

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]


def found(pattern: str) -> set[str]:
    return {hit for document in DOCUMENTS for hit in re.findall(pattern, document.read_text())}


def test_every_path_in_the_documents_exists() -> None:
    paths = found(r"(?<![\w/.-])((?:benchmarks|tests|docs|src|examples)/[\w/.-]*\w)")
    assert len(paths) > 20
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []


def module_or_name(dotted: str) -> object:
    """What `dotted` below ostrakon stands for: a module, or a name in one. Raises where there is neither."""
    *parents, last = dotted.split(".")
    try:
        return importlib.import_module(".".join(["ostrakon", *parents, last]))
    except ModuleNotFoundError as error:
        if error.name == "flwr":  # needs an environment of its own
            return error
        return getattr(module_or_name(".".join(parents)) if parents else ostrakon, last)


def test_every_module_in_the_documents_is_there() -> None:
    rooms = "|".join(sorted(place.stem for place in (ROOT / "src" / "ostrakon").iterdir() if place.stem[0] != "_"))
    names = found(rf"`(?:ostrakon\.)?((?:{rooms})(?:\.\w+)+)`")
    files = {"toml", "json", "npy", "csv", "py", "md", "html"}
    names = {name for name in names if name.rpartition(".")[2] not in files}
    assert len(names) > 40
    for name in sorted(names):
        module_or_name(name)
    with pytest.raises(AttributeError):
        module_or_name("accounting.gate.nothing")


def test_every_test_in_the_documents_exists() -> None:
    known = {path.stem for path in (ROOT / "tests").rglob("test_*.py")}
    names = found(r"`(test_\w+)`")
    assert len(names) > 40
    assert sorted(names - known) == []


def test_every_link_between_documents_leads_somewhere() -> None:
    broken = []
    for document in DOCUMENTS:
        for target in re.findall(r"\]\((?!https?://)([^)#]*)(?:#[^)]*)?\)", document.read_text()):
            if target and not (document.parent / target).exists():
                broken.append(f"{document.name}: {target}")
    assert broken == []


def test_the_page_of_examples_shows_every_example() -> None:
    shown = re.findall(r'^```python\n--8<-- "(examples/\w+\.py)"\n```$', (ROOT / "docs/examples.md").read_text(), re.M)
    assert sorted(shown) == sorted(f"examples/{path.name}" for path in (ROOT / "examples").glob("*.py"))


def test_the_guide_names_every_mechanism_and_the_papers_every_table() -> None:
    guide, papers = ((ROOT / "docs" / name).read_text() for name in ("teachers-and-students.md", "papers.md"))
    common = [name for name, kind in MECHANISMS.items() if ".contrib." not in kind.__module__]
    assert [name for name in common if f"`{name}`" not in guide] == []
    assert [name for name in PAPERS if f"`ostrakon reproduce {name}`" not in papers] == []


@pytest.mark.parametrize("name", sorted(set(ostrakon.__all__)))
def test_every_public_name_is_there_and_documented(name: str) -> None:
    assert len(inspect.getdoc(getattr(ostrakon, name)) or "") > 20


def lacking(thing: object) -> list[str]:
    """What the docstring of a function or a class does not say."""
    text = inspect.getdoc(thing) or ""
    if len(text) < 20:
        return ["a docstring"]
    if inspect.isclass(thing) and (inspect.isabstract(thing) or issubclass(thing, Exception)):
        return []
    names = [
        one.name
        for one in inspect.signature(thing).parameters.values()
        if one.name != "self" and one.kind is not one.VAR_KEYWORD
    ]
    return [f"the parameter {name}" for name in names if not re.search(rf"\b{name}\b", text)]


PUBLIC = {
    f"{room.__name__}.{name}": getattr(room, name)
    for room in (ostrakon, accounting, mechanisms)
    for name in room.__all__
    if inspect.isclass(getattr(room, name)) or inspect.isfunction(getattr(room, name))
}


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_the_docstring_of_a_public_name_tells_its_parameters(name: str) -> None:
    assert lacking(PUBLIC[name]) == []


MECHANISM_CLASSES = sorted(MECHANISMS.values(), key=lambda kind: kind.name)
PRICES = ["account", "calibrate", "choose_guarantee", "exact_curve", "gaussian_dp_delta", "gaussian_dp_epsilon"]
PRICES += ["data_dependent_costs", "published_curve", "pure_dp_epsilon", "run_epsilon", "worst_case"]
PRICES += ["Gate", "Sanitizer"]


@pytest.mark.parametrize(
    "thing", [*MECHANISM_CLASSES, *(getattr(accounting, name) for name in PRICES)], ids=lambda thing: thing.__name__
)
def test_what_prices_says_what_it_guarantees_and_refuses_and_where_it_comes_from(thing: type[Mechanism]) -> None:
    text = inspect.getdoc(thing) or ""
    parts = {"Guarantee": "Guarantee", "Raises": r"Raises\n-+|Errors:", "References": r"References\n-+|Source:"}
    assert [name for name, pattern in parts.items() if not re.search(pattern, text)] == []


def test_the_coverage_check_sees_what_is_missing() -> None:
    def bare(sigma: float, delta: float) -> float:
        """The epsilon of one query; sigma is the deviation of its noise."""
        return sigma * delta

    assert lacking(bare) == ["the parameter delta"]
    assert lacking(lambda: None) == ["a docstring"]
