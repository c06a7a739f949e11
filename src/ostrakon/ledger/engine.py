"""The database engines of a ledger: how SQLite and PostgreSQL begin a transaction, and which errors are tried again."""

from __future__ import annotations

from typing import Any

from ostrakon.validation import InvalidInput

try:
    import sqlalchemy as sql
    from sqlalchemy import event, exc
    from sqlalchemy.pool import NullPool
except ImportError as missing:
    raise InvalidInput("A ledger needs SQLAlchemy, which is not installed: pip install ostrakon[ledger].") from missing

PATIENCE = 120
"""Seconds that a writer waits for its turn."""


_BROKEN_OFF = {"40001", "40P01", "57P01", "57P02", "57P03", "08000", "08003", "08006"}
"""Of PostgreSQL: serialization failure, deadlock, shutdown, crash, start, lost connection."""


def may_be_tried_again(error: exc.SQLAlchemyError) -> bool:
    """Whether the transaction was broken off by what need not happen again: others' transactions, a lost connection.

    Trying again is safe even where the commit was reached: every call of a ledger finds what it has written before.
    """
    if not isinstance(error, exc.DBAPIError):
        return False
    return error.connection_invalidated or getattr(error.orig, "sqlstate", None) in _BROKEN_OFF


def _postgresql(url: str) -> sql.Engine:
    try:
        engine = sql.create_engine(
            url.replace("postgresql://", "postgresql+psycopg://", 1),
            poolclass=NullPool,
            connect_args={"connect_timeout": PATIENCE},
            # Whatever the server's default: after the row is locked, entries are read as they then are.
            isolation_level="READ COMMITTED",
        )
    except ImportError as missing:
        raise InvalidInput(
            "A ledger on PostgreSQL needs psycopg, which is not installed: pip install ostrakon[postgresql]."
        ) from missing

    @event.listens_for(engine, "begin")
    def begun(connection: sql.Connection) -> None:
        # A writer that stands still gives its turn back; what was committed is on the disk.
        connection.exec_driver_sql(
            f"SELECT set_config('lock_timeout', '{PATIENCE}s', true), "
            f"set_config('idle_in_transaction_session_timeout', '{PATIENCE}s', true), "
            "CASE WHEN current_setting('synchronous_commit') = 'off' "
            "THEN set_config('synchronous_commit', 'on', true) END"
        )

    del begun
    return engine


def engine_of(url: str) -> sql.Engine:
    if not url.startswith("sqlite"):
        return _postgresql(url)
    engine = sql.create_engine(url, poolclass=NullPool, connect_args={"timeout": PATIENCE})

    @event.listens_for(engine, "connect")
    def connected(connection: Any, _: Any) -> None:
        # Python's driver would begin late, after what was read is no longer so.
        connection.isolation_level = None
        connection.execute("PRAGMA synchronous = EXTRA")

    @event.listens_for(engine, "begin")
    def begun(connection: sql.Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    del connected, begun
    return engine


def reason_of(error: exc.SQLAlchemyError) -> str:
    text = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
    return "the disk is full" if "full" in text or "disk I/O" in text else text.rstrip(".")
