"""One transaction of a ledger: the verified state, the entries, and how an entry is added."""

from collections.abc import Mapping
from typing import Any

from ostrakon.ledger.chain import Link, Tampered, first_hash, hashes_equal, next_link, older_copy, seal, verify_chain
from ostrakon.ledger.location import Head
from ostrakon.ledger.state import History, State, read_histories
from ostrakon.validation import InvalidInput

try:
    import sqlalchemy as sql
except ImportError as missing:
    raise InvalidInput("A ledger needs SQLAlchemy, which is not installed: pip install '.[ledger]'.") from missing

Last = tuple[int, str]
"""(sequence, hash) of the last entry; 0 and `first_hash` if there is none."""

_NUMBER = sql.BigInteger().with_variant(sql.Integer, "sqlite")
TABLES = sql.MetaData()
LEDGER = sql.Table(
    "ostrakon_ledger",
    TABLES,
    sql.Column("format", sql.Integer, primary_key=True, autoincrement=False),
    sql.Column("identity", sql.Text, nullable=False),
    sql.Column("key", sql.Text),
    sql.Column("sequence", _NUMBER, nullable=False),
    sql.Column("hash", sql.Text, nullable=False),
    sql.Column("state", sql.Text, nullable=False),
    sql.Column("seal", sql.Text, nullable=False),
)
ENTRIES = sql.Table(
    "ostrakon_entries",
    TABLES,
    sql.Column("sequence", _NUMBER, primary_key=True, autoincrement=False),
    sql.Column("run", sql.Text, index=True),
    sql.Column("content", sql.Text, nullable=False),
    sql.Column("hash", sql.Text, nullable=False),
)


class Turn:
    """One transaction: what all entries add up to, and the only way to add one.

    Parameters
    ----------
    connection : sqlalchemy.Connection
    where : str
        The ledger, for messages.
    identity : str
        Of the ledger.
    key : bytes
    last : tuple of (int, str)
        Sequence and hash of the last entry.
    state : State
        What all entries add up to, verified.
    """

    def __init__(
        self, connection: sql.Connection, *, where: str, identity: str, key: bytes, last: Last, state: State
    ) -> None:
        self._connection = connection
        self._where = where
        self._links: list[Link] | None = None
        self._added: list[Link] = []
        self._stored = last
        self.identity = identity
        self.key = key
        self.last = last
        self.state = state

    def links(self) -> list[Link]:
        """Return all entries, after verifying the whole chain and that they add up to the state."""
        if self._links is None:
            rows = self._connection.execute(sql.select(ENTRIES).order_by(ENTRIES.c.sequence)).all()
            links = [Link(row.sequence, row.content, row.hash) for row in rows]
            last = verify_chain(self.key, first_hash(self.key, self.identity), links, where=self._where)
            runs = [row.run for row in rows] == [_run_reserved(link.fields) for link in links]
            if not runs or (len(links), last) != self.last or State().with_entries(links) != self.state:
                raise Tampered(
                    f"{self._where} is not as it was written: its entries do not add up to what it says was spent; "
                    "restore it, and charge nothing to it until then."
                )
            self._links = links
        return self._links

    def histories(self) -> dict[str, History]:
        """Return all accounts with their runs, after verifying the whole chain."""
        return read_histories(self.state, self.links())

    def may_have(self, run: str) -> bool:
        """Return whether this run may have reserved. Only `histories` shows what it reserved."""
        rows = sql.select(ENTRIES.c.sequence).where(ENTRIES.c.run == run)
        return run in self.state.reserved or self._connection.execute(rows).first() is not None

    def append(self, content: dict[str, Any]) -> Link:
        """Add an entry. It is on the disk when the transaction is over."""
        sequence, last = self.last
        link = next_link(self.key, last, sequence + 1, content)
        row = {"sequence": link.sequence, "run": _run_reserved(content), "content": link.content, "hash": link.hash}
        self._connection.execute(sql.insert(ENTRIES).values(row))
        self._added.append(link)
        self.state, self.last, self._links = self.state.with_entries([link]), (link.sequence, link.hash), None
        return link

    def finish(self) -> None:
        """Store what all entries add up to now, if one was added.

        What was written is read back before the transaction is committed.

        Raises
        ------
        Tampered
            If the database holds something else, because of a trigger or a rule for example.
        """
        if self._added:
            text = self.state.as_text()
            sealed = seal_of(self.key, self.identity, self.last, text)
            now = {"sequence": self.last[0], "hash": self.last[1], "state": text, "seal": sealed}
            self._connection.execute(sql.update(LEDGER).values(now))
            if self._connection.dialect.name == "postgresql":
                # Triggers that wait for the end of the transaction do what they do now.
                self._connection.exec_driver_sql("SET CONSTRAINTS ALL IMMEDIATE")
            rows = [dict(row) for row in self._connection.execute(sql.select(LEDGER)).mappings()]
            if len(rows) != 1 or rows != [{**rows[0], "identity": self.identity, **now}] or not self._has_added():
                raise Tampered(
                    "The ledger's database does not keep what is written to it: something in it was changed."
                )

    def _has_added(self) -> bool:
        """Return whether the entries after the first state of this turn are those that it added."""
        since = sql.select(ENTRIES).where(ENTRIES.c.sequence > self._stored[0]).order_by(ENTRIES.c.sequence)
        stored = [Link(row.sequence, row.content, row.hash) for row in self._connection.execute(since)]
        return stored == self._added

    def require_head(self, head: Head) -> None:
        """Raise `Tampered` unless the ledger continues from the entry that the head has seen."""
        identity, sequence, seen = head.read(self.key)
        if (identity, sequence, seen) == (self.identity, *self.last):
            return
        if identity != self.identity or sequence > self.last[0]:
            raise older_copy(self._where, sequence, str(head.path))
        since = sql.select(ENTRIES).where(ENTRIES.c.sequence > sequence).order_by(ENTRIES.c.sequence)
        rows = self._connection.execute(since).all()
        links = (Link(row.sequence, row.content, row.hash) for row in rows)
        if verify_chain(self.key, seen, links, first=sequence + 1, where=self._where) != self.last[1]:
            raise older_copy(self._where, sequence, str(head.path))

    def require_seen(self, sequence: int, seen: str, *, by: str) -> None:
        """Raise `Tampered` unless the chain still has the entry that `by` has seen."""
        links = self.links()
        if not (0 < sequence <= len(links) and hashes_equal(links[sequence - 1].hash, seen)):
            raise older_copy(self._where, sequence, by)


def seal_of(key: bytes, identity: str, last: Last, state: str) -> str:
    """Return the keyed hash of a state and the last entry that it includes."""
    return seal(key, "state", identity, *last, state)


def _run_reserved(content: Mapping[str, Any]) -> str | None:
    return content["run"] if content["event"] == "reserve" else None
