"""Private and public data: tables on disk, who teaches from which record, votes from files, data sets."""

from ostrakon.data.partition import assign_teachers, new_key, random_partition
from ostrakon.data.sharding import ShardFolder, partition_table
from ostrakon.data.sources import Table, open_table
from ostrakon.data.task import TableTask, open_task
from ostrakon.data.votes_file import load_votes

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
