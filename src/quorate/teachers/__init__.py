"""Teachers: train an ensemble on the private shards, keep it, and collect its votes."""

from quorate.teachers.ensemble import Teachers, collect_votes, train_on_shards, train_teachers
from quorate.teachers.registry import SHORT_NAMES, make_estimator
from quorate.teachers.shards import ArrayShards, TableShards
from quorate.teachers.store import TeacherStore

__all__ = [
    "SHORT_NAMES",
    "ArrayShards",
    "TableShards",
    "TeacherStore",
    "Teachers",
    "collect_votes",
    "make_estimator",
    "train_on_shards",
    "train_teachers",
]
