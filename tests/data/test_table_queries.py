"""Connections to DuckDB: one database a process, in which a query sees nothing of others."""

import os
import subprocess
import sys

import duckdb
import pandas as pd
import pytest

from ostrakon.data import queries
from ostrakon.data.queries import asking, connect
from ostrakon.validation import InvalidInput


def test_a_connection_sees_no_rows_of_another():
    first, second = connect(), connect()
    first.register("records", pd.DataFrame({"a": [1]}))
    first.execute("CREATE TEMP TABLE kept AS SELECT 2 AS b")
    for name in ("records", "kept"):
        assert len(first.execute(f"SELECT * FROM {name}").fetchall()) == 1
        with pytest.raises(duckdb.CatalogException):
            second.execute(f"SELECT * FROM {name}")
    first.close()
    second.close()


def test_nothing_is_written_to_disk():
    with asking("x.csv") as connection:
        settings = dict(connection.execute("SELECT name, value FROM duckdb_settings()").fetchall())
    assert settings["temp_directory"] == ""
    assert "statistics_propagation" in settings["disabled_optimizers"]


def test_settings_are_those_of_one_connection_alone():
    query = "SELECT current_setting('threads'), current_setting('preserve_insertion_order')"
    with asking("x.csv", threads=1, preserve_insertion_order="false") as alone, connect() as shared:
        assert alone.execute(query).fetchone() == (1, False)
        assert shared.execute(query).fetchone()[1]
        with pytest.raises(duckdb.InvalidInputException, match="locked"):
            shared.execute("SET preserve_insertion_order = false")


def test_a_database_that_failed_is_not_used_again():
    before = queries._database()
    with pytest.raises(InvalidInput, match="cannot be read"), asking("x.csv"):
        raise duckdb.InternalException("INTERNAL Error: broken")
    assert queries._database() is not before
    with pytest.raises(InvalidInput, match="cannot be read"), asking("x.csv") as connection:
        connection.execute("SELECT * FROM absent")
    assert queries._database() is queries._database()


FORK = """
import os
from ostrakon.data.queries import connect

def count():
    with connect() as connection:
        assert connection.execute("SELECT count(*) FROM range(3_000_000)").fetchone() == (3_000_000,)

count()
child = os.fork()
count()
assert not child or os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_asks_and_ends():
    # It has no threads of its parent's database, for which it would wait at its end.
    subprocess.run([sys.executable, "-c", FORK], check=True, timeout=60)
