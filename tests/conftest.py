"""Where the real data of the tests lies, and where their noise comes from."""

import gc
import os
import random
import secrets
import signal
import sys
import types
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

import s3_server

# One thread a process, before any library reads it: workers share the cores already, and a process that is forked from
# one whose OpenMP threads run waits for them for ever.
for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ[f"{library}_NUM_THREADS"] = "1"

try:
    import resource
except ImportError:  # as on Windows: tests that need something of it are skipped one by one
    resource = sys.modules["resource"] = types.ModuleType("resource")

DATA = Path(os.environ.get("OSTRAKON_DATA", Path(__file__).parents[2] / "shared" / "data"))


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real data (MNIST, Adult, published votes); tests skip where it is not."""
    if not (DATA / "votes").is_dir():
        pytest.skip(
            f"no real data: set OSTRAKON_DATA to the folder that holds mnist/, adult/ and votes/ (looked in {DATA})"
        )
    return DATA


class Entropy:
    """What `ostrakon.noise.secure_rng` gets for a key in a test: numbers that follow from the test's name.

    So a test of real noise that passes once passes always. Other processes have the operating system's entropy.
    """

    def __init__(self) -> None:
        self.process, self.system, self.draw = os.getpid(), secrets.randbits, random.Random(0)

    def randbits(self, bits: int) -> int:
        return self.draw.getrandbits(bits) if os.getpid() == self.process else self.system(bits)


ENTROPY = Entropy()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """No search for garbage while tests are collected, nor later among the million objects that are there then."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests first: at the end no process waits long for a file of another one."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.fixture(scope="session", autouse=True)
def no_waiting_for_disks() -> Generator[None]:
    """No test cuts the power: `os.fsync` only refuses files that are not open. Other processes wait for the disk."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", lambda file: os.fstat(file) and None)
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    # By the module: what its fixtures draw must not depend on which of its tests comes first.
    secrets.randbits = ENTROPY.randbits
    ENTROPY.draw = random.Random(item.nodeid.partition("::")[0])
    # A statement adds up all fits of a process; a test is taken for a process of its own.
    if (spending := sys.modules.get("ostrakon.run.spending")) is not None:
        spending._fits.clear()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    ENTROPY.draw = random.Random(item.nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call() -> Generator[None, object, object]:
    """A test that kills a process, or limits its files, is skipped where the system has no way to."""
    try:
        return (yield)
    except AttributeError as lack:
        if lack.obj in (os, signal, resource):
            pytest.skip(f"this system has no {lack.obj.__name__}.{lack.name}")
        raise


@pytest.fixture
def system_entropy() -> Callable[[int], int]:
    """What keys noise outside of tests."""
    return ENTROPY.system


@pytest.fixture(scope="module")
def few_orders() -> Generator[None]:
    """Gates are searched at eight Rényi orders instead of 24: a third of the time, a slightly larger epsilon."""
    from ostrakon.accounting.gate import search

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(search, "_ORDERS", search._ORDERS[::3])
        yield


@pytest.fixture
def small_encoders(monkeypatch: pytest.MonkeyPatch) -> None:
    """`patches` learns 20 atoms instead of 400, `contrastive` 32 features in two epochs instead of 512 in 60."""
    from ostrakon.features import representation
    from ostrakon.features.patches import PatchFeatures

    def contrastive() -> Any:
        from ostrakon.features.contrastive import ContrastiveEncoder

        return ContrastiveEncoder(width=2, epochs=2)

    monkeypatch.setattr(PatchFeatures.__init__, "__defaults__", (20, None))
    monkeypatch.setattr(representation, "_contrastive", contrastive)


bucket = pytest.fixture(s3_server.bucket)


@pytest.fixture(scope="module")
def no_comparison() -> Generator[None]:
    """A named student is not compared with the default one, which takes longer than the rest of a small fit."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("ostrakon.run.stages.student.compare_with_default", lambda *given: "")
        yield
