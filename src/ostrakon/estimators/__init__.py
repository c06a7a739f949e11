"""The short names of all teachers and students."""

from ostrakon.estimators.choices import make_student, make_teacher
from ostrakon.estimators.registry import SHORT_NAMES, make_estimator

__all__ = ["SHORT_NAMES", "make_estimator", "make_student", "make_teacher"]
