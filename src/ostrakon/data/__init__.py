"""Private and public data: tables on disk, who teaches from which record, votes from files, data sets.

Each name below is loaded when it is first used: who reads votes from a `.npy` file needs no library of tables.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ostrakon.data.partition import assign_teachers, new_key, random_partition
    from ostrakon.data.sharding import ShardFolder, partition_table
    from ostrakon.data.sources import open_table
    from ostrakon.data.table import Table
    from ostrakon.data.task import TableTask, open_task
    from ostrakon.data.votes_file import load_votes

_HOME = {
    "ShardFolder": "sharding",
    "Table": "sources",
    "TableTask": "task",
    "assign_teachers": "partition",
    "load_votes": "votes_file",
    "new_key": "partition",
    "open_table": "sources",
    "open_task": "task",
    "partition_table": "sharding",
    "random_partition": "partition",
}

__all__ = [
    "ShardFolder",
    "Table",
    "TableTask",
    "assign_teachers",
    "load_votes",
    "new_key",
    "open_table",
    "open_task",
    "partition_table",
    "random_partition",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"ostrakon.data.{_HOME[name]}"), name)
    raise AttributeError(f"module 'ostrakon.data' has no attribute {name!r}")
