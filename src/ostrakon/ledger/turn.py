"""One writer's turn in a ledger: what all entries add up to, the entries themselves, and how one is added."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ostrakon.ledger.chain import Link, Tampered, beginning, equal, following, older, require_whole, seal
from ostrakon.ledger.place import Head
from ostrakon.ledger.state import History, State, histories
from ostrakon.validation import InvalidInput

try:
    import sqlalchemy as sql
except ImportError as missing:
    raise InvalidInput("A ledger needs SQLAlchemy, which is not installed: pip install ostrakon[ledger].") from missing

Last = tuple[int, str]
"""(sequence, hash) of the last entry; 0 and `beginning` where there is none."""

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
    """One writer's turn: what all entries add up to, as it is now, and the one way to add to them."""

    def __init__(
        self, connection: sql.Connection, *, where: str, identity: str, key: bytes, last: Last, state: State
    ) -> None:
        self._connection = connection
        self._where = where
        self._links: list[Link] | None = None
        self._stored = last
        self.identity = identity
        self.key = key
        self.last = last
        self.state = state

    def links(self) -> list[Link]:
        """All entries, after the whole chain was verified, and that they add up to the state."""
        if self._links is None:
            rows = self._connection.execute(sql.select(ENTRIES).order_by(ENTRIES.c.sequence)).all()
            links = [Link(row.sequence, row.content, row.hash) for row in rows]
            last = require_whole(self.key, beginning(self.key, self.identity), links, where=self._where)
            runs = [row.run for row in rows] == [_run_reserved(link.fields) for link in links]
            if not runs or (len(links), last) != self.last or State().after(links) != self.state:
                raise Tampered(
                    f"{self._where} is not as it was written: its entries do not add up to what it says was spent; "
                    "restore it, and charge nothing to it until then."
                )
            self._links = links
        return self._links

    def histories(self) -> dict[str, History]:
        """All accounts with their runs, after the whole chain was verified."""
        return histories(self.state, self.links())

    def knows(self, run: str) -> bool:
        """Whether an entry of this run's reservation may be there; what it says is to be read in `histories`."""
        rows = sql.select(ENTRIES.c.sequence).where(ENTRIES.c.run == run)
        return run in self.state.reserved or self._connection.execute(rows).first() is not None

    def append(self, content: dict[str, Any]) -> Link:
        """Add an entry; on the disk when the turn is over."""
        sequence, last = self.last
        link = following(self.key, last, sequence + 1, content)
        row = {"sequence": link.sequence, "run": _run_reserved(content), "content": link.content, "hash": link.hash}
        self._connection.execute(sql.insert(ENTRIES).values(row))
        stored = sql.select(ENTRIES).where(ENTRIES.c.sequence == link.sequence)
        held = self._connection.execute(stored).one_or_none()
        if held is None or (held.content, held.hash) != (link.content, link.hash):
            raise Tampered("The ledger's database does not keep what is written to it: something in it was changed.")
        self.state, self.last, self._links = self.state.after([link]), (link.sequence, link.hash), None
        return link

    def finish(self) -> None:
        """Store what all entries add up to now, where something was added."""
        if self.last != self._stored:
            text = self.state.as_text()
            sealed = seal_of(self.key, self.identity, self.last, text)
            now = {"sequence": self.last[0], "hash": self.last[1], "state": text, "seal": sealed}
            self._connection.execute(sql.update(LEDGER).values(now))

    def require_head(self, head: Head) -> None:
        """`Tampered` unless the ledger goes on from the entry that the file beside it has seen."""
        identity, sequence, seen = head.read(self.key)
        if (identity, sequence, seen) == (self.identity, *self.last):
            return
        if identity != self.identity or sequence > self.last[0]:
            raise older(self._where, sequence, str(head.path))
        since = sql.select(ENTRIES).where(ENTRIES.c.sequence > sequence).order_by(ENTRIES.c.sequence)
        rows = self._connection.execute(since).all()
        links = (Link(row.sequence, row.content, row.hash) for row in rows)
        if require_whole(self.key, seen, links, first=sequence + 1, where=self._where) != self.last[1]:
            raise older(self._where, sequence, str(head.path))

    def require_seen(self, sequence: int, seen: str, *, by: str) -> None:
        """`Tampered` unless the chain still holds the entry that `by` has seen before."""
        links = self.links()
        if not (0 < sequence <= len(links) and equal(links[sequence - 1].hash, seen)):
            raise older(self._where, sequence, by)


def seal_of(key: bytes, identity: str, last: Last, state: str) -> str:
    return seal(key, "state", identity, *last, state)


def _run_reserved(content: Mapping[str, Any]) -> str | None:
    return content["run"] if content["event"] == "reserve" else None
