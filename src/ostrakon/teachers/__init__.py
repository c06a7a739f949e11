"""Teachers: train an ensemble on the private shards, keep it, and collect its votes."""

from ostrakon.teachers.ensemble import Teachers, collect_votes, train_on_shards, train_teachers
from ostrakon.estimators.registry import SHORT_NAMES, make_estimator
from ostrakon.teachers.shards import ArrayShards, TableShards
from ostrakon.teachers.store import TeacherStore

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
