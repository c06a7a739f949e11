"""Teachers: train an ensemble on the private shards, keep it, and collect its votes."""

from ostrakon.teachers.ensemble import Teachers, collect_votes, train_on_shards, train_teachers
from ostrakon.teachers.shards import ArrayShards, TableShards
from ostrakon.teachers.store import TeacherStore

__all__ = [
    "ArrayShards",
    "TableShards",
    "TeacherStore",
    "Teachers",
    "collect_votes",
    "train_on_shards",
    "train_teachers",
]
